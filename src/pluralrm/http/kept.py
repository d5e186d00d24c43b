"""Where replies are looked up before a server is asked: a cassette first, then the cache."""

from collections.abc import Iterable
from pathlib import Path

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http.cache import ReplyCache
from pluralrm.http.calls import Call
from pluralrm.http.cassette import Cassette, recorder


class Kept:
    """The cassette and the cache of a service; either may be missing. Whatever is handed out is on the cassette."""

    def __init__(self, *, cache: Path | None, record: Path | None, replay: Path | None) -> None:
        if record and replay:
            raise ServiceError("a run either records or replays; found both")
        self._cache = ReplyCache(cache) if cache and not replay else None
        self._cassette: Cassette | None = None
        if record or replay:
            self._cassette = Cassette(replay, "replay") if replay else recorder(record or Path())

    @property
    def any(self) -> bool:
        """True where replies are kept, so that equal requests share one."""
        return self._cache is not None or self._cassette is not None

    @property
    def places(self) -> str:
        """Name the files that replies are kept in."""
        return " or ".join(str(kept.path) for kept in (self._cassette, self._cache) if kept is not None)

    @property
    def replaying(self) -> bool:
        """True where no server may be asked."""
        return self._cassette is not None and self._cassette.replaying

    def get(self, call: Call, key: str, request: dict[str, object]) -> object | None:
        """Return the reply that is kept, a Failure where its text was too long, or None."""
        reply = self._cassette.get(key) if self._cassette else None
        if reply is None and self._cache is not None and not call.fresh:
            reply = self._cache.get(key)
            if reply is not None and self._cassette is not None:
                reply = self._cassette.add(key, request, reply)
        return reply

    def put(self, call: Call, key: str, request: dict[str, object], reply: object) -> object:
        """Keep a reply and return what is kept under its key."""
        if self._cache is not None and not call.fresh:
            reply = self._cache.put(key, reply)
        if self._cassette is not None:
            reply = self._cassette.add(key, request, reply)
        return reply

    def refuse(self, key: str, request: dict[str, object], refusal: Failure) -> object:
        """Record that a text was too long, and return what is recorded; no cache keeps it: servers get more room."""
        return self._cassette.add(key, request, refusal) if self._cassette else refusal

    def forget(self, keys: Iterable[str]) -> bool:
        """Remove replies from the cache; return False where a recording holds them too, from which nothing goes."""
        if self._cache is not None:
            self._cache.forget(keys)
        return self._cassette is None

    def missing(self, request: dict[str, object]) -> str:
        """Return why a replay cannot answer a request."""
        return self._cassette.missing(request) if self._cassette else ""

    def close(self) -> None:
        """Close both files."""
        if self._cache is not None:
            self._cache.close()
        if self._cassette is not None:
            self._cassette.close()

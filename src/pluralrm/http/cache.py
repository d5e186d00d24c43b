"""Stored replies, under a key of everything that shapes them: a cassette is looked up first, then the SQLite cache."""

import fcntl
import json
import re
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http.calls import Call
from pluralrm.http.cassette import Cassette, recorder

_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""


class ReplyCache:
    """Replies by key in one SQLite file (WAL) that several processes may share; used from one thread.

    Only what a server said with HTTP 200 and in the form that the protocol promises gets here; failures never do.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "replies.sqlite"
        self._database: sqlite3.Connection | None = None

    def get(self, key: str) -> object | None:
        """Return the kept reply, or None."""
        try:
            row = self._open().execute("SELECT reply FROM replies WHERE key = ?", (bytes.fromhex(key),)).fetchone()
        except sqlite3.Error as exc:
            raise self._unusable(exc) from exc
        return None if row is None else self._read(row[0])

    def put(self, key: str, reply: object) -> object:
        """Keep a reply and return what is kept: where another process was first, its reply, so that both agree."""
        try:
            row = (bytes.fromhex(key), _sealed(json.dumps(reply)))
            if self._open().execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", row).rowcount:
                return reply
        except sqlite3.Error as exc:
            raise self._unusable(exc) from exc
        return self.get(key)

    def forget(self, keys: Iterable[str]) -> None:
        """Remove what is kept under some keys."""
        try:
            self._open().executemany("DELETE FROM replies WHERE key = ?", ((bytes.fromhex(key),) for key in keys))
        except sqlite3.Error as exc:
            raise self._unusable(exc) from exc

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                # Two processes that turn a new file to WAL at once lock each other out, and SQLite does not wait then.
                with self.path.with_suffix(".lock").open("w") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    self._database = self._connected()
            except OSError as exc:
                raise self._unusable(exc) from exc
        return self._database

    def _connected(self) -> sqlite3.Connection:
        # Every reply is its own transaction: a killed process loses none that had arrived.
        database = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")  # a power cut costs the last replies, never the file
            database.execute("CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, reply TEXT NOT NULL)")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _read(self, text: str) -> object:
        try:
            value: object = json.loads(_unsealed(text))
        except ValueError as exc:
            raise self._unusable(exc) from exc
        return value

    def _unusable(self, exc: Exception) -> ServiceError:
        return ServiceError(
            f"cannot use the cache of replies {str(self.path)!r} ({exc}). Remove the file, or name another folder"
        )


_SEAL = re.compile(r" #([0-9a-f]{8})\Z")


def _sealed(text: str) -> str:
    """Return the text with a check of it behind: SQLite has none of what it keeps."""
    return f"{text} #{zlib.crc32(text.encode()):08x}"


def _unsealed(text: str) -> str:
    """Return the text without its check; ValueError where it is another text. Replies of before have no check."""
    found = _SEAL.search(text)
    if found is None:
        return text
    plain = text[: found.start()]
    if _sealed(plain) != text:
        raise ValueError("a reply is not as it was kept")
    return plain


class ReplyStore:
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

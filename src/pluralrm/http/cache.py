"""Stored replies, under a key of everything that shapes them: a cassette is looked up first, then the SQLite cache.

A cassette is a JSONL file of requests and replies, so that a study can be re-run without a server and without a key:

{"request": {"schema", "url", "body", "marks"}, "reply": ...}      one line each; no header and no key is ever in it
{"request": {...}, "too_long": "HTTP 400: ..."}                    the one failure that is recorded: the text's own

Each line carries a check of its text as its last member, but for those of before and the shipped ones.
"""

import fcntl
import json
import re
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

from pluralrm.core import Failure
from pluralrm.digests import digest
from pluralrm.errors import ServiceError
from pluralrm.http.calls import Call
from pluralrm.journal import sealed_line, unsealed_line

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
    match = _SEAL.search(text)
    if match is None:
        return text
    plain = text[: match.start()]
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
        return " or ".join(str(store.path) for store in (self._cassette, self._cache) if store is not None)

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


# ---------------------------------------------------------------- cassettes

Leaves = dict[str, str]
"""The values of a nested structure, as JSON, by where they stand: `body.messages[1].content`."""

_AROUND = 24
"""Characters shown on either side of where two texts part."""


def request_leaves(value: object, path: str = "") -> Leaves:
    """Return every value that does not hold others."""
    parts: list[tuple[str, object]] = []
    if isinstance(value, Mapping):
        parts = [(f"{path}.{name}".lstrip("."), part) for name, part in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    if not parts:
        return {path: json.dumps(value, ensure_ascii=False)}
    return {path: leaf for inner, part in parts for path, leaf in request_leaves(part, inner).items()}


def distance(sent: Leaves, stored: Leaves) -> tuple[int, int]:
    """Return in how many places two requests differ, and minus how far the differing texts agree."""
    places = _places(sent, stored)
    return len(places), -sum(_parting(sent.get(path, ""), stored.get(path, "")) for path in places)


def difference(sent: Leaves, stored: Leaves) -> str:
    """Return where two requests first differ and how, and how many places differ in all."""
    places = _places(sent, stored)
    if not places:
        return "in how its fields are nested"
    path = places[0]
    if path not in stored:
        what = f"has no {path}, asked was {_cut(sent[path], 0)}"
    elif path not in sent:
        what = f"has {path} = {_cut(stored[path], 0)}, not asked for"
    else:
        start = _parting(sent[path], stored[path])
        what = f"{path} is {_cut(stored[path], start)}, asked was {_cut(sent[path], start)}"
    return what if len(places) == 1 else f"{what} (and in {len(places) - 1} more)"


def _places(sent: Leaves, stored: Leaves) -> list[str]:
    return [path for path in {**sent, **stored} if sent.get(path) != stored.get(path)]


def _parting(first: str, other: str) -> int:
    """Return how many characters two texts share at their beginning."""
    low, high = 0, min(len(first), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _cut(text: str, start: int) -> str:
    first, last = max(0, start - _AROUND), start + _AROUND
    return f"{'...' * (first > 0)}{text[first:last]}{'...' * (last < len(text))}"


_MEMBERS = ({"request", "reply"}, {"request", "too_long"})
_EXPLAINED = 3
"""Misses that are compared with the whole cassette; after these the cause is known, and a comparison is slow."""


_shared: dict[Path, "Cassette"] = {}
_sharing = threading.RLock()  # a service may end, and close its cassette, while its thread opens another


def recorder(path: Path) -> "Cassette":
    """Return the cassette that is recorded there, which the services of a process share; close it once for each."""
    file = path.resolve()
    with _sharing:
        if file not in _shared:
            _shared[file] = Cassette(path, "record")
        _shared[file].users += 1
        return _shared[file]


class Cassette:
    """An open cassette. Replies are read from the file when they are asked for, so a long one takes little memory."""

    def __init__(self, path: Path, mode: Literal["record", "replay"]) -> None:
        self.path = path
        self.replaying = mode == "replay"
        self._places: dict[str, int] = {}
        self._missed = 0
        self._turn = threading.Lock()
        self.users = 0
        self._file = self._open()
        try:
            self._end = self._index()
        except BaseException:
            self._file.close()
            raise

    def get(self, key: str) -> object | None:
        """Return the recorded reply to the request with that key, a Failure where its text was too long, or None."""
        with self._turn:
            offset = self._places.get(key)
            return None if offset is None else _reply_in(self._line(offset))

    def add(self, key: str, request: dict[str, object], reply: object) -> object:
        """Record a reply, or that a text was too long, and return what is recorded: what a request has, it keeps."""
        with self._turn:
            if (offset := self._places.get(key)) is not None:
                return _reply_in(self._line(offset))
            self._append(key, request, reply)
        return reply

    def _append(self, key: str, request: dict[str, object], reply: object) -> None:
        outcome = {"too_long": reply.detail} if isinstance(reply, Failure) else {"reply": reply}
        line = f"{sealed_line(json.dumps({'request': request, **outcome}))}\n".encode()
        try:
            self._file.seek(self._end)
            self._file.write(line)
            self._file.flush()
        except OSError as exc:
            raise self._unusable(exc) from exc
        self._places[key] = self._end
        self._end += len(line)

    def missing(self, request: dict[str, object]) -> str:
        """Return why a request has no reply: how the closest recorded one differs."""
        self._missed += 1
        if not self._places:
            return f"{self.path} holds no request at all"
        if self._missed > _EXPLAINED:
            return f"not on {self.path}, like the requests before it"
        sent = request_leaves(request)
        recorded = (request_leaves(self._line(offset)["request"]) for offset in self._places.values())
        closest = min(recorded, key=lambda leaves: distance(sent, leaves))
        return f"not on {self.path}; the closest request there differs: {difference(sent, closest)}"

    def close(self) -> None:
        """Close the file, unless another recorder uses it."""
        with _sharing:
            self.users -= 1
            if self.users <= 0:
                # A line that did not fit was told of when it was written; closing tries it once more.
                with suppress(OSError):
                    self._file.close()
                if not self.replaying:
                    _shared.pop(self.path.resolve(), None)

    def _open(self) -> BinaryIO:
        try:
            if self.replaying:
                return self.path.open("rb")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            file = self.path.open("r+b")
        except OSError as exc:
            raise self._unusable(exc) from exc
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            file.close()
            raise ServiceError(f"{self.path}: another process is recording on it; name another file") from exc
        return file

    def _index(self) -> int:
        """Find every request, drop a torn last line where we record, and return where the next line goes."""
        end = 0
        for number, line in enumerate(self._complete_lines(), 1):
            try:
                record = json.loads(unsealed_line(line))
                key = digest(record["request"])
                valid = record.keys() in _MEMBERS
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
                raise self._no_line(number, line, exc) from exc
            if not valid:
                raise self._no_line(number, line)
            self._places.setdefault(key, end)
            end += len(line)
        if not self.replaying:
            self._file.truncate(end)
        return end

    def _no_line(self, number: int, line: bytes, why: Exception | None = None) -> ServiceError:
        usage = '{"request": {...}, "reply": ...}'
        reason = f" ({why})" if isinstance(why, ValueError) else ""
        return ServiceError(f"{self.path}:{number}: found {line[:60]!r}, wanted {usage}{reason}")

    def _complete_lines(self) -> Iterator[bytes]:
        return (line for line in self._file if line.endswith(b"\n"))

    def _line(self, offset: int) -> dict[str, object]:
        self._file.seek(offset)
        line: dict[str, object] = json.loads(unsealed_line(self._file.readline()))
        return line

    def _unusable(self, exc: OSError) -> ServiceError:
        return ServiceError(f"cannot use the cassette {str(self.path)!r}: {exc.strerror}")


def _reply_in(line: dict[str, object]) -> object:
    return Failure("too_long", str(line["too_long"])) if "too_long" in line else line["reply"]

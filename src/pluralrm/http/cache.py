"""Replies kept on disk under a key of everything that shapes them, so that nothing is paid for twice."""

import fcntl
import json
import re
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path

from pluralrm.errors import ServiceError

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

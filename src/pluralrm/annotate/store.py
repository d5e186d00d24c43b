"""What annotators said and the hashes of their tokens, in one SQLite file: on disk before it is acknowledged.

Submissions are appended, never changed. One has an id that the page made: sent twice, it is kept once. A later opinion
on the same item is a new row with the next revision number; a trigger in the file refuses every change and deletion.
"""

import hashlib
import hmac
import json
import secrets
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from pluralrm.errors import RunError

FILE = "judgments.sqlite"
StoredAs = Literal["kept", "again", "stale", "reused"]
"""Kept now; kept before, under this id; not the next revision of the item; an id that was used for something else."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS keys (owner TEXT PRIMARY KEY, hash BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS submissions (
    number INTEGER PRIMARY KEY,
    annotator TEXT NOT NULL,
    id TEXT NOT NULL,
    item TEXT NOT NULL,
    revision INTEGER NOT NULL,
    answers TEXT NOT NULL,
    seconds REAL NOT NULL,
    at TEXT NOT NULL,
    seal INTEGER,
    UNIQUE (annotator, id),
    UNIQUE (annotator, item, revision)
);
CREATE TRIGGER IF NOT EXISTS no_change BEFORE UPDATE ON submissions
    BEGIN SELECT RAISE(ABORT, 'submissions are appended, never changed'); END;
CREATE TRIGGER IF NOT EXISTS no_removal BEFORE DELETE ON submissions
    BEGIN SELECT RAISE(ABORT, 'submissions are appended, never removed'); END;
"""


_COLUMNS = "number, annotator, id, item, revision, answers, seconds, at, seal"


class Submission(NamedTuple):
    """What one annotator sent about one item: `answers` is JSON, `revision` counts from 1, `at` is when it came."""

    annotator: str
    id: str
    item: str
    revision: int
    answers: str
    seconds: float
    at: str = ""


class Store:
    """The file of one plan, open. Any thread may call; the server that holds it is the only one."""

    def __init__(self, folder: Path, plan: str) -> None:
        self._file, self._lock = folder / FILE, Lock()
        try:
            self._file.touch(mode=0o600)  # SQLite gives the files beside it the same mode
            self._database = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")  # an acknowledged judgment outlives a power cut too
            self._database.executescript(_SCHEMA)
            if not _sealing(self._database):
                self._database.execute("ALTER TABLE submissions ADD COLUMN seal INTEGER")  # of before: none is checked
            self._database.execute("INSERT OR IGNORE INTO facts VALUES ('plan', ?)", (plan,))
            plan_hash = _plan_of(self._database)
            _require_whole(self._database)
        except (OSError, sqlite3.Error) as exc:
            raise RunError(
                f"cannot use {str(self._file)!r}: {exc}. Is it a file of 'pluralrm annotate serve'?"
            ) from exc
        if plan_hash != plan:
            self.close()
            raise _of_another(self._file, plan_hash, plan)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # ------------------------------------------------------------ keys

    def keys(self) -> dict[str, bytes]:
        """Return the hash of every owner's token."""
        with self._lock:
            return dict(self._database.execute("SELECT owner, hash FROM keys").fetchall())

    def set_keys(self, hashes: Mapping[str, bytes]) -> None:
        """Give owners new tokens; their old ones are worth nothing from now on."""
        with self._lock, self._transaction():
            self._database.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?)", list(hashes.items()))

    # ------------------------------------------------------------ submissions

    def add(self, submission: Submission) -> StoredAs:
        """Keep a submission, and return when it is on disk; one that was kept already is not kept again."""
        with self._lock, self._transaction():
            row = self._database.execute(
                f"SELECT {_COLUMNS} FROM submissions WHERE annotator = ? AND id = ?",  # noqa: S608 - names only
                (submission.annotator, submission.id),
            ).fetchone()
            if row is not None:
                same = _submission(row)._replace(seconds=submission.seconds, at=submission.at) == submission
                return "again" if same else "reused"
            if submission.revision != self._revision(submission.annotator, submission.item) + 1:
                return "stale"
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            row = submission._replace(at=at)
            sealed = (None, *row, _seal(row))
            self._database.execute(f"INSERT INTO submissions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", sealed)  # noqa: S608 - names only
            return "kept"

    def latest(self, annotator: str) -> dict[str, Submission]:
        """Return what stands of one annotator: the last revision of each item judged."""
        with self._lock:
            rows = self._database.execute(
                f"SELECT {_COLUMNS} FROM submissions WHERE annotator = ? ORDER BY number",  # noqa: S608 - names only
                (annotator,),
            ).fetchall()
        return {submission.item: submission for submission in map(_submission, rows)}

    def every(self) -> list[Submission]:
        """Return all that was ever kept, in the order in which it came."""
        with self._lock:
            return _every(self._database)

    def _revision(self, annotator: str, item: str) -> int:
        revision = self._database.execute(
            "SELECT MAX(revision) FROM submissions WHERE annotator = ? AND item = ?", (annotator, item)
        ).fetchone()[0]
        return int(revision or 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def read_submissions(folder: Path, plan: str = "") -> list[Submission]:
    """Return all that was kept in a plan's folder, also while a server runs; none where no one has begun.

    With the hash of a plan, judgments of any other plan are refused.
    """
    file = folder / FILE
    if not file.exists():
        return []
    try:
        database = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        try:
            if plan and (plan_hash := _plan_of(database)) != plan:
                raise _of_another(file, plan_hash, plan)
            _require_whole(database)
            return _every(database)
        finally:
            database.close()
    except sqlite3.Error as exc:
        raise RunError(f"cannot read {str(file)!r}: {exc}. Is it a file of 'pluralrm annotate serve'?") from exc


def _plan_of(database: sqlite3.Connection) -> str:
    row = database.execute("SELECT value FROM facts WHERE name = 'plan'").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it does not say of which plan it is")
    return str(row[0])


def _of_another(file: Path, plan_hash: str, plan: str) -> RunError:
    return RunError(
        f"{str(file)!r} holds judgments of another plan ({plan_hash[:12]}, not {plan[:12]}): the plan's files "
        "were changed after people began. Put the old files back, or serve the new plan from a new folder"
    )


def _sealing(database: sqlite3.Connection) -> bool:
    return any(column[1] == "seal" for column in database.execute("PRAGMA table_info(submissions)"))


def _every(database: sqlite3.Connection) -> list[Submission]:
    columns = _COLUMNS if _sealing(database) else _COLUMNS.replace("seal", "NULL")
    rows = database.execute(f"SELECT {columns} FROM submissions ORDER BY number")  # noqa: S608 - names only
    return [_submission(row) for row in rows]


def _submission(row: tuple[int, str, str, str, int, str, float, str, int | None]) -> Submission:
    number, *parts, seal = row
    submission = Submission(*parts)  # type: ignore[arg-type] # the columns between
    if seal is not None and seal != _seal(submission):
        raise sqlite3.DatabaseError(f"submission {number} is not as it was kept")
    return submission


def _seal(submission: Submission) -> int:
    """Return the check of a submission: SQLite has none of what it keeps."""
    return zlib.crc32(json.dumps(submission).encode())


def _require_whole(database: sqlite3.Connection) -> None:
    """Raise where pages of the file contradict each other, so that rows may be gone, or rows have gaps."""
    check = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if check != "ok":
        raise sqlite3.DatabaseError(" ".join(check.split()))
    count, last = database.execute("SELECT COUNT(*), COALESCE(MAX(number), 0) FROM submissions").fetchone()
    if count != last:
        raise sqlite3.DatabaseError(f"it holds {count} of {last} submissions")


# ---------------------------------------------------------------- tokens

ADMIN = "admin"
"""Whose token opens the page of progress and the export; no annotator's does."""
_BYTES = 32


def new_token() -> str:
    """Return 256 random bits in letters that a link takes: beyond guessing, so a plain hash keeps them safe."""
    return secrets.token_urlsafe(_BYTES)


def token_hash(token: str) -> bytes:
    """Return the SHA-256 of a token, all that is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def owner(hashes: Mapping[str, bytes], token: str) -> str | None:
    """Return whose token this is, or None. Every hash is compared, whole: how long it takes says nothing.

    >>> token = new_token()
    >>> owner({"ann": token_hash(token)}, token)
    'ann'
    >>> owner({"ann": token_hash(token)}, token[:-1]) is None
    True
    """
    own_hash, holder = token_hash(token), None
    for name, expected in hashes.items():
        if hmac.compare_digest(own_hash, expected):
            holder = name
    return holder


def key_of(annotator: str) -> str:
    """Return under which name an annotator's token is kept: none is the admin's, whatever an annotator is called."""
    return f"annotator:{annotator}"


def annotator_of(key: str) -> str | None:
    """Return whose key this is, or None for the admin's."""
    return key.removeprefix("annotator:") if key != ADMIN else None

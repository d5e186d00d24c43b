"""Grades on disk, beside the pool: every different (item, answer) is graded at most once by each grader.

grades/<grader>-<hash8>/grader.json    who graded: spec, model and server, template, settings
grades/<grader>-<hash8>/grades.jsonl   one line per item and answer: grade or failure, points, all that was said

An answer is kept under the SHA-256 of its text in UTF-8. Folders of before have that of the text as JSON: they are read
as they are, and written anew before a grade is added.

The hash covers all that shapes a grade, so that another template or temperature is another grader. A torn last line is
dropped on opening, nothing else is. What met an outage is not written, and is asked for again.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from pluralrm.core import Failure, FailureKind, digest
from pluralrm.errors import PoolError
from pluralrm.files import append, drop_torn_line, lock_folder, replace_file
from pluralrm.grading import Grade, Graded, Grader
from pluralrm.journal import parse_document, parse_line, sealed, sealed_line
from pluralrm.policies.pool import Pool, read_samples
from pluralrm.runs.loop import slug

_FOLDER, _GRADER, _GRADES = "grades", "grader.json", "grades.jsonl"
_CHUNK, _SECONDS = 64, 2.0
"""Grades wait for the disk until so many are together, or so long; replies are kept as they come, in the cache."""

MOST_UNGRADED = 0.5
"""Share of answers without a grade beyond which a pool, or a training, says so at once."""

Key = tuple[str, str]
"""An item's id, and the SHA-256 of an answer's text."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _FailureRecord(_Strict):
    failure: FailureKind
    detail: str


class _GradeRecord(_Strict):
    """One line of grades.jsonl; a grade is a share, or says why there is none."""

    item: str
    answer: str
    grade: Annotated[float, Field(ge=0, le=1)] | _FailureRecord
    points: tuple[int, ...]
    said: tuple[str, ...]


class GradesFile(_Strict):
    """A file that grades were read from, and what 0 and 1 are in it."""

    name: str
    sha256: str
    low: float
    high: float


class GraderRecord(_Strict):
    """grader.json: who graded."""

    spec: str
    model: str
    identity: dict[str, str]
    hashed: Literal["json", "text"] = "json"
    """What of an answer is hashed in grades.jsonl: its text, or (in folders of before) its text as JSON."""
    files: tuple[GradesFile, ...] = ()


Record = TypeVar("Record", bound=BaseModel)


def key(item: str, text: str) -> Key:
    """Return what a grade is kept under."""
    return item, _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def ungraded_told(failures: Mapping[str, int], answers: int, what: str, *, most: float = MOST_UNGRADED) -> str:
    """Return what is said where more than a share of answers has no grade, by kind; nothing elsewhere.

    >>> ungraded_told({"parse": 2, "unsupported": 30}, 48, "answers")
    '32 of 48 answers have no grade (unsupported 30, parse 2), more than 50%: what they say cannot be measured'
    """
    failed = sum(failures.values())
    if failed <= most * answers:
        return ""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(failures.items(), key=lambda one: -one[1]))
    return (
        f"{failed} of {answers} {what} have no grade ({kinds}), more than {most:.0%}: what they say cannot be measured"
    )


class GradeFolder:
    """The grades of one pool by one grader, open for writing by one process; `source` is a file that they come from."""

    def __init__(self, pool: Pool, grader: Grader, source: GradesFile | None = None) -> None:
        facts = dict(grader.identity)
        self._record = GraderRecord(spec=grader.spec, model=grader.model, identity=facts, hashed="text")
        self._source = source
        self.path = grade_folder(pool, grader)
        self.grades: dict[Key, Grade] = {}
        self._lines: list[str] = []
        self._synced = time.monotonic()
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self._lock = lock_folder(self.path)
            drop_torn_line(self.path / _GRADES)
            _hash_texts(self.path)
            replace_file(self.path / _GRADER, _document(self._with_files()))
        except BlockingIOError as exc:
            raise PoolError(f"{self.path}: another process is grading; wait for it or stop it") from exc
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc
        self.grades = read_grades(self.path)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if not isinstance(exc, PoolError):  # a disk that refused once is not asked again
                self.sync()
        finally:
            if self._lock is not None:
                os.close(self._lock)

    def _with_files(self) -> GraderRecord:
        """Return the record with the files that grades were read from, this one included."""
        earlier = _record(self.path)
        files = () if earlier is None else earlier.files
        more = () if self._source is None or self._source in files else (self._source,)
        return self._record.model_copy(update={"files": files + more})

    def add(self, graded: Graded) -> None:
        """Take one grade; it is on disk at the next sync."""
        found = key(graded.item, graded.text)
        if found in self.grades:
            raise PoolError(f"{self.path}: an answer to item {graded.item!r} was graded twice")
        self.grades[found] = graded.grade
        self._lines.append(_line(graded))
        if len(self._lines) >= _CHUNK or time.monotonic() - self._synced >= _SECONDS:
            self.sync()

    def sync(self) -> None:
        """Put every grade taken so far on disk."""
        lines, self._lines, self._synced = "".join(self._lines), [], time.monotonic()
        try:
            if lines:
                append(self.path / _GRADES, lines.encode())
        except OSError as exc:
            raise _cannot_write(self.path, exc) from exc


def grade_folder(pool: Pool, grader: Grader) -> Path:
    """Return where the grades of a pool by a grader are."""
    way = grader.spec.partition(":")[0]
    shape = digest([way, dict(grader.identity)])[:8]
    return Path(pool.folder) / _FOLDER / f"{way}-{slug(grader.model)}-{shape}"


def find_graders(pool: Pool) -> dict[Path, GraderRecord]:
    """Return the folders of all who graded answers of a pool, and who they are."""
    files = sorted((Path(pool.folder) / _FOLDER).glob(f"*/{_GRADER}"))
    return {file.parent: _grader(file) for file in files}


def read_grades(folder: Path) -> dict[Key, Grade]:
    """Return the grades in a folder; a torn last line is passed over, an answer graded twice is an error by line."""
    found: dict[Key, Grade] = {}
    for where, record in _records(folder / _GRADES):
        if (record.item, record.answer) in found:
            raise PoolError(f"{where}: found a second grade of an answer to item {record.item!r}, wanted one")
        found[record.item, record.answer] = _grade(record)
    renamed = _renamed(folder) if found else {}
    return {renamed.get(one, one): grade for one, grade in found.items()}


def _record(folder: Path) -> GraderRecord | None:
    file = folder / _GRADER
    return _grader(file) if file.exists() else None


def _renamed(folder: Path) -> dict[Key, Key]:
    """Return the present key of each answer by that of before; nothing where a folder has present ones."""
    known = _record(folder)
    if known is not None and known.hashed == "text":
        return {}
    return {(one.item, digest(one.text)): key(one.item, one.text) for one in read_samples(folder.parents[1])}


def _hash_texts(folder: Path) -> None:
    """Write the grades of a folder of before anew, each under the hash of its answer's text."""
    file = folder / _GRADES
    if not file.exists() or not (renamed := _renamed(folder)):
        return
    records = [record for _, record in _records(file)]
    lines = [
        _dumped({**record.model_dump(), "answer": renamed.get((record.item, record.answer), ("", record.answer))[1]})
        for record in records
    ]
    replace_file(file, "".join(lines))


def _records(file: Path) -> Iterator[tuple[str, _GradeRecord]]:
    if file.exists():
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n"):
                    yield (where := f"{file}:{number}"), _read(partial(parse_line, _GradeRecord, line), where)


def _line(graded: Graded) -> str:
    grade = graded.grade
    value = {
        "item": graded.item,
        "answer": _hash(graded.text),
        "grade": {"failure": grade.kind, "detail": grade.detail} if isinstance(grade, Failure) else grade,
        "points": graded.points,
        "said": graded.said,
    }
    return _dumped(value)


def _dumped(value: Mapping[str, object]) -> str:
    return sealed_line(json.dumps(value, separators=(",", ":"))) + "\n"  # ASCII: nothing that was said can tear a line


def _grade(record: _GradeRecord) -> Grade:
    found = record.grade
    return Failure(found.failure, found.detail) if isinstance(found, _FailureRecord) else found


def _document(record: GraderRecord) -> str:
    return json.dumps(sealed(record.model_dump(mode="json")), indent=1) + "\n"


def _grader(file: Path) -> GraderRecord:
    return _read(partial(parse_document, GraderRecord, file.read_bytes()), str(file))


def _read(parse: Callable[[], Record], where: str) -> Record:
    try:
        return parse()
    except ValueError as exc:
        raise PoolError(f"{where}: {exc}. Restore it, or remove the folder, and grade again") from exc


def _cannot_write(path: Path, exc: OSError) -> PoolError:
    return PoolError(f"cannot write to {path}: {exc.strerror or exc}. Grades already on disk are kept")

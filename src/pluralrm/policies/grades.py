"""Grades on disk, beside the pool: every different (item, answer) is graded at most once by each grader.

grades/<grader>-<hash8>/grader.json    who graded: spec, model and server, template, settings
grades/<grader>-<hash8>/grades.jsonl   one line per item and answer: grade or failure, points, all that was said

An answer is kept under the SHA-256 of its text in UTF-8. Older folders have that of the text as JSON: they are read
as they are, and written anew before a grade is added.

The hash covers all that shapes a grade, so that another template or temperature is another grader. A torn last line is
dropped on opening, nothing else is. What met an outage is not written, and is asked for again.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from pluralrm.core import Benchmark, Failure, Item, digest
from pluralrm.errors import BenchmarkError, PoolError
from pluralrm.files import replace_file
from pluralrm.grading import Grade, Graded, Grader
from pluralrm.grading.grader import ChatGrader
from pluralrm.http import DryRun, Requests
from pluralrm.http.counting import LETTERS_PER_TOKEN
from pluralrm.journal import Document, Journal, JournalKind, Strict, document_text, json_line
from pluralrm.policies.pool import Pool, answers, items_of, read_samples
from pluralrm.runs import Progress
from pluralrm.runs.loop import slug
from pluralrm.runs.records import FailureRecord

_FOLDER, _GRADES = "grades", "grades.jsonl"

MOST_UNGRADED = 0.5
"""Share of answers without a grade beyond which a pool, or a training, says so at once."""

Key = tuple[str, str]
"""An item's id, and the SHA-256 of an answer's text."""


class _GradeRecord(Strict):
    """One line of grades.jsonl; a grade is a share, or says why there is none."""

    item: str
    answer: str
    grade: Annotated[float, Field(ge=0, le=1)] | FailureRecord
    points: tuple[int, ...]
    said: tuple[str, ...]


class GradesFile(Strict):
    """A file that grades were read from, and what 0 and 1 are in it."""

    name: str
    sha256: str
    low: float
    high: float


class GraderRecord(Document):
    """grader.json: who graded."""

    spec: str
    model: str
    identity: dict[str, str]
    hashed: Literal["json", "text"] = "json"
    """What of an answer is hashed in grades.jsonl: its text, or (in older folders) its text as JSON."""
    files: tuple[GradesFile, ...] = ()

    def to_json(self) -> str:
        """Return the text of grader.json: the name of a file may hold what UTF-8 does not."""
        return document_text(self, ascii_only=True)


GRADES = JournalKind(
    noun="set of grades",
    manifest="grader.json",
    record=GraderRecord,
    error=PoolError,
    source="'pluralrm grade' and 'pluralrm best-of-n' write one",
    anew="remove the folder and grade again",
    files=(_GRADES,),
)


def key(item: str, text: str) -> Key:
    """Return what a grade is kept under."""
    return item, _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def ungraded_message(failures: Mapping[str, int], answers: int, what: str, *, most: float = MOST_UNGRADED) -> str:
    """Return what is said where more than a share of answers has no grade, by kind; nothing elsewhere.

    >>> ungraded_message({"parse": 2, "unsupported": 30}, 48, "answers")
    '32 of 48 answers have no grade (unsupported 30, parse 2), more than 50%: what they say cannot be measured'
    """
    failed = sum(failures.values())
    if failed <= most * answers:
        return ""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(failures.items(), key=lambda one: -one[1]))
    return (
        f"{failed} of {answers} {what} have no grade ({kinds}), more than {most:.0%}: what they say cannot be measured"
    )


class GradeFolder(Journal[GraderRecord]):
    """The grades of one pool by one grader, open for writing; `source` is a file that they come from."""

    def __init__(self, pool: Pool, grader: Grader, source: GradesFile | None = None) -> None:
        facts = dict(grader.identity)
        record = GraderRecord(spec=grader.spec, model=grader.model, identity=facts, hashed="text")
        super().__init__(grade_folder(pool, grader), GRADES, record)
        self._source = source
        self.grades: dict[Key, Grade] = {}

    def _adopt(self, earlier: GraderRecord) -> None:
        self.manifest = self.manifest.model_copy(update={"files": earlier.files})

    def _resume(self) -> None:
        super()._resume()
        _hash_texts(self.path)
        if self._source is not None and self._source not in self.manifest.files:
            self.manifest = self.manifest.model_copy(update={"files": (*self.manifest.files, self._source)})
        self.write(self.manifest)
        self.grades = read_grades(self.path)

    def add(self, graded: Graded) -> None:
        """Take one grade; it is on disk at the next sync, at most two seconds from now."""
        about = key(graded.item, graded.text)
        if about in self.grades:
            raise PoolError(f"{self.path}: an answer to item {graded.item!r} was graded twice")
        self.grades[about] = graded.grade
        self.queue({_GRADES: _line(graded)})


def grade_folder(pool: Pool, grader: Grader) -> Path:
    """Return where the grades of a pool by a grader are."""
    way = grader.spec.partition(":")[0]
    shape = digest([way, dict(grader.identity)])[:8]
    return Path(pool.folder) / _FOLDER / f"{way}-{slug(grader.model)}-{shape}"


def find_graders(pool: Pool) -> dict[Path, GraderRecord]:
    """Return the folders of all who graded answers of a pool, and who they are."""
    files = sorted((Path(pool.folder) / _FOLDER).glob(f"*/{GRADES.manifest}"))
    return {file.parent: GRADES.read(file.parent) for file in files}


def read_grades(folder: Path) -> dict[Key, Grade]:
    """Return the grades in a folder; a torn last line is passed over, an answer graded twice is an error by line."""
    grades = {(record.item, record.answer): _grade(record) for record in _records(folder)}
    renamed = _renamed(folder) if grades else {}
    return {renamed.get(about, about): grade for about, grade in grades.items()}


def _renamed(folder: Path) -> dict[Key, Key]:
    """Return the present key of each answer by its older one; nothing where a folder has present ones."""
    if GRADES.holds(folder) and GRADES.read(folder).hashed == "text":
        return {}
    return {(one.item, digest(one.text)): key(one.item, one.text) for one in read_samples(folder.parents[1])}


def _hash_texts(folder: Path) -> None:
    """Write the grades of an older folder again, each under the hash of its answer's text."""
    if not (folder / _GRADES).exists() or not (renamed := _renamed(folder)):
        return
    lines = [
        json_line({**record.model_dump(), "answer": renamed.get((record.item, record.answer), ("", record.answer))[1]})
        for record in _records(folder)
    ]
    replace_file(folder / _GRADES, "".join(lines))


def _records(folder: Path) -> Iterator[_GradeRecord]:
    return GRADES.lines(
        folder / _GRADES, _GradeRecord, lambda one: f"grade of the answer {one.answer[:16]}… to item {one.item!r}"
    )


def _line(graded: Graded) -> str:
    grade = graded.grade
    return json_line(
        {
            "item": graded.item,
            "answer": _hash(graded.text),
            "grade": {"failure": grade.kind, "detail": grade.detail} if isinstance(grade, Failure) else grade,
            "points": graded.points,
            "said": graded.said,
        }
    )


def _grade(record: _GradeRecord) -> Grade:
    grade = record.grade
    return Failure(grade.failure, grade.detail) if isinstance(grade, FailureRecord) else grade


Answer = tuple[Item, str]

WINDOW = 20
"""Grades after which it is said that most of them fail."""


class GradingCost(NamedTuple):
    """What grading takes: different answers without a grade, calls for them, tokens of their prompts (roughly)."""

    answers: int
    calls: int
    prompt_tokens: int
    reply_tokens: int = 0
    """At most; 0 where replies have no limit of their own."""

    def cost(self, price: float | None) -> float | None:
        """Return what the prompts cost, given the price of a million tokens, if it is known; replies are short."""
        if not self.calls:
            return 0.0
        return None if price is None else self.prompt_tokens * price / 1e6


def grading_cost(
    pool: Pool, benchmark: Benchmark, grader: Grader, wanted: Iterable[tuple[str, str]] | None = None
) -> GradingCost:
    """Return what it takes to grade the wanted (item, answer) pairs, or all, without those that have their grade."""
    known = read_grades(grade_folder(pool, grader))
    todo = [(item, text) for item, text in _wanted(pool, benchmark, wanted) if key(item.id, text) not in known]
    asked = dry_grade(grader, todo)
    return GradingCost(len(todo), asked.calls, (asked.letters or 0) // LETTERS_PER_TOKEN, asked.reply_tokens)


def dry_grade(grader: Grader, answers: Sequence[Answer]) -> Requests:
    """Return what grading these answers would send: a chat grader grades them on a counting transport.

    Any other grader asks no server of ours; one that has `prompts` says itself what it would ask.
    """
    if isinstance(grader, ChatGrader):
        dry = DryRun()
        deque(replace(grader, role=grader.role.dry(dry)).grade(answers), maxlen=0)
        return dry.requests.get(grader.model, Requests())
    prompts = [prompt for item, text in answers for prompt in grader.prompts(item, text)]
    return Requests(len(prompts), sum(map(len, prompts)))


def grade_pool(
    pool: Pool,
    benchmark: Benchmark,
    grader: Grader,
    *,
    wanted: Iterable[tuple[str, str]] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Grade the wanted (item, answer) pairs, or all, but for those that have their grade; return how far that went.

    What met an outage stays open, and the same call tries it again.
    """
    check_grader(pool, benchmark, grader)
    with GradeFolder(pool, grader) as folder:
        pairs = list(_wanted(pool, benchmark, wanted))
        todo = [(item, text) for item, text in pairs if key(item.id, text) not in folder.grades]
        told = _Told(folder, grader, [key(item.id, text) for item, text in pairs])
        (progress or _quiet)(told.progress())
        for graded in grader.grade(todo):
            if graded.open:
                told.open += 1
            else:
                folder.add(graded)
                told.add(graded.grade)
            (progress or _quiet)(told.progress())
        return told.progress()


def _wanted(pool: Pool, benchmark: Benchmark, wanted: Iterable[tuple[str, str]] | None) -> Iterator[Answer]:
    """Yield each wanted answer once, in the order of the pool: the same calls whatever the order of what was wanted."""
    chosen = None if wanted is None else frozenset(wanted)
    return ((item, text) for item, text in answers(pool, benchmark) if chosen is None or (item.id, text) in chosen)


def check_grader(pool: Pool, benchmark: Benchmark, grader: Grader) -> None:
    """Raise where this grader cannot grade the pool's items."""
    if (reason := grader.unsupported(items_of(pool, benchmark))) is not None:
        raise BenchmarkError(f"{benchmark.card.name} {reason}")


def _quiet(progress: Progress) -> None:
    """Show no progress."""


class _Told:
    """How far grading is; grades that an earlier process wrote count."""

    def __init__(self, folder: GradeFolder, grader: Grader, wanted: list[Key]) -> None:
        self._total, self._grader = len(wanted), grader
        self._failures = Counter[str]()
        self.done, self.open = 0, 0
        for one in wanted:
            if one in folder.grades:
                self.add(folder.grades[one])

    def add(self, grade: Grade) -> None:
        """Count a grade."""
        self.done += 1
        if isinstance(grade, Failure):
            self._failures[grade.kind] += 1

    def progress(self) -> Progress:
        """Return how far it is; the first window of grades, or all where there are fewer, says what mostly fails."""
        enough = self.done >= min(WINDOW, self._total - self.open)
        warning = ungraded_message(self._failures, self.done, "answers") if enough else ""
        failed = sum(self._failures.values())
        return Progress(self.done, self._total, failed, self.open, self._grader.tally, warning)

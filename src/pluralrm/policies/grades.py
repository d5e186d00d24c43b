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
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from pluralrm.cluster import Cluster, opened
from pluralrm.cluster.replicas import check_identity
from pluralrm.core import Benchmark, Failure, Item
from pluralrm.digests import digest, digest_list
from pluralrm.errors import BenchmarkError, PoolError
from pluralrm.files import drop_torn_line, replace_file
from pluralrm.grading import Grade, Graded, Grader, PluginGrader, open_grader
from pluralrm.grading.grader import ChatGrader
from pluralrm.grading.truth import Truth, ValidatorGrader
from pluralrm.http import LETTERS_PER_TOKEN, DryRun, Metered, Requests
from pluralrm.journal import Journal, JournalKind, LockedFolder, Strict, document_text, json_line
from pluralrm.policies.pool import POOL, Pool, answers, items_of, load_pool, read_samples
from pluralrm.runs import Progress
from pluralrm.runs.records import FailureRecord, keyed_lines, slug
from pluralrm.shards import (
    FolderMerger,
    FoundShard,
    Shard,
    ShardedDocument,
    ShardProgress,
    is_merged,
    named_whole,
    open_shard,
    united,
    whole_name,
)

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


class ShardOfGrades(Strict):
    """Which answers the shards of some grades are to grade together, and the grades of this one once all are there."""

    answers: str
    grades: int | None = None


class GraderRecord(ShardedDocument):
    """grader.json: who graded."""

    spec: str
    model: str
    identity: dict[str, str]
    hashed: Literal["json", "text"] = "json"
    """What of an answer is hashed in grades.jsonl: its text, or (in older folders) its text as JSON."""
    files: tuple[GradesFile, ...] = ()
    sharded: ShardOfGrades | None = None

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
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(failures.items(), key=lambda pair: -pair[1]))
    return (
        f"{failed} of {answers} {what} have no grade ({kinds}), more than {most:.0%}: what they say cannot be measured"
    )


class GradeFolder(Journal[GraderRecord]):
    """The grades of one pool by one grader, open for writing; `source` is a file that they come from.

    `answers` are what all shards are to grade.
    """

    def __init__(
        self,
        pool: Pool,
        grader: Grader,
        source: GradesFile | None = None,
        *,
        shard: Shard | None = None,
        answers: Sequence[Key] = (),
    ) -> None:
        facts = dict(grader.identity)
        record = GraderRecord(spec=grader.spec, model=grader.model, identity=facts, hashed="text", shard=shard)
        if shard is not None:
            record = record.model_copy(update={"sharded": ShardOfGrades(answers=digest_list(answers))})
        whole = grade_folder(pool, grader)
        super().__init__(whole if shard is None else shard.folder(whole), GRADES, record)
        self._source = source
        self.grades: dict[Key, Grade] = {}
        self.elsewhere = {} if shard is None else read_grades(whole)
        """Grades that a shard need not ask for: the whole has them."""

    def _adopt(self, earlier: GraderRecord) -> None:
        self.manifest = self.manifest.model_copy(update={"files": earlier.files})
        if earlier.sharded and self.manifest.sharded and earlier.sharded.answers == self.manifest.sharded.answers:
            self.manifest = self.manifest.model_copy(update={"sharded": earlier.sharded})  # complete, maybe

    def _resume(self) -> None:
        super()._resume()
        _hash_texts(self.path)
        if self._source is not None and self._source not in self.manifest.files:
            self.manifest = self.manifest.model_copy(update={"files": (*self.manifest.files, self._source)})
        self.write(self.manifest)
        self.grades = read_grades(self.path)

    def finish_shard(self) -> None:
        """Write down that a shard has the grades of all its answers."""
        self.sync()
        if self.manifest.sharded is not None:
            sharded = self.manifest.sharded.model_copy(update={"grades": len(self.grades)})
            self.manifest = self.manifest.model_copy(update={"sharded": sharded})
            self.write(self.manifest)

    def add(self, graded: Graded) -> None:
        """Take one grade; it is on disk at the next sync, at most two seconds from now."""
        about = key(graded.item, graded.text)
        if about in self.grades:
            raise PoolError(f"{self.path}: an answer to item {graded.item!r} was graded twice")
        self.grades[about] = graded.grade
        self.queue({_GRADES: _line(graded)})


def grade_folder(pool: Pool, grader: Grader) -> Path:
    """Return where the grades of a pool by a grader are."""
    kind = grader.spec.partition(":")[0]
    shape = digest([kind, dict(grader.identity)])[:8]
    return Path(pool.folder) / _FOLDER / f"{kind}-{slug(grader.model)}-{shape}"


def find_graders(pool: Pool) -> dict[Path, GraderRecord]:
    """Return the folders of all who graded answers of a pool, and who they are; shards that are merged are not."""
    folders = [file.parent for file in sorted((Path(pool.folder) / _FOLDER).glob(f"*/{GRADES.manifest}"))]
    return {folder: GRADES.read(folder) for folder in folders if not _is_merged(folder)}


def _is_merged(folder: Path) -> bool:
    """Return whether a folder holds a shard whose grades are all in the whole beside it."""
    if not is_merged(folder, GRADES):
        return False
    return read_grades(folder).keys() <= read_grades(folder.with_name(whole_name(folder))).keys()


def read_grades(folder: Path) -> dict[Key, Grade]:
    """Return the grades in a folder; a torn last line is passed over, an answer graded twice is an error by line."""
    grades = {(record.item, record.answer): _grade(record) for record in _records(folder)}
    renamed = _renamed(folder) if grades else {}
    return {renamed.get(about, about): grade for about, grade in grades.items()}


def _renamed(folder: Path) -> dict[Key, Key]:
    """Return the present key of each answer by its older one; nothing where a folder has present ones."""
    if GRADES.holds(folder) and GRADES.read(folder, shards=True).hashed == "text":
        return {}
    return {(row.item, digest(row.text)): key(row.item, row.text) for row in read_samples(folder.parents[1])}


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
        folder / _GRADES, _GradeRecord, lambda grade: f"grade of the answer {grade.answer[:16]}… to item {grade.item!r}"
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


class GradeMerger(FolderMerger[GraderRecord]):
    """Puts the grades of shards beside those that a pool has, in the order of the pool."""

    kind = GRADES

    def facts(self, folder: Path, manifest: GraderRecord) -> Mapping[str, object]:
        """Return who graded, which pool, and which of its answers."""
        names = ("spec", "model", "identity", "hashed")
        answers = manifest.sharded.answers if manifest.sharded else ""
        return {
            **{name: getattr(manifest, name) for name in names},
            "pool": POOL.read(folder.parents[1]).content_hash,
            "choice of answers (--grade)": answers,
        }

    def label(self, manifest: GraderRecord) -> str:
        """Return who graded."""
        return f"grades by {manifest.spec}"

    def unfinished(self, folder: Path, manifest: GraderRecord) -> str:
        """Return how many grades a shard has that is not complete."""
        done = len(read_grades(folder))
        if manifest.sharded is None or manifest.sharded.grades is None:
            return f"{done:,} grades, and some of its answers have none"
        if done != manifest.sharded.grades:
            raise GRADES.damaged(folder / _GRADES, f"found {done:,} grades, wanted {manifest.sharded.grades:,}")
        return ""

    def place(self, shard: FoundShard[GraderRecord]) -> Path:
        """Return the folder of the grades in the pool's."""
        return Path(shard.folder.parents[1].name, _FOLDER, named_whole(shard.folder))

    def holds(self, folder: Path, shards: Sequence[FoundShard[GraderRecord]]) -> bool:
        """Return whether the grades are there; PoolError where another grade is, or no such pool."""
        if POOL.read(folder.parents[1]).content_hash != shards[0].facts["pool"]:
            raise PoolError(f"{folder.parents[1]} is another pool than that of {shards[0].folder}")
        there = read_grades(folder)
        for shard in shards:
            for about, grade in read_grades(shard.folder).items():
                if about in there and there[about] != grade:
                    raise PoolError(f"{folder} has another grade of an answer to item {about[0]!r} than {shard.folder}")
        return GRADES.holds(folder) and all(read_grades(shard.folder).keys() <= there.keys() for shard in shards)

    def write(self, whole: LockedFolder[GraderRecord], shards: Sequence[FoundShard[GraderRecord]]) -> None:
        """Add what is not there yet, all at once; then who graded."""
        file, there = whole.path / _GRADES, dict[Key, Grade]()
        if whole_there := GRADES.holds(whole.path):
            drop_torn_line(file)
            _hash_texts(whole.path)
            there = read_grades(whole.path)
        samples = load_pool(whole.path.parents[1]).samples.values()
        order = dict.fromkeys(key(sample.item, sample.text) for several in samples for sample in several)
        files = [partial(keyed_lines, shard.folder / _GRADES, "item", "answer") for shard in shards]
        lines = united((answer for answer in order if answer not in there), files)
        replace_file(file, [file.read_bytes() if whole_there and file.exists() else b"", *lines])
        if not whole_there:
            whole.write(shards[0].manifest.model_copy(update={"shard": None, "sharded": None}))


Answer = tuple[Item, str]

WINDOW = 20
"""Grades after which it is said that most of them fail."""
_BATCH = 16
"""Answers that a replica of the grader is sent at once."""


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
    pool: Pool,
    benchmark: Benchmark,
    grader: Grader,
    only: Iterable[tuple[str, str]] | None = None,
    *,
    shard: Shard | None = None,
) -> GradingCost:
    """Return what it takes to grade the wanted (item, answer) pairs, or all, without those that have their grade.

    Of a shard, what is left of the answers to its items.
    """
    whole = grade_folder(pool, grader)
    grades = read_grades(whole) if shard is None else {**read_grades(whole), **read_grades(shard.folder(whole))}
    mine = set(pool.samples if shard is None else shard.of(pool.samples))
    pairs = ((item, text) for item, text in _selected(pool, benchmark, only) if item.id in mine)
    todo = [(item, text) for item, text in pairs if key(item.id, text) not in grades]
    requests = dry_grade(grader, todo)
    return GradingCost(len(todo), requests.calls, (requests.letters or 0) // LETTERS_PER_TOKEN, requests.reply_tokens)


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
    only: Iterable[tuple[str, str]] | None = None,
    progress: Callable[[Progress], None] | None = None,
    shard: Shard | str | None = None,
    on: Cluster | str | None = None,
) -> Progress:
    """Grade the wanted (item, answer) pairs, or all, but for those that have their grade; return how far that went.

    What met an outage stays open, and the same call tries it again. A shard grades the answers to its items. `on`
    names a cluster, whose replicas of the grader then grade; one that asks a server is asked from here.
    """
    check_grader(pool, benchmark, grader)
    part = open_shard(shard)
    pairs = list(_selected(pool, benchmark, only))
    every = [key(item.id, text) for item, text in pairs]
    graders = opened(on if has_replicas(grader) else None)
    with GradeFolder(pool, grader, shard=part, answers=every) as folder, graders as cluster:
        if part is not None:
            mine = set(part.of(pool.samples))
            pairs = [(item, text) for item, text in pairs if item.id in mine]
        there = {**folder.elsewhere, **folder.grades}
        todo = [(item, text) for item, text in pairs if key(item.id, text) not in there]
        tally = _Grading(there, grader, [key(item.id, text) for item, text in pairs])
        (progress or _quiet)(tally.progress())
        for graded in grader.grade(todo) if cluster is None else _by_replicas(grader, todo, cluster):
            if graded.open:
                tally.open += 1
            else:
                folder.add(graded)
                tally.add(graded.grade)
            (progress or _quiet)(tally.progress())
        if not tally.open:
            folder.finish_shard()
        return tally.progress()


def has_replicas(grader: Grader) -> bool:
    """Return whether a cluster can grade: its replicas open the grader by its spec, and ask no server."""
    if isinstance(grader, PluginGrader):
        return not isinstance(grader.grader, Metered)
    return isinstance(grader, Truth | ValidatorGrader)


def _by_replicas(grader: Grader, answers: Sequence[Answer], cluster: Cluster) -> Iterator[Graded]:
    batches = (answers[first : first + _BATCH] for first in range(0, len(answers), _BATCH))
    opens = partial(_open_replica, grader.spec, dict(grader.identity))
    for _, grades in cluster.pool(grader.spec, opens).answers(batches):
        yield from grades


def _open_replica(spec: str, identity: Mapping[str, str]) -> Callable[[Sequence[Answer]], list[Graded]]:
    grader = open_grader(spec)
    check_identity(spec, grader.identity, identity)
    return partial(_listed, grader)


def _listed(grader: Grader, batch: Sequence[Answer]) -> list[Graded]:
    return list(grader.grade(batch))


def shard_of_grades(pool: Pool, grader: Grader, shard: Shard, done: Progress) -> ShardProgress:
    """Return how far a shard is, of which `grade_pool` returned this."""
    folder = shard.folder(grade_folder(pool, grader))
    return ShardProgress(str(folder), shard.index, shard.count, done.done, done.total, done.failed)


def _selected(pool: Pool, benchmark: Benchmark, only: Iterable[tuple[str, str]] | None) -> Iterator[Answer]:
    """Yield each wanted answer once, in the order of the pool: the same calls whatever the order of what was wanted."""
    chosen = None if only is None else frozenset(only)
    return ((item, text) for item, text in answers(pool, benchmark) if chosen is None or (item.id, text) in chosen)


def check_grader(pool: Pool, benchmark: Benchmark, grader: Grader) -> None:
    """Raise where this grader cannot grade the pool's items."""
    if (reason := grader.unsupported(items_of(pool, benchmark))) is not None:
        raise BenchmarkError(f"{benchmark.card.name} {reason}")


def _quiet(progress: Progress) -> None:
    """Show no progress."""


class _Grading:
    """How far grading is; grades that an earlier process wrote count."""

    def __init__(self, grades: Mapping[Key, Grade], grader: Grader, keys: list[Key]) -> None:
        self._total, self._grader = len(keys), grader
        self._failures = Counter[str]()
        self.done, self.open = 0, 0
        for name in keys:
            if name in grades:
                self.add(grades[name])

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

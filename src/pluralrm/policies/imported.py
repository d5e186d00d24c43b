r"""Answers and grades from files. A pool: rows with `item` and `text`, and `finish` and `tokens` where they are known.

Grades: rows with `item`, `index` or `text` (or both), `grade`, and `by`, who graded.

>>> import json, tempfile
>>> from pluralrm.benchmarks import load_benchmark
>>> bench, folder = load_benchmark("pocket-prb"), Path(tempfile.mkdtemp())
>>> rows = [{"item": "art-01", "text": text} for text in ("Rye.", "Spelt.")]
>>> _ = (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
>>> pool = pool_from_jsonl(folder / "mine.jsonl", bench, out=folder / "pool")
>>> _ = (folder / "grades.csv").write_text("item,index,grade,by\nart-01,0,4,anna\nart-01,1,2,anna\n")
>>> len(pool.samples), pool.n, pool.policy
(1, 2, 'given:mine.jsonl')
>>> [found] = import_grades(pool, folder / "grades.csv", low=1, high=5)
>>> found.grader.spec, found.grades, found.ungraded
('given:anna', [0.75, 0.25], 0)

JSON lines, a JSON list, CSV or Parquet. All rows are read before any grade is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isclose
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.rows import Place, Refused, describe, read_rows, shortened
from pluralrm.benchmarks.schema import Id, Part, checked
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, Failure
from pluralrm.errors import BenchmarkError, PoolError, RowError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.grading import RULE, Given, Graded
from pluralrm.journal import field_error, provenance
from pluralrm.policies.grades import GradeFolder, GradesFile, Key, grade_folder, key, read_grades
from pluralrm.policies.pool import AnswerFinish, Pool, PoolFolder, PoolManifest, Sample, load_pool
from pluralrm.runs.records import benchmark_record


class AnswerRow(BaseModel):
    """One line of such a file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    item: str
    text: str
    finish: AnswerFinish = "stop"
    tokens: NonNegativeInt | None = None


def pool_from_jsonl(
    file: str | Path,
    benchmark: Benchmark,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    policy: str = "",
    fresh: bool = False,
) -> Pool:
    """Return the pool of the answers in a file, written to the folder `out`: of all its items, as many for each.

    `policy` and `condition` name what the answers come from; nothing is asked.
    """
    path, file = Path(out), Path(file)
    condition = load_condition(condition) if isinstance(condition, str) else condition
    samples = _in_order(file, _read_answers(file, benchmark), benchmark)
    manifest = _manifest(file, benchmark, condition, policy=policy or f"given:{file.name}", samples=samples)
    with PoolFolder(path, manifest, fresh=fresh) as folder:
        for several in samples.values():
            for sample in several:
                if (sample.item, sample.index) not in folder.done:
                    folder.add(sample)
        folder.finish()
    return load_pool(path)


def _read_answers(file: Path, benchmark: Benchmark) -> dict[str, list[Sample]]:
    """Return the answers by item; the first row that is none, or of no item, is a RowError."""
    by_item: dict[str, list[Sample]] = {}
    items = {item.id for item in benchmark.items}
    for location, row in read_rows(file):
        answer = _row(row, location)
        if answer.item not in items:
            hint = did_you_mean(answer.item, items)
            raise location.refuse("item", found=repr(answer.item), wanted=f"an item of {benchmark.card.name}.{hint}")
        several = by_item.setdefault(answer.item, [])
        finish = answer.finish if answer.text.strip() else "empty"
        several.append(Sample(answer.item, len(several), answer.text, finish, answer.tokens))
    if not by_item:
        raise BenchmarkError(f"{file}: found no answers, wanted rows with item and text")
    return by_item


def _row(row: Mapping[str, object], location: Place) -> AnswerRow:
    try:
        return AnswerRow.model_validate(row)
    except ValidationError as exc:
        error = field_error(exc)
        value = "no such key" if error.missing else describe(row.get(error.field))
        usage = "item, text, and finish (stop, length, empty) and tokens where they are known"
        raise location.refuse(error.field, found=value, wanted=usage) from exc


def _in_order(file: Path, by_item: Mapping[str, list[Sample]], benchmark: Benchmark) -> dict[str, list[Sample]]:
    """Return the answers in the order of the benchmark; items with fewer answers than others are an error."""
    most = max(map(len, by_item.values()))
    fewer = [item for item, several in by_item.items() if len(several) < most]
    if fewer:
        raise BenchmarkError(
            f"{file}: item {fewer[0]!r} has {len(by_item[fewer[0]])} answers, and others have {most}: {len(fewer):,} "
            "items have fewer. A pool has as many answers for each of its items: leave these items out, or some "
            "answers of others"
        )
    return {item.id: by_item[item.id] for item in benchmark.items if item.id in by_item}


def _manifest(
    file: Path, benchmark: Benchmark, condition: Condition, *, policy: str, samples: Mapping[str, list[Sample]]
) -> PoolManifest:
    [n] = {len(several) for several in samples.values()}
    return PoolManifest.model_validate(
        {
            "status": "incomplete",
            "policy": policy,
            "identity": {"file": file_hash(file)},
            "benchmark": benchmark_record(benchmark),
            "condition": condition.spec,
            "reveals": sorted(condition.reveals),
            "selection": {"items": len(samples)},
            "items": tuple(samples),
            "draw": {"n": n, "temperature": None, "top_p": None, "max_tokens": None, "seed": None},
            **provenance(),
        }
    )


__all__ = ["RULE", "ImportedGrades", "import_grades"]


class GradeRow(Part):
    """One grade of one answer."""

    item: Id
    index: int | None = None
    text: str | None = None
    grade: float
    by: Id | None = None


@dataclass(frozen=True, slots=True)
class ImportedGrades:
    """What one grader's rows came to."""

    grader: Given
    folder: Path
    rows: int
    grades: list[float]
    """One per different answer that this grader has graded, earlier files included."""
    averaged: int
    """Different answers whose equal texts were graded differently: their grade is the mean."""
    ungraded: int
    """Different answers of the pool that this grader has not graded."""
    ignored: tuple[str, ...] = ()
    """Columns of the file that were not read."""


@dataclass(slots=True)
class _Answer:
    """The rows about one answer by one grader."""

    item: str
    text: str
    first: Place
    grades: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def grade(self) -> float:
        return fsum(self.grades) / len(self.grades)


_Answers = dict[Key, _Answer]


def import_grades(
    pool: Pool, file: str | Path, *, by: str = "", low: float = 0.0, high: float = 1.0
) -> list[ImportedGrades]:
    """Read the grades in a file into the pool, one folder per grader; every row that is wrong is told with its line.

    `by` names who graded where the file has no such column; `low` and `high` are what 0 and 1 are in the file.
    """
    file = Path(file)
    if not by.isprintable():
        raise PoolError(f"--by {by!r}: wanted a name of printable characters")
    if not low < high:
        raise PoolError(f"grades from {low:g} to {high:g}: the lowest must be below the highest")
    refused, dirt = Refused(), Dirt()
    grades = _read(pool, file, rules=_Rules(by.strip(), low, high), refused=refused, dirt=dirt)
    for name, answers in grades.items():
        _check_earlier(pool, Given(name), answers, refused)
    refused.tell()
    if not grades:
        raise PoolError(f"{file}: found no grades, wanted rows with item, index or text, grade, and by")
    source = GradesFile(name=file.name, sha256=file_hash(file), low=low, high=high)
    ignored = dirt.report().ignored
    return [
        _written(pool, Given(name), answers, source=source, ignored=ignored) for name, answers in sorted(grades.items())
    ]


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a row's grader and grade must be."""

    by: str
    low: float
    high: float

    def name(self, row: GradeRow, location: Place) -> str:
        if self.by and row.by not in {None, self.by}:
            raise location.refuse("by", found=describe(row.by), wanted=f"{self.by!r}, as --by says, or no name")
        name = row.by or self.by
        if not name:
            raise location.refuse("by", found="no name", wanted="who graded: a column 'by', or --by NAME")
        if name != name.strip():
            raise location.refuse("by", found=describe(name), wanted="a name without white space around it")
        return name

    def share(self, row: GradeRow, location: Place) -> float:
        if not self.low <= row.grade <= self.high:
            raise location.refuse(
                "grade",
                found=f"{row.grade:g}",
                wanted=f"a number from {self.low:g} to {self.high:g} (--range LOW HIGH)",
            )
        return (row.grade - self.low) / (self.high - self.low)


def _read(pool: Pool, file: Path, *, rules: _Rules, refused: Refused, dirt: Dirt) -> dict[str, _Answers]:
    """Return the grades of each grader by answer; a row that is wrong goes to `refused`."""
    by_grader: dict[str, _Answers] = {}
    seen: dict[tuple[str, str, int], Place] = {}
    for location, raw in read_rows(file, refused.keep):
        try:
            row = checked(GradeRow, raw, location, dirt)
            dirt.accept()
            text = _text(pool, row, location)
            name, grade = rules.name(row, location), rules.share(row, location)
            if row.index is not None:
                first = seen.setdefault((name, row.item, row.index), location)
                if first is not location:
                    problem = f"{row.index} of {row.item!r} by {name!r} again, as in line {first.line}"
                    raise location.refuse("index", found=problem, wanted="each answer once by each grader")
        except RowError as exc:
            refused.keep(exc)
        else:
            answer = by_grader.setdefault(name, {}).setdefault(key(row.item, text), _Answer(row.item, text, location))
            answer.grades.append(grade)
            answer.said.append(f"{file.name}:{location.line}: {row.grade:g}")
    return by_grader


def _text(pool: Pool, row: GradeRow, location: Place) -> str:
    """Return the answer that a row is about: by its index among the item's samples, by its text, or by both."""
    samples = pool.samples.get(row.item)
    if samples is None:
        hint = did_you_mean(row.item, pool.samples)
        raise location.refuse("item", found=repr(row.item), wanted=f"an item of {pool.folder}.{hint}")
    if row.index is None and row.text is None:
        raise location.refuse("index", found="neither index nor text", wanted="the answer's index, its text, or both")
    if row.index is not None and not 0 <= row.index < len(samples):
        raise location.refuse("index", found=str(row.index), wanted=f"a whole number from 0 to {len(samples) - 1}")
    if row.text is not None and row.text not in pool.texts(row.item):
        raise location.refuse("text", found=describe(row.text), wanted=_nearest(row.text, pool, row.item))
    if row.index is None:
        return row.text or ""
    sample = samples[row.index]
    if sample.failure is not None:
        raise location.refuse("index", found=f"{row.index}, which is no answer ({sample.finish})", wanted="an answer")
    if row.text is not None and row.text != sample.text:
        raise location.refuse(
            "text", found=describe(row.text), wanted=f"the text of index {row.index}: {describe(sample.text)}"
        )
    return sample.text


def _nearest(text: str, pool: Pool, item: str) -> str:
    """Return what is wanted instead of a text that no answer has; one that differs in white space alone is named."""
    words = text.split()
    alike = [sample.index for sample in pool.samples[item] if sample.failure is None and sample.text.split() == words]
    hint = f"; index {alike[0]} differs in white space alone" if alike else ""
    return f"the text of one of the {len(pool.texts(item))} different answers to {item!r}, letter by letter{hint}"


def _check_earlier(pool: Pool, grader: Given, answers: _Answers, refused: Refused) -> None:
    """Refuse what an earlier file graded otherwise: one grader has one grade for an answer."""
    folder = grade_folder(pool, grader)
    grades = read_grades(folder)
    for name, answer in answers.items():
        earlier = grades.get(name)
        if isinstance(earlier, float) and not isclose(earlier, answer.grade, abs_tol=1e-12):
            grade = f"{answer.grade:g} by {grader.model!r}, and {earlier:g} in an earlier file"
            refused.keep(
                answer.first.refuse("grade", found=grade, wanted=f"one grade; remove {folder} to read all grades anew")
            )


def _written(
    pool: Pool, grader: Given, answers: _Answers, *, source: GradesFile, ignored: Sequence[str]
) -> ImportedGrades:
    with GradeFolder(pool, grader, source) as folder:
        for name, answer in answers.items():
            if name not in folder.grades:
                folder.add(Graded(answer.item, answer.text, answer.grade, said=tuple(answer.said)))
        grades = [grade for grade in folder.grades.values() if not isinstance(grade, Failure)]
        different = sum(len(pool.texts(item)) for item in pool.samples)
        return ImportedGrades(
            grader=grader,
            folder=folder.path,
            rows=sum(len(answer.grades) for answer in answers.values()),
            grades=grades,
            averaged=sum(len(set(answer.grades)) > 1 for answer in answers.values()),
            ungraded=different - len(folder.grades),
            ignored=tuple(shortened(name) for name in ignored),
        )

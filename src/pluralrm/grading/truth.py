"""Graders that know the right answer and ask no model: `truth`, `math` and `code`.

truth   on `simulated`, how much of what a user wants an answer gives, computed from the rubric and the answer
math    the last boxed text of the answer is equal to `item.oracle.reference`: 1 or 0
code    the answer's Python passes `item.oracle.tests` in a sandbox: 1 or 0

>>> from pluralrm.benchmarks import load_benchmark
>>> item = load_benchmark("simulated:users=1,items=1").items[0]
>>> [graded.points for graded in Truth().grade((item, text) for text in item.candidates)]
[(0, 0, 1), (0, 1, 0)]

Rubrics and answers of `simulated` are made of written sentences, so reading them back is exact. Known answers are those
of the benchmark, or with `math:FILE` and `code:FILE` those of a file: rows with `item` (an item's id, or its record's)
and `reference`, or `tests` (and `entry`). An answer without a box or a program is a Failure, never a 0, and so is one
to an item without a known answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from itertools import tee
from pathlib import Path
from typing import Literal

from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.rows import Refused, read_rows
from pluralrm.benchmarks.schema import Id, Part, Text, checked
from pluralrm.benchmarks.simulated import WEIGHS
from pluralrm.benchmarks.simulated.tastes import Taste, Want
from pluralrm.benchmarks.simulated.texts import Signal, attributes, read_answer_to, texts_hash
from pluralrm.core import Failure, Item, Oracle
from pluralrm.errors import PoolError, RowError
from pluralrm.folders import file_hash
from pluralrm.grading.grader import Graded, aspects_of
from pluralrm.http import Tally
from pluralrm.specs import Spec
from pluralrm.validate import CodeTask, MathTask, Right, Task, ValidationOutcome, Wrong, check_all, ready

TRUTH = "truth"
SUMMARY = "truth, on simulated alone: the share of a user's wants that an answer meets, by weight; no request is sent"


@dataclass(frozen=True, slots=True)
class Truth:
    """The grader that reads what a simulated user wants from the item's rubric."""

    spec: str = TRUTH
    model: str = "simulated"

    @property
    def identity(self) -> Mapping[str, str]:
        """The sentences that it reads."""
        return {"texts": texts_hash()}

    @property
    def tally(self) -> Tally:
        """Nothing is asked."""
        return Tally()

    def unsupported(self, items: Sequence[Item]) -> str | None:
        """Return why not, where an item is not one of simulated users."""
        if all(taste_of(item) for item in items):
            return None
        return (
            "is not simulated: what its users want is not known. A chat model grades by the rubric: "
            "per-aspect:MODEL,url=URL or joint:MODEL,url=URL"
        )

    def prompts(self, item: Item, text: str) -> list[str]:  # noqa: ARG002 - as every grader takes them
        """Return nothing: no call is made."""
        return []

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order; `points` are the weights of the wants, 0 where one is not met."""
        for item, text in answers:
            taste = taste_of(item)
            points = _points(item, taste, text)
            if isinstance(points, Failure):
                yield Graded(item.id, text, points)
            else:
                yield Graded(item.id, text, sum(points) / sum(want.weight for want in taste), points)


def taste_of(item: Item) -> Taste:
    """Return what a simulated user wants, read from the item's rubric; nothing where it is not of that benchmark."""
    wants, weighed = _words(), {words: weight for weight, words in WEIGHS.items()}
    aspects = aspects_of(item)
    if not all(aspect.aspect in wants and aspect.reason in weighed for aspect in aspects):
        return ()
    return tuple(Want(*wants[aspect.aspect], weighed[aspect.reason]) for aspect in aspects)


@lru_cache(maxsize=1)
def _words() -> Mapping[str, Signal]:
    """Return the level that each sentence of a rubric is about."""
    return {level.wants: Signal(each.name, name) for each in attributes() for name, level in each.levels.items()}


def _points(item: Item, taste: Taste, text: str) -> tuple[int, ...] | Failure:
    levels = read_answer_to(item.prompt, text)
    if levels is None or not taste:
        return Failure("unsupported", "not an answer of the simulated benchmark to a question of one of its users")
    return tuple(want.weight if levels[want.attribute] == want.level else 0 for want in taste)


Kind = Literal["math", "code"]
SUMMARIES: Mapping[str, str] = {
    "math": "math[:FILE], 1 or 0: is the boxed answer equal to the item's reference? No request is sent (extra math)",
    "code": "code[:FILE], 1 or 0: does the program pass the item's tests, in a sandbox? No request is sent",
}
_UNKNOWN = Failure("unsupported", "the item has no known answer to grade by")


class KnownRow(Part):
    """The known answer to one item, or to all items of one record."""

    item: Id
    reference: Text | None = None
    tests: Text | None = None
    entry: str | None = None


@dataclass(frozen=True)
class ValidatorGrader:
    """The validators as a grader."""

    kind: Kind
    spec: str
    identity: Mapping[str, str]
    known: Mapping[str, Oracle] | None = field(default=None, repr=False)
    model: str = "pluralrm.validate"

    @property
    def tally(self) -> Tally:
        """Nothing is asked."""
        return Tally()

    def unsupported(self, items: Sequence[Item]) -> str | None:
        """Return why not, where no item has a known answer; raise where what it takes is not installed."""
        tasks = [task for item in items if (task := self._task(item, "")) is not None]
        if not tasks:
            what = "reference" if self.kind == "math" else "tests"
            return f"has no {what} to grade by: wanted items with a known answer, or {self.kind}:FILE"
        ready(tasks[:1])
        return None

    def prompts(self, item: Item, text: str) -> list[str]:  # noqa: ARG002 - as every grader takes them
        """Return nothing: no call is made."""
        return []

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order; two are checked at once."""
        first, second = tee((item, text, self._task(item, text)) for item, text in answers)
        outcomes = check_all(task for _, _, task in first if task is not None)
        for item, text, task in second:
            yield Graded(item.id, text, _UNKNOWN) if task is None else _validated(item, text, next(outcomes))

    def _task(self, item: Item, text: str) -> Task | None:
        oracle = item.oracle
        if self.known is not None:
            oracle = self.known.get(item.id) or self.known.get(item.cluster)
        if oracle is None:
            return None
        if self.kind == "math":
            return MathTask(text, oracle.reference) if oracle.reference else None
        return CodeTask(text, oracle.tests, oracle.entry) if oracle.tests else None


def open_validator(spec: Spec) -> ValidatorGrader:
    """Return the grader of `math`, `code`, `math:FILE` or `code:FILE`."""
    kind: Kind = "math" if spec.kind == "math" else "code"
    facts = {"validator": kind, "math-verify": version_of("math-verify")} if kind == "math" else {"validator": kind}
    if not spec.target:
        return ValidatorGrader(kind, str(spec), facts)
    file = Path(spec.target)
    return ValidatorGrader(kind, str(spec), {**facts, "file": file_hash(file) if file.exists() else ""}, _read(file))


def _validated(item: Item, text: str, outcome: ValidationOutcome) -> Graded:
    if isinstance(outcome, Right):
        return Graded(item.id, text, 1.0)
    if isinstance(outcome, Wrong):
        return Graded(item.id, text, 0.0, said=(outcome.reason,))
    return Graded(item.id, text, outcome)


def _read(file: Path) -> dict[str, Oracle]:
    rubrics: dict[str, Oracle] = {}
    refused, dirt = Refused(), Dirt()
    for source, raw in read_rows(file, refused.keep):
        try:
            row = checked(KnownRow, raw, source, dirt)
            oracle = Oracle(reference=row.reference or "", tests=row.tests or "", entry=row.entry or "")
            if not (oracle.reference or oracle.tests):
                raise source.refuse("reference", found="neither reference nor tests", wanted="a known answer")
            if rubrics.setdefault(row.item, oracle) != oracle:
                raise source.refuse("item", found=f"{row.item!r} with another answer before", wanted="one known answer")
        except RowError as exc:
            refused.keep(exc)
    refused.tell()
    if not rubrics:
        raise PoolError(f"{file}: found no known answers, wanted rows with item and reference, or tests")
    return rubrics


def version_of(package: str) -> str:
    """Return the version of a package, or that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"

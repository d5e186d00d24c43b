"""What is validated, within which limits, and what may come out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pluralrm.benchmarks.rows import Place, read_rows
from pluralrm.benchmarks.schema import BenchmarkRow, checked
from pluralrm.core import Failure
from pluralrm.errors import BenchmarkError


# No tuples: an empty one would be false, and a verdict is not.
@dataclass(frozen=True, slots=True)
class Right:
    """The answer is equal to the reference, or the code passes every test."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """The answer was read and judged, and is not right; the reason in one line."""

    reason: str


ValidationOutcome = Right | Wrong | Failure
"""A Failure says that nothing was decided: no code found, a test that cannot be asked this way, a broken sandbox."""


class TaskLimits(NamedTuple):
    """What one task may use."""

    seconds: float = 5.0
    """CPU time of each process."""
    memory_mb: int = 512
    """Address space of each process."""
    processes: int = 8
    """Processes and threads at once, the sandbox's own two among them."""
    disk_mb: int = 16
    """Files in a temporary folder, held in memory."""

    @property
    def wall(self) -> float:
        """Seconds by the clock until a task is stopped; time that other processes took from it is added."""
        return 1.5 * self.seconds


class MathTask(NamedTuple):
    r"""A reply with its answer in \boxed{}, and the answer that is right."""

    reply: str
    reference: str


class CodeTask(NamedTuple):
    """A reply with a fenced block of Python, and tests that assert something of it; `entry` names the function."""

    reply: str
    tests: str
    entry: str = ""


Task = MathTask | CodeTask


Kind = Literal["math", "code"]


class _MathRow(BenchmarkRow):
    kind: Literal["math"]
    reply: str
    reference: str


class _CodeRow(BenchmarkRow):
    kind: Literal["code"]
    reply: str
    tests: str
    entry: str = ""


class NamedTask(NamedTuple):
    """A task, and its id in the file."""

    id: str
    kind: Kind
    task: Task


def read_tasks(path: Path) -> list[NamedTask]:
    """Return the tasks of a file; a RowError for the first row that is none, a BenchmarkError where there are none."""
    tasks = [_task(row, location) for location, row in read_rows(path)]
    if not tasks:
        raise BenchmarkError(f"{path}: found no rows, wanted id, kind and reply, with reference or tests")
    return tasks


def _task(row: Mapping[str, object], location: Place) -> NamedTask:
    if row.get("kind") == "math":
        task = checked(_MathRow, row, location)
        return NamedTask(task.id, "math", MathTask(task.reply, task.reference))
    if row.get("kind") == "code":
        code = checked(_CodeRow, row, location)
        return NamedTask(code.id, "code", CodeTask(code.reply, code.tests, code.entry))
    raise location.refuse("kind", found=repr(row.get("kind")), wanted="'math' or 'code'")


def told(outcome: ValidationOutcome) -> dict[str, str]:
    """Return an outcome as a row says it: right, wrong or failed, with the kind of failure and the reason."""
    if isinstance(outcome, Right):
        return {"outcome": "right"}
    if isinstance(outcome, Wrong):
        return {"outcome": "wrong", "reason": outcome.reason}
    return {"outcome": "failed", "failure": outcome.kind, "reason": outcome.detail}


def rows_of(tasks: Sequence[NamedTask], outcomes: Sequence[ValidationOutcome]) -> list[dict[str, str]]:
    """Return one row per task: its id and kind, and what was made of it."""
    return [{"id": task.id, "kind": task.kind, **told(outcome)} for task, outcome in zip(tasks, outcomes, strict=True)]

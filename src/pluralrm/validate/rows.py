"""Replies to validate from a file, and what was made of each in another one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pluralrm.benchmarks.rows import Place, read_rows
from pluralrm.benchmarks.schema import BenchmarkRow, checked
from pluralrm.errors import BenchmarkError
from pluralrm.validate.outcomes import CodeTask, MathTask, Right, Task, ValidationOutcome, Wrong

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
    found = [_task(row, place) for place, row in read_rows(path)]
    if not found:
        raise BenchmarkError(f"{path}: found no rows, wanted id, kind and reply, with reference or tests")
    return found


def _task(row: Mapping[str, object], place: Place) -> NamedTask:
    if row.get("kind") == "math":
        one = checked(_MathRow, row, place)
        return NamedTask(one.id, "math", MathTask(one.reply, one.reference))
    if row.get("kind") == "code":
        code = checked(_CodeRow, row, place)
        return NamedTask(code.id, "code", CodeTask(code.reply, code.tests, code.entry))
    raise place.refuse("kind", found=repr(row.get("kind")), wanted="'math' or 'code'")


def told(outcome: ValidationOutcome) -> dict[str, str]:
    """Return an outcome as a row says it: right, wrong or failed, with the kind of failure and the reason."""
    if isinstance(outcome, Right):
        return {"outcome": "right"}
    if isinstance(outcome, Wrong):
        return {"outcome": "wrong", "reason": outcome.reason}
    return {"outcome": "failed", "failure": outcome.kind, "reason": outcome.detail}


def rows_of(tasks: Sequence[NamedTask], outcomes: Sequence[ValidationOutcome]) -> list[dict[str, str]]:
    """Return one row per task: its id and kind, and what was made of it."""
    return [{"id": one.id, "kind": one.kind, **told(outcome)} for one, outcome in zip(tasks, outcomes, strict=True)]

r"""Is the answer in a reply right? Mathematics by equivalence with a reference, code by its tests in a sandbox.

>>> from pluralrm.validate import check_math
>>> check_math(r"So it is \boxed{0.5}.", r"\frac{1}{2}")
Right()

docs/validators.md says what is judged, what is refused, and what a Failure means.
"""

import atexit
import json
import os
import queue
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

from pluralrm.benchmarks.rows import Place, read_rows
from pluralrm.benchmarks.schema import BenchmarkRow, checked
from pluralrm.core import Failure
from pluralrm.errors import BenchmarkError, MissingExtraError
from pluralrm.validate.code import Right, TaskLimits, ValidationOutcome, Wrong, check_code, require_sandbox
from pluralrm.validate.latex import LONGEST, boxed, reference_of

__all__ = [
    "CodeTask",
    "MathTask",
    "NamedTask",
    "Right",
    "Task",
    "TaskLimits",
    "ValidationOutcome",
    "Wrong",
    "check_all",
    "check_code",
    "check_math",
    "read_tasks",
    "ready",
    "rows_of",
]


# ---------------------------------------------------------------- tasks and their rows


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


# ---------------------------------------------------------------- checks

_DEFAULT = TaskLimits()


def check_all(tasks: Iterable[Task], *, limits: TaskLimits = _DEFAULT, workers: int = 2) -> Iterator[ValidationOutcome]:
    """Yield one outcome per task, in order, `workers` at once: more than there are cores make time-outs."""
    waiting: deque[Future[ValidationOutcome]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(_check, task, limits))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def ready(tasks: Collection[Task]) -> None:
    """Return when all that these tasks take is there; SandboxError or MissingExtraError where it is not."""
    if any(isinstance(task, CodeTask) for task in tasks):
        require_sandbox()
    if any(isinstance(task, MathTask) for task in tasks):
        require_math()


def _check(task: Task, limits: TaskLimits) -> ValidationOutcome:
    if isinstance(task, CodeTask):
        return check_code(task.reply, task.tests, entry=task.entry, limits=limits)
    return check_math(task.reply, task.reference, limits=limits)


_START = 60.0
"""Seconds that the libraries may take to load, on a busy machine too."""
_WALL = 12.0
"""Times the CPU time that a comparison may take by the clock: it never waits for anything but a processor."""
_KEPT = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG")
"""What a worker sees of the environment: no key is among it."""


def check_math(reply: str, reference: str, *, limits: TaskLimits = _DEFAULT) -> ValidationOutcome:
    r"""Return whether the last \boxed{} of a reply is equal to a reference.

    A Failure where there is no box, and where the two cannot be compared within the limits.
    """
    answer = boxed(reply)
    if isinstance(answer, Failure):
        return answer
    target = reference_of(reference)
    if not target.strip() or len(target) > LONGEST:
        return Failure("unsupported", f"the reference has {len(target):,} characters; 1 to {LONGEST:,} are read")
    require_math()
    kind, detail = _compare(answer, target, limits)
    if kind == "equal":
        return Right()
    if kind == "different":
        return Wrong(f"{_short(answer)} is not {_short(target)}")
    return _FAILURES.get(kind, Failure("crash", f"the process that compares answers broke: {kind} {detail}".strip()))


_FAILURES = {
    "late": Failure("unsupported", "the answers could not be compared within the time limit"),
    "busy": Failure("deadline", "the machine is too busy to compare the answers in time"),
    "memory": Failure("unsupported", "the answers could not be compared within the memory limit"),
    "deep": Failure("unsupported", "an answer is nested too deeply to be compared"),
}


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else flat[:79] + "…"


@cache
def require_math() -> None:
    """Return when Math-Verify is installed; MissingExtraError where it is not."""
    if find_spec("math_verify") is None:
        raise MissingExtraError("comparing answers to questions of mathematics", "math")


class _Worker:
    """A process that compares answers, one after the other, in children of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pluralrm.validate.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        self._in, self._out = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self.started = self._line(time.monotonic() + _START) is not None

    def ask(self, question: dict[str, object], wall: float) -> tuple[str, str] | None:
        """Return what the worker says within some seconds; None where it says nothing."""
        try:
            self._in.write(json.dumps(question).encode() + b"\n")
        except BrokenPipeError:
            return None
        line = self._line(time.monotonic() + wall)
        return None if line is None else (line[0], line[1])

    def close(self) -> None:
        """Kill the worker and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._in.close()
        self._out.close()

    def _line(self, deadline: float) -> list[str] | None:
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        buffer = b""
        while not buffer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(1_000 * left):
                return None
            piece = self._out.read(4_096)
            if not piece:
                return None
            buffer += piece
        line = json.loads(buffer)
        return [str(line[0]), str(line[1])]


_IDLE: "queue.SimpleQueue[_Worker]" = queue.SimpleQueue()
"""Workers that wait for a question; as many as were ever busy at once."""


def _compare(answer: str, reference: str, limits: TaskLimits) -> tuple[str, str]:
    try:
        worker = _IDLE.get_nowait()
    except queue.Empty:
        try:
            worker = _Worker()
        except OSError as exc:  # a machine without room for one more process
            return "no worker", str(exc)
    question: dict[str, object] = {
        "answer": answer,
        "reference": reference,
        "seconds": max(1, round(limits.seconds)),
        "memory": limits.memory_mb * 2**20,
    }
    outcome = worker.ask(question, _WALL * limits.seconds) if worker.started else ("did not start", "")
    if outcome is None or not worker.started:
        worker.close()
        return outcome or ("busy", "")
    _IDLE.put(worker)
    return outcome


@atexit.register
def _close_all() -> None:
    while not _IDLE.empty():
        _IDLE.get_nowait().close()

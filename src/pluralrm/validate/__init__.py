r"""Is the answer in a reply right? Mathematics by equivalence with a reference, code by its tests in a sandbox.

>>> from pluralrm.validate import check_math
>>> check_math(r"So it is \boxed{0.5}.", r"\frac{1}{2}")
Right()

docs/validators.md says what is judged, what is refused, and what a Failure means.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from pluralrm.validate.code import check_code, require_sandbox
from pluralrm.validate.math import check_math, require_math
from pluralrm.validate.outcomes import CodeTask, MathTask, Right, Task, TaskLimits, ValidationOutcome, Wrong

__all__ = [
    "CodeTask",
    "MathTask",
    "Right",
    "Task",
    "TaskLimits",
    "ValidationOutcome",
    "Wrong",
    "check_all",
    "check_code",
    "check_math",
    "ready",
]


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

"""What is validated, within which limits, and what may come out of it."""

from dataclasses import dataclass
from typing import NamedTuple

from pluralrm.core import Failure


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

"""What a run has asked of servers: its model's calls, and those of a condition that asks a model of its own."""

from collections.abc import Iterable
from functools import reduce

from pluralrm.core import Condition
from pluralrm.http import Metered, Tally
from pluralrm.runs.workers import Local, Pool


class Account:
    """What is asked from now on. A condition or a model that serves several runs has asked for others before."""

    def __init__(self, scorer: Local | Pool, condition: Condition) -> None:
        self._scorer = scorer
        self._condition = condition
        self._before = self._so_far()

    def tally(self) -> Tally | None:
        """Return what was asked since; None where nothing of this run asks a server."""
        now = self._so_far()
        return now if now is None or self._before is None else now.since(self._before)

    def _so_far(self) -> Tally | None:
        condition = self._condition.tally if isinstance(self._condition, Metered) else None
        return total([self._scorer.tally, condition])


def total(tallies: Iterable[Tally | None]) -> Tally | None:
    """Return the sum of those that there are; None where there is none."""
    known = [tally for tally in tallies if tally is not None]
    return reduce(Tally.plus, known) if known else None

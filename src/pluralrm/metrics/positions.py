"""What the place of an answer does to a judge: read off the votes, which hold every order asked and its outcome.

position consistency   share of items on which the orders asked lead to one outcome; a failed call agrees with nothing
first position         share of calls that put the answer shown first on top; a tie, or a failed call, counts as the
                       chance that any one place has (1/2 of a pair)

A judge without position bias has a first position rate of 1/2 on pairs asked in both orders. One that always names the
first has 1, and a consistency of 0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pluralrm.card import Average
from pluralrm.core import FINAL_KINDS, OPEN_KINDS, Estimate, Row, Run, Vote
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import as_estimate, caveats, over
from pluralrm.metrics.units import Units
from pluralrm.stats import share_interval

CONSISTENT, FIRST = "position_consistency", "first_position"
"""Their names in a summary."""

_FAILED = frozenset((*FINAL_KINDS, *OPEN_KINDS))


@dataclass(frozen=True, slots=True)
class Positions:
    """Both numbers; `consistency` is None where every question was asked in one order only."""

    consistency: Estimate | None
    first: Estimate


def positions(run: Run, *, average: Average | None = None) -> Positions:
    """Return what the place of an answer does to this run's judge; a model without votes is an error."""
    if not any(row.votes for row in run.rows):
        raise MetricError(
            f"the rows of {run.model!r} hold no votes: it compares no answers side by side, so no place counts."
        )
    repeated = any(len(orders) > 1 for row in run.rows for orders in _questions(row))
    return Positions(
        _estimate(run, _consistent, average) if repeated else None,
        _estimate(run, _first, average),
    )


def _estimate(run: Run, value: Callable[[Row], float], average: Average | None) -> Estimate:
    rows = run.rows
    parts = Units(
        tuple(row.item for row in rows),
        tuple(value(row) for row in rows),
        tuple(row.cluster for row in rows),
        tuple(row.domain for row in rows),
        tuple(row.failed for row in rows),
        tuple(row.prompt for row in rows),
    )
    macro = (average or run.card.average) == "macro"
    return as_estimate(
        share_interval(parts.means(macro=macro)), parts, scope=over(parts, macro=macro), note=caveats(run)
    )


def _questions(row: Row) -> Iterator[Sequence[Vote]]:
    """Yield the votes on each set of candidates."""
    sets: dict[frozenset[int], list[Vote]] = {}
    for vote in row.votes:
        sets.setdefault(frozenset(vote.order), []).append(vote)
    yield from sets.values()


def _consistent(row: Row) -> float:
    """Return 1 where every question has one outcome in all of its orders; an item without votes failed before any."""
    outcomes = [{vote.outcome for vote in votes} for votes in _questions(row)]
    return float(bool(outcomes) and all(len(winners) == 1 and not winners & _FAILED for winners in outcomes))


def _first(row: Row) -> float:
    """Return the mean over the calls; an item without any counts as chance between two."""
    values = [_named_first(vote) for vote in row.votes]
    return sum(values) / len(values) if values else 0.5


def _named_first(vote: Vote) -> float:
    if vote.outcome == "tie" or vote.outcome in _FAILED:
        return 1 / len(vote.order)
    return float(vote.outcome.partition(">")[0] == str(vote.order[0]))

"""What a judge said of each item in several orders of its candidates: who won where, and which pairs it orders how.

A call is what was put before the judge at once: a vote of a judge that asks by itself, else all candidates in the
order of the item. A turned run shows the candidates from another place on; `shift` brings them back to one numbering.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pluralrm.card import Average
from pluralrm.core import Estimate, Row, Run, Vote
from pluralrm.metrics.contrast import flipped_p
from pluralrm.metrics.estimates import FIXED
from pluralrm.metrics.units import numbers, top_credit
from pluralrm.stats import ClusterMeans, Interval, cluster_means, difference_interval, share_interval
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.regression import PlacedChoices, PlaceFit, fit_places

ALL_ALIKE = f"{FIXED}: the same on every item"


class PlacedCall(NamedTuple):
    """The candidates in the order shown, and the share that each place won; None where the call failed."""

    order: tuple[int, ...]
    won: tuple[float, ...] | None


def calls_of(row: Row, shift: int = 0) -> list[PlacedCall]:
    """Return what was asked about an item, its candidates by their numbers before the turn."""
    count = len(row.scores)
    if row.votes:
        calls = [PlacedCall(vote.order, _won(vote)) for vote in row.votes]
    else:
        scores = numbers(row)
        calls = [PlacedCall(tuple(range(count)), None if scores is None else _top(scores))]
    return [PlacedCall(tuple((index + shift) % count for index in call.order), call.won) for call in calls]


def _won(vote: Vote) -> tuple[float, ...] | None:
    if vote.outcome == "tie":
        return (1 / len(vote.order),) * len(vote.order)
    best = vote.outcome.partition(">")[0]
    return tuple(float(index == int(best)) for index in vote.order) if best.isdecimal() else None


def _top(scores: Sequence[float]) -> tuple[float, ...]:
    highest = max(scores)
    tied = list(scores).count(highest)
    return tuple(float(score == highest) / tied for score in scores)


def balanced(row: Row) -> bool:
    """Return whether the judge itself put each candidate in each place equally often."""
    seats: dict[tuple[int, int], int] = {}
    for vote in row.votes:
        for position, index in enumerate(vote.order):
            seats[index, position] = seats.get((index, position), 0) + 1
    width = max((len(vote.order) for vote in row.votes), default=0)
    every = {(index, position) for index in range(len(row.scores)) for position in range(width)}
    return bool(row.votes) and set(seats) == every and len(set(seats.values())) == 1


def order_of(row: Row) -> FloatArray | None:
    """Return (n, n): 1 where a candidate scores above another, -1 below, 0 where equal; None where the row failed."""
    scores = numbers(row)
    if scores is None:
        return None
    own = np.asarray(scores, dtype=np.float64)
    # Compared, not subtracted: the difference of two finite numbers may be infinite.
    order: FloatArray = (own[:, None] > own).astype(np.float64) - (own[:, None] < own)
    return order


def _ranks(row: Row, shift: int) -> FloatArray:
    """Return (n,): 1 for the highest score, 0 for the lowest, ties in the middle; all alike where the row failed."""
    order = order_of(row)
    count = len(row.scores)
    if order is None or count < 2:
        return np.full(count, 0.5)
    return np.roll(0.5 + order.sum(axis=1) / (2 * (count - 1)), shift)


class ColumnContrast(NamedTuple):
    """A mean in [0, 1], what it exceeds another by, and the two-sided p that neither is larger."""

    value: Interval
    excess: Interval
    p: float


@dataclass(frozen=True)
class JudgedItems:
    """Some items of a run, in its order, with all that intervals over them need."""

    rows: tuple[Row, ...]
    average: Average
    seed: int = 0

    def part(self, items: Mapping[str, object]) -> "JudgedItems":
        """Return those of the items that are keys."""
        return JudgedItems(tuple(row for row in self.rows if row.item in items), self.average, self.seed)

    def means(self, *columns: FloatArray) -> ClusterMeans:
        """Return the means of columns over the items, averaged as the card says."""
        strata = [row.domain for row in self.rows] if self.average == "macro" else None
        return cluster_means(np.stack(columns, axis=1), self.clusters, strata=strata, crossed=self.prompts)

    @cached_property
    def clusters(self) -> list[str]:
        """The cluster of each item."""
        return [row.cluster for row in self.rows]

    @cached_property
    def prompts(self) -> list[str]:
        """The prompt of each item."""
        return [row.prompt for row in self.rows]

    def estimate(self, interval: Interval) -> Estimate:
        """Return the interval as an Estimate over these items."""
        failed = sum(row.failed for row in self.rows)
        return Estimate(interval.value, interval.low, interval.high, len(self.rows), failed, interval.method)

    def share(self, values: FloatArray) -> Estimate:
        """Return the mean of values in [0, 1]."""
        return self.estimate(share_interval(self.means(values)))

    def lead(self, first: FloatArray, second: FloatArray) -> Estimate:
        """Return by how much the mean of `first` exceeds that of `second`, paired."""
        return self.estimate(difference_interval(self.means(first, second), 0, 1))

    def contrast(self, values: FloatArray, sound: FloatArray, *, among: int = 1) -> ColumnContrast:
        """Return the mean of `values` beside that of `sound`; interval and p allow for `among` contrasts at once."""
        means = self.means(values, sound)
        if np.array_equal(values, sound):
            return ColumnContrast(share_interval(means), Interval(0.0, None, None, ALL_ALIKE), 1.0)
        excess = difference_interval(means, 0, 1, level=1 - 0.05 / among)
        p = 1.0 if excess.low is None else min(1.0, among * flipped_p(means, self.seed))
        return ColumnContrast(share_interval(means), excess, p)


@dataclass(frozen=True)
class Ordered:
    """One judge's calls on each item, over all orders in which it was asked."""

    items: JudgedItems
    calls: Mapping[str, Sequence[PlacedCall]]
    leads: Mapping[str, FloatArray]
    """By item and pair: the lead of one candidate over another, places averaged out."""
    turns: Mapping[int, Run]

    @classmethod
    def of(cls, base: Run, turns: Mapping[int, Run], *, seed: int = 0) -> "Ordered":
        """Return the calls of a run and of its turned ones, by their shifts."""
        rows: dict[str, dict[int, Row]] = {row.item: {0: row} for row in base.rows}
        for shift, run in turns.items():
            for row in run.rows:
                rows[row.item][shift] = row
        calls = {
            item: [call for shift, row in own.items() for call in calls_of(row, shift)] for item, own in rows.items()
        }
        return cls(
            JudgedItems(base.rows, base.card.average, seed),
            calls,
            {item: _leads(own) for item, own in rows.items()},
            turns,
        )

    @property
    def unknown(self) -> float:
        """The share of items of which a call failed."""
        return sum(any(call.won is None for call in calls) for calls in self.calls.values()) / len(self.calls)

    @cached_property
    def width(self) -> int:
        """The most candidates of a call."""
        return max(len(call.order) for calls in self.calls.values() for call in calls)

    def place(self, position: int) -> tuple[JudgedItems, FloatArray, FloatArray]:
        """Return the items with calls that have this place, the share of them that it won, and its fair share.

        A call that failed counts as its fair share.
        """
        wins: dict[str, float] = {}
        fair: dict[str, float] = {}
        for item, calls in self.calls.items():
            own = [call for call in calls if position < len(call.order)]
            if own:
                shares = [1 / len(call.order) if call.won is None else call.won[position] for call in own]
                wins[item] = sum(shares) / len(own)
                fair[item] = sum(1 / len(call.order) for call in own) / len(own)
        items = self.items.part(wins)
        first, second = (np.array([values[row.item] for row in items.rows]) for values in (wins, fair))
        return items, first, second

    def credits(self) -> tuple[FloatArray, FloatArray | None]:
        """Return what each item earned over all orders, and in the first order alone; a failure earns nothing.

        The second is None where a call shows only some of an item's candidates.
        """
        whole, first = [], []
        for row in self.items.rows:
            calls = [call for call in self.calls[row.item] if len(call.order) == len(row.scores)]
            earned = [_credit(call, row.best) for call in calls]
            whole.append(sum(earned) / len(earned) if earned else top_credit(row))
            first.append(earned[0] if earned else None)
        given_order = None if None in first else np.array(first, dtype=np.float64)
        return np.array(whole), given_order

    def exposure(self, position: int) -> float:
        """Return in which share of the items a best candidate stands at a place of the item's own order."""
        rows = [row for row in self.items.rows if position < len(row.scores)]
        return sum(position in row.best for row in rows) / len(rows) if rows else 0.0

    def fit(self) -> PlaceFit:
        """Return the ability without place effects; MetricError where there is none."""
        calls = [(number, row, call) for number, row in enumerate(self.items.rows) for call in self.calls[row.item]]
        width = self.width
        won, best = np.zeros((len(calls), width)), np.zeros((len(calls), width), dtype=bool)
        present = np.zeros_like(best)
        for index, (_, row, call) in enumerate(calls):
            count = len(call.order)
            best[index, :count] = [candidate in row.best for candidate in call.order]
            present[index, :count] = True
            won[index, :count] = _lost(best[index, :count]) if call.won is None else call.won
        item = np.array([number for number, _, _ in calls], dtype=np.intp)
        return fit_places(PlacedChoices(won, best, present, item), self.items.clusters, crossed=self.items.prompts)


def _lost(best: FloatArray) -> FloatArray:
    """Return the shares of a call that failed: its others won, which never pays."""
    others = ~best.astype(bool)
    return np.full(len(best), 1 / len(best)) if not others.any() else others / others.sum()


def _credit(call: PlacedCall, best: Sequence[int]) -> float:
    if call.won is None:
        return 0.0
    return sum(share for index, share in zip(call.order, call.won, strict=True) if index in best)


def _leads(rows: Mapping[int, Row]) -> FloatArray:
    """Return (n, n): by how much a candidate's mean rank over the orders exceeds another's.

    Over balanced orders a place adds as much to each candidate's rank: unlike the pairs of any one order, these leads
    are free of the places.
    """
    ranks = np.mean([_ranks(row, shift) for shift, row in rows.items()], axis=0)
    leads: FloatArray = ranks[:, None] - ranks
    return leads


def likeness(leads: FloatArray, order: FloatArray) -> float:
    """Return how far an order agrees with the leads: 1 where it is theirs, -1 where it is the reverse, 0 by chance."""
    count = len(leads)
    strict = count * (count + 1) / 3  # the sum of the leads of a strict order, each pair counted twice
    return float((leads * order).sum()) / strict


def mirrored(estimate: Estimate) -> Estimate:
    """Return the same estimate of the opposite quantity."""
    low, high = (None if end is None else -end for end in (estimate.high, estimate.low))
    return replace(estimate, value=-estimate.value, low=low, high=high)

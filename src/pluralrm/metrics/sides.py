"""Personal against world: where a person and the crowd prefer different candidates, with whom does a model side?

>>> from pluralrm.metrics.sides import sides
>>> print(sides(run))  # doctest: +SKIP
61.3 [58.7, 63.9] with the person, 38.7 with the crowd: 1,422 such items settle ±2.6 points

A model can earn a high accuracy by siding with the crowd; here that earns nothing. The crowd of an item is the
candidates that most *other* people prefer (`Row.others`); against `world` it is what the same person ranks highest for
everybody (tags `world:CANDIDATE-ID`, each a grade). An item counts where the two have no candidate in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.core import Estimate, Row, Run
from pluralrm.display import Brief, JsonFields
from pluralrm.metrics.estimates import caveats, remark
from pluralrm.metrics.roles import is_own
from pluralrm.metrics.shares import Cells, Moment, Moments, PersonJudgment, cells_of, estimate_of
from pluralrm.metrics.units import numbers, once, top_credit
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.intervals import t_quantile
from pluralrm.text import counted, estimated

Against = Literal["crowd", "world"]
WORLD = "world:"
"""What the name of a tag begins with that holds a grade of the person's own ranking for everybody."""
_DIFFER = {"crowd": "person and crowd", "world": "a person's own and world rankings"}
CROWD = 2
"""Fewer other people are no crowd."""


class SidedItem(NamedTuple):
    """An item on which person and crowd differ, and which candidates each prefers."""

    row: Row
    person: tuple[int, ...]
    crowd: tuple[int, ...]

    @property
    def credit(self) -> tuple[float, float, float]:
        """What the model gives the person, the crowd and neither: candidates tied at the top share; 0 if it failed."""
        scores = numbers(self.row)
        if scores is None:
            return 0.0, 0.0, 0.0
        highest = max(scores)
        tied = scores.count(highest)
        person, crowd = (sum(scores[index] == highest for index in side) / tied for side in (self.person, self.crowd))
        return person, crowd, 1 - person - crowd


@dataclass(frozen=True, slots=True, repr=False)
class Sides(Brief, JsonFields):
    """With whom a model sides where person and crowd differ. With the failed items the three shares add up to 1."""

    in_json = ("against", "person", "crowd", "neither", "chance", "settles")

    against: Against
    person: Estimate
    crowd: Estimate
    neither: Estimate
    """0 where all items are pairs."""
    chance: float
    """How often a scorer that knows nothing sides with the person."""

    @property
    def settles(self) -> float | None:
        """Half the width of the interval; None without one."""
        low, high = self.person.low, self.person.high
        return None if low is None or high is None else (high - low) / 2

    def __str__(self) -> str:
        crowd = "crowd" if self.against == "crowd" else "person's own world ranking"
        text = f"{estimated(self.person)} with the person, {estimated(self.crowd.value)} with the {crowd}"
        text += f", {estimated(self.neither.value)} with neither" * (self.neither.value > 0)
        text += f", {self.person.failed:,} failed" * (self.person.failed > 0)
        reach = "no interval" if self.settles is None else f"settle ±{100 * self.settles:.1f} points"
        return f"{text}: {counted(self.person.n, 'such item')} {reach}"


def sides(run: Run, against: Against = "crowd") -> Sides | None:
    """Return with whom a run sides; None where no item has a crowd, or a world ranking, that differs.

    The intervals are robust to people and prompts. Ties share, whatever the rule of the run.
    """
    return once(run, ("sides", against), lambda: _sides(run, against))


def all_sides(run: Run) -> list[Sides]:
    """Return what can be said of a run: against the crowd, and against the people's own world rankings."""
    return [result for result in (sides(run), sides(run, "world")) if result is not None]


def sided_items(rows: Sequence[Row], against: Against = "crowd") -> list[SidedItem]:
    """Return the items on which person and crowd have no candidate in common: what `sides` averages."""
    crowd_of = _crowd if against == "crowd" else _world
    items = (SidedItem(row, row.best, crowd) for row in rows if (crowd := crowd_of(row)))
    return [item for item in items if item.person and not set(item.person) & set(item.crowd)]


def _sides(run: Run, against: Against) -> Sides | None:
    items = sided_items(run.rows, against)
    if not items:
        return None
    means = cluster_means(
        [item.credit for item in items],
        [item.row.cluster for item in items],
        crossed=[item.row.prompt for item in items],
    )
    failed = sum(item.row.failed for item in items)
    intervals = (share_interval(means, column) for column in range(3))
    person, crowd, neither = (
        Estimate(
            value, low, high, len(items), failed, "; ".join(filter(None, ["mean where they differ", method, notes]))
        )
        for (value, low, high, method), notes in ((interval, caveats(run)) for interval in intervals)
    )
    chance = sum(len(item.person) / len(item.row.scores) for item in items) / len(items)
    return Sides(against, person, crowd, neither, chance)


def _crowd(row: Row) -> tuple[int, ...]:
    return _favourites(row.others) if row.others else ()


@lru_cache(4096)  # votes are counts: many items have the same
def _favourites(votes: tuple[float, ...]) -> tuple[int, ...]:
    return _highest(votes) if sum(votes) > CROWD - 0.5 else ()


def _world(row: Row) -> tuple[int, ...]:
    """Return what the person ranks highest for everybody; nothing where a candidate has no such grade."""
    if not row.candidate_ids or f"{WORLD}{row.candidate_ids[0]}" not in row.tags:  # as in most benchmarks
        return ()
    texts = [row.tags.get(f"{WORLD}{candidate}", "") for candidate in row.candidate_ids]
    try:
        return _highest([float(text) for text in texts])
    except ValueError:
        return ()


def _highest(values: Sequence[float]) -> tuple[int, ...]:
    least = max(values, default=0.0) - 1e-9
    return tuple(index for index, value in enumerate(values) if value >= least)


# ---------------------------------------------------------------- of a model


@dataclass(frozen=True, slots=True, repr=False)
class LiftShare(Brief, JsonFields):
    """How much of the winnable part a model gets by knowing the user, from the rows of its runs alone."""

    winnable: Estimate
    lift: Estimate
    """Own minus none on the judgments that several people made, with failed items at their worst."""
    share: Estimate
    """Their ratio; without ends where the winnable part may be 0."""

    def __str__(self) -> str:
        gap = f"{estimated(self.winnable)} points"
        if self.lift.low is None and not self.lift.value:
            return f"it has no lift of the winnable {gap}"
        if self.share.low is None:
            return f"its share of the winnable part is not settled: that is {gap}"
        return f"its lift is {estimated(self.share, places=0)}% of the winnable {gap}"


class RowCells(NamedTuple):
    """The judgments of rows that several people made, and the cell of each item."""

    cells: Cells
    cell: Mapping[str, int]
    winnable: Moment | None


def row_cells(rows: Sequence[Row]) -> RowCells | None:
    """Return the judgments of rows of one run; None where no two people judged the same candidates."""
    crossed = [row for row in rows if row.digests]
    if not crossed:
        return None
    cells, cell = cells_of([PersonJudgment(row.cluster, row.prompt, row.digests, row.grades) for row in crossed])
    by_item = {row.item: int(index) for row, index in zip(crossed, cell, strict=True)}
    return RowCells(cells, by_item, Moments(cells).difference("same", "other"))


def lift_share(own: Run, none: Run, judged: RowCells | None = None) -> LiftShare | None:
    """Return a model's lift as a share of what can be won; None where no person judged a panel twice.

    The interval is Fieller's: every share r at which lift - r * winnable does not differ significantly from 0.
    `judged` are the rows' own `row_cells`, which all runs on the same items have in common.
    """
    judged = judged or row_cells(own.rows)
    if judged is None or judged.winnable is None:
        return None
    cells, control = judged.cells, {row.item: row for row in none.rows}
    rows = [(row, control[row.item]) for row in own.rows if row.item in judged.cell]
    gains = np.array([top_credit(row) - (1.0 if other.failed else top_credit(other)) for row, other in rows])
    weights = np.array([judged.cell[row.item] for row, _ in rows])
    error = np.bincount(weights, gains - gains.mean(), len(cells.counts)) / len(gains)
    lift = Moment(float(gains.mean()), np.stack([error, np.zeros_like(error)]), cells.counts)
    failed = sum(row.failed or other.failed for row, other in rows)
    ratio = lift.over(judged.winnable)
    low, high = _fieller(lift, judged.winnable, cells) or (None, None)
    method = "not settled: the winnable part may be 0" if low is None else "Fieller's interval, two-way"
    share = Estimate(ratio.value, low, high, len(gains), failed, method)
    return LiftShare(estimate_of(judged.winnable, cells), replace(estimate_of(lift, cells), failed=failed), share)


def _fieller(top: Moment, bottom: Moment, cells: Cells) -> tuple[float, float] | None:
    """Return the ends of the ratio's interval; None where the denominator is not significantly above 0."""
    spreads = [moment.spread(cells) for moment in (top, bottom, top - bottom)]
    above, below, apart = (spread.variance for spread in spreads)
    varying = [spread.df for spread in spreads[:2] if spread.variance]
    reach = t_quantile(min(varying)) ** 2 if varying else 0.0
    a = bottom.value**2 - reach * below
    if bottom.value <= 0 or a <= 0:
        return None
    b = top.value * bottom.value - reach * (above + below - apart) / 2
    half = max(0.0, b**2 - a * (top.value**2 - reach * above)) ** 0.5
    return (b - half) / a, (b + half) / a


@dataclass(frozen=True, slots=True, repr=False)
class AmongPeople(Brief, JsonFields):
    """What a run is worth where several people judged the same candidates."""

    model: str
    condition: str
    lift_share: LiftShare | None
    """None where there is no run without the user, or no person judged twice."""
    sides: tuple[Sides, ...]

    def __str__(self) -> str:
        texts = [str(self.lift_share)] * (self.lift_share is not None)
        return "; ".join(
            [*texts, *(f"where {_DIFFER[result.against]} differ it sides {result}" for result in self.sides)]
        )


def _crosses(rows: Sequence[Row]) -> bool:
    """Return whether other people judged some item, or ranked for the world."""
    names = set(map(tuple, map(attrgetter("tags"), rows)))
    return any(map(attrgetter("others"), rows)) or any(WORLD in " ".join(tags) for tags in names)


def among_people(runs: Sequence[Run]) -> list[AmongPeople]:
    """Return what each finished run under an own condition, else `none`, is worth.

    Nothing where no people crossed and none ranked for the world.
    """
    crossed = [run for run in runs if not remark(run) and _crosses(run.rows)]
    judged = row_cells(crossed[0].rows) if crossed else None
    none = {run.model: run for run in crossed if not run.reveals}
    owns = [run for run in crossed if is_own(run)]
    rest = [run for model, run in none.items() if model not in {own.model for own in owns}]
    numbers = []
    for run in [*owns, *rest]:
        control = none.get(run.model) if is_own(run) else None
        share = None if control is None else lift_share(run, control, judged)
        result = AmongPeople(run.model, run.condition, share, tuple(all_sides(run)))
        numbers += [result] * bool(str(result))
    return numbers

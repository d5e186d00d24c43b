"""Runs compared item by item: paired differences, and which runs lie above chance when all are looked at together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from operator import attrgetter
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.core import OTHERS, Estimate, Failure, Row, Run, Score
from pluralrm.display import Brief, JsonFields
from pluralrm.errors import MetricError, check_type
from pluralrm.metrics.estimates import (
    FIXED,
    as_estimate,
    caveats,
    chosen,
    headline,
    measure,
    over,
    remark,
    same_everywhere,
)
from pluralrm.metrics.units import (
    METRICS,
    ScoreTable,
    Units,
    by_chance,
    item_ids,
    once,
    rows_by_domain,
    score_table,
    structure_of,
    table_of,
    top_credit,
    units_of,
)
from pluralrm.stats import ClusterMeans, Interval, cluster_means, difference_interval, holm, share_interval, sign_flip_p
from pluralrm.stats.clusters import BoolArray, FloatArray

_NO_RESULT = OTHERS | {"false_pairs", "oracle"}
"""What controls reveal: a run that shows any of it is not asked whether its model beats chance."""


_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class AgainstChance:
    """What a scorer that knows nothing earns, the places of the runs that lie off it, and among how many.

    `left_out` is how many were not asked, for they were shown another user's posts or the rubric: no results.
    `unfinished` is how many were not asked since items of theirs are open.
    """

    chance: float
    above: tuple[int, ...]
    below: tuple[int, ...]
    tested: int
    left_out: int
    unfinished: int = 0

    @property
    def how(self) -> str:
        """Return in words by what the runs were judged, and which were not."""
        adjusted = f"95% intervals, widened for {self.tested:,} runs at once (Holm)"
        words = adjusted if self.tested > 1 else "the 95% interval"
        aside = ["those shown another user's posts or the rubric"] * bool(self.left_out)
        aside += ["unfinished runs"] * bool(self.unfinished)
        return words + (f", leaving out {' and '.join(aside)}" if aside else "")


def chance(run: Run) -> float:
    """Return what a scorer that knows nothing earns, averaged as the card says."""
    domains = rows_by_domain(run.rows).values() if run.card.average == "macro" else [run.rows]
    return fmean(fmean(map(by_chance, rows)) for rows in domains)


def against_chance(runs: Sequence[Run]) -> AgainstChance:
    """Return which runs on the same items lie off chance: their headlines' intervals, widened by Holm's method.

    One coin in twenty lies off chance by its own 95% interval. Here all intervals together name a coin in at most 5 of
    100 benchmarks. Runs whose headline has no interval are not asked either.
    """
    baseline = chance(runs[0])
    judged = [index for index, run in enumerate(runs) if not run.reveals & _NO_RESULT and not remark(run)]
    values = {index: measure(runs[index]) for index in judged}
    family = [index for index in judged if values[index].low is not None]
    # What its own interval does not tell from chance, a wider one does not either.
    waiting = {index: _means(runs[index]) for index in family if _side(values[index], baseline)}
    side_of: dict[int, int] = {}
    while waiting:
        level = 1 - _ALPHA / (len(family) - len(side_of))
        sides = {index: _side(share_interval(means, level=level), baseline) for index, means in waiting.items()}
        off = {index: side for index, side in sides.items() if side}
        if not off:
            break
        side_of |= off
        waiting = {index: means for index, means in waiting.items() if index not in off}
    above, below = (tuple(sorted(index for index in side_of if side_of[index] == side)) for side in (1, -1))
    unfinished = sum(bool(remark(run)) for run in runs)
    left_out = sum(bool(run.reveals & _NO_RESULT) and not remark(run) for run in runs)
    return AgainstChance(baseline, above, below, len(family), left_out, unfinished)


def _means(run: Run) -> ClusterMeans:
    parts = units_of(run, headline(run))
    return parts.means(macro=run.card.average == "macro")


def _side(interval: Estimate | Interval, chance: float) -> int:
    """Return 1 where the interval lies above chance, -1 where it lies below, 0 where it does neither."""
    low, high = interval.low, interval.high
    return int(low is not None and low > chance) - int(high is not None and high < chance)


@dataclass(frozen=True)
class RunItems:
    """Rows, and what each item is, earned and said, worked out once. Place i is one item on every side compared."""

    rows: tuple[Row, ...]
    note: str = ""
    """Where the rows come from, where somebody else scored them."""

    @cached_property
    def table(self) -> ScoreTable | None:
        """The scores of all items where each is of the usual kind."""
        return score_table(self.rows)

    @cached_property
    def earned(self) -> FloatArray:
        """The credit of each item: 1 / number tied at the top where the preferred candidate is there, 0 if failed."""
        return self.table.credit if self.table else np.array([top_credit(row) for row in self.rows])

    @cached_property
    def at_best(self) -> FloatArray:
        """The same where every failed item had been right: what a control could have earned."""
        return np.where(self.failed, 1.0, self.earned)

    @cached_property
    def failed(self) -> BoolArray:
        """Which items failed."""
        return np.array(list(map(attrgetter("failed"), self.rows)), dtype=np.bool_)

    @cached_property
    def said(self) -> list[tuple[Score | str, ...]]:
        """The scores of each item; failures of one kind are the same."""
        if not self.failed.any():
            return list(map(attrgetter("scores"), self.rows))
        return [
            tuple(score.kind if isinstance(score, Failure) else score for score in row.scores)
            if row.failed
            else row.scores
            for row in self.rows
        ]

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """The cluster of each item."""
        return tuple(map(attrgetter("cluster"), self.rows))

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """The domain of each item."""
        return tuple(map(attrgetter("domain"), self.rows))

    @cached_property
    def prompts(self) -> tuple[str, ...]:
        """The prompt of each item, which users may share."""
        return tuple(map(attrgetter("prompt"), self.rows))

    def means(self, values: ArrayLike, *, macro: bool) -> ClusterMeans:
        """Return the mean of columns of values over the items, with their clusters, prompts and domains."""
        strata = self.domains if macro else None
        return cluster_means(values, self.clusters, strata=strata, crossed=self.prompts)

    def part(self, places: Sequence[int]) -> "RunItems":
        """Return the items at some places, with what they earned."""
        part = RunItems(tuple(map(self.rows.__getitem__, places)), self.note)
        vars(part).update(earned=self.earned[places], failed=self.failed[places])
        return part

    def same_as(self, other: "RunItems") -> bool:
        """Return whether no score of any item differs, and at least one item did not fail."""
        return self.said == other.said and not self.failed.all()


def items_of(run: Run) -> RunItems:
    """Return the items of a run, sorted, made once: place i is one item in all runs on the same items."""
    return once(run, "sorted", lambda: _sorted_items(run))


def _sorted_items(run: Run) -> RunItems:
    items = RunItems(tuple(sorted(run.rows, key=attrgetter("item"))), run.imported)
    if items.rows == run.rows:
        vars(items).update(table=table_of(run))
    return items


def paired(interval: Interval, *sides: RunItems, scope: str = "") -> Estimate:
    """Return the interval as an Estimate over the items of the sides; an item failed where it failed on any."""
    failed = int(np.logical_or.reduce([side.failed for side in sides]).sum())
    notes = dict.fromkeys(side.note for side in sides)
    method = "; ".join(part for part in (scope, interval.method, *notes) if part)
    return Estimate(interval.value, interval.low, interval.high, len(sides[0].rows), failed, method)


SIGNIFICANT = 0.05
ALIKE = f"{FIXED}: the same scores on every item"
_FLIPS_PER_PAIR = 200
"""Holm multiplies the smallest p by the number of pairs; so many sign flips keep it well below 0.05."""


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Brief, JsonFields):
    """The first run's metric minus the second's, by their places in the list of runs; p adjusted over the pairs tested.

    Runs that gave the same scores on every item differ in nothing: no interval, p = 1, and no test among the others.
    """

    in_json = ("first", "second", "difference", "p", "p_adjusted", "significant")

    first: int
    second: int
    difference: Estimate
    p: float
    p_adjusted: float
    tested: bool = True
    """False where the two runs gave the same scores on every item, or one of them is unfinished."""

    @property
    def significant(self) -> bool:
        """True when the adjusted p is below 0.05."""
        return self.p_adjusted < SIGNIFICANT


def paired_difference(first: Run, second: Run, metric: str = "", *, seed: int = 0) -> Difference:
    """Return the first run's metric (the headline, unless named) minus the second's, over the same items."""
    check_runs([first, second])
    return paired_differences([first, second], metric, seed=seed)[0]


def paired_differences(runs: Sequence[Run], metric: str = "", *, seed: int = 0) -> list[Difference]:
    """Return all pairs (i < j), run i minus run j, averaged as the card says.

    p is from a sign-flip test that swaps the two runs' names in whole clusters, adjusted by Holm over all pairs but
    those whose scores are the same. Where users share prompts, intervals and p are robust to both.
    Runs of different items are an error that names them. Nothing is tested where a run is unfinished: its open items
    count as failed, p is 1, and the method says so.
    """
    if len(runs) < 2:
        return []
    name = chosen(runs[0], metric)
    parts = together(runs, name)
    macro = runs[0].card.average == "macro"
    values = np.array([part.values for part in parts]).T
    means = parts[0].means(values, macro=macro)
    pairs = list(combinations(range(len(runs)), 2))
    p_values = sign_flip_p(means, seed=seed, flips=max(10_000, _FLIPS_PER_PAIR * len(pairs)))
    unfinished = [bool(remark(run)) for run in runs]
    raw = [1.0 if unfinished[i] or unfinished[j] else float(p_values[i, j]) for i, j in pairs]
    same = _alike(runs)
    fixed = [
        bool(same_everywhere(means, index) and METRICS[name].fixed(run.rows, structure_of(run)))
        for index, run in enumerate(runs)
    ]
    notes = [caveats(run) for run in runs]
    tested = [same[i] != same[j] and not (unfinished[i] or unfinished[j]) for i, j in pairs]
    scope = f"paired, {over(parts[0], macro=macro)}"
    failed = _failed_in_either(parts)
    return [
        Difference(
            *pair,
            replace(
                as_estimate(_interval(means, fixed, same, pair), parts[0], scope=scope, note=_noted(notes, pair)),
                failed=int(failed[pair]),
            ),
            p,
            adjusted,
            tested=test,
        )
        for pair, p, adjusted, test in zip(pairs, raw, _adjusted(raw, tested), tested, strict=True)
    ]


def _noted(notes: Sequence[str], pair: tuple[int, int]) -> str:
    return "; ".join(dict.fromkeys(notes[index] for index in pair if notes[index]))


def _adjusted(raw: Sequence[float], tested: Sequence[bool]) -> list[float]:
    """Return Holm's p-values of the pairs that were tested, the others' as they are."""
    family = iter(holm([p for p, test in zip(raw, tested, strict=True) if test]).tolist())
    return [next(family) if test else p for p, test in zip(raw, tested, strict=True)]


def _alike(runs: Sequence[Run]) -> list[int]:
    """Return, per run, the place of the first that gave the same scores on every item."""
    sides = list(map(items_of, runs))
    return [
        next((earlier for earlier in range(index) if side.same_as(sides[earlier])), index)
        for index, side in enumerate(sides)
    ]


def together(runs: Sequence[Run], metric: str) -> list[Units]:
    """Return each run's units over the same ids in the same (sorted) order.

    Ids that not all runs have are an error: no run may choose on what it is compared.
    """
    check_content(runs)
    parts = [units_of(run, metric) for run in runs]
    orders = dict.fromkeys(part.ids for part in parts)  # nearly always one
    common = set(parts[0].ids).intersection(*orders)
    for run, part in zip(runs, parts, strict=True):
        if extra := sorted(set(part.ids) - common) if len(orders) > 1 else []:
            raise MetricError(
                f"{name_run(run)} has {len(extra):,} items that not all runs have: {some(extra)}. "
                "Compare runs of the same items."
            )
    return [_in_order(part) for part in parts]


def unmatched_items(first: Run, second: Run) -> list[str]:
    """Return the ids, sorted, of the items that one of two runs lacks."""
    ids, others = item_ids(first), item_ids(second)
    return [] if ids == others else sorted({*ids} ^ {*others})


def check_runs(runs: Sequence[Run]) -> None:
    """Raise a SpecError where something else than runs was handed over, such as their folder."""
    expected = "a list of runs; load_runs(FOLDER) returns those of a folder"
    check_type(runs, (list, tuple), "runs", expected)
    for run in runs:
        check_type(run, (Run,), "run", expected)


def check_content(runs: Sequence[Run]) -> None:
    """Refuse runs that are not all on one benchmark content: equal ids do not make equal items."""
    first = runs[0]
    for run in runs[1:]:
        if run.benchmark_hash != first.benchmark_hash:
            raise MetricError(
                f"{name_run(first)} is on {first.benchmark} ({first.benchmark_hash[:8]}), {name_run(run)} on "
                f"{run.benchmark} ({run.benchmark_hash[:8]}). Compare runs of one benchmark content at a time."
            )


def name_run(run: Run) -> str:
    """Return the run's name in messages."""
    return f"{run.model} under {run.condition}"


def some(names: Sequence[str]) -> str:
    """Return up to three of the names, for a message."""
    return f"{', '.join(map(repr, names[:3]))}{', ...' * (len(names) > 3)}"


def _in_order(part: Units) -> Units:
    return part.at(sorted(range(len(part.ids)), key=part.ids.__getitem__))


def _interval(means: ClusterMeans, fixed: Sequence[bool], same: Sequence[int], pair: tuple[int, int]) -> Interval:
    if same[pair[0]] == same[pair[1]]:
        return Interval(0.0, None, None, ALIKE)
    interval = difference_interval(means, *pair)
    if all(fixed[index] for index in pair):
        return interval._replace(low=None, high=None, method=f"{FIXED}, both")
    return interval


def _failed_in_either(parts: Sequence[Units]) -> FloatArray:
    """Return (runs, runs): how many units failed in one of two runs or in both."""
    failed = np.array([part.failed for part in parts], dtype=np.float64)
    alone = failed.sum(axis=1)
    either: FloatArray = alone[:, None] + alone - failed @ failed.T
    return either

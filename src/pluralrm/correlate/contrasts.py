"""Which of two benchmarks predicts a result better: the difference, its test, and the pairs of models that decide it.

Two correlations with one result over the same models depend on each other, so neither their intervals nor a test of
independent correlations will do. The models are the units: where both benchmarks predict equally well, a model's two
ranks may be swapped (`stats.ranking.swap_test`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, count

import numpy as np

from pluralrm.core import Estimate
from pluralrm.correlate.cell import SIGNIFICANT, below, pair_p
from pluralrm.correlate.columns import Column, complete, scores_of
from pluralrm.correlate.measures import ENOUGH, Measure, Name, measures, unranked
from pluralrm.display import Brief
from pluralrm.stats import holm
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.correlation import Statistic, interval_over_items, interval_over_studies
from pluralrm.stats.ranking import SwapTest, swap_test
from pluralrm.text import correlation

CONTRASTED: tuple[Name, ...] = ("spearman", "kendall", "pearson")

Choice = Callable[[Sequence[Column], Column], Sequence[Column]]
"""Which of the benchmarks stand against a result."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """The first benchmark's measure minus the second's, over the models that have all three scores."""

    first: str
    second: str
    downstream: str
    measure: Name
    title: str
    values: tuple[float, float]
    difference: Estimate
    test: SwapTest
    """Each model's two scores swapped, in all ways or in random ones."""
    p_adjusted: float
    """The test's p, Holm over the family: all pairs of benchmarks on all results, by this measure."""
    smallest_p: float
    """The smallest that p could be, so adjusted, whatever the result had been."""
    family: int = 1

    @property
    def shown(self) -> bool:
        """True where the interval leaves out 0 and the adjusted p is below .05: one without the other is open."""
        low, high = self.difference.low, self.difference.high
        outside = low is not None and high is not None and not low <= 0 <= high
        return outside and self.p_adjusted < SIGNIFICANT

    @property
    def too_few(self) -> bool:
        """True where no result of so many models could be significant."""
        return self.smallest_p >= SIGNIFICANT

    @property
    def order(self) -> tuple[str, str]:
        """The benchmark that predicts better over these models, and the other; a tie stays as it is."""
        return (self.first, self.second) if self.difference.value >= 0 else (self.second, self.first)

    @property
    def verdict(self) -> str:
        """Which benchmark predicts better, or that it is not settled, in a sentence."""
        better, other = self.order
        high, low = sorted(self.values, reverse=True)
        over = f", Holm over {self.family} comparisons" if self.family > 1 else ""
        models = f"{self.difference.n} models"
        numbers = f"{self.title} {correlation(high)} against {correlation(low)}"
        if self.shown:
            p = f"p {below(self.p_adjusted)}{over}"
            return f"{better} predicts {self.downstream} significantly better than {other} ({numbers}, {p}, {models})."
        head = f"Not settled whether {better} or {other} predicts {self.downstream} better"
        needed = next(n for n in count(2) if self.family * 2.0 ** (1 - n) < SIGNIFICANT)
        if self.too_few and needed > self.difference.n:
            least = min(1.0, self.family * 2.0 ** (1 - self.difference.n))
            return (
                f"{head}: {models} are too few, for p is at least {correlation(least)}{over}; wanted {needed} or more "
                f"({numbers})."
            )
        if self.too_few:
            return (
                f"{head}: they rank too few of {models} differently, for p is at least "
                f"{correlation(self.smallest_p)}{over} ({numbers})."
            )
        disagree = "; the interval does not exclude 0" if self.p_adjusted < SIGNIFICANT else ""
        return f"{head} ({numbers}, p {below(self.p_adjusted)}{over}, {models}{disagree})."

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        who = {"first": self.first, "second": self.second, "downstream": self.downstream}
        test = {"p": self.test.p, "swaps": self.test.orders, "exact": self.test.exact, "p_adjusted": self.p_adjusted}
        least = {"smallest_p": self.smallest_p, "too_few": self.too_few, "verdict": self.verdict}
        what = {"measure": self.measure, "title": self.title, "values": list(self.values), **self.difference.to_json()}
        return {**who, **what, **test, "family": self.family, "shown": self.shown, **least}


@dataclass(frozen=True, slots=True)
class DisputedPair:
    """Two models that two benchmarks order differently: the one that each ranks higher, and what they earn downstream.

    Both leads are positive; `gain` is what the first's choice earns more downstream, below 0 where the second is right.
    The p-value says whether the two differ downstream at all; None where only scores are known.
    """

    first: str
    second: str
    leads: tuple[float, float]
    gain: float
    p_downstream: float | None


@dataclass(frozen=True, slots=True, repr=False)
class Dispute(Brief):
    """Two benchmarks on one result: how they differ by Spearman, and the pairs of models that they order differently.

    `pairs` are sorted by how far the two models are apart downstream.
    """

    contrast: Contrast
    pairs: tuple[DisputedPair, ...]

    @property
    def against(self) -> list[DisputedPair]:
        """The pairs that would refute the better benchmark, its choice first: the result agrees with the other one."""
        if self.contrast.order[0] == self.contrast.first:
            return [pair for pair in self.pairs if pair.gain < 0]
        turned = [replace(pair, first=pair.second, second=pair.first, gain=-pair.gain) for pair in self.pairs]
        return [replace(pair, leads=pair.leads[::-1]) for pair in turned if pair.gain < 0]

    @property
    def verdict(self) -> str:
        """The contrast's verdict, and with which benchmark the result agrees where the two differ."""
        n = self.contrast.difference.n
        first, second = self.contrast.first, self.contrast.second
        right = sum(pair.gain > 0 for pair in self.pairs), sum(pair.gain < 0 for pair in self.pairs)
        counts = {first: right[0], second: right[1]}
        better, other = self.contrast.order
        agrees = f": the result agrees with {better} in {counts[better]}, with {other} in {counts[other]}"
        ordered = f"They order {len(self.pairs)} of {n * (n - 1) // 2} pairs of models differently"
        return f"{self.contrast.verdict} {ordered}{agrees if self.pairs else ''}."

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        who = {key: getattr(self.contrast, key) for key in ("first", "second", "downstream")}
        return {**who, "verdict": self.verdict, "pairs": [asdict(pair) for pair in self.pairs]}


def contrasts_of(
    benchmarks: Sequence[Column], downstream: Sequence[Column], matched: Choice, *, rbo_p: float, seed: int
) -> tuple[list[Contrast], list[Dispute]]:
    """Return the differences of all pairs of benchmarks; none where fewer than FEWEST models have all three scores.

    Nothing is compared with what it should predict: a column against itself would always win.
    """
    chosen = [measure for measure in measures(rbo_p) if measure.name in CONTRASTED]
    triples = []
    for result in downstream:
        for first, second in combinations(matched(benchmarks, result), 2):
            models = complete((first, second, result), list(first.scores))
            again = any(column.is_again(other) for column, other in combinations((first, second, result), 2))
            if not again and not unranked((first, second, result), models):
                triples.append(((first, second), result, models))
    families = []
    for measure in chosen:
        alike = [_contrast(pair, result, models, measure, seed=seed) for pair, result, models in triples]
        adjusted = holm([row.test.p for row in alike])
        smallest = holm([row.test.smallest for row in alike])
        families.append(
            [
                replace(row, p_adjusted=float(p), smallest_p=float(least), family=len(alike))
                for row, p, least in zip(alike, adjusted, smallest, strict=True)
            ]
        )
    disputes = [
        Dispute(row, tuple(_disputed(pair, result, models, seed)))
        for row, (pair, result, models) in zip(families[0], triples, strict=True)
    ]
    return [row for of_triple in zip(*families, strict=True) for row in of_triple], disputes


def _contrast(
    benchmarks: tuple[Column, Column], downstream: Column, models: Sequence[str], measure: Measure, *, seed: int
) -> Contrast:
    """Return the difference of a measure that does not jump, by itself: its p is adjusted over a family of one.

    Both sides see the same resampled models and items, for they depend on each other.
    """
    columns = (*benchmarks, downstream)
    scores = scores_of(columns, models)
    sides = measure.statistic(0, 2), measure.statistic(1, 2)
    difference: Statistic = lambda table: sides[0](table) - sides[1](table)  # noqa: E731
    if len(models) >= ENOUGH:
        # Not on Fisher's scale: a difference of two correlations has none.
        interval = interval_over_studies(difference, scores, scale="plain", limit=2.0, seed=seed)
    else:
        interval = interval_over_items(difference, scores, seed=seed)
    failed = sum(column.failed.get(model, 0) for column in columns for model in models)
    first, second = (column.name for column in benchmarks)
    ranked = measure.of_ranks is not None
    test = swap_test(measure.of_ranks or measure.function, *scores.values, ranked=ranked, seed=seed)
    return Contrast(
        first,
        second,
        downstream.name,
        measure.name,
        measure.title,
        (float(sides[0](scores.values)), float(sides[1](scores.values))),
        Estimate(interval.value, interval.low, interval.high, len(models), failed, f"paired, {interval.method}"),
        test,
        p_adjusted=test.p,
        smallest_p=test.smallest,
    )


def _disputed(
    benchmarks: tuple[Column, Column], downstream: Column, models: Sequence[str], seed: int
) -> list[DisputedPair]:
    """Return the pairs that the two benchmarks order differently, those furthest apart downstream first."""
    table: FloatArray | None = None
    pairs = []
    for i, j in combinations(range(len(models)), 2):
        leads = [column.scores[models[i]] - column.scores[models[j]] for column in benchmarks]
        if leads[0] * leads[1] >= 0:
            continue
        if table is None:
            table = pair_p(downstream, models, seed=seed)
            table = np.full((len(models),) * 2, np.nan) if table is None else table
        first, second = (i, j) if leads[0] > 0 else (j, i)
        gain = downstream.scores[models[first]] - downstream.scores[models[second]]
        p = None if np.isnan(table[i, j]) else float(table[i, j])
        pairs.append(DisputedPair(models[first], models[second], (abs(leads[0]), abs(leads[1])), gain, p))
    return sorted(pairs, key=lambda pair: (-abs(pair.gain), pair.first, pair.second))


def lines_about(contrasts: Sequence[Contrast]) -> Iterator[str]:
    """Yield how a difference of two benchmarks is tested, where there is one."""
    if not contrasts:
        return
    tried = dict.fromkeys(
        f"all {contrast.test.orders:,}" if contrast.test.exact else f"{contrast.test.orders:,} random"
        for contrast in contrasts
    )
    family = contrasts[0].family
    adjusted = f"; p Holm over {family} differences by the same measure" if family > 1 else ""
    yield (
        "p of a difference: a model's ranks on the two benchmarks (standardized scores for Pearson) swapped, "
        f"{' or '.join(tried)} ways, two-sided{adjusted}."
    )
    if any(contrast.shown for contrast in contrasts):
        yield f"* the interval leaves out 0, and {'p Holm' if family > 1 else 'p'} < .05."

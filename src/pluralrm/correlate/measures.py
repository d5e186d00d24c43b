"""How well one ranking predicts another: each measure is data and one pure function of stats.ranking.

`findings` gives one benchmark against one downstream result: every measure with its interval, p and chance level.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from pluralrm.core import Estimate
from pluralrm.correlate.columns import Column, scores_of
from pluralrm.errors import MetricError, SpecError
from pluralrm.stats import ranking
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.correlation import Scale, Scores, Statistic, interval_over_items, interval_over_studies
from pluralrm.stats.ranking import Side, mean_of_rotations, permutation_test

Name = Literal[
    "spearman",
    "kendall",
    "weighted_kendall",
    "pearson",
    "agreement",
    "ndcg",
    "ndcg_linear",
    "rbo_extrapolated",
    "rbo_truncated",
    "rbo_normalised",
    "regret",
]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of two rows of scores, and how it is tested and resampled.

    `chance` is its mean over all orders; None where that depends on the scores, and is then a mean over rotations.
    """

    name: Name
    title: str
    function: ranking.Ranking
    side: Side
    chance: float | None
    scale: Scale
    floor: float = 0.0
    """What `least_error` rests on: a regret of 0 in every resample, and a Pearson that two groups of models hold in
    place, may be luck."""
    of_ranks: ranking.Ranking | None = None
    """The same measure as a function of mid-ranks, where only those count."""

    def least_error(self, n: int) -> float:
        """Return the least standard error that is believed of n models, on the scale: floor / n, or / sqrt(n - 3)."""
        return self.floor / (n if self.scale != "fisher" else max(n - 3, 1) ** 0.5)

    def statistic(self, first: int = 0, second: int = 1) -> Statistic:
        """Return the measure as a statistic of a table of scores, of two of its rows."""
        return lambda table: self.function(table[..., first, :], table[..., second, :])


def regret_share(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the regret of x's first as a share of the range of y; NaN where y never varies."""
    span = np.ptp(y, axis=-1)
    share: FloatArray = np.where(span > 0, ranking.top_regret(x, y) / np.where(span > 0, span, 1.0), np.nan)
    return share


def measures(rbo_p: float = ranking.RBO_P) -> Sequence[Measure]:
    """Return all measures that are computed, with this p of RBO; a SpecError where it is not between 0 and 1.

    RBO is computed normalised: the other two conventions follow from it, for all rank the same models.
    """
    if not 0 < rbo_p < 1:
        raise SpecError(f"--rbo-p {rbo_p:g}: wanted a number between 0 and 1, such as {ranking.RBO_P}")
    overlap = partial(ranking.rbo, p=rbo_p, convention="normalised")
    return (
        Measure("spearman", "Spearman", ranking.spearman, "both", 0.0, "fisher", of_ranks=ranking.pearson),
        Measure("kendall", "Kendall tau-b", ranking.kendall, "both", 0.0, "plain", of_ranks=ranking.kendall),
        Measure("weighted_kendall", "weighted tau", ranking.weighted_kendall, "both", 0.0, "sine"),
        Measure("pearson", "Pearson", ranking.pearson, "both", 0.0, "fisher", floor=0.85),
        Measure("agreement", "pairs ordered alike", ranking.order_agreement, "both", 0.5, "plain"),
        Measure("ndcg", "NDCG, gain 2^rel - 1", ranking.ndcg, "high", None, "arcsine"),
        Measure("ndcg_linear", "NDCG, linear gain", partial(ranking.ndcg, gain="linear"), "high", None, "arcsine"),
        Measure("rbo_normalised", "RBO normalised", overlap, "high", None, "arcsine"),
        Measure("regret", "top-1 regret", regret_share, "low", None, "arcsine", floor=0.06),
    )


def extrapolated(normalised: float, n: int, p: float) -> float:
    """Return RBO extrapolated from RBO normalised, for two rankings of the same n models."""
    return normalised * (1 - p**n) + p**n


def truncated(normalised: float, n: int, p: float) -> float:
    """Return RBO truncated at depth n from RBO normalised."""
    return normalised * (1 - p**n)


ENOUGH = 8
"""From so many models on they are resampled too; below, an interval is about these models only."""
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Correlation:
    """One measure: its Estimate (n counts models), its permutation test, and what a ranking by chance would get."""

    measure: Name
    title: str
    estimate: Estimate
    p: float
    orders: int
    exact: bool
    chance: float

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        test = {"p": self.p, "orders": self.orders, "exact": self.exact, "chance": self.chance}
        return {"measure": self.measure, "title": self.title, **self.estimate.to_json(), **test}


def findings(
    benchmark: Column, downstream: Column, models: Sequence[str], *, rbo_p: float, seed: int
) -> list[Correlation]:
    """Return all measures over these models; too few models, or a column that never varies, is an error."""
    if reason := unranked([benchmark, downstream], models):
        raise MetricError(reason)
    scores = scores_of([benchmark, downstream], models)
    failed = sum(column.failed.get(model, 0) for column in (benchmark, downstream) for model in models)
    rows = [_finding(measure, scores, failed, seed) for measure in measures(rbo_p)]
    return [row for finding in rows for row in _conventions(finding, rbo_p)]


def unranked(columns: Sequence[Column], models: Sequence[str]) -> str:
    """Return why these columns cannot be correlated over these models, which have a score in each, or nothing."""
    if len(models) < FEWEST:
        names, have = (
            " and ".join(column.name for column in columns),
            {1: "a score", 2: "both"}.get(len(columns), "all"),
        )
        return (
            f"{names}: {len(models)} models have {have}, wanted {FEWEST} or more. "
            "A model's name must be the same in both; blank and '-' are missing"
        )
    for column in columns:
        scores = {column.scores[model] for model in models}
        if len(scores) == 1:
            return (
                f"{column.name} is {scores.pop():g} for all of {len(models)} models; a ranking needs scores that differ"
            )
    return ""


def _finding(measure: Measure, scores: Scores, failed: int, seed: int) -> Correlation:
    x, y = scores.values
    chance = mean_of_rotations(measure.function, x, y) if measure.chance is None else measure.chance
    test = permutation_test(measure.function, x, y, side=measure.side, chance=chance, seed=seed)
    if len(x) >= ENOUGH:
        floor = measure.least_error(len(x))
        interval = interval_over_studies(measure.statistic(), scores, scale=measure.scale, floor=floor, seed=seed)
    else:
        interval = interval_over_items(measure.statistic(), scores, seed=seed)
    estimate = Estimate(interval.value, interval.low, interval.high, len(x), failed, interval.method)
    return Correlation(measure.name, measure.title, estimate, *test, chance)


def _conventions(finding: Correlation, p: float) -> Iterator[Correlation]:
    """Yield the finding; for RBO normalised all three conventions: one rises with the other, so p stays."""
    if finding.measure != "rbo_normalised":
        yield finding
        return
    original, n = finding.estimate, finding.estimate.n
    names: tuple[Name, Name] = ("rbo_extrapolated", "rbo_truncated")
    for name, convention in zip(names, (extrapolated, truncated), strict=True):
        value, low, high, chance = (
            None if number is None else convention(number, n, p)
            for number in (original.value, original.low, original.high, finding.chance)
        )
        estimate = Estimate(value or 0.0, low, high, n, original.failed, original.method)
        title = f"RBO {name.removeprefix('rbo_')}"
        yield Correlation(name, title, estimate, finding.p, finding.orders, finding.exact, chance or 0.0)
    yield finding

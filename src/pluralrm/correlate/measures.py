"""The measures of how well one ranking predicts another: each is data and one pure function of stats.ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from pluralrm.errors import SpecError
from pluralrm.stats import ranking
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.joint import Scale, Statistic
from pluralrm.stats.permutation import Side

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

"""Correlation of two measurements on clustered items, with a cluster-bootstrap interval, and of values in a cluster.

A statistic of n models whose scores are means over items: models and items are resampled together. The estimand is the
mean of the statistic over studies of as many models and items, drawn alike; where no items are known, of as many models
on the same items. A score's own error is part of how models differ, so resampling models has it already; of the items
only what they do to several models at once is added. docs/design/statistics.md has the measured coverage, docs/log.md
what was tried and failed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import RESAMPLES, FloatArray, IntArray, cells, codes, crossing, on_grid, resample_counts
from pluralrm.stats.comparisons import one_thread
from pluralrm.stats.intervals import Bounds, Interval, few, t_quantile


def likeness(values: ArrayLike, clusters: Sequence[str]) -> Interval:
    """Return the intraclass correlation by analysis of variance, with the interval of its F ratio (Searle 1971).

    Unequal clusters count with their effective size; it is then approximate. Below 0 the values of a cluster compensate
    each other. Clusters of one value each, values that never vary, or fewer than two clusters are an error.
    """
    y, cluster = np.asarray(values, dtype=np.float64), codes(clusters)
    sizes = np.bincount(cluster).astype(np.float64)
    count, total = len(sizes), len(y)
    if count < 2 or total == count or np.ptp(y) == 0:
        raise MetricError(
            f"{total} values of {count} clusters say nothing about how alike the values of a cluster are; "
            "wanted two clusters, one of them with two values, and values that vary."
        )
    size = (total - float((sizes**2).sum()) / total) / (count - 1)
    means = np.bincount(cluster, y) / sizes
    between = float((sizes * (means - y.mean()) ** 2).sum()) / (count - 1)
    within = float(((y - means[cluster]) ** 2).sum()) / (total - count)
    method = f"analysis of variance, {few(count)}"
    if within == 0:
        return Interval(1.0, None, None, f"no interval: the same in each of {few(count)}")
    low, high = (_intraclass(between / within / bound, size) for bound in _f_quantiles(count - 1, total - count))
    return Interval(_intraclass(between / within, size), low, high, method)


def _intraclass(ratio: float, size: float) -> float:
    return (ratio - 1) / (ratio + size - 1)


def _f_quantiles(between: int, within: int) -> tuple[float, float]:
    """Return the quantiles of F by which a ratio is divided for the lower and the upper end."""
    from pluralrm.stats.special import fdtri

    return float(fdtri(between, within, 0.5 + 0.95 / 2)), float(fdtri(between, within, 0.5 - 0.95 / 2))


Correlation = Literal["pearson", "spearman"]


def correlation(
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[str],
    *,
    kind: Correlation = "pearson",
    seed: int = 0,
    resamples: int = RESAMPLES,
    crossed: Sequence[str] | None = None,
) -> Interval:
    """Return the correlation and its expanded percentile interval over resampled clusters.

    No interval below four clusters, or where every resample gives the same value (a perfect line). A measurement
    that never varies is an error: it has no correlation. Where clusters share the prompts of `crossed`, the squared
    distances of the ends over clusters and over prompts are added, less those over cells, as in `two_way`.
    """
    if crossed is not None and (prompts := crossing(clusters, crossed)):
        draw = partial(correlation, x, y, kind=kind, seed=seed, resamples=resamples)
        over = f"{len(set(clusters)):,} clusters × {len(set(prompts)):,} prompts"
        sides = [draw(names) for names in (clusters, prompts, cells(clusters, prompts))]
        return _two_way(sides, f"{kind} two-way bootstrap, {over}")
    first, second, cluster = _sorted(x, y, clusters)
    count = int(cluster[-1]) + 1
    if kind == "spearman":
        value = float(_rank_correlations(np.ones((1, len(first))), first, second)[0])
    else:
        value = float(np.clip((_standardised(first) * _standardised(second)).mean(), -1.0, 1.0))
    if count < 4:
        return Interval(value, None, None, f"no interval: {count} clusters, wanted four or more")
    moments = _moments(first, second, cluster)
    draws = np.concatenate(
        [
            _rank_correlations(counts[:, cluster], first, second)
            if kind == "spearman"
            else _from_moments(counts, moments)
            for counts in resample_counts(np.zeros(count, np.intp), seed=seed, resamples=resamples)
        ]
    )
    draws = draws[np.isfinite(draws)]  # a resample in which one side never varies has no correlation
    if np.ptp(draws) < 1e-9:
        return Interval(value, None, None, "no interval: the same in every resample")
    return Interval(value, *expanded_percentiles(draws, count), f"{kind} cluster bootstrap, {few(count)}")


def _two_way(sides: Sequence[Interval], method: str) -> Interval:
    """Return the interval over clusters and prompts from those over clusters, over prompts and over cells."""
    value, reaches = sides[0].value, []
    for side in sides:
        if side.low is None or side.high is None:
            return side
        reaches.append(((value - side.low) ** 2, (side.high - value) ** 2))
    below, above = (max(u + p - both, (u + p) / 2) ** 0.5 for u, p, both in zip(*reaches, strict=True))
    return Interval(value, max(-1.0, value - below), min(1.0, value + above), method)


def expanded_percentiles(draws: FloatArray, clusters: int) -> Bounds:
    """Return the percentiles of the draws that cover as Student's t does with this many clusters (Hesterberg 2015)."""
    from pluralrm.stats.special import ndtr

    tail = float(ndtr(-np.sqrt(clusters / (clusters - 1)) * t_quantile(clusters - 1)))
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Bounds(float(low), float(high))


def _sorted(x: ArrayLike, y: ArrayLike, clusters: Sequence[str]) -> tuple[FloatArray, FloatArray, IntArray]:
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not len(first) or not len(first) == len(second) == len(clusters):
        raise MetricError(
            f"{len(first)} and {len(second)} values and {len(clusters)} clusters; wanted as many of each, and some."
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise MetricError("a value is not finite; leave out what could not be measured and say how many those were.")
    cluster = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)[1].astype(np.intp)
    for name, side in (("first", first), ("second", second)):
        if np.ptp(side) == 0:
            raise MetricError(
                f"the {name} measurement is {side[0]:g} throughout; a correlation needs values that vary."
            )
    order = np.lexsort((second, first, cluster))
    return first[order], second[order], cluster[order]


def _standardised(side: FloatArray) -> FloatArray:
    scaled: FloatArray = (side - side.mean()) / side.std()
    return scaled


def _moments(first: FloatArray, second: FloatArray, cluster: IntArray) -> FloatArray:
    """Return each cluster's sums (G, 6) of 1, a, b, aa, bb and ab, a and b standardised."""
    a, b = _standardised(first), _standardised(second)
    columns = np.stack([np.ones_like(a), a, b, a * a, b * b, a * b], axis=1)
    return on_grid(np.add.reduceat(columns, np.flatnonzero(np.diff(cluster, prepend=-1)), axis=0))


def _from_moments(counts: FloatArray, moments: FloatArray) -> FloatArray:
    """Return Pearson's correlation in each row of cluster counts (rows, G)."""
    size, a, b, aa, bb, ab = (counts @ moments).T
    return _ratio(ab - a * b / size, (aa - a * a / size) * (bb - b * b / size))


def _rank_correlations(counts: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return Spearman's correlation in each row of item counts (rows, n), ranks taken anew in each."""
    middle = (counts.sum(axis=1, keepdims=True) + 1) / 2
    a, b = _ranks(counts, first) - middle, _ranks(counts, second) - middle
    weighted = counts * a
    return _ratio((weighted * b).sum(axis=1), (weighted * a).sum(axis=1) * (counts * b * b).sum(axis=1))


def _ratio(covariance: FloatArray, variances: FloatArray) -> FloatArray:
    """Return covariance over the root of the product of variances, NaN where a side does not vary."""
    varies = variances > 1e-12
    return np.where(varies, covariance / np.sqrt(np.where(varies, variances, 1.0)), np.nan)


def _ranks(counts: FloatArray, side: FloatArray) -> FloatArray:
    """Return the mid-ranks that each item has in each resample: (rows, n)."""
    value = np.unique(side, return_inverse=True)[1]
    order = np.argsort(value, kind="stable")
    starts = np.flatnonzero(np.diff(value[order], prepend=-1))
    tied = np.add.reduceat(counts[:, order], starts, axis=1)
    return (np.cumsum(tied, axis=1) - (tied - 1) / 2)[:, value]


STUDIES = 2_000
_BLOCK = 500
_ENTRIES = 4_000_000
"""Numbers in one array of a block: some measures set up (rows, n, n)."""
_INSIDE = 0.002
"""Angles are read no nearer to the ends of where the statistic lives: there their scale stretches without bound."""

Statistic = Callable[[FloatArray], FloatArray]
"""Takes (..., k, n), k rows of scores of n models, and returns (...)."""
Scale = Literal["fisher", "sine", "plain", "arcsine"]
"""Where the interval is symmetric. `sine`, the angle with that sine, lies between the plain scale and Fisher's.

On `arcsine` the statistic is in [0, 1], and may jump when a model comes or goes.
"""


@dataclass(frozen=True, slots=True)
class Scores:
    """k rows of scores of the same n models, and by how much each of G clusters of items moves each of them."""

    values: FloatArray
    """(k, n)"""
    influence: FloatArray
    """(G, k, n), 0 where a row does not rest on a cluster; G is 0 where scores were published without items."""
    prompts: int = 0
    """How many of the last clusters are prompts that cross the others."""

    def rows(self, *places: int) -> "Scores":
        """Return some of the rows."""
        return replace(self, values=self.values[list(places)], influence=self.influence[:, list(places)])

    @property
    def clusters(self) -> int:
        """The number of clusters of items; 0 where there are none."""
        return len(self.influence) - self.prompts


class JointSpread(NamedTuple):
    """The variance of a statistic over studies, and where it is centred."""

    variance: float
    centre: float


def spread_over_studies(statistic: Statistic, scores: Scores, *, scale: Scale, seed: int = 0) -> JointSpread:
    """Return the variance over models and items.

    Models: leaving out each one (the jackknife), or where the statistic may jump, draws with replacement, whose mean is
    the centre: a smooth stand-in for the value.
    """
    jumps = scale == "arcsine"
    draws = _redrawn_models(statistic, scores, seed) if jumps else _left_out(statistic, scores)
    draws = draws[np.isfinite(draws)]  # a resample in which one side never varies has no value
    squares = float(((draws - draws.mean()) ** 2).sum())
    n = scores.values.shape[-1]
    models = squares / len(draws) if jumps else squares * (n - 1) / n
    centre = float(draws.mean()) if jumps else _value(statistic, scores)
    return JointSpread(models + _shared_by_items(statistic, scores, seed), centre)


def interval_over_studies(
    statistic: Statistic, scores: Scores, *, scale: Scale, floor: float = 0.0, limit: float = 1.0, seed: int = 0
) -> Interval:
    """Return the value and its interval: Student's t with n - 1 degrees of freedom, on its scale.

    `floor` is the least standard error that is believed, of Fisher's z on that scale; on the plain scale an interval
    ends at -limit and limit.
    No interval where every resample gives the same value.
    """
    value, n = _value(statistic, scores), scores.values.shape[-1]
    variance, centre = spread_over_studies(statistic, scores, scale=scale, seed=seed)
    error = max(variance**0.5, floor * (1 - centre**2) if scale == "fisher" else floor)
    if error < 1e-9:
        return Interval(value, None, None, "no interval: the same in every resample")
    reach = t_quantile(n - 1) * error
    what = f"models and items resampled{_of(scores)}" if scores.clusters else "models alone resampled"
    low, high = _ends(centre, reach, scale, limit)
    # Centred on the resamples, an interval may leave out the value itself; one that does would mislead.
    return Interval(value, min(low, value), max(high, value), what)


def interval_over_items(statistic: Statistic, scores: Scores, *, seed: int = 0) -> Interval:
    """Return the value and its interval for these models only: expanded percentiles over resampled items."""
    value = _value(statistic, scores)
    if scores.clusters < 4:
        return Interval(
            value, None, None, f"no interval: too few models, and {scores.clusters or 'no'} items to resample"
        )
    draws = _redrawn_items(statistic, scores, seed)
    draws = draws[np.isfinite(draws)]
    if not len(draws) or np.ptp(draws) < 1e-9:
        return Interval(value, None, None, "no interval: the same in every resample")
    return Interval(value, *expanded_percentiles(draws, scores.clusters), f"these models only{_of(scores)}")


def _value(statistic: Statistic, scores: Scores) -> float:
    return float(statistic(scores.values[None])[0])


def _of(scores: Scores) -> str:
    prompts = f" × {scores.prompts:,} prompts" * bool(scores.prompts)
    return f", {scores.clusters:,} clusters of items{prompts}" if scores.clusters else ""


def _ends(centre: float, reach: float, scale: Scale, limit: float) -> Bounds:
    """Return the ends of an interval that is centre +- reach to first order and stays where the statistic lives."""
    if scale == "arcsine":
        inside = float(np.clip(centre, _INSIDE, 1 - _INSIDE))
        angle, half = np.arcsin(inside**0.5), reach / (2 * (inside * (1 - inside)) ** 0.5)
        low, high = (np.sin(np.clip(angle + side * half, 0.0, np.pi / 2)) ** 2 for side in (-1, 1))
    elif scale == "sine":
        inside = float(np.clip(centre, _INSIDE - 1, 1 - _INSIDE))
        angle, half = np.arcsin(inside), reach / (1 - inside**2) ** 0.5
        low, high = (np.sin(np.clip(angle + side * half, -np.pi / 2, np.pi / 2)) for side in (-1, 1))
    elif scale == "fisher" and abs(centre) < 1 - 1e-9:
        low, high = (np.tanh(np.arctanh(centre) + side * reach / (1 - centre**2)) for side in (-1, 1))
    else:
        low, high = (np.clip(centre + side * reach, -limit, limit) for side in (-1, 1))
    return Bounds(float(low), float(high))


def _left_out(statistic: Statistic, scores: Scores) -> FloatArray:
    n = scores.values.shape[-1]
    rows = np.array([[index for index in range(n) if index != out] for out in range(n)])
    return statistic(np.moveaxis(scores.values[:, rows], 0, 1))


def _redrawn_models(statistic: Statistic, scores: Scores, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    n = scores.values.shape[-1]
    drawn = rng.integers(0, n, (STUDIES, n))
    return _in_blocks(statistic, np.moveaxis(scores.values[:, drawn], 0, 1))


def _redrawn_items(statistic: Statistic, scores: Scores, seed: int) -> FloatArray:
    flat = on_grid(scores.influence.reshape(len(scores.influence), -1))
    strata = np.zeros(len(flat), dtype=np.intp)
    with one_thread():
        moved = [(counts - 1) @ flat for counts in resample_counts(strata, seed=seed, resamples=STUDIES)]
    return _in_blocks(statistic, scores.values + np.concatenate(moved).reshape(-1, *scores.values.shape))


def _shared_by_items(statistic: Statistic, scores: Scores, seed: int) -> float:
    """Return the variance from resampling items, less what it would be if each model had items of its own.

    That part is in the spread of the models already. What moves all models alike moves no ranking and is taken out.
    """
    if not scores.clusters:
        return 0.0
    own = scores.influence - scores.influence.mean(axis=-1, keepdims=True)
    n = own.shape[-1]
    covariance = np.einsum("gkn,gln->nkl", own, own) * n / max(n - 1, 1)
    size, turn = np.linalg.eigh(covariance)
    noise = np.random.default_rng(seed + 1).standard_normal((STUDIES, n, len(scores.values)))
    errors = np.einsum("nkl,bnl->bkn", turn * np.sqrt(np.clip(size, 0, None))[:, None, :], noise)
    alone = _in_blocks(statistic, scores.values + errors)
    return max(0.0, float(np.nanvar(_redrawn_items(statistic, scores, seed)) - np.nanvar(alone)))


def _in_blocks(statistic: Statistic, rows: FloatArray) -> FloatArray:
    block = max(1, min(_BLOCK, _ENTRIES // rows.shape[-1] ** 2))
    return np.concatenate([statistic(rows[start : start + block]) for start in range(0, len(rows), block)])

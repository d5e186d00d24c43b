"""Correlation of two measurements on clustered items, with a cluster-bootstrap interval, and of values in a cluster."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import RESAMPLES, FloatArray, IntArray, codes, on_grid, resample_counts
from pluralrm.stats.intervals import Bounds, Interval, few, t_quantile


def likeness(values: ArrayLike, clusters: Sequence[str], *, level: float = 0.95) -> Interval:
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
    low, high = (_intraclass(between / within / bound, size) for bound in _f_quantiles(count - 1, total - count, level))
    return Interval(_intraclass(between / within, size), low, high, method)


def _intraclass(ratio: float, size: float) -> float:
    return (ratio - 1) / (ratio + size - 1)


def _f_quantiles(between: int, within: int, level: float) -> tuple[float, float]:
    """Return the quantiles of F by which a ratio is divided for the lower and the upper end."""
    from scipy.special import fdtri

    return float(fdtri(between, within, 0.5 + level / 2)), float(fdtri(between, within, 0.5 - level / 2))


Correlation = Literal["pearson", "spearman"]


def correlation(
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[str],
    *,
    kind: Correlation = "pearson",
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return the correlation and its expanded percentile interval over resampled clusters.

    No interval below four clusters, or where every resample gives the same value (a perfect line). A measurement
    that never varies is an error: it has no correlation.
    """
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


def expanded_percentiles(draws: FloatArray, clusters: int, level: float = 0.95) -> Bounds:
    """Return the percentiles of the draws that cover as Student's t does with this many clusters (Hesterberg 2015)."""
    from scipy.special import ndtr

    tail = float(ndtr(-np.sqrt(clusters / (clusters - 1)) * t_quantile(clusters - 1, level)))
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

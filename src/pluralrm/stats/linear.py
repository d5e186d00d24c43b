"""A straight line through values on covariates, read where the covariates are zero."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import FloatArray, IntArray, cluster_means, codes, spread
from pluralrm.stats.intervals import Interval, counts, robust, t_quantile, unvaried


def mean_at_zero(
    values: ArrayLike, covariate: ArrayLike, clusters: Sequence[str], *, crossed: Sequence[str] | None = None
) -> Interval:
    """Return the value of the least-squares line where the covariate is 0; cluster-robust, Student's t, in [-1, 1].

    The covariate is not centred, and its unit does not matter. Where it is 0 throughout this is the plain mean; where
    it never varies otherwise, or 0 lies outside what was seen, there is no such number: an error.
    """
    y, x, order = _in_order(values, covariate, clusters)
    names = [clusters[place] for place in order]
    prompts = None if crossed is None else [crossed[place] for place in order]
    if np.ptp(x) == 0 and x[0] != 0:
        raise MetricError(f"the covariate is {x[0]:g} for every item; its effect cannot be told from the mean.")
    if not x.min() <= 0 <= x.max():
        raise MetricError(f"the covariate lies between {x.min():g} and {x.max():g}; 0 is outside of what was seen.")
    intercept, influence, parameters = _line(y, x)
    value = float(np.clip(intercept, -1.0, 1.0))
    # n times the influence, as a column of values: the variance of its mean is that of the intercept.
    means = cluster_means(len(y) * influence, names, crossed=prompts)
    count = means.clusters()
    if count <= parameters:
        return Interval(value, None, None, f"no interval: {counts(means)}")
    variance, df = spread(means, 0)
    if not variance:
        ends = unvaried(value, means.effective_clusters(), floor=-1.0)
        return Interval(value, *ends, f"least squares, on the line in all of {counts(means)}")
    # spread() allows for one fitted number, the mean; a slope is one more.
    reach = t_quantile(df) * (variance * (count - 1) / (count - parameters)) ** 0.5
    low, high = (float(np.clip(intercept + side * reach, -1.0, 1.0)) for side in (-1, 1))
    return Interval(value, low, high, f"least squares, {robust(means)}, {counts(means)}")


def weights_at_zero(covariate: ArrayLike) -> FloatArray:
    """Return what each value adds to the line's height where the covariate is 0: some may be below 0."""
    x = np.asarray(covariate, dtype=np.float64)
    if not x.any() or np.ptp(x) == 0:
        return np.full(len(x), 1 / len(x))
    centred = x - x.mean()
    weights: FloatArray = 1 / len(x) - float(x.mean()) * centred / float((centred**2).sum())
    return weights


def _in_order(
    values: ArrayLike, covariate: ArrayLike, clusters: Sequence[str]
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the items sorted by cluster and values, and that order: sums do not depend on the order of the rows."""
    y, x = np.asarray(values, dtype=np.float64), np.asarray(covariate, dtype=np.float64)
    if not len(y) or not len(y) == len(x) == len(clusters):
        raise MetricError(f"{len(y)} values, {len(x)} covariates, {len(clusters)} clusters; wanted as many of each.")
    order = np.lexsort((y, x, codes(clusters)))
    return y[order], x[order], order


def _line(y: FloatArray, x: FloatArray) -> tuple[float, FloatArray, int]:
    """Return the line's height at 0, how much each item moves it, and how many numbers were fitted."""
    if not x.any():
        return float(y.mean()), (y - y.mean()) / len(y), 1
    centred = x - x.mean()
    squares = float((centred**2).sum())
    slope = float((centred * y).sum()) / squares
    intercept = float(y.mean()) - slope * float(x.mean())
    weights = 1 / len(y) - float(x.mean()) * centred / squares
    return intercept, weights * (y - intercept - slope * x), 2

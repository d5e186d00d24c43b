"""From values per item to an Estimate, clusters resampled as wholes."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from pluralrm.core import Estimate
from pluralrm.stats import cluster_means, difference_interval, share_interval, spread
from pluralrm.stats.intervals import few, t_quantile


def share(values: ArrayLike, clusters: Sequence[str], *, level: float = 0.95) -> Estimate:
    """Return the mean of values in [0, 1]."""
    interval = share_interval(cluster_means(values, clusters), level=level)
    return Estimate(*interval[:3], len(clusters), 0, interval.method)


def excess(values: ArrayLike, over: ArrayLike, clusters: Sequence[str]) -> Estimate:
    """Return the mean of `values` minus that of `over`, item by item, both in [0, 1]."""
    import numpy as np

    interval = difference_interval(cluster_means(np.stack([values, over], axis=1), clusters), 0, 1)
    return Estimate(*interval[:3], len(clusters), 0, interval.method)


def amount(values: ArrayLike, clusters: Sequence[str], *, level: float = 0.95) -> Estimate:
    """Return the mean of values of any size, with Student's interval on the variance between clusters."""
    means = cluster_means(values, clusters)
    count, value = means.clusters(), float(means.means[0])
    variance, df = spread(means, 0)
    if count < 2 or not variance:
        why = "one cluster" if count < 2 else f"the same in all of {few(count)}"
        return Estimate(value, None, None, len(clusters), 0, f"no interval: {why}")
    reach = t_quantile(df, level) * variance**0.5
    method = f"cluster-robust {level:.0%} interval, {few(count)}"
    return Estimate(value, value - reach, value + reach, len(clusters), 0, method)

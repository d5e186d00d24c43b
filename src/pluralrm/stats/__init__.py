"""Arrays and a seed in, numbers out: intervals over clusters, paired comparisons, resampling. No files, no output.

>>> from pluralrm.stats import cluster_means, share_interval
>>> round(share_interval(cluster_means([1, 0, 1, 1, 1, 1], ["u1", "u1", "u2", "u2", "u3", "u3"])).value, 3)
0.833
"""

from pluralrm.stats.clusters import ClusterMeans, cluster_means, group_means, spread
from pluralrm.stats.comparisons import (
    RankInterval,
    flip_p_of_differences,
    holm,
    rank_intervals,
    sign_flip_p,
    sign_flip_ps,
)
from pluralrm.stats.correlation import correlation
from pluralrm.stats.intervals import (
    Bounds,
    Gap,
    Interval,
    Trainings,
    difference_interval,
    gap,
    share_interval,
    trainings,
    trainings_difference,
    wilson,
)
from pluralrm.stats.regression import LogisticFit, fit_logistic, share_at_zero

__all__ = [
    "Bounds",
    "ClusterMeans",
    "Gap",
    "Interval",
    "LogisticFit",
    "RankInterval",
    "Trainings",
    "cluster_means",
    "correlation",
    "difference_interval",
    "fit_logistic",
    "flip_p_of_differences",
    "gap",
    "group_means",
    "holm",
    "rank_intervals",
    "share_at_zero",
    "share_interval",
    "sign_flip_p",
    "sign_flip_ps",
    "spread",
    "trainings",
    "trainings_difference",
    "wilson",
]

"""The means of clusters that are drawn again: what closed forms are compared with, on the resampler of the package."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import RESAMPLES, FloatArray, IntArray, codes, on_grid, resample_counts


def bootstrap_means(
    values: ArrayLike,
    clusters: Sequence[str],
    *,
    strata: Sequence[str] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> FloatArray:
    """Return (resamples, columns): the mean of each column over clusters drawn with replacement within strata.

    With strata it is the mean over strata of their means. A cluster in two strata is an error. Differences of
    columns are paired, for all columns see the same draws.
    """
    sums, sizes, stratum = cluster_sums(values, clusters, strata)
    exact = on_grid(sums)
    total = int(stratum.max()) + 1
    draws = np.zeros((resamples, exact.shape[1]))
    done = 0
    for counts in resample_counts(stratum, seed=seed, resamples=resamples):
        rows = slice(done, done + len(counts))
        for index in range(total):
            here = slice(*np.searchsorted(stratum, [index, index + 1]))
            drawn = counts[:, here]
            draws[rows] += drawn @ exact[here] / (drawn @ sizes[here])[:, None] / total
        done += len(counts)
    return draws


def cluster_sums(
    values: ArrayLike, clusters: Sequence[str], strata: Sequence[str] | None = None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return sums (G, columns), sizes (G,) and strata (G,) of the clusters, sorted by stratum and name."""
    array = np.asarray(values, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if not len(array) or len(array) != len(clusters):
        raise MetricError(f"{len(array)} values and {len(clusters)} clusters; wanted one cluster per item, and items.")
    cluster, stratum = codes(clusters), codes(strata if strata is not None else [""] * len(clusters))
    names = int(cluster.max()) + 1
    order = np.lexsort((*array.T, cluster, stratum))
    starts = np.flatnonzero(np.diff((stratum * names + cluster)[order], prepend=-1))
    if len(starts) > names:
        raise MetricError("a cluster lies in several strata; wanted each cluster in one.")
    sizes = np.diff(starts, append=len(order)).astype(np.float64)
    return np.add.reduceat(array[order], starts, axis=0), sizes, stratum[order][starts]

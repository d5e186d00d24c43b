"""Resampling whole clusters, all columns at once: for statistics that have no variance in closed form.

The counts of each resample multiply the sums of each cluster (one matrix product), so twenty runs cost what one
costs. Sums are rounded to a grid on which that product is exact, hence the same bytes for any number of threads.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import FloatArray, IntArray, codes

RESAMPLES = 10_000
_BLOCK = 500
"""Resamples drawn at once: 500 x 2,830 counts stay in the cache, which is three times as fast as all at once."""


def resample_counts(strata: IntArray, *, seed: int = 0, resamples: int = RESAMPLES) -> Iterator[FloatArray]:
    """Yield blocks (some resamples, G) of how often each of G sorted clusters is drawn within its stratum."""
    rng = np.random.default_rng(seed)
    edges = np.flatnonzero(np.diff(strata, prepend=-1, append=int(strata.max()) + 1))
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        yield np.hstack([_counts(rng, rows, int(high - low)) for low, high in pairwise(edges)])


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


def on_grid(array: FloatArray) -> FloatArray:
    """Return the array rounded to 2**-32 of its largest entry; sums of up to 2**21 such numbers are exact."""
    largest = float(np.abs(array).max())
    if largest == 0:
        return array
    step = 2.0 ** (np.ceil(np.log2(largest)) - 32)
    rounded: FloatArray = np.round(array / step) * step
    return rounded


def _counts(rng: np.random.Generator, rows: int, clusters: int) -> FloatArray:
    drawn = rng.integers(0, clusters, (rows, clusters), dtype=np.int32)
    drawn += (np.arange(rows, dtype=np.int32) * clusters)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(np.float64)

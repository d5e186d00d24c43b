"""Changes along a stream that is tested again and again: windows at scheduled looks, errors spent over all of them.

A look compares recent values with earlier ones by a cluster-robust t (CR2, Satterthwaite's degrees of freedom), so that
a policy may change at every step and a user may come back. Looks come at counts that grow by a fifth; look k has a
share of the error that sums to 1 over all looks, so the stated rate holds for a stream of any length, stopped whenever.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.stats.clusters import ClusterMeans, FloatArray, IntArray, group_means, spread

FIRST_LOOK = 24
"""Values at the first look: a third of them is the shortest window."""
GROWTH = 1.2
"""From one look to the next."""
_FLATTENING = 4
"""The larger, the more evenly the error is spent: the first looks are too short to find much."""
_FEWEST = 4.0
"""Clusters (Kish) in each window below which no look decides."""


def look_counts(count: int) -> Iterator[int]:
    """Yield after how many values there is a look, up to `count`.

    >>> list(look_counts(60))
    [24, 29, 35, 42, 51]
    """
    n = FIRST_LOOK
    while n <= count:
        yield n
        n = math.ceil(n * GROWTH)


def spent(look: int) -> float:
    """Return the share of the error that look 1, 2, ... may spend; over all looks it sums to 1."""
    root = math.sqrt(_FLATTENING)
    return root / math.sqrt(look + _FLATTENING - 1) - root / math.sqrt(look + _FLATTENING)


class WindowPair(NamedTuple):
    """Where the earlier and the recent values of a look lie in the stream."""

    earlier: slice
    recent: slice


def window_pairs(count: int) -> list[WindowPair]:
    """Return what a look compares: the last third and the last tenth with the first tenth, first and middle third."""
    third, tenth = count // 3, max(FIRST_LOOK // 3, count // 10)
    earliers = [slice(0, third), slice(0, tenth), slice(third, 2 * third)]
    return [WindowPair(earlier, slice(count - size, count)) for size in (third, tenth) for earlier in earliers]


class WindowChange(NamedTuple):
    """The means of two windows, and the one-sided p that they did not change so; 1 where too few users say so."""

    earlier: float
    recent: float
    p: float


def window_rise(
    values: ArrayLike,
    clusters: Sequence[str],
    windows: WindowPair,
    *,
    scale: float = 1.0,
    margin: float = 0.0,
    sign: float = 1.0,
) -> WindowChange | None:
    """Return whether the recent mean is above `scale` times the earlier one; None where a window has no finite value.

    `margin` is in standard deviations of the earlier values, `sign` -1 asks for a fall. NaN stands for a value that is
    missing.
    """
    array = np.asarray(values, dtype=np.float64)
    earlier, recent = (_finite(array, window) for window in windows)
    if not (len(earlier) and len(recent)):
        return None
    first, last = float(array[earlier].mean()), float(array[recent].mean())
    reach = margin * float(array[earlier].std())
    if sign * (last - scale * first) <= reach:  # most looks end here
        return WindowChange(first, last, 1.0)
    names = [clusters[index] for part in (earlier, recent) for index in part]
    means = group_means(
        sign * np.concatenate([scale * array[earlier], array[recent]]),
        names,
        ["0"] * len(earlier) + ["1"] * len(recent),
    )
    return WindowChange(first, last, _p(means, sign * (last - scale * first) - reach, 1, 0))


def above(values: ArrayLike, clusters: Sequence[str], window: slice, limit: float = 0.0, *, sign: float = 1.0) -> float:
    """Return the one-sided p that `sign` times the window's mean is no more than `limit`; 1 without values."""
    array = np.asarray(values, dtype=np.float64)
    part = _finite(array, window)
    if not len(part) or (excess := sign * float(array[part].mean()) - limit) <= 0:
        return 1.0
    return _p(group_means(array[part], [clusters[index] for index in part], ["0"] * len(part)), excess, 0, None)


def _finite(array: FloatArray, window: slice) -> IntArray:
    indexes: IntArray = window.start + np.flatnonzero(np.isfinite(array[window]))
    return indexes


def _p(means: ClusterMeans, excess: float, column: int, minus: int | None) -> float:
    """Return the one-sided p of an excess above 0."""
    from scipy.special import stdtr

    clusters = min(means.effective_clusters(index) for index in range(len(means.means)))
    if clusters < _FEWEST:
        return 1.0
    variance, df = spread(means, column, minus)
    if not variance:  # each cluster is a coin that fell on the same side
        return float(2.0**-clusters)
    return float(stdtr(df, -excess / math.sqrt(variance)))

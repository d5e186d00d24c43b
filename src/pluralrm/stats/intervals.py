"""Intervals for means, differences of means and the gap between groups, by cluster-robust variance.

Why no percentile bootstrap here: at an accuracy of .9 with 12 clusters it covers the truth in 70 to 94 of 100 cases.
docs/design/statistics.md has the table, and the formulas with worked examples.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import (
    ASSUMED_LIKENESS,
    ClusterMeans,
    FloatArray,
    Spread,
    cluster_means,
    covariances,
    spread,
    two_way,
)

FEW_CLUSTERS = 40
"""Below this number of clusters every method text says so."""


class Bounds(NamedTuple):
    """The two ends of an interval."""

    low: float
    high: float


class Interval(NamedTuple):
    """A value and its interval; `low` and `high` are None where no interval exists, and `method` says why."""

    value: float
    low: float | None
    high: float | None
    method: str


class Gap(NamedTuple):
    """Which columns lie highest and lowest, the lowest with its interval, and the distance between the two."""

    best: int
    worst: int
    lowest: Interval
    distance: Interval


def normal_quantile(level: float = 0.95) -> float:
    """Return the normal quantile of a two-sided interval: 1.96 for 0.95."""
    from pluralrm.stats.special import ndtri

    return float(ndtri(0.5 + level / 2))


def t_quantile(df: float, level: float = 0.95) -> float:
    """Return Student's quantile of a two-sided interval; df may be any positive number, infinity gives the normal."""
    from pluralrm.stats.special import stdtrit

    return float(stdtrit(df, 0.5 + level / 2)) if np.isfinite(df) else normal_quantile(level)


def wilson(share: float, n: float, quantile: float) -> Bounds:
    """Return Wilson's score interval of a share seen in n (possibly effective) draws."""
    squared = quantile**2 / n
    centre = (share + squared / 2) / (1 + squared)
    half = quantile / (1 + squared) * np.sqrt(share * (1 - share) / n + squared / (4 * n))
    return Bounds(max(0.0, float(centre - half)), min(1.0, float(centre + half)))


def share_interval(means: ClusterMeans, column: int = 0, *, level: float = 0.95) -> Interval:
    """Return the interval of a mean of values in [0, 1]: Wilson's, on the effective number of items.

    That number is m(1 - m) / variance (Korn and Graubard 1998): fewer than the items where items of one cluster are
    alike, more where they compensate each other. Where all are right, or all wrong, nothing shows how alike they are,
    so ASSUMED_LIKENESS stands in, and the method says so.
    """
    value = float(np.clip(means.means[column], 0.0, 1.0))
    if (lone := _lone(means, column)) is not None:
        return Interval(value, None, None, lone)
    if value in (0.0, 1.0):
        low, high = unvaried(value, means.fresh_items(column), level=level)
        largest = max(side.held[:, column].max() for side in (means, *(means.crossed or ())[:1]))
        assumed = f", likeness {ASSUMED_LIKENESS} assumed" * bool(largest > 1)
        return Interval(value, low, high, f"Wilson interval, equal in all of {counts(means, column)}{assumed}")
    variance, df = spread(means, column)
    if variance == 0:
        low, high = unvaried(value, means.effective_clusters(column), level=level)
        return Interval(value, low, high, f"Wilson interval, equal in all of {counts(means, column)}")
    low, high = wilson(value, value * (1 - value) / variance, _share_quantile(means, column, df, level=level))
    return Interval(value, low, high, f"{robust(means)} Wilson interval, {counts(means, column)}")


def _share_quantile(means: ClusterMeans, column: int, df: float, *, level: float) -> float:
    """Return Student's t, without what is known of the variance where all values are 0 or 1.

    The variance of independent items follows from their mean, so what t adds for n items is taken out again. With
    one item per cluster nothing is estimated at all: Wilson's own interval.
    """
    if not means.binary[column]:
        return t_quantile(df, level)
    if means.single(column):
        return normal_quantile(level)
    base = t_quantile(float(means.held[:, column].sum() - 1), level)
    return t_quantile(df, level) * normal_quantile(level) / base


def difference_interval(means: ClusterMeans, first: int, second: int, *, level: float = 0.95) -> Interval:
    """Return the interval of mean `first` minus mean `second`, both of values in [0, 1]; it stays within [-1, 1].

    The same score interval on the scale from -1 to 1, with Student's t: a difference's variance does not follow
    from its value, so there is no known part to take out of the quantile.
    """
    value = float(np.clip(means.means[first] - means.means[second], -1.0, 1.0))
    if (lone := _lone(means, first, second)) is not None:
        return Interval(value, None, None, lone)
    variance, df = spread(means, first, second)
    if variance == 0 or abs(value) == 1:
        effective = min(means.effective_clusters(first), means.effective_clusters(second))
        low, high = unvaried(value, effective, level=level, floor=-1.0)
        return Interval(value, low, high, f"Wilson interval, equal in all of {counts(means, first, second)}")
    low, high = wilson((value + 1) / 2, (1 - value**2) / variance, t_quantile(df, level))
    return Interval(value, 2 * low - 1, 2 * high - 1, f"{robust(means)} score interval, {counts(means, first, second)}")


_MISSES = 1 - 0.95
"""How often an interval may miss."""


def gap(means: ClusterMeans) -> Gap | None:
    """Return the highest and lowest of the columns with two clusters or more; None where fewer than two have them.

    Both are chosen by looking, so the intervals hold for all columns, and for all pairs, at once (Bonferroni).
    """
    columns = [column for column in range(len(means.means)) if _lone(means, column) is None]
    if len(columns) < 2:
        return None
    best = max(columns, key=lambda column: float(means.means[column]))
    worst = min(columns, key=lambda column: float(means.means[column]))
    shares = [share_interval(means, column, level=1 - _MISSES / len(columns)) for column in columns]
    pairs = [(first, second) for first in columns for second in columns if first != second]
    # Each pair stands here in both directions, hence half as many comparisons as entries.
    ways = [difference_interval(means, *pair, level=1 - 2 * _MISSES / len(pairs)) for pair in pairs]
    lows, highs = (
        [each.low for each in ways if each.low is not None],
        [each.high for each in ways if each.high is not None],
    )
    return Gap(
        best,
        worst,
        Interval(
            float(means.means[worst]),
            min(share.low for share in shares if share.low is not None),
            min(share.high for share in shares if share.high is not None),
            f"lowest of {len(columns)} groups, Bonferroni",
        ),
        Interval(
            float(means.means[best] - means.means[worst]),
            max(0.0, *lows),
            max(highs),
            f"largest of {len(pairs) // 2} differences, Bonferroni",
        ),
    )


def counts(means: ClusterMeans, *columns: int) -> str:
    """Return how many clusters the columns (all, unless named) rest on, and how many prompts where those cross."""
    count = _members(means, columns)
    if means.crossed is None:
        return few(count)
    prompts = _members(means.crossed.prompts, columns)
    return f"{count:,} clusters × {prompts:,} prompts" + ", few of one" * (min(count, prompts) < FEW_CLUSTERS)


def _members(means: ClusterMeans, columns: tuple[int, ...]) -> int:
    weights = means.weights[:, list(columns)] if columns else means.weights
    return int((weights > 0).any(axis=1).sum())


def robust(means: ClusterMeans) -> str:
    """Return to what an interval is robust: to clusters, or to prompts that cross them as well."""
    return "cluster-robust" if means.crossed is None else "two-way cluster-robust"


def _lone(means: ClusterMeans, *columns: int) -> str | None:
    """Return why there is no interval where a column rests on one cluster, or on one prompt of many clusters."""
    if min(map(means.clusters, columns)) < 2:
        return "no interval: one cluster"
    if means.crossed is not None and min(map(means.crossed.prompts.clusters, columns)) < 2:
        return "no interval: one prompt"
    return None


def few(clusters: int) -> str:
    """Return the number of clusters in words that warn below FEW_CLUSTERS."""
    return f"{clusters:,} clusters" + (", few clusters" if clusters < FEW_CLUSTERS else "")


def unvaried(value: float, draws: float, *, level: float = 0.95, floor: float = 0.0) -> Bounds:
    """Return Wilson's interval at 0 of n draws, turned around: how far a mean could be if some draw differed.

    None of n draws (clusters, or items where each is right) differs from `value`, so a share of at most
    z^2 / (n + z^2) does, and may be anywhere between `floor` and 1. At a value of 0 or 1 this is Wilson's interval.
    """
    squared = normal_quantile(level) ** 2
    share = squared / (draws + squared)
    return Bounds(value - share * (value - floor), value + share * (1 - value))


def ratio_of_means(
    numerator: ArrayLike,
    denominator: ArrayLike,
    clusters: Sequence[str],
    *,
    strata: Sequence[str] | None = None,
    crossed: Sequence[str] | None = None,
) -> Interval:
    """Return the ratio of two means and Fieller's interval of it, cluster-robust, with Student's t.

    The interval holds every r for which the mean of `numerator - r * denominator` is not separated from 0 (Fieller
    1954). It is finite only where the denominator itself is separated from 0; where that is not so, or the mean of
    the denominator is negative, there is no ratio: an error.
    """
    above, below = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    both = cluster_means(np.stack([above, below], axis=1), clusters, strata=strata, crossed=crossed)
    top, bottom = (float(mean) for mean in both.means)
    count = both.clusters()
    if count < 2 or bottom <= 0:
        raise MetricError(
            f"no ratio: the denominator is {bottom:.3f} over {count} clusters; wanted > 0 over two or more."
        )
    value = top / bottom
    rest = cluster_means(above - value * below, clusters, strata=strata, crossed=crossed)
    varying = [df for variance, df in (spread(rest, 0), spread(both, 1)) if variance]
    reach = t_quantile(min(varying)) if varying else 0.0
    (v_top, v_both), (_, v_bottom) = reach**2 * covariances(both)
    a, b, c = bottom**2 - v_bottom, top * bottom - v_both, top**2 - v_top
    if a <= 0:
        raise MetricError(f"no ratio: the denominator, {bottom:.3f}, is not separated from 0.")
    method = f"Fieller's interval, {robust(both)}, {counts(both)}"
    if not spread(rest, 0).variance:
        # Every cluster has the same ratio: how far it could be if some cluster differed.
        low, high = unvaried(0.0, both.effective_clusters(1), floor=-1.0)
        shortest = bottom - float(np.sqrt(v_bottom))
        return Interval(value, value + low / shortest, value + high / shortest, f"{method}, equal in all")
    half = float(np.sqrt(max(0.0, b**2 - a * c))) / a
    return Interval(value, float(b / a - half), float(b / a + half), method)


def crossed_spread(by_item: ClusterMeans, by_annotator: ClusterMeans, alone: ClusterMeans, column: int = 0) -> Spread:
    """Return the variance of a mean of judgments; 0 where nothing varies among the items, or among the annotators.

    `alone` has each judgment as a cluster of its own. Never below the variance over items, or over annotators.
    """
    sides = (by_item, by_annotator)
    if min(side.clusters(column) for side in sides) < 2 or float(by_item.means[column]) in {0.0, 1.0}:
        return Spread(0.0, 0.0)
    items, annotators = (spread(side, column) for side in sides)
    if not min(items.variance, annotators.variance):
        return Spread(0.0, 0.0)
    variance, df = two_way(items, annotators, spread(alone, column))
    return Spread(max(variance, items.variance, annotators.variance), df)


def crossed_interval(
    by_item: ClusterMeans, by_annotator: ClusterMeans, alone: ClusterMeans, column: int = 0, *, level: float = 0.95
) -> Interval:
    """Return the interval of a mean of judgments in [0, 1]: Wilson's, robust to both kinds of clusters.

    Where nothing varies it is the wider of the two intervals.
    """
    sides = (by_item, by_annotator)
    value = float(by_item.means[column])
    counts = f"{few(by_item.clusters(column))} of items, {by_annotator.clusters(column):,} annotators"
    if min(side.clusters(column) for side in sides) < 2:
        return Interval(value, None, None, f"no interval: {counts}")
    variance, df = crossed_spread(by_item, by_annotator, alone, column)
    if not variance:
        return _wider(*(share_interval(side, column, level=level) for side in sides))
    low, high = wilson(value, value * (1 - value) / variance, t_quantile(df, level))
    return Interval(value, low, high, f"Wilson interval, robust to {counts}")


def _wider(first: Interval, second: Interval) -> Interval:
    return max(first, second, key=lambda interval: (interval.high or 0.0) - (interval.low or 0.0))


_ROUNDING = 1e-24
"""A variance of values in [-1, 1] below this is none."""


class Trainings(NamedTuple):
    """A mean with two intervals: about other users of these very trainings, and about other users and trainings."""

    users: Interval
    both: Interval
    """Holds all of the other one; it has no ends where there is one training."""


def trainings(
    grades: ArrayLike, users: Sequence[str], *, crossed: Sequence[str] | None = None, level: float = 0.95
) -> Trainings:
    """Return the mean of grades in [0, 1], (trainings, items), of items that belong to users; it stays in [0, 1].

    >>> grades = [[0.5, 1.0, 0.0, 0.5], [0.5, 0.5, 0.0, 0.5], [1.0, 1.0, 0.5, 0.5]]  # trainings by items
    >>> found = trainings(grades, ["u1", "u1", "u2", "u3"])
    >>> round(found.users.low or 0, 2), round(found.both.low or 0, 2)
    (0.08, 0.06)

    Users and trainings are crossed: every training is asked by the same users (on the prompts `crossed`, if shared).
    To the half-width about users is added, at a right angle, that of Student's interval for the trainings' means:

        half² = t(users)² V(users) + t(S - 1)² V(means of the trainings) / S

    What a user and a training have in common is in both parts, so the sum is rather too wide where trainings hardly
    differ. Taking it off once would be right on average; but the variance of two or three trainings is often small by
    luck: such an interval covers as rarely as 88 of 100 times. docs/design/statistics.md has the table.
    """
    table = _table(grades, users)
    means = cluster_means(_over_trainings(table), users, crossed=crossed)
    interval = share_interval(means, level=level)
    return Trainings(interval, _both(interval, spread(means, 0), table, counts(means), floor=0.0, level=level))


def trainings_difference(
    first: ArrayLike,
    second: ArrayLike,
    users: Sequence[str],
    *,
    crossed: Sequence[str] | None = None,
    level: float = 0.95,
) -> Trainings:
    """Return the mean of `first` minus `second`, paired by training and item; it stays in [-1, 1]."""
    table, other = _table(first, users), _table(second, users)
    if len(table) != len(other):
        raise MetricError(f"{len(table)} trainings beside {len(other)}; wanted the same seeds in the same order")
    both = np.stack([_over_trainings(table), _over_trainings(other)], axis=1)
    means = cluster_means(both, users, crossed=crossed)
    interval = difference_interval(means, 0, 1, level=level)
    whole = _both(interval, spread(means, 0, 1), table - other, counts(means), floor=-1.0, level=level)
    return Trainings(interval, whole)


def _both(
    interval: Interval, over_users: Spread, values: FloatArray, users: str, *, floor: float, level: float
) -> Interval:
    """Return the interval about users and trainings: a score interval on the scale from `floor` to 1."""
    count = len(values)
    if count < 2:
        return Interval(interval.value, None, None, "no interval: one training")
    if interval.low is None or interval.high is None:
        return interval
    squared = t_quantile(count - 1, level) ** 2 * _between(values)
    if over_users.variance:
        squared += t_quantile(over_users.df, level) ** 2 * over_users.variance
    width = 1 - floor
    share = (interval.value - floor) / width
    if not squared or share in {0.0, 1.0}:
        return interval._replace(method=f"{interval.method}, {count} trainings")
    low, high = wilson(share, share * (1 - share) * width**2 / squared, 1.0)
    return Interval(
        interval.value,
        min(interval.low, floor + width * low),
        max(interval.high, floor + width * high),
        f"score interval, robust to {users} and {count} trainings",
    )


def _between(values: FloatArray) -> float:
    """Return the variance of the mean over trainings, from that of the means of each."""
    means = np.sort(values.mean(axis=1))
    variance = math.fsum((means - math.fsum(means) / len(means)) ** 2) / (len(means) - 1)
    return variance / len(means) if variance > _ROUNDING else 0.0


def _over_trainings(table: FloatArray) -> FloatArray:
    """Return the mean of each item, the same bits in whatever order the trainings come."""
    means: FloatArray = np.sort(table, axis=0).mean(axis=0)
    return means


def _table(grades: ArrayLike, users: Sequence[str]) -> FloatArray:
    table = np.asarray(grades, dtype=np.float64)
    if table.ndim != 2 or not table.size or table.shape[1] != len(users):
        raise MetricError(f"grades of shape {table.shape} for {len(users)} items; wanted (trainings, items)")
    if not ((table >= 0) & (table <= 1)).all():
        raise MetricError("a grade is not in [0, 1]; give a failed answer its worth of 0 before averaging")
    return table

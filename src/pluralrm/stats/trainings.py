"""A mean over several trainings, which differ by their seeds: about other users, and about other trainings as well.

>>> grades = [[0.5, 1.0, 0.0, 0.5], [0.5, 0.5, 0.0, 0.5], [1.0, 1.0, 0.5, 0.5]]  # trainings by items
>>> found = trainings(grades, ["u1", "u1", "u2", "u3"])
>>> round(found.users.low or 0, 2), round(found.both.low or 0, 2)
(0.08, 0.06)

Users and trainings are crossed: every training is asked by the same users. To the half-width about users is added, at a
right angle, that of Student's interval for the trainings' means:

    half² = t(users)² V(users) + t(S - 1)² V(means of the trainings) / S

What a user and a training have in common is in both parts, so the sum is rather too wide where trainings hardly differ.
Taking it off once would be right on average; but the variance of two or three trainings is often small by luck: such an
interval covers as rarely as 88 of 100 times. docs/design/statistics.md has the table.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import FloatArray, Spread, cluster_means, spread
from pluralrm.stats.intervals import Interval, difference_interval, few, share_interval, t_quantile, wilson

_ROUNDING = 1e-24
"""A variance of values in [-1, 1] below this is none."""


class Trainings(NamedTuple):
    """A mean with two intervals: about other users of these very trainings, and about other users and trainings."""

    users: Interval
    both: Interval
    """Holds all of the other one; it has no ends where there is one training."""


def trainings(grades: ArrayLike, users: Sequence[str], *, level: float = 0.95) -> Trainings:
    """Return the mean of grades in [0, 1], (trainings, items), of items that belong to users; it stays in [0, 1]."""
    table = _table(grades, users)
    means = cluster_means(_over_trainings(table), users)
    found = share_interval(means, level=level)
    return Trainings(found, _both(found, spread(means, 0), table, users, floor=0.0, level=level))


def trainings_difference(
    first: ArrayLike, second: ArrayLike, users: Sequence[str], *, level: float = 0.95
) -> Trainings:
    """Return the mean of `first` minus `second`, paired by training and item; it stays in [-1, 1]."""
    one, other = _table(first, users), _table(second, users)
    if len(one) != len(other):
        raise MetricError(f"{len(one)} trainings beside {len(other)}; wanted the same seeds in the same order")
    means = cluster_means(np.stack([_over_trainings(one), _over_trainings(other)], axis=1), users)
    found = difference_interval(means, 0, 1, level=level)
    return Trainings(found, _both(found, spread(means, 0, 1), one - other, users, floor=-1.0, level=level))


def _both(
    found: Interval, over_users: Spread, values: FloatArray, users: Sequence[str], *, floor: float, level: float
) -> Interval:
    """Return the interval about users and trainings: a score interval on the scale from `floor` to 1."""
    count = len(values)
    if count < 2:
        return Interval(found.value, None, None, "no interval: one training")
    if found.low is None or found.high is None:
        return found
    squared = t_quantile(count - 1, level) ** 2 * _between(values)
    if over_users.variance:
        squared += t_quantile(over_users.df, level) ** 2 * over_users.variance
    width = 1 - floor
    share = (found.value - floor) / width
    if not squared or share in {0.0, 1.0}:
        return found._replace(method=f"{found.method}, {count} trainings")
    low, high = wilson(share, share * (1 - share) * width**2 / squared, 1.0)
    return Interval(
        found.value,
        min(found.low, floor + width * low),
        max(found.high, floor + width * high),
        f"score interval, robust to {few(len(set(users)))} and {count} trainings",
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

"""How rewards and grades of the same items changed from one evaluation to a later one, with intervals over users."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pluralrm.core import Estimate
from pluralrm.stats import cluster_means, difference_interval, spread
from pluralrm.stats.intervals import few, t_quantile
from pluralrm.training.records import EvaluationLine

Known = Sequence[float | None]
"""One number per item, None where it failed."""


class Changes(NamedTuple):
    """How the watched users fared, from the first evaluation to the last; None where that is not known."""

    rewards: Estimate | None
    grades: Estimate | None


def held_out_changes(evaluations: Sequence[EvaluationLine], *, level: float = 0.95) -> Changes:
    """Return the changes of reward and grade, with intervals over users."""
    if len(evaluations) < 2:
        return Changes(None, None)
    first, last = evaluations[0], evaluations[-1]
    return Changes(
        reward_change(first.rewards, last.rewards, first.users, level=level),
        grade_change(first.grades, last.grades, first.users, level=level),
    )


def reward_change(before: Known, after: Known, users: Sequence[str], *, level: float = 0.95) -> Estimate | None:
    """Return the mean change of an item's reward; None where no item has both.

    A reward has no worst value that a failed one could stand for: such items are left out, and counted.
    """
    pairs = zip(users, before, after, strict=True)
    known = [(user, new - old) for user, old, new in pairs if old is not None and new is not None]
    failed = len(users) - len(known)
    if not known:
        return None
    means = cluster_means([[difference] for _, difference in known], [user for user, _ in known])
    value, clusters = float(means.means[0]), means.clusters(0)
    if clusters < 2:
        return Estimate(value, None, None, len(known), failed, "no interval: one cluster")
    variance, df = spread(means, 0)
    if variance == 0:  # a change has no bounds, so nothing says how far another user's could be
        return Estimate(value, None, None, len(known), failed, f"no interval: equal in all of {few(clusters)}")
    half = t_quantile(df, level) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, len(known), failed, f"cluster-robust t, {few(clusters)}")


def grade_change(before: Known, after: Known, users: Sequence[str], *, level: float = 0.95) -> Estimate | None:
    """Return the mean change of an item's grade in [0, 1], a failed one being 0; None where nobody graded.

    Were failed grades left out, a policy that has come to write nothing that can be graded would look unchanged.
    """
    if all(grade is None for grade in (*before, *after)):
        return None
    pairs = list(zip(before, after, strict=True))
    failed = sum(old is None or new is None for old, new in pairs)
    means = cluster_means([[new or 0.0, old or 0.0] for old, new in pairs], users)
    found = difference_interval(means, 0, 1, level=level)
    return Estimate(found.value, found.low, found.high, len(pairs), failed, found.method)

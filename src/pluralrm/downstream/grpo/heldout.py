"""How the validation users' rewards changed, from before the training to its end."""

import math
from collections.abc import Mapping

from pluralrm.core import Estimate
from pluralrm.downstream.grpo.records import EvaluationRecord
from pluralrm.stats import cluster_means, spread
from pluralrm.stats.intervals import few, t_quantile


def change(evaluations: Mapping[int, EvaluationRecord]) -> Estimate | None:
    """Return the mean change of an item's reward, users resampled; None where nobody was watched before and after.

    A reward has no worst value that a failed one could stand for: such items are left out, and counted.
    """
    if len(evaluations) < 2:
        return None
    before, after = evaluations[min(evaluations)], evaluations[max(evaluations)]
    pairs = zip(before.users, before.rewards, after.rewards, strict=True)
    known = [(user, new - old) for user, old, new in pairs if old is not None and new is not None]
    failed = len(before.items) - len(known)
    if not known:
        return None
    means = cluster_means([[difference] for _, difference in known], [user for user, _ in known])
    value, clusters = float(means.means[0]), means.clusters(0)
    if clusters < 2:
        return Estimate(value, None, None, len(known), failed, "no interval: one cluster")
    variance, df = spread(means, 0)
    if variance == 0:  # a change has no bounds, so nothing says how far another user's could be
        return Estimate(value, None, None, len(known), failed, f"no interval: equal in all of {few(clusters)}")
    half = t_quantile(df, 0.95) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, len(known), failed, f"cluster-robust t, {few(clusters)}")

"""How much users differ in what a model gains by knowing them."""

from collections.abc import Sequence

import numpy as np

from pluralrm.core import Estimate
from pluralrm.errors import MetricError
from pluralrm.metrics.contrast import SAME
from pluralrm.metrics.sides import Side, paired, places_by
from pluralrm.stats import Interval, cluster_means, spread
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.intervals import few, t_quantile

FEWEST_USERS = 10
"""Users with two items or more that the spread needs: below, its interval says nothing."""


def user_spread(own: Side, swapped: Side) -> Estimate:
    """Return the standard deviation, between users, of the gain; the noise of their few items is taken out.

    The random-effects variance by moments, over users with two items or more; `n` counts those users' items. The
    interval is that of the variance, its ends' roots taken, and nothing below 0. Too few such users are an error.
    """
    several = {user: places for user, places in places_by(own.clusters).items() if len(places) > 1}
    if len(several) < FEWEST_USERS:
        raise MetricError(f"{len(several)} users have two items or more; wanted {FEWEST_USERS}.")
    interval = Interval(0.0, None, None, SAME)
    if not own.same_as(swapped):
        gains = own.earned - swapped.earned
        interval = _root({user: gains[places].tolist() for user, places in several.items()})
    members = [place for places in several.values() for place in places]
    return paired(interval, own.part(members), swapped.part(members))


def _root(gains: dict[str, list[float]]) -> Interval:
    means = cluster_means(_variances(list(gains.values())), list(gains))
    variance, df = spread(means, 0)
    value, reach = float(means.means[0]), t_quantile(df) * variance**0.5 if variance else 0.0
    centre, low, high = (max(0.0, end) ** 0.5 for end in (value, value - reach, value + reach))
    if not variance:
        return Interval(centre, None, None, "no interval: the same gain for every user")
    return Interval(centre, low, high, f"random effects by moments, {few(len(gains))}")


def _variances(gains: Sequence[Sequence[float]]) -> FloatArray:
    """Return each user's part (U,) in the variance between users: their mean is an unbiased estimate of it."""
    centres = np.array([np.mean(sorted(values)) for values in gains])
    noise = np.array([np.var(sorted(values), ddof=1) / len(values) for values in gains])
    count = len(gains)
    parts: FloatArray = count / (count - 1) * (centres - np.mean(np.sort(centres))) ** 2 - noise
    return parts

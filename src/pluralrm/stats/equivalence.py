"""Two one-sided tests on a mean of judgments that are alike by item and by annotator (Schuirmann 1987).

Shown at alpha is what the interval at 1 - 2 alpha shows, so that test, interval and plan are one and the same thing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.stats.clusters import ClusterMeans, cluster_means
from pluralrm.stats.intervals import Bounds, Interval, crossed_interval, crossed_spread

_HALVINGS = 40


class Crossed(NamedTuple):
    """The mean of judgments in [0, 1], by item, by annotator, and with each judgment alone."""

    by_item: ClusterMeans
    by_annotator: ClusterMeans
    alone: ClusterMeans

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval that is robust to both kinds of clusters."""
        return crossed_interval(*self, level=level)


class Tested(NamedTuple):
    """An interval at 1 - 2 alpha, the p-value, and whether it shows what it was to show.

    `against` is the p-value of the contrary: that the mean lies beyond a bound.
    """

    interval: Interval
    p: float
    shown: bool
    against: float


def crossed(values: ArrayLike, items: Sequence[str], annotators: Sequence[str]) -> Crossed:
    """Return the means of judgments in [0, 1]."""
    alone = [str(place) for place in range(len(items))]
    return Crossed(*(cluster_means(values, names) for names in (items, annotators, alone)))


def within(found: Crossed, bounds: Bounds, alpha: float) -> Tested:
    """Test that the mean lies between two bounds, against its lying on or beyond one of them."""
    interval = found.interval(1 - 2 * alpha)
    p = max(_p_above(found, bounds.low), _p_below(found, bounds.high))
    against = min(_p_below(found, bounds.low), _p_above(found, bounds.high))
    return Tested(interval, p, p < alpha, against)


def above(found: Crossed, bound: float, alpha: float) -> Tested:
    """Test that the mean lies above a bound, against its lying on it or below."""
    p = _p_above(found, bound)
    return Tested(found.interval(1 - 2 * alpha), p, p < alpha, _p_below(found, bound))


def _p_above(found: Crossed, bound: float) -> float:
    """Return the smallest alpha whose interval lies above the bound; 1 where there is no interval."""
    value, low, _, _ = found.interval()
    if low is None or value == bound:
        return 1.0 if low is None else 0.5
    return _crossing(found, bound) if value > bound else 1 - _crossing(found, bound)


def _p_below(found: Crossed, bound: float) -> float:
    return 1.0 if found.interval().low is None else 1 - _p_above(found, bound)


def _crossing(found: Crossed, bound: float) -> float:
    """Return the alpha whose interval at 1 - 2 alpha just reaches the bound, from 0 to 0.5."""
    from scipy.special import ndtr, stdtr

    variance, df = crossed_spread(*found)
    if not variance:
        return _by_halves(found, bound)
    value = float(found.by_item.means[0])
    if bound in {0.0, 1.0}:
        return 0.0
    # Wilson's interval reaches where the score test, with the variance scaled to the bound, has its quantile.
    score = abs(value - bound) / (variance * bound * (1 - bound) / (value * (1 - value))) ** 0.5
    return float(stdtr(df, -score)) if np.isfinite(df) else float(ndtr(-score))


def _by_halves(found: Crossed, bound: float) -> float:
    outside, inside = 0.5, 0.0  # at 0.5 the interval is the value alone
    for _ in range(_HALVINGS):
        alpha = (outside + inside) / 2
        _, low, high, _ = found.interval(1 - 2 * alpha)
        reached = low is None or high is None or low <= bound <= high
        outside, inside = (outside, alpha) if reached else (alpha, inside)
    return outside

"""The same model on the same items under two conditions: what the change of condition is worth."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pluralrm.core import Estimate
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import FIXED
from pluralrm.metrics.roles import Roles
from pluralrm.metrics.sides import Side, paired, places_by
from pluralrm.metrics.slices import ByTag, tag_values
from pluralrm.stats import ClusterMeans, Interval, difference_interval, gap, group_means, sign_flip_p
from pluralrm.stats.clusters import FloatArray

SAME = f"{FIXED}: the same scores under both conditions on every item"
AT_WORST = "failed items at their worst"


def difference(first: Side, second: Side, *, macro: bool = False) -> Estimate:
    """Return the first side's accuracy minus the second's, item by item; a failed item earns 0 where it failed.

    Exactly 0 without an interval where no score differs: the model does not look at what was changed.
    """
    interval = Interval(0.0, None, None, SAME)
    if not first.same_as(second):
        interval = difference_interval(_means(first, second.earned, macro=macro), 0, 1)
    return paired(interval, first, second, scope=over(first, macro=macro))


def at_least(first: Side, second: Side, *, macro: bool = False) -> Estimate:
    """Return what the difference is at least: failed items were wrong on the first side, and right on the second.

    Without failures this is the difference. With them it is the least of all that it could have been, so that no choice
    of items and of a side to fail on raises it.
    """
    if not (first.failed.any() or second.failed.any()):
        return difference(first, second, macro=macro)
    interval = difference_interval(_means(first, second.at_best, macro=macro), 0, 1)
    if first.same_as(second):
        interval = Interval(interval.value, None, None, SAME)
    return paired(interval, first, second, scope=f"{AT_WORST}; {over(first, macro=macro)}")


def lies_above(first: Side, second: Side, *, macro: bool = False) -> bool:
    """Return whether the difference lies above 0, and would if the second side's failed items had been right.

    Otherwise a model could look personal by failing wherever it is not shown its user, or reversed by failing there.
    """
    if first.same_as(second):
        return False
    lows = [
        difference_interval(_means(first, earned, macro=macro), 0, 1).low for earned in (second.earned, second.at_best)
    ]
    return all(low is not None and low > 0 for low in lows)


def cautious_p(first: Side, second: Side, *, macro: bool = False, seed: int = 0) -> float:
    """Return `flip_p` with failed items as they bring the difference nearest to 0; 1 where they could make it 0."""
    against, favour = _extremes(first, second, macro=macro)
    least, most = (float(means.means[0] - means.means[1]) for means in (against, favour))
    if least < 0 < most and (first.failed.any() or second.failed.any()):
        return 1.0
    return _flipped(against if least > 0 else favour, seed)


def flip_p(first: Side, second: Side, *, macro: bool = False, seed: int = 0) -> float:
    """Return the two-sided p that the two conditions may be swapped within any cluster: sign flips of whole clusters.

    All patterns are tried where there are at most 10,000 (up to 14 clusters), random ones otherwise. A failed item
    earns 0 where it failed.
    """
    return _flipped(_means(first, second.earned, macro=macro), seed)


def _flipped(means: ClusterMeans, seed: int) -> float:
    # Random patterns go by place: in an order by value, the names of the users cannot matter.
    parts = means.parts[np.lexsort(means.parts.T)]
    return float(sign_flip_p(replace(means, parts=parts), seed=seed)[0, 1])


def gain_by_domain(own: Side, swapped: Side) -> dict[str, Estimate]:
    """Return own minus swapped in each domain, domains sorted by name."""
    return _by_group(own, swapped, own.domains)


def gain_by_tag(found: Roles, tag: str) -> ByTag:
    """Return own minus swapped per value of a tag, the lowest of them and the gap, both allowing for having looked.

    A missing control or an unknown tag is an error. A model blind to posts has no worst group.
    """
    if "swapped" not in found.sides:
        raise MetricError(f"no gain of {found.own.model} under {found.own.condition}: {found.absent['swapped']}.")
    own, swapped = found.sides["own"], found.sides["swapped"]
    values = tag_values(own.rows, tag)
    groups = _by_group(own, swapped, values)
    # Halved and moved into [0, 1], gains are shares: one home for the arithmetic of the lowest and the gap.
    spans = gap(group_means((1 + own.earned - swapped.at_best) / 2, own.clusters, values, crossed=own.prompts))
    if spans is None or own.same_as(swapped):
        return ByTag(tag, "gain", groups, None, None, None)
    lowest, distance = _moved(spans.lowest, -1.0), _moved(spans.distance, 0.0)
    worst = list(groups)[spans.worst]
    return ByTag(tag, "gain", groups, worst, paired(lowest, own, swapped), paired(distance, own, swapped))


def over(side: Side, *, macro: bool) -> str:
    """Return in words what a paired mean is taken over."""
    return f"paired, macro mean over {len(set(side.domains))} domains" if macro else "paired, mean"


def _means(first: Side, earned: FloatArray, *, macro: bool) -> ClusterMeans:
    values = np.stack([first.earned, earned], axis=1)
    return first.means(values, macro=macro)


def _extremes(first: Side, second: Side, *, macro: bool) -> tuple[ClusterMeans, ClusterMeans]:
    """Return the means of both sides with the failed items against the first side, and for it."""
    against, favour = (
        first.means(np.stack(values, axis=1), macro=macro)
        for values in ((first.earned, second.at_best), (first.at_best, second.earned))
    )
    return against, favour


def _by_group(first: Side, second: Side, groups: Sequence[str]) -> dict[str, Estimate]:
    return {group: at_least(first.part(places), second.part(places)) for group, places in places_by(groups).items()}


def _moved(share: Interval, offset: float) -> Interval:
    """Return an interval of halved gains, or of their differences, on the scale of gains."""
    low, high = (None if end is None else 2 * end + offset for end in (share.low, share.high))
    return Interval(2 * share.value + offset, low, high, share.method)

"""The same model on the same items under two conditions: the worth of the change, overall, by tag, length and user."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pluralrm.core import Estimate, Role, Row, Run
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import RunItems, paired, places_by
from pluralrm.metrics.estimates import FIXED, ByTag, by_domains, by_tag, extra_length, remark, tag_values
from pluralrm.metrics.roles import Roles, roles
from pluralrm.metrics.units import numbers
from pluralrm.stats import (
    ClusterMeans,
    Interval,
    cluster_means,
    difference_interval,
    gap,
    group_means,
    sign_flip_p,
    spread,
)
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.intervals import few, t_quantile
from pluralrm.stats.regression import mean_at_zero, weights_at_zero
from pluralrm.text import flat

SAME = f"{FIXED}: the same scores under both conditions on every item"
AT_WORST = "failed items at their worst"


def difference(first: RunItems, second: RunItems, *, macro: bool = False) -> Estimate:
    """Return the first side's accuracy minus the second's, item by item; a failed item earns 0 where it failed.

    Exactly 0 without an interval where no score differs: the model does not look at what was changed.
    """
    interval = Interval(0.0, None, None, SAME)
    if not first.same_as(second):
        interval = difference_interval(_means(first, second.earned, macro=macro), 0, 1)
    return paired(interval, first, second, scope=over(first, macro=macro))


def at_least(first: RunItems, second: RunItems, *, macro: bool = False) -> Estimate:
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


def lies_above(first: RunItems, second: RunItems, *, macro: bool = False) -> bool:
    """Return whether the difference lies above 0, and would if the second side's failed items had been right.

    Otherwise a model could look personal by failing wherever it does not see its user, or reversed by failing there.
    """
    if first.same_as(second):
        return False
    lows = [
        difference_interval(_means(first, earned, macro=macro), 0, 1).low for earned in (second.earned, second.at_best)
    ]
    return all(low is not None and low > 0 for low in lows)


def cautious_p(first: RunItems, second: RunItems, *, macro: bool = False, seed: int = 0) -> float:
    """Return `flip_p` with failed items as they bring the difference nearest to 0; 1 where they could make it 0."""
    against, favour = _extremes(first, second, macro=macro)
    least, most = (float(means.means[0] - means.means[1]) for means in (against, favour))
    if least < 0 < most and (first.failed.any() or second.failed.any()):
        return 1.0
    return _flipped(against if least > 0 else favour, seed)


def flip_p(first: RunItems, second: RunItems, *, macro: bool = False, seed: int = 0) -> float:
    """Return the two-sided p that the two conditions may be swapped within any cluster: sign flips of whole clusters.

    All patterns are tried where there are at most 10,000 (up to 14 clusters), random ones otherwise. A failed item
    earns 0 where it failed.
    """
    return _flipped(_means(first, second.earned, macro=macro), seed)


def _flipped(means: ClusterMeans, seed: int) -> float:
    # Random patterns go by place: in an order by value, the names of the users cannot matter.
    parts = means.parts[np.lexsort(means.parts.T)]
    return float(sign_flip_p(replace(means, parts=parts), seed=seed)[0, 1])


def gain_by_domain(own: RunItems, swapped: RunItems) -> dict[str, Estimate]:
    """Return own minus swapped in each domain, domains sorted by name."""
    return _by_group(own, swapped, own.domains)


def tag_records(
    runs: Sequence[Run], siblings: Sequence[Run], tag: str, name: Mapping[str, str]
) -> list[dict[str, object]]:
    """Return a flat record per run and value of a tag: every metric of the card (of a tag the headline), lift and gain.

    `siblings` have the controls; lift and gain are None where there is none. Failed items are at their worst.
    """
    try:
        whole = [one for one in siblings if not remark(one)]
        pairs = {(members.own.model, members.own.condition): members for members in roles(whole)}
    except MetricError:  # they cannot be compared
        pairs = {}
    records = []
    for run in runs:
        groups = by_domains(run) if tag == "domain" else {}
        if not groups:
            slices = by_tag(run, tag)
            groups = {value: {slices.metric: one} for value, one in slices.groups.items()}
        members = pairs.get((run.model, run.condition))
        lift, gain = _contrasts(members, "none", tag), _contrasts(members, "swapped", tag)
        for value, metrics in groups.items():
            record: dict[str, object] = {"benchmark": run.benchmark, tag: value, "model": name[run.model]}
            record |= {"spec": run.model, "condition": run.condition}
            for metric, estimate in metrics.items():
                record |= flat(metric, estimate)
            records.append(record | flat("lift", lift.get(value)) | flat("gain", gain.get(value)))
    return records


def _contrasts(members: Roles | None, role: Role, tag: str) -> dict[str, Estimate]:
    """Return own minus a control for each value of a tag; nothing without the control."""
    if members is None or role not in members.sides:
        return {}
    own = members.sides["own"]
    return _by_group(own, members.sides[role], tag_values(own.rows, tag))


def gain_by_tag(members: Roles, tag: str) -> ByTag:
    """Return own minus swapped per value of a tag, the lowest of them and the gap, both allowing for having looked.

    A missing control or an unknown tag is an error. A model blind to posts has no worst group.
    """
    if "swapped" not in members.sides:
        raise MetricError(f"no gain of {members.own.model} under {members.own.condition}: {members.absent['swapped']}.")
    own, swapped = members.sides["own"], members.sides["swapped"]
    values = tag_values(own.rows, tag)
    groups = _by_group(own, swapped, values)
    # Halved and moved into [0, 1], gains are shares: one home for the arithmetic of the lowest and the gap.
    spans = gap(group_means((1 + own.earned - swapped.at_best) / 2, own.clusters, values, crossed=own.prompts))
    if spans is None or own.same_as(swapped):
        return ByTag(tag, "gain", groups, None, None, None)
    lowest, distance = _moved(spans.lowest, -1.0), _moved(spans.distance, 0.0)
    worst = list(groups)[spans.worst]
    return ByTag(tag, "gain", groups, worst, paired(lowest, own, swapped), paired(distance, own, swapped))


def over(side: RunItems, *, macro: bool) -> str:
    """Return in words what a paired mean is taken over."""
    return f"paired, macro mean over {len(set(side.domains))} domains" if macro else "paired, mean"


def _means(first: RunItems, earned: FloatArray, *, macro: bool) -> ClusterMeans:
    values = np.stack([first.earned, earned], axis=1)
    return first.means(values, macro=macro)


def _extremes(first: RunItems, second: RunItems, *, macro: bool) -> tuple[ClusterMeans, ClusterMeans]:
    """Return the means of both sides with the failed items against the first side, and for it."""
    against, favour = (
        first.means(np.stack(values, axis=1), macro=macro)
        for values in ((first.earned, second.at_best), (first.at_best, second.earned))
    )
    return against, favour


def _by_group(first: RunItems, second: RunItems, groups: Sequence[str]) -> dict[str, Estimate]:
    return {group: at_least(first.part(places), second.part(places)) for group, places in places_by(groups).items()}


def _moved(share: Interval, offset: float) -> Interval:
    """Return an interval of halved gains, or of their differences, on the scale of gains."""
    low, high = (None if end is None else 2 * end + offset for end in (share.low, share.high))
    return Interval(2 * share.value + offset, low, high, share.method)


def equal_length(own: RunItems, swapped: RunItems) -> Estimate:
    """Return the gain expected where the preferred candidate is as long as the others are on average."""
    return _at_zero(own, swapped, [extra_length(row) for row in own.rows], "at equal length")


def equal_quality(own: RunItems, swapped: RunItems, none: RunItems) -> Estimate:
    """Return the gain expected where the model, told nothing of the user, finds no candidate the better one.

    An error where items failed under `none`: what it would have found there moves the line either way.
    """
    if none.failed.any():
        raise MetricError(f"{int(none.failed.sum()):,} items failed under none, so their margin there is not known.")
    return _at_zero(own, swapped, margins(none.rows), "at equal general quality (margin under none = 0)")


def margins(rows: Sequence[Row]) -> list[float]:
    """Return the preferred candidate's score minus the best other's, in standard deviations over the run.

    The deviations are taken from 0, not from the mean,
    for 0 is where the line is read.
    """
    margin = np.array([_margin(row) for row in rows])
    largest = float(np.abs(margin).max())
    if largest == 0:
        return [0.0] * len(rows)
    scaled = margin / largest  # squares of very large or very small scores would overflow
    return [float(value) for value in scaled / np.sqrt(np.mean(np.sort(scaled**2)))]


def _margin(row: Row) -> float:
    scores = numbers(row)
    if scores is None:
        return 0.0
    others = scores[: row.preferred] + scores[row.preferred + 1 :]
    # Halved first: the difference of two finite numbers may be infinite, that of their halves is not.
    return scores[row.preferred] / 2 - max(others) / 2


def _at_zero(own: RunItems, swapped: RunItems, covariate: Sequence[float], scope: str) -> Estimate:
    """Return the height of the line at 0, failed items at their worst: where a gain there lowers it, at their best."""
    least, most = own.earned - swapped.at_best, own.at_best - swapped.earned
    gains = np.where(weights_at_zero(covariate) < 0, most, least)
    interval = mean_at_zero(gains, covariate, own.clusters, crossed=own.prompts)
    if own.same_as(swapped):
        interval = Interval(interval.value if own.failed.any() else 0.0, None, None, SAME)
    failed = own.failed.any() or swapped.failed.any()
    return paired(interval, own, swapped, scope=f"{AT_WORST}; {scope}" if failed else scope)


FEWEST_USERS = 10
"""Users with two items or more that the spread needs: below, its interval says nothing."""


def user_spread(own: RunItems, swapped: RunItems) -> Estimate:
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

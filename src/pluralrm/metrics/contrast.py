"""One model on the same items under two conditions: the change overall, by tag, length, user and number of posts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.conditions import read_condition
from pluralrm.core import Estimate, Role, Row, Run
from pluralrm.display import Brief, JsonFields
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import RunItems, paired
from pluralrm.metrics.estimates import (
    FIXED,
    ByTag,
    by_domains,
    by_tag,
    estimate,
    extra_lengths,
    measure,
    remark,
    tag_values,
)
from pluralrm.metrics.roles import Roles, declared, of_pairs, roles
from pluralrm.metrics.units import ScoreTable, numbers, score_table
from pluralrm.specs import Spec
from pluralrm.stats import (
    ClusterMeans,
    Interval,
    cluster_means,
    difference_interval,
    gap,
    group_means,
    sign_flip_ps,
    spread,
)
from pluralrm.stats.clusters import FloatArray, Spread, cells, codes, crossing, places_by, two_way
from pluralrm.stats.intervals import few, t_quantile
from pluralrm.stats.regression import mean_at_zero, weights_at_zero
from pluralrm.text import flat

ALIKE_SCORES = "the same scores under both conditions on every item"
SAME = f"{FIXED}: {ALIKE_SCORES}"
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
    if first.same_as(second):  # what is left is how many items failed: of other items as many need not
        interval = interval._replace(method=f"{interval.method}; {ALIKE_SCORES}")
    return paired(interval, first, second, scope=f"{AT_WORST}; {over(first, macro=macro)}")


def lies_above(first: RunItems, second: RunItems, *, macro: bool = False) -> bool:
    """Return whether the difference lies above 0, and would if the second side's failed items had been right.

    Otherwise a model could look personal by failing wherever it does not see its user, or reversed by failing there.
    """
    if first.same_as(second):
        return False
    earnings = [second.earned] + [second.at_best] * bool(second.failed.any())
    lows = [difference_interval(_means(first, earned, macro=macro), 0, 1).low for earned in earnings]
    return all(low is not None and low > 0 for low in lows)


def cautious_ps(groups: Sequence[Roles], *, seed: int = 0) -> list[float | None]:
    """Return `flip_p` of own and swapped in each group, failed items as they bring the difference nearest to 0.

    1 where they could make it 0; None without that control.
    """
    tests = [_cautious(each.sides["own"], each.sides.get("swapped"), macro=each.macro) for each in groups]
    p_values = iter(flipped_ps([test for test in tests if isinstance(test, ClusterMeans)], seed))
    return [next(p_values) if isinstance(test, ClusterMeans) else test for test in tests]


def _cautious(first: RunItems, second: RunItems | None, *, macro: bool) -> ClusterMeans | float | None:
    """Return the means that are tested, or the p that needs no test."""
    if second is None:
        return None
    against, favour = _extremes(first, second, macro=macro)
    least, most = (float(means.means[0] - means.means[1]) for means in (against, favour))
    if least < 0 < most and (first.failed.any() or second.failed.any()):
        return 1.0
    return against if least > 0 else favour


def flip_p(first: RunItems, second: RunItems, *, macro: bool = False, seed: int = 0) -> float:
    """Return the two-sided p that the two conditions may be swapped within any cluster: sign flips of whole clusters.

    All patterns are tried where there are at most 10,000 (up to 14 clusters), random ones otherwise. A failed item
    earns 0 where it failed.
    """
    return flipped_p(_means(first, second.earned, macro=macro), seed)


def flipped_p(means: ClusterMeans, seed: int = 0) -> float:
    """Return the two-sided p that columns 0 and 1 may be swapped within any cluster, whatever the clusters' names."""
    return flipped_ps([means], seed)[0]


def flipped_ps(several: Sequence[ClusterMeans], seed: int = 0) -> list[float]:
    """Return `flipped_p` of each; those with as many clusters are tested together."""
    # Random patterns go by place: in an order by value, the names of the users cannot matter.
    tables = [replace(means, parts=means.parts[np.lexsort(means.parts.T)]) for means in several]
    p_values: dict[int, float] = {}
    for places in places_by([str(len(means.parts)) for means in several]).values():
        together = sign_flip_ps([tables[index] for index in places], seed=seed)
        p_values |= {index: float(p[0, 1]) for index, p in zip(places, together, strict=True)}
    return [p_values[index] for index in range(len(several))]


def gain_by_domain(own: RunItems, swapped: RunItems) -> dict[str, Estimate]:
    """Return own minus swapped in each domain, domains sorted by name."""
    return _by_group(own, swapped, own.domains)


def tag_records(
    runs: Sequence[Run], siblings: Sequence[Run], tag: str, name: Mapping[str, str]
) -> list[dict[str, object]]:
    """Return a flat record per run and value of a tag: every metric of the card (of a tag the headline), lift and gain.

    `siblings` have the controls; lift and gain are None where there is none. Failed items are at their worst. The
    groups of a tag are followed by the lowest, and the distance from the highest to the lowest.
    """
    pairs = tag_contrasts(siblings, tag)
    records = []
    for run in runs:
        contrasts = dict(zip(("lift", "gain"), pairs.get((run.model, run.condition), ({}, {})), strict=True))
        lines: dict[str, dict[str, Estimate | None]] = {}
        for value, metrics in by_domains(run).items() if tag == "domain" else ():
            lines[value] = {**metrics, **{side: groups.get(value) for side, groups in contrasts.items()}}
        if tag != "domain":
            slices, gain = by_tag(run, tag), _gain_of(run, siblings, tag)
            for value, estimate in slices.groups.items():
                lines[value] = {
                    slices.metric: estimate,
                    **{side: groups.get(value) for side, groups in contrasts.items()},
                }
            for side in (slices, gain):
                if side is not None and side.worst is not None:
                    lines[f"lowest{' gain' * (side is gain)}: {side.worst}"] = {side.metric: side.lowest}
                    lines.setdefault("highest minus lowest", {})[side.metric] = side.gap
        for value, estimates in lines.items():
            record: dict[str, object] = {"benchmark": run.benchmark, tag: value, "model": name[run.model]}
            record |= {"spec": run.model, "condition": run.condition}
            for metric, number in estimates.items():
                record |= flat(metric, number)
            records.append(record)
    return records


def _gain_of(run: Run, siblings: Sequence[Run], tag: str) -> "ByTag | None":
    """Return `gain_by_tag` of a run among its siblings; None where it has no such control."""
    for members in _roles(siblings):
        if (members.own.model, members.own.condition) == (run.model, run.condition) and "swapped" in members.sides:
            return gain_by_tag(members, tag)
    return None


def _roles(siblings: Sequence[Run]) -> Sequence[Roles]:
    """Return the finished runs by their roles; nothing where they cannot be compared."""
    try:
        return roles([sibling for sibling in siblings if not remark(sibling)])
    except MetricError:
        return []


TagContrasts = dict[str, Estimate]
"""Own minus a control, for each value of a tag."""


def tag_contrasts(siblings: Sequence[Run], tag: str) -> dict[tuple[str, str], tuple[TagContrasts, TagContrasts]]:
    """Return lift and gain for each value of a tag, by model and own condition; of runs that differ too much, none."""
    return {
        (members.own.model, members.own.condition): (
            _contrasts(members, "none", tag),
            _contrasts(members, "swapped", tag),
        )
        for members in _roles(siblings)
    }


def _contrasts(members: Roles, role: Role, tag: str) -> TagContrasts:
    """Return own minus a control for each value of a tag; nothing without the control."""
    if role not in members.sides:
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
    return _at_zero(own, swapped, extra_lengths(own.rows), "at equal length")


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
    table = score_table(rows)
    margin = np.array([_margin(row) for row in rows]) if table is None else _table_margins(table)
    largest = float(np.abs(margin).max())
    if largest == 0:
        return [0.0] * len(rows)
    scaled = margin / largest  # squares of very large or very small scores would overflow
    deviations: list[float] = (scaled / np.sqrt(np.mean(np.sort(scaled**2)))).tolist()
    return deviations


def _table_margins(table: ScoreTable) -> FloatArray:
    """Return `_margin` of each row."""
    places = np.arange(len(table.scores)), table.preferred
    others = table.scores.copy()
    others[places] = -np.inf
    margins: FloatArray = table.scores[places] / 2 - others.max(axis=1) / 2
    return margins


def _margin(row: Row) -> float:
    scores = numbers(row)
    if scores is None:
        return 0.0
    best = row.best
    own = [scores[index] for index in best]
    others = [score for index, score in enumerate(scores) if index not in best]
    # Halved first: the difference of two finite numbers may be infinite, that of their halves is not.
    return max(own) / 2 - max(others) / 2


def _at_zero(own: RunItems, swapped: RunItems, covariate: ArrayLike, scope: str) -> Estimate:
    """Return the height of the line at 0, failed items at their worst: where a gain there lowers it, at their best."""
    least, most = own.earned - swapped.at_best, own.at_best - swapped.earned
    gains = np.where(weights_at_zero(covariate) < 0, most, least)
    interval = mean_at_zero(gains, covariate, own.clusters, crossed=own.prompts)
    failed = own.failed.any() or swapped.failed.any()
    if own.same_as(swapped):
        same = interval._replace(method=f"{interval.method}; {ALIKE_SCORES}")
        interval = same if failed else Interval(0.0, None, None, SAME)
    return paired(interval, own, swapped, scope=f"{AT_WORST}; {scope}" if failed else scope)


FEWEST_USERS = 10
"""Users with two items or more that the spread needs: below, its interval says nothing."""


def user_spread(own: RunItems, swapped: RunItems) -> Estimate:
    """Return the standard deviation, between users, of the gain; the noise of their few items is taken out.

    The random-effects variance by moments, over users with two items or more; `n` counts those users' items. The
    interval is that of the variance, its ends' roots taken, and nothing below 0. Too few such users are an error.
    What two users gain on one prompt says nothing of how alike they are: such products are left out.
    """
    several = {user: places for user, places in places_by(own.clusters).items() if len(places) > 1}
    if len(several) < FEWEST_USERS:
        raise MetricError(f"{len(several)} users have two items or more; wanted {FEWEST_USERS}.")
    members = [index for places in several.values() for index in places]
    interval = Interval(0.0, None, None, SAME)
    if not own.same_as(swapped):
        gains = own.earned - swapped.earned
        shared = crossing(own.part(members).clusters, own.part(members).prompts)
        interval = _root({user: gains[places].tolist() for user, places in several.items()}, shared)
    return paired(interval, own.part(members), swapped.part(members))


def _root(gains: dict[str, list[float]], prompts: Sequence[str] | None) -> Interval:
    means = cluster_means(_variances(list(gains.values())), list(gains))
    value, (variance, df) = float(means.means[0]), spread(means, 0)
    if prompts is not None and len(set(prompts)) < 2:
        return Interval(max(0.0, value) ** 0.5, None, None, "no interval: one prompt")
    if prompts is not None:
        value, parts = _variance_apart(gains, prompts)
        users = [user for user, values in gains.items() for _ in values]
        sides = (spread(cluster_means(parts, names), 0) for names in (prompts, cells(users, prompts)))
        variance, df = two_way(Spread(variance, df), *sides)
    reach = t_quantile(df) * variance**0.5 if variance else 0.0
    centre, low, high = (max(0.0, end) ** 0.5 for end in (value, value - reach, value + reach))
    if not variance:
        return Interval(centre, None, None, "no interval: the same gain for every user")
    over = few(len(gains)) + (f" × {len(set(prompts)):,} prompts" if prompts else "")
    return Interval(centre, low, high, f"random effects by moments, {over}")


def _variance_apart(gains: dict[str, list[float]], prompts: Sequence[str]) -> tuple[float, FloatArray]:
    """Return the mean product of two gains of one user, less that of two users' on two prompts; and each item's part.

    The parts' mean is twice that: a product is a part of both of its items.
    """
    gain, prompt = np.concatenate(list(gains.values())), codes(prompts)
    size = np.array([len(values) for values in gains.values()])
    user, users = np.repeat(np.arange(len(size)), size), len(size)
    cell = codes(cells(list(map(str, user)), prompts))

    def others(values: FloatArray) -> FloatArray:
        """Return for each item the sum over the items of other users on other prompts."""
        sums = [np.bincount(names, values)[names] for names in (user, prompt, cell)]
        return np.asarray(values.sum() - sums[0] - sums[1] + sums[2], dtype=np.float64)

    weight = 1 / size[user]
    within = (np.bincount(user, gain)[user] - gain) / (size * (size - 1.0))[user] / users
    across = weight * others(weight * gain) / float((weight * others(weight)).sum())
    parts: FloatArray = 2 * len(gain) * gain * (within - across)
    return float(parts.mean()) / 2, parts


def _variances(gains: Sequence[Sequence[float]]) -> FloatArray:
    """Return each user's part (U,) in the variance between users: their mean is an unbiased estimate of it."""
    centres = np.array([np.mean(sorted(values)) for values in gains])
    noise = np.array([np.var(sorted(values), ddof=1) / len(values) for values in gains])
    count = len(gains)
    parts: FloatArray = count / (count - 1) * (centres - np.mean(np.sort(centres))) ** 2 - noise
    return parts


BINS = ((0, 0), (1, 2), (3, 5), (6, 10), (11, 20), (21, 50))
"""Numbers of posts that stand together; the last bin is open."""


@dataclass(frozen=True, slots=True, repr=False)
class ColdStart(Brief, JsonFields):
    """One model under conditions that differ in the number of posts or pairs alone, `none` standing for none.

    `gain` holds own minus swapped where a number has its control; `lift` own minus none, paired by item.
    """

    model: str
    family: str
    accuracy: Mapping[int, Estimate]
    gain: Mapping[int, Estimate]
    lift: Mapping[int, Estimate]
    unit: Literal["posts", "pairs"] = "posts"


def cold_start(runs: Sequence[Run]) -> list[ColdStart]:
    """Return a curve for each model and family of own conditions (`raw:K,by=bm25`) with two numbers or more.

    Between numbers of posts the items are the same, so the curve shows what more posts of the same users add.
    """
    families: dict[tuple[str, str], dict[int, Roles]] = {}
    for each in roles(runs):
        if (posts := declared(each.own).amount) is not None:
            family = _family(read_condition(each.own.condition))
            families.setdefault((each.own.model, family), {})[posts] = each
    return [_curve(*names, members) for names, members in families.items() if len(members) > 1]


def by_posts(rows: Sequence[Row]) -> dict[str, Estimate]:
    """Return accuracy by how many posts the model saw, within one run. One bin alone is an error.

    Here the users differ from bin to bin, and those who write more may be easier to judge for: a description.
    """
    ends = {posts: _bin(posts) for posts in set(map(attrgetter("posts"), rows))}
    bins: dict[tuple[int, int], list[Row]] = {bin_: [] for bin_ in ends.values()}
    if len(bins) < 2:
        raise MetricError(f"the model saw {_label(*next(iter(bins)))} posts on every item.")
    for row in rows:
        bins[ends[row.posts]].append(row)
    return {_label(*ends): estimate(members, "accuracy", "micro") for ends, members in sorted(bins.items())}


def _bin(posts: int) -> tuple[int, int]:
    return next((ends for ends in BINS if posts <= ends[1]), (BINS[-1][1] + 1, -1))


def _label(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}+" if high < low else f"{low}–{high}"


def _family(spec: Spec) -> str:
    """Return the condition with K in place of its number of posts."""
    if spec.target.isdecimal():
        return str(Spec(spec.kind, "K", spec.options))
    return str(Spec(spec.kind, spec.target, {**spec.options, "k": "K"}))


def _curve(model: str, family: str, members: Mapping[int, Roles]) -> ColdStart:
    accuracy: dict[int, Estimate] = {}
    gain: dict[int, Estimate] = {}
    lift: dict[int, Estimate] = {}
    for posts, member in sorted(members.items()):
        if "none" in member.controls:
            accuracy[0] = measure(member.controls["none"], "accuracy")
            lift[posts] = at_least(member.sides["own"], member.sides["none"], macro=member.macro)
        accuracy[posts] = measure(member.own, "accuracy")
        if "swapped" in member.sides:
            gain[posts] = at_least(member.sides["own"], member.sides["swapped"], macro=member.macro)
    unit: Literal["pairs", "posts"] = "pairs" if of_pairs(next(iter(members.values())).own) else "posts"
    return ColdStart(model, family, accuracy, gain, lift, unit)

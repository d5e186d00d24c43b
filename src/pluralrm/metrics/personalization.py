"""Does a model judge for *this* user? The pair of context lift and personalization gain, and what stands behind it.

context lift              own - none       what the user's posts add
personalization gain      own - swapped    what it is worth that they are this user's posts and not another's
gain over the nearest     own - nearest    and not of the user who writes nearest to the question, on the same subject
gain over the group       own - group      what the person adds to people who share a trait; group - outside: what the
                                           group tells
least sensitivity         verdicts that another value of the trait that matters least changes; it should change none

Neither number alone will do. Anybody's posts may help (a hint at the topic): lift without gain. And a model that any
strange text confuses loses under `swapped` and so gains by comparison, though its user's posts tell it nothing:
own = none = 75, swapped = 65 has a gain of 10 and a lift of 0. Only both together show a model that uses the user.
docs/personalization.md has every formula with a worked example, and what may be concluded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.conditions.loans import LENT
from pluralrm.core import Estimate, Role, Run
from pluralrm.display import Brief, json_fields
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import SIGNIFICANT, paired
from pluralrm.metrics.contrast import (
    ALIKE_SCORES,
    AT_WORST,
    SAME,
    at_least,
    by_posts,
    cautious_ps,
    equal_length,
    equal_quality,
    gain_by_domain,
    lies_above,
    over,
    user_spread,
)
from pluralrm.metrics.estimates import measure
from pluralrm.metrics.roles import Roles, roles
from pluralrm.metrics.units import decision, once
from pluralrm.stats import Interval, holm, share_interval
from pluralrm.stats.intervals import ratio_of_means
from pluralrm.text import bounds, counted, points

Number = Literal[
    "lift",
    "gain",
    "gain_over_nearest",
    "gain_over_noise",
    "gain_over_shuffled",
    "gain_over_group",
    "group_over_outside",
    "gain_over_least",
    "least_sensitivity",
    "oracle_gap",
    "gap_closed",
    "swap_sensitivity",
    "gain_at_equal_length",
    "gain_at_equal_quality",
    "user_spread",
]
ON_GROUPS: tuple[Number, ...] = ("gain_over_group", "group_over_outside", "least_sensitivity", "gain_over_least")
"""The numbers on groups, and on the trait that matters least: there where their controls were run."""
PersonalVerdict = Literal[
    "personalized",
    "reversed",
    "lift only",
    "gain only",
    "lift below",
    "gain below",
    "by subject",
    "by group",
    "by failing",
    "open",
    "unequal",
    "blind",
    "inconclusive",
    "unknown",
]

VERDICTS: Mapping[PersonalVerdict, str] = {
    "personalized": "lift and gain both lie above 0, and the adjusted p is significant",
    "reversed": "lift and gain both lie below 0: worse with this user's posts than with none, and than with another's",
    "lift only": "better with this user's posts than with none; that this takes this user's posts is not significant",
    "gain only": "better with this user's posts than with another's; that they help over none is not significant",
    "lift below": "worse with this user's posts than with none",
    "gain below": "worse with this user's posts than with another's",
    "by subject": "better with this user's posts than with none and with another's of the domain, not significantly "
    "better than with those of the user who writes nearest to the question",
    "by group": "better with this user's posts than with none and with another's of the domain, not significantly "
    "better than with those of other people who share a trait",
    "by failing": "lift and gain lie both below 0, or both above, but only where failed items count at their worst",
    "open": "the interval of the gain excludes 0, but p, adjusted for every test here, is not significant",
    "unequal": "no verdict, own and its control saw unequal numbers of posts or pairs",
    "blind": "the same scores with any user's posts",
    "inconclusive": "neither lift nor gain differs significantly from 0",
    "unknown": "a control condition is missing",
}
"""What each verdict on (lift, gain) says, and no more."""

_RESTS_ON_GAIN: frozenset[PersonalVerdict] = frozenset(
    {"personalized", "reversed", "by subject", "by group", "gain only", "gain below"}
)
"""The verdicts that say own posts and another user's differ: without a significant p they are open."""

_PAIRS: Mapping[Number, Role] = {"lift": "none", "gain": "swapped"}
"""What own is compared with."""
_STRICTER: Mapping[Role, PersonalVerdict] = {"nearest": "by subject", "group": "by group"}
"""The controls that share something with the user, and the verdict where own does not lie above one that was run."""
_LENT: tuple[Role, ...] = ("swapped", *_STRICTER)
"""The controls that a personalized model must survive, where they were run."""
_WITHSTOOD: tuple[Role, ...] = (*_LENT, "noise", "shuffled")
"""And those that it may."""


@dataclass(frozen=True, repr=False)
class Personalization(Brief):
    """What one model makes of the user under one own condition. The headline is the pair (lift, gain).

    Every number is over the same items under both conditions, paired, with failed items at their worst: wrong under
    own, right under the control. `accuracy` has them as wrong under each. A number whose control is missing, or that
    has no answer in these data, is None; `absent` says why. `shown` holds those of lift and gain that lie above 0, and
    would with all items that failed under the control wrong or right; `below` those that lie below 0, and would if all
    items that failed under own had been right. `p` tests whether own and another user's posts differ at all, with
    failed items as they bring it nearest to 1; `p_adjusted` is Holm's, over all that `tested` is true of, and where it
    is not significant no verdict rests on the gain. `survived` has the controls in which another's posts or pairs, or
    other labels, stood in for the user's and above which own lies, whatever the items that failed there were; `unequal`
    those that saw unequal amounts, with the numbers.
    """

    model: str
    benchmark: str
    conditions: Mapping[Role, str]
    accuracy: Mapping[Role, Estimate]
    numbers: Mapping[Number, Estimate | None]
    shown: frozenset[Number]
    below: frozenset[Number]
    domains: Mapping[str, Estimate]
    by_posts: Mapping[str, Estimate]
    p: float | None
    p_adjusted: float | None
    absent: Mapping[str, str]
    notes: tuple[str, ...]
    survived: frozenset[Role] = frozenset()
    unequal: Mapping[Role, str] = field(default_factory=dict)

    @property
    def lift(self) -> Estimate | None:
        """Own minus none."""
        return self.numbers["lift"]

    @property
    def gain(self) -> Estimate | None:
        """Own minus swapped."""
        return self.numbers["gain"]

    @property
    def personalized(self) -> bool:
        """True only when the 95% intervals of lift and gain both lie above 0, not by failures, and p is significant.

        So must the gain over the users who write nearest to the question, where that control was run.

        The gain alone rewards fragility: a model with own = none = 75 that strange posts pull down to 65 gains 10 and
        has learnt nothing of its user. The lift alone rewards a hint that anybody's posts would have given.
        """
        return self.verdict == "personalized"

    @property
    def verdict(self) -> PersonalVerdict:
        """The pair in words; the module's docstring says why it takes both. It never contradicts the adjusted p."""
        by_intervals = self._by_intervals
        doubtful = self.p_adjusted is not None and self.p_adjusted >= SIGNIFICANT
        return "open" if doubtful and by_intervals in _RESTS_ON_GAIN else by_intervals

    @property
    def _by_intervals(self) -> PersonalVerdict:
        """The pair in words by each interval alone."""
        lift, gain = self.lift, self.gain
        if gain is not None and ALIKE_SCORES in gain.method:
            return "blind"
        if lift is None or gain is None:
            return "unknown"
        if any(role in self.unequal for role in _LENT):
            return "unequal"
        if self.below:
            return "reversed" if len(self.below) == 2 else "lift below" if "lift" in self.below else "gain below"
        return self._above(lift, gain)

    def _above(self, lift: Estimate, gain: Estimate) -> PersonalVerdict:
        """The pair in words where neither lies below 0."""
        if len(self.shown) == 2:
            return next((_STRICTER[role] for role in self._missed), "personalized")
        if side_of_zero(lift) == side_of_zero(gain) != 0:
            return "by failing"
        return "lift only" if "lift" in self.shown else "gain only" if "gain" in self.shown else "inconclusive"

    @property
    def _missed(self) -> list[Role]:
        """The stricter controls that were run, and above which own does not lie."""
        return [role for role in _STRICTER if role in self.conditions and role not in self.survived]

    @property
    def standing(self) -> str:
        """Return what the verdict withstood and was not put to, or why there is none; nothing where neither is known.

        Of a personalized model its controls, and whether one of them asked if the subject passes for the person.
        """
        if self.verdict == "unequal":
            return "; ".join(self.unequal.values())
        if self.verdict not in {"personalized", *_STRICTER.values()}:
            return ""
        controls = " and ".join(self.conditions[role] for role in _WITHSTOOD if role in self.survived)
        controls += "".join(f", not above {self.conditions[role]}" for role in self._missed)
        if "nearest" in self.conditions or "gain_over_nearest" not in self.numbers:
            return f"above {controls}"
        return f"above {controls}; not tested against users who write on the same subject (a control with by=prompt)"

    @property
    def by_failing(self) -> dict[Number, str]:
        """Return those of lift and gain whose interval lies off 0 though nothing is shown, each with the reason."""
        off = {name: side_of_zero(estimate) for name in _PAIRS if (estimate := self.numbers[name]) is not None}
        return {
            name: self._failures(name, "above" if side > 0 else "below")
            for name, side in off.items()
            if side != 0 and name not in self.shown | self.below
        }

    def _failures(self, name: Number, where: str) -> str:
        failed = {role: self.accuracy[role].failed for role in ("own", _PAIRS[name]) if self.accuracy[role].failed}
        under = " and ".join(f"{count:,} under {self.conditions[role]}" for role, count in failed.items())
        return f"{where} 0 only because items that failed ({under}) count at their worst"

    @property
    def tested(self) -> bool:
        """False where own and another user's posts give the same scores, or the latter were never scored."""
        # A blind model has p = 1 whatever the data: it is no test among others, and must not make theirs harder.
        return self.p is not None and self._by_intervals != "blind"

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            **json_fields(self, "model", "benchmark", "conditions", "personalized", "verdict", "shown", "below"),
            "survived": {role: self.conditions[role] for role in _WITHSTOOD if role in self.survived},
            **json_fields(self, "unequal", "by_failing"),
            **{name: estimate and estimate.to_json() for name, estimate in self.numbers.items()},
            **json_fields(self, "p", "p_adjusted", "accuracy", "domains", "by_posts", "absent", "notes"),
        }


def personalization(runs: Sequence[Run], *, seed: int = 0) -> list[Personalization]:
    """Return one Personalization per model and own condition, sorted; none where no run shows the user's posts.

    `metrics.roles` says which run is which. Runs on other content, incomplete runs, one condition twice, and runs on
    different items are errors that name them.
    """
    # Of the same runs it was measured before: kept with the group, which must then be equal.
    groups = roles([run for run in runs if run.card.cluster != LENT])  # lent users have no taste: `metrics.cost`
    caches = [once(each.own, ("personalization", seed), dict[str, tuple[Roles, Personalization]]) for each in groups]
    pairs = list(zip(groups, caches, strict=True))
    new = [(each, cache) for each, cache in pairs if "last" not in cache or cache["last"][0] != each]
    for (each, cache), p in zip(new, cautious_ps([each for each, _ in new], seed=seed), strict=True):
        cache["last"] = each, _measured(each, p)
    measured = [cache["last"][1] for cache in caches]
    tested = [index for index, each in enumerate(measured) if each.tested]
    adjusted = {index: measured[index].p for index in range(len(measured))}
    if tested:
        adjusted.update(zip(tested, holm([measured[index].p or 0.0 for index in tested]).tolist(), strict=True))
    return [replace(each, p_adjusted=adjusted[index]) for index, each in enumerate(measured)]


def on_groups(personal: Personalization) -> list[str]:
    """Return what the person adds to the group, what the group tells, and what the least important trait changes."""
    beyond, group, changed = (personal.numbers.get(name) for name in ON_GROUPS[:3])
    texts = [f"{points(beyond)} points over the group"] * (beyond is not None)
    texts += [f"the group {points(group)} over outsiders"] * (group is not None)
    lines = [f"{'; '.join(texts)}."] * bool(texts)
    if changed is None:
        return lines
    share = "no verdict" if changed.value == 0 else f"{100 * changed.value:.1f}% of its verdicts{bounds(changed)}"
    share += f" on {counted(changed.n, 'item')}"
    aside = "; it should change none" if changed.low else ""
    return [*lines, f"Another value of the least important trait changes {share}{aside}."]


def side_of_zero(estimate: Estimate) -> int:
    """Return 1 where the interval lies above 0, -1 where it lies below, 0 where it does neither."""
    if estimate.low is None or estimate.high is None:
        return 0
    return int(estimate.low > 0) - int(estimate.high < 0)


def _measured(group: Roles, p: float | None) -> Personalization:
    numbers_found: dict[Number, Estimate | None] = {}
    absent: dict[str, str] = {}
    for name, (needs, compute) in NUMBERS.items():
        if any(role not in group.controls and role not in group.absent for role in needs):
            continue
        missing = next((group.absent[role] for role in needs if role in group.absent), None)
        try:
            numbers_found[name] = None if missing else compute(group)
        except MetricError as exc:
            numbers_found[name], missing = None, str(exc)
        if missing:
            absent[name] = missing
    own, swapped = group.sides["own"], group.sides.get("swapped")
    try:
        binned = by_posts(own.rows)
    except MetricError as exc:
        binned, absent["by_posts"] = {}, str(exc)
    members: dict[Role, Run] = {"own": group.own, **group.controls}
    return Personalization(
        group.own.model,
        group.own.benchmark,
        {role: run.condition for role, run in members.items()},
        {role: measure(run, "accuracy") for role, run in members.items()},
        numbers_found,
        _apart(group, above=True),
        _apart(group, above=False),
        gain_by_domain(own, swapped) if swapped else {},
        binned,
        p,
        None,
        absent,
        group.notes,
        frozenset(
            role for role in _WITHSTOOD if role in group.sides and lies_above(own, group.sides[role], macro=group.macro)
        ),
        group.unequal,
    )


def _apart(members: Roles, *, above: bool) -> frozenset[Number]:
    """Return which of lift and gain lie above 0, or below, whatever the items that failed on the worse side were."""
    own = members.sides["own"]
    sides = {name: members.sides[role] for name, role in _PAIRS.items() if role in members.sides}
    return frozenset(
        name
        for name, other in sides.items()
        if lies_above(*((own, other) if above else (other, own)), macro=members.macro)
    )


def _minus(first: Role, second: Role) -> Callable[[Roles], Estimate]:
    return lambda members: at_least(members.sides[first], members.sides[second], macro=members.macro)


def _oracle_gap(members: Roles) -> Estimate:
    """Return oracle minus own: the largest that it could be, whatever the failed items were."""
    least = at_least(members.sides["own"], members.sides["oracle"], macro=members.macro)
    low, high = (None if end is None else -end for end in (least.high, least.low))
    return replace(least, value=0.0 - least.value, low=low, high=high)


def _gap_closed(members: Roles) -> Estimate:
    """Return (own - none) / (oracle - none); an error where the rubric does not help significantly.

    Failed items count as they make the share least: it rises with neither side's for all values of the other, so it is
    least where all of each are wrong, or all right.
    """
    own, none, oracle = (members.sides[role] for role in ("own", "none", "oracle"))
    lead = at_least(oracle, none, macro=members.macro)
    if lead.low is None or lead.low <= 0:
        ends = "no interval" if lead.low is None or lead.high is None else f"{lead.low:.3f} to {lead.high:.3f}"
        raise MetricError(
            f"oracle minus none is {lead.value:.3f} ({ends}), not separated from 0: there is no gap to close"
        )
    strata = own.domains if members.macro else None
    interval = min(
        (
            ratio_of_means(own.earned - base, top - base, own.clusters, strata=strata, crossed=own.prompts)
            for base in (none.earned, none.at_best)
            for top in (oracle.earned, oracle.at_best)
        ),
        key=lambda ratio: ratio.value,
    )
    for share, other in ((0.0, none), (1.0, oracle)):
        if own.same_as(other) and not own.failed.any():
            interval = Interval(share, None, None, SAME)
    failed = any(side.failed.any() for side in (own, none, oracle))
    scope = "; ".join(filter(None, (AT_WORST * bool(failed), over(own, macro=members.macro))))
    return paired(interval, own, oracle, none, scope=scope)


def _changed(members: Roles, control: Role) -> Estimate:
    """Return the share of items whose best candidate is another one under a control.

    Tied candidates are best together. A failed item stays in the denominator: it has not changed, but under `least`,
    where a change speaks against the model, it has. An item in which no trait was swapped says nothing of the swap; an
    open one is counted, so that no outage helps.
    """
    own, swapped = members.sides["own"], members.sides[control]
    if control == "least":
        places = [index for index, row in enumerate(swapped.rows) if row.lenders or row.open]
        if not places:
            raise MetricError(f"{members.controls[control].condition} swapped a trait in no item")
        own, swapped = own.part(places), swapped.part(places)
    if own.table and swapped.table and own.table.top.shape == swapped.table.top.shape:
        changed = (own.table.top != swapped.table.top).any(axis=1).astype(np.float64)
    else:
        pairs = zip(map(decision, own.rows), map(decision, swapped.rows), strict=True)
        changed = np.array([float(best != other if best and other else control == "least") for best, other in pairs])
    means = own.means(changed, macro=members.macro)
    same = own.same_as(swapped) and not changed.any()
    interval = Interval(0.0, None, None, SAME) if same else share_interval(means)
    return paired(interval, own, swapped, scope=over(own, macro=members.macro))


class _Recipe(NamedTuple):
    needs: tuple[Role, ...]
    compute: Callable[[Roles], Estimate]


NUMBERS: Mapping[Number, _Recipe] = {
    "lift": _Recipe(("none",), _minus("own", "none")),
    "gain": _Recipe(("swapped",), _minus("own", "swapped")),
    "gain_over_nearest": _Recipe(("nearest",), _minus("own", "nearest")),
    "gain_over_noise": _Recipe(("noise",), _minus("own", "noise")),
    "gain_over_shuffled": _Recipe(("shuffled",), _minus("own", "shuffled")),
    "gain_over_group": _Recipe(("group",), _minus("own", "group")),
    "group_over_outside": _Recipe(("group", "outside"), _minus("group", "outside")),
    "gain_over_least": _Recipe(("least",), _minus("own", "least")),
    "least_sensitivity": _Recipe(("least",), lambda members: _changed(members, "least")),
    "oracle_gap": _Recipe(("oracle",), _oracle_gap),
    "gap_closed": _Recipe(("none", "oracle"), _gap_closed),
    "swap_sensitivity": _Recipe(("swapped",), lambda members: _changed(members, "swapped")),
    "gain_at_equal_length": _Recipe(
        ("swapped",), lambda members: equal_length(members.sides["own"], members.sides["swapped"])
    ),
    "gain_at_equal_quality": _Recipe(
        ("swapped", "none"),
        lambda members: equal_quality(members.sides["own"], members.sides["swapped"], members.sides["none"]),
    ),
    "user_spread": _Recipe(("swapped",), lambda members: user_spread(members.sides["own"], members.sides["swapped"])),
}
"""Each number, the controls that it needs, and how it is computed."""

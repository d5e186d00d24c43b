"""Cold start: how accuracy grows with the number of posts, or of labelled pairs, that the model saw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pluralrm.conditions import read_condition
from pluralrm.core import Estimate, Row, Run
from pluralrm.display import Brief
from pluralrm.errors import MetricError
from pluralrm.metrics.contrast import at_least
from pluralrm.metrics.estimates import estimate, measure
from pluralrm.metrics.roles import Roles, declared, of_pairs, roles
from pluralrm.specs import Spec

BINS = ((0, 0), (1, 2), (3, 5), (6, 10), (11, 20), (21, 50))
"""Numbers of posts that stand together; the last bin is open."""


@dataclass(frozen=True, slots=True, repr=False)
class ColdStart(Brief):
    """One model under conditions that differ in the number of posts or pairs alone, `none` standing for none.

    `gain` holds own minus swapped where a number has its control; `lift` own minus none, paired by item.
    """

    model: str
    family: str
    accuracy: Mapping[int, Estimate]
    gain: Mapping[int, Estimate]
    lift: Mapping[int, Estimate]
    unit: Literal["posts", "pairs"] = "posts"

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json; numbers become text, as JSON's keys are."""
        return {
            "model": self.model,
            "family": self.family,
            "accuracy": {str(posts): estimate.to_json() for posts, estimate in self.accuracy.items()},
            "gain": {str(posts): estimate.to_json() for posts, estimate in self.gain.items()},
            "lift": {str(posts): estimate.to_json() for posts, estimate in self.lift.items()},
            "unit": self.unit,
        }


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
    bins: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        bins.setdefault(_bin(row.posts), []).append(row)
    if len(bins) < 2:
        raise MetricError(f"the model saw {_label(*next(iter(bins)))} posts on every item.")
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

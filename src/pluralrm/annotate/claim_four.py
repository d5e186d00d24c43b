"""Four answers: do people pick the labelled one, does only one fit, is the prompt natural, do its paraphrases agree?

Nothing is claimed of these beforehand, so nothing is tested: every number has its interval.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pluralrm.annotate.design import Arm, Plan
from pluralrm.annotate.judgments import Judgment
from pluralrm.annotate.opinions import FourOpinion, four_opinions, inattentive, told_inattentive
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.core import Estimate
from pluralrm.errors import MetricError, PlanError
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.equivalence import crossed

CHANCE = 0.25


@dataclass(frozen=True, slots=True)
class FourInArm:
    """What people say of the four answers, and of the prompt, in one arm."""

    arm: Arm
    items: int
    annotators: int
    picked: Estimate
    """How often the labelled answer is picked; chance is one in four."""
    only_one: Estimate
    """How often one answer fits, and no other."""
    none: Estimate
    """How often no answer fits."""
    naturalness: Estimate
    """From 1 to 5."""
    same: Estimate | None
    """How often the paraphrases mean the same; None where nobody could tell."""
    survives: Estimate
    """The share of items whose labelled answer is picked more often than any other."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "arm": self.arm,
            "items": self.items,
            "annotators": self.annotators,
            "picked": self.picked.to_json(),
            "only_one_fits": self.only_one.to_json(),
            "none_fits": self.none.to_json(),
            "naturalness": self.naturalness.to_json(),
            "paraphrases_same": self.same and self.same.to_json(),
            "survives": self.survives.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Fours:
    """What people say of the items of a plan of four answers."""

    benchmark: str
    plan_hash: str
    arms: tuple[FourInArm, ...]
    rehearsal: bool
    left_out: str
    """Which annotators are left out, and why."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        arms = [arm.to_json() for arm in self.arms]
        return {
            "benchmark": self.benchmark,
            "plan": self.plan_hash,
            "rehearsal": self.rehearsal,
            "left_out": self.left_out,
            "arms": arms,
        }


def fours(plan: Plan, judgments: Sequence[Judgment]) -> Fours:
    """Return what the judgments of a plan of four answers show; a plan of pairs, or of one's own, is a PlanError."""
    if plan.declared.task != "four" or plan.declared.mode != "validate":
        raise PlanError("wanted a plan of four answers with labels, such as one of pocket-rmgap")
    least = plan.declared.claim.attention
    out = inattentive(plan, judgments, least)
    told = told_inattentive(out, least)
    said = [one for one in four_opinions(plan, judgments) if one.screen.kind == "item" and one.annotator not in out]
    arms = []
    for arm in sorted(plan.declared.arms):
        own = [one for one in said if one.arm == arm]
        if not own:
            why = f", {told}" if out else ""
            raise MetricError(f"arm {arm!r}: no judgment of an item{why}; wanted judgments in every arm of the plan")
        arms.append(_in_arm(arm, own))
    return Fours(plan.declared.benchmark, plan.content_hash, tuple(arms), is_rehearsal(judgments), told)


def _in_arm(arm: Arm, said: Sequence[FourOpinion]) -> FourInArm:
    picks = [(one, one.picked()) for one in said]
    told = [(one, one.answers.same_meaning) for one in said if one.answers.same_meaning in {"yes", "no"}]
    asked = sum(one.answers.same_meaning is not None for one in said)
    score = _mean([(one.answers.naturalness - 1) / 4 for one in said], said, 0)
    low, high = (None if end is None else 1 + 4 * end for end in (score.low, score.high))
    return FourInArm(
        arm=arm,
        items=len({one.item.id for one in said}),
        annotators=len({one.annotator for one in said}),
        # Who cannot tell has not picked the labelled answer.
        picked=_mean([float(pick == one.item.preferred) for one, pick in picks], said, 0),
        only_one=_mean([float(one.answers.fitting == "one") for one in said], said, 0),
        none=_mean([float(one.answers.fitting == "none") for one in said], said, 0),
        naturalness=Estimate(1 + 4 * score.value, low, high, score.n, 0, score.method),
        same=_mean([float(same == "yes") for _, same in told], [one for one, _ in told], asked - len(told))
        if told
        else None,
        survives=_survives(picks),
    )


def _mean(values: Sequence[float], said: Sequence[FourOpinion], left_out: int) -> Estimate:
    means = crossed(values, [one.item.cluster for one in said], [one.annotator for one in said])
    value, low, high, method = means.interval()
    return Estimate(value, low, high, len(values), left_out, method)


def _survives(picks: Sequence[tuple[FourOpinion, int | None]]) -> Estimate:
    votes: dict[str, Counter[int | None]] = {}
    items = {one.item.id: one.item for one, _ in picks}
    for one, pick in picks:
        votes.setdefault(one.item.id, Counter())[pick] += 1
    values = []
    for name, counts in votes.items():
        right = counts.pop(items[name].preferred, 0)
        counts.pop(None, None)
        values.append(float(right > max(counts.values(), default=0)))
    found = share_interval(cluster_means(values, [items[name].cluster for name in votes]))
    return Estimate(found.value, found.low, found.high, len(values), 0, found.method)

"""Is personal fit what separates the pair? Win rates and ratings, equivalence in general quality, floors, log odds.

Margins, floor, alpha, and who is left out for inattention come from the plan, where they were stated before anybody
judged. The claim is an "and": every test must hold at alpha, so no correction for their number is needed (Berger 1982).
That it is refuted is an "or", so each contrary is tested at alpha over the number of tests.

Of four answers nothing is claimed beforehand, so nothing is tested: every number has its interval.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pluralrm.annotate.claim_result import (
    ANSWERS,
    Answer,
    ArmResult,
    ClaimResult,
    ClaimTest,
    Floor,
    RatingDifference,
    Weight,
    Win,
)
from pluralrm.annotate.judgments import (
    QUESTIONS,
    FourOpinion,
    Judgment,
    PairOpinion,
    Question,
    four_opinions,
    inattentive,
    pair_opinions,
    told_inattentive,
)
from pluralrm.annotate.plan import DIMENSIONS, GENERAL, AnnotationPlan, Arm, Dimension, General, PlanDeclaration
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.core import Estimate
from pluralrm.errors import MetricError, PlanError
from pluralrm.stats import Interval, cluster_means, share_interval
from pluralrm.stats.comparisons import Crossed, Tested, above, crossed, within
from pluralrm.stats.intervals import Bounds
from pluralrm.stats.regression import fit_crossed

_TESTS = 1 + len(GENERAL) + 2 * len(GENERAL)
"""Fit, equality in each general dimension, and a floor for both answers in each."""
_RATED_TESTS = len(DIMENSIONS)
"""A difference of ratings in each dimension, where personal fit is rated."""


class _Alphas(NamedTuple):
    """The chance of being wrong in each test of the claim, and in each test of its contrary."""

    claim: float
    contrary: float


def claimed(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> ClaimResult:
    """Return what the judgments of a plan show; a plan without a claim, or an arm without judgments, is an error."""
    if not plan.claims:
        raise PlanError("only pairs of answers to another user's prompt are claimed to differ in personal fit alone")
    claim = plan.declared.claim
    out = inattentive(plan, judgments, claim.attention)
    told = told_inattentive(out, claim.attention)
    said = [one for one in pair_opinions(plan, judgments) if one.screen.kind == "item" and one.annotator not in out]
    planned = Counter(
        plan.arm[one.annotator] for one in plan.screens if one.kind == "item" and one.annotator not in out
    )
    arms = []
    for arm in sorted(plan.declared.arms):  # narrative comes first
        own = [one for one in said if one.arm == arm]
        if not own:
            why = f", {told}" if out else ""
            raise MetricError(f"arm {arm!r}: no judgment of an item{why}; wanted judgments in every arm of the plan")
        arms.append(_in_arm(arm, own, plan.declared, planned[arm]))
    return ClaimResult(plan.declared, plan.content_hash, tuple(arms), is_rehearsal(judgments), told)


def _in_arm(arm: Arm, said: Sequence[PairOpinion], declared: PlanDeclaration, planned: int) -> ArmResult:
    claim, margin = declared.claim, declared.rating_margin
    tests = _TESTS if margin is None else _TESTS + _RATED_TESTS
    alphas = _Alphas(claim.alpha, claim.alpha / tests)
    weights, why = _weights(said)
    survives, undecided = _survives(said)
    return ArmResult(
        arm=arm,
        declared=declared,
        judgments=len(said),
        planned=planned,
        items=len({one.item.id for one in said}),
        annotators=len({one.annotator for one in said}),
        wins=tuple(_win(said, question) for question in QUESTIONS),
        fits=_fits(said, alphas),
        equal=tuple((name, _equal(said, name, claim.margin, alphas)) for name in GENERAL),
        floors=tuple(
            _floor(said, name, answer, floor=claim.floor, alphas=alphas) for name in GENERAL for answer in ANSWERS
        ),
        ratings=() if margin is None else _ratings(said, margin, alphas),
        weights=weights,
        why_no_weights=why,
        survives=survives,
        undecided=undecided,
    )


# ---------------------------------------------------------------- win rates


class _Rated(NamedTuple):
    """Judgments as values in [0, 1], and how many could not tell."""

    means: Crossed
    judged: int
    left_out: int
    ties: int


def _preferred(one: PairOpinion) -> int:
    return one.item.preferred or 0


def _rated(said: Sequence[PairOpinion], question: Question) -> _Rated:
    sides = [one.toward(_preferred(one), question) for one in said]
    kept = [(one, side) for one, side in zip(said, sides, strict=True) if side is not None]
    if not kept:
        raise MetricError(f"{question}: every answer is 'cannot tell'; wanted judgments")
    values = [(np.sign(side) + 1) / 2 for _, side in kept]
    ties = sum(side == 0 for _, side in kept)
    return _Rated(_crossed(values, [one for one, _ in kept]), len(kept), len(said) - len(kept), ties)


def _crossed(values: Sequence[float], said: Sequence[PairOpinion]) -> Crossed:
    return crossed(values, [one.item.cluster for one in said], [one.annotator for one in said])


def _win(said: Sequence[PairOpinion], question: Question) -> Win:
    rated = _rated(said, question)
    return Win(question, _estimate(rated.means.interval(), rated), rated.ties)


def _estimate(found: Interval, rated: _Rated) -> Estimate:
    return Estimate(found.value, found.low, found.high, rated.judged, rated.left_out, found.method)


def _shown(test: Tested, estimate: Estimate, alphas: _Alphas) -> ClaimTest:
    return ClaimTest(estimate, test.p, test.shown, test.against < alphas.contrary)


def _fits(said: Sequence[PairOpinion], alphas: _Alphas) -> ClaimTest:
    rated = _rated(said, "personal_fit")
    test = above(rated.means, 0.5, alphas.claim)
    return _shown(test, _estimate(test.interval, rated), alphas)


def _equal(said: Sequence[PairOpinion], name: General, margin: float, alphas: _Alphas) -> ClaimTest:
    rated, bounds = _rated(said, name), Bounds(0.5 - margin, 0.5 + margin)
    test = within(rated.means, bounds, alphas.claim)
    return _shown(test, _estimate(test.interval, rated), alphas)


# ---------------------------------------------------------------- ratings


class _Scale(NamedTuple):
    """Ratings, or differences of two, on [0, 1] where the tests are, and back."""

    lowest: float
    span: float

    def unit(self, value: float) -> float:
        return (value - self.lowest) / self.span

    def estimate(self, found: Interval, kept: int, left_out: int) -> Estimate:
        value, low, high = (None if end is None else self.lowest + self.span * end for end in found[:3])
        return Estimate(self.lowest if value is None else value, low, high, kept, left_out, found.method)


_RATING, _DIFFERENCE = _Scale(1, 4), _Scale(-4, 8)


def _given(said: Sequence[PairOpinion], name: Dimension, answer: Answer) -> list[int | None]:
    wanted = [_preferred(one) if answer == "preferred" else 1 - _preferred(one) for one in said]
    return [one.score(candidate, name) for one, candidate in zip(said, wanted, strict=True)]


def _means_of(
    values: Sequence[int | None], said: Sequence[PairOpinion], scale: _Scale, why: str
) -> tuple[Crossed, int]:
    """Return the mean of the values that were given, on [0, 1], and how many there are; none is a MetricError."""
    kept = [(one, value) for one, value in zip(said, values, strict=True) if value is not None]
    if not kept:
        raise MetricError(f"{why}; wanted judgments")
    return _crossed([scale.unit(value) for _, value in kept], [one for one, _ in kept]), len(kept)


def _floor(said: Sequence[PairOpinion], name: General, answer: Answer, *, floor: float, alphas: _Alphas) -> Floor:
    """Return whether the mean rating lies above the floor."""
    why = f"{name}: no one gave the {answer} answer a score"
    means, kept = _means_of(_given(said, name, answer), said, _RATING, why)
    test = above(means, _RATING.unit(floor), alphas.claim)
    return Floor(name, answer, _shown(test, _RATING.estimate(test.interval, kept, len(said) - kept), alphas))


def _ratings(said: Sequence[PairOpinion], margin: float, alphas: _Alphas) -> tuple[RatingDifference, ...]:
    """Return how both answers are rated: higher in personal fit, and equal within the margin in all others?"""
    names: tuple[Dimension, ...] = ("personal_fit", *GENERAL)
    return tuple(_rating(said, name, margin, alphas) for name in names)


def _rating(said: Sequence[PairOpinion], name: Dimension, margin: float, alphas: _Alphas) -> RatingDifference:
    preferred, other = (_given(said, name, answer) for answer in ANSWERS)
    gaps = [None if None in {one, two} else (one or 0) - (two or 0) for one, two in zip(preferred, other, strict=True)]
    means, kept = _means_of(gaps, said, _DIFFERENCE, f"{name}: no one rated both answers of an item")
    if name == "personal_fit":
        test = above(means, _DIFFERENCE.unit(0), alphas.claim)
    else:
        test = within(means, Bounds(_DIFFERENCE.unit(-margin), _DIFFERENCE.unit(margin)), alphas.claim)
    sides = []
    for values in (preferred, other):
        each, rated = _means_of(values, said, _RATING, f"{name}: no ratings")
        sides.append(_RATING.estimate(each.interval(), rated, len(said) - rated))
    difference = _DIFFERENCE.estimate(test.interval, kept, len(said) - kept)
    return RatingDifference(name, sides[0], sides[1], _shown(test, difference, alphas))


# ---------------------------------------------------------------- what decides, what survives


def _weights(said: Sequence[PairOpinion]) -> tuple[tuple[Weight, ...], str]:
    """Return what moves the overall choice of the first answer on the screen, or why nothing can be told."""
    rows = []
    for one in said:
        shown = [one.shown(question) for question in QUESTIONS]
        known = [side for side in shown if side is not None]
        if len(known) == len(shown):
            rows.append((one, known))
    try:
        fit = fit_crossed(
            [(np.sign(sides[0]) + 1) / 2 for _, sides in rows],
            np.array([sides[1:] for _, sides in rows], dtype=np.float64).reshape(-1, len(DIMENSIONS)),
            [one.item.cluster for one, _ in rows],
            [one.annotator for one, _ in rows],
        )
    except MetricError as exc:
        return (), str(exc)
    made = []
    for place, name in enumerate(("side", *DIMENSIONS)):
        value, low, high, method = fit.interval(place)
        estimate = Estimate(value, low, high, len(rows), len(said) - len(rows), method)
        made.append(Weight(name, estimate, fit.p(place)))
    return tuple(made), ""


def _survives(said: Sequence[PairOpinion]) -> tuple[Estimate, int]:
    """Return the share of items whose majority prefers the labelled answer, and the items without a majority."""
    votes: dict[str, list[float]] = {}
    clusters = {one.item.id: one.item.cluster for one in said}
    for one in said:
        side = one.toward(_preferred(one), "overall")
        votes.setdefault(one.item.id, []).extend([] if side is None else [float(np.sign(side))])
    totals = {item: sum(sides) for item, sides in votes.items()}
    values = [float(total > 0) for total in totals.values()]
    found = share_interval(cluster_means(values, [clusters[item] for item in totals]))
    untold = sum(not sides for sides in votes.values())
    estimate = Estimate(found.value, found.low, found.high, len(values), untold, found.method)
    return estimate, sum(total == 0 for total in totals.values())


@dataclass(frozen=True, slots=True)
class FourArmResult:
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
    """How often the paraphrases mean the same; None where no annotator could tell."""
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
class FourResult:
    """What people say of the items of a plan of four answers."""

    benchmark: str
    plan_hash: str
    arms: tuple[FourArmResult, ...]
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


def fours(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> FourResult:
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
        arms.append(_four_in_arm(arm, own))
    return FourResult(plan.declared.benchmark, plan.content_hash, tuple(arms), is_rehearsal(judgments), told)


def _four_in_arm(arm: Arm, said: Sequence[FourOpinion]) -> FourArmResult:
    picks = [(one, one.picked()) for one in said]
    told = [(one, one.answers.same_meaning) for one in said if one.answers.same_meaning in {"yes", "no"}]
    asked = sum(one.answers.same_meaning is not None for one in said)
    score = _four_mean([(one.answers.naturalness - 1) / 4 for one in said], said, 0)
    low, high = (None if end is None else 1 + 4 * end for end in (score.low, score.high))
    return FourArmResult(
        arm=arm,
        items=len({one.item.id for one in said}),
        annotators=len({one.annotator for one in said}),
        # 'Cannot tell' counts as not picking the labelled answer.
        picked=_four_mean([float(pick == one.item.preferred) for one, pick in picks], said, 0),
        only_one=_four_mean([float(one.answers.fitting == "one") for one in said], said, 0),
        none=_four_mean([float(one.answers.fitting == "none") for one in said], said, 0),
        naturalness=Estimate(1 + 4 * score.value, low, high, score.n, 0, score.method),
        same=_four_mean([float(same == "yes") for _, same in told], [one for one, _ in told], asked - len(told))
        if told
        else None,
        survives=_labelled_survives(picks),
    )


def _four_mean(values: Sequence[float], said: Sequence[FourOpinion], left_out: int) -> Estimate:
    means = crossed(values, [one.item.cluster for one in said], [one.annotator for one in said])
    value, low, high, method = means.interval()
    return Estimate(value, low, high, len(values), left_out, method)


def _labelled_survives(picks: Sequence[tuple[FourOpinion, int | None]]) -> Estimate:
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

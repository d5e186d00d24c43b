"""Is personal fit what separates the pair? Win rates and ratings, equivalence in general quality, floors, log odds.

Margins, floor, alpha, and who is left out for inattention come from the plan, where they were stated before anybody
judged. The claim is an "and": every test must hold at alpha, so no correction for their number is needed (Berger 1982).
That it is refuted is an "or", so each contrary is tested at alpha over the number of tests.

Of four answers nothing is claimed beforehand, so nothing is tested: every number has its interval.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, TypeVar

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
from pluralrm.annotate.plan import (
    DIMENSIONS,
    GENERAL,
    AnnotationPlan,
    Arm,
    Dimension,
    General,
    PlanDeclaration,
    PlannedItem,
)
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.core import Estimate
from pluralrm.display import json_fields
from pluralrm.errors import MetricError, PlanError
from pluralrm.stats import Interval, cluster_means, share_interval
from pluralrm.stats.comparisons import Crossed, Tested, above, crossed, within
from pluralrm.stats.intervals import Bounds
from pluralrm.stats.regression import fit_crossed

_TESTS = 1 + len(GENERAL) + 2 * len(GENERAL)
"""Fit, equality in each general dimension, and a floor for both answers in each."""
_RATED_TESTS = len(DIMENSIONS)
"""A difference of ratings in each dimension, where personal fit is rated."""


O = TypeVar("O", PairOpinion, FourOpinion)  # noqa: E741 - the opinions of a task


class _Alphas(NamedTuple):
    """The chance of being wrong in each test of the claim, and in each test of its contrary."""

    claim: float
    contrary: float


def claimed(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> ClaimResult:
    """Return what the judgments of a plan show; a plan without a claim, or an arm without judgments, is an error."""
    if not plan.claims:
        kind = "--mode own" if plan.declared.task == "pair" else "more than two answers"
        raise PlanError(
            f"a claim is about pairs with a labelled answer: found a plan of {kind}. 'pluralrm annotate agreement' "
            "takes any plan; '--to own' of 'annotate export' writes what people prefer themselves"
        )
    out, note = _inattentive(plan, judgments)
    planned = Counter(
        plan.arm[screen.annotator] for screen in plan.screens if screen.kind == "item" and screen.annotator not in out
    )
    arms = tuple(
        _in_arm(arm, own, plan.declared, planned[arm])
        for arm, own in _by_arm(plan, pair_opinions(plan, judgments), out, note)
    )
    return ClaimResult(plan.declared, plan.content_hash, arms, is_rehearsal(judgments), note)


def _inattentive(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> tuple[set[str], str]:
    """Return who is left out, and that in words."""
    least = plan.declared.claim.attention
    out = inattentive(plan, judgments, least)
    return out, told_inattentive(out, least)


def _by_arm(plan: AnnotationPlan, opinions: Sequence[O], out: set[str], note: str) -> Iterator[tuple[Arm, list[O]]]:
    """Yield the opinions of items in each arm; an arm without any is an error."""
    for arm in sorted(plan.declared.arms):  # narrative comes first
        own = [
            opinion
            for opinion in opinions
            if opinion.arm == arm and opinion.screen.kind == "item" and opinion.annotator not in out
        ]
        if not own:
            why = f", {note}" if out else ""
            raise MetricError(f"arm {arm!r}: no judgment of an item{why}; wanted judgments in every arm of the plan")
        yield arm, own


def _in_arm(arm: Arm, opinions: Sequence[PairOpinion], declared: PlanDeclaration, planned: int) -> ArmResult:
    claim, margin = declared.claim, declared.rating_margin
    tests = _TESTS if margin is None else _TESTS + _RATED_TESTS
    alphas = _Alphas(claim.alpha, claim.alpha / tests)
    weights, why = _weights(opinions)
    survives, undecided = _survives(opinions)
    return ArmResult(
        arm=arm,
        declared=declared,
        judgments=len(opinions),
        planned=planned,
        items=len({opinion.item.id for opinion in opinions}),
        annotators=len({opinion.annotator for opinion in opinions}),
        wins=tuple(_win(opinions, question) for question in QUESTIONS),
        fits=_fits(opinions, alphas),
        equal=tuple((name, _equal(opinions, name, claim.margin, alphas)) for name in GENERAL),
        floors=tuple(
            _floor(opinions, name, answer, floor=claim.floor, alphas=alphas) for name in GENERAL for answer in ANSWERS
        ),
        ratings=() if margin is None else _ratings(opinions, margin, alphas),
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


def _preferred(opinion: PairOpinion) -> int:
    if opinion.item.preferred is None:
        raise PlanError(f"item {opinion.item.id!r} of the plan has no preferred answer, so nothing is claimed of it")
    return opinion.item.preferred


def _rated(opinions: Sequence[PairOpinion], question: Question) -> _Rated:
    sides = [opinion.toward(_preferred(opinion), question) for opinion in opinions]
    pairs = [(opinion, side) for opinion, side in zip(opinions, sides, strict=True) if side is not None]
    if not pairs:
        raise MetricError(f"{question}: every answer is 'cannot tell'; wanted judgments")
    values = [(np.sign(side) + 1) / 2 for _, side in pairs]
    ties = sum(side == 0 for _, side in pairs)
    return _Rated(_crossed(values, [opinion for opinion, _ in pairs]), len(pairs), len(opinions) - len(pairs), ties)


def _crossed(values: Sequence[float], opinions: Sequence[PairOpinion] | Sequence[FourOpinion]) -> Crossed:
    return crossed(values, [opinion.item.cluster for opinion in opinions], [opinion.annotator for opinion in opinions])


def _win(opinions: Sequence[PairOpinion], question: Question) -> Win:
    rated = _rated(opinions, question)
    return Win(question, _estimate(rated.means.interval(), rated), rated.ties)


def _estimate(interval: Interval, rated: _Rated) -> Estimate:
    return Estimate(interval.value, interval.low, interval.high, rated.judged, rated.left_out, interval.method)


def _shown(test: Tested, estimate: Estimate, alphas: _Alphas) -> ClaimTest:
    return ClaimTest(estimate, test.p, test.shown, test.against < alphas.contrary)


def _fits(opinions: Sequence[PairOpinion], alphas: _Alphas) -> ClaimTest:
    rated = _rated(opinions, "personal_fit")
    test = above(rated.means, 0.5, alphas.claim)
    return _shown(test, _estimate(test.interval, rated), alphas)


def _equal(opinions: Sequence[PairOpinion], name: General, margin: float, alphas: _Alphas) -> ClaimTest:
    rated, bounds = _rated(opinions, name), Bounds(0.5 - margin, 0.5 + margin)
    test = within(rated.means, bounds, alphas.claim)
    return _shown(test, _estimate(test.interval, rated), alphas)


# ---------------------------------------------------------------- ratings


class _Scale(NamedTuple):
    """Ratings, or differences of two, on [0, 1] where the tests are, and back."""

    lowest: float
    span: float

    def unit(self, value: float) -> float:
        return (value - self.lowest) / self.span

    def estimate(self, interval: Interval, count: int, left_out: int) -> Estimate:
        value, low, high = (None if end is None else self.lowest + self.span * end for end in interval[:3])
        return Estimate(self.lowest if value is None else value, low, high, count, left_out, interval.method)


_RATING, _DIFFERENCE = _Scale(1, 4), _Scale(-4, 8)


def _given(opinions: Sequence[PairOpinion], name: Dimension, answer: Answer) -> list[int | None]:
    candidates = [_preferred(opinion) if answer == "preferred" else 1 - _preferred(opinion) for opinion in opinions]
    return [opinion.score(candidate, name) for opinion, candidate in zip(opinions, candidates, strict=True)]


def _means_of(
    values: Sequence[int | None], opinions: Sequence[PairOpinion], scale: _Scale, why: str
) -> tuple[Crossed, int]:
    """Return the mean of the values that were given, on [0, 1], and how many there are; none is a MetricError."""
    pairs = [(opinion, value) for opinion, value in zip(opinions, values, strict=True) if value is not None]
    if not pairs:
        raise MetricError(f"{why}; wanted judgments")
    return _crossed([scale.unit(value) for _, value in pairs], [opinion for opinion, _ in pairs]), len(pairs)


def _floor(opinions: Sequence[PairOpinion], name: General, answer: Answer, *, floor: float, alphas: _Alphas) -> Floor:
    """Return whether the mean rating lies above the floor."""
    why = f"{name}: no one gave the {answer} answer a score"
    means, count = _means_of(_given(opinions, name, answer), opinions, _RATING, why)
    test = above(means, _RATING.unit(floor), alphas.claim)
    return Floor(name, answer, _shown(test, _RATING.estimate(test.interval, count, len(opinions) - count), alphas))


def _ratings(opinions: Sequence[PairOpinion], margin: float, alphas: _Alphas) -> tuple[RatingDifference, ...]:
    """Return how both answers are rated: higher in personal fit, and equal within the margin in all others?"""
    names: tuple[Dimension, ...] = ("personal_fit", *GENERAL)
    return tuple(_rating(opinions, name, margin, alphas) for name in names)


def _rating(opinions: Sequence[PairOpinion], name: Dimension, margin: float, alphas: _Alphas) -> RatingDifference:
    preferred, other = (_given(opinions, name, answer) for answer in ANSWERS)
    pairs = zip(preferred, other, strict=True)
    gaps = [None if None in pair else (pair[0] or 0) - (pair[1] or 0) for pair in pairs]
    means, count = _means_of(gaps, opinions, _DIFFERENCE, f"{name}: no one rated both answers of an item")
    if name == "personal_fit":
        test = above(means, _DIFFERENCE.unit(0), alphas.claim)
    else:
        test = within(means, Bounds(_DIFFERENCE.unit(-margin), _DIFFERENCE.unit(margin)), alphas.claim)
    sides = []
    for values in (preferred, other):
        each, rated = _means_of(values, opinions, _RATING, f"{name}: no ratings")
        sides.append(_RATING.estimate(each.interval(), rated, len(opinions) - rated))
    difference = _DIFFERENCE.estimate(test.interval, count, len(opinions) - count)
    return RatingDifference(name, sides[0], sides[1], _shown(test, difference, alphas))


# ---------------------------------------------------------------- what decides, what survives


def _weights(opinions: Sequence[PairOpinion]) -> tuple[tuple[Weight, ...], str]:
    """Return what moves the overall choice of the first answer on the screen, or why nothing can be told."""
    rows = []
    for opinion in opinions:
        choices = [opinion.shown(question) for question in QUESTIONS]
        values = [side for side in choices if side is not None]
        if len(values) == len(choices):
            rows.append((opinion, values))
    try:
        fit = fit_crossed(
            [(np.sign(sides[0]) + 1) / 2 for _, sides in rows],
            np.array([sides[1:] for _, sides in rows], dtype=np.float64).reshape(-1, len(DIMENSIONS)),
            [opinion.item.cluster for opinion, _ in rows],
            [opinion.annotator for opinion, _ in rows],
        )
    except MetricError as exc:
        return (), str(exc)
    weights = []
    for index, name in enumerate(("side", *DIMENSIONS)):
        value, low, high, method = fit.interval(index)
        estimate = Estimate(value, low, high, len(rows), len(opinions) - len(rows), method)
        weights.append(Weight(name, estimate, fit.p(index)))
    return tuple(weights), ""


def _survives(opinions: Sequence[PairOpinion]) -> tuple[Estimate, int]:
    """Return the share of items whose majority prefers the labelled answer, and the items without a majority."""
    votes: dict[str, list[float]] = {}
    items = {opinion.item.id: opinion.item for opinion in opinions}
    for opinion in opinions:
        side = opinion.toward(_preferred(opinion), "overall")
        votes.setdefault(opinion.item.id, []).extend([] if side is None else [float(np.sign(side))])
    totals = {item: sum(sides) for item, sides in votes.items()}
    values = [float(total > 0) for total in totals.values()]
    untold = sum(not sides for sides in votes.values())
    return _share_of(values, [items[name] for name in totals], untold), sum(total == 0 for total in totals.values())


def _share_of(values: Sequence[float], items: Sequence[PlannedItem], failed: int) -> Estimate:
    """Return a share of items, with an interval over clusters and prompts."""
    clusters, prompts = [item.cluster for item in items], [item.prompt for item in items]
    interval = share_interval(cluster_means(values, clusters, crossed=prompts))
    return Estimate(interval.value, interval.low, interval.high, len(values), failed, interval.method)


@dataclass(frozen=True, slots=True)
class FourArmResult:
    """What people say of the four answers, and of the prompt, in one arm."""

    arm: Arm
    items: int
    annotators: int
    picked: Estimate
    """How often a labelled answer is picked."""
    only_one_fits: Estimate
    """How often one answer fits, and no other."""
    none_fits: Estimate
    """How often no answer fits."""
    naturalness: Estimate
    """From 1 to 5."""
    paraphrases_same: Estimate | None
    """How often the paraphrases mean the same; None where no annotator could tell."""
    survives: Estimate
    """The share of items of which a labelled answer is picked more often than any other."""
    chance: float
    """How often a labelled answer is picked by chance: 1/4 where each item has one."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return json_fields(self)


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
        fields = json_fields(self, "rehearsal", "left_out", "arms")
        return {"benchmark": self.benchmark, "plan": self.plan_hash, **fields}


def fours(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> FourResult:
    """Return what the judgments of a plan of four answers show; a plan of pairs, or of one's own, is a PlanError."""
    if plan.declared.task != "four" or plan.declared.mode != "validate":
        raise PlanError("wanted a plan of four answers with labels, such as one of pocket-rmgap")
    out, note = _inattentive(plan, judgments)
    arms = tuple(_four_in_arm(arm, own) for arm, own in _by_arm(plan, four_opinions(plan, judgments), out, note))
    return FourResult(plan.declared.benchmark, plan.content_hash, arms, is_rehearsal(judgments), note)


def _four_in_arm(arm: Arm, opinions: Sequence[FourOpinion]) -> FourArmResult:
    picks = [(opinion, opinion.picked()) for opinion in opinions]
    verdicts = [
        (opinion, opinion.answers.same_meaning) for opinion in opinions if opinion.answers.same_meaning in {"yes", "no"}
    ]
    total = sum(opinion.answers.same_meaning is not None for opinion in opinions)
    score = _four_mean([(opinion.answers.naturalness - 1) / 4 for opinion in opinions], opinions, 0)
    low, high = (None if end is None else 1 + 4 * end for end in (score.low, score.high))
    return FourArmResult(
        arm=arm,
        items=len({opinion.item.id for opinion in opinions}),
        annotators=len({opinion.annotator for opinion in opinions}),
        # 'Cannot tell' counts as not picking the labelled answer.
        picked=_four_mean([float(pick in opinion.item.best) for opinion, pick in picks], opinions, 0),
        only_one_fits=_four_mean([float(opinion.answers.fitting == "one") for opinion in opinions], opinions, 0),
        none_fits=_four_mean([float(opinion.answers.fitting == "none") for opinion in opinions], opinions, 0),
        naturalness=Estimate(1 + 4 * score.value, low, high, score.n, 0, score.method),
        paraphrases_same=_four_mean(
            [float(same == "yes") for _, same in verdicts], [opinion for opinion, _ in verdicts], total - len(verdicts)
        )
        if verdicts
        else None,
        survives=_labelled_survives(picks),
        chance=fmean(len(opinion.item.best) / len(opinion.item.candidates) for opinion in opinions),
    )


def _four_mean(values: Sequence[float], opinions: Sequence[FourOpinion], left_out: int) -> Estimate:
    value, low, high, method = _crossed(values, opinions).interval()
    return Estimate(value, low, high, len(values), left_out, method)


def _labelled_survives(picks: Sequence[tuple[FourOpinion, int | None]]) -> Estimate:
    votes: dict[str, Counter[int | None]] = {}
    items = {opinion.item.id: opinion.item for opinion, _ in picks}
    for opinion, pick in picks:
        votes.setdefault(opinion.item.id, Counter())[pick] += 1
    values = []
    for name, counts in votes.items():
        right = max(counts.pop(index, 0) for index in items[name].best)
        counts.pop(None, None)
        values.append(float(right > max(counts.values(), default=0)))
    return _share_of(values, [items[name] for name in votes], 0)

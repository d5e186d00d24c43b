"""Is personal fit what separates the pair? Win rates, equivalence in everything else, floors, and what decides.

Margin, floor, alpha, and who is left out for inattention come from the plan, where they were stated before anybody
judged. The claim is an "and": every test must hold at alpha, so no correction for their number is needed (Berger 1982).
That it is refuted is an "or", so each contrary is tested at alpha over the number of tests.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pluralrm.build.annotate.claim_result import Answer, Claimed, Floor, InArm, Shown, Weight, Win
from pluralrm.build.annotate.design import DIMENSIONS, GENERAL, Arm, Claim, General, Plan
from pluralrm.build.annotate.judgments import Judgment
from pluralrm.build.annotate.opinions import (
    QUESTIONS,
    PairOpinion,
    Question,
    inattentive,
    pair_opinions,
    told_inattentive,
)
from pluralrm.build.annotate.rehearsal import is_rehearsal
from pluralrm.core import Estimate
from pluralrm.errors import MetricError, PlanError
from pluralrm.stats import Interval, cluster_means, share_interval
from pluralrm.stats.crossed_logistic import fit_crossed
from pluralrm.stats.equivalence import Crossed, Tested, above, crossed, within
from pluralrm.stats.intervals import Bounds

_LOWEST, _SPAN = 1, 4
"""Scores are from 1 to 5."""
_TESTS = 1 + len(GENERAL) + 2 * len(GENERAL)
"""Fit, equality in each general dimension, and a floor for both answers in each."""


def claimed(plan: Plan, judgments: Sequence[Judgment]) -> Claimed:
    """Return what the judgments of a plan show; a plan without a claim, or an arm without judgments, is an error."""
    if not plan.claims:
        raise PlanError("only two answers that somebody else asked for are claimed to differ in personal fit alone")
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
        arms.append(_in_arm(arm, own, claim, planned[arm]))
    rehearsal = is_rehearsal(judgments)
    return Claimed(plan.declared.benchmark, plan.content_hash, claim, tuple(arms), rehearsal, told)


def _in_arm(arm: Arm, said: Sequence[PairOpinion], claim: Claim, planned: int) -> InArm:
    weights, why = _weights(said)
    survives, undecided = _survives(said)
    return InArm(
        arm=arm,
        judgments=len(said),
        planned=planned,
        items=len({one.item.id for one in said}),
        annotators=len({one.annotator for one in said}),
        wins=tuple(_win(said, question) for question in QUESTIONS),
        fits=_fits(said, claim),
        equal=tuple((name, _equal(said, name, claim)) for name in GENERAL),
        floors=tuple(_floor(said, name, answer, claim) for name in GENERAL for answer in ("preferred", "other")),
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
        raise MetricError(f"{question}: nobody could tell; wanted judgments")
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


def _shown(test: Tested, estimate: Estimate, claim: Claim) -> Shown:
    return Shown(estimate, test.p, test.shown, test.against < claim.alpha / _TESTS)


def _fits(said: Sequence[PairOpinion], claim: Claim) -> Shown:
    rated = _rated(said, "personal_fit")
    test = above(rated.means, 0.5, claim.alpha)
    return _shown(test, _estimate(test.interval, rated), claim)


def _equal(said: Sequence[PairOpinion], name: General, claim: Claim) -> Shown:
    rated, bounds = _rated(said, name), Bounds(0.5 - claim.margin, 0.5 + claim.margin)
    test = within(rated.means, bounds, claim.alpha)
    return _shown(test, _estimate(test.interval, rated), claim)


def _floor(said: Sequence[PairOpinion], name: General, answer: Answer, claim: Claim) -> Floor:
    """Return whether the mean score lies above the floor; scores are put on [0, 1] for the test and back."""
    wanted = [_preferred(one) if answer == "preferred" else 1 - _preferred(one) for one in said]
    scores = [one.score(candidate, name) for one, candidate in zip(said, wanted, strict=True)]
    kept = [(one, score) for one, score in zip(said, scores, strict=True) if score is not None]
    if not kept:
        raise MetricError(f"{name}: nobody gave the {answer} answer a score; wanted judgments")
    means = _crossed([(score - _LOWEST) / _SPAN for _, score in kept], [one for one, _ in kept])
    bound = (claim.floor - _LOWEST) / _SPAN
    test = above(means, bound, claim.alpha)
    value, low, high, method = test.interval
    low, high = (None if end is None else _LOWEST + _SPAN * end for end in (low, high))
    estimate = Estimate(_LOWEST + _SPAN * value, low, high, len(kept), len(said) - len(kept), method)
    return Floor(name, answer, _shown(test, estimate, claim))


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

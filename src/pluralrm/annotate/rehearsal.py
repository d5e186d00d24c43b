"""Simulated judgments of a plan: what `agreement` and `claim` would print, and what the plan can show.

Each label is typical of its item with chance sqrt(likeness), of its annotator with chance sqrt(lean), and a draw of its
own otherwise, as in the simulations that plan for it. Every line says in the place of a time that it is a rehearsal.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

import numpy as np

from pluralrm.annotate.judgments import (
    Answers,
    Choice,
    FitScores,
    Fitting,
    FourAnswers,
    GeneralScores,
    Judgment,
    PairAnswers,
    Same,
)
from pluralrm.annotate.plan import GENERAL, LETTERS, AnnotationPlan, Claim, PlannedItem, Screen
from pluralrm.core import Estimate
from pluralrm.stats.clusters import BoolArray
from pluralrm.stats.intervals import normal_quantile, wilson
from pluralrm.stats.judgments import Aim, Design, Goal, Labels, interval_ends, reached

REHEARSED = "rehearsal"
"""What stands in `at` of a simulated judgment."""
_FITTING: tuple[Fitting, ...] = ("none", "one", "one", "one", "several")
_SAME: tuple[Same, ...] = ("yes", "yes", "yes", "no")
_CHOICES: dict[int, Choice] = {2: "a", 1: "slightly_a", 0: "equal", -1: "slightly_b", -2: "b"}


@dataclass(frozen=True, slots=True)
class RehearsalWorld:
    """What is true in a rehearsal: how often the labelled answer fits better, and is better in general."""

    fit: float = 0.8
    general: float = 0.5
    ties: float = 0.2
    likeness: float = 0.3
    lean: float = 0.02
    score: float = 4.0
    """The mean general rating of either answer."""


def rehearsed(plan: AnnotationPlan, world: RehearsalWorld, *, seed: int = 0) -> list[Judgment]:
    """Return one judgment of every screen; with the same plan, world and seed the same ones, whatever its key."""
    draws = _Draws(world, seed)
    judgments = []
    for screen in plan.screens:
        answers = _pair(plan, screen, draws) if plan.declared.task == "pair" else _four(plan, screen, draws)
        seconds = 20 + draws.own(screen, "seconds").expovariate(1 / 40)
        judgments.append(Judgment(screen.annotator, screen.handle, 1, answers, round(seconds, 1), REHEARSED))
    return judgments


def is_rehearsal(judgments: Iterable[Judgment]) -> bool:
    """Return whether any of the judgments was drawn: then what they show was never shown."""
    return any(judgment.at == REHEARSED for judgment in judgments)


class _Draws:
    """Lots that depend on what they are for, not on their order."""

    def __init__(self, world: RehearsalWorld, seed: int) -> None:
        self.world, self._seed = world, seed

    def own(self, screen: Screen, what: str) -> random.Random:
        return random.Random(f"{self._seed}:{screen.annotator}:{screen.item}:{screen.kind}:{what}")

    def side(self, screen: Screen, what: str, win: float) -> int:
        """Return from -2 to 2 how far the labelled answer is preferred."""
        own, which = self.own(screen, what), self.own(screen, f"{what}:which").random()
        item, habit = self.world.likeness**0.5, self.world.lean**0.5
        if which < item:
            own = random.Random(f"{self._seed}:{screen.item}:{what}")
        elif which > 1 - habit:
            own = random.Random(f"{self._seed}:{screen.annotator}:{what}")
        first = (1 - self.world.ties) * win
        lot = own.random()
        strength = 1 + (own.random() < 0.5)
        return strength if lot < first else 0 if lot < first + self.world.ties else -strength


def _liked(item: PlannedItem) -> tuple[int, ...]:
    """Return the answers that simulated people like: those of the label, the first where there is none."""
    return item.best or (0,)


def _pair(plan: AnnotationPlan, screen: Screen, draws: _Draws) -> Answers:
    world, labelled = draws.world, screen.order[0] == _liked(plan.item[screen.item])[0]
    rated = plan.declared.rating_margin is not None
    if screen.kind == "check":
        return _same("a" if labelled else "b", rated=rated)
    sides = {name: draws.side(screen, name, world.general) for name in GENERAL}
    fit = draws.side(screen, "fit", world.fit)
    lot = draws.own(screen, "overall").random()
    overall = fit if lot < 0.75 else draws.own(screen, "general").choice([*sides.values()])
    choices = {name: _CHOICES[side if labelled else -side] for name, side in sides.items()}
    toward_a = (fit if labelled else -fit) / 2
    fits = (toward_a, -toward_a) if rated else (None, None)
    return PairAnswers(
        overall=_CHOICES[overall if labelled else -overall],
        factuality=choices["factuality"],
        relevance=choices["relevance"],
        helpfulness=choices["helpfulness"],
        personal_fit=_CHOICES[fit if labelled else -fit],
        scores_a=_scores(draws.own(screen, "a"), world.score, fits[0]),
        scores_b=_scores(draws.own(screen, "b"), world.score, fits[1]),
        decided="personal_fit" if overall == fit else None,
    )


def _same(side: Choice, *, rated: bool) -> PairAnswers:
    high, low = (FitScores(*[score] * 4) if rated else GeneralScores(*[score] * 3) for score in (5, 1))
    first, second = (high, low) if side == "a" else (low, high)
    return PairAnswers(side, side, side, side, side, first, second)


def _scores(lot: random.Random, mean: float, fit: float | None) -> GeneralScores:
    """Return ratings around a mean; that of personal fit lies on the side to which the choice leans, if it is asked."""
    factuality, relevance, helpfulness = (_rating(lot, mean) for _ in GENERAL)
    if fit is None:
        return GeneralScores(factuality, relevance, helpfulness)
    return FitScores(factuality, relevance, helpfulness, _rating(lot, mean - 0.5 + fit))


def _rating(lot: random.Random, mean: float) -> int:
    return min(5, max(1, round(lot.gauss(mean, 0.7))))


def _four(plan: AnnotationPlan, screen: Screen, draws: _Draws) -> Answers:
    item, lot = plan.item[screen.item], draws.own(screen, "best")
    right = [screen.order.index(index) for index in _liked(item)]
    fits = screen.kind == "check" or draws.side(screen, "fit", draws.world.fit) > 0
    others = [index for index in range(len(screen.order)) if index not in right]
    index = lot.choice(others) if others and not fits else right[0] if len(right) == 1 else lot.choice(right)
    return FourAnswers(
        best=LETTERS[index],
        fitting=lot.choice(_FITTING),
        naturalness=_rating(lot, draws.world.score),
        same_meaning=lot.choice(_SAME) if item.paraphrases else None,
    )


STUDIES = 500
"""Simulated for each number that is tried."""
_FINEST = 0.0025
"""Half-widths are found to within a quarter of a point."""
_WIDEST = 0.49


@dataclass(frozen=True, slots=True)
class PlanPower:
    """How narrow intervals will be in most studies, and how often an equivalence that is there is shown."""

    precision: float | None
    """The half-width of a win rate's interval; None where most have none narrower than 49 points."""
    agreement: float | None
    """That of the share of pairs of judgments of one item that are alike; None with one judgment each."""
    equivalence: Estimate
    """For one dimension whose win rate is one half."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {"precision": self.precision, "agreement": self.agreement, "equivalence": self.equivalence.to_json()}


MOST_CLICKERS = 0.2
"""The share of clickers above which `plan` warns: they would be judged as people who read."""


@dataclass(frozen=True, slots=True)
class Screening:
    """What the attention checks of a plan do: `needed` of `checks` must be passed."""

    checks: int
    needed: int
    clickers: float
    """The share of those who choose without reading that pass.

    Of those who always choose an answer, whichever: places are drawn anew on each screen, so that each check is passed
    with chance 1 / answers. Who also presses "equal" or "cannot tell" passes less often.
    """

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {"checks": self.checks, "needed": self.needed, "clickers_pass": self.clickers}


def screening(plan: AnnotationPlan) -> Screening:
    """Return what the attention checks of a plan let pass, exactly (binomial)."""
    checks = sum(item.kind == "check" for item in plan.items)
    answers = len(plan.items[0].candidates)
    # The share is compared as `inattentive` does, so that the two never differ by rounding.
    passing = [right for right in range(checks + 1) if not checks or right / checks >= plan.declared.claim.attention]
    ways = sum(comb(checks, right) * (answers - 1) ** (checks - right) for right in passing)
    return Screening(checks, min(passing), ways / answers**checks)


def foreseen(labels: Labels, design: Design, claim: Claim, *, power: float = 0.8) -> PlanPower:
    """Return what a design shows with this power, where judgments are as `labels` says."""
    return PlanPower(
        _width(labels, design, "precision", claim.alpha, power=power),
        _width(labels, design, "agreement", claim.alpha, power=power) if design.each > 1 else None,
        _share(reached(labels, design, Aim("equivalence", claim.margin, claim.alpha), studies=STUDIES, seed=0)),
    )


def power_of_each(power: float) -> float:
    """Return with which power each general dimension must be shown equal, for all to be with `power` together."""
    return 1 - (1 - power) / len(GENERAL)  # however the three go together (Bonferroni)


def _width(labels: Labels, design: Design, goal: Goal, alpha: float, *, power: float) -> float | None:
    ends = interval_ends(labels, design, Aim(goal, _WIDEST, alpha), studies=STUDIES, seed=0)

    def enough(within: float) -> bool:
        return bool(np.mean([Aim(goal, within, alpha).holds(each) for each in ends]) >= power)

    if not enough(_WIDEST):
        return None
    narrow, wide = 0.0, _WIDEST
    while wide - narrow > _FINEST:
        tried = (narrow + wide) / 2
        narrow, wide = (narrow, tried) if enough(tried) else (tried, wide)
    return wide


def _share(hits: BoolArray) -> Estimate:
    share, count = float(np.mean(hits)), len(hits)
    low, high = wilson(share, count, normal_quantile())
    return Estimate(share, low, high, count, 0, f"share of {count:,} simulated studies, Wilson interval")

"""What a plan's judgments will be able to show, by simulation of the very intervals that `claim` prints."""

from dataclasses import dataclass
from math import comb

import numpy as np

from pluralrm.annotate.plan import GENERAL, AnnotationPlan, Claim
from pluralrm.core import Estimate
from pluralrm.stats.clusters import BoolArray
from pluralrm.stats.intervals import normal_quantile, wilson
from pluralrm.stats.judgments import Aim, Design, Goal, Labels, reached

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


def foreseen(labels: Labels, design: Design, claim: Claim, *, power: float = 0.8, seed: int = 0) -> PlanPower:
    """Return what a design shows with this power, where judgments are as `labels` says."""
    return PlanPower(
        _width(labels, design, "precision", claim.alpha, power=power, seed=seed),
        _width(labels, design, "agreement", claim.alpha, power=power, seed=seed) if design.each > 1 else None,
        _share(_reached(labels, design, Aim("equivalence", claim.margin, claim.alpha), seed)),
    )


def power_of_each(power: float) -> float:
    """Return with which power each general dimension must be shown equal, for all to be with `power` together."""
    return 1 - (1 - power) / len(GENERAL)  # however the three go together (Bonferroni)


def _width(labels: Labels, design: Design, goal: Goal, alpha: float, *, power: float, seed: int) -> float | None:
    narrow, wide = 0.0, _WIDEST
    if _reached(labels, design, Aim(goal, wide, alpha), seed).mean() < power:
        return None
    while wide - narrow > _FINEST:
        tried = (narrow + wide) / 2
        enough = _reached(labels, design, Aim(goal, tried, alpha), seed).mean() >= power
        narrow, wide = (narrow, tried) if enough else (tried, wide)
    return wide


def _reached(labels: Labels, design: Design, aim: Aim, seed: int) -> BoolArray:
    return reached(labels, design, aim, studies=STUDIES, seed=seed)


def _share(hits: BoolArray) -> Estimate:
    share, count = float(np.mean(hits)), len(hits)
    low, high = wilson(share, count, normal_quantile())
    return Estimate(share, low, high, count, 0, f"share of {count:,} simulated studies, Wilson interval")

"""What the judgments of a plan show of its claim, arm by arm: numbers, tests, and in words what is not shown."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pluralrm.build.annotate.design import Arm, Claim, General
from pluralrm.build.annotate.opinions import Question
from pluralrm.core import Estimate
from pluralrm.stats.crossed_logistic import RIDGE

Answer = Literal["preferred", "other"]
POLICIES = (
    "ties count half in a win rate",
    "slight preferences count as preferences",
    "cannot tell is left out",
    "attention checks, examples and repeats are left out",
)


@dataclass(frozen=True, slots=True)
class Win:
    """How often the labelled answer is preferred in one question."""

    question: Question
    rate: Estimate
    ties: int


@dataclass(frozen=True, slots=True)
class Shown:
    """One test: what was estimated (its interval is at 1 - 2 alpha), the p-value, and whether it is shown."""

    estimate: Estimate
    p: float
    shown: bool
    contrary: bool
    """Whether the contrary is shown instead, at alpha over the number of the claim's tests."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {**self.estimate.to_json(), "p": self.p, "shown": self.shown, "contrary": self.contrary}


class Floor(NamedTuple):
    """Whether one answer's mean score in one dimension is above the floor."""

    dimension: General
    answer: Answer
    test: Shown


class Weight(NamedTuple):
    """How much one step of a dimension moves the log odds of the overall choice; `side` is what standing first does."""

    name: str
    log_odds: Estimate
    p: float


@dataclass(frozen=True, slots=True)
class InArm:
    """Everything that one arm shows."""

    arm: Arm
    judgments: int
    planned: int
    """Judgments that the plan has, those of annotators who are left out aside."""
    items: int
    annotators: int
    wins: tuple[Win, ...]
    fits: Shown
    """Whether the labelled answer fits the person better."""
    equal: tuple[tuple[General, Shown], ...]
    floors: tuple[Floor, ...]
    weights: tuple[Weight, ...]
    why_no_weights: str
    survives: Estimate
    """The share of items whose majority prefers the labelled answer overall."""
    undecided: int
    """Items without a majority: their labels do not survive."""

    @property
    def final(self) -> bool:
        """Whether all that was planned is judged: who looks again and again until the claim is shown shows too much."""
        return self.judgments >= self.planned

    @property
    def ridge(self) -> bool:
        """Whether the dimensions all but decide the overall choice, so that log odds have no finite estimate."""
        return any(RIDGE in one.log_odds.method for one in self.weights)

    @property
    def holds(self) -> bool:
        """Whether all of the claim is shown."""
        return not self.open

    @property
    def open(self) -> list[str]:
        """Return in words what is not shown."""
        told = [] if self.fits.shown else ["the labelled answer fits better"]
        told += [f"{name} is equal" for name, test in self.equal if not test.shown]
        low = {floor.answer for floor in self.floors if not floor.test.shown}
        return told + [f"the {answer} answer is above the floor" for answer in ("preferred", "other") if answer in low]

    @property
    def contrary(self) -> list[str]:
        """Return in words what is shown to be otherwise."""
        told = ["the other answer fits better"] * self.fits.contrary
        told += [f"{name} differs by more than the margin" for name, test in self.equal if test.contrary]
        low = {floor.answer for floor in self.floors if floor.test.contrary}
        return told + [f"the {answer} answer is below the floor" for answer in ("preferred", "other") if answer in low]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "arm": self.arm,
            "holds": self.holds,
            "not_shown": self.open,
            "contrary": self.contrary,
            "judgments": self.judgments,
            "planned": self.planned,
            "items": self.items,
            "annotators": self.annotators,
            "win_rates": {win.question: {**win.rate.to_json(), "ties": win.ties} for win in self.wins},
            "fits": self.fits.to_json(),
            "equivalence": {name: test.to_json() for name, test in self.equal},
            "floors": [
                {"dimension": floor.dimension, "answer": floor.answer, **floor.test.to_json()} for floor in self.floors
            ],
            "log_odds": {one.name: {**one.log_odds.to_json(), "p": one.p} for one in self.weights},
            "log_odds_why_none": self.why_no_weights,
            "survives": self.survives.to_json(),
            "undecided": self.undecided,
        }


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim of a plan, tested in each arm."""

    benchmark: str
    plan_hash: str
    claim: Claim
    arms: tuple[InArm, ...]
    rehearsal: bool
    left_out: str = ""
    """Which annotators are left out, and why."""

    @property
    def policies(self) -> list[str]:
        """Return in words what was done to the judgments."""
        return [*POLICIES, *([self.left_out] if self.left_out else [])]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "benchmark": self.benchmark,
            "plan": self.plan_hash,
            "rehearsal": self.rehearsal,
            "claim": self.claim._asdict(),
            "policies": self.policies,
            "arms": [arm.to_json() for arm in self.arms],
        }

    @property
    def first(self) -> InArm:
        """The arm that the claim is about: what the asker has in mind is shown, where there is such an arm."""
        return self.arms[0]

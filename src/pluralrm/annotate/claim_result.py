"""What the judgments of a plan show of its claim, arm by arm: numbers, tests, and in words what is not shown."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from pluralrm.annotate.design import Arm, Claim, Declared, Dimension, General
from pluralrm.annotate.opinions import Question
from pluralrm.core import Estimate
from pluralrm.stats.crossed_logistic import RIDGE

Answer = Literal["preferred", "other"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
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


class Stated(NamedTuple):
    """One test of the claim in words: what it is to show, and what its contrary is."""

    name: str
    """In a table, with its bound."""
    unit: str
    claim: str
    contrary: str
    test: Shown


class Floor(NamedTuple):
    """Whether one answer's mean score in one dimension is above the floor."""

    dimension: General
    answer: Answer
    test: Shown

    def stated(self, floor: float) -> Stated:
        """Return the test in words."""
        answer = {"preferred": "labelled", "other": "other"}[self.answer]
        words = f"the {answer} answer's mean rating of {self.dimension} is"
        name = f"{self.dimension}, {answer}: mean above {floor:g}"
        return Stated(name, "1 to 5", f"{words} above {floor:g}", f"{words} below {floor:g}", self.test)


@dataclass(frozen=True, slots=True)
class Rating:
    """How both answers are rated from 1 to 5 in one dimension, and the test of the difference, labelled minus other."""

    dimension: Dimension
    preferred: Estimate
    other: Estimate
    difference: Shown

    def stated(self, margin: str) -> Stated:
        """Return the test in words."""
        if self.dimension == "personal_fit":
            words = "the labelled answer's mean rating of personal fit is"
            name = "personal fit: rating higher"
            claim, contrary = f"{words} higher than the other's", f"{words} lower than the other's"
        else:
            words = f"the mean ratings of {self.dimension} differ by"
            name = f"{self.dimension}: ratings within ± {margin}"
            claim, contrary = f"{words} less than {margin} points", f"{words} more than {margin} points"
        return Stated(name, "points", claim, contrary, self.difference)

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "dimension": self.dimension,
            "preferred": self.preferred.to_json(),
            "other": self.other.to_json(),
            "difference": self.difference.to_json(),
        }


class Weight(NamedTuple):
    """How much one step of a dimension moves the log odds of the overall choice; `side` is what standing first does."""

    name: str
    log_odds: Estimate
    p: float


@dataclass(frozen=True, slots=True)
class InArm:
    """Everything that one arm shows."""

    arm: Arm
    declared: Declared
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
    ratings: tuple[Rating, ...]
    """Personal fit first; none where the plan does not ask how well each answer fits."""
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
        """Whether every test of the claim shows what it was to show."""
        return not self.open

    @property
    def open(self) -> list[str]:
        """Return in words what is not shown."""
        return [stated.claim for stated in self.tests if not stated.test.shown]

    @property
    def contrary(self) -> list[str]:
        """Return in words what is shown to be otherwise."""
        return [stated.contrary for stated in self.tests if stated.test.contrary]

    @property
    def tests(self) -> list[Stated]:
        """All tests of the claim, each with the bound that the plan states."""
        claim = self.declared.claim
        fits = Stated(
            "personal fit: win rate above 50",
            "% won",
            "the labelled answer's win rate in personal fit is above 50%",
            "the labelled answer's win rate in personal fit is below 50%",
            self.fits,
        )
        margin = f"50 ± {100 * claim.margin:.3g}"
        equal = [
            Stated(
                f"{name}: win rate {margin}",
                "% won",
                f"the win rate in {name} is within {margin}%",
                f"the win rate in {name} is outside {margin}%",
                test,
            )
            for name, test in self.equal
        ]
        return [fits, *equal, *(floor.stated(claim.floor) for floor in self.floors), *self._ratings()]

    def _ratings(self) -> list[Stated]:
        margin = f"{self.declared.rating_margin:g}" if self.declared.rating_margin is not None else ""
        return [rating.stated(margin) for rating in self.ratings]

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
            "ratings": [rating.to_json() for rating in self.ratings],
            "log_odds": {one.name: {**one.log_odds.to_json(), "p": one.p} for one in self.weights},
            "log_odds_why_none": self.why_no_weights,
            "survives": self.survives.to_json(),
            "undecided": self.undecided,
        }


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim of a plan, tested in each arm."""

    declared: Declared
    plan_hash: str
    arms: tuple[InArm, ...]
    rehearsal: bool
    left_out: str = ""
    """Which annotators are left out, and why."""

    @property
    def benchmark(self) -> str:
        """The name of the benchmark that was judged."""
        return self.declared.benchmark

    @property
    def claim(self) -> Claim:
        """What was stated before anybody judged."""
        return self.declared.claim

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
            "rating_margin": self.declared.rating_margin,
            "policies": self.policies,
            "arms": [arm.to_json() for arm in self.arms],
        }

    @property
    def first(self) -> InArm:
        """The arm that the claim is about: what the asker has in mind is shown, where there is such an arm."""
        return self.arms[0]

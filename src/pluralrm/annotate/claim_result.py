"""What the judgments of a plan show of its claim, arm by arm: numbers, tests, and both in words.

Terminal and page say it in the same words.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from pluralrm.annotate.judgments import Question
from pluralrm.annotate.plan import GENERAL, Arm, Claim, Dimension, General, PlanDeclaration
from pluralrm.core import Estimate
from pluralrm.display import json_fields
from pluralrm.stats.regression import RIDGE
from pluralrm.text import counted, estimated, listed

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
class ClaimTest:
    """One test: what was estimated (its interval is at 1 - 2 alpha), the p-value, and whether it is shown."""

    estimate: Estimate
    p: float
    shown: bool
    contrary: bool
    """Whether the contrary is shown instead, at alpha over the number of the claim's tests."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {**self.estimate.to_json(), "p": self.p, "shown": self.shown, "contrary": self.contrary}


class TestStatement(NamedTuple):
    """One test of the claim in words: what it is to show, and what its contrary is."""

    name: str
    """In a table, with its bound."""
    unit: str
    claim: str
    contrary: str
    test: ClaimTest


class Floor(NamedTuple):
    """Whether one answer's mean score in one dimension is above the floor."""

    dimension: General
    answer: Answer
    test: ClaimTest

    def stated(self, floor: float) -> TestStatement:
        """Return the test in words."""
        answer = {"preferred": "labelled", "other": "other"}[self.answer]
        words = f"the {answer} answer's mean rating of {self.dimension} is"
        name = f"{self.dimension}, {answer}: mean above {floor:g}"
        return TestStatement(name, "1 to 5", f"{words} above {floor:g}", f"{words} below {floor:g}", self.test)


@dataclass(frozen=True, slots=True)
class RatingDifference:
    """How both answers are rated from 1 to 5 in one dimension, and the test of the difference, labelled minus other."""

    dimension: Dimension
    preferred: Estimate
    other: Estimate
    difference: ClaimTest

    def stated(self, margin: str) -> TestStatement:
        """Return the test in words."""
        if self.dimension == "personal_fit":
            words = "the labelled answer's mean rating of personal fit is"
            name = "personal fit: rating higher"
            claim, contrary = f"{words} higher than the other's", f"{words} lower than the other's"
        else:
            words = f"the mean ratings of {self.dimension} differ by"
            name = f"{self.dimension}: ratings within ± {margin}"
            claim, contrary = f"{words} less than {margin} points", f"{words} more than {margin} points"
        return TestStatement(name, "points", claim, contrary, self.difference)

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return json_fields(self, "dimension", "preferred", "other", "difference")


class Weight(NamedTuple):
    """How much one step of a dimension moves the log odds of the overall choice; `side` is what standing first does."""

    name: str
    log_odds: Estimate
    p: float


@dataclass(frozen=True, slots=True)
class ArmResult:
    """Everything that one arm shows."""

    arm: Arm
    declared: PlanDeclaration
    judgments: int
    planned: int
    """Judgments that the plan has, those of annotators who are left out aside."""
    items: int
    annotators: int
    wins: tuple[Win, ...]
    fits: ClaimTest
    """Whether the labelled answer fits the person better."""
    equal: tuple[tuple[General, ClaimTest], ...]
    floors: tuple[Floor, ...]
    ratings: tuple[RatingDifference, ...]
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
        return any(RIDGE in weight.log_odds.method for weight in self.weights)

    @property
    def holds(self) -> bool:
        """Whether every test of the claim shows what it was to show."""
        return not self.open

    @property
    def open(self) -> list[str]:
        """Return in words what stays open."""
        return [stated.claim for stated in self.tests if not stated.test.shown]

    @property
    def contrary(self) -> list[str]:
        """Return in words what is shown to be otherwise."""
        return [stated.contrary for stated in self.tests if stated.test.contrary]

    @property
    def tests(self) -> list[TestStatement]:
        """All tests of the claim, each with the bound that the plan states."""
        claim = self.declared.claim
        fits = TestStatement(
            "personal fit: win rate above 50",
            "% won",
            "the labelled answer's win rate in personal fit is above 50%",
            "the labelled answer's win rate in personal fit is below 50%",
            self.fits,
        )
        margin = f"50 ± {100 * claim.margin:.3g}"
        equal = [
            TestStatement(
                f"{name}: win rate {margin}",
                "% won",
                f"the win rate in {name} is within {margin}%",
                f"the win rate in {name} is outside {margin}%",
                test,
            )
            for name, test in self.equal
        ]
        return [fits, *equal, *(floor.stated(claim.floor) for floor in self.floors), *self._ratings()]

    def _ratings(self) -> list[TestStatement]:
        margin = f"{self.declared.rating_margin:g}" if self.declared.rating_margin is not None else ""
        return [rating.stated(margin) for rating in self.ratings]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            **json_fields(self, "arm", "holds"),
            "not_shown": self.open,
            **json_fields(self, "contrary", "judgments", "planned", "items", "annotators"),
            "win_rates": {win.question: {**win.rate.to_json(), "ties": win.ties} for win in self.wins},
            "fits": self.fits.to_json(),
            "equivalence": {name: test.to_json() for name, test in self.equal},
            "floors": [
                {"dimension": floor.dimension, "answer": floor.answer, **floor.test.to_json()} for floor in self.floors
            ],
            "ratings": [rating.to_json() for rating in self.ratings],
            "log_odds": {weight.name: {**weight.log_odds.to_json(), "p": weight.p} for weight in self.weights},
            "log_odds_why_none": self.why_no_weights,
            **json_fields(self, "survives", "undecided"),
        }


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The claim of a plan, tested in each arm."""

    declared: PlanDeclaration
    plan_hash: str
    arms: tuple[ArmResult, ...]
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
            **json_fields(self, "rehearsal", "claim"),
            "rating_margin": self.declared.rating_margin,
            **json_fields(self, "policies", "arms"),
        }

    @property
    def first(self) -> ArmResult:
        """The arm that the claim is about: what the asker has in mind is shown, where there is such an arm."""
        return self.arms[0]


SEEN: dict[Arm, str] = {
    "narrative": "posts and what the person has in mind are shown: is the label right?",
    "posts": "posts alone are shown: can the label be inferred?",
    "prompt": "the prompt alone is shown",
}


def verdict(result: ClaimResult) -> str:
    """Return in a sentence whether the claim is shown, by the arm that it is about."""
    arm = result.first
    if arm.final:
        return _verdict(arm)
    return (
        f"Not final: {arm.judgments:,} of {arm.planned:,} planned judgments are in. Who stops once the claim is shown "
        f"shows it too often. So far: {_verdict(arm)}"
    )


def _verdict(arm: ArmResult) -> str:
    if arm.holds:
        return f"Shown ({arm.arm}): {_claim(arm)}."
    if arm.contrary:
        return f"Refuted ({arm.arm}): {listed(arm.contrary, 99)}."
    return f"Not established ({arm.arm}). Open: {listed(arm.open, 99)}."


def _claim(arm: ArmResult) -> str:
    """Return what is claimed, all tests together: no more than they test."""
    claim, margin = arm.declared.claim, arm.declared.rating_margin
    fits = "the labelled answer is preferred in personal fit (win rate above 50%)"
    fits += "" if margin is None else " and rated to fit better"
    three = f"in {listed(GENERAL, 99)} its win rates are within 50 ± {100 * claim.margin:.3g}% and the mean ratings of "
    both = f"both answers above {claim.floor:g}"
    return f"{fits}; {three}{both}" + ("" if margin is None else f", less than {margin:g} points apart")


ABOUT = (
    "About other items and annotators of the kind that was sampled, and about these four dimensions: whether the "
    "answers differ in anything else was not tested."
)


def counts(arm: ArmResult) -> str:
    """Return in a sentence how much was judged, and of how much where that is not all."""
    of = "" if arm.final else f" of {arm.planned:,} planned"
    people = counted(arm.annotators, "annotator")
    return f"{arm.judgments:,}{of} judgments of {arm.items:,} items by {people}."


def untold(arm: ArmResult) -> str:
    """Return in a sentence how many items no annotator could tell, which no test covers; blank where there are none."""
    missing = [(stated.name, stated.test.estimate) for stated in arm.tests if stated.test.estimate.failed]
    texts = [f"{name} ({estimate.failed:,} of {estimate.n + estimate.failed:,})" for name, estimate in missing]
    return f"Cannot tell, and so not in these tests: {listed(texts, 99)}." if texts else ""


def held_down(arm: ArmResult) -> str:
    """Return in a sentence that log odds have no finite estimate; blank where they have one."""
    if not arm.ridge:
        return ""
    return (
        "The dimensions all but decide the choice: these log odds have no finite estimate and are held down by a "
        "ridge. Their order is known, their size is not."
    )


def stated(declared: PlanDeclaration) -> str:
    """Return in a sentence what was stated before anybody judged."""
    claim, margin = declared.claim, declared.rating_margin
    rated = "" if margin is None else f", mean ratings less than {margin:g} points apart"
    return (
        f"Stated in the plan: equal is a win rate within ±{100 * claim.margin:.3g} points of 50{rated}; both answers' "
        f"mean ratings above {claim.floor:g}; alpha {claim.alpha:g}{_attention(claim)}."
    )


def _attention(claim: Claim) -> str:
    return f"; who passes less than {claim.attention:.0%} of attention checks is left out" if claim.attention else ""


def survival(arm: ArmResult) -> str:
    """Return in a sentence how many labels survive."""
    undecided = f"; {arm.undecided:,} without a majority count as not" if arm.undecided else ""
    items = f"{arm.survives.n:,} items"
    return f"The majority prefers the labelled answer overall on {estimated(arm.survives)}% of {items}{undecided}."


def ceiling(arm: ArmResult) -> str:
    """Return in a sentence how often judgments prefer the labelled answer: for posts alone, the human ceiling."""
    rate = arm.wins[0].rate
    name = "; annotators saw the posts that a model may see, and no more" if arm.arm == "posts" else ""
    return f"The labelled answer's overall win rate is {estimated(rate)}%, ties counting half{name}."


def measured(statement: TestStatement) -> str:
    """Return what was estimated, in the unit of the test."""
    return (
        estimated(statement.test.estimate)
        if statement.unit == "% won"
        else estimated(statement.test.estimate, times=1, places=2)
    )


def state(test: ClaimTest) -> str:
    """Return shown, refuted or open."""
    return "shown" if test.shown else "refuted" if test.contrary else "open"


def named(word: str) -> str:
    """Return a dimension as people say it."""
    return {"personal_fit": "personal fit", "side": "stands first"}.get(word, word)

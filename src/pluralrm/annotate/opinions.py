"""Judgments read by the plan: which candidate was meant, on which item, in which arm."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pluralrm.annotate.design import DIMENSIONS, Arm, Dimension, Plan, PlannedItem, Screen
from pluralrm.annotate.judgments import Answers, Choice, FitScores, FourAnswers, Judgment, PairAnswers, standing
from pluralrm.annotate.progress import progress

Question = Literal["overall"] | Dimension
QUESTIONS: tuple[Question, ...] = ("overall", *DIMENSIONS)
_SIDE: Mapping[Choice, int | None] = {
    "a": 2,
    "slightly_a": 1,
    "equal": 0,
    "slightly_b": -1,
    "b": -2,
    "cannot_tell": None,
}


@dataclass(frozen=True, slots=True)
class PairOpinion:
    """What one annotator finally said on one screen of two answers."""

    annotator: str
    arm: Arm
    screen: Screen
    item: PlannedItem
    answers: PairAnswers

    def shown(self, question: Question) -> int | None:
        """Return from -2 (B) to 2 (A) what was chosen, as it stood on the screen; None where nobody can tell."""
        said = self.answers
        choices: Mapping[Question, Choice] = {
            "overall": said.overall,
            "factuality": said.factuality,
            "relevance": said.relevance,
            "helpfulness": said.helpfulness,
            "personal_fit": said.personal_fit,
        }
        return _SIDE[choices[question]]

    def toward(self, candidate: int, question: Question) -> int | None:
        """Return from -2 to 2 how far an answer is preferred to the other one; None where nobody can tell."""
        side = self.shown(question)
        return side if side is None or self.screen.order[0] == candidate else -side

    def score(self, candidate: int, dimension: Dimension) -> int | None:
        """Return the score of 1 to 5 that an answer was given by itself; None where nobody can tell."""
        scores = self.answers.scores_a if self.screen.order[0] == candidate else self.answers.scores_b
        found: Mapping[Dimension, int | None] = {
            "factuality": scores.factuality,
            "relevance": scores.relevance,
            "helpfulness": scores.helpfulness,
            "personal_fit": scores.personal_fit if isinstance(scores, FitScores) else None,
        }
        return found[dimension]


@dataclass(frozen=True, slots=True)
class FourOpinion:
    """What one annotator finally said on one screen of four answers."""

    annotator: str
    arm: Arm
    screen: Screen
    item: PlannedItem
    answers: FourAnswers

    def picked(self) -> int | None:
        """Return which answer fits best; None where nobody can tell."""
        best = self.answers.best
        return None if best == "cannot_tell" else self.screen.order["ABCD".index(best)]


def pair_opinions(plan: Plan, judgments: Iterable[Judgment]) -> list[PairOpinion]:
    """Return what stands of the judgments of two answers; examples, which are for learning, are left out."""
    return [
        PairOpinion(screen.annotator, plan.arm[screen.annotator], screen, plan.item[screen.item], answers)
        for screen, answers in _standing(plan, judgments)
        if isinstance(answers, PairAnswers)
    ]


def four_opinions(plan: Plan, judgments: Iterable[Judgment]) -> list[FourOpinion]:
    """Return what stands of the judgments of four answers; examples are left out."""
    return [
        FourOpinion(screen.annotator, plan.arm[screen.annotator], screen, plan.item[screen.item], answers)
        for screen, answers in _standing(plan, judgments)
        if isinstance(answers, FourAnswers)
    ]


def _standing(plan: Plan, judgments: Iterable[Judgment]) -> Iterator[tuple[Screen, Answers]]:
    for one in standing(judgments):
        screen = plan.screen[one.handle]
        if one.answers is not None and screen.kind != "example":
            yield screen, one.answers


def inattentive(plan: Plan, judgments: Iterable[Judgment], least: float) -> set[str]:
    """Return who has met attention checks and passed less than this share of them."""
    paces = progress(plan, list(judgments))
    # A share, not least * checks: 0.55 * 20 is more than 11.
    return {one.id for one in paces if one.checks and one.checks_right / one.checks < least}


def told_inattentive(out: Iterable[str], least: float) -> str:
    """Return in words who is left out; blank where attention checks leave nobody out."""
    if not least:
        return ""
    return f"left out for passing less than {least:.0%} of attention checks: {', '.join(sorted(out)) or 'nobody'}"

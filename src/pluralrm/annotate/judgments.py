"""Judgments: what an annotator answered on one screen. Appended, never changed; what stands is the last revision.

An opinion is a judgment read by the plan: which candidate was meant, on which item, in which arm.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from pluralrm.annotate.plan import (
    DIMENSIONS,
    LETTERS,
    AnnotationPlan,
    Arm,
    Dimension,
    Letter,
    PlanDeclaration,
    PlannedItem,
    Screen,
    read_plan,
)
from pluralrm.annotate.store import FILE, Submission, read_submissions
from pluralrm.benchmarks.rows import Place, read_rows, shortened
from pluralrm.errors import PlanError
from pluralrm.journal import field_error

Choice = Literal["a", "slightly_a", "equal", "slightly_b", "b", "cannot_tell"]
"""Which of two answers is better, as they stood on the screen."""
CHOICES: tuple[Choice, ...] = get_args(Choice)
Best = Letter | Literal["cannot_tell"]
Fitting = Literal["none", "one", "several"]
Same = Literal["yes", "no", "cannot_tell"]

LONGEST_COMMENT = 5_000
"""Characters of a comment."""

_STRICT = ConfigDict(extra="forbid", strict=True)
_Rating = Annotated[int, Field(ge=1, le=5)]
_Comment = Annotated[str, Field(max_length=LONGEST_COMMENT)]


@checked_dataclass(frozen=True, slots=True, config=_STRICT)
class GeneralScores:
    """How good one answer is by itself, from 1 to 5; None where the annotator cannot tell."""

    factuality: _Rating | None
    relevance: _Rating | None
    helpfulness: _Rating | None


@checked_dataclass(frozen=True, slots=True, config=_STRICT)
class FitScores(GeneralScores):
    """How good one answer is by itself, and how well it fits the asker; None where the annotator cannot tell."""

    personal_fit: _Rating | None


def _kind_of_scores(value: object) -> str:
    fit = "personal_fit" in value if isinstance(value, Mapping) else isinstance(value, FitScores)
    return "fit" if fit else "general"


_Scores = Annotated[
    Annotated[FitScores, Tag("fit")] | Annotated[GeneralScores, Tag("general")], Discriminator(_kind_of_scores)
]
"""Plans that were made before personal fit was rated ask for general quality alone."""


@checked_dataclass(frozen=True, slots=True, config=_STRICT)
class PairAnswers:
    """Everything that is asked of two answers; `decided` is the dimension that decided, where one did."""

    overall: Choice
    factuality: Choice
    relevance: Choice
    helpfulness: Choice
    personal_fit: Choice
    scores_a: _Scores
    scores_b: _Scores
    decided: Dimension | None = None
    comment: _Comment = ""
    task: Literal["pair"] = "pair"

    @property
    def rates_fit(self) -> bool:
        """Whether both answers' personal fit was asked for, as plans now do."""
        return isinstance(self.scores_a, FitScores) and isinstance(self.scores_b, FitScores)


@checked_dataclass(frozen=True, slots=True, config=_STRICT)
class FourAnswers:
    """Everything that is asked of four answers; `same_meaning` is None where no paraphrases were shown."""

    best: Best
    fitting: Fitting
    naturalness: _Rating
    same_meaning: Same | None
    comment: _Comment = ""
    task: Literal["four"] = "four"


Answers = PairAnswers | FourAnswers


@dataclass(frozen=True, slots=True)
class Judgment:
    """One revision of one annotator's answers on one screen; without answers it was taken back (undo)."""

    annotator: str
    handle: str
    revision: int
    """From 1; a later one stands in the place of the earlier."""
    answers: Answers | None
    seconds: float
    """How long the screen was looked at."""
    at: str
    """When it was kept: ISO 8601, UTC."""


_KINDS = frozenset({"pair", "four", "PairAnswers", "FourAnswers", "fit", "general"})
"""Steps of a place in answers that are names of ours, not of a field."""
_ANSWERS: TypeAdapter[Answers | None] = TypeAdapter(
    Annotated[PairAnswers | FourAnswers, Field(discriminator="task")] | None
)


def answers_of(text: str) -> Answers | None:
    """Return answers from their JSON (`null` is an undo); a ValueError says in words what does not fit."""
    try:
        return _ANSWERS.validate_json(text)
    except ValidationError as exc:
        raise ValueError(str(field_error(exc, "answers", tags=_KINDS))) from exc


def answers_text(answers: Answers | None) -> str:
    """Return answers as JSON in one canonical spelling."""
    return json.dumps(answers and asdict(answers), ensure_ascii=False, separators=(",", ":"))


def standing(judgments: Iterable[Judgment]) -> list[Judgment]:
    """Return the last revision of each screen, those that were taken back left out, in the order of their screens."""
    last: dict[tuple[str, str], Judgment] = {}
    for judgment in judgments:
        key = judgment.annotator, judgment.handle
        if key not in last or last[key].revision < judgment.revision:
            last[key] = judgment
    return [last[key] for key in sorted(last) if last[key].answers is not None]


def judgment_of(submission: Submission) -> Judgment:
    """Return what the server kept as a Judgment; answers that do not fit are a ValueError."""
    return Judgment(
        submission.annotator,
        submission.item,
        submission.revision,
        answers_of(submission.answers),
        submission.seconds,
        submission.at,
    )


def judgment_line(judgment: Judgment) -> str:
    """Return the line of a judgment in `judgments.jsonl`."""
    return json.dumps(asdict(judgment), ensure_ascii=False, separators=(",", ":"))


def read_judgments(plan: AnnotationPlan, path: Path) -> list[Judgment]:
    """Return every revision in a plan's folder (what the server kept) or in a file of judgments, checked by the plan.

    A judgment of a screen that the plan has not, or of somebody else's, is a PlanError; so are two first (or second)
    revisions of one screen.
    """
    judgments = _kept(plan, path) if path.is_dir() else list(_lines(path))
    seen: dict[tuple[str, int], Judgment] = {}
    for judgment in judgments:
        try:
            check_judgment(plan, judgment)
        except PlanError as exc:
            raise PlanError(f"{path}: {exc}") from exc
        if seen.setdefault((judgment.handle, judgment.revision), judgment) != judgment:
            raise PlanError(
                f"{path}: two different judgments of {judgment.handle!r} with the revision {judgment.revision}: "
                "only one can stand. Are these two files in one?"
            )
    return judgments


def judged_plan(path: Path, judgments: Path | None = None) -> tuple[AnnotationPlan, list[Judgment]]:
    """Return a plan and its judgments; none at all are a PlanError."""
    plan = read_plan(path)
    every = read_judgments(plan, judgments or path)
    if not every:
        raise PlanError(f"{path}: no judgments yet; see 'pluralrm annotate serve', or --judgments FILE")
    return plan, every


def check_judgment(plan: AnnotationPlan, judgment: Judgment) -> None:
    """Raise unless the judgment answers what the plan asks of this annotator."""
    screen = plan.screen.get(judgment.handle)
    if screen is None or screen.annotator != judgment.annotator:
        whose = f"one of {screen.annotator!r}" if screen else "no screen of this plan"
        raise PlanError(
            f"a judgment by {shortened(judgment.annotator)!r} of {shortened(judgment.handle)!r}: found {whose}; "
            "wanted a screen of the annotator's own. Is it the plan that people were served?"
        )
    if judgment.answers is not None and (why := other_questions(plan.declared, judgment.answers)):
        raise PlanError(f"a judgment of {judgment.handle!r} answers {why}")


def other_questions(declared: PlanDeclaration, answers: Answers) -> str:
    """Return which questions were answered instead of the plan's; blank where they are the plan's."""
    if answers.task != declared.task:
        return f"the task {answers.task!r}: wanted {declared.task!r}"
    rates = declared.rating_margin is not None
    if isinstance(answers, PairAnswers) and answers.rates_fit != rates:
        actual, expected = ("no rating", "one") if rates else ("a rating", "none")
        return f"with {actual} of each answer's personal fit: wanted {expected}, as the plan asks"
    return ""


def _kept(plan: AnnotationPlan, folder: Path) -> list[Judgment]:
    try:
        return [judgment_of(submission) for submission in read_submissions(folder, plan.content_hash)]
    except ValueError as exc:
        raise PlanError(f"{folder / FILE}: a kept judgment cannot be read: {exc}") from exc


_LINE: TypeAdapter[Judgment] = TypeAdapter(Judgment)


def _lines(path: Path) -> Iterable[Judgment]:
    for location, row in read_rows(path):
        yield judgment_of_row(row, location)


def judgment_of_row(row: Mapping[str, object], location: Place) -> Judgment:
    """Return a line of a file as a Judgment; one that does not fit is a RowError."""
    try:
        return _LINE.validate_json(json.dumps(row))  # strict about JSON's types, not about Python's
    except ValidationError as exc:
        error = field_error(exc, tags=_KINDS)
        raise location.refuse(
            error.field, found=shortened(str(error.value)), wanted=shortened(error.message, 200)
        ) from exc


# ---------------------------------------------------------------- how far everybody is


@dataclass(frozen=True, slots=True)
class AnnotatorProgress:
    """One annotator: `changed` screens have more than one revision; `seconds` is the median time on a screen."""

    id: str
    arm: Arm
    judged: int
    of: int
    changed: int
    seconds: float | None
    last: str | None
    """When something last came: ISO 8601, UTC."""
    checks_right: int
    checks: int
    """Attention checks judged so far."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        return asdict(self)


def progress(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> list[AnnotatorProgress]:
    """Return how far each annotator of the plan is, in the plan's order."""
    by_annotator: dict[str, list[Judgment]] = {annotator.id: [] for annotator in plan.annotators}
    for judgment in judgments:
        by_annotator[judgment.annotator].append(judgment)
    return [_pace(plan, annotator.id, by_annotator[annotator.id]) for annotator in plan.annotators]


def _pace(plan: AnnotationPlan, annotator: str, judgments: Sequence[Judgment]) -> AnnotatorProgress:
    stands = standing(judgments)
    checks = [judgment for judgment in stands if plan.screen[judgment.handle].kind == "check"]
    return AnnotatorProgress(
        id=annotator,
        arm=plan.arm[annotator],
        judged=len(stands),
        of=len(plan.by_annotator[annotator]),
        changed=len({judgment.handle for judgment in judgments if judgment.revision > 1}),
        seconds=median(judgment.seconds for judgment in stands) if stands else None,
        last=max((judgment.at for judgment in judgments), default=None),
        checks_right=sum(passed(plan, plan.screen[check.handle], check.answers) for check in checks),
        checks=len(checks),
    )


def passed(plan: AnnotationPlan, screen: Screen, answers: Answers | None) -> bool:
    """Return whether an attention check was answered as known; for two answers, leaning to the right side passes."""
    preferred = plan.item[screen.item].preferred
    if answers is None or preferred is None:
        return False
    letter = LETTERS[screen.order.index(preferred)]
    if isinstance(answers, PairAnswers):
        return answers.overall in {letter.lower(), f"slightly_{letter.lower()}"}
    return answers.best == letter


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
        """Return from -2 (B) to 2 (A) what was chosen, as displayed; None where it cannot be told."""
        choice: Choice = getattr(self.answers, question)
        return _SIDE[choice]

    def toward(self, candidate: int, question: Question) -> int | None:
        """Return from -2 to 2 how far an answer is preferred to the other one; None where it cannot be told."""
        side = self.shown(question)
        return side if side is None or self.screen.order[0] == candidate else -side

    def score(self, candidate: int, dimension: Dimension) -> int | None:
        """Return the score of 1 to 5 that an answer was given by itself; None where it cannot be told."""
        scores = self.answers.scores_a if self.screen.order[0] == candidate else self.answers.scores_b
        rating: int | None = getattr(scores, dimension, None)  # plans of old do not ask for personal fit
        return rating


@dataclass(frozen=True, slots=True)
class FourOpinion:
    """What one annotator finally said on one screen of four answers."""

    annotator: str
    arm: Arm
    screen: Screen
    item: PlannedItem
    answers: FourAnswers

    def picked(self) -> int | None:
        """Return which answer fits best; None where it cannot be told."""
        best = self.answers.best
        return None if best == "cannot_tell" else self.screen.order["ABCD".index(best)]


def pair_opinions(plan: AnnotationPlan, judgments: Iterable[Judgment]) -> list[PairOpinion]:
    """Return what stands of the judgments of two answers; examples, which are for learning, are left out."""
    return [
        PairOpinion(screen.annotator, plan.arm[screen.annotator], screen, plan.item[screen.item], answers)
        for screen, answers in _standing(plan, judgments)
        if isinstance(answers, PairAnswers)
    ]


def four_opinions(plan: AnnotationPlan, judgments: Iterable[Judgment]) -> list[FourOpinion]:
    """Return what stands of the judgments of four answers; examples are left out."""
    return [
        FourOpinion(screen.annotator, plan.arm[screen.annotator], screen, plan.item[screen.item], answers)
        for screen, answers in _standing(plan, judgments)
        if isinstance(answers, FourAnswers)
    ]


def _standing(plan: AnnotationPlan, judgments: Iterable[Judgment]) -> Iterator[tuple[Screen, Answers]]:
    for judgment in standing(judgments):
        screen = plan.screen[judgment.handle]
        if judgment.answers is not None and screen.kind != "example":
            yield screen, judgment.answers


def inattentive(plan: AnnotationPlan, judgments: Iterable[Judgment], least: float) -> set[str]:
    """Return who has met attention checks and passed less than this share of them."""
    paces = progress(plan, list(judgments))
    # A share, not least * checks: 0.55 * 20 is more than 11.
    return {pace.id for pace in paces if pace.checks and pace.checks_right / pace.checks < least}


def told_inattentive(out: Iterable[str], least: float) -> str:
    """Return in words who is left out; blank where attention checks exclude no one."""
    if not least:
        return ""
    return f"left out for passing less than {least:.0%} of attention checks: {', '.join(sorted(out)) or 'none'}"

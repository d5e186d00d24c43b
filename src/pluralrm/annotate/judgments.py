"""Judgments: what an annotator answered on one screen. Appended, never changed; what stands is the last revision."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from pluralrm.annotate.design import Declared, Dimension, Letter, Plan
from pluralrm.annotate.store import FILE, Submission, read_submissions
from pluralrm.benchmarks.rows import Place, read_rows, shortened
from pluralrm.errors import PlanError

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
class Scores:
    """How good one answer is by itself, from 1 to 5; None where the annotator cannot tell."""

    factuality: _Rating | None
    relevance: _Rating | None
    helpfulness: _Rating | None


@checked_dataclass(frozen=True, slots=True, config=_STRICT)
class FitScores(Scores):
    """How good one answer is by itself, and how well it fits the asker; None where the annotator cannot tell."""

    personal_fit: _Rating | None


def _kind_of_scores(value: object) -> str:
    fit = "personal_fit" in value if isinstance(value, Mapping) else isinstance(value, FitScores)
    return "fit" if fit else "general"


_Scores = Annotated[
    Annotated[FitScores, Tag("fit")] | Annotated[Scores, Tag("general")], Discriminator(_kind_of_scores)
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
        first = exc.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(step) for step in first["loc"] if step not in _KINDS)
        raise ValueError(f"{field or 'answers'}: {first['msg']}") from exc


def answers_text(answers: Answers | None) -> str:
    """Return answers as JSON in one canonical spelling."""
    return json.dumps(answers and asdict(answers), ensure_ascii=False, separators=(",", ":"))


def standing(judgments: Iterable[Judgment]) -> list[Judgment]:
    """Return the last revision of each screen, those that were taken back left out, in the order of their screens."""
    last: dict[tuple[str, str], Judgment] = {}
    for one in judgments:
        key = one.annotator, one.handle
        if key not in last or last[key].revision < one.revision:
            last[key] = one
    return [last[key] for key in sorted(last) if last[key].answers is not None]


def judgment_of(said: Submission) -> Judgment:
    """Return what the server kept as a Judgment; answers that do not fit are a ValueError."""
    return Judgment(said.annotator, said.item, said.revision, answers_of(said.answers), said.seconds, said.at)


def judgment_line(one: Judgment) -> str:
    """Return the line of a judgment in `judgments.jsonl`."""
    return json.dumps(asdict(one), ensure_ascii=False, separators=(",", ":"))


def read_judgments(plan: Plan, path: Path) -> list[Judgment]:
    """Return every revision in a plan's folder (what the server kept) or in a file of judgments, checked by the plan.

    A judgment of a screen that the plan has not, or of somebody else's, is a PlanError; so are two first (or second)
    revisions of one screen.
    """
    found = _kept(plan, path) if path.is_dir() else list(_lines(path))
    seen: dict[tuple[str, int], Judgment] = {}
    for one in found:
        try:
            check_judgment(plan, one)
        except PlanError as exc:
            raise PlanError(f"{path}: {exc}") from exc
        if seen.setdefault((one.handle, one.revision), one) != one:
            raise PlanError(
                f"{path}: two different judgments of {one.handle!r} with the revision {one.revision}: only one can "
                "stand. Are these two files in one?"
            )
    return found


def check_judgment(plan: Plan, one: Judgment) -> None:
    """Raise unless the judgment answers what the plan asks of this annotator."""
    screen = plan.screen.get(one.handle)
    if screen is None or screen.annotator != one.annotator:
        whose = f"one of {screen.annotator!r}" if screen else "no screen of this plan"
        raise PlanError(
            f"a judgment by {shortened(one.annotator)!r} of {shortened(one.handle)!r}: found {whose}; "
            "wanted a screen of the annotator's own. Is it the plan that people were served?"
        )
    if one.answers is not None and (why := other_questions(plan.declared, one.answers)):
        raise PlanError(f"a judgment of {one.handle!r} answers {why}")


def other_questions(declared: Declared, answers: Answers) -> str:
    """Return which questions were answered instead of the plan's; blank where they are the plan's."""
    if answers.task != declared.task:
        return f"the task {answers.task!r}: wanted {declared.task!r}"
    rates = declared.rating_margin is not None
    if isinstance(answers, PairAnswers) and answers.rates_fit != rates:
        found, wanted = ("no rating", "one") if rates else ("a rating", "none")
        return f"with {found} of each answer's personal fit: wanted {wanted}, as the plan asks"
    return ""


def _kept(plan: Plan, folder: Path) -> list[Judgment]:
    try:
        return [judgment_of(said) for said in read_submissions(folder, plan.content_hash)]
    except ValueError as exc:
        raise PlanError(f"{folder / FILE}: a kept judgment cannot be read: {exc}") from exc


_LINE: TypeAdapter[Judgment] = TypeAdapter(Judgment)


def _lines(path: Path) -> Iterable[Judgment]:
    for place, row in read_rows(path):
        yield judgment_of_row(row, place)


def judgment_of_row(row: Mapping[str, object], place: Place) -> Judgment:
    """Return a line of a file as a Judgment; one that does not fit is a RowError."""
    try:
        return _LINE.validate_json(json.dumps(row))  # strict about JSON's types, not about Python's
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(step) for step in first["loc"] if step not in _KINDS)
        raise place.refuse(field, found=shortened(str(first["input"])), wanted=shortened(first["msg"], 200)) from exc

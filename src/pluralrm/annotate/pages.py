"""The pages of annotators and of the admin, each one file; and what annotators are asked, in their words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from pluralrm.annotate.judgments import CHOICES, LONGEST_COMMENT
from pluralrm.annotate.plan import DIMENSIONS, LETTERS, Dimension, Mode, PlanDeclaration, Task
from pluralrm.pages.document import Page, data_block, render


class Option(NamedTuple):
    """One button: its word, and the value that is kept."""

    label: str
    value: str | int | None


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """One row of buttons; `name` is the field of the answers, with a dot where it lies in an inner object."""

    name: str
    text: str
    options: tuple[Option, ...]
    group: str = ""
    hint: str = ""
    first: bool = False
    """Asked before the others are shown."""
    paired: bool = False
    """Stands beside its neighbour where there is room."""
    paraphrased: bool = False
    """Asked only of items with other phrasings of the prompt."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for the page."""
        return {**asdict(self), "options": [option._asdict() for option in self.options]}


_CHOICE_WORDS = ("A", "slightly A", "equal", "slightly B", "B", "cannot tell")
_NAMES: Mapping[Dimension, str] = {
    "factuality": "Factuality",
    "relevance": "Relevance",
    "helpfulness": "Helpfulness",
    "personal_fit": "Personal fit",
}
_MEANS: Mapping[Dimension, str] = {
    "factuality": "What it says is true, and nothing in it misleads.",
    "relevance": "It answers what was asked, and stays with it.",
    "helpfulness": "Whoever asked can act on it or has learned what they wanted.",
    "personal_fit": "It suits this asker in particular, rather than just anybody.",
}
_FITS_ME = "It suits you in particular, rather than just anybody."
_COMPARED = "Which answer is better in each respect?"
_RATED = "How good is each answer by itself, from 1 (very poor) to 5 (excellent)?"
_FITTED = "How well does each answer fit this asker in particular, from 1 (not at all) to 5 (very well)?"
_FITTED_ME = "How well does each answer fit you in particular, from 1 (not at all) to 5 (very well)?"


def questions(declared: PlanDeclaration) -> list[PageQuestion]:
    """Return all questions of a plan, in the order in which they are asked."""
    return _pair(declared.mode, declared.rated) if declared.task == "pair" else _four()


def guide(task: Task, mode: Mode) -> list[str]:
    """Return what an annotator reads before judging, a paragraph each."""
    if task == "four":
        return [
            "Read the question, then all four answers. Say which fits it best, and how many fit it.",
            "Then say how natural the question is: would somebody ask that, in these words?",
            "Where the question is shown in other words too, say whether all mean the same.",
        ]
    whom = "yourself: which answer would you rather get?" if mode == "own" else "the asker: which answer suits them?"
    return [
        f"Read the question, then both answers. Judge for {whom} Choose one overall before the single respects.",
        *(f"{_NAMES[one]}: {_means(one, mode)}" for one in DIMENSIONS),
        "The answers stand in random order, and neither their place nor their length says anything about them.",
    ]


def _pair(mode: Mode, rated: Sequence[Dimension]) -> list[PageQuestion]:
    overall = "Which answer would you rather get?" if mode == "own" else "Which answer is better for this asker?"
    choices = _options(_CHOICE_WORDS, CHOICES)
    return [
        PageQuestion("overall", overall, choices, first=True),
        *(PageQuestion(one, _NAMES[one], choices, group=_COMPARED, hint=_means(one, mode)) for one in DIMENSIONS),
        *(_rating(one, letter, mode) for one in rated for letter in ("a", "b")),
        PageQuestion("decided", "What decided your overall choice?", _deciding()),
    ]


def _four() -> list[PageQuestion]:
    best = _options([*LETTERS, "cannot tell"], [*LETTERS, "cannot_tell"])
    alike = "Do all phrasings of the question mean the same?"
    return [
        PageQuestion("best", "Which answer fits the question best?", best, first=True),
        PageQuestion("fitting", "How many of the answers fit?", _options(_FITTING, _FITTING), group="The answers"),
        PageQuestion(
            "naturalness", "How natural is the question?", _scale(), group="The question", hint="1 contrived, 5 natural"
        ),
        PageQuestion(
            "same_meaning", alike, _options(_SAME_WORDS, _SAME_VALUES), group="The question", paraphrased=True
        ),
    ]


_FITTING = ("none", "one", "several")
_SAME_WORDS, _SAME_VALUES = ("yes", "no", "cannot tell"), ("yes", "no", "cannot_tell")


def _rating(dimension: Dimension, letter: str, mode: Mode) -> PageQuestion:
    options = (*_scale(), Option("cannot tell", None))
    text = f"{_NAMES[dimension]} of answer {letter.upper()}"
    fitted = _FITTED_ME if mode == "own" else _FITTED
    group = fitted if dimension == "personal_fit" else _RATED
    return PageQuestion(f"scores_{letter}.{dimension}", text, options, group=group, paired=True)


def _deciding() -> tuple[Option, ...]:
    return (*_options([_NAMES[one] for one in DIMENSIONS], DIMENSIONS), Option("none of these", None))


def _means(dimension: Dimension, mode: Mode) -> str:
    return _FITS_ME if mode == "own" and dimension == "personal_fit" else _MEANS[dimension]


def _scale() -> tuple[Option, ...]:
    return tuple(Option(str(number), number) for number in range(1, 6))


def _options(words: Sequence[str], values: Sequence[str]) -> tuple[Option, ...]:
    return tuple(map(Option, words, values))


_KEYS = (
    ("1 – 6", "choose, and go to the next question"),
    ("← →", "change the choice"),
    ("↑ ↓", "the question before, the next question"),
    ("Enter", "to the first question, to the next one, and save at the end"),
    ("Ctrl Enter", "save, from the comment too"),
    ("c", "write a comment"),
    ("p", "open and close the posts"),
    ("u", "undo: take the last judgment back and judge that item again"),
)


def annotator_page(declared: PlanDeclaration) -> Page:
    """Return the page on which people judge; it is the same for all of them and holds nothing of an item."""
    asked = {"task": declared.task, "questions": [one.to_json() for one in questions(declared)]}
    return render(
        "pluralrm.annotate",
        "annotate.html.jinja",
        title="Annotation",
        styles=["annotate.css"],
        scripts=["client.js", "questions.js", "item.js", "annotate.js"],
        connects=True,
        guide=guide(declared.task, declared.mode),
        keys=_KEYS,
        asked=data_block("asked", asked),
        longest_comment=LONGEST_COMMENT,
    )


def admin_page() -> Page:
    """Return the page of progress; what it shows is fetched with the admin's token."""
    return render(
        "pluralrm.annotate",
        "admin.html.jinja",
        title="Annotation: progress",
        styles=["annotate.css"],
        scripts=["admin.js"],
        connects=True,
    )

"""A screen and its answers as other annotation tools have them: texts that are shown, and one value per question.

What leaves is what an annotator of ours would be sent: no id, no label, no other arm. What comes back is answers on
screens, so that `agreement` and `claim` read them as they read our own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from pluralrm.annotate.design import DIMENSIONS, LETTERS, Declared, Dimension, Plan, Screen, screen_shown
from pluralrm.annotate.judgments import (
    Answers,
    Fitting,
    Judgment,
    PairAnswers,
    Same,
    answers_of,
    check_judgment,
    standing,
)
from pluralrm.errors import PlanError

Kind = Literal["choice", "rating", "text"]
Value = str | int


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a form: its name, what is said to the annotator, and the options with their words."""

    name: str
    title: str
    kind: Kind
    options: Mapping[str, str]
    about: str
    """Which of the shown texts it is about."""
    required: bool = True


_SIDES: Mapping[str, str] = {
    "a": "A is better",
    "slightly_a": "A is slightly better",
    "equal": "equal",
    "slightly_b": "B is slightly better",
    "b": "B is better",
    "cannot_tell": "cannot tell",
}
_BEST: Mapping[str, str] = {
    "A": "Answer A",
    "B": "Answer B",
    "C": "Answer C",
    "D": "Answer D",
    "cannot_tell": "cannot tell",
}


def _pair_form(rated: Sequence[Dimension]) -> tuple[Asked, ...]:
    titles = {"personal_fit": "Which answer fits this person better?"}
    return (
        Asked("overall", "Which answer is better, all in all?", "choice", _SIDES, "prompt"),
        *(Asked(one, titles.get(one, f"Which is better in {one}?"), "choice", _SIDES, "prompt") for one in DIMENSIONS),
        *(
            Asked(
                f"{name}_{side}",
                f"{_spoken(name).capitalize()} of answer {side.upper()}, 1 to 5",
                "rating",
                {},
                f"answer_{side}",
                required=False,
            )
            for side in ("a", "b")
            for name in rated
        ),
        Asked(
            "decided",
            "What decided?",
            "choice",
            {one: _spoken(one) for one in DIMENSIONS},
            "prompt",
            required=False,
        ),
        Asked("comment", "Comment", "text", {}, "prompt", required=False),
    )


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def form(declared: Declared) -> tuple[Asked, ...]:
    """Return the questions of a plan."""
    return _pair_form(declared.rated) if declared.task == "pair" else _four_form()


def _four_form() -> tuple[Asked, ...]:
    return (
        Asked("best", "Which answer fits this prompt best?", "choice", _BEST, "prompt"),
        Asked("fitting", "How many fit?", "choice", {one: one for one in get_args(Fitting)}, "prompt"),
        Asked("naturalness", "How natural is the prompt, 1 to 5?", "rating", {}, "prompt"),
        Asked(
            "same_meaning",
            "Do the paraphrases mean the same?",
            "choice",
            {one: _spoken(one) for one in get_args(Same)},
            "prompt",
            required=False,
        ),
        Asked("comment", "Comment", "text", {}, "prompt", required=False),
    )


def texts_shown(plan: Plan, screen: Screen) -> dict[str, str]:
    """Return the texts of a screen under the names that the forms use."""
    shown = screen_shown(plan, screen)
    answers = {f"answer_{letter.lower()}": text for letter, text in zip(LETTERS, shown.answers, strict=False)}
    return {
        "prompt": shown.prompt,
        "narrative": shown.narrative,
        "posts": "\n\n".join(shown.posts),
        "paraphrases": "\n\n".join(shown.paraphrases),
        **answers,
    }


def values_of(answers: Answers) -> dict[str, Value]:
    """Return answers as one value per question; what was not answered is left out."""
    found = asdict(answers)
    if isinstance(answers, PairAnswers):
        for side in ("a", "b"):
            found |= {f"{name}_{side}": score for name, score in found.pop(f"scores_{side}").items()}
    del found["task"]
    return {name: value for name, value in found.items() if value not in {None, ""}}


def answers_from(declared: Declared, values: Mapping[str, Value]) -> Answers:
    """Return the answers that were given question by question; a ValueError says which does not fit."""
    task, known = declared.task, {one.name: one for one in form(declared)}
    for name in values:
        if name not in known:
            raise ValueError(f"{name}: no question of the task {task!r} in this plan")
    flat: dict[str, object] = dict(values)
    if task == "pair":
        for side in ("a", "b"):
            flat[f"scores_{side}"] = {name: flat.pop(f"{name}_{side}", None) for name in declared.rated}
    else:
        flat.setdefault("same_meaning", None)
    found = answers_of(json.dumps({**flat, "task": task}))
    if found is None:
        raise ValueError("no answers")
    return found


@dataclass(frozen=True, slots=True)
class Given:
    """What came back for one screen, before it is a judgment of it."""

    handle: str
    values: Mapping[str, Value]
    seconds: float = 0.0
    at: str = ""


def judgments_given(plan: Plan, given: Sequence[Given], source: str) -> list[Judgment]:
    """Return what came back as judgments; several of one screen are its revisions, in the order given."""
    found: list[Judgment] = []
    revisions: dict[str, int] = {}
    for one in given:
        screen = plan.screen.get(one.handle)
        if screen is None:
            raise PlanError(f"{source}: {one.handle!r} is no screen of this plan; is it the plan that was exported?")
        try:
            answers = answers_from(plan.declared, one.values)
        except ValueError as exc:
            raise PlanError(f"{source}: screen {one.handle!r}: {exc}") from exc
        revisions[one.handle] = revisions.get(one.handle, 0) + 1
        made = Judgment(screen.annotator, one.handle, revisions[one.handle], answers, one.seconds, one.at)
        check_judgment(plan, made)
        found.append(made)
    if not found:
        raise PlanError(f"{source}: found no answers, wanted some: has anybody submitted any?")
    return found


def answered(judgments: Iterable[Judgment]) -> dict[str, Judgment]:
    """Return what stands of the judgments, by handle."""
    return {one.handle: one for one in standing(judgments)}


def read_list(text: str, source: str) -> list[Mapping[str, object]]:
    """Return the objects of a JSON list; anything else is a PlanError."""
    try:
        found = json.loads(text)
    except ValueError as exc:
        raise PlanError(f"{source}: not JSON: {exc}") from exc
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise PlanError(f"{source}: wanted a JSON list of objects, as the tool exports it")
    return found

"""Screens and answers as Label Studio and Argilla have them: texts that are shown, and one value per question.

What leaves is what an annotator of ours would be sent: no id, no label, no other arm. What comes back is answers on
screens, so that `agreement` and `claim` read them as they read our own. One task or record is one screen of one
annotator.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, get_args
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

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
from pluralrm.annotate.plan import DIMENSIONS, LETTERS, AnnotationPlan, Dimension, PlanDeclaration, Screen, screen_shown
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.errors import PlanError
from pluralrm.journal import field_error

Kind = Literal["choice", "rating", "text"]
Value = str | int


@dataclass(frozen=True, slots=True)
class FormQuestion:
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


def _pair_form(rated: Sequence[Dimension]) -> tuple[FormQuestion, ...]:
    titles = {"personal_fit": "Which answer fits this person better?"}
    return (
        FormQuestion("overall", "Which answer is better, all in all?", "choice", _SIDES, "prompt"),
        *(
            FormQuestion(one, titles.get(one, f"Which is better in {one}?"), "choice", _SIDES, "prompt")
            for one in DIMENSIONS
        ),
        *(
            FormQuestion(
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
        FormQuestion(
            "decided",
            "What decided?",
            "choice",
            {one: _spoken(one) for one in DIMENSIONS},
            "prompt",
            required=False,
        ),
        FormQuestion("comment", "Comment", "text", {}, "prompt", required=False),
    )


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def form(declared: PlanDeclaration) -> tuple[FormQuestion, ...]:
    """Return the questions of a plan."""
    return _pair_form(declared.rated) if declared.task == "pair" else _four_form()


def _four_form() -> tuple[FormQuestion, ...]:
    return (
        FormQuestion("best", "Which answer fits this prompt best?", "choice", _BEST, "prompt"),
        FormQuestion("fitting", "How many fit?", "choice", {one: one for one in get_args(Fitting)}, "prompt"),
        FormQuestion("naturalness", "How natural is the prompt, 1 to 5?", "rating", {}, "prompt"),
        FormQuestion(
            "same_meaning",
            "Do the paraphrases mean the same?",
            "choice",
            {one: _spoken(one) for one in get_args(Same)},
            "prompt",
            required=False,
        ),
        FormQuestion("comment", "Comment", "text", {}, "prompt", required=False),
    )


def texts_shown(plan: AnnotationPlan, screen: Screen) -> dict[str, str]:
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


def answers_from(declared: PlanDeclaration, values: Mapping[str, Value]) -> Answers:
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
class ScreenAnswers:
    """What came back for one screen, before it is a judgment of it."""

    handle: str
    values: Mapping[str, Value]
    seconds: float = 0.0
    at: str = ""


def judgments_given(plan: AnnotationPlan, given: Sequence[ScreenAnswers], source: str) -> list[Judgment]:
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


# ---------------------------------------------------------------- Label Studio

_TITLES = {
    "prompt": "Question",
    "narrative": "What the person has in mind",
    "posts": "What the person wrote earlier",
    "paraphrases": "Paraphrases of the question",
}
_TYPES = {"choice": "choices", "rating": "rating", "text": "textarea"}


def label_studio_tasks(
    plan: AnnotationPlan, judgments: Iterable[Judgment], screens: Sequence[Screen]
) -> list[dict[str, object]]:
    """Return a task for each screen, with the annotation that stands where somebody has judged it."""
    said = answered(judgments)
    made: list[dict[str, object]] = []
    for screen in screens:
        texts = texts_shown(plan, screen)
        data = {"handle": screen.handle, "annotator": screen.annotator, "number": screen.place + 1, **texts}
        annotations = [_annotation(plan, said[screen.handle])] if screen.handle in said else []
        made.append({"data": data, "annotations": annotations})
    return made


def _annotation(plan: AnnotationPlan, one: Judgment) -> dict[str, object]:
    values = {} if one.answers is None else values_of(one.answers)
    forms = {asked.name: asked for asked in form(plan.declared)}
    result = [_region(forms[name], value) for name, value in values.items()]
    return {"result": result, "lead_time": one.seconds, "created_at": one.at, "was_cancelled": False}


def _region(asked: FormQuestion, value: Value) -> dict[str, object]:
    content: object = [value] if asked.kind in {"choice", "text"} else value
    key = {"choice": "choices", "rating": "rating", "text": "text"}[asked.kind]
    return {
        "id": asked.name,
        "from_name": asked.name,
        "to_name": asked.about,
        "type": _TYPES[asked.kind],
        "value": {key: content},
    }


def label_studio_config(plan: AnnotationPlan) -> str:
    """Return the labelling configuration of a plan's task, in XML; aliases are our codes, which its export has."""
    view = Element("View")
    texts = [*_TITLES, *(f"answer_{letter}" for letter in "abcd"[: 2 if plan.declared.task == "pair" else 4])]
    for name in texts:
        SubElement(view, "Header", value=_TITLES.get(name, f"Answer {name[-1].upper()}"))
        SubElement(view, "Text", name=name, value=f"${name}")
    for asked in form(plan.declared):
        SubElement(view, "Header", value=asked.title)
        _control(view, asked)
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def _control(view: Element, asked: FormQuestion) -> None:
    about = {"name": asked.name, "toName": asked.about, **({"required": "true"} if asked.required else {})}
    if asked.kind == "choice":
        control = SubElement(view, "Choices", {**about, "choice": "single"})
        for code, words in asked.options.items():
            SubElement(control, "Choice", value=words, alias=code)
    elif asked.kind == "rating":
        SubElement(view, "Rating", {**about, "maxRating": "5"})
    else:
        SubElement(view, "TextArea", {**about, "maxSubmissions": "1"})


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Choices(_Part):
    choices: Annotated[list[str], Field(min_length=1, max_length=1)]


class _Rating(_Part):
    rating: int


class _Text(_Part):
    text: list[str] | str


class _Region(_Part):
    from_name: str
    type: Literal["choices", "rating", "textarea"]
    value: _Choices | _Rating | _Text

    def answer(self) -> Value:
        """Return the value of the answer."""
        if isinstance(self.value, _Choices):
            return self.value.choices[0]
        if isinstance(self.value, _Rating):
            return self.value.rating
        return self.value.text if isinstance(self.value.text, str) else "\n".join(self.value.text)


class _User(_Part):
    id: int


class _Annotation(_Part):
    result: list[_Region]
    completed_by: _User | int | None = None
    was_cancelled: bool = False
    lead_time: float | None = None
    created_at: str = ""


class _Data(_Part):
    handle: str


class _Task(_Part):
    data: _Data
    annotations: list[_Annotation] = []


_TASKS = TypeAdapter(list[_Task])


def from_label_studio(text: str, source: str) -> list[ScreenAnswers]:
    """Return what annotators submitted, from Label Studio's JSON export; skipped tasks are left out."""
    rows: list[Mapping[str, object]] = read_list(text, source)
    try:
        found = _TASKS.validate_python(rows)
    except ValidationError as exc:
        raise PlanError(f"{source}: task {field_error(exc)}") from exc
    for task in found:
        _check_one_user(task, source)
    return [
        ScreenAnswers(
            task.data.handle,
            {region.from_name: region.answer() for region in one.result},
            one.lead_time or 0.0,
            one.created_at,
        )
        for task in found
        for one in sorted(task.annotations, key=lambda one: one.created_at)
        if not one.was_cancelled
    ]


def _check_one_user(task: _Task, source: str) -> None:
    said = [one.completed_by for one in task.annotations if not one.was_cancelled]
    users = {one.id if isinstance(one, _User) else one for one in said if one is not None}
    if len(users) > 1:
        raise PlanError(
            f"{source}: task {task.data.handle!r} was answered by {len(users)} users, wanted one: a task is one "
            "annotator's screen. Let each see only the tasks with their name in data.annotator"
        )


# ---------------------------------------------------------------- Argilla


def argilla_records(
    plan: AnnotationPlan, judgments: Iterable[Judgment], screens: Sequence[Screen]
) -> list[dict[str, object]]:
    """Return a record for each screen, as Argilla 2 reads it, with the responses that stand where it was judged."""
    said = answered(judgments)
    return [_record(plan, screen, said.get(screen.handle)) for screen in screens]


def _record(plan: AnnotationPlan, screen: Screen, one: Judgment | None) -> dict[str, object]:
    values = {} if one is None or one.answers is None else values_of(one.answers)
    return {
        "id": screen.handle,
        "fields": texts_shown(plan, screen),
        "metadata": {"annotator": screen.annotator, "number": screen.place + 1, **_rehearsed(one)},
        "suggestions": {},
        "responses": {name: [{"value": value, "user_id": screen.annotator}] for name, value in values.items()},
        "vectors": {},
    }


def _rehearsed(one: Judgment | None) -> dict[str, str]:
    return {"at": one.at} if one and is_rehearsal([one]) else {}


class _Response(_Part):
    value: str | int
    user_id: str


class _Metadata(_Part):
    at: str = ""


class _Record(_Part):
    id: str
    metadata: _Metadata = _Metadata()
    responses: dict[str, list[_Response]] = {}


_RECORDS = TypeAdapter(list[_Record])


def from_argilla(text: str, source: str) -> list[ScreenAnswers]:
    """Return what annotators submitted, from Argilla's JSON; a record that two users answered is a PlanError."""
    try:
        found = _RECORDS.validate_python(read_list(text, source))
    except ValidationError as exc:
        raise PlanError(f"{source}: record {field_error(exc)}") from exc
    made: list[ScreenAnswers] = []
    for record in found:
        users = dict.fromkeys(one.user_id for several in record.responses.values() for one in several)
        if len(users) > 1:
            raise PlanError(
                f"{source}: record {record.id!r} was answered by {len(users)} users, wanted one: a record is one "
                "annotator's screen. Let each see only the records with their name in metadata.annotator"
            )
        if users:
            values = {name: several[0].value for name, several in record.responses.items()}
            made.append(ScreenAnswers(record.id, values, at=record.metadata.at))
    return made

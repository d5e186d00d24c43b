"""Label Studio: tasks and a labelling configuration out, its JSON export in.

One task is one screen of one annotator. The configuration's aliases are our codes, which Label Studio then exports.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pluralrm.annotate.design import Plan, Screen
from pluralrm.annotate.exchange import Asked, Given, Value, answered, form, read_list, texts_shown, values_of
from pluralrm.annotate.judgments import Judgment
from pluralrm.errors import PlanError

_TITLES = {
    "prompt": "Question",
    "narrative": "What the person has in mind",
    "posts": "What the person wrote earlier",
    "paraphrases": "Paraphrases of the question",
}
_TYPES = {"choice": "choices", "rating": "rating", "text": "textarea"}


def tasks(plan: Plan, judgments: Iterable[Judgment], screens: Sequence[Screen]) -> list[dict[str, object]]:
    """Return a task for each screen, with the annotation that stands where somebody has judged it."""
    said = answered(judgments)
    made: list[dict[str, object]] = []
    for screen in screens:
        texts = texts_shown(plan, screen)
        data = {"handle": screen.handle, "annotator": screen.annotator, "number": screen.place + 1, **texts}
        annotations = [_annotation(plan, said[screen.handle])] if screen.handle in said else []
        made.append({"data": data, "annotations": annotations})
    return made


def _annotation(plan: Plan, one: Judgment) -> dict[str, object]:
    values = {} if one.answers is None else values_of(one.answers)
    forms = {asked.name: asked for asked in form(plan.declared)}
    result = [_region(forms[name], value) for name, value in values.items()]
    return {"result": result, "lead_time": one.seconds, "created_at": one.at, "was_cancelled": False}


def _region(asked: Asked, value: Value) -> dict[str, object]:
    content: object = [value] if asked.kind in {"choice", "text"} else value
    key = {"choice": "choices", "rating": "rating", "text": "text"}[asked.kind]
    return {
        "id": asked.name,
        "from_name": asked.name,
        "to_name": asked.about,
        "type": _TYPES[asked.kind],
        "value": {key: content},
    }


def configuration(plan: Plan) -> str:
    """Return the labelling configuration of a plan's task, in XML."""
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


def _control(view: Element, asked: Asked) -> None:
    about = {"name": asked.name, "toName": asked.about, **({"required": "true"} if asked.required else {})}
    if asked.kind == "choice":
        control = SubElement(view, "Choices", {**about, "choice": "single"})
        for code, words in asked.options.items():
            SubElement(control, "Choice", value=words, alias=code)
    elif asked.kind == "rating":
        SubElement(view, "Rating", {**about, "maxRating": "5"})
    else:
        SubElement(view, "TextArea", {**about, "maxSubmissions": "1"})


# ---------------------------------------------------------------- back


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

    def given(self) -> Value:
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


def given(text: str, source: str) -> list[Given]:
    """Return what annotators submitted, from Label Studio's JSON export; skipped tasks are left out."""
    rows: list[Mapping[str, object]] = read_list(text, source)
    try:
        found = _TASKS.validate_python(rows)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        raise PlanError(f"{source}: task {'.'.join(map(str, first['loc']))}: {first['msg']}") from exc
    for task in found:
        _check_one_user(task, source)
    return [
        Given(
            task.data.handle,
            {region.from_name: region.given() for region in one.result},
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

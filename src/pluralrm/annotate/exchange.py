"""Judgments in other formats: Label Studio, Argilla, and people's own preferences as `personal-rb` has them.

Label Studio and Argilla get what an annotator of ours would be sent: no id, no label, no other arm. What comes back is
answers on screens, read as our own; one task or record is one screen of one annotator. Of own preferences, a part of
each person's judgments is context (split `train`), the others are items (split `test`): all comparisons of one prompt
go to one side, and so do prompts that share an answer, so that no choice is ever both.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, NamedTuple, get_args
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
    four_opinions,
    inattentive,
    pair_opinions,
    standing,
    told_inattentive,
)
from pluralrm.annotate.plan import (
    DIMENSIONS,
    LETTERS,
    AnnotationPlan,
    Dimension,
    PlanDeclaration,
    PlannedItem,
    Screen,
    screen_shown,
)
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
_BEST: Mapping[str, str] = {**{letter: f"Answer {letter}" for letter in LETTERS}, "cannot_tell": "cannot tell"}


def _pair_form(rated: Sequence[Dimension]) -> tuple[FormQuestion, ...]:
    titles = {"personal_fit": "Which answer fits this person better?"}
    return (
        FormQuestion("overall", "Which answer is better, all in all?", "choice", _SIDES, "prompt"),
        *(
            FormQuestion(name, titles.get(name, f"Which is better in {name}?"), "choice", _SIDES, "prompt")
            for name in DIMENSIONS
        ),
        *(_rating(name, side) for side in ("a", "b") for name in rated),
        FormQuestion("decided", "What decided?", "choice", _spoken_all(DIMENSIONS), "prompt", required=False),
        FormQuestion("comment", "Comment", "text", {}, "prompt", required=False),
    )


def _rating(name: Dimension, side: str) -> FormQuestion:
    title = f"{name.replace('_', ' ').capitalize()} of answer {side.upper()}, 1 to 5"
    return FormQuestion(f"{name}_{side}", title, "rating", {}, f"answer_{side}", required=False)


def _spoken_all(names: Iterable[str]) -> dict[str, str]:
    return {name: name.replace("_", " ") for name in names}


def form(declared: PlanDeclaration) -> tuple[FormQuestion, ...]:
    """Return the questions of a plan."""
    return _pair_form(declared.rated) if declared.task == "pair" else _four_form()


def _four_form() -> tuple[FormQuestion, ...]:
    return (
        FormQuestion("best", "Which answer fits this prompt best?", "choice", _BEST, "prompt"),
        FormQuestion("fitting", "How many fit?", "choice", {code: code for code in get_args(Fitting)}, "prompt"),
        FormQuestion("naturalness", "How natural is the prompt, 1 to 5?", "rating", {}, "prompt"),
        FormQuestion(
            "same_meaning", "Do the paraphrases mean the same?", "choice", _spoken_all(get_args(Same)), "prompt", False
        ),
        FormQuestion("comment", "Comment", "text", {}, "prompt", required=False),
    )


def texts_shown(plan: AnnotationPlan, screen: Screen) -> dict[str, str]:
    """Return the texts of a screen under the names that the forms use."""
    view = screen_shown(plan, screen)
    answers = {f"answer_{letter.lower()}": text for letter, text in zip(LETTERS, view.answers, strict=False)}
    return {
        "prompt": view.prompt,
        "narrative": view.narrative,
        "posts": "\n\n".join(view.posts),
        "paraphrases": "\n\n".join(view.paraphrases),
        **answers,
    }


def values_of(answers: Answers) -> dict[str, Value]:
    """Return answers as one value per question; unanswered ones are left out."""
    values = asdict(answers)
    if isinstance(answers, PairAnswers):
        for side in ("a", "b"):
            values |= {f"{name}_{side}": score for name, score in values.pop(f"scores_{side}").items()}
    del values["task"]
    return {name: value for name, value in values.items() if value not in {None, ""}}


def answers_from(declared: PlanDeclaration, values: Mapping[str, Value]) -> Answers:
    """Return the answers that were given question by question; a ValueError says which does not fit."""
    task, questions = declared.task, {question.name: question for question in form(declared)}
    for name in values:
        if name not in questions:
            raise ValueError(f"{name}: no question of the task {task!r} in this plan")
    flat: dict[str, object] = dict(values)
    if task == "pair":
        for side in ("a", "b"):
            flat[f"scores_{side}"] = {name: flat.pop(f"{name}_{side}", None) for name in declared.rated}
    else:
        flat.setdefault("same_meaning", None)
    if (reply := answers_of(json.dumps({**flat, "task": task}))) is None:
        raise ValueError("no answers")
    return reply


@dataclass(frozen=True, slots=True)
class ScreenAnswers:
    """What came back for one screen, before it is a judgment of it."""

    handle: str
    values: Mapping[str, Value]
    seconds: float = 0.0
    at: str = ""


def judgments_given(plan: AnnotationPlan, replies: Sequence[ScreenAnswers], source: str) -> list[Judgment]:
    """Return what came back as judgments; several of one screen are its revisions, in the order given."""
    judgments: list[Judgment] = []
    revisions: dict[str, int] = {}
    for reply in replies:
        screen = plan.screen.get(reply.handle)
        if screen is None:
            raise PlanError(f"{source}: {reply.handle!r} is no screen of this plan; is it the plan that was exported?")
        try:
            answers = answers_from(plan.declared, reply.values)
        except ValueError as exc:
            raise PlanError(f"{source}: screen {reply.handle!r}: {exc}") from exc
        revisions[reply.handle] = revisions.get(reply.handle, 0) + 1
        judgment = Judgment(screen.annotator, reply.handle, revisions[reply.handle], answers, reply.seconds, reply.at)
        check_judgment(plan, judgment)
        judgments.append(judgment)
    if not judgments:
        raise PlanError(f"{source}: found no answers; has any annotator submitted one?")
    return judgments


def read_list(text: str, source: str) -> list[Mapping[str, object]]:
    """Return the objects of a JSON list; anything else is a PlanError."""
    try:
        data = json.loads(text)
    except ValueError as exc:
        raise PlanError(f"{source}: not JSON: {exc}. Wanted a JSON list of objects, as the tool exports it") from exc
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise PlanError(f"{source}: wanted a JSON list of objects, as the tool exports it")
    return data


# ---------------------------------------------------------------- Label Studio

_TITLES = {
    "prompt": "Question",
    "narrative": "What the person has in mind",
    "posts": "What the person wrote earlier",
    "paraphrases": "Paraphrases of the question",
}
_TYPES = {"choice": ("choices", "choices"), "rating": ("rating", "rating"), "text": ("textarea", "text")}


def label_studio_tasks(
    plan: AnnotationPlan, judgments: Iterable[Judgment], screens: Sequence[Screen]
) -> list[dict[str, object]]:
    """Return a task for each screen, with the annotation that stands where somebody has judged it."""
    by_handle = {judgment.handle: judgment for judgment in standing(judgments)}
    return [
        {
            "data": {
                "handle": screen.handle,
                "annotator": screen.annotator,
                "number": screen.place + 1,
                **texts_shown(plan, screen),
            },
            "annotations": [_annotation(plan, by_handle[screen.handle])] if screen.handle in by_handle else [],
        }
        for screen in screens
    ]


def _annotation(plan: AnnotationPlan, judgment: Judgment) -> dict[str, object]:
    values = {} if judgment.answers is None else values_of(judgment.answers)
    questions = {question.name: question for question in form(plan.declared)}
    result = [_region(questions[name], value) for name, value in values.items()]
    return {"result": result, "lead_time": judgment.seconds, "created_at": judgment.at, "was_cancelled": False}


def _region(question: FormQuestion, value: Value) -> dict[str, object]:
    kind, key = _TYPES[question.kind]
    content = {key: value if question.kind == "rating" else [value]}
    return {"id": question.name, "from_name": question.name, "to_name": question.about, "type": kind, "value": content}


def label_studio_config(plan: AnnotationPlan) -> str:
    """Return the labelling configuration of a plan's task, in XML; aliases are our codes, which its export has."""
    view = Element("View")
    texts = [*_TITLES, *(f"answer_{letter}" for letter in "abcd"[: 2 if plan.declared.task == "pair" else 4])]
    for name in texts:
        SubElement(view, "Header", value=_TITLES.get(name, f"Answer {name[-1].upper()}"))
        SubElement(view, "Text", name=name, value=f"${name}")
    for question in form(plan.declared):
        SubElement(view, "Header", value=question.title)
        _control(view, question)
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def _control(view: Element, question: FormQuestion) -> None:
    about = {"name": question.name, "toName": question.about, **({"required": "true"} if question.required else {})}
    if question.kind == "choice":
        control = SubElement(view, "Choices", {**about, "choice": "single"})
        for code, words in question.options.items():
            SubElement(control, "Choice", value=words, alias=code)
    elif question.kind == "rating":
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
    try:
        tasks = _TASKS.validate_python(read_list(text, source))
    except ValidationError as exc:
        raise PlanError(f"{source}: task {field_error(exc)}") from exc
    for task in tasks:
        submitted = [annotation.completed_by for annotation in task.annotations if not annotation.was_cancelled]
        users = {user.id if isinstance(user, _User) else user for user in submitted if user is not None}
        _check_one_user(len(users), f"{source}: task {task.data.handle!r}", "data")
    return [
        ScreenAnswers(
            task.data.handle,
            {region.from_name: region.answer() for region in annotation.result},
            annotation.lead_time or 0.0,
            annotation.created_at,
        )
        for task in tasks
        for annotation in sorted(task.annotations, key=lambda each: each.created_at)
        if not annotation.was_cancelled
    ]


def _check_one_user(users: int, what: str, field: str) -> None:
    if users > 1:
        kind = "task" if field == "data" else "record"
        raise PlanError(
            f"{what} was answered by {users} users, wanted one: a {kind} is one annotator's screen. Let each see only "
            f"the {kind}s with their name in {field}.annotator"
        )


# ---------------------------------------------------------------- Argilla


def argilla_records(
    plan: AnnotationPlan, judgments: Iterable[Judgment], screens: Sequence[Screen]
) -> list[dict[str, object]]:
    """Return a record for each screen, as Argilla 2 reads it, with the responses that stand where it was judged."""
    by_handle = {judgment.handle: judgment for judgment in standing(judgments)}
    return [_record(plan, screen, by_handle.get(screen.handle)) for screen in screens]


def _record(plan: AnnotationPlan, screen: Screen, judgment: Judgment | None) -> dict[str, object]:
    values = {} if judgment is None or judgment.answers is None else values_of(judgment.answers)
    at = {"at": judgment.at} if judgment and is_rehearsal([judgment]) else {}
    return {
        "id": screen.handle,
        "fields": texts_shown(plan, screen),
        "metadata": {"annotator": screen.annotator, "number": screen.place + 1, **at},
        "suggestions": {},
        "responses": {name: [{"value": value, "user_id": screen.annotator}] for name, value in values.items()},
        "vectors": {},
    }


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
        records = _RECORDS.validate_python(read_list(text, source))
    except ValidationError as exc:
        raise PlanError(f"{source}: record {field_error(exc)}") from exc
    replies: list[ScreenAnswers] = []
    for record in records:
        users = dict.fromkeys(response.user_id for several in record.responses.values() for response in several)
        _check_one_user(len(users), f"{source}: record {record.id!r}", "metadata")
        if users:
            values = {name: several[0].value for name, several in record.responses.items()}
            replies.append(ScreenAnswers(record.id, values, at=record.metadata.at))
    return replies


# ---------------------------------------------------------------- own preferences

TEST_SHARE = 0.3


class Preference(NamedTuple):
    """One person's choice on one item: the candidate that was preferred, and those it was preferred to."""

    annotator: str
    item: PlannedItem
    preferred: int
    others: tuple[int, ...]


class OwnPreferences(NamedTuple):
    """The rows of a file, and how many judgments are no preference; `inattentive` says who is left out."""

    rows: list[Mapping[str, object]]
    left_out: int
    inattentive: str = ""


def own_preferences(
    plan: AnnotationPlan, judgments: Iterable[Judgment], *, test: float = TEST_SHARE, seed: int = 0
) -> OwnPreferences:
    """Return one row for each preference; a plan in which people judged for others is a PlanError."""
    if plan.declared.mode != "own":
        raise PlanError("in this plan people judged for another user; wanted a plan made with --mode own")
    if not 0 < test < 1:
        raise PlanError(f"--test {test:g}: wanted a share between 0 and 1 of each person's judgments")
    every, least = list(judgments), plan.declared.claim.attention
    out = inattentive(plan, every, least)
    valid = [judgment for judgment in every if judgment.annotator not in out]
    preferences, left = _preferences(plan, valid)
    rows: list[Mapping[str, object]] = []
    for annotator in plan.annotators:
        mine = sorted((each for each in preferences if each.annotator == annotator.id), key=lambda each: each.item.id)
        rows += _rows(mine, test, random.Random(f"{seed}:{annotator.id}:split"), "rehearsal/" * is_rehearsal(valid))
    if not rows:
        why = f" ({told_inattentive(out, least)})" if out else ""
        raise PlanError(f"no preferences yet{why}; wanted judgments that are not ties")
    return OwnPreferences(rows, left, told_inattentive(out, least))


def _preferences(plan: AnnotationPlan, judgments: Sequence[Judgment]) -> tuple[list[Preference], int]:
    """Return the preferences among the judgments of items, and how many of these are none."""
    preferences: list[Preference] = []
    total = 0
    for pair in pair_opinions(plan, judgments):
        if pair.screen.kind == "item":
            total += 1
            if side := pair.toward(0, "overall"):
                preferences.append(Preference(pair.annotator, pair.item, int(side < 0), (int(side > 0),)))
    for four in four_opinions(plan, judgments):
        if four.screen.kind == "item":
            total += 1
            if (best := four.picked()) is not None:
                others = tuple(index for index in range(len(four.item.candidates)) if index != best)
                preferences.append(Preference(four.annotator, four.item, best, others))
    return preferences, total - len(preferences)


def _apart(mine: Sequence[Preference]) -> list[frozenset[str]]:
    """Return the prompts in groups: those of one group share answers, directly or through others."""
    groups: list[tuple[frozenset[str], frozenset[str]]] = []
    for choice in mine:
        prompts, answers = frozenset({choice.item.prompt}), frozenset(choice.item.candidates)
        shared = [group for group in groups if prompts & group[0] or answers & group[1]]
        groups = [group for group in groups if group not in shared]
        groups.append((prompts.union(*(group[0] for group in shared)), answers.union(*(group[1] for group in shared))))
    return [prompts for prompts, _ in groups]


def _rows(mine: Sequence[Preference], test: float, lot: random.Random, begin: str) -> list[Mapping[str, object]]:
    """Return one person's rows; of choices that share no text, one at least is context and one an item."""
    choices = _apart(mine)
    lot.shuffle(choices)
    count = max(1, min(round(test * len(choices)), len(choices) - 1)) if len(choices) > 1 else 0
    tested = set().union(*choices[:count])
    return [
        {
            "id": f"{begin}{choice.annotator}/{choice.item.id}/{choice.preferred + 1}>{other + 1}",
            "user_id": choice.annotator,
            "split": "test" if choice.item.prompt in tested else "train",
            "source": choice.item.domain,
            "context": [{"role": "user", "content": choice.item.prompt}],
            "chosen": {"role": "assistant", "content": choice.item.candidates[choice.preferred]},
            "rejected": {"role": "assistant", "content": choice.item.candidates[other]},
        }
        for choice in mine
        for other in choice.others
    ]

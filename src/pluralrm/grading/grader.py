"""Grades, graders, and chat models that grade: one aspect per call, or all of them in one.

A model says JSON in the form that was asked for and nothing beside it, or Failure("parse"):

>>> points('{"match_score": 2}')
(2,)
>>> joint_points("[0, 2, 1]", 3)
(0, 2, 1)
>>> joint_points("[0, 2]", 3).kind
'parse'

A code fence around the JSON is form and does not count. Nothing is guessed: a number in a sentence, one between the
points or beyond them, a list of another length or a key too many is no grade. A reply that cannot be read is asked for
once more, and is then a Failure.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pluralrm.chat import ChatCall, ChatRole
from pluralrm.chat.completions import unreadable
from pluralrm.core import OPEN_KINDS, Aspect, Failure, Item
from pluralrm.http import Tally
from pluralrm.templates import fenced, mark_of

MOST = 2
"""Points for an aspect that an answer meets in full."""
KEY = "match_score"

Points = tuple[int, ...]

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<text>.*)\n```", re.DOTALL | re.IGNORECASE)


def points(text: str) -> Points | Failure:
    """Return the one number of a JSON object with this one key."""
    pairs = json_in(text)
    if not isinstance(pairs, JsonPairs) or [key for key, _ in pairs] != [KEY]:
        return unreadable(f'the text is not the JSON object {{"{KEY}": 0, 1 or 2}} and nothing else', text)
    [(_, value)] = pairs
    return _checked((value,), text)


def joint_points(text: str, aspects: int) -> Points | Failure:
    """Return the numbers of a JSON list as long as there are aspects."""
    value = json_in(text)
    if not isinstance(value, list) or isinstance(value, JsonPairs):
        return unreadable("the text is not a JSON list of numbers and nothing else", text)
    if len(value) != aspects:
        return unreadable(f"the list has {len(value)} numbers, wanted {aspects}", text)
    return _checked(tuple(value), text)


class JsonPairs(list[tuple[str, object]]):
    """A JSON object as it was written: a key that is given twice stays two."""


def json_in(text: str) -> object:
    """Return the value that the text is, None where it is none."""
    bare = text.strip()
    fenced = _FENCE.fullmatch(bare)
    try:
        return json.loads(fenced["text"] if fenced else bare, object_pairs_hook=JsonPairs)
    except (ValueError, RecursionError):
        return None


def _checked(values: tuple[object, ...], text: str) -> Points | Failure:
    whole = tuple(value for value in values if isinstance(value, int) and not isinstance(value, bool))
    if len(whole) < len(values) or not all(0 <= value <= MOST for value in whole):
        return unreadable("a number is not 0, 1 or 2", text)
    return whole


Grade = float | Failure
"""In [0, 1], or why there is none; a failure is never a 0."""


@dataclass(frozen=True, slots=True)
class Graded:
    """One answer to one item, its grade, what each aspect got (nothing where one failed), and all that was said."""

    item: str
    text: str
    grade: Grade
    points: Points = ()
    said: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether an outage kept the grade from being had, so that it can be asked for again."""
        return isinstance(self.grade, Failure) and self.grade.kind in OPEN_KINDS


class Grader(Protocol):
    """Anything that grades answers. No base class: an object with these is a grader."""

    @property
    def spec(self) -> str:
        """The string that names this grader in pools and tables."""
        ...

    @property
    def model(self) -> str:
        """The name of what grades; a reward model of that name may not pick."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change among the grades of one grader."""
        ...

    @property
    def tally(self) -> Tally:
        """What was asked of a server so far."""
        ...

    def unsupported(self, items: Sequence[Item]) -> str | None:
        """Return why answers to these items cannot be graded, as what is said of their benchmark; or None."""
        ...

    def prompts(self, item: Item, text: str) -> list[str]:
        """Return what is asked about one answer, call by call; nothing where no call is made."""
        ...

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order."""
        ...


Slots = Mapping[str, str | Sequence[str]]
Read = Callable[[str], Points | Failure]


@dataclass(frozen=True, slots=True)
class RubricQuestion:
    """What one call shows beside the answer, how its reply is read, and what a second message asks for."""

    slots: Slots
    read: Read
    again: str


@dataclass(frozen=True, slots=True)
class Way:
    """A way of asking: its template, the slots that must be shown, and the questions about one answer to an item."""

    template: str
    shown: tuple[str, ...]
    questions: Callable[[Item], list[RubricQuestion]]
    summary: str


def aspects_of(item: Item) -> tuple[Aspect, ...]:
    """Return what the user expects of an answer; none where the item has no rubric."""
    return () if item.oracle is None else item.oracle.aspects


def _each(item: Item) -> list[RubricQuestion]:
    narrative = "" if item.oracle is None else item.oracle.narrative
    return [_about(aspect, {"question": item.prompt, "narrative": narrative}) for aspect in aspects_of(item)]


def _about(aspect: Aspect, common: Slots) -> RubricQuestion:
    slots = {**common, "aspect": aspect.aspect, "reason": aspect.reason, "evidence": aspect.evidence}
    return RubricQuestion(slots, points, f'Say nothing but {{"{KEY}": 0}}, {{"{KEY}": 1}} or {{"{KEY}": 2}}.')


def _together(item: Item) -> list[RubricQuestion]:
    titles = [" ".join(aspect.aspect.split()) for aspect in aspects_of(item)]  # a title is a line of a list
    if not titles:
        return []
    example = str([index % 3 for index in range(len(titles))])
    again = f"Say nothing but a JSON list of {len(titles)} numbers, each 0, 1 or 2."
    slots: Slots = {"question": item.prompt, "aspects": titles, "example": example}
    return [RubricQuestion(slots, partial(joint_points, aspects=len(titles)), again)]


WAYS: Mapping[str, Way] = {
    "per-aspect": Way(
        "grade-aspect-v1",
        ("question", "answer", "aspect"),
        _each,
        "per-aspect:MODEL,url=URL, one call for each aspect, with the narrative, the reason and the evidence",
    ),
    "joint": Way(
        "grade-joint-v1",
        ("question", "answer", "aspects"),
        _together,
        "joint:MODEL,url=URL, one call for all aspects, by their titles",
    ),
}
"""Each way by its name, which is the kind of a grader's spec."""


NO_RUBRIC = Failure("unsupported", "the item has no rubric to grade by")


@dataclass(frozen=True)
class ChatGrader:
    """A chat model that grades answers in one of the ways."""

    spec: str
    way: Way
    role: ChatRole
    seed: int

    @property
    def model(self) -> str:
        """The name that the server knows the model by."""
        return self.role.chat.name

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change among the grades of one grader: the model and its server, the template, the settings."""
        return {**self.role.identity, **self.role.drawing, "seed": str(self.seed)}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.role.tally

    def unsupported(self, items: Sequence[Item]) -> str | None:
        """Return why not, where no item has a rubric."""
        return None if any(map(aspects_of, items)) else "has no rubric: there is nothing to grade an answer by"

    def prompts(self, item: Item, text: str) -> list[str]:
        """Return what is asked about one answer, call by call."""
        return [self._prompt(item, text, question) for question in self.way.questions(item)]

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        """Yield one Graded per answer, in order; calls for later ones are on their way meanwhile."""
        for (item, text), calls in self.role.ask(answers, self._calls):
            yield _graded(item, text, calls)

    def _calls(self, answer: tuple[Item, str]) -> Iterator[ChatCall[Points]]:
        item, text = answer
        for question in self.way.questions(item):
            yield self.role.call(self._prompt(item, text, question), question.read, question.again)

    def _prompt(self, item: Item, text: str, question: RubricQuestion) -> str:
        mark = mark_of([text], f"{item.id}\n{item.prompt}", seed=self.seed)
        return self.role.template.fill(**question.slots, answer=fenced("answer", text, mark))


def _graded(item: Item, text: str, calls: Sequence[ChatCall[Points]]) -> Graded:
    if not calls:
        return Graded(item.id, text, NO_RUBRIC)
    outcomes = [call.outcome for call in calls]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    answers: list[Points] = [outcome for outcome in outcomes if not (outcome is None or isinstance(outcome, Failure))]
    points = [point for several in answers for point in several]
    # One that may yet be mended goes first: the answer stays open, and an outage becomes no grade.
    grade: Grade = min(failures, key=lambda failure: failure.kind not in OPEN_KINDS, default=share(points))
    replies = tuple(turn.reply.text for call in calls for turn in call.turns)
    return Graded(item.id, text, grade, () if failures else tuple(points), replies)


def share(points: Sequence[int]) -> float:
    """Return the sum of the points over the most that there could be; 0 where nothing was given."""
    return sum(points) / (MOST * len(points)) if points else 0.0

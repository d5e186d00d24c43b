"""A chat model that grades: one aspect per call, or all of them in one.

What it says and cannot be read is asked once more, and is then a Failure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pluralrm.chat.role import ChatCall, ChatRole
from pluralrm.core import OPEN_KINDS, Aspect, Failure, Item
from pluralrm.grading.grade import KEY, MOST, Grade, Graded, Points, joint_points, points
from pluralrm.http import Tally
from pluralrm.models.judge.fences import fenced, mark_of

Slots = Mapping[str, str | Sequence[str]]
Read = Callable[[str], Points | Failure]


@dataclass(frozen=True, slots=True)
class Question:
    """What one call shows beside the answer, how its reply is read, and what a second message asks for."""

    slots: Slots
    read: Read
    again: str


@dataclass(frozen=True, slots=True)
class Way:
    """A way of asking: its template, the slots that must be shown, and the questions about one answer to an item."""

    template: str
    shown: tuple[str, ...]
    questions: Callable[[Item], list[Question]]
    summary: str


def aspects_of(item: Item) -> tuple[Aspect, ...]:
    """Return what the user expects of an answer; none where the item has no rubric."""
    return () if item.oracle is None else item.oracle.aspects


def _each(item: Item) -> list[Question]:
    narrative = "" if item.oracle is None else item.oracle.narrative
    return [_about(aspect, {"question": item.prompt, "narrative": narrative}) for aspect in aspects_of(item)]


def _about(aspect: Aspect, known: Slots) -> Question:
    slots = {**known, "aspect": aspect.aspect, "reason": aspect.reason, "evidence": aspect.evidence}
    return Question(slots, points, f'Say nothing but {{"{KEY}": 0}}, {{"{KEY}": 1}} or {{"{KEY}": 2}}.')


def _together(item: Item) -> list[Question]:
    titles = [" ".join(aspect.aspect.split()) for aspect in aspects_of(item)]  # a title is a line of a list
    if not titles:
        return []
    example = str([place % 3 for place in range(len(titles))])
    again = f"Say nothing but a JSON list of {len(titles)} numbers, each 0, 1 or 2."
    slots: Slots = {"question": item.prompt, "aspects": titles, "example": example}
    return [Question(slots, partial(joint_points, aspects=len(titles)), again)]


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

    def _prompt(self, item: Item, text: str, question: Question) -> str:
        mark = mark_of([text], f"{item.id}\n{item.prompt}", seed=self.seed)
        return self.role.template.fill(**question.slots, answer=fenced("answer", text, mark))


def _graded(item: Item, text: str, calls: Sequence[ChatCall[Points]]) -> Graded:
    if not calls:
        return Graded(item.id, text, NO_RUBRIC)
    outcomes = [call.outcome for call in calls]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    got: list[Points] = [outcome for outcome in outcomes if not (outcome is None or isinstance(outcome, Failure))]
    points = [point for several in got for point in several]
    # One that may yet be mended goes first: the answer stays open, and an outage becomes no grade.
    grade: Grade = min(failures, key=lambda one: one.kind not in OPEN_KINDS, default=_share(points))
    said = tuple(turn.reply.text for call in calls for turn in call.turns)
    return Graded(item.id, text, grade, () if failures else tuple(points), said)


def _share(points: list[int]) -> float:
    """Return the sum of the points over the most that there could be."""
    return sum(points) / (MOST * len(points)) if points else 0.0  # no point: then there is a failure

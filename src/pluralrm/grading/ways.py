"""The two ways of asking: one aspect per call, or all of them in one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pluralrm.core import Aspect, Failure, Item
from pluralrm.grading.reading import KEY, Points, joint_points, points

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

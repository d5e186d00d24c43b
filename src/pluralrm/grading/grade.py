"""What a grader says, what grading gives, and what a grader is.

A grader says JSON in the form that was asked for and nothing beside it, or Failure("parse"):

>>> points('{"match_score": 2}')
(2,)
>>> joint_points("[0, 2, 1]", 3)
(0, 2, 1)
>>> joint_points("[0, 2]", 3).kind
'parse'

A code fence around the JSON is form and does not count. Nothing is guessed: a number in a sentence, one between the
points or beyond them, a list of another length or a key too many is no grade.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pluralrm.chat.completions import unreadable
from pluralrm.core import OPEN_KINDS, Failure, Item
from pluralrm.http import Tally

MOST = 2
"""Points for an aspect that an answer meets in full."""
KEY = "match_score"

Points = tuple[int, ...]

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<text>.*)\n```", re.DOTALL | re.IGNORECASE)


def points(text: str) -> Points | Failure:
    """Return the one number of a JSON object with this one key."""
    found = json_in(text)
    if not isinstance(found, Pairs) or [key for key, _ in found] != [KEY]:
        return unreadable(f'the text is not the JSON object {{"{KEY}": 0, 1 or 2}} and nothing else', text)
    [(_, value)] = found
    return _checked((value,), text)


def joint_points(text: str, aspects: int) -> Points | Failure:
    """Return the numbers of a JSON list as long as there are aspects."""
    found = json_in(text)
    if not isinstance(found, list) or isinstance(found, Pairs):
        return unreadable("the text is not a JSON list of numbers and nothing else", text)
    if len(found) != aspects:
        return unreadable(f"the list has {len(found)} numbers, wanted {aspects}", text)
    return _checked(tuple(found), text)


class Pairs(list[tuple[str, object]]):
    """A JSON object as it was written: a key that is given twice stays two."""


def json_in(text: str) -> object:
    """Return the value that the text is, None where it is none."""
    bare = text.strip()
    fenced = _FENCE.fullmatch(bare)
    try:
        return json.loads(fenced["text"] if fenced else bare, object_pairs_hook=Pairs)
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

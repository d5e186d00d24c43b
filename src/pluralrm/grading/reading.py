"""What a grader says: JSON in the form that was asked for and nothing beside it, or Failure("parse").

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

from pluralrm.chat.replies import unreadable
from pluralrm.core import Failure

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

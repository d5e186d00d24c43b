r"""What a chat model wrote about a user: a profile, or a list of aspects and nothing else.

>>> aspects("- Cheap to try\n- No new tools")
('Cheap to try', 'No new tools')
>>> aspects("Here you go:\n- Cheap to try").kind
'parse'

A list is one line for each aspect, all with the same bullet or all numbered from 1, or a JSON array of texts. Nothing
is guessed: a text with a heading, a remark, a list within the list, an aspect twice, or one that announces others is no
list. A note is one line, whatever breaks the model made: it cannot end the section of a prompt in which it stands.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence

from pluralrm.chat.completions import unreadable
from pluralrm.core import Failure

MOST = 12
"""Aspects in a list: the template asks for eight at most."""
LONGEST = 400
"""Characters in an aspect: beyond, it is no aspect but an answer."""

_LINE = re.compile(r"(?P<mark>[-*•–]|(?P<number>[0-9]{1,2})[.)])[ \t]+(?P<text>\S.*)")
_LETTER = re.compile(r"[^\W\d_]")


def profile(text: str) -> tuple[str] | Failure:
    """Return the text as one line."""
    if _LETTER.search(text) is None:
        return unreadable("the text says nothing", text)
    return (_one_line(text),)


def aspects(text: str) -> tuple[str, ...] | Failure:
    """Return the aspects in the order written."""
    try:
        found = _from_json(text) if text.strip().startswith("[") else list(_from_lines(text))
        _check(found)
    except ValueError as exc:
        return unreadable(str(exc), text)
    return tuple(found)


def _from_json(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("the text begins as a JSON array and is none of texts")
    return [_one_line(one) for one in found]


def _from_lines(text: str) -> Iterator[str]:
    lines = [line.rstrip() for line in textwrap.dedent(text).splitlines() if line.strip()]
    marks = set()
    for place, line in enumerate(lines, 1):
        if (found := _LINE.fullmatch(line)) is None:
            raise ValueError(f"the line {line[:60]!r} is no aspect")
        marks.add(re.sub("[0-9]+", "1", found["mark"]))
        if len(marks) > 1 or (found["number"] and int(found["number"]) != place):
            raise ValueError("the lines are not marked alike, or not numbered from 1")
        yield _one_line(found["text"])


def _check(found: Sequence[str]) -> None:
    """Raise a ValueError that says why these are not aspects, one after the other."""
    if not 1 <= len(found) <= MOST:
        raise ValueError(f"the text has {len(found)} aspects, wanted 1 to {MOST}")
    if len({one.casefold() for one in found}) < len(found):
        raise ValueError("the text names an aspect twice")
    for one in found:
        if _LETTER.search(one) is None:
            raise ValueError(f"the aspect {one[:60]!r} says nothing")
        if len(one) > LONGEST:
            raise ValueError(f"an aspect has {len(one)} characters, wanted at most {LONGEST}")
        if one.endswith((":", "\uff1a")):
            raise ValueError(f"the aspect {one[-60:]!r} announces others")


def _one_line(text: str) -> str:
    return " ".join(text.split())

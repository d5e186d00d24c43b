r"""The answer in a reply to a question of mathematics: what its last box holds.

>>> boxed(r"First \boxed{1}, then \boxed{\frac{1}{2}}.")
'\\frac{1}{2}'
>>> boxed("It is 4.").kind
'parse'
"""

import re
from fractions import Fraction

from pluralrm.chat.completions import unreadable
from pluralrm.core import Failure
from pluralrm.validate.fences import without_thinking
from pluralrm.validate.latex import tidy

LONGEST = 1_000
"""Characters of an answer that are read; no answer that people write has as many."""
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_NUMBER = re.compile(r"([+-]?)(\d+(?:\.\d+)?|\.\d+)(?:/(\d+))?")
_FRACTION = re.compile(r"([+-]?)\\frac(?:\{(\d+)\}\{(\d+)\}|(\d)(\d))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def boxed(reply: str) -> str | Failure:
    r"""Return what the last \boxed{} of a reply holds, without its reasoning blocks; a Failure where there is none."""
    said = without_thinking(reply)
    if isinstance(said, Failure):
        return said
    boxes = list(_BOX.finditer(said))
    if not boxes:
        return unreadable("No \\boxed{} answer found", reply)
    answer = _to_closing_brace(said, boxes[-1].end())
    if answer is None:
        return unreadable("The last \\boxed{} is not closed", reply)
    if not answer.strip():
        return Failure("empty", "the last \\boxed{} is empty")
    if len(answer) > LONGEST:
        return Failure("too_long", f"the answer has {len(answer):,} characters; {LONGEST:,} are read")
    return answer


def canonical(reply: str) -> str | None:
    r"""Return one spelling of the answer that a reply boxes, for votes; None where there is none.

    Letters and numbers only: what takes algebra to be seen equal (`x+1` and `1+x`) stays two answers.

    >>> canonical(r"\boxed{0.50}") == canonical(r"\boxed{\frac{1}{2}}") == canonical(r"\boxed{ 1/2 }.") == "1/2"
    True
    """
    answer = boxed(reply)
    if isinstance(answer, Failure):
        return None
    text = "".join(tidy(answer).split())
    if found := _FRACTION.fullmatch(text):
        sign, *parts = found.groups()
        above, below = [part for part in parts if part is not None]
        text = f"{sign}{above}/{below}"
    if (number := _NUMBER.fullmatch(text)) and (number[3] is None or int(number[3])):
        return str(Fraction(f"{number[1]}{number[2]}") / int(number[3] or 1))
    return text


def reference_of(text: str) -> str:
    """Return what a reference says: its last box, or all of it where it has none."""
    boxes = list(_BOX.finditer(text))
    inside = _to_closing_brace(text, boxes[-1].end()) if boxes else None
    return text if inside is None else inside


def _to_closing_brace(text: str, start: int) -> str | None:
    r"""Return the text up to the brace that closes the one before `start`; \{ and \} are no braces."""
    depth = 1
    for found in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return text[start : found.start()]
    return None

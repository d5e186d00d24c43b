"""What a chat template may spend on one render."""

import re
from collections.abc import ItemsView, Iterable, KeysView, ValuesView
from operator import length_hint
from string import Formatter

from jinja2.exceptions import SecurityError

STEP = 20
"""The price of one operation, one call, one turn of a loop; sizes come on top."""
_VALUE = 4
_AT_ONCE = 8
"""Characters for the price of one, where texts are searched or put together: that goes at the memory's speed."""

_SMALLEST = 1_000_000
_PER_CHARACTER = 400
_LARGEST_NUMBER = 2**64
_LARGEST_POWER = 64
_LARGEST_INDENT = 64
_CONTAINERS = (list, tuple, dict, KeysView, ValuesView, ItemsView)


class Budget:
    """What is left for one render; it grows with the characters that the template is given."""

    def __init__(self, characters: int) -> None:
        self._left = _SMALLEST + _PER_CHARACTER * characters

    def spend(self, cost: int) -> None:
        """Pay, or raise a SecurityError."""
        self._left -= cost
        if self._left < 0:
            raise SecurityError("it makes far more than a chat template has to (a loop or a text without end?)")

    def weigh(self, value: object) -> int:
        """Pay for a value with all that it contains, as often as it would be written out; return the price."""
        before, waiting = self._left, [value]
        while waiting:
            here = waiting.pop()
            self.spend(_VALUE + (len(here) if isinstance(here, (str, *_CONTAINERS)) else 0))
            if isinstance(here, _CONTAINERS):
                waiting += here
                waiting += here.values() if isinstance(here, dict) else ()
            elif isinstance(here, int) and not -_LARGEST_NUMBER < here < _LARGEST_NUMBER:
                raise SecurityError("it makes a whole number beyond 64 bits")
        return before - self._left

    def work(self, subject: object, *others: object) -> None:
        """Pay for the most that can be made of a subject with others, or searched in it: each part with all of them.

        So much at most comes of `replace`, `join`, `%` or `format`, and so long at most takes `rfind` or `strip`.
        """
        self.weigh(subject)
        self.spend(STEP + length_hint(subject, 1) * self.weigh(others) // _AT_ONCE)

    def gather(self, items: Iterable[object]) -> list[object]:
        """Return the items as a list, each paid for as it comes."""
        gathered = []
        for item in items:
            self.weigh(item)
            gathered.append(item)
        return gathered

    def count(self, items: Iterable[object], price: int) -> list[object]:
        """Return the items as a list, at one price each, whatever they hold."""
        counted = []
        for item in items:
            self.spend(price)
            counted.append(item)
        return counted

    def operate(self, operator: str, left: object, right: object) -> None:
        """Pay for what an operator will make; powers and wide formats are a SecurityError."""
        if operator == "%" and isinstance(left, str):
            check_format(left)
            self.work(left, right)
        elif operator == "**" and isinstance(right, int) and abs(right) > _LARGEST_POWER:
            raise SecurityError(f"it raises to the power of {right}")
        elif operator == "*":
            self.spend(max(0, _repeated(left, right), _repeated(right, left)))
        self.spend(STEP + self.weigh((left, right)))


def _repeated(text: object, times: object) -> int:
    return len(text) * times if isinstance(text, (str, list, tuple)) and isinstance(times, int) else 0


def check_format(text: str) -> None:
    """Raise where a text for `%` may ask for a width of more than 999, or for one that an argument says."""
    if re.search(r"\d{4}|%[-#0 +\d.]*\*", text):
        raise SecurityError("it formats with a width")


def check_fields(text: str) -> None:
    """Raise where a text for `str.format` has a field wider than 999, or as wide as an argument says."""
    for _, _, form, _ in Formatter().parse(text):
        if form and re.search(r"\d{4}|\{", form):
            raise SecurityError("it formats with a width")


def check_indent(width: object) -> None:
    """Raise where a text would be indented by far."""
    if isinstance(width, int) and width > _LARGEST_INDENT:
        raise SecurityError(f"it indents by {width}")

"""How texts are put before a model: each in a fence, in an order that is derived and gives nothing away."""

import random
from collections.abc import Sequence

from pluralrm.models.judge.fences import fenced, mark_of


def shuffled(count: int, *of: object) -> tuple[int, ...]:
    """Return the places 0 to count - 1 in an order that is derived from what it is the order of."""
    # Only random() is used: of all draws it alone is promised to be the same in every release of Python.
    draw = random.Random(":".join(map(str, of))).random
    keys = [draw() for _ in range(count)]
    return tuple(sorted(range(count), key=keys.__getitem__))


class Fences:
    """The fences of one call: all of its texts have one mark, which none of them holds."""

    def __init__(self, texts: Sequence[str], question: str) -> None:
        self._mark = mark_of(texts, question, seed=0)

    def one(self, name: str, text: str) -> str:
        """Return a text in its fence."""
        return fenced(name, text, self._mark)

    def each(self, names: Sequence[str], texts: Sequence[str]) -> list[str]:
        """Return texts in their fences, by their names."""
        return [self.one(name, text) for name, text in zip(names, texts, strict=True)]


def labels(letter: str, count: int) -> list[str]:
    """Return r1, r2, ... as a reply names them."""
    return [f"{letter}{number}" for number in range(1, count + 1)]

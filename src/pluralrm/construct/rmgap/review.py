"""Two reviewers, and an area chair where they disagree.

>>> disputed({"quality": (8, 6)}, {"quality": (8, 7)}, "each")
True
>>> [low.place for low in lows([{"quality": (8, 6)}, {"quality": (8, 7)}, {"quality": (9, 5)}], "each")]
[1]

each    every mark of every text must reach LEAST; a reviewer's mark stands where the other's falls on the same side,
        else the chair's decides
mean    as published: a reviewer passes a set where the mean of each dimension reaches LEAST; the chair decides where
        one passes the set and the other does not. One bad text among three excellent ones hides in the mean
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from pluralrm.construct.pipeline.work import Ask, Work, ask, ask_all
from pluralrm.core import Failure

LEAST, HIGHEST = 7, 10
ENOUGH = f"{LEAST} of {HIGHEST}"

Rule = Literal["each", "mean"]
Marks = Mapping[str, tuple[int, ...]]
"""By dimension, a mark from 1 to 10 for each text, or one for the set."""


class Low(NamedTuple):
    """A dimension in which a text is not good enough, and the marks that say so; no place: the set as a whole."""

    dimension: str
    place: int | None
    marks: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dimension} {' and '.join(map(str, self.marks))} of {HIGHEST}; wanted at least {LEAST}"


def disputed(first: Marks, second: Marks, rule: Rule) -> bool:
    """Return whether two reviewers come to different ends, so that the chair is asked."""
    if rule == "mean":
        return bool(_low_means(first)) != bool(_low_means(second))
    return any(len({mark >= LEAST for mark in pair}) > 1 for _, _, pair in _pairs([first, second]))


def lows(reviews: Sequence[Marks], rule: Rule) -> list[Low]:
    """Return what does not pass by two reviews, and by the chair's where there is a third."""
    if rule == "mean":
        deciding = reviews[2:] or reviews
        return [Low(dimension, None, _all(deciding, dimension)) for dimension in _low_in(deciding)]
    found = []
    for dimension, place, marks in _pairs(reviews):
        low = [mark < LEAST for mark in marks]
        if low[-1] if low[0] != low[1] else low[0]:
            found.append(Low(dimension, place, tuple(marks)))
    return found


def reviewed(make: Callable[[str, int], Ask[Marks]], rule: Rule) -> Work[list[Low] | Failure]:
    """Return what does not pass, or the Failure of a review that cannot be read; `make` writes it by role and turn."""
    reviews = yield from ask_all([make("reviewer", 0), make("reviewer", 1)])
    read = [marks for marks in reviews if not isinstance(marks, Failure)]
    if len(read) == len(reviews) and disputed(read[0], read[1], rule):
        reviews.append((yield from ask(make("chair", 0))))
    for marks in reviews:
        if isinstance(marks, Failure):
            return marks
    return lows([marks for marks in reviews if not isinstance(marks, Failure)], rule)


def _pairs(reviews: Sequence[Marks]) -> list[tuple[str, int, list[int]]]:
    return [
        (dimension, place, [review[dimension][place] for review in reviews])
        for dimension, marks in reviews[0].items()
        for place in range(len(marks))
    ]


def _low_means(marks: Marks) -> list[str]:
    """Return the dimensions whose mean is too low; the sum is compared, which is exact."""
    return [dimension for dimension, given in marks.items() if sum(given) < LEAST * len(given)]


def _low_in(reviews: Sequence[Marks]) -> list[str]:
    return list(dict.fromkeys(dimension for review in reviews for dimension in _low_means(review)))


def _all(reviews: Sequence[Marks], dimension: str) -> tuple[int, ...]:
    return tuple(mark for review in reviews for mark in review[dimension])

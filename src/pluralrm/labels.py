"""The label of a comparison: a grade for each candidate, the higher the better, ties allowed; a pair is (1, 0)."""

import math
from collections.abc import Sequence
from typing import Any

from pluralrm.display import Brief


def is_one_hot(grades: Sequence[float]) -> bool:
    """Return whether grades say no more than that one candidate is preferred: it has 1, the others have 0."""
    own = grades if type(grades) is tuple else list(grades)
    return own.count(1.0) == 1 and own.count(0.0) == len(own) - 1


def _label(preferred: int | None, grades: Sequence[float], width: int) -> tuple[int | None, tuple[float, ...]]:
    """Return index and grades, each made of the other; an index replaces grades that say no more than an index.

    So `replace` moves or removes the label of an item by its index and its candidates alone.
    """
    own = tuple(map(float, grades))
    one_hot = is_one_hot(own)
    if one_hot and len(own) != width:
        own, one_hot = (), False
    if preferred is not None and (not own or one_hot):
        if own and 0 <= preferred < width and own[preferred]:
            return preferred, own
        by_index = tuple(float(index == preferred) for index in range(width))
        return preferred, by_index if 1.0 in by_index else ()
    if own and (len(own) != width or not all(map(math.isfinite, own))):
        raise ValueError(f"{width} candidates, and the grades {own}; wanted a finite number for each")
    best = _best(own)
    index = best[0] if len(best) == 1 else None
    if preferred is not None and preferred != index:
        raise ValueError(f"candidate {preferred} is preferred, and the highest of the grades {own} is not its own")
    return index, own


def _best(grades: Sequence[float]) -> tuple[int, ...]:
    if not grades:
        return ()
    highest, own = max(grades), list(grades)
    if own.count(highest) == 1:
        return (own.index(highest),)
    return tuple(index for index, grade in enumerate(grades) if grade == highest)


class Labelled(Brief):
    """A dataclass with a label: `grades`, and `preferred`, the index of the highest, None where several share it."""

    __slots__ = ()

    def settle(self: Any, width: int) -> None:
        """Make index and grades of each other; a label that does not fit so many candidates is a ValueError."""
        index, own = self.preferred, self.grades
        usual = index is not None and type(own) is tuple and 0 <= index < width == len(own) and own[index] == 1.0
        if usual and own.count(0.0) == width - 1 and set(map(type, own)) == {float}:
            return
        preferred, grades = _label(index, own, width)
        object.__setattr__(self, "preferred", preferred)
        object.__setattr__(self, "grades", grades)

    @property
    def best(self: Any) -> tuple[int, ...]:
        """The candidates with the highest grade; none where there is no label, or its index is of no candidate."""
        return (self.preferred,) if self.preferred is not None and self.grades else _best(self.grades)

"""The label of a comparison: a grade for each candidate, the higher the better, ties allowed; a pair is (1, 0).

Where people and items cross: who judged the same candidates, and which declared traits form groups.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from pluralrm.display import Brief


def is_one_hot(grades: Sequence[float]) -> bool:
    """Return whether grades say no more than that one candidate is preferred: it has 1, the others have 0."""
    own = grades if type(grades) is tuple else list(grades)
    return own.count(1.0) == 1 and own.count(0.0) == len(own) - 1


@lru_cache(maxsize=1024)
def _one_hot(index: int, width: int) -> tuple[float, ...]:
    return tuple(float(other == index) for other in range(width))


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
        by_index = _one_hot(preferred, width)
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
        if own == () and type(index) is int and 0 <= index < width:
            object.__setattr__(self, "grades", _one_hot(index, width))
            return
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


TRAIT = "trait:"
"""What the name of a row's tag begins with that is a trait of its user."""
_LONGEST, _MOST = 60, 20
"""A trait forms groups where its values have at most so many characters, and people so many different values."""


class PanelJudgment(NamedTuple):
    """What one person said of a panel's candidates, by grades in the panel's order."""

    item: str
    person: str
    grades: tuple[float, ...]

    @property
    def picks(self) -> tuple[float, ...]:
        """One vote, shared by the candidates with the highest grade."""
        highest = max(self.grades)
        share = 1 / self.grades.count(highest)
        return tuple(share * (grade == highest) for grade in self.grades)


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of candidates for one prompt, and everybody's judgment of it; a person may have judged it twice."""

    prompt: str
    """As in `Item.crossed`."""
    candidates: tuple[str, ...]
    """Sorted: the same whatever order each person saw."""
    judgments: tuple[PanelJudgment, ...]

    @property
    def people(self) -> int:
        """How many different people judged."""
        return len({judgment.person for judgment in self.judgments})


def panels(items: Iterable[Any], who: Mapping[str, str]) -> list[Panel]:
    """Return the panels of the labelled items, in the order of their first items; `who` names a cluster's person."""
    groups: dict[tuple[str, tuple[str, ...]], list[PanelJudgment]] = defaultdict(list)
    for item in items:
        if item.grades:
            order = sorted(range(len(item.candidates)), key=item.candidates.__getitem__)
            grades = tuple(item.grades[index] for index in order)
            texts = tuple(item.candidates[index] for index in order)
            groups[item.crossed, texts].append(PanelJudgment(item.id, who[item.cluster], grades))
    return [Panel(*key, tuple(judgments)) for key, judgments in groups.items()]


def other_votes(items: Sequence[Any], who: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    """Return for each item how many other people prefer each candidate, in the item's own order.

    A person who judged twice has one vote, shared by what they preferred. An item that no one else judged is left out.
    """
    by_id = {item.id: item for item in items}
    votes: dict[str, tuple[float, ...]] = {}
    for panel in panels(items, who):
        judgments = sorted(panel.judgments, key=lambda judgment: judgment.person)
        by_person = {
            person: _mean([judgment.picks for judgment in own])
            for person, own in groupby(judgments, key=lambda judgment: judgment.person)
        }
        if len(by_person) < 2:
            continue
        total = [sum(column) for column in zip(*by_person.values(), strict=True)]
        for item, person, _ in panel.judgments:
            others = dict(zip(panel.candidates, map(float.__sub__, total, by_person[person]), strict=True))
            votes[item] = tuple(round(others[text], 9) for text in by_id[item].candidates)
    return votes


def _mean(votes: Sequence[tuple[float, ...]]) -> list[float]:
    return [sum(column) / len(votes) for column in zip(*votes, strict=True)]


def group_traits(users: Iterable[Any]) -> dict[str, dict[str, str]]:
    """Return by user id the traits by which people can be grouped, as tags: those of few and short values."""
    declared = {user.id: user.traits for user in users if user.traits}
    values: dict[str, set[str]] = defaultdict(set)
    for traits in declared.values():
        for name, value in traits.items():
            values[name].add(value)
    names = {name for name, own in values.items() if 1 < len(own) <= _MOST and max(map(len, own)) <= _LONGEST}
    return {
        user: {f"{TRAIT}{name}": value for name, value in traits.items() if name in names}
        for user, traits in declared.items()
    }

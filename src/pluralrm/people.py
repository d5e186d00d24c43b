"""Where people and items cross: who judged the same candidates, and which declared traits form groups."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

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

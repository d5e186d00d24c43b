"""Who judges what: every item by as many different annotators, everyone alike many, of all domains, with all others."""

import random
from collections import Counter
from collections.abc import Sequence

from pluralrm.core import Item
from pluralrm.errors import PlanError


def assigned(items: Sequence[Item], annotators: Sequence[str], each: int, *, seed: int) -> dict[str, list[Item]]:
    """Return everybody's items. Loads differ by one at most, unless items share their answers.

    Of those with the fewest items, the one with the fewest of the domain judges next, then who has judged least
    beside the item's other annotators, then by lot. Who has judged an item with the same four answers comes last.
    """
    if each > len(annotators):
        raise PlanError(
            f"{len(annotators)} annotators in an arm cannot judge each item {each} times; wanted {each} or more: "
            "raise --annotators, or lower --judgments"
        )
    if len(items) * each < len(annotators):
        raise PlanError(f"{len(items) * each} judgments for {len(annotators)} annotators: wanted one for each at least")
    desk = _Desk(annotators)
    for item in items:
        lot = random.Random(f"{seed}:{item.id}:annotators")
        judges: list[str] = []
        for _ in range(each):
            judges.append(desk.next(item, judges, lot))
            desk.give(item, judges[-1], judges[:-1])
    return desk.held


class _Desk:
    """What everybody has been given so far."""

    def __init__(self, annotators: Sequence[str]) -> None:
        self.held: dict[str, list[Item]] = {name: [] for name in annotators}
        self._domain: Counter[tuple[str, str]] = Counter()
        self._beside: Counter[frozenset[str]] = Counter()
        self._answers: set[tuple[str, str]] = set()

    def next(self, item: Item, judges: Sequence[str], lot: random.Random) -> str:
        free = [name for name in self.held if name not in judges]
        fresh = [name for name in free if (name, item.cluster) not in self._answers] or free
        least = min(len(self.held[name]) for name in fresh)
        idle = [name for name in fresh if len(self.held[name]) == least]
        lots = {name: lot.random() for name in idle}
        return min(
            idle,
            key=lambda name: (
                self._domain[name, item.domain],
                sum(self._beside[frozenset((name, judge))] for judge in judges),
                lots[name],
            ),
        )

    def give(self, item: Item, name: str, beside: Sequence[str]) -> None:
        self.held[name].append(item)
        self._domain[name, item.domain] += 1
        for judge in beside:
            self._beside[frozenset((name, judge))] += 1
        if len(item.candidates) > 2:
            self._answers.add((name, item.cluster))

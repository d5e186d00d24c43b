"""Who lends for `by=prompt`: another person whose texts are near to the question, and no one person to everybody.

A person who writes much is nearest to nearly every question. Were that person to lend for all of them, the comparison
would rest on the luck of one: see docs/design/conditions.md.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pluralrm.conditions.loans import Amount, Author, Shelf, shelf, shelves_by_domain, together
from pluralrm.core import Benchmark, Item, User, persons
from pluralrm.retrieval import Ranker

FloatArray = NDArray[np.float64]

FEWEST = 2
"""To how many others anybody may lend: with one, the last of a few on one subject would find no lender there."""
NEAREST = 64
"""How many of the nearest shelves are considered for a question: lending is spread over those, never beyond them."""
_STEPS = 2**40
"""Relevance is compared in this many steps, so that one sort of whole numbers orders the posts of all shelves."""


class Wish(NamedTuple):
    """A question, who asks it, and the nearest shelves that have enough, the nearest first."""

    item: str
    asker: str
    shelves: Sequence[int]
    nearness: Sequence[float]


@dataclass
class Nearest:
    """Who lends, item by item: a person whose posts, as many as will be shown, are near to the question.

    Anybody of the whole benchmark with enough to show may lend, but to no more other people than the person asks
    questions, or two; of all questions and shelves the nearest come first. Only where all of the NEAREST shelves of a
    question have lent as often do they lend again. The nearest of several equals is the first by id. Of labelled pairs
    the questions are compared.
    """

    benchmark: Benchmark
    most: Amount
    ranker: Ranker
    _shelves: list[Shelf] = field(init=False)
    _score: Callable[[str], FloatArray] = field(init=False)

    def __post_init__(self) -> None:
        known = dict.fromkeys(chain.from_iterable(shelves_by_domain(self.benchmark).values()))
        # A shelf that lies in several domains is one lender.
        unique = {(one.cluster, one.user): one for one in known}
        self._shelves = sorted(unique.values(), key=lambda one: (one.user.id, one.cluster))
        self._who = persons(self.benchmark.items)
        texts = [text for one in self._shelves for text in self._texts(one.user)]
        self._score = self.ranker.relevance(texts, [item.prompt for item in self.benchmark.items])
        self._amounts = np.array([one.amount(self.most) for one in self._shelves])
        self._persons = np.array([one.person for one in self._shelves])
        self._owners = np.repeat(np.arange(len(self._shelves)), [len(self._texts(one.user)) for one in self._shelves])
        self._is_pair = np.array([kind for one in self._shelves for kind in self._kinds(one.user)], bool)

    def author(self, item: Item) -> Author | None:
        """Return who lends to an item: one person, or the nearest few where no one has enough."""
        return None if item.user is None else self._authors[item.id]

    @cached_property
    def _authors(self) -> Mapping[str, Author]:
        """Who lends to each item of the benchmark."""
        found: dict[str, Author] = {}
        wishes: list[Wish] = []
        for item in sorted(self.benchmark.items, key=lambda item: item.id):
            mine = shelf(item)
            if mine is None:
                continue
            need, asker = mine.amount(self.most), self._who[mine.cluster]
            nearness = self._nearness(item.prompt, need)
            others = np.flatnonzero(self._persons != asker)
            order = others[np.argsort(-nearness[others], kind="stable")]
            enough = order[(self._amounts[order] >= np.array(need)).all(axis=1)][:NEAREST]
            if len(enough):
                wishes.append(Wish(item.id, asker, enough.tolist(), nearness[enough].tolist()))
            else:
                found[item.id] = together(need, (self._shelves[place] for place in order), self.most)
        for wish, place in spread(wishes, self._persons.tolist()):
            lender = self._shelves[place].user
            found[wish.item] = Author(lender, (lender.id,))
        return found

    def _nearness(self, question: str, need: Amount) -> FloatArray:
        """Return for each shelf the mean relevance of the texts that it would show: its best posts, its first pairs."""
        scores = self._score(question)
        least, most = float(scores.min()), float(scores.max())
        step = (most - least or 1.0) / _STEPS
        below = np.rint((most - scores) / step).astype(np.int64)
        # Shelves in order, each with its posts, best first, and then its pairs.
        segment = 2 * self._owners + self._is_pair
        ordered = np.sort(segment * (2 * _STEPS) + below)
        starts = np.maximum.accumulate(np.where(np.diff(segment, prepend=-1) != 0, np.arange(len(segment)), 0))
        kept = self._is_pair | (np.arange(len(segment)) - starts < max(need.posts, 1))
        sums = np.bincount(self._owners[kept], most - step * (ordered[kept] % (2 * _STEPS)), len(self._shelves))
        counts = np.bincount(self._owners[kept], minlength=len(self._shelves))
        return np.round(sums / np.maximum(counts, 1), 9)

    def _texts(self, user: User) -> list[str]:
        posts = [post.text for post in user.posts] if self.most.posts else []
        return [*posts, *(pair.prompt for pair in user.preferences[: self.most.pairs])]

    def _kinds(self, user: User) -> list[bool]:
        texts = self._texts(user)
        pairs = min(len(user.preferences), self.most.pairs)
        return [False] * (len(texts) - pairs) + [True] * pairs


def spread(wishes: Sequence[Wish], persons: Sequence[str]) -> Iterator[tuple[Wish, int]]:
    """Yield each wish with the place of the shelf that lends, where `persons` has whose each shelf is.

    A person lends to as many other people as the person has wishes (FEWEST or more), and to each for any number of
    questions; in another round to as many more, if the nearest shelves of some wish have all lent that often.
    """
    asks = Counter(wish.asker for wish in wishes)
    borrowers: dict[str, set[str]] = {person: set() for person in persons}
    waiting, rounds = list(wishes), 0
    while waiting:
        rounds += 1
        queue = [(-wish.nearness[0], number, 0) for number, wish in enumerate(waiting)]
        heapq.heapify(queue)
        unmet: list[int] = []
        while queue:
            _, number, rank = heapq.heappop(queue)
            wish = waiting[number]
            lender = persons[wish.shelves[rank]]
            known = borrowers[lender]
            if wish.asker in known or len(known) < rounds * max(asks[lender], FEWEST):
                known.add(wish.asker)
                yield wish, wish.shelves[rank]
            elif rank + 1 < len(wish.shelves):
                heapq.heappush(queue, (-wish.nearness[rank + 1], number, rank + 1))
            else:
                unmet.append(number)
        waiting = [waiting[number] for number in sorted(unmet)]

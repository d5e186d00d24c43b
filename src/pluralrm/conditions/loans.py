"""Who lends to whom: another person's posts and pairs, as many for each item as the item's own user would be shown.

A person is a cluster of items (`core.persons`). Posts and pairs belong to the item: one person may have asked several
questions, each with posts of its own and under a user id of its own. A *shelf* is what one item's user brings; items
with equal users share a shelf.

An own condition never depends on its controls: the control finds as much, or its rows show that it did not. See
docs/design/conditions.md for the alternatives.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from pluralrm.core import Benchmark, Item, User, persons


class Amount(NamedTuple):
    """How many posts and pairs: what a condition shows at most, or what a shelf can show of that."""

    posts: int
    pairs: int = 0

    def covers(self, need: "Amount") -> bool:
        """Return whether this is enough of both."""
        return self.posts >= need.posts and self.pairs >= need.pairs

    def plus(self, other: "Amount") -> "Amount":
        """Return both together."""
        return Amount(self.posts + other.posts, self.pairs + other.pairs)


class Author(NamedTuple):
    """Whose posts and pairs a query shows; `lenders` are the ids of those who lent them, none where they are own."""

    user: User
    lenders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shelf:
    """What one person brings to one or several items of a domain."""

    cluster: str
    domain: str
    user: User
    person: str = field(default="", compare=False)

    def amount(self, most: Amount) -> Amount:
        """Return how much of it a condition with these limits can show."""
        return Amount(min(len(self.user.posts), most.posts), min(len(self.user.preferences), most.pairs))


Lenders = Mapping[Shelf, Author]


def shelf(item: Item) -> Shelf | None:
    """Return the shelf of an item; None for an item without a user."""
    return None if item.user is None else Shelf(item.cluster, item.domain, item.user)


def shelves_by_domain(benchmark: Benchmark) -> dict[str, list[Shelf]]:
    """Return the shelves of each domain, in the order of their users' ids and not of the file."""
    found: dict[str, dict[Shelf, None]] = {domain: {} for domain in benchmark.domains}
    who = persons(benchmark.items)
    for item in sorted(benchmark.items, key=lambda item: item.id):
        if item.user is not None:
            found[item.domain].setdefault(Shelf(item.cluster, item.domain, item.user, who[item.cluster]))
    # Stable: shelves of one id keep the order of their items.
    return {domain: sorted(shelves, key=lambda one: (one.user.id, one.cluster)) for domain, shelves in found.items()}


def lonely(shelves: Mapping[str, Sequence[Shelf]]) -> list[str]:
    """Return the domains in which all shelves are one person's: there is no lender."""
    return [domain for domain, some in shelves.items() if len({one.person for one in some}) == 1]


def lenders(benchmark: Benchmark, most: Amount, seed: int) -> Lenders:
    """Return who lends to each shelf: another person of the domain with at least as much to show.

    The shelves of a domain are shuffled. Those that can show equally much stand in a ring and everyone gets the next,
    so each is used once and any other is as likely. Whom the ring would give to the same person gets the next in the
    shuffled order who has enough; where no one has, several lend together, those with the most first, of other domains
    last, by the domains' names.
    """
    everybody = shelves_by_domain(benchmark)
    found: dict[Shelf, Author] = {}
    for domain, shelves in everybody.items():
        order = list(shelves)
        random.Random(f"{seed}:{domain}").shuffle(order)
        levels: dict[Amount, list[Shelf]] = {}
        for one in order:
            levels.setdefault(one.amount(most), []).append(one)
        for level in levels.values():
            found.update({mine: Author(next_.user, (next_.user.id,)) for mine, next_ in _ring(level)})
        elsewhere = [one for other, some in sorted(everybody.items()) if other != domain for one in some]
        for place, one in enumerate(order):
            if one not in found:
                found[one] = _enough(one, [*order[place + 1 :], *order[:place]], elsewhere, most)
    return found


def _ring(level: Sequence[Shelf]) -> Iterator[tuple[Shelf, Shelf]]:
    """Yield each shelf with its lender, where that is another person's.

    Shelves of one person stand together and the ring is turned by the largest such group: a permutation in which no one
    lends to himself, wherever there is one (no person has more than half of the shelves).
    """
    groups: dict[str, list[Shelf]] = {}
    for one in level:
        groups.setdefault(one.person, []).append(one)
    together = list(chain.from_iterable(groups.values()))
    turn = max(map(len, groups.values()))
    for place, one in enumerate(together):
        lender = together[(place + turn) % len(together)]
        if lender.person != one.person:
            yield one, lender


def _enough(mine: Shelf, others: Sequence[Shelf], elsewhere: Sequence[Shelf], most: Amount) -> Author:
    """Return the first of the others who has enough, or several together."""
    need = mine.amount(most)
    strangers = [one for one in others if one.person != mine.person]
    for one in strangers:
        if one.amount(most).covers(need):
            return Author(one.user, (one.user.id,))
    strangers.sort(key=lambda one: sum(one.amount(most)), reverse=True)
    far = [one for one in elsewhere if one.person != mine.person]
    return together(need, [*strangers, *sorted(far, key=lambda one: sum(one.amount(most)), reverse=True)], most)


def together(need: Amount, strangers: Iterable[Shelf], most: Amount) -> Author:
    """Return the shelves joined until they can show as much as is needed, each for what it adds; an id names all."""
    joined: list[Shelf] = []
    total = Amount(0, 0)
    for one in strangers:
        added = one.amount(most)
        if total.covers(need):
            break
        if (added.posts and total.posts < need.posts) or (added.pairs and total.pairs < need.pairs):
            joined.append(one)
            total = total.plus(added)
    names = tuple(one.user.id for one in joined)
    posts = tuple(post for one in joined for post in one.user.posts)
    pairs = tuple(pair for one in joined for pair in one.user.preferences)
    return Author(User("+".join(names), posts, pairs), names)

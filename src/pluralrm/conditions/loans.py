"""Who lends to whom: another person's posts and pairs, as many for each item as the item's own user would be shown.

A person is a cluster of items (`core.persons`). Posts and pairs belong to the item: one person may have asked several
questions, each with posts of its own and under a user id of its own. A *shelf* is what one item's user brings; items
with equal users share a shelf.

`Nearest` lends for `by=prompt`: a person whose texts are near to the question, and no one person to everybody. Who
writes much is nearest to nearly every question, and were that person to lend for all of them, the comparison would rest
on the luck of one.

An own condition never depends on its controls: the control finds as much, or its rows show that it did not. See
docs/design/conditions.md for the alternatives.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from pluralrm.core import Benchmark, ContextPair, Item, Post, User, persons
from pluralrm.errors import ConditionError
from pluralrm.retrieval import Ranker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

T = TypeVar("T")


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

    def content(self, most: Amount) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Return the texts that a condition with these limits chooses from."""
        posts = tuple(post.text for post in self.user.posts) if most.posts else ()
        return posts, tuple(map(_TEXTS, self.user.preferences)) if most.pairs else ()

    def differs(self, other: "Shelf", most: Amount) -> bool:
        """Return whether it is another person's, with other texts where there are any: equal ones test nothing."""
        need = self.amount(most)
        if self.person == other.person or need != other.amount(most):
            return self.person != other.person
        return not any(need) or self.content(most) != other.content(most)


_TEXTS = attrgetter("prompt", "preferred", "other")
Lenders = Mapping[Shelf, Author]
LENT = "lent user"
"""What the card of a benchmark calls its clusters where another benchmark lent it the users."""


def lend_users(general: Benchmark, personal: Benchmark, *, seed: int = 0) -> Benchmark:
    """Return a benchmark without users, each record asked by a user of another benchmark, whose posts come with them.

    Records and users are shuffled by the seed and dealt out in turn, so that each user lends as often as any other; all
    records of one user are one cluster. Labels, candidates and their order stay as they are.
    """
    if any(item.user is not None for item in general.items):
        raise ConditionError(f"{general.card.name} has users of its own; wanted a general benchmark, without any")
    users = [user for user in sorted(personal.users, key=lambda user: user.id) if user.posts]
    if len(users) < 2:
        raise ConditionError(f"{personal.card.name} has {len(users)} users with posts to lend; wanted two or more")
    rng = random.Random(f"{seed}:lend")
    records = sorted({item.cluster for item in general.items})
    rng.shuffle(records)
    rng.shuffle(users)
    asker = {record: users[number % len(users)] for number, record in enumerate(records)}
    about = f"The users were lent by {personal.card.name}: each record is asked as if by one of them (seed {seed})."
    card = replace(
        general.card,
        name=f"{general.card.name}, users of {personal.card.name}",
        cluster=LENT,
        metrics=general.card.metrics[:1],  # others may be of records, which are no clusters any more
        notes=" ".join(filter(None, [general.card.notes, about])),
    )
    items = (replace(item, user=asker[item.cluster], cluster=asker[item.cluster].id) for item in general.items)
    return Benchmark(card, tuple(items), general.seed)


def shelf(item: Item) -> Shelf | None:
    """Return the shelf of an item; None for an item without a user."""
    return None if item.user is None else Shelf(item.cluster, item.domain, item.user)


def shelves_by_domain(benchmark: Benchmark) -> dict[str, list[Shelf]]:
    """Return the shelves of each domain, in the order of their users' ids and not of the file."""
    domains: dict[str, dict[Shelf, None]] = {domain: {} for domain in benchmark.domains}
    who = persons(benchmark.items)
    for item in sorted(benchmark.items, key=lambda item: item.id):
        if item.user is not None:
            domains[item.domain].setdefault(Shelf(item.cluster, item.domain, item.user, who[item.cluster]))
    # Stable: shelves of one id keep the order of their items.
    return {name: sorted(row, key=lambda shelf: (shelf.user.id, shelf.cluster)) for name, row in domains.items()}


def lonely(shelves: Mapping[str, Sequence[Shelf]]) -> list[str]:
    """Return the domains in which all shelves are one person's: there is no lender."""
    return [domain for domain, some in shelves.items() if len({shelf.person for shelf in some}) == 1]


def uniform(shelves: Mapping[str, Sequence[Shelf]], most: Amount) -> bool:
    """Return whether several people of a benchmark bring texts, and all of them the same: nothing is another's."""
    brought = [shelf for some in shelves.values() for shelf in some if any(shelf.amount(most))]
    return len({shelf.person for shelf in brought}) > 1 and len({shelf.content(most) for shelf in brought}) == 1


def lenders(benchmark: Benchmark, most: Amount, seed: int) -> Lenders:
    """Return who lends to each shelf: another person of the domain with at least as much to show.

    The shelves of a domain are shuffled. Those that can show equally much stand in a ring and everyone gets the next,
    so each is used once and any other is as likely. Whom the ring would give to the same person, or to someone with the
    same texts, gets the next in the shuffled order who has enough; where no one has, several lend together, those with
    the most first, of other domains last, by the domains' names.
    """
    everybody = shelves_by_domain(benchmark)
    authors: dict[Shelf, Author] = {}
    for domain, shelves in everybody.items():
        order = list(shelves)
        random.Random(f"{seed}:{domain}").shuffle(order)
        levels: dict[Amount, list[Shelf]] = {}
        for borrower in order:
            levels.setdefault(borrower.amount(most), []).append(borrower)
        for level in levels.values():
            loans = ring(level, attrgetter("person"))
            authors.update(
                {mine: Author(next_.user, (next_.user.id,)) for mine, next_ in loans if next_.differs(mine, most)}
            )
        elsewhere = [shelf for other, some in sorted(everybody.items()) if other != domain for shelf in some]
        for index, borrower in enumerate(order):
            if borrower not in authors:
                authors[borrower] = _enough(borrower, [*order[index + 1 :], *order[:index]], elsewhere, most)
    return authors


def ring(level: Sequence[T], group_of: Callable[[T], Hashable]) -> Iterator[tuple[T, T]]:
    """Yield each of them with its lender, where that is of another group: shelves of another person.

    Those of one group stand together and the ring is turned by the largest group: a permutation in which no group lends
    to itself, wherever there is one (no group has more than half of them).
    """
    groups: dict[Hashable, list[T]] = {}
    for borrower in level:
        groups.setdefault(group_of(borrower), []).append(borrower)
    together = list(chain.from_iterable(groups.values()))
    turn = max(map(len, groups.values()))
    for index, borrower in enumerate(together):
        lender = together[(index + turn) % len(together)]
        if group_of(lender) != group_of(borrower):
            yield borrower, lender


def _enough(mine: Shelf, others: Sequence[Shelf], elsewhere: Sequence[Shelf], most: Amount) -> Author:
    """Return the first of the others who has enough, or several together."""
    need = mine.amount(most)
    for stranger in others:
        if stranger.amount(most).covers(need) and stranger.differs(mine, most):
            return Author(stranger.user, (stranger.user.id,))
    strangers = [shelf for shelf in others if shelf.differs(mine, most)]
    strangers.sort(key=lambda shelf: sum(shelf.amount(most)), reverse=True)
    far = [shelf for shelf in elsewhere if shelf.differs(mine, most)]
    return together(need, [*strangers, *sorted(far, key=lambda shelf: sum(shelf.amount(most)), reverse=True)], most)


def together(need: Amount, strangers: Iterable[Shelf], most: Amount) -> Author:
    """Return the shelves joined until they can show as much as is needed, each for what it adds; an id names all."""
    joined: list[Shelf] = []
    total = Amount(0, 0)
    for stranger in strangers:
        added = stranger.amount(most)
        if total.covers(need):
            break
        if (added.posts and total.posts < need.posts) or (added.pairs and total.pairs < need.pairs):
            joined.append(stranger)
            total = total.plus(added)
    names = tuple(shelf.user.id for shelf in joined)
    posts = tuple(post for shelf in joined for post in shelf.user.posts)
    pairs = tuple(pair for shelf in joined for pair in shelf.user.preferences)
    return Author(User("+".join(names), posts, pairs), names)


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
    _score: "Callable[[str], FloatArray]" = field(init=False)

    def __post_init__(self) -> None:
        import numpy as np  # which naming a condition does not take

        shelves = dict.fromkeys(chain.from_iterable(shelves_by_domain(self.benchmark).values()))
        # A shelf that lies in several domains is one lender.
        unique = {(shelf.cluster, shelf.user): shelf for shelf in shelves}
        self._shelves = sorted(unique.values(), key=lambda shelf: (shelf.user.id, shelf.cluster))
        self._who = persons(self.benchmark.items)
        texts = [text for shelf in self._shelves for text in self._texts(shelf.user)]
        self._score = self.ranker.relevance(texts, [item.prompt for item in self.benchmark.items])
        self._amounts = np.array([shelf.amount(self.most) for shelf in self._shelves])
        self._persons = np.array([shelf.person for shelf in self._shelves])
        codes = {content: code for code, content in enumerate({each.content(self.most) for each in self._shelves})}
        self._codes, self._contents = codes, np.array([codes[each.content(self.most)] for each in self._shelves])
        lengths = [len(self._texts(shelf.user)) for shelf in self._shelves]
        self._owners = np.repeat(np.arange(len(lengths)), lengths)
        self._is_pair = np.array([kind for shelf in self._shelves for kind in self._kinds(shelf.user)], bool)

    def author(self, item: Item) -> Author | None:
        """Return who lends to an item: one person, or the nearest few where no one has enough."""
        return None if item.user is None else self._authors[item.id]

    @cached_property
    def _authors(self) -> Mapping[str, Author]:
        """Who lends to each item of the benchmark."""
        import numpy as np  # which naming a condition does not take

        authors: dict[str, Author] = {}
        wishes: list[Wish] = []
        for item in sorted(self.benchmark.items, key=lambda item: item.id):
            mine = shelf(item)
            if mine is None:
                continue
            need, asker = mine.amount(self.most), self._who[mine.cluster]
            nearness = self._nearness(item.prompt, need)
            strange = self._contents != (self._codes[mine.content(self.most)] if any(need) else -1)
            others = np.flatnonzero(strange & (self._persons != asker))
            order = others[np.argsort(-nearness[others], kind="stable")]
            enough = order[(self._amounts[order] >= np.array(need)).all(axis=1)][:NEAREST]
            if len(enough):
                wishes.append(Wish(item.id, asker, enough.tolist(), nearness[enough].tolist()))
            else:
                authors[item.id] = together(need, (self._shelves[index] for index in order), self.most)
        for wish, index in spread(wishes, self._persons.tolist()):
            lender = self._shelves[index].user
            authors[wish.item] = Author(lender, (lender.id,))
        return authors

    def _nearness(self, question: str, need: Amount) -> "FloatArray":
        """Return for each shelf the mean relevance of the texts that it would show: its best posts, its first pairs."""
        import numpy as np  # which naming a condition does not take

        scores = self._score(question)
        least, most = float(scores.min()), float(scores.max())
        step = (most - least or 1.0) / _STEPS
        below = np.rint((most - scores) / step).astype(np.int64)
        # Shelves in order, each with its posts, best first, and then its pairs.
        segment = 2 * self._owners + self._is_pair
        ordered = np.sort(segment * (2 * _STEPS) + below)
        starts = np.maximum.accumulate(np.where(np.diff(segment, prepend=-1) != 0, np.arange(len(segment)), 0))
        mask = self._is_pair | (np.arange(len(segment)) - starts < max(need.posts, 1))
        sums = np.bincount(self._owners[mask], most - step * (ordered[mask] % (2 * _STEPS)), len(self._shelves))
        counts = np.bincount(self._owners[mask], minlength=len(self._shelves))
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
            served = borrowers[lender]
            if wish.asker in served or len(served) < rounds * max(asks[lender], FEWEST):
                served.add(wish.asker)
                yield wish, wish.shelves[rank]
            elif rank + 1 < len(wish.shelves):
                heapq.heappush(queue, (-wish.nearness[rank + 1], number, rank + 1))
            else:
                unmet.append(number)
        waiting = [waiting[number] for number in sorted(unmet)]


# ---------------------------------------------------------------- several lend at once


class LendingPerson(Protocol):
    """Whatever stands for one person."""

    @property
    def person(self) -> str:
        """Whose it is."""


L = TypeVar("L", bound=LendingPerson)


class LeastLent(Generic[L]):
    """Possible lenders: those who have lent least come first, then in the order given."""

    def __init__(self, members: Sequence[L], times: Counter[str]) -> None:
        self._members, self._times = members, times
        self._heap = [(times[member.person], index) for index, member in enumerate(members)]
        heapq.heapify(self._heap)

    def take(self, least: int, lends: Callable[[L], bool], enough: Callable[[], bool] = lambda: True) -> list[L]:
        """Return at least so many who lend, more until it is `enough`; all of them where there are too few."""
        lenders: list[L] = []
        passed: list[tuple[int, int]] = []
        while self._heap and not (len(lenders) >= least and enough()):
            count, index = heapq.heappop(self._heap)
            member = self._members[index]
            if count < self._times[member.person]:  # who lent elsewhere in the meantime stands further back
                heapq.heappush(self._heap, (self._times[member.person], index))
                continue
            if lends(member):
                self._times[member.person] += 1
                lenders.append(member)
            passed.append((self._times[member.person], index))
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return lenders


class Lender(NamedTuple):
    """One person, and everything that they wrote and preferred under any user id."""

    person: str
    user: str
    posts: tuple[Post, ...]
    pairs: tuple[ContextPair, ...]
    values: frozenset[tuple[str, ...]]
    """What they declared of the traits by which people are grouped; several where their ids differ."""


class GroupLoan(NamedTuple):
    """What several people lend to one user: posts to rank, pairs in order, and whose each of them is."""

    posts: tuple[Post, ...]
    pairs: tuple[ContextPair, ...]
    owners: Mapping[Post | ContextPair, str]


class Pile:
    """What several people lend to one borrower: each text once, none of the borrower's, no pair about their questions.

    A pair of others on a question that the borrower is asked would be a label of that item. Pairs that the borrower has
    as context may be lent: leaving out those of others who agree would show the borrower's group as more unlike them.
    """

    def __init__(self, borrower: Lender, questions: AbstractSet[str]) -> None:
        self.lenders: list[Lender] = []
        self._borrower, self._questions = borrower.person, questions
        self._texts = {post.text for post in borrower.posts}
        self._posts: list[list[Post]] = []
        self._pairs: list[list[ContextPair]] = []

    @property
    def amount(self) -> Amount:
        """How many posts and pairs there are."""
        return Amount(sum(map(len, self._posts)), sum(map(len, self._pairs)))

    def covers(self, need: Amount) -> bool:
        """Return whether there are enough of both."""
        return self.amount.covers(need)

    def add(self, lender: Lender) -> bool:
        """Take what a person can lend; False where there is nothing."""
        posts = [post for post in lender.posts if post.text not in self._texts]
        pairs = [pair for pair in lender.pairs if self._questions.isdisjoint({pair.prompt, pair.preferred, pair.other})]
        if lender.person == self._borrower or not (posts or pairs):
            return False
        self.lenders.append(lender)
        self._texts.update(post.text for post in posts)
        self._posts.append(posts)
        self._pairs.append(pairs)
        return True

    def dealt(self, need: Amount, seed: str) -> GroupLoan:
        """Return as much as is needed, from the lenders in turn: their posts by lot, their pairs in order."""
        rng = random.Random(seed)
        drawn = [rng.sample(posts, len(posts)) for posts in self._posts]
        posts = [post for turn in zip_longest(*drawn) for post in turn if post is not None][: need.posts]
        pairs = [pair for turn in zip_longest(*self._pairs) for pair in turn if pair is not None][: need.pairs]
        owners: dict[Post | ContextPair, str] = {}
        for lender, of_posts, of_pairs in zip(self.lenders, drawn, self._pairs, strict=True):
            owners.update(dict.fromkeys(chain(of_posts, of_pairs), lender.user))
        return GroupLoan(tuple(posts), tuple(pairs), owners)

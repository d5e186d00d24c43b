"""Conditions on what people declared of themselves: their traits as text, and what others of the same trait wrote.

`traits` shows a user's declared traits. Its controls: another person's (`of=swapped`), who differs in at least one of
them and lends the same names; and the user's own with another value of the trait that matters least (`of=least`), a
swap that must not matter.

`group:K` shows posts, or labelled pairs, of other people who share a trait; `of=outside` those of as many people who do
not. A user's posts are compared with as many that were chosen in the same way: K of a pool as large as the user's own,
dealt in turn from several people, ranked for the prompt. Those who have lent least lend first.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pluralrm.conditions.loans import Amount, Author, GroupLoan, LeastLent, Lender, Pile, ring
from pluralrm.conditions.posts import allowed_query, needs_posts, with_posts
from pluralrm.core import Benchmark, ContextPair, Item, Post, Query, Reveals, User, UserView, persons
from pluralrm.errors import ConditionError, SpecError, did_you_mean
from pluralrm.labels import TRAIT
from pluralrm.retrieval import Ranker, Ranking, parse_ranking
from pluralrm.specs import Spec, whole_number

LEAST = "least_important"
"""The trait that names which of a person's traits matters least to them: it is about traits, and is never shown."""
TraitOwner = Literal["own", "swapped", "least"]
TRAIT_KEYS = ("least", "of", "seed")
GROUP_KEYS = ("of", "pairs", "trait")

Traits = tuple[tuple[str, str], ...]
"""Names and values in the order in which the user declared them."""


def trait_names(text: str) -> tuple[str, ...]:
    """Return the names in `age+religion`, sorted; a `+` inside a name is written %2B."""
    names = [name.strip().replace("%2B", "+") for name in text.split("+")] if text else []
    if not all(names):
        raise SpecError(f"traits: found {text!r}, wanted names with a + between them, as in age+religion")
    return tuple(sorted(set(names)))


def _joined(names: Iterable[str]) -> str:
    return "+".join(name.replace("+", "%2B") for name in names)


def _declared(benchmark: Benchmark) -> list[str]:
    """Return the names of all traits that users declare."""
    users = (item.user for item in benchmark.items if item.user is not None)
    return sorted({name for user in users for name in user.traits} - {LEAST})


def _unknown(benchmark: Benchmark, names: Iterable[str]) -> str | None:
    """Return that users declare no traits, or not these, with the nearest that they do declare."""
    declared = _declared(benchmark)
    if not declared:
        return f"{benchmark.card.name} has no declared traits of its users"
    for name in names:
        if name not in declared:
            return f"{benchmark.card.name}: no user declares the trait {name!r}.{did_you_mean(name, declared)}"
    return None


# ---------------------------------------------------------------- traits as text


class TraitLoan(NamedTuple):
    """The traits that are lent, under the borrower's names, and by whom."""

    traits: Traits
    lenders: tuple[str, ...] = ()


class TraitHolder(NamedTuple):
    """What one person declared, under one user id."""

    person: str
    user: str
    traits: Traits

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the traits."""
        return tuple(name for name, _ in self.traits)

    def of(self, names: Sequence[str]) -> Traits:
        """Return the traits of these names, in their order; those that are not declared are missing."""
        values = dict(self.traits)
        return tuple((name, values[name]) for name in names if name in values)


@dataclass(frozen=True, slots=True)
class DeclaredTraits:
    """The traits that a user declared: all, or those of `names`.

    `swapped` has those of another person, for each of the user's names that person's value. `least` has the user's own
    but one: the trait `least`, or else the one that the user declares to matter least, has another person's value. A
    user without it keeps what they declared.
    """

    names: tuple[str, ...] = ()
    of: TraitOwner = "own"
    least: str = ""
    seed: int = 0

    @property
    def spec(self) -> str:
        """The canonical string: everything that is not the default."""
        stated = {"of": self.of.removeprefix("own"), "least": self.least, "seed": str(self.seed or "")}
        return str(Spec("traits", _joined(self.names), {key: value for key, value in stated.items() if value}))

    @property
    def reveals(self) -> frozenset[Reveals]:
        """Whose traits."""
        if self.of == "least":
            return frozenset({"traits", "other_traits"})
        return frozenset({"traits" if self.of == "own" else "other_traits"})

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not: no such traits, no other person who differs, or none declared to matter least."""
        name = benchmark.card.name
        if (reason := _unknown(benchmark, [*self.names, *filter(None, [self.least])])) is not None:
            return reason
        if self.of == "own":
            return None
        declarations = self._declarations(benchmark)
        if self.of == "swapped":
            return None if self._lent(declarations) else f"{self.spec} needs two people of {name} who differ in a trait"
        swaps = {least for least in map(self._least, benchmark.users) if least}
        if not swaps:
            names = ", ".join(_declared(benchmark))
            return (
                f"{self.spec}: no user of {name} declares which trait matters least (a trait {LEAST!r}); name it, as "
                f"in least=NAME, with one of {names}"
            )
        if not any(self._lent(_narrowed(declarations, least)) for least in swaps):
            return f"{self.spec} needs two people of {name} who differ in {' or '.join(sorted(swaps))}"
        return None

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item; an item without a user, or to whom nothing is lent, gets none."""
        if (reason := self.unsupported(benchmark)) is not None:
            raise ConditionError(reason)
        loan_of = self._loans(benchmark)
        for item in items:
            loan = None if item.user is None else loan_of(item, item.user)
            if item.user is None or loan is None or (self.of == "swapped" and not loan.lenders):
                yield allowed_query(item)
                continue
            name = "+".join(loan.lenders) if self.of == "swapped" else item.user.id
            yield allowed_query(item, UserView(name, traits=dict(loan.traits), lenders=loan.lenders))

    def _shown(self, user: User) -> Traits:
        return tuple(
            (name, value)
            for name, value in user.traits.items()
            if name != LEAST and (not self.names or name in self.names)
        )

    def _least(self, user: User) -> str:
        """Return the name of the shown trait that matters least; empty where none is declared."""
        least = self.least or user.traits.get(LEAST, "")
        return least if least in dict(self._shown(user)) else ""

    def _declarations(self, benchmark: Benchmark) -> list[TraitHolder]:
        """Return what people declare of the shown traits, each different one of a person once, by user id."""
        who = persons(benchmark.items)
        stands = {(who[item.cluster], item.user.id, self._shown(item.user)) for item in benchmark.items if item.user}
        declarations: dict[tuple[str, Traits], TraitHolder] = {}
        for person, user, traits in sorted(stands, key=lambda each: (each[1], each[2])):
            declarations.setdefault((person, traits), TraitHolder(person, user, traits))
        return [each for each in declarations.values() if each.traits]

    def _lent(self, declarations: Sequence[TraitHolder]) -> dict[tuple[str, Traits], TraitLoan]:
        return trait_loans(declarations, self.seed)

    def _loans(self, benchmark: Benchmark) -> Callable[[Item, User], TraitLoan]:
        """Return what an item's user is shown."""
        if self.of == "own":
            return lambda _item, user: TraitLoan(self._shown(user))
        who, declarations = persons(benchmark.items), self._declarations(benchmark)
        if self.of == "swapped":
            lent = self._lent(declarations)
            return lambda item, user: lent.get((who[item.cluster], self._shown(user)), TraitLoan(()))
        by_name = {
            name: self._lent(_narrowed(declarations, name))
            for name in sorted({least for least in map(self._least, benchmark.users) if least})
        }

        def with_swap(item: Item, user: User) -> TraitLoan:
            own, least = self._shown(user), self._least(user)
            only = tuple(each for each in own if each[0] == least)
            loan = by_name.get(least, {}).get((who[item.cluster], only), TraitLoan(()))
            values = dict(own) | dict(loan.traits)
            return TraitLoan(tuple(values.items()), loan.lenders)

        return with_swap


def _narrowed(declarations: Iterable[TraitHolder], name: str) -> list[TraitHolder]:
    """Return what people declare of one trait, each different value of a person once."""
    values = {(each.person, each.of([name])): each for each in reversed(list(declarations)) if name in each.names}
    rows = [each._replace(traits=traits) for (_, traits), each in values.items()]
    return sorted(rows, key=lambda each: (each.user, each.traits))


def trait_loans(declarations: Sequence[TraitHolder], seed: int) -> dict[tuple[str, Traits], TraitLoan]:
    """Return by person and declared traits what another person lends, who differs in at least one of them.

    Those who declare the same names stand in a shuffled ring, equal declarations side by side, and it is turned by the
    largest such group: each lends once wherever no declaration is that of more than half. Whom the ring would give an
    equal declaration, or their own, borrows from the person who has lent least; if none has all the names, several
    lend. Where no other person differs nothing is lent.
    """
    order = list(declarations)
    random.Random(f"{seed}:traits").shuffle(order)
    levels: dict[tuple[str, ...], list[TraitHolder]] = {}
    for declaration in order:
        levels.setdefault(tuple(sorted(declaration.names)), []).append(declaration)
    loans: dict[tuple[str, Traits], TraitLoan] = {}
    times: Counter[str] = Counter()
    for level in levels.values():
        for mine, lender in ring(level, lambda each: tuple(sorted(each.traits))):
            if mine.person != lender.person:
                times[lender.person] += 1
                loans[mine.person, mine.traits] = TraitLoan(lender.of(mine.names), (lender.user,))
    without: dict[Traits, list[TraitHolder]] = defaultdict(list)
    for mine in order:
        if (mine.person, mine.traits) not in loans:
            without[mine.traits].append(mine)
    for traits, borrowers in without.items():
        names = borrowers[0].names
        differing = [each for each in order if each.of(names) not in ((), traits)]
        whole = LeastLent([each for each in differing if len(each.of(names)) == len(names)], times)
        for mine in borrowers:
            lenders = whole.take(1, lambda each, mine=mine: each.person != mine.person)  # type: ignore[misc]
            loan = TraitLoan(lenders[0].of(names), (lenders[0].user,)) if lenders else _pieced(mine, order, times)
            if loan.lenders:
                loans[mine.person, mine.traits] = loan
    return loans


def _pieced(mine: TraitHolder, order: Sequence[TraitHolder], times: Counter[str]) -> TraitLoan:
    """Return for each name another person's value, a different one where there is one; nothing if none differs."""
    values, lenders = [], []
    for name, value in mine.traits:
        others = [each for each in order if each.person != mine.person and name in each.names]
        differing = [each for each in others if each.of([name]) != ((name, value),)]
        if others:
            lender = min(differing or others, key=lambda each: times[each.person])
            values.append(lender.of([name])[0])
            lenders.append(lender)
    if not set(values) - set(mine.traits):
        return TraitLoan(())
    times.update({lender.person for lender in lenders})
    return TraitLoan(tuple(values), tuple(dict.fromkeys(lender.user for lender in lenders)))


# ---------------------------------------------------------------- what others of the group wrote

Group = Literal["group", "outside"]


@dataclass(frozen=True, slots=True)
class GroupTexts:
    """At most `posts` posts and `pairs` labelled pairs of other people who share a trait, or of as many who do not.

    Of several traits all are shared, or not all. As many as the item's own user would be shown. Nothing is shown of
    the user: no post with a text of theirs, no pair about a question that they are asked.
    """

    posts: int
    pairs: int = 0
    trait: tuple[str, ...] = ()
    of: Group = "group"
    ranking: Ranking = field(default_factory=Ranking)
    seed: int = 0
    cache: Path | None = None

    @property
    def spec(self) -> str:
        """The canonical string: everything that is not the default."""
        stated = {
            "of": self.of.removeprefix("group"),
            "pairs": str(self.pairs or ""),
            "seed": str(self.seed or ""),
            "trait": _joined(self.trait),
        }
        options = {key: value for key, value in stated.items() if value}
        return str(Spec("group", str(self.posts), {**self.ranking.options, **options}))

    @property
    def identity(self) -> Mapping[str, str]:
        """Which embedding model ordered the posts, if one did."""
        return Ranker(self.ranking, cache=self.cache).identity if self.posts else {}

    @property
    def reveals(self) -> frozenset[Reveals]:
        """Posts or pairs of others."""
        posts: set[Reveals] = {"other_posts"} if self.posts else set()
        pairs: set[Reveals] = {"other_pairs"} if self.pairs else set()
        return frozenset(posts | pairs)

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not: nothing to lend, no such trait, several to choose from, or no other people in a group."""
        name = benchmark.card.name
        if self.posts and (reason := needs_posts(benchmark)) is not None:
            return reason
        if self.pairs and not any(user.preferences for user in benchmark.users):
            return f"{name} has no labelled pairs of its users; 'pluralrm construct pairs' makes some"
        if (reason := _unknown(benchmark, self.trait)) is not None:
            return reason
        if not self.trait and len(groups := _grouping(benchmark)) != 1:
            names = f"name one, as in trait={groups[0]}: {', '.join(groups)}" if groups else "no trait forms groups"
            return f"{self.spec}: {name} has {len(groups)} traits that form groups; {names}"
        declared = Counter(lender.values for lender in self._lenders(benchmark) if lender.values)
        pairs = [*combinations(declared, 2), *((values, values) for values, people in declared.items() if people > 1)]
        if any(bool(mine & other) == (self.of == "group") for mine, other in pairs):
            return None
        who = "share" if self.of == "group" else "differ in"
        return f"{self.spec} needs two people of {name} who {who} {_joined(self.trait) or _grouping(benchmark)[0]}"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item with what is lent to its user, under an id that is no user's.

        An item without a user, and one whose user has no such trait or no one to borrow from, gets no user.
        """
        if (reason := self.unsupported(benchmark)) is not None:
            raise ConditionError(reason)
        loans, ranker = self._loans(benchmark), Ranker(self.ranking, cache=self.cache)

        def author(item: Item) -> Author | None:
            loan = None if item.user is None else loans.get((item.cluster, item.user))
            return None if loan is None else Author(User(f"{self.of}:{item.id}", loan.posts))

        for item, query in zip(items, with_posts(items, author, ranker, self.posts), strict=True):
            if item.user is None or query.user is None:
                yield query
                continue
            loan = loans[item.cluster, item.user]
            texts: tuple[Post | ContextPair, ...] = (*query.user.posts, *loan.pairs)
            owners = dict.fromkeys(loan.owners[each] for each in texts)
            yield replace(query, user=replace(query.user, pairs=loan.pairs, lenders=tuple(owners)))

    def _lenders(self, benchmark: Benchmark) -> list[Lender]:
        """Return every person with all that they wrote, preferred and declared, by their first user ids."""
        names, who = self.trait or tuple(_grouping(benchmark)), persons(benchmark.items)
        users: dict[str, dict[User, None]] = defaultdict(dict)
        for item in sorted(benchmark.items, key=_id):
            if item.user is not None:
                users[who[item.cluster]][item.user] = None
        lenders = []
        for person, own in users.items():
            stands = sorted(own, key=lambda user: user.id)
            texts = {post.text: post for user in stands for post in user.posts if self.posts}
            posts = tuple(sorted(texts.values(), key=lambda post: (post.id, post.text)))
            pairs = tuple(dict.fromkeys(pair for user in stands for pair in user.preferences if self.pairs))
            values = (tuple(user.traits[name] for name in names if name in user.traits) for user in stands)
            whole = frozenset(each for each in values if len(each) == len(names))
            lenders.append(Lender(person, stands[0].id, posts, pairs, whole))
        return sorted(lenders, key=lambda lender: lender.user)

    def _loans(self, benchmark: Benchmark) -> dict[tuple[str, User], GroupLoan]:
        """Return what is lent to the user of each cluster, whatever items are scored."""
        who, lenders = persons(benchmark.items), self._lenders(benchmark)
        by_person = {lender.person: lender for lender in lenders}
        questions: dict[str, set[str]] = defaultdict(set)
        for item in benchmark.items:
            questions[who[item.cluster]].update([item.prompt, *item.candidates])
        order = [each for each in lenders if each.posts or each.pairs]
        random.Random(f"{self.seed}:group").shuffle(order)
        times: Counter[str] = Counter()
        members: dict[frozenset[tuple[str, ...]], tuple[list[Lender], LeastLent[Lender]]] = {}
        loans: dict[tuple[str, User], GroupLoan] = {}
        stands = {(item.cluster, item.user): None for item in sorted(benchmark.items, key=_id) if item.user is not None}
        for cluster, user in sorted(stands, key=lambda stand: (stand[1].id, stand[0])):
            mine = by_person[who[cluster]]
            if mine.values not in members:
                group = [each for each in order if mine.values & each.values]
                outside = [each for each in order if mine.values and each.values and not mine.values & each.values]
                members[mine.values] = group, LeastLent(group if self.of == "group" else outside, times)
            group, queue = members[mine.values]
            need = Amount(len(user.posts) * bool(self.posts), min(self.pairs, len(user.preferences)))
            if self.of == "outside":  # no more than the group has, so that the two differ in the trait alone
                most = Pile(mine, questions[mine.person])
                for each in group:
                    if most.covers(need):
                        break
                    most.add(each)
                need = Amount(*map(min, most.amount, need))
            people = len(group) - bool(mine.posts or mine.pairs)
            pile = Pile(mine, questions[mine.person])
            queue.take(min(people, max(self.posts, self.pairs), max(need)), pile.add, partial(pile.covers, need))
            if pile.lenders or not any(need):
                loans[cluster, user] = pile.dealt(need, f"{self.seed}:{user.id}")
        return loans


def _id(item: Item) -> str:
    return item.id


# ---------------------------------------------------------------- from a spec to a condition


def open_traits(spec: Spec) -> DeclaredTraits:
    """Return the condition of `traits[:NAME+NAME][,of=swapped|least][,least=NAME][,seed=N]`."""
    names, of, least = trait_names(spec.target), _choice(spec, get_args(TraitOwner)), spec.options.get("least", "")
    if least and of != "least":
        raise SpecError("traits: least= has a meaning only with of=least")
    if least and names and least not in names:
        raise SpecError(f"traits: least is {least!r}, and shown are {', '.join(names)}.{did_you_mean(least, names)}")
    if of == "own" and "seed" in spec.options:
        raise SpecError("traits: seed= has a meaning only with of=swapped or of=least")
    return DeclaredTraits(names, of, least, spec.integer("seed", 0))  # type: ignore[arg-type]


def open_group(spec: Spec, cache: Path | None) -> GroupTexts:
    """Return the condition of `group:K[,trait=NAME+NAME][,pairs=N][,of=outside][,by=...][,seed=N]`."""
    pairs = spec.integer("pairs", 0)
    posts = whole_number(spec.target, "group:K", least=0 if pairs else 1)
    return GroupTexts(
        posts,
        pairs,
        trait_names(spec.options.get("trait", "")),
        _choice(spec, get_args(Group)),  # type: ignore[arg-type]
        parse_ranking(spec, seeded=True),
        spec.integer("seed", 0),
        cache,
    )


def _choice(spec: Spec, choices: Sequence[str]) -> str:
    """Return whose texts or traits are shown: the first choice by default."""
    of = spec.options.get("of", choices[0])
    if of not in choices:
        raise SpecError(f"{spec.kind}: of is {of!r}; wanted {', '.join(choices)}.{did_you_mean(of, choices)}")
    return of


def _grouping(benchmark: Benchmark) -> list[str]:
    """Return the names of the traits that form groups."""
    tags = {tag for traits in benchmark.group_traits.values() for tag in traits}
    return sorted({tag.removeprefix(TRAIT) for tag in tags} - {LEAST})

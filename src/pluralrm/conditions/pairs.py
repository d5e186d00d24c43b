"""Conditions that show labelled pairs: the user's own, another user's, or the user's own with labels given by a coin.

The last two are controls: what a model gains by the right pairs, and by true labels, is measured against them.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from pluralrm.conditions.loans import Amount, Author, Nearest, Shelf, lonely, shelves_by_domain, uniform
from pluralrm.conditions.posts import (
    everywhere,
    lending_options,
    needs_posts,
    nobody_else,
    nothing_else,
    own,
    parse_lending,
    partners,
    with_posts,
)
from pluralrm.core import Benchmark, Condition, ContextPair, Item, Query, Reveals, User, persons
from pluralrm.errors import BenchmarkError, ConditionError, SpecError, did_you_mean
from pluralrm.retrieval import Ranker, Ranking, parse_ranking
from pluralrm.specs import Spec, whole_number

Whose = Literal["own", "swapped"]
Labels = Literal["true", "shuffled"]
KEYS = ("labels", "of", "posts")


@dataclass(frozen=True, slots=True)
class LabelledPairs:
    """At most `pairs` context pairs of a user, the first, and at most `posts` of the same user's posts, ranked."""

    pairs: int
    of: Whose = "own"
    labels: Labels = "true"
    posts: int = 0
    ranking: Ranking = field(default_factory=Ranking)
    seed: int = 0
    cache: Path | None = None
    by_prompt: bool = False

    @property
    def spec(self) -> str:
        """The canonical string: everything that is not the default."""
        stated = {
            "labels": (self.labels, "true"),
            "of": (self.of, "own"),
            "posts": (str(self.posts), "0"),
            "seed": (str(self.seed), "0"),
        }
        options = {key: value for key, (value, default) in stated.items() if value != default}
        ranked = lending_options(self.ranking, by_prompt=self.by_prompt)
        return str(Spec("pairs", str(self.pairs), {**ranked, **options}))

    @property
    def identity(self) -> Mapping[str, str]:
        """Which embedding model ordered the posts, if one did."""
        return Ranker(self.ranking, cache=self.cache).identity if self.posts or self.by_prompt else {}

    @property
    def reveals(self) -> frozenset[Reveals]:
        """Whose pairs, with which labels, and whose posts."""
        pairs: Reveals = "false_pairs" if self.labels == "shuffled" else "pairs" if self.of == "own" else "other_pairs"
        posts: Reveals = "posts" if self.of == "own" else "other_posts"
        return frozenset({pairs, posts}) if self.posts else frozenset({pairs})

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not: no pairs, no posts where some are asked for, or no other user to swap with."""
        if not any(user.preferences for user in benchmark.users):
            return f"{benchmark.card.name} has no labelled pairs of its users; 'pluralrm construct pairs' makes some"
        if self.posts and (reason := needs_posts(benchmark)) is not None:
            return reason
        if self.of == "own":
            return None
        shelves = _with_pairs(benchmark)
        if uniform(shelves, Amount(self.posts, self.pairs)):
            return nothing_else(self.spec, benchmark, "pairs")
        alone = lonely(everywhere(shelves) if self.by_prompt else shelves)
        return nobody_else(self.spec, benchmark, alone, " with pairs")

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item; an item without a user gets none, a user without pairs is shown without any.

        Never more pairs than the item's own user has: conditions that differ in the lender alone show equally many.
        """
        if (reason := self.unsupported(benchmark)) is not None:
            raise ConditionError(reason)
        ranker, most = Ranker(self.ranking, cache=self.cache), Amount(self.posts, self.pairs)
        author: Callable[[Item], Author | None] = own
        if self.of == "swapped":
            author = Nearest(benchmark, most, ranker).author if self.by_prompt else partners(benchmark, most, self.seed)
        for item, query in zip(items, with_posts(items, author, ranker, self.posts), strict=True):
            yield self._with_pairs(item, author(item), query)

    def _with_pairs(self, item: Item, author: Author | None, query: Query) -> Query:
        if item.user is None or author is None or query.user is None:
            return query
        pairs = author.user.preferences[: min(self.pairs, len(item.user.preferences))]
        if self.labels == "shuffled":
            seed = f"{self.seed}:{author.user.id}"
            pairs = tuple(_tossed(pair, random.Random(f"{seed}:{pair.id}")) for pair in pairs)
        return replace(query, user=replace(query.user, pairs=pairs))


def open_pairs(spec: Spec, cache: Path | None) -> LabelledPairs:
    """Return the condition of `pairs:N[,of=swapped[,by=prompt]][,labels=shuffled][,posts=K][,by=...][,seed=N]`."""
    of, labels = spec.options.get("of", "own"), spec.options.get("labels", "true")
    for key, value, choices in (("of", of, ("own", "swapped")), ("labels", labels, ("true", "shuffled"))):
        if value not in choices:
            raise SpecError(f"pairs: {key} is {value!r}; wanted {' or '.join(choices)}.{did_you_mean(value, choices)}")
    controlled = of == "swapped" or labels == "shuffled"
    if of == "swapped" and labels == "shuffled":
        raise SpecError("pairs: of=swapped and labels=shuffled are two controls; take one at a time")
    posts = spec.integer("posts", 0)
    ranking, by_prompt = parse_lending(spec) if of == "swapped" else (None, False)
    for key in ("by", "mmr", "pooling", "similarity"):
        if key in spec.options and not (posts or by_prompt):
            raise SpecError(f"pairs: {key}= has a meaning only with posts=K")
    ranking = ranking or parse_ranking(spec, seeded=controlled)
    seed = spec.integer("seed", 0) if controlled and not by_prompt else 0
    return LabelledPairs(
        whole_number(spec.target, "pairs:N", least=1),
        of,  # type: ignore[arg-type]
        labels,  # type: ignore[arg-type]
        posts,
        ranking,
        seed,
        cache,
        by_prompt,
    )


def _with_pairs(benchmark: Benchmark) -> dict[str, list[Shelf]]:
    """Return the shelves of each domain that have pairs."""
    return {
        domain: owners
        for domain, shelves in shelves_by_domain(benchmark).items()
        if (owners := [shelf for shelf in shelves if shelf.user.preferences])
    }


def _tossed(pair: ContextPair, rng: random.Random) -> ContextPair:
    return pair if rng.random() < 0.5 else replace(pair, preferred=pair.other, other=pair.preferred)


Source = Literal["pairs", "items"]
SOURCES: tuple[str, ...] = get_args(Source)


def labelled(benchmark: Benchmark, condition: Condition, source: Source) -> Mapping[str, Sequence[Query]]:
    """Return the queries of each cluster (a user, or a record that items share), the preferred candidate first."""
    items = list(_of_pairs(benchmark) if source == "pairs" else _of_items(benchmark))
    if not items:
        other = "items" if source == "pairs" else "pairs"
        raise BenchmarkError(f"{benchmark.card.name}: found no labelled {source}, wanted some; try its {other}")
    pairs = Benchmark(benchmark.card, tuple(items), benchmark.seed)
    if reason := condition.unsupported(pairs):
        raise ConditionError(f"{reason}, in its {source}")
    clusters: dict[str, list[Query]] = {}
    for item, query in zip(items, condition.queries(pairs, items), strict=True):
        clusters.setdefault(item.cluster, []).append(query)
    return clusters


def _of_pairs(benchmark: Benchmark) -> Iterator[Item]:
    """Yield an item for each context pair of each user, whose other pairs are the user's in it."""
    for user, person, domain in _homes(benchmark):
        for index, pair in enumerate(user.preferences):
            others = user.preferences[:index] + user.preferences[index + 1 :]
            yield Item(
                id=f"{user.id}:{pair.id}",
                prompt=pair.prompt,
                candidates=(pair.preferred, pair.other),
                preferred=0,
                cluster=person,
                domain=domain,
                user=replace(user, preferences=others),
            )


def _homes(benchmark: Benchmark) -> Iterator[tuple[User, str, str]]:
    """Yield each user once, as they stand with each of their items, with the person and the domain of the first one."""
    homes: dict[str, tuple[str, str]] = {}
    who = persons(benchmark.items)
    for item in benchmark.items:
        if item.user is not None:
            homes.setdefault(item.user.id, (who[item.cluster], item.domain))
    for user in benchmark.users_before:
        yield user, *homes[user.id]


def _of_items(benchmark: Benchmark) -> Iterator[Item]:
    """Yield the items that have a label, the preferred candidate first; names of candidates are left out.

    Of several preferred candidates each is a question of its own, without the others.
    """
    for item in benchmark.items:
        others = tuple(text for index, text in enumerate(item.candidates) if index not in item.best)
        for number, index in enumerate(item.best if others else ()):
            name = f"{item.id}#{number + 1}" if number else item.id
            candidates = (item.candidates[index], *others)
            yield replace(item, id=name, candidates=candidates, preferred=0, grades=(), candidate_ids=())

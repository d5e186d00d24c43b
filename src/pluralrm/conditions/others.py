"""Conditions that show other people's posts: what a model gains by the right user is measured against these.

Another person is another cluster of items, whatever the users' ids. For each item as many posts are shown as the item's
own user would be shown (`conditions.loans`).
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.conditions import allowlist
from pluralrm.conditions.loans import (
    Amount,
    Author,
    Shelf,
    lenders,
    lonely,
    shelf,
    shelves_by_domain,
)
from pluralrm.conditions.own import needs_posts, with_posts
from pluralrm.core import Benchmark, Item, Post, Query, Reveals, UserView, persons
from pluralrm.errors import ConditionError, SpecError
from pluralrm.retrieval import Ranker, Ranking, parse_ranking
from pluralrm.specs import Spec

BY_PROMPT = "prompt"
"""`by=prompt`: the lender is somebody whose posts are near to the question."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """Posts of another person of the same domain, ranked for this prompt: as if that other person had asked.

    With `by_prompt` the other person is one of the whole benchmark whose posts are near to the question, and no user
    lends to everybody: what anybody's posts on its subject do.

    The view carries the partner's id. With the user's own, a model that knows people by id would still know who asks,
    and its gain over this control would vanish.
    """

    posts: int
    ranking: Ranking
    seed: int = 0
    cache: Path | None = None
    by_prompt: bool = False
    reveals: frozenset[Reveals] = frozenset({"other_posts"})

    @property
    def spec(self) -> str:
        """The canonical string."""
        seed = {"seed": str(self.seed)} if self.seed else {}
        return str(
            Spec("swapped", str(self.posts), {**lending_options(self.ranking, by_prompt=self.by_prompt), **seed})
        )

    @property
    def identity(self) -> Mapping[str, str]:
        """Which embedding model ordered the posts, if one did."""
        return Ranker(self.ranking, cache=self.cache).identity

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not: no posts, or a domain without another user to swap with."""
        if (reason := needs_posts(benchmark)) is not None:
            return reason
        shelves = shelves_by_domain(benchmark)
        return nobody_else(self.spec, benchmark, lonely(everywhere(shelves) if self.by_prompt else shelves), "")

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item with the partner's posts, as many as the user's own condition would show."""
        if (reason := self.unsupported(benchmark)) is not None:
            raise ConditionError(reason)
        ranker = Ranker(self.ranking, cache=self.cache)
        most = Amount(self.posts)
        author = nearest(benchmark, most, ranker) if self.by_prompt else partners(benchmark, most, self.seed)
        return with_posts(items, author, ranker, self.posts)


def lending_options(ranking: Ranking, *, by_prompt: bool) -> dict[str, str]:
    """Return a ranking's options; with `by_prompt`, the ranking also says what is nearest: `prompt:embed:MODEL`."""
    options = ranking.options
    if by_prompt:
        options["by"] = f"{BY_PROMPT}:{options['by']}" if "by" in options else BY_PROMPT
    return options


def parse_lending(spec: Spec, *, drawn: bool = False) -> tuple[Ranking, bool]:
    """Return the ranking that a spec's options say, and whether the lender is chosen by the prompt.

    `by=prompt` ranks by words, `by=prompt:embed:MODEL` by embeddings. A seed then has nothing to decide, unless the
    spec's kind draws something else (`drawn`).
    """
    by, _, ranking = spec.options.get("by", "").partition(":")
    if by != BY_PROMPT:
        return parse_ranking(spec, seeded=True), False
    if ranking and not ranking.startswith("embed:"):
        raise SpecError(f"{spec.kind}: by={spec.options['by']!r}; wanted by=prompt or by=prompt:embed:MODEL")
    options = {key: value for key, value in spec.options.items() if key != "by"} | ({"by": ranking} if ranking else {})
    return parse_ranking(Spec(spec.kind, spec.target, options), seeded=drawn), True


def everywhere(shelves: Mapping[str, Sequence[Shelf]]) -> Mapping[str, Sequence[Shelf]]:
    """Return the shelves as those of one domain."""
    together = [one for some in shelves.values() for one in some]
    return {"all": together} if together else {}


def nobody_else(spec: str, benchmark: Benchmark, alone: Sequence[str], what: str) -> str | None:
    """Return that some domains have one person, or None."""
    if not alone:
        return None
    named = ", ".join(map(repr, alone))
    return f"{spec} needs two users{what} in every domain, and {benchmark.card.name} has one in {named}"


def partners(benchmark: Benchmark, most: Amount, seed: int) -> Callable[[Item], Author | None]:
    """Return who lends to an item, as `loans.lenders` has it: items with one user in a domain have one partner."""
    found = lenders(benchmark, most, seed)
    return lambda item: None if (mine := shelf(item)) is None else found[mine]


def nearest(benchmark: Benchmark, most: Amount, ranker: Ranker) -> Callable[[Item], Author | None]:
    """Return who lends to an item, as `conditions.nearest` has it."""
    from pluralrm.conditions.nearest import Nearest  # numpy, which naming a condition does not take

    return Nearest(benchmark, most, ranker).author


@dataclass(frozen=True, slots=True)
class Noise:
    """Random posts of many other users of the whole benchmark, one from each until the users run out.

    As many as the item's own user would be shown, at most `posts`.
    """

    posts: int
    seed: int = 0
    reveals: frozenset[Reveals] = frozenset({"other_posts"})

    @property
    def spec(self) -> str:
        """The canonical string."""
        return str(Spec("noise", str(self.posts), {"seed": str(self.seed)} if self.seed else {}))

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not, where fewer than two people have posts."""
        if len(_writers(benchmark)) >= 2:
            return None
        return f"{self.spec} needs posts of at least two users, and {benchmark.card.name} has not"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item with random posts of others; an item without a user gets none.

        The view's id is no user's: `noise:` and the item's id.
        """
        writers, who = _writers(benchmark), persons(benchmark.items)
        for item in items:
            posts = () if item.user is None else self._drawn(item, who[item.cluster], writers)
            yield allowlist.shown(item, UserView(f"noise:{item.id}", posts) if item.user is not None else None)

    def _drawn(self, item: Item, asker: str, writers: Sequence[tuple[str, tuple[Post, ...]]]) -> tuple[Post, ...]:
        rng = random.Random(f"{self.seed}:{item.id}")
        others = [posts for person, posts in writers if person != asker]
        piles = [
            rng.sample(sorted(posts, key=lambda post: post.id), len(posts))
            for posts in rng.sample(others, min(self.posts, len(others)))
        ]
        dealt = [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]
        # As many as the item's own user would be shown.
        return tuple(dealt[: min(self.posts, 0 if item.user is None else len(item.user.posts))])


def _writers(benchmark: Benchmark) -> list[tuple[str, tuple[Post, ...]]]:
    """Return every person who wrote, in the order of the users' ids, with all posts of all of the person's items."""
    posts: dict[str, dict[Post, None]] = {}
    shelves = (one for some in shelves_by_domain(benchmark).values() for one in some)
    for one in sorted(shelves, key=lambda one: (one.user.id, one.cluster)):
        if one.user.posts:
            posts.setdefault(one.person, {}).update(dict.fromkeys(one.user.posts))
    return [(person, tuple(written)) for person, written in posts.items()]

"""Conditions that show other people's posts: what a model gains by the right user is measured against these."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.conditions import allowed
from pluralrm.conditions.own import needs_posts, with_posts
from pluralrm.core import Benchmark, Item, Post, Query, Reveals, User, UserView
from pluralrm.errors import ConditionError
from pluralrm.retrieval import Ranker, Ranking
from pluralrm.specs import Spec


@dataclass(frozen=True, slots=True)
class Swapped:
    """Posts of another user of the same domain, ranked for this prompt: as if that other user had asked.

    The view carries the partner's id. With the user's own, a model that knows people by id would still know who asks,
    and its gain over this control would vanish.
    """

    posts: int
    ranking: Ranking
    seed: int = 0
    cache: Path | None = None
    reveals: frozenset[Reveals] = frozenset({"other_posts"})

    @property
    def spec(self) -> str:
        """The canonical string."""
        seed = {"seed": str(self.seed)} if self.seed else {}
        return str(Spec("swapped", str(self.posts), {**self.ranking.options, **seed}))

    @property
    def identity(self) -> Mapping[str, str]:
        """Which embedding model ordered the posts, if one did."""
        return Ranker(self.ranking, cache=self.cache).identity

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not: no posts, or a domain in which there is nobody to swap with."""
        if (reason := needs_posts(benchmark)) is not None:
            return reason
        alone = [domain for domain, users in users_by_domain(benchmark).items() if len(users) == 1]
        if not alone:
            return None
        named = ", ".join(map(repr, alone))
        return f"{self.spec} needs two users in every domain, and {benchmark.card.name} has one in {named}"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item with the partner's posts, as many as the user's own condition would show."""
        if (reason := self.unsupported(benchmark)) is not None:
            raise ConditionError(reason)
        partner = partners(benchmark, self.seed)
        return with_posts(
            items,
            lambda item: None if item.user is None else partner[item.domain, item.user.id],
            Ranker(self.ranking, cache=self.cache),
            self.posts,
        )


def users_by_domain(benchmark: Benchmark) -> dict[str, list[User]]:
    """Return the users of each domain, in the order of their ids and not of the file."""
    users: dict[str, dict[str, User]] = {domain: {} for domain in benchmark.domains}
    for item in sorted(benchmark.items, key=lambda item: item.id):
        if item.user is not None:
            users[item.domain][item.user.id] = item.user
    return {domain: [known[name] for name in sorted(known)] for domain, known in users.items()}


def partners(benchmark: Benchmark, seed: int) -> dict[tuple[str, str], User]:
    """Return each user's partner, by domain and user id: a seeded permutation of a domain in which nobody stays.

    The users of a domain are shuffled into a ring and everyone gets the next: each user is used exactly once, and each
    other user is as likely a partner as any. A user with several items in a domain has one partner there.
    """
    partner = {}
    for domain, users in users_by_domain(benchmark).items():
        ring = list(users)
        random.Random(f"{seed}:{domain}").shuffle(ring)
        partner.update({(domain, user.id): ring[(place + 1) % len(ring)] for place, user in enumerate(ring)})
    return partner


@dataclass(frozen=True, slots=True)
class Noise:
    """Random posts of many other users of the whole benchmark, one from each until the users run out."""

    posts: int
    seed: int = 0
    reveals: frozenset[Reveals] = frozenset({"other_posts"})

    @property
    def spec(self) -> str:
        """The canonical string."""
        return str(Spec("noise", str(self.posts), {"seed": str(self.seed)} if self.seed else {}))

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not, where fewer than two users have posts."""
        if sum(bool(user.posts) for user in benchmark.users) >= 2:
            return None
        return f"{self.spec} needs posts of at least two users, and {benchmark.card.name} has not"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item with random posts of others; an item without a user gets none.

        The view's id is nobody's: `noise:` and the item's id.
        """
        known = {user.id: user for users in users_by_domain(benchmark).values() for user in users}
        writers = [known[name] for name in sorted(known) if known[name].posts]
        for item in items:
            posts = () if item.user is None else self._drawn(item, item.user, writers)
            yield allowed.shown(item, UserView(f"noise:{item.id}", posts) if item.user is not None else None)

    def _drawn(self, item: Item, user: User, writers: Sequence[User]) -> tuple[Post, ...]:
        rng = random.Random(f"{self.seed}:{item.id}")
        others = [writer for writer in writers if writer.id != user.id]
        piles = [
            rng.sample(sorted(writer.posts, key=lambda post: post.id), len(writer.posts))
            for writer in rng.sample(others, min(self.posts, len(others)))
        ]
        dealt = [pile[turn] for turn in range(max(map(len, piles))) for pile in piles if turn < len(pile)]
        return tuple(dealt[: self.posts])

"""Conditions that show nothing of the user, the user's own posts, or what only graders may read (`oracle`);
and controls that show other people's posts, against which is measured what a model gains by the right user.

Another person is another cluster of items, whatever the users' ids. For each item as many posts are shown as the item's
own user would be shown (`conditions.loans`). `allowed_query` is the allow-list: nothing else makes a Query of an Item.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

from pluralrm.conditions.loans import Amount, Author, Nearest, Shelf, lenders, lonely, shelf, shelves_by_domain, uniform
from pluralrm.core import Aspect, Benchmark, Exchange, Failure, Item, Oracle, Post, Query, Reveals, UserView, persons
from pluralrm.errors import ConditionError, SpecError
from pluralrm.retrieval import Ranker, Ranking, Request, parse_ranking
from pluralrm.specs import Spec


def allowed_query(item: Item, user: UserView | None = None) -> Query:
    """Return the Query for an item. Whatever is not named here, no model sees."""
    return Query(id=item.id, prompt=item.prompt, candidates=item.candidates, user=user)


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """What a condition made of an item: the Query, and what was said on the way to it.

    With a `failure` the Query is not whole: no reward model is asked, and the item has failed, or stays open.
    """

    query: Query
    failure: Failure | None = None
    exchanges: tuple[Exchange, ...] = ()


@runtime_checkable
class Preparing(Protocol):
    """A condition that asks a model of its own and may get no answer; its `queries` raise where it gets none."""

    def prepared(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[PreparedQuery]:
        """Yield one PreparedQuery per item, in order."""
        ...


_WINDOW = 64
"""Items ranked at once: many enough to embed their posts in even batches, few enough that scoring soon begins."""


@dataclass(frozen=True, slots=True)
class Bare:
    """The prompt and the candidates alone."""

    spec: str = "none"
    reveals: frozenset[Reveals] = frozenset()

    def unsupported(self, benchmark: Benchmark) -> str | None:  # noqa: ARG002 - every benchmark can be shown bare
        """Return None: nothing is needed."""
        return None

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:  # noqa: ARG002
        """Yield one bare Query per item."""
        return (allowed_query(item) for item in items)


@dataclass(frozen=True, slots=True)
class OwnPosts:
    """At most `posts` of the user's own posts, as the ranking orders them for the item's prompt."""

    posts: int
    ranking: Ranking
    cache: Path | None = None
    reveals: frozenset[Reveals] = frozenset({"posts"})

    @property
    def spec(self) -> str:
        """The canonical string; `raw:K,by=recent` is `recent:K`."""
        if self.ranking.by == "recent":
            return f"recent:{self.posts}"
        return str(Spec("raw", str(self.posts), self.ranking.options))

    @property
    def identity(self) -> Mapping[str, str]:
        """Which embedding model ordered the posts, if one did."""
        return Ranker(self.ranking, cache=self.cache).identity

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not, where no user has a post."""
        return needs_posts(benchmark)

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:  # noqa: ARG002
        """Yield one Query per item with the user's posts, best first; an item without a user gets none."""
        return with_posts(items, own, Ranker(self.ranking, cache=self.cache), self.posts)


def needs_posts(benchmark: Benchmark) -> str | None:
    """Return why posts cannot be shown, where no user has one, and what can be shown of them instead."""
    if benchmark.has_posts:
        return None
    others = f"conditions are none, {', '.join(fitting)}" if (fitting := showing(benchmark)) else "condition is none"
    return f"{benchmark.card.name} has no posts to show; its {others}"


def showing(benchmark: Benchmark) -> list[str]:
    """Return the conditions that show what the benchmark has of its users, posts first; none where it has nothing."""
    users = [item.user for item in benchmark.items if item.user is not None]
    conditions = ["recent:20"] * benchmark.has_posts + ["traits"] * any(user.traits for user in users)
    return conditions + ["pairs:8"] * any(user.preferences for user in users)


def own(item: Item) -> Author | None:
    """Return the item's own user."""
    return None if item.user is None else Author(item.user)


def with_posts(
    items: Sequence[Item], author: Callable[[Item], Author | None], ranker: Ranker, posts: int
) -> Iterator[Query]:
    """Yield one Query per item with its author's posts ranked for its prompt, as if the author had asked.

    Never more posts than the item's own user has: conditions that differ in the author alone show equally many.
    """
    stream = iter(items)
    while window := list(islice(stream, _WINDOW)):
        authors = [author(item) for item in window]
        requests = [
            Request(item.id, item.prompt, () if writer is None else writer.user.posts)
            for item, writer in zip(window, authors, strict=True)
        ]
        for item, writer, ranked in zip(window, authors, ranker.rank(requests, k=posts), strict=True):
            if item.user is None or writer is None:
                yield allowed_query(item)
            else:
                view = UserView(writer.user.id, tuple(ranked[: len(item.user.posts)]), lenders=writer.lenders)
                yield allowed_query(item, view)


@dataclass(frozen=True, slots=True)
class Rubric:
    """Narrative and rubric aspects as notes, and nothing else of the user: no posts, no id.

    Alone, so that (oracle - own posts) compares the posts with the truth that they stand for.
    """

    spec: str = "oracle"
    reveals: frozenset[Reveals] = frozenset({"oracle"})

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not, where no item has a rubric."""
        if any(item.oracle is not None and _notes(item.oracle) for item in benchmark.items):
            return None
        return f"{benchmark.card.name} has no rubric to show"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:  # noqa: ARG002
        """Yield one Query per item with its rubric in the notes; every one says that it reveals the oracle."""
        for item in items:
            notes = () if item.oracle is None else _notes(item.oracle)
            yield replace(allowed_query(item), notes=notes, reveals_oracle=True)


def _notes(oracle: Oracle) -> tuple[str, ...]:
    narrative = (oracle.narrative,) if oracle.narrative else ()
    return (*narrative, *map(_note, oracle.aspects))


def _note(aspect: Aspect) -> str:
    """Return one aspect as a line: `Wants from the answer: no backstory (reason: ...) (evidence: ...)`."""
    grounds = {"reason": aspect.reason, "evidence": aspect.evidence}
    stated = [f"({name}: {text})" for name, text in grounds.items() if text]
    return " ".join([f"Wants from the answer: {aspect.aspect}", *stated])


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
        if uniform(shelves, Amount(self.posts)):
            return nothing_else(self.spec, benchmark, "posts")
        return nobody_else(self.spec, benchmark, lonely(everywhere(shelves) if self.by_prompt else shelves), "")

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item with the partner's posts, as many as the user's own condition would show."""
        if (reason := self.unsupported(benchmark)) is not None:
            raise ConditionError(reason)
        ranker = Ranker(self.ranking, cache=self.cache)
        most = Amount(self.posts)
        author = Nearest(benchmark, most, ranker).author if self.by_prompt else partners(benchmark, most, self.seed)
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
    together = [shelf for some in shelves.values() for shelf in some]
    return {"all": together} if together else {}


def nobody_else(spec: str, benchmark: Benchmark, alone: Sequence[str], what: str) -> str | None:
    """Return that some domains have one person, or None."""
    if not alone:
        return None
    domains = ", ".join(map(repr, alone))
    return f"{spec} needs two users{what} in every domain, and {benchmark.card.name} has one in {domains}"


def nothing_else(spec: str, benchmark: Benchmark, texts: str) -> str:
    """Return that another user's texts are the user's own."""
    return f"{spec} needs users with different {texts}, and all those of {benchmark.card.name} have the same"


def partners(benchmark: Benchmark, most: Amount, seed: int) -> Callable[[Item], Author | None]:
    """Return who lends to an item, as `loans.lenders` has it: items with one user in a domain have one partner."""
    authors = lenders(benchmark, most, seed)
    return lambda item: None if (mine := shelf(item)) is None else authors[mine]


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
            yield allowed_query(item, UserView(f"noise:{item.id}", posts) if item.user is not None else None)

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
    shelves = (shelf for some in shelves_by_domain(benchmark).values() for shelf in some)
    for row in sorted(shelves, key=lambda shelf: (shelf.user.id, shelf.cluster)):
        if row.user.posts:
            posts.setdefault(row.person, {}).update(dict.fromkeys(row.user.posts))
    return [(person, tuple(written)) for person, written in posts.items()]

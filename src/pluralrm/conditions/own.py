"""Conditions that show nothing of the user, the user's own posts, or what only graders may read (`oracle`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from pluralrm.conditions import allowlist
from pluralrm.conditions.loans import Author
from pluralrm.core import Aspect, Benchmark, Item, Oracle, Query, Reveals, UserView
from pluralrm.retrieval import Ranker, Ranking, Request
from pluralrm.specs import Spec

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
        return (allowlist.shown(item) for item in items)


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
    """Return why posts cannot be shown, where no user has one."""
    return None if benchmark.has_posts else f"{benchmark.card.name} has no posts to show; its condition is none"


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
            Request(item.id, item.prompt, () if found is None else found.user.posts)
            for item, found in zip(window, authors, strict=True)
        ]
        for item, found, ranked in zip(window, authors, ranker.rank(requests, k=posts), strict=True):
            if item.user is None or found is None:
                yield allowlist.shown(item)
            else:
                view = UserView(found.user.id, tuple(ranked[: len(item.user.posts)]), lenders=found.lenders)
                yield allowlist.shown(item, view)


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
            yield replace(allowlist.shown(item), notes=notes, reveals_oracle=True)


def _notes(oracle: Oracle) -> tuple[str, ...]:
    narrative = (oracle.narrative,) if oracle.narrative else ()
    return (*narrative, *map(_note, oracle.aspects))


def _note(aspect: Aspect) -> str:
    """Return one aspect as a line: `Wants from the answer: no backstory (reason: ...) (evidence: ...)`."""
    grounds = {"reason": aspect.reason, "evidence": aspect.evidence}
    stated = [f"({name}: {text})" for name, text in grounds.items() if text]
    return " ".join([f"Wants from the answer: {aspect.aspect}", *stated])

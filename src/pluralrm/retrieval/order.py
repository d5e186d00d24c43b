"""From relevance to an order: best first, or with variety. Ties go to the smaller post id."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pluralrm.core import Post
from pluralrm.errors import BenchmarkError

PLACES = 9
"""Decimals that count: the last bits, in which libraries and processors differ, must not break ties."""

Likeness = Callable[[int, int], float]
"""How much alike two posts are, by their places."""


class Relevance(NamedTuple):
    """How relevant each of some posts is to a question, and (worked out on demand) how much alike they are."""

    scores: Sequence[float]
    likeness: Callable[[], Likeness]


def best_first(posts: Sequence[Post], relevance: Relevance, *, k: int | None) -> list[Post]:
    """Return the k most relevant posts, all of them where k is None."""
    places = sorted(range(len(posts)), key=lambda place: (-relevance.scores[place], posts[place].id))
    return [posts[place] for place in places[:k]]


def newest_first(posts: Sequence[Post]) -> list[Post]:
    """Return the posts by date, newest first; those of one date, and after all others those without, as stored."""
    dated = [(moment(post.date), post) for post in posts if post.date]
    if not dated:
        return list(posts)
    return [
        *(post for _, post in sorted(dated, key=lambda pair: pair[0], reverse=True)),
        *(post for post in posts if not post.date),
    ]


def moment(date: str) -> datetime:
    """Return the moment that an ISO 8601 text says: midnight where it is a day, UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(date)
    except ValueError as exc:
        raise BenchmarkError(f"the date of a post: found {date!r}, wanted ISO 8601 such as 2024-05-01") from exc
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def varied(posts: Sequence[Post], relevance: Relevance, *, k: int | None, balance: float) -> list[Post]:
    """Return k posts by maximal marginal relevance (Carbonell and Goldstein 1998).

    Each pick maximizes balance * relevance - (1 - balance) * likeness to the nearest post picked before; the first
    pick is the most relevant post.
    """
    likeness = relevance.likeness()
    nearest = dict.fromkeys(sorted(range(len(posts)), key=lambda place: posts[place].id), 0.0)
    picked: list[int] = []
    while nearest and (k is None or len(picked) < k):
        best = max(
            nearest, key=lambda place: round(balance * relevance.scores[place] - (1 - balance) * nearest[place], PLACES)
        )
        del nearest[best]
        for place, before in nearest.items():
            alike = likeness(place, best)
            nearest[place] = max(before, alike) if picked else alike
        picked.append(best)
    return [posts[place] for place in picked]

"""From relevance to an order: best first, or with variety. Ties go to the smaller post id."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pluralrm.core import Post

PLACES = 9
"""Decimals that count: the last bits, in which libraries and processors differ, must not break ties."""

Likeness = Callable[[int, int], float]
"""How much alike two posts are, by their places."""


class Judged(NamedTuple):
    """How relevant each of some posts is to a question, and (worked out on demand) how much alike they are."""

    relevance: Sequence[float]
    likeness: Callable[[], Likeness]


def best_first(posts: Sequence[Post], judged: Judged, *, k: int | None) -> list[Post]:
    """Return the k most relevant posts, all of them where k is None."""
    places = sorted(range(len(posts)), key=lambda place: (-judged.relevance[place], posts[place].id))
    return [posts[place] for place in places[:k]]


def varied(posts: Sequence[Post], judged: Judged, *, k: int | None, balance: float) -> list[Post]:
    """Return k posts by maximal marginal relevance (Carbonell and Goldstein 1998).

    Each pick maximizes balance * relevance - (1 - balance) * likeness to the nearest post picked before; the first
    pick is the most relevant post.
    """
    likeness = judged.likeness()
    nearest = dict.fromkeys(sorted(range(len(posts)), key=lambda place: posts[place].id), 0.0)
    picked: list[int] = []
    while nearest and (k is None or len(picked) < k):
        best = max(
            nearest, key=lambda place: round(balance * judged.relevance[place] - (1 - balance) * nearest[place], PLACES)
        )
        del nearest[best]
        for place, before in nearest.items():
            alike = likeness(place, best)
            nearest[place] = max(before, alike) if picked else alike
        picked.append(best)
    return [posts[place] for place in picked]

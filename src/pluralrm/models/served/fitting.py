"""What is sent of a query: all of it, or as many of its posts as the server reads, the least relevant dropped first.

This is `models/neural/prompts.py` with the tokenizer at the other end of a line: where it must be asked, several
queries are asked about in one go.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from pluralrm.core import Failure, Query
from pluralrm.models.served.spoken import Spoken

Count = int | Failure
Counter = Callable[[Sequence[Spoken]], Iterable[Count]]
"""How long conversations are, in the order given."""
Speaker = Callable[[Query], list[Spoken]]


class Fitted(NamedTuple):
    """What is sent for each candidate of a query, how long it is where that was counted, and how many posts it has."""

    query: Query
    sent: tuple[Spoken | Failure, ...]
    counts: tuple[int | None, ...]
    posts_kept: int


@dataclass(frozen=True, slots=True)
class Room:
    """How much a server reads; without a limit nothing is dropped, and the server itself refuses what is too long."""

    limit: int | None
    spare: int = 0
    """What a chat template adds, in the unit of the limit."""
    unit: str = "tokens"

    def surely(self, conversations: Sequence[Spoken]) -> bool:
        """Return whether all fit without counting: no token is shorter than a byte."""
        return self.limit is None or all(one.size + self.spare <= self.limit for one in conversations)


def fitted(queries: Iterable[Query], speak: Speaker, room: Room, count: Counter) -> Iterator[Fitted]:
    """Yield what is sent of each query, in order."""
    source = iter(queries)
    while some := list(islice(source, _TOGETHER)):
        yield from _side_by_side([_search(query, speak, room) for query in some], count)


_TOGETHER = 32
"""Queries whose lengths are asked for together."""

_Search = Generator[list[Spoken], Sequence[Count], Fitted]


def _side_by_side(searches: Sequence[_Search], count: Counter) -> list[Fitted]:
    """Return what each search finds; what they want to know in one round is counted in one go."""
    done: dict[int, Fitted] = {}
    asked: dict[int, list[Spoken]] = {}

    def go_on(place: int, counts: Sequence[Count] | None) -> None:
        try:
            asked[place] = searches[place].send(counts) if counts is not None else next(searches[place])
        except StopIteration as stop:
            done[place] = stop.value

    for place in range(len(searches)):
        go_on(place, None)
    while asked:
        pending, asked = asked, {}
        counts = iter(count([one for conversations in pending.values() for one in conversations]))
        for place, conversations in pending.items():
            go_on(place, list(islice(counts, len(conversations))))
    return [done[place] for place in range(len(searches))]


# ---------------------------------------------------------------- one query


class _Measured(NamedTuple):
    """The conversations of a query with some of its posts, and how long each is."""

    said: list[Spoken]
    counts: list[int]

    def fit(self, limit: int, which: Iterable[bool]) -> bool:
        """Return whether some of them fit."""
        return all(count <= limit for count, asked in zip(self.counts, which, strict=True) if asked)


class _LostError(Exception):
    """A length that could not be had."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.detail)


def _search(query: Query, speak: Speaker, room: Room) -> _Search:
    """Yield conversations to be counted, take their counts, and return what is sent.

    Where one length could not be had, nothing is sent: all candidates have to show as many posts.
    """
    width = len(query.candidates)
    try:
        return (yield from _most_posts(query, speak, room))
    except _LostError as lost:
        return Fitted(query, (lost.failure,) * width, (None,) * width, 0)


def _most_posts(query: Query, speak: Speaker, room: Room) -> _Search:
    posts = len(query.user.posts) if query.user else 0
    whole = speak(query)
    if room.limit is None or room.surely(whole):
        return Fitted(query, tuple(whole), (None,) * len(whole), posts)
    known = {posts: (yield from _measured(query, speak, posts))}
    if known[posts].fit(room.limit, (True,) * len(whole)):
        return Fitted(query, tuple(whole), tuple(known[posts].counts), posts)
    if posts:
        known[0] = yield from _measured(query, speak, 0)
    can = [count <= room.limit for count in known[0].counts]
    kept, ceiling = 0, posts + 1 if any(can) else 1
    while ceiling - kept > 1:  # without any post all fit that can; the more posts, the longer
        middle = (kept + ceiling) // 2
        if middle not in known:
            known[middle] = yield from _measured(query, speak, middle)
        kept, ceiling = (middle, ceiling) if known[middle].fit(room.limit, can) else (kept, middle)
    return _cut(query, known[kept], known[0], can=can, room=room)._replace(posts_kept=kept)


def _measured(query: Query, speak: Speaker, posts: int) -> Generator[list[Spoken], Sequence[Count], _Measured]:
    said = speak(_keeping(query, posts))
    counts = yield said
    for count in counts:
        if isinstance(count, Failure):
            raise _LostError(count)
    return _Measured(said, [count for count in counts if isinstance(count, int)])


def _cut(query: Query, found: _Measured, bare: _Measured, *, can: Sequence[bool], room: Room) -> Fitted:
    """Return what is sent with the posts that fit; what is too long without any has failed."""
    failures = [Failure("too_long", f"{count} {room.unit}, limit {room.limit}") for count in bare.counts]
    sent = zip(found.said, failures, can, strict=True)
    counts = zip(found.counts, can, strict=True)
    return Fitted(
        query,
        tuple(said if able else failure for said, failure, able in sent),
        tuple(count if able else None for count, able in counts),
        0,
    )


def _keeping(query: Query, posts: int) -> Query:
    """Return the query with its first posts only, the most relevant."""
    return query if query.user is None else replace(query, user=replace(query.user, posts=query.user.posts[:posts]))

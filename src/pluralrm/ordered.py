"""The stream of everything that asks and waits: each item comes out with its replies, in the order of the items.

Work may be done in another order: `in_groups` puts items of one group next to each other, and its results back.

>>> def shout(words):  # answers in order, and may read ahead as far as it likes
...     yield from map(str.upper, words)
>>> list(in_order(["a b", "", "c"], str.split, shout))
[('a b', ['A', 'B']), ('', []), ('c', ['C'])]
>>> list(in_groups(["a1", "b1", "a2"], tuple, shout))  # shouted as A1, A2, B1
['A1', 'B1', 'A2']
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741 - the items
Q = TypeVar("Q")
R = TypeVar("R")

GROUPING_WINDOW = 1024
"""Items among which `in_groups` looks for those of one group: so many results wait at most for an earlier one."""


def in_order(
    items: Iterable[I],
    requests: Callable[[I], Iterable[Q]],
    replies: Callable[[Iterator[Q]], Iterable[R]],
    *,
    follow_up: Callable[[I, R], Iterable[Q]] | None = None,
) -> Iterator[tuple[I, list[R]]]:
    """Yield each item with the replies to its requests, as soon as it and all items before it have theirs.

    `replies` takes the stream of requests and yields one reply to each, in order; how far it reads ahead is its own
    affair. An item without a request comes out in its place, with no reply. What `follow_up` requests after a reply
    joins the stream before the next item does, and its reply is one more of the same item.
    """
    queue: _Queue[I, Q, R] = _Queue(requests)
    stream = queue.stream(items)
    while True:
        for reply in replies(stream):
            queue.take(reply, follow_up)
            yield from queue.complete()
        if not queue.further:  # follow-ups to the last replies, which nothing came after
            break
        stream = queue.follow_ups()
    yield from queue.complete()


@dataclass(slots=True)
class _Entry(Generic[I, R]):
    """An item, how many of its requests have no reply yet, and the replies so far."""

    item: I
    open: int
    replies: list[R] = field(default_factory=list)


class _Queue(Generic[I, Q, R]):
    """Items that are not out yet, whose requests were sent, and follow-ups that were not."""

    def __init__(self, requests: Callable[[I], Iterable[Q]]) -> None:
        self._requests = requests
        self._entries: deque[_Entry[I, R]] = deque()
        self._sent: deque[_Entry[I, R]] = deque()
        self.further: deque[tuple[_Entry[I, R], Q]] = deque()

    def stream(self, items: Iterable[I]) -> Iterator[Q]:
        """Yield what is to be sent."""
        for item in items:
            yield from self.follow_ups()
            requests = list(self._requests(item))
            entry: _Entry[I, R] = _Entry(item, len(requests))
            self._entries.append(entry)
            for request in requests:
                self._sent.append(entry)
                yield request

    def follow_ups(self) -> Iterator[Q]:
        """Yield what replies have given rise to."""
        while self.further:
            entry, request = self.further.popleft()
            self._sent.append(entry)
            yield request

    def take(self, reply: R, follow_up: Callable[[I, R], Iterable[Q]] | None) -> None:
        """Give a reply to the item whose request is the oldest without one."""
        entry = self._sent.popleft()
        entry.replies.append(reply)
        more = [] if follow_up is None else list(follow_up(entry.item, reply))
        entry.open += len(more) - 1
        self.further.extend((entry, request) for request in more)

    def complete(self) -> Iterator[tuple[I, list[R]]]:
        """Take the items from the head of the queue that have all their replies."""
        while self._entries and not self._entries[0].open:
            entry = self._entries.popleft()
            yield entry.item, entry.replies


# ---------------------------------------------------------------- another order of work


def in_groups(
    items: Iterable[I],
    key: Callable[[I], tuple[Hashable, ...]],
    work: Callable[[Iterator[I]], Iterable[R]],
    *,
    window: int = GROUPING_WINDOW,
) -> Iterator[R]:
    """Yield what `work` makes of each item, in the order of the items; it gets those with equal keys one after another.

    A key goes from the wider group to the narrower. Groups follow each other as their first items do, so items that are
    grouped already are not moved, and no result waits for a group that begins after it.
    """
    positions: deque[int] = deque()

    def grouped() -> Iterator[I]:
        source, start = iter(items), 0
        while batch := list(islice(source, window)):
            for index in group_order(list(map(key, batch))):
                positions.append(start + index)
                yield batch[index]
            start += len(batch)

    results: dict[int, R] = {}
    due = 0
    for result in work(grouped()):
        results[positions.popleft()] = result
        while due in results:
            yield results.pop(due)
            due += 1


def group_order(keys: Sequence[tuple[Hashable, ...]]) -> list[int]:
    """Return the indices of the keys with equal ones side by side, level by level, in the order of their first."""
    first: dict[tuple[Hashable, ...], int] = {}
    ranks = [
        [first.setdefault(key[:depth], index) for depth in range(1, len(key) + 1)] for index, key in enumerate(keys)
    ]
    return sorted(range(len(keys)), key=ranks.__getitem__)

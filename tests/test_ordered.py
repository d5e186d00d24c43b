"""Items come out in order with their own replies, however far ahead the other side reads."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.ordered import in_order

Request = tuple[int, int]


def reading_ahead(window: int, log: list[Request]):
    """A server that reads `window` requests before it replies to the oldest."""

    def replies(requests: Iterator[Request]) -> Iterator[str]:
        waiting: deque[Request] = deque()
        for request in requests:
            log.append(request)
            waiting.append(request)
            if len(waiting) >= window:
                yield "r{}.{}".format(*waiting.popleft())
        yield from ("r{}.{}".format(*request) for request in waiting)

    return replies


@given(st.lists(st.integers(0, 4), max_size=20), st.integers(1, 9), st.integers(0, 99))
def test_every_item_gets_its_own_replies_in_order(widths: list[int], window: int, seed: int) -> None:
    rng, log = Random(seed), []  # type: ignore[var-annotated]
    again = {(item, place) for item, width in enumerate(widths) for place in range(width) if rng.random() < 0.4}

    def follow_up(item: int, reply: str) -> list[Request]:
        place = int(reply.split(".")[1])
        return [(item, place + 100)] if (item, place) in again else []

    out = list(
        in_order(
            range(len(widths)),
            lambda item: [(item, place) for place in range(widths[item])],
            reading_ahead(window, log),
            follow_up=follow_up,
        )
    )
    assert [item for item, _ in out] == list(range(len(widths)))
    for item, replies in out:
        first = [f"r{item}.{place}" for place in range(widths[item])]
        second = [f"r{item}.{place + 100}" for place in range(widths[item]) if (item, place) in again]
        assert [reply for reply in replies if reply in first] == first
        assert [reply for reply in replies if reply in second] == second
        assert len(replies) == len(first) + len(second)
    assert len(log) == sum(widths) + len(again)


def test_a_follow_up_is_sent_before_later_items() -> None:
    log: list[Request] = []
    stream = in_order(range(100), lambda item: [(item, 0)], reading_ahead(3, log), follow_up=_once)
    list(islice(stream, 1))
    assert log.index((0, 100)) < 5


def _once(item: int, reply: str) -> list[Request]:
    return [(item, 100)] if item == 0 and reply == "r0.0" else []


def test_items_are_read_only_as_far_ahead_as_the_other_side_reads() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1000):
            read.append(item)
            yield item

    next(in_order(items(), lambda item: [(item, 0)], reading_ahead(4, [])))
    assert len(read) == 4


def test_an_error_of_the_other_side_ends_the_stream_after_what_was_complete() -> None:
    def replies(requests: Iterator[int]) -> Iterator[int]:
        yield from islice(requests, 2)
        raise OSError("gone")

    out: list[tuple[int, list[int]]] = []
    with pytest.raises(OSError, match="gone"):
        out.extend(in_order(range(9), lambda item: [item], replies))
    out.clear()
    stream = in_order(range(9), lambda item: [item], replies)
    assert [next(stream), next(stream)] == [(0, [0]), (1, [1])]

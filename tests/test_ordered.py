"""Items come out in order with their own replies, however far ahead the other side reads."""

from collections import deque
from collections.abc import Iterator
from itertools import groupby, islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.ordered import group_order, in_groups, in_order

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


# ---------------------------------------------------------------- groups

Key = tuple[int, int]
KEYS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=60)


@given(KEYS, st.integers(1, 9))
def test_results_keep_the_order_of_the_items_whatever_the_order_of_work(keys: list[Key], ahead: int) -> None:
    items = [(number, 0) for number in range(len(keys))]
    for window in (1, 7, 1024):
        log: list[Request] = []
        results = in_groups(items, lambda request: keys[request[0]], reading_ahead(ahead, log), window=window)
        assert list(results) == [f"r{number}.0" for number in range(len(keys))]
        assert sorted(number for number, _ in log) == list(range(len(items)))


@given(KEYS)
def test_each_group_is_in_one_piece_and_begins_where_its_first_item_was(keys: list[Key]) -> None:
    order = group_order(keys)
    assert sorted(order) == list(range(len(keys)))
    for depth in (1, 2):
        pieces = [group for group, _ in groupby(keys[index][:depth] for index in order)]
        assert len(pieces) == len(set(pieces))
    assert [key for key, _ in groupby(keys[index][0] for index in order)] == list(dict.fromkeys(k[0] for k in keys))
    for key in set(keys):  # equal keys keep their order
        assert [index for index in order if keys[index] == key] == [n for n, other in enumerate(keys) if other == key]
    regrouped = [keys[index] for index in order]
    assert group_order(regrouped) == list(range(len(keys)))


def test_grouping_reads_one_window_ahead_and_holds_no_more_results_than_that() -> None:
    read: list[int] = []
    done: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1000):
            read.append(item)
            yield item

    def work(source: Iterator[int]) -> Iterator[int]:
        for item in source:
            done.append(item)
            yield item

    for number, item in enumerate(in_groups(items(), lambda item: (item % 3,), work, window=12)):
        assert item == number
        assert len(read) <= number + 12
        assert len(done) - number <= 12
    assert done[:13] == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, 12]


def test_a_result_is_out_before_a_later_group_begins() -> None:
    done: list[str] = []

    def work(source: Iterator[str]) -> Iterator[str]:
        for item in source:
            done.append(item)
            yield item

    results = in_groups(["a1", "b1", "a2", "c1", "b2"], lambda item: (item[0],), work)
    assert [next(results), list(done)] == ["a1", ["a1"]]
    assert [next(results), list(done)] == ["b1", ["a1", "a2", "b1"]]
    assert [next(results), list(done)] == ["a2", ["a1", "a2", "b1"]]

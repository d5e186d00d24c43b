"""What the place of an answer does to a judge, read off the votes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure, Row, Vote
from pluralrm.errors import MetricError
from pluralrm.metrics.summary import positions
from tests.metrics.rows import row, run

BOTH = ((0, 1), (1, 0))
FIRST, SECOND = "first", "second"


def _row(number: int, *said: str, orders: tuple[tuple[int, ...], ...] = BOTH) -> Row:
    """Return a row whose judge named the first or the second shown, or said something else."""
    place = {FIRST: 0, SECOND: 1}
    votes = tuple(
        Vote(order, str(order[place[word]]) if word in place else word)
        for order, word in zip(orders, said, strict=True)
    )
    failed = any(word in {"parse", "transport"} for word in said)
    return row(f"i{number}", [Failure("parse", "no verdict")] * 2 if failed else [0.5, 0.5], votes=votes)


def _both(*rows: Row) -> tuple[float, float]:
    found = positions(run(rows))
    assert found.consistency is not None
    return found.consistency.value, found.first.value


def test_always_the_first_is_never_consistent_and_always_first() -> None:
    assert _both(*(_row(number, FIRST, FIRST) for number in range(5))) == (0.0, 1.0)


def test_always_the_second_is_never_consistent_and_never_first() -> None:
    assert _both(*(_row(number, SECOND, SECOND) for number in range(5))) == (0.0, 0.0)


def test_a_judge_that_reads_is_consistent_and_first_half_of_the_time() -> None:
    assert _both(*(_row(number, FIRST, SECOND) for number in range(5))) == (1.0, 0.5)
    assert _both(_row(0, FIRST, SECOND), _row(1, "tie", "tie"), _row(2, SECOND, FIRST)) == (1.0, 0.5)


def test_a_tie_in_one_order_only_is_not_consistent() -> None:
    assert _both(_row(0, "tie", FIRST), _row(1, FIRST, SECOND)) == (0.5, (0.75 + 0.5) / 2)


@pytest.mark.parametrize("said", [("parse", "parse"), ("parse", FIRST), (FIRST, "transport")])
def test_not_answering_is_never_consistent(said: tuple[str, str]) -> None:
    found = positions(run([_row(0, *said), _row(1, FIRST, SECOND)]))
    assert found.consistency is not None
    assert (found.consistency.value, found.consistency.n, found.consistency.failed) == (0.5, 2, 1)


def test_a_row_without_votes_stays_in_the_denominator() -> None:
    crashed = row("i9", [Failure("crash", "no")] * 2)
    assert _both(_row(0, FIRST, SECOND), crashed) == (0.5, 0.5)


def test_one_order_each_leaves_consistency_unknown() -> None:
    found = positions(run([_row(number, FIRST, orders=((0, 1),)) for number in range(3)]))
    assert found.consistency is None
    assert found.first.value == 1.0


def test_rankings_agree_as_a_whole_and_their_head_is_the_winner() -> None:
    orders = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    same = row("i0", [1.0, 0.5, 0.0], votes=tuple(Vote(order, "0>1>2") for order in orders))
    tail = row("i1", [1.0, 0.5, 0.0], votes=tuple(map(Vote, orders, ("0>1>2", "0>2>1", "0>1>2"))))
    assert _both(same) == (1.0, 1 / 3)
    assert _both(same, tail) == (0.5, 1 / 3)


def test_every_pair_of_four_has_to_agree() -> None:
    votes = [Vote((0, 1), "0"), Vote((1, 0), "0"), Vote((0, 2), "2"), Vote((2, 0), "0")]
    assert _both(row("i0", [0.5] * 3, votes=tuple(votes)))[0] == 0.0
    votes[-1] = Vote((2, 0), "2")
    assert _both(row("i0", [0.5] * 3, votes=tuple(votes)))[0] == 1.0


def test_a_model_that_compares_nothing_has_no_places() -> None:
    with pytest.raises(MetricError, match="hold no votes"):
        positions(run([row("i0", [1.0, 0.0])]))


@given(st.lists(st.tuples(*[st.sampled_from([FIRST, SECOND, "tie", "parse"])] * 2), min_size=2, max_size=30))
def test_both_are_shares_with_an_interval_around_them(said: list[tuple[str, str]]) -> None:
    found = positions(run([_row(number, *words) for number, words in enumerate(said)]))
    consistent = [words in {(FIRST, SECOND), (SECOND, FIRST), ("tie", "tie")} for words in said]
    points = {FIRST: 1.0, SECOND: 0.0}
    first = [sum(points.get(word, 0.5) for word in words) / 2 for words in said]
    assert found.consistency is not None
    assert found.consistency.value == pytest.approx(sum(consistent) / len(said))
    assert found.first.value == pytest.approx(sum(first) / len(said))
    for estimate in (found.consistency, found.first):
        assert estimate.n == len(said)
        if estimate.low is not None and estimate.high is not None:
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1

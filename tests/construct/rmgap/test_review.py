"""Two reviewers and a chair: every mark by itself, and the mean only as published."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.construct.rmgap.review import Marks, disputed, lows

MARKS = st.integers(1, 10)


def reviews(count: int) -> st.SearchStrategy[list[Marks]]:
    one = st.fixed_dictionaries({"quality": st.tuples(MARKS, MARKS, MARKS, MARKS), "diversity": st.tuples(MARKS)})
    return st.lists(one, min_size=count, max_size=count)


def _passes(first: int, second: int, chair: int) -> bool:
    """Majority of three is what two reviewers and a chair come to."""
    return [first >= 7, second >= 7, chair >= 7].count(True) >= 2


@given(reviews(3))
def test_a_mark_stands_by_two_of_three(three: list[Marks]) -> None:
    refused = {(low.dimension, low.place) for low in lows(three, "each")}
    for dimension, place in [*product(["quality"], range(4)), ("diversity", 0)]:
        assert ((dimension, place) in refused) is not _passes(*(review[dimension][place] for review in three))


@given(reviews(2))
def test_without_dispute_the_chair_would_change_nothing(two: list[Marks]) -> None:
    if not disputed(two[0], two[1], "each"):
        worst: Marks = {"quality": (1, 1, 1, 1), "diversity": (1,)}
        best: Marks = {"quality": (10, 10, 10, 10), "diversity": (10,)}
        found = [
            [(low.dimension, low.place) for low in lows(some, "each")] for some in (two, [*two, worst], [*two, best])
        ]
        assert found[0] == found[1] == found[2]


@given(reviews(2))
def test_a_review_by_each_is_never_laxer_than_by_the_mean(two: list[Marks]) -> None:
    for review in two:
        if lows([review, review], "mean"):
            assert lows([review, review], "each")


@pytest.mark.parametrize(("marks", "passes"), [((7, 7, 7, 7), True), ((10, 10, 6, 2), True), ((10, 10, 6, 1), False)])
def test_the_mean_is_compared_exactly(marks: tuple[int, int, int, int], *, passes: bool) -> None:
    review: Marks = {"quality": marks}
    assert (lows([review, review], "mean") == []) == passes


def test_as_published_the_chair_decides_on_the_set_alone() -> None:
    good: Marks = {"quality": (8, 8), "diversity": (8,)}
    bad: Marks = {"quality": (8, 8), "diversity": (5,)}
    assert disputed(good, bad, "mean")
    assert not disputed(bad, bad, "mean")
    assert lows([good, bad, good], "mean") == []
    assert [(low.dimension, low.place) for low in lows([good, bad, bad], "mean")] == [("diversity", None)]

"""The change of the validation users' rewards, against a computation by hand."""

import math

import pytest
from scipy import stats

from pluralrm.core import Estimate
from pluralrm.training.measures import held_out_changes
from pluralrm.training.records import EvaluationLine


def change(evaluations: dict[int, EvaluationLine]) -> Estimate | None:
    return held_out_changes(list(evaluations.values())).rewards


def looked(step: int, *rewards: float | None, users: str = "abcde") -> EvaluationLine:
    items = tuple(f"{user}-1" for user in users)
    return EvaluationLine(step=step, items=items, users=tuple(users), rewards=rewards, length=1.0)


def test_the_change_is_a_paired_t_interval_where_each_user_has_one_item() -> None:
    before, after = (1.0, 2.0, 0.5, 3.0, 2.5), (1.5, 2.25, 1.5, 2.75, 4.0)
    found = change({0: looked(0, *before), 9: looked(9, *after)})
    wanted = stats.ttest_rel(after, before)
    low, high = wanted.confidence_interval(0.95)
    assert found is not None
    assert (found.n, found.failed) == (5, 0)
    assert found.value == pytest.approx(0.6)
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


def test_a_reward_that_failed_is_counted_and_no_number_stands_for_it() -> None:
    found = change({0: looked(0, 1.0, None, 1.0, 1.0, 1.0), 4: looked(4, 2.0, 9.0, None, 2.0, 2.0)})
    assert found is not None
    assert (found.value, found.n, found.failed) == (1.0, 3, 2)


def test_items_of_one_user_are_one_draw() -> None:
    """Each user's two items change alike: twice the items, no more certainty (half the variance would be claimed)."""
    single = change({0: looked(0, 1.0, 2.0, 3.0, users="abc"), 1: looked(1, 2.0, 2.5, 6.0, users="abc")})
    double = change(
        {
            0: looked(0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, users="aabbcc"),
            1: looked(1, 2.0, 2.0, 2.5, 2.5, 6.0, 6.0, users="aabbcc"),
        }
    )
    assert single is not None
    assert double is not None
    assert single.low is not None
    assert double.low is not None
    assert math.isclose(double.value, single.value)
    assert math.isclose(double.low, single.low)


def test_a_change_that_is_equal_everywhere_has_no_interval() -> None:
    found = change({0: looked(0, 1.0, 2.0, 3.0, users="abc"), 1: looked(1, 1.5, 2.5, 3.5, users="abc")})
    assert found is not None
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert found.method.startswith("no interval: equal in all of 3 clusters")


def test_where_nobody_was_watched_there_is_no_change() -> None:
    assert change({}) is None
    assert change({0: looked(0, 1.0, users="a")}) is None

"""Two ways of scoring agree, nearly agree, or do not."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure, Verdict
from pluralrm.doctor import TOLERANCE, Sign, agreement, score_drift

SCORES = st.lists(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=4), min_size=1, max_size=5)


@given(SCORES, st.randoms())
def test_drift_is_the_largest_difference_and_counts_turned_pairs(scores: list[list[float]], draw) -> None:
    moved = [[score + draw.choice([0, 0, 1e-5, -0.5, 2]) for score in some] for some in scores]
    found = score_drift([Verdict(tuple(some)) for some in scores], [Verdict(tuple(some)) for some in moved])
    flat = [(a, b) for some, others in zip(scores, moved, strict=True) for a, b in zip(some, others, strict=True)]
    assert found.compared == len(flat)
    assert found.largest == max(abs(a - b) for a, b in flat)
    turned = 0
    for some, others in zip(scores, moved, strict=True):
        for one, other in combinations(range(len(some)), 2):
            before, after = some[one] - some[other], others[one] - others[other]
            turned += (before > 0 > after or before < 0 < after) and not abs(before) <= 2e-4 >= abs(after)
    assert found.turned == turned


def _agreement(some: list[tuple[float | Failure, ...]], others: list[tuple[float | Failure, ...]]) -> Sign:
    found = score_drift([Verdict(scores) for scores in some], [Verdict(scores) for scores in others])
    return agreement("x", found, promise="both ways agree", remedy="Do this")


@pytest.mark.parametrize(
    ("move", "colour"), [(0.0, "green"), (TOLERANCE / 2, "green"), (0.01, "yellow"), (0.2, "red"), (1.5, "red")]
)
def test_ways_that_differ_are_yellow_and_red_where_orders_hang_on_it(move: float, colour: str) -> None:
    sign = _agreement([(1.0, 2.0), (0.5, 1.5)], [(1.0 + move, 2.0), (0.5, 1.5)])
    assert sign.colour == colour
    assert (sign.remedy == "") == (colour == "green")


def test_rounding_grows_with_the_scores() -> None:
    assert _agreement([(-3000.0, -2900.0)], [(-3000.0, -2900.001)]).colour == "green"
    assert _agreement([(-3.0, -2.9)], [(-3.0, -2.901)]).colour == "yellow"


def test_failures_agree_with_nothing() -> None:
    failed = Failure("too_long", "900 tokens")
    assert _agreement([(failed, failed)], [(failed, failed)]).colour == "red"
    assert _agreement([(1.0, 2.0)], [(1.0, failed)]).colour == "red"
    assert _agreement([(1.0, failed), (1.0, 2.0)], [(1.0, failed), (1.0, 2.0)]).colour == "green"

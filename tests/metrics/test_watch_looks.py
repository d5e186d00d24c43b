"""Looks along a stream: what is spent, what is compared, and how often noise is taken for a change."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr

from pluralrm.metrics.watch import (
    FIRST_LOOK,
    GROWTH,
    WindowChange,
    WindowPair,
    above,
    spent,
    window_pairs,
    window_rise,
)


def test_all_looks_together_spend_the_rate_and_no_more() -> None:
    total = math.fsum(spent(look) for look in range(1, 100_000))
    assert 0.99 < total < 1
    assert all(0 < later < earlier for earlier, later in pairwise(spent(look) for look in range(1, 200)))


def test_windows_lie_within_what_was_seen_and_never_overlap() -> None:
    count = FIRST_LOOK
    while count <= 50_000:
        for earlier, recent in window_pairs(count):
            assert 0 <= earlier.start < earlier.stop <= recent.start < recent.stop == count
        assert len(window_pairs(count)) == 6
        count = math.ceil(count * GROWTH)


def rise(values: ArrayLike, users: Sequence[str], windows: WindowPair, sign: float = 1.0) -> WindowChange:
    change = window_rise(values, users, windows, sign=sign)
    assert change is not None
    return change


def test_a_fall_is_a_rise_of_the_negative() -> None:
    rng = np.random.default_rng(3)
    values, users = rng.normal(size=60), [f"u{number % 17}" for number in range(60)]
    [windows, *_] = window_pairs(60)
    both = rise(values, users, windows).p, rise(values, users, windows, -1.0).p
    assert both[::-1] == pytest.approx((rise(-values, users, windows).p, rise(-values, users, windows, -1.0).p))
    assert max(both) == 1.0


def test_the_p_of_a_change_is_that_of_welch_or_more() -> None:
    """Each user once: the variance is Welch's; the degrees of freedom are some, so the tail is no lighter."""
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(1.0, 1.0, 40), rng.normal(0.5, 2.0, 30)])
    users, windows = [f"u{number}" for number in range(70)], WindowPair(slice(0, 40), slice(40, 70))
    change = rise(values, users, windows, -1.0)
    first, last = values[:40], values[40:]
    z = (first.mean() - last.mean()) / math.sqrt(first.var(ddof=1) / 40 + last.var(ddof=1) / 30)
    assert change[:2] == pytest.approx((first.mean(), last.mean()))
    assert ndtr(-z) < change.p < stdtr(20, -z)
    assert rise(values, users, windows).p == 1.0


def test_one_talkative_user_is_one_user() -> None:
    values = [0.0, 0.1] * 20 + [1.0, 1.1] * 20
    windows = WindowPair(slice(0, 40), slice(40, 80))
    assert rise(values, [f"u{number % 20}" for number in range(80)], windows).p < 1e-6
    assert rise(values, ["u"] * 80, windows).p == 1.0
    assert above(values, ["u"] * 80, slice(40, 80)) == 1.0


def test_a_missing_value_changes_nothing() -> None:
    rng = np.random.default_rng(7)
    values, users = rng.normal(size=40), [f"u{number % 10}" for number in range(40)]
    gaps, names = np.insert(values, 20, math.nan), [*users[:20], "x", *users[20:]]
    without = rise(values, users, WindowPair(slice(0, 20), slice(20, 40)))
    assert rise(gaps, names, WindowPair(slice(0, 21), slice(21, 41))) == without
    assert window_rise([math.nan] * 40, users, WindowPair(slice(0, 20), slice(20, 40))) is None


def test_what_never_varies_is_significant_only_with_many_users() -> None:
    users = [f"u{number}" for number in range(24)]
    windows = WindowPair(slice(0, 12), slice(12, 24))
    assert rise([0.0] * 12 + [1.0] * 12, users, windows).p == pytest.approx(2.0**-12)
    assert rise([0.0] * 12 + [1.0] * 12, users, windows, -1.0).p == 1.0


def test_a_margin_and_a_scale_ask_for_more() -> None:
    rng = np.random.default_rng(11)
    values = np.concatenate([rng.normal(0, 1, 50), rng.normal(1, 1, 50)])
    users, windows = [f"u{number}" for number in range(100)], WindowPair(slice(0, 50), slice(50, 100))
    plain, wide = window_rise(values, users, windows), window_rise(values, users, windows, margin=0.5)
    assert plain is not None
    assert wide is not None
    assert plain.p < wide.p < 1
    half = window_rise(values + 5, users, windows, scale=2.0)
    assert half is not None
    assert half.p == 1.0

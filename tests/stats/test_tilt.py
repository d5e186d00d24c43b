"""Weights that move a mean and leave the values alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.errors import MetricError
from pluralrm.power.detection import recentred, tilted


@given(st.integers(0, 10_000), st.floats(-0.3, 0.3))
def test_the_weighted_mean_is_the_target(seed: int, target: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, (30, 2)).astype(float)
    sums = sizes * rng.uniform(-1, 1, (30, 2))
    shares = tilted(sums, sizes, target)
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()
    assert np.mean(shares @ sums / (shares @ sizes)) == pytest.approx(target, abs=1e-9)


def test_three_values_by_hand() -> None:
    # exp(l) - exp(-l) = d (1 + exp(l) + exp(-l)) for equal weights; with l = log 2: 1.5 = d 3.5.
    values = np.array([[-1.0], [0.0], [1.0]])
    assert tilted(values, np.ones_like(values), 1.5 / 3.5) == pytest.approx(np.array([0.5, 1, 2]) / 3.5)


def test_base_weights_are_kept_where_the_mean_is_right_already() -> None:
    values, base = np.array([[-1.0], [1.0]]), np.array([0.3, 0.7])
    assert tilted(values, np.ones_like(values), 0.4, base=base) == pytest.approx(base)


def test_a_mean_beyond_all_values_is_an_error() -> None:
    values = np.array([[-0.1], [0.0], [0.1]])
    with pytest.raises(MetricError, match=r"true difference of \+0.200 is outside .* \(-0.100 to \+0.100\)"):
        tilted(values, np.ones_like(values), 0.2)


@given(st.integers(0, 10_000), st.floats(-0.9, 0.9))
def test_what_weights_do_not_reach_is_added_to_every_value(seed: int, target: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, (30, 2)).astype(float)
    sums = sizes * rng.normal(0.0, 0.2, (30, 2))
    shares, shift = recentred(sums, sizes, target)
    assert np.mean(shares @ (sums + shift * sizes) / (shares @ sizes)) == pytest.approx(target, abs=1e-9)
    assert 1 / (shares @ shares) >= 0.8 * 30 - 1e-6


def test_single_items_keep_their_values_where_the_target_is_near() -> None:
    values = np.array([[-1.0]] * 20 + [[0.0]] * 50 + [[1.0]] * 30)
    shares, shift = recentred(values, np.ones_like(values), 0.05)
    assert shift == pytest.approx(0.0, abs=1e-12)
    assert shares[:20].sum() > 0.2
    assert shares[70:].sum() == pytest.approx(shares[:20].sum() + 0.05)

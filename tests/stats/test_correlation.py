"""Correlations and their cluster bootstrap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pluralrm.errors import MetricError
from pluralrm.stats import correlation
from pluralrm.stats.correlation import _from_moments, _moments, _rank_correlations


def _ratings(seed: int, n: int = 40):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 6, n).astype(float)
    return x, np.round(x + 2 * rng.standard_normal(n)), [f"u{place // 2}" for place in range(n)]


@given(st.integers(0, 2**30))
def test_the_values_are_scipys(seed: int) -> None:
    x, y, names = _ratings(seed)
    pearson = correlation(x, y, names, resamples=50)
    spearman = correlation(x, y, names, kind="spearman", resamples=50)
    assert pearson.value == pytest.approx(scipy_stats.pearsonr(x, y).statistic, abs=1e-12)
    assert spearman.value == pytest.approx(scipy_stats.spearmanr(x, y).statistic, abs=1e-12)


@given(st.integers(0, 2**30))
def test_a_resample_is_the_correlation_of_the_drawn_items(seed: int) -> None:
    x, y, _ = _ratings(seed, 12)
    counts = np.random.default_rng(seed).multinomial(12, np.full(12, 1 / 12), size=3).astype(float)
    moments = _moments(x, y, np.arange(12))
    for row, pearson, spearman in zip(
        counts, _from_moments(counts, moments), _rank_correlations(counts, x, y), strict=True
    ):
        drawn = np.repeat(np.arange(12), row.astype(int))
        if np.ptp(x[drawn]) and np.ptp(y[drawn]):
            assert pearson == pytest.approx(scipy_stats.pearsonr(x[drawn], y[drawn]).statistic, abs=1e-7)
            assert spearman == pytest.approx(scipy_stats.spearmanr(x[drawn], y[drawn]).statistic, abs=1e-9)


def test_the_interval_is_near_fishers() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    y = 0.6 * x + 0.8 * rng.standard_normal(400)
    found = correlation(x, y, [str(n) for n in range(400)])
    fisher = scipy_stats.pearsonr(x, y).confidence_interval()
    assert found[1:3] == pytest.approx((fisher.low, fisher.high), abs=0.02)


def test_repeated_items_of_one_user_do_not_count_twice() -> None:
    x, y, _ = _ratings(1, 60)
    once = correlation(x, y, [str(n) for n in range(60)])
    five = correlation(np.repeat(x, 5), np.repeat(y, 5), [str(n // 5) for n in range(300)])
    assert five.value == pytest.approx(once.value, abs=1e-12)
    assert five[1:3] == pytest.approx(once[1:3], abs=1e-6)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_the_order_of_rows_changes_no_byte_and_the_seed_does(kind: str) -> None:
    x, y, names = _ratings(2)
    order = np.random.default_rng(0).permutation(40)
    before = correlation(x, y, names, kind=kind, seed=5, resamples=800)  # type: ignore[arg-type]
    after = correlation(x[order], y[order], [names[n] for n in order], kind=kind, seed=5, resamples=800)  # type: ignore[arg-type]
    assert before == after
    assert before != correlation(x, y, names, kind=kind, seed=6, resamples=800)  # type: ignore[arg-type]


def test_no_interval_is_made_up() -> None:
    x = np.arange(20.0)
    assert correlation(x, 2 * x, [str(n) for n in x])[1:] == (None, None, "no interval: the same in every resample")
    few = correlation([1.0, 2.0, 3.0], [2.0, 1.0, 5.0], ["a", "b", "c"])
    assert few[1:] == (None, None, "no interval: 3 clusters, wanted four or more")


def test_what_has_no_correlation_is_refused() -> None:
    names = list("abcd")
    with pytest.raises(MetricError, match="the second measurement is 5 throughout"):
        correlation([1, 2, 3, 4], [5, 5, 5, 5], names)
    with pytest.raises(MetricError, match="4 and 3 values and 4 clusters"):
        correlation([1, 2, 3, 4], [5, 6, 7], names)
    with pytest.raises(MetricError, match="not finite"):
        correlation([1, 2, 3, float("nan")], [5, 6, 7, 8], names)

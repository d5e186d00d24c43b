"""The ratio of two means against the definition of Fieller's interval, and how often it covers."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.errors import MetricError
from pluralrm.stats import cluster_means, spread
from pluralrm.stats.intervals import ratio_of_means, t_quantile


def _pairs(count: int, seed: int, top: float = 0.3, bottom: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(count)
    above = top + 0.4 * shared + 0.4 * rng.standard_normal(count)
    return above, bottom + 0.4 * shared + 0.4 * rng.standard_normal(count)


def test_the_ends_are_where_the_difference_stops_being_separated_from_zero() -> None:
    above, below = _pairs(90, 1)
    users = [f"u{place // 2}" for place in range(90)]
    domains = ["ab"[place // 2 % 2] for place in range(90)]
    for strata in (None, domains):
        found = ratio_of_means(above, below, users, strata=strata)
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value < found.high
        statistics = []
        for end in (found.low, found.high):
            means = cluster_means(above - end * below, users, strata=strata)
            statistics.append(abs(means.means[0]) / spread(means, 0).variance ** 0.5)
        # One quantile at both ends, that of some 40 degrees of freedom or less.
        assert statistics[0] == pytest.approx(statistics[1], rel=1e-9)
        assert t_quantile(45) < statistics[0] < t_quantile(15)


def test_independent_items_have_the_textbook_interval() -> None:
    above, below = _pairs(400, 2)
    found = ratio_of_means(above, below, [f"u{place}" for place in range(400)])
    covariance = np.cov(above, below) / 400
    quantile = scipy_stats.t.ppf(0.975, 399)
    a = below.mean() ** 2 - quantile**2 * covariance[1, 1]
    b = above.mean() * below.mean() - quantile**2 * covariance[0, 1]
    c = above.mean() ** 2 - quantile**2 * covariance[0, 0]
    root = np.sqrt(b**2 - a * c)
    assert found.value == pytest.approx(above.mean() / below.mean(), abs=1e-12)
    assert (found.low, found.high) == pytest.approx(((b - root) / a, (b + root) / a), abs=1e-3)


def test_a_denominator_that_may_be_zero_has_no_ratio() -> None:
    above, below = _pairs(60, 3, bottom=0.05)
    with pytest.raises(MetricError, match="not separated from 0"):
        ratio_of_means(above, below, [f"u{place}" for place in range(60)])
    with pytest.raises(MetricError, match="wanted > 0 over two or more"):
        ratio_of_means(above, -np.abs(below), [f"u{place}" for place in range(60)])
    with pytest.raises(MetricError, match="over 1 clusters"):
        ratio_of_means(above, np.abs(below), ["u"] * 60)


def test_a_ratio_that_is_the_same_in_all_clusters_keeps_an_interval() -> None:
    below = np.array([0.0, 1.0, 1.0, 0.0, 1.0] * 10)
    found = ratio_of_means(below, below, [f"u{place}" for place in range(50)])
    assert found.value == 1
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1 < found.high
    assert found.high - found.low < 0.6


def test_a_denominator_that_never_varies_leaves_the_interval_of_the_numerator() -> None:
    above, _ = _pairs(60, 5)
    found = ratio_of_means(above, np.full(60, 0.5), [f"u{place}" for place in range(60)])
    plain = scipy_stats.t.interval(0.95, 59, loc=above.mean(), scale=above.std(ddof=1) / np.sqrt(60))
    assert (found.low, found.high) == pytest.approx(tuple(2 * end for end in plain), abs=0.01)


def test_the_order_of_items_changes_no_byte() -> None:
    above, below = _pairs(40, 4)
    users = [f"u{place // 3}" for place in range(40)]
    order = np.random.default_rng(0).permutation(40)
    assert ratio_of_means(above[order], below[order], [users[place] for place in order]) == ratio_of_means(
        above, below, users
    )


def test_the_interval_covers_the_true_ratio() -> None:
    hits = 0
    for seed in range(300):
        found = ratio_of_means(*_pairs(60, seed + 100), [f"u{place}" for place in range(60)])
        hits += found.low is not None and found.high is not None and found.low <= 0.5 <= found.high
    # 95% of 300 is 285, with a standard deviation of 3.8.
    assert 273 <= hits <= 297

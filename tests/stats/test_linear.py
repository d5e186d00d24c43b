"""The line at zero against statsmodels, and its refusals."""

import numpy as np
import pytest
import statsmodels.api as sm

from pluralrm.errors import MetricError
from pluralrm.stats.regression import mean_at_zero


def _data(count: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    users = [f"u{place // 2}" for place in range(count)]
    x = 3 + 5 * rng.standard_normal(count)
    effect = np.repeat(rng.standard_normal(count // 2), 2)
    y = np.clip(np.round(0.2 + 0.08 * x + 0.3 * effect + 0.4 * rng.standard_normal(count)), -1, 1)
    return y, x, users


def test_the_line_is_that_of_statsmodels() -> None:
    y, x, users = _data()
    fit = sm.OLS(y, sm.add_constant(x)).fit(
        cov_type="cluster", cov_kwds={"groups": np.unique(users, return_inverse=True)[1]}, use_t=True
    )
    found = mean_at_zero(y, x, users)
    assert found.low is not None
    assert found.high is not None
    assert found.value == pytest.approx(fit.params[0], abs=1e-12)
    # The same sandwich; the corrections for few clusters differ by a per cent.
    assert (found.high - found.low) / 2 == pytest.approx((fit.conf_int()[0, 1] - fit.conf_int()[0, 0]) / 2, rel=0.03)


def test_the_unit_of_the_covariate_does_not_matter() -> None:
    y, x, users = _data()
    one, other = mean_at_zero(y, x, users), mean_at_zero(y, 1e6 * x, users)
    assert one[:3] == pytest.approx(other[:3], abs=1e-9)


def test_without_a_covariate_it_is_the_mean() -> None:
    y, x, users = _data()
    found = mean_at_zero(y, np.zeros_like(x), users)
    assert found.value == pytest.approx(y.mean(), abs=1e-12)


def test_zero_outside_of_what_was_seen_has_no_answer() -> None:
    y, x, users = _data()
    with pytest.raises(MetricError, match="0 is outside of what was seen"):
        mean_at_zero(y, np.abs(x) + 1, users)
    with pytest.raises(MetricError, match="the covariate is 4 for every item"):
        mean_at_zero(y, np.full_like(x, 4.0), users)
    with pytest.raises(MetricError, match="wanted as many of each"):
        mean_at_zero(y, x, users[1:])


def test_values_that_never_vary_keep_an_interval() -> None:
    y, x, users = _data()
    found = mean_at_zero(np.zeros_like(y), x, users)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high
    assert found.high < 0.05


def test_values_on_a_line_keep_an_interval() -> None:
    found = mean_at_zero([-1.0, 0.0, 1.0, 0.0, 1.0], [-1.0, 0.0, 1.0, 0.0, 1.0], list("abcde"))
    assert found.value == pytest.approx(0, abs=1e-12)
    assert found.low is not None
    assert found.low < -0.2


def test_two_clusters_do_not_bear_a_line() -> None:
    found = mean_at_zero([0.0, 1.0, 0.0, -1.0], [-1.0, 2.0, 1.0, 0.5], ["a", "a", "b", "b"])
    assert (found.low, found.high) == (None, None)
    assert "no interval: 2 clusters" in found.method


def test_the_order_of_items_changes_no_byte() -> None:
    y, x, users = _data()
    order = np.random.default_rng(5).permutation(len(y))
    assert mean_at_zero(y[order], x[order], [users[place] for place in order]) == mean_at_zero(y, x, users)


def test_the_interval_covers_the_line() -> None:
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(300):
        x = rng.standard_normal(60) + 0.5
        effect = np.repeat(0.2 * rng.standard_normal(30), 2)
        y = 0.1 + 0.2 * x + effect + 0.2 * rng.standard_normal(60)
        found = mean_at_zero(y, x, [f"u{place // 2}" for place in range(60)])
        hits += found.low is not None and found.high is not None and found.low <= 0.1 <= found.high
    assert 273 <= hits <= 297

"""The logistic fit and its interval against statsmodels and scikit-learn."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from pluralrm.errors import MetricError
from pluralrm.stats import cluster_means, fit_logistic, share_at_zero, share_interval


def _some(seed: int, n: int = 240):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    y = (rng.random(n) < 1 / (1 + np.exp(-0.5 - 1.2 * x))).astype(float)
    y[rng.random(n) < 0.1] = 0.5
    return y, x, [f"u{place // 4:03}" for place in range(n)]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**30))
def test_the_fit_is_that_of_statsmodels_with_credits_of_a_half(seed: int) -> None:
    y, x, _ = _some(seed)
    expected = sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial()).fit(tol=1e-12).params
    found = fit_logistic(y, x)
    assert (found.intercept, found.slope) == pytest.approx(tuple(expected), abs=1e-7)
    assert found.ridge == 0


def test_a_separated_slope_gets_the_ridge_of_scikit_learn() -> None:
    x = np.array([-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 2.5])
    y = (x > 0).astype(float)
    expected = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(x[:, None], y)
    found = fit_logistic(y, x)
    assert found.ridge == 1
    assert found.slope == pytest.approx(expected.coef_[0, 0], abs=1e-4)
    assert found.intercept == pytest.approx(expected.intercept_[0], abs=1e-4)


def test_the_interval_is_the_cluster_robust_one() -> None:
    y, x, names = _some(4, 2_000)
    found = share_at_zero(y, x, names)
    model = sm.GLM(y, sm.add_constant(x / x.std()), family=sm.families.Binomial())
    owner = np.array([int(name[1:]) for name in names])
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": owner, "use_correction": False})
    low, high = 1 / (1 + np.exp(-fit.conf_int()[0]))
    assert found.low == pytest.approx(low, abs=5e-4)
    assert found.high == pytest.approx(high, abs=5e-4)


def test_without_a_slope_it_is_the_share() -> None:
    y, _, names = _some(1)
    assert share_at_zero(y, np.zeros(len(y)), names) == share_interval(cluster_means(y, names))
    assert share_at_zero(np.ones(9), np.arange(9), list("abcdefghi")).value == 1


def test_a_larger_unit_changes_nothing() -> None:
    y, x, names = _some(2)
    assert share_at_zero(y, 1_000 * x, names) == pytest.approx(share_at_zero(y, x, names), abs=1e-9)


def test_the_order_of_rows_changes_no_byte() -> None:
    y, x, names = _some(3)
    order = np.random.default_rng(0).permutation(len(y))
    assert share_at_zero(y[order], x[order], [names[n] for n in order]) == share_at_zero(y, x, names)


def test_one_cluster_has_a_value_and_no_interval() -> None:
    y, x, _ = _some(5)
    assert share_at_zero(y, x, ["u"] * len(y))[1:3] == (None, None)


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(MetricError, match="the covariate is 3 for every item"):
        share_at_zero([0.0, 1.0], [3.0, 3.0], ["a", "b"])
    with pytest.raises(MetricError, match="1 values, 2 covariates, 1 clusters"):
        share_at_zero([0.0], [1.0, 2.0], ["a"])

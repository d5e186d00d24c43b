"""How alike the values of one cluster are."""

import numpy as np
import pytest

from pluralrm.errors import MetricError
from pluralrm.stats.correlation import likeness


def grid(values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    return values.ravel(), [f"u{row:03}" for row in range(len(values)) for _ in range(values.shape[1])]


def test_a_table_by_hand() -> None:
    # Means 2, 4, 6 of two values each: between 2 * 8 / 2 = 8, within (2 + 2 + 2) / 3 = 2; (8 - 2) / (8 + 2) = .6.
    assert likeness(*grid(np.array([[1.0, 3.0], [3.0, 5.0], [5.0, 7.0]]))).value == pytest.approx(0.6)


def test_it_is_what_a_mixed_model_says_of_a_balanced_table() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(0)
    values, names = grid(rng.standard_normal((40, 1)) + rng.standard_normal((40, 5)))
    fit = sm.MixedLM(values, np.ones((200, 1)), groups=names).fit(reml=True)
    between = float(fit.cov_re[0, 0])
    assert likeness(values, names).value == pytest.approx(between / (between + fit.scale), abs=1e-4)


def test_the_interval_covers_in_95_of_100_tables() -> None:
    rng = np.random.default_rng(1)
    tables = np.sqrt(0.3) * rng.standard_normal((800, 25, 1)) + np.sqrt(0.7) * rng.standard_normal((800, 25, 4))
    found = [likeness(*grid(one)) for one in tables]
    inside = [one.low is not None and one.high is not None and one.low <= 0.3 <= one.high for one in found]
    assert 93 <= 100 * np.mean(inside) <= 97


def test_values_that_compensate_each_other_are_below_zero() -> None:
    found = likeness([1, -1, -1, 1, 1, -1, 1, -1.5], ["a", "a", "b", "b", "c", "c", "d", "d"])
    assert found.value < -0.9
    assert found.high is not None
    assert found.high < 0.5


@pytest.mark.parametrize(
    ("values", "clusters"), [([1, 2, 3], ["a", "b", "c"]), ([1, 1], ["a", "a"]), ([2, 2, 2], ["a", "a", "b"])]
)
def test_too_little_to_see_is_an_error(values: list[float], clusters: list[str]) -> None:
    with pytest.raises(MetricError, match="say nothing about how alike"):
        likeness(values, clusters)


def test_equal_inside_every_cluster_has_no_interval() -> None:
    assert likeness([1, 1, 2, 2, 4, 4], list("aabbcc"))[:3] == (1.0, None, None)

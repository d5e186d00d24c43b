"""Logistic regression with errors robust to items and annotators: equal to statsmodels, honest in simulation."""

from typing import NamedTuple

import numpy as np
import pytest
import statsmodels.api as sm

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import FloatArray, IntArray
from pluralrm.stats.regression import fit_crossed


class Drawn(NamedTuple):
    y: FloatArray
    x: FloatArray
    item: IntArray
    annotator: IntArray

    def names(self) -> tuple[list[str], list[str]]:
        return [f"i{place:04}" for place in self.item], [f"a{place:03}" for place in self.annotator]


def drawn(items: int, annotators: int, each: int, *, seed: int, slope: float = 0.8) -> Drawn:
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), each)
    annotator = np.concatenate([rng.choice(annotators, each, replace=False) for _ in range(items)])
    shared = rng.integers(-2, 3, (items, 3))[item]
    x = np.where(rng.random((len(item), 3)) < 0.6, shared, rng.integers(-2, 3, (len(item), 3))).astype(float)
    odds = x @ np.array([slope, 0.2, 0.0]) + rng.normal(0, 0.5, items)[item] + rng.normal(0, 0.3, annotators)[annotator]
    y = (rng.random(len(item)) < 1 / (1 + np.exp(-odds))).astype(float)
    y[rng.random(len(y)) < 0.1] = 0.5
    return Drawn(y, x, item, annotator)


def one_way(data: Drawn, groups: IntArray) -> FloatArray:
    model = sm.GLM(data.y, sm.add_constant(data.x), family=sm.families.Binomial())
    found = model.fit(tol=1e-13, cov_type="cluster", cov_kwds={"groups": groups})
    return np.asarray(found.cov_params())


@pytest.mark.parametrize("seed", range(4))
def test_values_and_two_way_variance_are_those_of_statsmodels(seed: int) -> None:
    data = drawn(50, 12, 4, seed=seed)
    fit = fit_crossed(data.y, data.x, *data.names())
    model = sm.GLM(data.y, sm.add_constant(data.x), family=sm.families.Binomial()).fit(tol=1e-13)
    assert fit.values == pytest.approx(model.params, abs=1e-9)
    ways = [one_way(data, groups) for groups in (data.item, data.annotator, np.arange(len(data.y)))]
    assert fit.covariance == pytest.approx(ways[0] + ways[1] - ways[2], abs=1e-12)
    assert (fit.errors >= np.sqrt(np.max([np.diag(ways[0]), np.diag(ways[1])], axis=0)) - 1e-12).all()
    assert (fit.items, fit.annotators, fit.df, fit.ridge) == (50, 12, 11, 0.0)


def test_the_order_of_rows_changes_no_bit() -> None:
    data = drawn(40, 8, 3, seed=1)
    items, annotators = data.names()
    order = np.random.default_rng(0).permutation(len(items))
    one = fit_crossed(data.y, data.x, items, annotators)
    other = fit_crossed(data.y[order], data.x[order], [items[i] for i in order], [annotators[i] for i in order])
    assert (one.values == other.values).all()
    assert (one.errors == other.errors).all()


def test_turning_every_judgment_around_turns_the_intercept_alone() -> None:
    """A and B exchanged: the same slopes, the opposite liking for the first place."""
    data = drawn(60, 10, 3, seed=2)
    one = fit_crossed(data.y, data.x, *data.names())
    other = fit_crossed(1 - data.y, -data.x, *data.names())
    assert other.values[1:] == pytest.approx(one.values[1:], abs=1e-9)
    assert other.values[0] == pytest.approx(-one.values[0], abs=1e-9)


def test_a_covariate_that_decides_gets_a_ridge_and_an_end() -> None:
    data = drawn(40, 8, 3, seed=3)
    decided = Drawn((np.sign(data.x[:, 0]) + 1) / 2, data.x, data.item, data.annotator)
    fit = fit_crossed(decided.y, decided.x, *decided.names())
    assert fit.ridge == 1.0
    assert np.isfinite(fit.values).all()
    assert "ridge" in fit.interval(1).method


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d._replace(y=np.ones_like(d.y)), "all choices are the same"),
        (lambda d: d._replace(annotator=np.zeros_like(d.annotator)), "two annotators at least"),
        (lambda d: d._replace(x=d.x * [1, 1, 0]), "a covariate is the same"),
    ],
)
def test_what_cannot_be_told_is_an_error(change: object, told: str) -> None:
    data = change(drawn(20, 6, 3, seed=4))  # type: ignore[operator]
    with pytest.raises(MetricError, match=told):
        fit_crossed(data.y, data.x, *data.names())


@pytest.mark.slow
def test_intervals_hold_the_slope_that_many_judgments_have() -> None:
    many = drawn(60_000, 4_000, 1, seed=5)
    truth = fit_crossed(many.y, many.x, *many.names()).values[1:]
    inside = []
    for seed in range(400):
        data = drawn(80, 20, 4, seed=seed)
        fit = fit_crossed(data.y, data.x, *data.names())
        ends = [fit.interval(place) for place in (1, 2, 3)]
        inside.append([low <= true <= high for (_, low, high, _), true in zip(ends, truth, strict=True)])
    assert (np.mean(inside, axis=0) >= 0.91).all()
    assert (np.mean(inside, axis=0) <= 0.99).all()

"""Permutation tests: all orders are all orders, and random ones are near."""

from collections.abc import Sequence
from itertools import permutations
from math import factorial

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.correlate.measures import measures
from pluralrm.stats.permutation import mean_of_rotations, permutation_test
from pluralrm.stats.ranking import kendall, order_agreement, pearson, top_regret

MEASURES = {measure.name: measure for measure in measures()}


@pytest.mark.parametrize("n", [3, 5, 6])
@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("ties", [False, True])
def test_the_exact_p_is_the_enumeration(name: str, n: int, ties: bool) -> None:
    measure, rng = MEASURES[name], np.random.default_rng(n)  # type: ignore[index]
    x, y = rng.standard_normal((2, n))
    if ties:
        x, y = np.array([0.0, 0, *range(1, n - 1)]), np.array([1.0, 2, 1, *range(3, n)])
    chance = mean_of_rotations(measure.function, x, y) if measure.chance is None else measure.chance

    def extremity(order: Sequence[int]) -> float:
        value = float(measure.function(x[None], y[None, list(order)])[0])
        return {"both": abs(value - chance), "high": value, "low": -value}[measure.side]

    each, observed = [extremity(order) for order in permutations(range(n))], extremity(range(n))
    found = permutation_test(measure.function, x, y, side=measure.side, chance=chance)
    assert found.p == pytest.approx(np.mean([value >= observed - 1e-9 for value in each]))
    assert found[1:] == (factorial(n), True)


@pytest.mark.parametrize("name", ["ndcg", "ndcg_linear", "rbo_normalised", "regret"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_chance_level_is_the_mean_over_all_orders(name: str, ties: bool) -> None:
    measure = MEASURES[name]  # type: ignore[index]
    x, y = np.random.default_rng(1).standard_normal((2, 6))
    if ties:
        x, y = np.round(x), np.round(y)
    every = np.array([y[list(order)] for order in permutations(range(6))])
    assert mean_of_rotations(measure.function, x, y) == pytest.approx(measure.function(x[None], every).mean())


def test_nine_models_have_the_exact_p_of_scipy() -> None:
    x, y = np.random.default_rng(2).standard_normal((2, 9))
    found = permutation_test(kendall, x, y)
    assert found.p == pytest.approx(scipy_stats.kendalltau(x, y, method="exact").pvalue)
    assert found[1:] == (362_880, True)


def test_ten_models_have_it_nearly() -> None:
    x, y = np.random.default_rng(3).standard_normal((2, 10))
    y = y + 0.6 * x
    p, orders, exact = permutation_test(kendall, x, y)
    truth = scipy_stats.kendalltau(x, y, method="exact").pvalue
    assert (orders, exact) == (10_000, False)
    assert abs(p - truth) < 4 * (truth * (1 - truth) / 10_000) ** 0.5 + 1e-4


def test_a_monte_carlo_p_is_never_zero_and_keeps_its_seed() -> None:
    x = np.arange(12.0)
    assert permutation_test(pearson, x, x).p == pytest.approx(1 / 10_001)
    y = np.random.default_rng(4).standard_normal(12)
    assert permutation_test(pearson, x, y, seed=1) == permutation_test(pearson, x, y, seed=1)
    assert permutation_test(pearson, x, y, seed=1) != permutation_test(pearson, x, y, seed=2)


def test_six_models_in_perfect_order_reach_two_in_720() -> None:
    assert permutation_test(kendall, np.arange(6.0), np.arange(6.0)).p == pytest.approx(2 / 720)
    assert permutation_test(order_agreement, np.arange(6.0), np.arange(6.0), chance=0.5).p == pytest.approx(2 / 720)


def test_a_regret_of_zero_is_worth_one_in_n() -> None:
    assert permutation_test(top_regret, np.arange(7.0), np.arange(7.0), side="low").p == pytest.approx(1 / 7)

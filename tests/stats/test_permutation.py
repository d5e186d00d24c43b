"""Permutation tests: all orders are all orders, and random ones are near."""

from collections.abc import Callable, Sequence
from itertools import permutations, product
from math import factorial

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.correlate.measures import measures
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.ranking import (
    SwapTest,
    kendall,
    mean_of_rotations,
    order_agreement,
    pearson,
    permutation_test,
    swap_test,
    top_regret,
    two_sample_test,
)

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

    values = measure.function(x[None], y[np.array(list(permutations(range(n))))])
    each = {"both": abs(values - chance), "high": values, "low": -values}[measure.side]
    observed = each[0]  # the first order leaves all in place
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


# ---------------------------------------------------------------- the difference of two that depend on each other

CORRELATIONS: dict[str, Callable[[FloatArray, FloatArray], float]] = {
    "spearman": lambda x, y: scipy_stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: scipy_stats.kendalltau(x, y).statistic,
    "pearson": lambda x, y: scipy_stats.pearsonr(x, y).statistic,
}


def swapped_pair(name: str, first: FloatArray, second: FloatArray, y: FloatArray) -> SwapTest:
    measure = MEASURES[name]  # type: ignore[index]
    return swap_test(measure.of_ranks or measure.function, first, second, y, ranked=measure.of_ranks is not None)


@pytest.mark.parametrize("name", CORRELATIONS)
@pytest.mark.parametrize("ties", [False, True])
def test_the_swap_test_is_the_enumeration_of_all_swaps(name: str, ties: bool) -> None:
    rng = np.random.default_rng(3)
    first, second, y = rng.standard_normal((3, 6))
    second = second + 2 * y
    if ties:
        first, second = np.round(first), np.round(second)
    one, other = (
        scipy_stats.zscore(row) if name == "pearson" else scipy_stats.rankdata(row) for row in (first, second)
    )
    y = scipy_stats.rankdata(y) if name != "pearson" else y
    statistic = CORRELATIONS["pearson" if name == "spearman" else name]

    def difference(swapped: Sequence[bool]) -> float:
        sides = np.where(swapped, [other, one], [one, other])
        return abs(float(np.nan_to_num(statistic(sides[0], y))) - float(np.nan_to_num(statistic(sides[1], y))))

    observed, each = difference([False] * 6), [difference(swapped) for swapped in product((False, True), repeat=6)]
    found = swapped_pair(name, first, second, y)
    assert found.p == pytest.approx(np.mean([value >= observed - 1e-9 for value in each]))
    assert found[1:3] == (32, True)
    assert found.smallest == pytest.approx(np.mean(np.array(each) >= max(each) - 1e-9))


def test_a_benchmark_does_not_differ_from_a_monotone_copy_and_sides_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    first, second, y = rng.standard_normal((3, 17))
    assert swapped_pair("spearman", first, np.exp(first), y).p == 1.0
    one, other = swapped_pair("spearman", first, second + y, y), swapped_pair("spearman", second + y, first, y)
    assert one == other
    assert one[1:3] == (10_000, False)
    assert swapped_pair("spearman", first, y, y).p < 0.01


def dependent(world: str, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return two benchmarks and a result; the first two correlate with the result alike but for `better`."""
    y, one, other, shared = rng.standard_normal((4, n))
    if world == "unrelated":
        return one, other, y
    if world == "close":
        return y + one + 3 * shared, y + other + 3 * shared, y
    if world == "margins":
        return np.exp(y + one), np.round(2 * (y + other)), y
    if world == "weak models":
        y = np.where(np.arange(n) < n // 5, y - 5, y)
        return y + one, y + other, y
    if world == "better":
        return y + 0.3 * one, y + 1.5 * other, y
    return y + 0.5 * one, y + 0.5 * other, y


def rejections(world: str, n: int, name: str, studies: int) -> float:
    """Return in what share of simulated studies p is at most .05."""
    rng = np.random.default_rng(n)
    return float(np.mean([swapped_pair(name, *dependent(world, n, rng)).p <= 0.05 for _ in range(studies)]))


ALIKE = [
    (name, world)
    for name in CORRELATIONS
    for world in ("unrelated", "strong", "close", "margins", "weak models")
    # Another marginal form is another Pearson correlation: the two do not predict alike.
    if (name, world) != ("pearson", "margins")
]


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 8, 12])
@pytest.mark.parametrize(("name", "world"), ALIKE)
def test_two_that_predict_alike_are_called_different_in_about_a_twentieth(name: str, world: str, n: int) -> None:
    # Three standard errors of 500 studies. With eight models or fewer Pearson's own scale is uncertain: up to 9%.
    assert rejections(world, n, name, 500) < (0.12 if name == "pearson" and n <= 8 else 0.085)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "least"), [(8, 0.18), (12, 0.5)])
@pytest.mark.parametrize("name", ["spearman", "pearson"])
def test_a_clearly_better_predictor_is_found(name: str, n: int, least: float) -> None:
    assert rejections("better", n, name, 200) > least


@pytest.mark.parametrize("sizes", [(2, 3), (3, 4), (4, 9), (5, 5)])
@pytest.mark.parametrize("ties", [False, True])
def test_two_samples_have_the_exact_p_of_scipy(sizes: tuple[int, int], ties: bool) -> None:
    rng = np.random.default_rng(sum(sizes))
    first, second = (rng.gamma(1, 20, size) for size in sizes)
    if ties:
        first, second = np.where(first > 20, 40.0, 5.0), np.where(second > 20, 40.0, 5.0)
    theirs = scipy_stats.permutation_test(
        (first, second), lambda x, y, axis: x.mean(axis) - y.mean(axis), n_resamples=np.inf
    )
    found = two_sample_test(list(first), list(second))
    assert found.exact
    assert found.p == pytest.approx(theirs.pvalue)


def test_large_samples_have_it_nearly_and_a_seed_fixes_it() -> None:
    rng = np.random.default_rng(5)
    first, second = list(rng.normal(0, 1, 8)), list(rng.normal(0.7, 1, 40))
    found = two_sample_test(first, second)
    assert found[1:] == (10_000, False)
    assert found.p == pytest.approx(scipy_stats.ttest_ind(first, second).pvalue, abs=0.01)
    assert two_sample_test(first, second) == found
    assert two_sample_test([0.0] * 8, [1.0] * 40).p == pytest.approx(2 / 10_001)
    assert two_sample_test([1.0] * 3, [1.0] * 5).p == 1.0

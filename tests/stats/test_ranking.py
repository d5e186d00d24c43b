"""How alike two rankings are: against scipy, scikit-learn, brute force, and examples worked by hand."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, permutations, product
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from sklearn.metrics import ndcg_score

from pluralrm.stats import ranking

tied = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=9).filter(
    lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs, strict=True))
)


def sides(pairs: Sequence[tuple[int, int]]):
    x, y = np.array(pairs, dtype=float).T
    return x[None], y[None]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ranking.pearson, scipy_stats.pearsonr),
        (ranking.spearman, scipy_stats.spearmanr),
        (ranking.kendall, scipy_stats.kendalltau),
        (ranking.weighted_kendall, scipy_stats.weightedtau),
    ],
)
@given(tied)
def test_correlations_are_scipys_with_ties_too(ours: ranking.Ranking, theirs: Callable[..., object], pairs) -> None:
    x, y = sides(pairs)
    assert ours(x, y)[0] == pytest.approx(theirs(x[0], y[0]).statistic, abs=1e-12)  # type: ignore[attr-defined]


@given(tied)
def test_ndcg_is_scikit_learns_of_the_same_relevances(pairs) -> None:
    x, y = sides(pairs)
    relevance = scipy_stats.rankdata(y, axis=1)  # n + 1 - the rank from above
    assert ranking.ndcg(x, y)[0] == pytest.approx(ndcg_score(2**relevance - 1, x), abs=1e-12)
    assert ranking.ndcg(x, y, gain="linear")[0] == pytest.approx(ndcg_score(relevance, x), abs=1e-12)


def test_ndcg_of_three_models_by_hand() -> None:
    # Downstream a, b, c have the relevances 3, 2, 1; the benchmark places b, a, c.
    x, y = np.array([[2.0, 3.0, 1.0]]), np.array([[30.0, 20.0, 10.0]])
    best = 7 + 3 / log2(3) + 1 / 2
    assert ranking.ndcg(x, y)[0] == pytest.approx((3 + 7 / log2(3) + 1 / 2) / best, abs=1e-12)
    best = 3 + 2 / log2(3) + 1 / 2
    assert ranking.ndcg(x, y, gain="linear")[0] == pytest.approx((2 + 3 / log2(3) + 1 / 2) / best, abs=1e-12)


@pytest.mark.parametrize("n", [2, 5, 17])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.98])
def test_identical_rankings_have_an_rbo_of_1_but_truncated(n: int, p: float) -> None:
    x = np.random.default_rng(n).standard_normal((1, n))
    assert ranking.rbo(x, 3 * x, p=p)[0] == pytest.approx(1, abs=1e-12)
    assert ranking.rbo(x, 3 * x, p=p, convention="normalised")[0] == pytest.approx(1, abs=1e-12)
    assert ranking.rbo(x, 3 * x, p=p, convention="truncated")[0] == pytest.approx(1 - p**n, abs=1e-12)


def test_rbo_by_hand() -> None:
    # a b c d against b a d c: the first 1, 2, 3, 4 share 0, 2, 2, 4, so A = 0, 1, 2/3, 1. With p = 1/2:
    # 1/2 (0 + 1/2 + 1/6 + 1/8) = 19/48 truncated, + 1/16 = 22/48 extrapolated, / (15/16) = 19/45 normalised.
    x, y = np.array([[4.0, 3.0, 2.0, 1.0]]), np.array([[3.0, 4.0, 1.0, 2.0]])
    assert ranking.rbo(x, y, p=0.5, convention="truncated")[0] == pytest.approx(19 / 48, abs=1e-12)
    assert ranking.rbo(x, y, p=0.5)[0] == pytest.approx(22 / 48, abs=1e-12)
    assert ranking.rbo(x, y, p=0.5, convention="normalised")[0] == pytest.approx(19 / 45, abs=1e-12)


def test_rbo_of_turned_rankings_by_hand() -> None:
    # a b c against c b a: A = 0, 1/2, 1. With p = .8: .2 (.4 + .64) = .208.
    x = np.array([[3.0, 2.0, 1.0]])
    assert ranking.rbo(x, -x, convention="truncated")[0] == pytest.approx(0.208, abs=1e-12)
    assert ranking.rbo(x, -x)[0] == pytest.approx(0.208 + 0.512, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=5))
def test_a_tie_in_rbo_is_the_mean_over_the_orders_it_could_have(pairs) -> None:
    x, y = sides(pairs)
    broken = [_rbo_of_lists(a, b, 0.8) for a, b in product(_orders(x[0]), _orders(y[0]))]
    assert ranking.rbo(x, y, convention="truncated")[0] == pytest.approx(np.mean(broken), abs=1e-12)


def _orders(side: np.ndarray) -> Iterator[tuple[int, ...]]:
    """Yield every order of the places that no score contradicts."""
    for order in permutations(range(len(side))):
        if all(side[one] >= side[next_] for one, next_ in pairwise(order)):
            yield order


def _rbo_of_lists(first: Sequence[int], second: Sequence[int], p: float) -> float:
    depths = range(1, len(first) + 1)
    return (1 - p) * sum(p ** (d - 1) * len(set(first[:d]) & set(second[:d])) / d for d in depths)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=3, max_size=5))
def test_a_tie_on_the_benchmark_is_the_mean_over_its_orders_in_ndcg_and_regret(pairs) -> None:
    x, y = sides(pairs)
    placed = np.array([[-order.index(place) for place in range(len(order))] for order in _orders(x[0])], dtype=float)
    for measure in (ranking.ndcg, ranking.top_regret):
        broken = measure(placed, np.broadcast_to(y, placed.shape))
        assert measure(x, y)[0] == pytest.approx(broken.mean(), abs=1e-12)


def test_regret_is_what_the_first_lacks() -> None:
    x, y = np.array([[5.0, 4.0, 4.0], [5.0, 5.0, 1.0]]), np.array([[10.0, 12.0, 9.0], [10.0, 12.0, 9.0]])
    assert ranking.top_regret(x, y).tolist() == [2.0, 1.0]


@given(tied)
def test_agreement_counts_pairs(pairs) -> None:
    x, y = sides(pairs)
    credit = [
        0.5 if a == b else float((a > b) == (c > d))
        for place, (a, c) in enumerate(pairs)
        for b, d in pairs[:place]
        if c != d
    ]
    assert ranking.order_agreement(x, y)[0] == pytest.approx(np.mean(credit), abs=1e-12)


@pytest.mark.parametrize(
    "measure", [ranking.pearson, ranking.spearman, ranking.kendall, ranking.weighted_kendall, ranking.order_agreement]
)
def test_a_row_that_never_varies_has_no_number_and_spoils_no_other(measure: ranking.Ranking) -> None:
    x, y = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), np.array([[7.0, 7.0, 7.0], [1.0, 2.0, 3.0]])
    assert np.isnan(measure(x, y)).tolist() == [True, False]
    assert measure(x, y)[1] == pytest.approx(1)


@pytest.mark.parametrize(
    "measure",
    [ranking.spearman, ranking.kendall, ranking.weighted_kendall, ranking.ndcg, ranking.rbo, ranking.order_agreement],
)
def test_only_the_order_of_scores_counts_in_rank_measures(measure: ranking.Ranking) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((20, 8)), rng.standard_normal((20, 8))
    assert measure(np.exp(x), y**3) == pytest.approx(measure(x, y), abs=1e-12)

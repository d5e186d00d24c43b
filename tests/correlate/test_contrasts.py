"""Which of two benchmarks predicts better: the verdict, how few models can be, and the pairs that would refute it."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.correlate import Column, Contrast, Dispute, correlate, matched
from pluralrm.correlate.contrasts import contrasts_of
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.ranking import pearson, swap_test


def published(name: str, scores: Sequence[float] | FloatArray) -> Column:
    return Column(name, {f"m{place:02}": float(score) for place, score in enumerate(scores)})


def compared(benchmarks: Sequence[Column], result: Column) -> tuple[list[Contrast], list[Dispute]]:
    """Return what `correlate` says of benchmarks against each other, without its tests of each by itself."""
    return contrasts_of(benchmarks, [result], matched, rbo_p=0.8, seed=0)


def dispute(first: Sequence[float], second: Sequence[float], result: Sequence[float]) -> Dispute:
    columns = [published("first", first), published("second", second)]
    return compared(columns, published("result", result))[1][0]


def test_disputed_pairs_are_those_that_two_benchmarks_order_differently() -> None:
    # By hand: (m00, m01) and (m02, m03) are turned; m04 ties with nothing and moves nowhere.
    duel = dispute([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], [10, 40, 90, 60, 100])
    assert [(pair.first, pair.second, pair.gain) for pair in duel.pairs] == [
        ("m01", "m00", 30.0),
        ("m03", "m02", -30.0),
    ]
    assert [pair.leads for pair in duel.pairs] == [(1.0, 1.0), (1.0, 1.0)]
    assert all(pair.p_downstream is None for pair in duel.pairs)
    assert "They order 2 of 10 pairs of models differently" in duel.verdict


def test_pairs_that_refute_are_those_in_which_the_worse_benchmark_is_right() -> None:
    turned = dispute([4, 1, 2, 3, 5, 6], [1, 2, 3, 6, 5, 4], [1, 2, 3, 5, 4, 6])
    straight = dispute([1, 2, 3, 6, 5, 4], [4, 1, 2, 3, 5, 6], [1, 2, 3, 5, 4, 6])
    assert turned.contrast.order == ("second", "first")
    assert straight.contrast.order == ("first", "second")
    # m03 > m05 and m04 > m05 by the better one; the other one has them as the result does.
    assert {(pair.first, pair.second) for pair in turned.against} == {("m03", "m05"), ("m04", "m05")}
    assert {(pair.first, pair.second) for pair in straight.against} == {("m03", "m05"), ("m04", "m05")}


def test_a_tie_on_a_benchmark_disputes_nothing_and_one_downstream_is_for_no_side() -> None:
    duel = dispute([1, 2, 3, 4], [1, 1, 4, 3], [1, 2, 3, 3])
    assert [(pair.first, pair.second, pair.gain) for pair in duel.pairs] == [("m03", "m02", 0.0)]
    assert not duel.against
    assert "agrees with first in 0, with second in 0" in duel.verdict


def three(n: int, seed: int = 3) -> tuple[list[Column], Column]:
    y, blur, bad = np.random.default_rng(seed).standard_normal((3, n))
    columns = [published("good", y + 0.1 * blur), published("fair", y + blur), published("bad", bad)]
    return columns, published("result", y)


def test_six_models_settle_nothing_between_three_benchmarks() -> None:
    for seed in range(10):
        contrasts, disputes = compared(*three(6, seed))
        assert {row.family for row in contrasts} == {3}
        for row in contrasts:
            assert row.too_few
            assert not row.shown
            assert row.smallest_p >= 3 / 32
        for duel in disputes:
            assert "6 models are too few, for p is at least .094, Holm over 3 comparisons; wanted 7" in duel.verdict


def test_no_adjusted_p_is_below_the_smallest() -> None:
    for n in (5, 7, 9, 17):
        for row in compared(*three(n))[0]:
            assert row.p_adjusted >= row.smallest_p > 0


def test_enough_models_settle_it_and_say_by_how_much() -> None:
    benchmarks, result = three(16)
    report = correlate(benchmarks, [result])
    duel = next(duel for duel in report.disputes if "bad" in duel.contrast.order)
    assert duel.contrast.order == ("good", "bad")
    assert duel.contrast.shown
    assert not duel.contrast.too_few
    assert duel.verdict.startswith("good predicts result significantly better than bad (Spearman .9")
    high, low = duel.contrast.values
    assert high - low == pytest.approx(duel.contrast.difference.value)
    assert len(report.to_json()["disputes"]) == 3  # type: ignore[arg-type]


def test_many_models_that_two_benchmarks_rank_alike_are_too_few_as_well() -> None:
    first = np.arange(12.0)
    second = first.copy()
    second[[0, 1]] = second[[1, 0]]
    duel = dispute(list(first), list(second), list(np.random.default_rng(1).standard_normal(12)))
    assert duel.contrast.too_few
    assert "they rank too few of 12 models differently, for p is at least .5" in duel.verdict


# ---------------------------------------------------------------- beside a test of another kind


def williams(first: FloatArray, second: FloatArray, y: FloatArray) -> float:
    """Return the two-sided p of Williams' t (Steiger 1980, eq. 7): normal scores, n - 3 degrees of freedom."""
    n, table = len(y), np.corrcoef([first, second, y])
    a, b, between = table[0, 2], table[1, 2], table[0, 1]
    scale = 2 * (n - 1) / (n - 3) * np.linalg.det(table) + ((a + b) / 2) ** 2 * (1 - between) ** 3
    return float(2 * scipy_stats.t.sf(abs((a - b) * np.sqrt((n - 1) * (1 + between) / scale)), n - 3))


def test_with_many_normal_scores_the_swap_test_has_the_p_of_williams() -> None:
    rng = np.random.default_rng(8)
    pairs = []
    for spread in (0.8, 1.0, 1.4) * 4:
        y, one, other = rng.standard_normal((3, 60))
        scores = y + one, y + spread * other, y
        pairs.append((swap_test(pearson, *scores, ranked=False).p, williams(*scores)))
    ours, theirs = np.array(pairs).T
    assert np.abs(ours - theirs).mean() < 0.05
    assert np.corrcoef(np.log(ours), np.log(theirs))[0, 1] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 12, 20])
@pytest.mark.parametrize("noise", ["own", "shared", "mostly shared", "in a third of the models"])
def test_equally_good_benchmarks_differ_in_a_twentieth_whatever_their_errors_share(noise: str, n: int) -> None:
    rng, rejected = np.random.default_rng(n), []
    weight = {"shared": 1.0, "mostly shared": 3.0}.get(noise, 0.0)
    for _ in range(400):
        y, one, other, common = rng.standard_normal((4, n))
        if noise == "in a third of the models":  # as good on average, by Spearman, with errors of another form
            other = 3 * other * (np.arange(n) < n // 3)
        rejected.append(swap_test(pearson, y + one + weight * common, y + other + weight * common, y).p <= 0.05)
    assert np.mean(rejected) < 0.085  # three standard errors of 400 studies

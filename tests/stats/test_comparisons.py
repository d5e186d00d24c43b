"""Tests of differences: exact where that is possible, at the nominal rate where it is not."""

import os
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pluralrm.stats import cluster_means, holm, rank_intervals, sign_flip_p, sign_flip_ps
from pluralrm.stats.clusters import on_grid
from pluralrm.stats.comparisons import _BLOCK, _levels, _random_bits, _sums, alike
from tests.metrics.worlds import World, right_twice


@given(st.lists(st.sampled_from([0.0, 1e-4, 0.01, 0.02, 0.03, 0.04, 0.5, 1.0]), min_size=1, max_size=7))
def test_holm_is_bonferroni_over_every_set_that_a_hypothesis_is_in(p: list[float]) -> None:
    # The closed test, of which Holm's is the shortcut: one is rejected where every set of hypotheses with it is.
    sets = [several for size in range(1, len(p) + 1) for several in combinations(range(len(p)), size)]
    wanted = [max(len(some) * min(p[one] for one in some) for some in sets if place in some) for place in range(len(p))]
    assert holm(p) == pytest.approx([min(1.0, one) for one in wanted], abs=1e-12)


def _two(seed: int, clusters: int, shift: float = 0.0):
    rng = np.random.default_rng(seed)
    names = [f"u{n // 3}" for n in range(3 * clusters)]
    return np.clip(rng.random((3 * clusters, 2)) + np.array([shift, 0.0]), 0, 1), names


def test_few_clusters_are_tested_exactly() -> None:
    values, names = _two(0, 9, 0.2)
    sums = (values[:, 0] - values[:, 1]).reshape(9, 3).sum(axis=1)
    exact = scipy_stats.permutation_test(
        (sums, np.zeros(9)), lambda a, b: abs(np.sum(a - b)), permutation_type="samples", alternative="greater"
    ).pvalue
    assert sign_flip_p(cluster_means(values, names))[0, 1] == pytest.approx(exact, abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**30), st.integers(1, 6), st.integers(1, 7))
def test_every_pair_is_tested_as_if_alone_in_exact_arithmetic(seed: int, columns: int, clusters: int) -> None:
    # One item per cluster, credits in halves: many patterns tie with the observed one and must count.
    earned = np.random.default_rng(seed).integers(0, 3, (clusters, columns))
    found = sign_flip_p(cluster_means(earned / 2, [f"u{n}" for n in range(clusters)]))
    for first, second in product(range(columns), repeat=2):
        steps = [int(step) for step in earned[:, first] - earned[:, second]]
        sums = [abs(sum(map(int.__mul__, signs, steps))) for signs in product((1, -1), repeat=clusters)]
        as_far = sum(one >= abs(sum(steps)) for one in sums)
        assert found[first, second] == float(Fraction(as_far, 2**clusters))


def test_drawn_patterns_are_the_same_for_every_pair_and_counted_over_all_blocks() -> None:
    flips, clusters = 2 * _BLOCK + 77, 40
    earned = np.random.default_rng(3).integers(0, 3, (clusters, 5))
    found = sign_flip_p(cluster_means(earned / 2, [f"u{n:02}" for n in range(clusters)]), seed=9, flips=flips)
    rng = np.random.default_rng(9)
    signs = np.vstack([1 - 2 * _random_bits(rng, rows, clusters) for rows in (_BLOCK, _BLOCK, 77)]).astype(int)
    for first, second in product(range(5), repeat=2):
        steps = earned[:, first] - earned[:, second]
        as_far = int((np.abs(signs @ steps) >= abs(steps.sum())).sum())
        assert found[first, second] == (as_far + 1) / (flips + 1)


def test_many_clusters_are_tested_by_draws_near_the_exact_value() -> None:
    values, names = _two(1, 14, 0.1)
    means = cluster_means(values, names)
    exact, drawn = sign_flip_p(means, flips=2**13)[0, 1], sign_flip_p(means, flips=2**13 - 1)[0, 1]
    assert exact != drawn
    assert drawn == pytest.approx(exact, abs=0.02)


def test_no_p_is_zero_and_the_diagonal_is_one() -> None:
    values, names = np.repeat([[1.0, 0.0]], 60, axis=0), [f"u{n}" for n in range(60)]
    p = sign_flip_p(cluster_means(values, names), flips=500)
    assert p == pytest.approx(np.array([[1, 1 / 501], [1 / 501, 1]]))
    few = sign_flip_p(cluster_means(values[:5], names[:5]))
    assert few[0, 1] == 2 / 2**5


@pytest.mark.parametrize(
    ("clusters", "size"),
    [(10, "12"), *(pytest.param(*world, marks=pytest.mark.slow) for world in ((48, "4"), (12, "1-8"), (48, "1")))],
)
def test_equal_models_look_different_at_most_one_time_in_twenty(clusters: int, size: str) -> None:
    world = World((clusters,), size, "alike")
    one, other = right_twice(world, (0.8, 0.8), np.random.default_rng(0), 400)
    p = [
        sign_flip_p(cluster_means(np.stack([one[:, n], other[:, n]], axis=1), world.clusters), flips=400)[0, 1]
        for n in range(400)
    ]
    # 95% of samples of 400 at a true rate of 5% lie within 2.9 and 7.1.
    assert np.mean(np.array(p) <= 0.05) <= 0.075


def test_ranks_are_what_significance_leaves_open() -> None:
    p = np.ones((4, 4))
    for better, worse in ((0, 2), (0, 3), (1, 3)):
        p[better, worse] = p[worse, better] = 0.01
    assert rank_intervals([0.9, 0.8, 0.7, 0.6], p) == [(1, 2), (1, 3), (2, 4), (3, 4)]
    assert rank_intervals([0.5], [[1.0]]) == [(1, 1)]
    assert rank_intervals([0.5, 0.5], np.full((2, 2), 0.001)) == [(1, 2), (1, 2)]


PAIRS = st.integers(0, 6).flatmap(
    lambda size: st.tuples(
        st.just(size), st.sets(st.sampled_from(list(combinations(range(size), 2)))) if size > 1 else st.just(set())
    )
)


@given(PAIRS)
def test_two_share_a_group_if_and_only_if_they_do_not_differ(world: tuple[int, set[tuple[int, int]]]) -> None:
    size, differing = world
    independent = [
        set(members)
        for width in range(1, size + 1)
        for members in combinations(range(size), width)
        if not differing & set(combinations(members, 2))
    ]
    largest = {tuple(sorted(one)) for one in independent if not any(one < other for other in independent)}
    assert alike(range(size), sorted(differing)) == tuple(sorted(largest))


@settings(deadline=None)
@given(st.integers(0, 2**30), st.integers(2, 8))
def test_a_rank_interval_holds_the_observed_rank(seed: int, models: int) -> None:
    rng = np.random.default_rng(seed)
    means, p = rng.permutation(models) / models, rng.random((models, models)) ** 3
    found = rank_intervals(means, np.minimum(p, p.T))
    for place, (low, high) in enumerate(found):
        assert 1 <= low <= 1 + int((means > means[place]).sum()) <= high <= models


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**30), st.sampled_from([1, 3]), st.sampled_from([0.0, 0.1]))
def test_counts_of_few_values_give_the_sums_of_the_parts_bit_for_bit(seed: int, strata: int, ties: float) -> None:
    # Three sizes of domains, so three weights; where some items are tied each weight has its half.
    rng = np.random.default_rng(seed)
    earned = (rng.random((90, 4)) < 0.6).astype(float)
    earned[rng.random((90, 4)) < ties] = 0.5
    domains = [str(min(n // 20, strata - 1)) for n in range(90)]
    parts = on_grid(cluster_means(earned, [f"u{n:02}" for n in range(90)], strata=domains).parts)
    bits = rng.integers(0, 2, (200, 90), dtype=np.int8)
    assert np.array_equal(_sums(parts)(bits), (bits.astype(np.float64) @ parts).T)
    assert _levels(parts) or ties


def test_p_values_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    values, names = _two(5, 40, 0.05)
    means, several = cluster_means(values, names), sign_flip_p(cluster_means(values, names), seed=4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert np.array_equal(sign_flip_p(means, seed=4), several)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**30), st.sampled_from([5, 40]), st.booleans())
def test_means_tested_together_have_the_p_values_of_each_alone(seed: int, clusters: int, shared: bool) -> None:
    # Credits, shares of ties and real numbers: whatever way the sums are taken, one test does not touch another.
    rng = np.random.default_rng(seed)
    names = [f"u{n:02}" for n in range(clusters)]
    tables = [rng.integers(0, 2, (clusters, 2)), rng.integers(0, 4, (clusters, 3)) / 3, rng.random((clusters, 2))]
    prompts = [f"q{n // 2}" if shared else f"q{n}" for n in range(clusters)]
    several = [cluster_means(table, names, crossed=prompts) for table in tables]
    for together, means in zip(sign_flip_ps(several, seed=seed, flips=600), several, strict=True):
        assert np.array_equal(together, sign_flip_p(means, seed=seed, flips=600))

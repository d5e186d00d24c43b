"""Best-of-k over all subsets at once equals going through them, whatever ties and whatever failed."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.errors import MetricError
from pluralrm.stats.best_of import (
    NONE,
    expected_best_of,
    first_best_of,
    first_picks,
    kl_best_of,
    powers_of_two,
    rank_weights,
)

NAN = float("nan")


def by_enumeration(scores: list[float], grades: list[float], k: int) -> float:
    """Return the mean over every subset of k of the mean grade of its tied tops; 0 where a subset has no score.

    No top counts for more than an answer without a score that stands beside it.
    """
    found = []
    for subset in combinations(range(len(scores)), k):
        scored = [place for place in subset if not math.isnan(scores[place])]
        top = max((scores[place] for place in scored), default=NAN)
        least = min((grades[place] for place in subset if math.isnan(scores[place])), default=1.0)
        tops = [min(grades[place], least) for place in scored if scores[place] == top]
        found.append(math.fsum(tops) / len(tops) if tops else 0.0)
    return math.fsum(found) / len(found)


pools = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.one_of(st.integers(0, 3).map(float), st.floats(-1e6, 1e6), st.just(NAN)), min_size=n, max_size=n),
        st.lists(st.floats(0, 1), min_size=n, max_size=n),
    )
)


@given(pools)
def test_it_is_the_mean_over_all_subsets_ties_and_failures_included(pool: tuple[list[float], list[float]]) -> None:
    scores, grades = pool
    ks = range(1, len(scores) + 1)
    [found] = expected_best_of([scores], [grades], ks)
    assert found == pytest.approx([by_enumeration(scores, grades, k) for k in ks], abs=1e-12)


@pytest.mark.parametrize("values", [2, 5, 1_000])
def test_twelve_answers_equal_enumeration_of_all_4095_subsets(values: int) -> None:
    rng = np.random.default_rng(values)
    scores, grades = rng.integers(0, values, (3, 12)).astype(float), rng.random((3, 12))
    scores[2, rng.random(12) < 0.4] = NAN
    found = expected_best_of(scores, grades, range(1, 13))
    for row in range(3):
        wanted = [by_enumeration(scores[row].tolist(), grades[row].tolist(), k) for k in range(1, 13)]
        assert found[row] == pytest.approx(wanted, abs=1e-12)


def test_three_answers_by_hand() -> None:
    # Pairs {a,b}, {a,c}, {b,c} of scores 1, 2, 2: the best are b, c, and half of b and c.
    [[one, two, three]] = expected_best_of([[1.0, 2.0, 2.0]], [[0.9, 0.6, 0.0]], [1, 2, 3])
    assert (one, two, three) == pytest.approx((0.5, (0.6 + 0.0 + 0.3) / 3, 0.3), abs=1e-15)


def test_drawing_subsets_of_128_answers_agrees() -> None:
    rng = np.random.default_rng(5)
    grades = rng.random(128)
    scores = np.round(grades + rng.normal(size=128), 1)
    [exact] = expected_best_of([scores], [grades], [4, 32])
    for k, wanted in zip([4, 32], exact, strict=True):
        drawn = np.argsort(rng.random((20_000, 128)), axis=1)[:, :k]
        # A subset comes in random order, so that its first highest is one of the tied tops at random.
        picks = np.take_along_axis(drawn, scores[drawn].argmax(axis=1)[:, None], axis=1)[:, 0]
        assert abs(grades[picks].mean() - wanted) < 4 * grades[picks].std() / math.sqrt(20_000)


@given(pools, st.data())
def test_failing_is_never_worth_more_than_the_lowest_score(
    pool: tuple[list[float], list[float]], data: st.DataObject
) -> None:
    scores, grades = pool
    place = data.draw(st.integers(0, len(scores) - 1))
    ks = range(1, len(scores) + 1)
    worst = min((score for score in scores if not math.isnan(score)), default=0.0) - 1
    failing, lowest = list(scores), list(scores)
    failing[place], lowest[place] = NAN, worst
    silent, spoken = expected_best_of([failing, lowest], [grades, grades], ks)
    assert (silent <= spoken + 1e-12).all()
    assert expected_best_of([[NAN] * len(scores)], [grades], ks).tolist() == [[0.0] * len(scores)]


@given(pools, st.data())
def test_failing_never_earns_more_than_any_scores_would(
    pool: tuple[list[float], list[float]], data: st.DataObject
) -> None:
    scores, grades = pool
    spoken = [data.draw(st.integers(-2, 5).map(float)) if math.isnan(score) else score for score in scores]
    ks = range(1, len(scores) + 1)
    found = [way([scores, spoken], [grades, grades], ks) for way in (expected_best_of, first_best_of)]
    for silent, answered in found:
        assert (silent <= answered + 1e-12).all()


def test_a_constant_that_fails_on_all_but_the_best_answers_gains_nothing() -> None:
    rng = np.random.default_rng(3)
    grades = rng.random((200, 16))
    silent = np.where(grades == grades.max(axis=1, keepdims=True), 1.0, NAN)
    ks = powers_of_two(16)
    cheat, honest, oracle = (
        expected_best_of(scores, grades, ks).mean(axis=0) for scores in (silent, np.ones_like(grades), grades)
    )
    assert (cheat <= honest).all()
    assert oracle[-1] > 0.9
    assert 0.45 < honest[-1] < 0.55
    assert cheat[-1] < 0.1


def test_where_there_is_no_answer_nothing_is_picked() -> None:
    none = float("-inf")
    assert expected_best_of([[none, 1.0]], [[0.0, 0.5]], [1, 2]).tolist() == [[0.25, 0.5]]
    assert expected_best_of([[none, none]], [[0.0, 0.0]], [2]).tolist() == [[0.0]]
    assert first_picks([[none, 1.0]], [1, 2]).tolist() == [[NONE, 1]]


@given(pools, st.randoms(use_true_random=False))
def test_the_order_of_the_answers_changes_nothing(pool: tuple[list[float], list[float]], rng: object) -> None:
    scores, grades = pool
    order = list(range(len(scores)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    ks = range(1, len(scores) + 1)
    moved = expected_best_of([[scores[o] for o in order]], [[grades[o] for o in order]], ks)
    assert moved == pytest.approx(expected_best_of([scores], [grades], ks), abs=1e-12)


def test_one_is_the_mean_and_all_is_the_top_and_a_constant_scorer_stays_at_the_mean() -> None:
    grades = [[0.1, 0.4, 0.9, 0.2]]
    assert expected_best_of([[3.0, 1.0, 2.0, 0.0]], grades, [1, 4]).tolist() == [[pytest.approx(0.4), 0.1]]
    assert expected_best_of([[7.0] * 4], grades, [1, 2, 3, 4])[0] == pytest.approx([0.4] * 4, abs=1e-15)


@given(pools)
def test_nothing_lies_above_the_oracle_and_the_oracle_never_falls(pool: tuple[list[float], list[float]]) -> None:
    scores, grades = pool
    ks = range(1, len(scores) + 1)
    [found], [oracle] = expected_best_of([scores], [grades], ks), expected_best_of([grades], [grades], ks)
    assert (found <= oracle + 1e-12).all()
    assert (np.diff(oracle) >= -1e-12).all()


def test_weights_are_shares_of_all_subsets_at_any_size() -> None:
    for n in (1, 2, 12, 128, 3_000):
        ks = tuple(powers_of_two(n))
        assert rank_weights(n, ks).sum(axis=0) == pytest.approx(np.ones(len(ks)), abs=1e-12)
        assert rank_weights(n, ks)[-1].tolist() == pytest.approx([k / n for k in ks], abs=1e-15)


def test_the_first_k_are_one_subset_and_the_first_of_tied_ones_is_taken() -> None:
    scores, grades = [[1.0, 3.0, 3.0, NAN, 9.0]], [[0.1, 0.2, 0.3, 0.4, 0.5]]
    assert first_picks(scores, [1, 2, 3, 4, 5]).tolist() == [[0, 1, 1, 1, 4]]
    assert first_best_of(scores, grades, [1, 2, 3, 4, 5]).tolist() == [[0.1, 0.2, 0.2, 0.2, 0.4]]
    assert first_picks([[NAN, NAN, 1.0]], [1, 2, 3]).tolist() == [[NONE, NONE, 2]]
    assert first_best_of([[NAN, NAN, 1.0]], [[1.0, 1.0, 0.5]], [1, 2, 3]).tolist() == [[0.0, 0.0, 0.5]]


@given(pools)
def test_the_first_of_all_is_what_the_whole_pool_expects_where_nothing_ties(
    pool: tuple[list[float], list[float]],
) -> None:
    scores, grades = pool
    known = [score for score in scores if not math.isnan(score)]
    if len(set(known)) == len(known):
        n = len(scores)
        assert first_best_of([scores], [grades], [n]) == pytest.approx(expected_best_of([scores], [grades], [n]))


@pytest.mark.parametrize("k", [0, 4, -1])
def test_more_than_there_are_cannot_be_drawn(k: int) -> None:
    for way in (expected_best_of, first_best_of):
        with pytest.raises(MetricError, match=rf"best-of-{k} of 3 answers per item; wanted k from 1 to 3"):
            way([[1.0, 2.0, 3.0]], [[0.0, 0.0, 1.0]], [1, k])


def test_a_grade_that_failed_must_be_given_a_worth_and_shapes_must_agree() -> None:
    with pytest.raises(MetricError, match="not finite"):
        expected_best_of([[1.0, 2.0]], [[0.0, NAN]], [1])
    with pytest.raises(MetricError, match="not finite"):
        expected_best_of([[1.0, math.inf]], [[0.0, 1.0]], [1])
    with pytest.raises(MetricError, match=r"wanted \(items, N\)"):
        expected_best_of([[1.0, 2.0]], [[0.0]], [1])


def test_the_distance_from_the_policy_by_hand() -> None:
    assert kl_best_of(1) == 0.0
    assert kl_best_of(2) == pytest.approx(math.log(2) - 0.5)
    assert kl_best_of(16) == pytest.approx(1.835, abs=5e-4)
    assert (powers_of_two(1), powers_of_two(8), powers_of_two(12)) == ([1], [1, 2, 4, 8], [1, 2, 4, 8, 12])


@pytest.mark.parametrize("quality", [0.0, 0.3, 0.9])
def test_a_scorer_gets_its_correlation_times_what_the_oracle_gets(quality: float) -> None:
    # Normal grades and scores: E[grade of best-of-k] = correlation * E[highest of k normal draws].
    rng = np.random.default_rng(1)
    grades = rng.normal(size=(4_000, 32))
    scores = quality * grades + math.sqrt(1 - quality**2) * rng.normal(size=grades.shape)
    found = expected_best_of(scores, grades, [2, 8, 32]).mean(axis=0)
    highest = np.array([0.5642, 1.4236, 2.0697])  # of 2, 8, 32 normal draws (Harter 1961)
    assert found == pytest.approx(quality * highest, abs=0.05)

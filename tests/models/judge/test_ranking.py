"""Scores from pairs: against an independent maximisation, and by what they promise."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from pluralrm.models.judge.styles import AGGREGATES, PairResult, bradley_terry, win_shares

WIDTH = 5
PAIRS = list(combinations(range(WIDTH), 2))
rounds = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=len(PAIRS), max_size=len(PAIRS))


def _results(outcomes: list[float]) -> list[PairResult]:
    return [PairResult(first, second, won) for (first, second), won in zip(PAIRS, outcomes, strict=True)]


def _by_maximisation(results: list[PairResult], width: int) -> list[float]:
    """Return the chances under strengths that scipy finds, from the log-likelihood as one would write it down."""

    def loss(logs: np.ndarray) -> float:
        def log_chance(i: float, j: float) -> float:
            return -float(np.logaddexp(0, j - i))

        total = sum(
            won * log_chance(logs[i], logs[j]) + (1 - won) * log_chance(logs[j], logs[i]) for i, j, won in results
        )
        return -total - sum(0.5 * log_chance(log, 0) + 0.5 * log_chance(0, log) for log in logs)

    logs = minimize(loss, np.zeros(width), method="BFGS", options={"gtol": 1e-9}).x
    return [float(np.mean([1 / (1 + np.exp(logs[j] - logs[i])) for j in range(width) if j != i])) for i in range(width)]


@pytest.mark.parametrize("seed", range(8))
def test_bradley_terry_is_the_maximum_of_its_likelihood(seed: int) -> None:
    draws = np.random.default_rng(seed)
    results = [PairResult(i, j, float(draws.choice([0, 0.5, 1]))) for i, j in PAIRS if draws.random() < 0.8]
    assert bradley_terry(results, WIDTH) == pytest.approx(_by_maximisation(results, WIDTH), abs=1e-5)


@given(rounds)
def test_over_all_pairs_both_aggregates_give_one_order(outcomes: list[float]) -> None:
    wins, chances = (aggregate(_results(outcomes), WIDTH) for aggregate in AGGREGATES.values())
    for one, other in PAIRS:
        assert np.sign(wins[one] - wins[other]) == np.sign(chances[one] - chances[other])


@given(rounds, st.permutations(range(WIDTH)))
def test_names_of_candidates_do_not_matter(outcomes: list[float], names: list[int]) -> None:
    renamed = [PairResult(names[i], names[j], won) for i, j, won in _results(outcomes)]
    for aggregate in AGGREGATES.values():
        plain, other = aggregate(_results(outcomes), WIDTH), aggregate(renamed[::-1], WIDTH)
        assert [other[name] for name in names] == plain


@given(rounds)
def test_scores_are_shares_and_add_up(outcomes: list[float]) -> None:
    for aggregate in AGGREGATES.values():
        scores = aggregate(_results(outcomes), WIDTH)
        assert all(0 <= score <= 1 for score in scores)
        assert sum(scores) == pytest.approx(WIDTH / 2)


def test_two_candidates() -> None:
    assert win_shares([PairResult(0, 1, 1.0)], 2) == [1.0, 0.0]
    assert win_shares([PairResult(0, 1, 0.5)], 2) == bradley_terry([PairResult(0, 1, 0.5)], 2) == [0.5, 0.5]
    assert win_shares([], 2) == [0.5, 0.5]


def test_one_that_wins_always_has_a_finite_strength() -> None:
    results = [PairResult(i, j, 1.0) for i, j in combinations(range(64), 2)]
    scores = bradley_terry(results, 64)
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 64
    assert scores[0] < 1

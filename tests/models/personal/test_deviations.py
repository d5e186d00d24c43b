"""eb and knn: derivatives, prior and posterior by other means; what they learn of users never met, and when nothing."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as checks
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.stats import multivariate_normal

from pluralrm.models.personal.algorithms import Algorithm, Fitted, load_algorithm
from pluralrm.models.personal.bt import Exact, StackedPairs, by_user, pooled_loss
from pluralrm.models.personal.deviations import derivatives, posterior_mean, prior_covariance, vote
from pluralrm.models.personal.examples import UserExamples, nobody
from tests.models.personal.tastes import TRAITS, credit, people, quietly, settings

NAMES = ("eb", "knn")
SEEDS = st.integers(0, 2**32 - 1)


def stack(rng: np.random.Generator, counts: list[int], width: int = 4) -> StackedPairs:
    owners = np.repeat(np.arange(len(counts)), counts)
    return StackedPairs(rng.normal(size=(len(owners), width)), owners, tuple(map(str, range(len(counts)))), 1.0)


def fitted(name: str, train: list[UserExamples], held_out: list[UserExamples]) -> tuple[Algorithm, Fitted]:
    algorithm = load_algorithm(name, settings(name))
    return algorithm, algorithm.fit(train, held_out, seed=0, log=quietly)


@pytest.fixture(scope="module", params=NAMES)
def learned(request: pytest.FixtureRequest) -> tuple[Algorithm, Fitted]:
    return fitted(request.param, people(80, 16), people(16, 16, seed=1))


# ---------------------------------------------------------------- by other means


@given(SEEDS)
@checks(max_examples=10, deadline=None)
def test_gradients_and_information_are_those_of_the_pooled_loss(seed: int) -> None:
    pairs = stack(np.random.default_rng(seed), [3, 2, 4])
    at = derivatives(pairs, l2=1.0, ridge=0.5)

    def loss(v: Exact) -> float:
        return pooled_loss(pairs.differences, v, 0.0)[0]

    def slope(v: Exact) -> Exact:
        return pooled_loss(pairs.differences, v, 0.0)[1]

    np.testing.assert_allclose(-at.gradients.sum(axis=0), approx_fprime(at.v, loss, 1e-7), atol=1e-5)
    information = np.stack([(slope(at.v + step) - slope(at.v - step)) / 2e-5 for step in 1e-5 * np.eye(4)]) / 9
    ridged = information + 0.5 * np.trace(information) / 4 * np.eye(4)
    np.testing.assert_allclose(at.root @ ridged @ at.root, np.eye(4), atol=1e-6)


@given(SEEDS, st.lists(st.integers(1, 5), min_size=1, max_size=5))
@checks(max_examples=20, deadline=None)
def test_the_prior_is_the_mean_product_of_two_different_pairs_of_a_user(seed: int, counts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    pairs = stack(rng, counts)
    products = [
        np.outer(first, second) for mine in by_user(pairs) for first, second in permutations(pairs.differences[mine], 2)
    ]
    by_hand = sum(products, np.zeros((4, 4))) / max(len(products), 1)
    np.testing.assert_allclose(prior_covariance(pairs.differences, pairs), by_hand, atol=1e-9)


def test_the_prior_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    truth = np.diag([2.0, 0.5, 0.0])
    counts = rng.integers(1, 20, 4000).tolist()
    pairs = stack(rng, counts, 3)
    shifts = rng.multivariate_normal(np.zeros(3), truth, len(counts))
    noisy = pairs.differences * 3 + shifts[pairs.owners]
    np.testing.assert_allclose(prior_covariance(noisy, pairs), truth, atol=0.15)


@given(SEEDS, st.integers(0, 30))
@checks(max_examples=20, deadline=None)
def test_the_posterior_mean_is_that_of_a_joint_gaussian(seed: int, count: int) -> None:
    """A pair is an observation 1/p of its margin's change with variance 1/(p(1-p)): conditioned in the pairs' space."""
    rng = np.random.default_rng(seed)
    rows, margins, variances = rng.normal(size=(count, 3)), rng.normal(size=count), np.array([2.0, 0.3, 0.0])
    chances = 1 / (1 + np.exp(-margins))
    prior = np.diag(variances)
    covariance = rows @ prior @ rows.T + np.diag(1 / (chances * (1 - chances)))
    by_hand = prior @ rows.T @ np.linalg.inv(covariance) @ (1 / chances) if count else np.zeros(3)
    np.testing.assert_allclose(posterior_mean(rows, margins, variances), by_hand, atol=1e-6)


def test_the_posterior_mean_is_the_peak_of_the_density() -> None:
    rng = np.random.default_rng(3)
    rows, margins, variances = rng.normal(size=(12, 2)), rng.normal(size=12), np.array([1.5, 0.2])
    chances = 1 / (1 + np.exp(-margins))
    observed, noise = 1 / chances, np.diag(1 / (chances * (1 - chances)))

    def surprise(z: Exact) -> float:
        likelihood = multivariate_normal.logpdf(observed, rows @ z, noise)
        return -float(likelihood + multivariate_normal.logpdf(z, np.zeros(2), np.diag(variances)))

    peak = minimize(surprise, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(posterior_mean(rows, margins, variances), peak, atol=1e-5)


@given(SEEDS, st.integers(1, 6), st.integers(1, 9))
@checks(max_examples=20, deadline=None)
def test_the_vote_is_the_one_by_hand(seed: int, count: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    margins, weights = rng.normal(size=(count, 7)), rng.uniform(0.1, 1, 7)
    agreement = [
        max(sum(math.tanh(float(m)) for m in margins[:, k]) / count, 0.0) * float(weights[k]) for k in range(7)
    ]
    nearest = sorted(range(7), key=lambda k: (-agreement[k], k))[:most]
    total = sum(agreement[k] for k in nearest)
    by_hand = [agreement[k] / total if k in nearest and total else 0.0 for k in range(7)]
    np.testing.assert_allclose(vote(margins, weights, most), by_hand, atol=1e-9)


# ---------------------------------------------------------------- users


def test_own_pairs_predict_users_never_met_and_those_of_others_do_not(learned: tuple[Algorithm, Fitted]) -> None:
    algorithm, fit = learned
    unseen = people(48, 24, seed=2)
    assert credit(algorithm, fit.shared, unseen, shown=8) > 0.75
    assert credit(algorithm, fit.shared, unseen, shown=8, lent=True) < 0.6


@pytest.mark.parametrize("name", NAMES)
def test_random_labels_leave_chance(name: str) -> None:
    algorithm, fit = fitted(name, people(80, 16, shuffled=True), people(16, 16, seed=1, shuffled=True))
    assert 0.45 < credit(algorithm, fit.shared, people(96, 24, seed=2, shuffled=True), shown=8) < 0.55


def test_random_labels_of_the_pairs_shown_leave_no_gain(learned: tuple[Algorithm, Fitted]) -> None:
    algorithm, fit = learned
    unseen, tossed = people(96, 24, seed=2), people(96, 24, seed=2, shuffled=True)
    mixed = [
        user._replace(
            preferred=np.concatenate([toss.preferred[:8], user.preferred[8:]]),
            other=np.concatenate([toss.other[:8], user.other[8:]]),
        )
        for user, toss in zip(unseen, tossed, strict=True)
    ]
    gain = credit(algorithm, fit.shared, mixed, shown=8) - credit(algorithm, fit.shared, unseen, shown=0)
    assert abs(gain) < 0.06


def test_without_pairs_a_user_has_the_pooled_reward(learned: tuple[Algorithm, Fitted]) -> None:
    algorithm, fit = learned
    state = algorithm.adapt(fit.shared, nobody(TRAITS))
    np.testing.assert_array_equal(state["direction"], fit.shared["direction"])


def test_pairs_are_a_set_and_each_counts_for_less_than_the_one_before(learned: tuple[Algorithm, Fitted]) -> None:
    algorithm, fit = learned
    [user] = people(1, 100, seed=5)
    turned = user.only(slice(None, None, -1))
    np.testing.assert_allclose(
        algorithm.adapt(fit.shared, user)["direction"],
        algorithm.adapt(fit.shared, turned)["direction"],
        rtol=1e-5,
        atol=1e-6,
    )
    lengths = [
        float(np.linalg.norm(algorithm.adapt(fit.shared, user.only(slice(n)))["direction"] - fit.shared["direction"]))
        for n in (0, 1, 100)
    ]
    assert lengths == sorted(lengths)
    assert np.isfinite(lengths).all()


@pytest.mark.parametrize("name", NAMES)
def test_users_of_one_and_of_a_hundred_pairs_and_one_who_comes_twice_are_fitted_on(name: str) -> None:
    users = people(24, 100)
    uneven = [user.only(slice(1 if place % 2 else 100)) for place, user in enumerate(users)]
    again = uneven[0]._replace(user="again")
    algorithm, fit = fitted(name, [*uneven, again], people(8, 16, seed=1))
    for key, array in fit.users[again.user].items():
        np.testing.assert_array_equal(array, fit.users[uneven[0].user][key])
    assert credit(algorithm, fit.shared, people(24, 24, seed=2), shown=8) > 0.6


@pytest.mark.parametrize("name", NAMES)
def test_users_of_one_pair_each_leave_the_pooled_reward_or_a_vote(name: str) -> None:
    algorithm, fit = fitted(name, people(24, 1), people(8, 8, seed=1))
    assert all(np.isfinite(array).all() for array in fit.shared.values())
    if name == "eb":  # nothing says how users differ
        assert not fit.shared["variances"].any()
    assert np.isfinite(credit(algorithm, fit.shared, people(8, 8, seed=2), shown=4))


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_is_a_number_of_directions_or_neighbours_and_the_best_is_kept(name: str) -> None:
    _, fit = fitted(name, people(80, 16), people(16, 16, seed=1))
    best = min(fit.curve, key=lambda epoch: epoch.held_out).number
    kept = int((fit.shared["variances"] > 0).sum()) if name == "eb" else int(fit.shared["count"][0])
    assert kept == (best if name == "eb" else min(5 * 2**best, 80))

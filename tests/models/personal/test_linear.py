"""bt, bt-posts, lore, pref: losses by hand, gradients by differences, optima by other libraries."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from pluralrm.models.personal.bt import (
    Exact,
    LossAndSlope,
    StackedPairs,
    by_user,
    directions,
    factor_loss,
    pooled,
    pooled_loss,
    posts_loss,
    user_weights,
)
from pluralrm.models.personal.lowrank import mixture_loss, mixtures

SEEDS = st.integers(0, 2**32 - 1)


def world(seed: int, users: int = 3, pairs: int = 4, width: int = 5) -> StackedPairs:
    rng = np.random.default_rng(seed)
    differences = rng.normal(size=(users * pairs, width))
    return StackedPairs(differences, np.repeat(np.arange(users), pairs), tuple("abcdefgh"[:users]), 1.0)


def by_hand(margins: list[float]) -> float:
    return sum(-math.log(1 / (1 + math.exp(-margin))) for margin in margins)


def dot(one: Exact, other: Exact) -> float:
    return sum(float(a) * float(b) for a, b in zip(one, other, strict=True))


def agrees_with_differences(loss: LossAndSlope, at: Exact) -> None:
    """The gradient equals central differences of the value, which is computed apart from it."""
    _, gradient = loss(at)
    for place in range(at.size):
        step = np.zeros(at.size)
        step[place] = 1e-5
        rise = (loss(at + step)[0] - loss(at - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(rise, rel=1e-4, abs=1e-6)


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_the_pooled_loss_is_the_one_by_hand(seed: int) -> None:
    pairs = world(seed)
    v = np.random.default_rng(seed + 1).normal(size=5)
    value, _ = pooled_loss(pairs.differences, v, 0.7)
    assert value == pytest.approx(by_hand([dot(d, v) for d in pairs.differences]) + 0.35 * dot(v, v))
    agrees_with_differences(lambda x: pooled_loss(pairs.differences, x, 0.7), v)


@pytest.mark.parametrize("l2", [0.1, 1.0, 10.0])
def test_pooled_finds_the_optimum_of_another_library(l2: float) -> None:
    rows = world(1, users=8, pairs=30).differences
    both = np.concatenate([rows, -rows])  # a classifier needs two classes; every pair counts twice, and so does C
    labels = np.repeat([1, 0], len(rows))
    other = LogisticRegression(C=1 / (2 * l2), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(both, labels)
    found = pooled(world(1, users=8, pairs=30), l2, steps=500)
    np.testing.assert_allclose(found, other.coef_[0], atol=2e-4)


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_the_loss_with_posts_is_the_one_by_hand(seed: int) -> None:
    pairs = world(seed)
    rng = np.random.default_rng(seed + 1)
    z, weights = rng.normal(size=(3, 2)), rng.normal(size=(3, 5))
    margins = [
        sum(d[j] * (weights[0, j] + sum(z[u, r] * weights[1 + r, j] for r in range(2))) for j in range(5))
        for d, u in zip(pairs.differences, pairs.owners, strict=True)
    ]
    value, _ = posts_loss(pairs, z, weights, 0.4)
    assert value == pytest.approx(by_hand(margins) + 0.2 * sum(float(w) ** 2 for w in weights.ravel()))
    agrees_with_differences(lambda x: posts_loss(pairs, z, x.reshape(3, 5), 0.4), weights.ravel())


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_the_loss_of_shared_rewards_is_the_one_by_hand(seed: int) -> None:
    pairs = world(seed)
    rng = np.random.default_rng(seed + 1)
    v, weights, towards = rng.normal(size=(5, 2)), rng.normal(size=(3, 2)), rng.normal(size=(5, 1))
    margins = [
        sum(float(weights[u, k]) * dot(d, v[:, k]) for k in range(2))
        for d, u in zip(pairs.differences, pairs.owners, strict=True)
    ]
    away = sum((float(v[j, k]) - float(towards[j, 0])) ** 2 for j in range(5) for k in range(2))
    value, _ = factor_loss(pairs, v, weights, pull=0.6, towards=towards)
    assert value == pytest.approx(by_hand(margins) + 0.3 * away)
    agrees_with_differences(
        lambda x: factor_loss(pairs, x.reshape(5, 2), weights, pull=0.6, towards=towards), v.ravel()
    )


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_the_loss_of_mixtures_is_the_one_by_hand(seed: int) -> None:
    pairs = world(seed, width=3)
    rng = np.random.default_rng(seed + 1)
    logits, centre = rng.normal(size=(3, 3)), np.array([0.2, 0.5, 0.3])
    odds = np.exp(logits)
    weights = odds / odds.sum(axis=1, keepdims=True)
    margins = [dot(d, weights[u]) for d, u in zip(pairs.differences, pairs.owners, strict=True)]
    prior = sum(float(centre[k]) * math.log(weights[u, k]) for u in range(3) for k in range(3))
    value, _ = mixture_loss(pairs.differences, pairs.owners, logits, centre, prior=2.0)
    assert value == pytest.approx(by_hand(margins) - 2 * prior)
    agrees_with_differences(
        lambda x: mixture_loss(pairs.differences, pairs.owners, x.reshape(3, 3), centre, prior=2.0), logits.ravel()
    )


@given(SEEDS, st.integers(0, 40), st.sampled_from([0.1, 1.0, 5.0]))
@settings(max_examples=20, deadline=None)
def test_newton_finds_the_optimum_of_a_search_without_gradients(seed: int, pairs: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    rows, centre = rng.normal(0, 3, size=(pairs, 2)), rng.normal(size=2)

    def loss(w: Exact) -> float:
        penalty = strength / 2 * sum((float(a) - float(b)) ** 2 for a, b in zip(w, centre, strict=True))
        return float(np.log1p(np.exp(-(rows @ w))).sum()) + penalty

    found = user_weights(rows, centre, strength)
    searched = minimize(loss, centre, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000})
    assert loss(found) <= searched.fun + 1e-7
    np.testing.assert_allclose(found, searched.x, atol=1e-3)


def test_newton_does_not_run_off_where_the_pairs_can_be_told_apart_without_an_error() -> None:
    rows = np.full((10_000, 1), 50.0)
    found = user_weights(rows, np.zeros(1), 1.0)
    assert np.isfinite(found).all()
    assert 0 < found[0] < 10


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # an older scipy says that it clips them
@given(SEEDS, st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_mixtures_lie_on_the_simplex_and_are_the_optimum_of_a_constrained_search(seed: int, pairs: int) -> None:
    rng = np.random.default_rng(seed)
    rows, centre = rng.normal(0, 2, size=(pairs, 3)), np.array([0.2, 0.5, 0.3])
    owners = np.zeros(pairs, np.int64)
    (found,) = mixtures(rows, owners, centre[None], centre, prior=1.5, steps=500)
    assert found.sum() == pytest.approx(1)
    assert (found > 0).all()

    def loss(w: Exact) -> float:
        return float(np.log1p(np.exp(-(rows @ w))).sum()) - 1.5 * float((centre * np.log(w)).sum())

    searched = minimize(
        loss,
        centre,
        method="SLSQP",
        bounds=[(1e-9, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert loss(found) <= loss(np.maximum(searched.x, 1e-9)) + 1e-4


def test_directions_point_to_what_users_differ_in() -> None:
    rng = np.random.default_rng(0)
    users, pairs, width = 200, 20, 6
    loud = np.array([5.0, 5.0, 1.0, 1.0, 1.0, 1.0])  # all answers differ most in the first two, where nobody cares
    differences = rng.normal(size=(users, pairs, width)) * loud
    likes = rng.choice([-1.0, 1.0], users)
    signs = np.sign(likes[:, None] * differences[..., 3] + 0.3 * rng.normal(size=(users, pairs)))
    made = (differences * signs[..., None]).reshape(-1, width)
    (found,) = directions(
        StackedPairs(made, np.repeat(np.arange(users), pairs), tuple(map(str, range(users))), 1.0), 1
    ).T
    assert np.abs(found).argmax() == 3
    assert abs(found[3]) > 0.95 * np.linalg.norm(found)


def test_every_users_pairs_are_found_and_a_user_without_any_has_none() -> None:
    pairs = StackedPairs(np.zeros((5, 1)), np.array([0, 0, 2, 2, 2]), ("a", "b", "c"), 1.0)
    assert [pairs.owners[mine].tolist() for mine in by_user(pairs)] == [[0, 0], [], [2, 2, 2]]

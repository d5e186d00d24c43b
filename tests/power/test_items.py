"""The number of users that is promised finds the difference as often as is promised."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom, norm

from pluralrm.errors import MetricError, SpecError
from pluralrm.power.detection import PowerSettings, by_p, declared, found, observed, significant, urn
from pluralrm.power.items import _number, check_differences, clusters_needed, smallest_difference
from pluralrm.stats import cluster_means, difference_interval, flip_p_of_differences, sign_flip_p, spread

SETTINGS = PowerSettings(simulations=1_000)


def benchmark(
    rng: np.random.Generator, users: int, items: int, *, mean: tuple[float, float, float], r: float
) -> np.ndarray:
    """Return differences (users, items) of -1, 0 and 1: each user has chances of his own, from Dirichlet's law."""
    chances = rng.dirichlet(np.array(mean) * (1 - r) / r, users)
    edges = chances.cumsum(axis=1)[:, None, :2]
    differences: np.ndarray = (rng.random((users, items, 1)) > edges).sum(axis=2) - 1.0
    return differences


def told(differences: np.ndarray) -> tuple[bool, bool]:
    """Return what `compare` says of one benchmark, from its items: p < .05, and the interval leaves out 0."""
    names = [f"u{user:04}" for user in range(len(differences)) for _ in range(differences.shape[1])]
    values = np.stack([differences.ravel() > 0, differences.ravel() < 0], axis=1).astype(float)
    means = cluster_means(values, names)
    interval = difference_interval(means, 0, 1)
    assert interval.low is not None
    assert interval.high is not None
    return bool(sign_flip_p(means, seed=9)[0, 1] < 0.05), not interval.low <= 0 <= interval.high


@pytest.mark.slow
def test_the_promised_number_of_users_has_the_promised_power_in_another_simulation() -> None:
    needed = clusters_needed(declared(0.4, likeness=0.2, items=3), 0.1, 3, PowerSettings())
    assert needed.clusters is not None
    assert needed.reached is not None
    rng = np.random.default_rng(77)
    told_apart = [
        told(benchmark(rng, int(needed.clusters.value), 3, mean=(0.15, 0.6, 0.25), r=0.2)) for _ in range(300)
    ]  # 300 place a share of .8 within .045
    by_test, by_interval = np.mean(told_apart, axis=0)
    assert by_test == pytest.approx(0.8, abs=0.055)
    assert by_interval == pytest.approx(needed.reached.by_interval.value, abs=0.055)


@pytest.mark.slow
def test_users_as_observed_promise_the_same() -> None:
    rng = np.random.default_rng(5)
    pilot = benchmark(rng, 500, 3, mean=(0.15, 0.6, 0.25), r=0.2)
    names = [f"u{user:04}" for user in range(500) for _ in range(3)]
    known = clusters_needed(declared(0.4, likeness=0.2, items=3), 0.08, 3, PowerSettings(simulations=500))
    seen = clusters_needed(observed(pilot.ravel().tolist(), names), 0.08, 3, PowerSettings(simulations=500), df=499)
    apart = clusters_needed(urn(pilot.ravel().tolist(), likeness=0.2, items=3), 0.08, 3, PowerSettings(simulations=500))
    assert known.clusters is not None
    assert apart.clusters is not None
    assert seen.clusters is not None
    assert seen.clusters.low is not None
    assert seen.clusters.high is not None
    assert seen.clusters.low * 0.95 < known.clusters.value < seen.clusters.high * 1.05
    assert apart.clusters.value == pytest.approx(known.clusters.value, rel=0.12)


def sign_test_power(users: int, disagree: float, difference: float) -> float:
    """Return the exact power of the sign test of as many users with one item each: McNemar's, without a simulation."""
    found = [sign_test_power_of(differ, (disagree + difference) / 2 / disagree) for differ in range(users + 1)]
    return float(binom.pmf(np.arange(users + 1), users, disagree) @ found)


@cache
def sign_test_power_of(differ: int, win: float) -> float:
    """Return the power where so many users differ."""
    wins = np.arange(differ + 1)
    p = np.minimum(2 * binom.sf(np.maximum(wins, differ - wins) - 1, differ, 0.5), 1)
    return float(binom.pmf(wins, differ, win)[p < 0.05].sum())


@pytest.mark.parametrize(("users", "disagree", "difference"), [(60, 0.3, 0.2), (200, 0.3, 0.1), (200, 0.5, 0.0)])
def test_single_items_have_the_power_of_the_exact_sign_test(users: int, disagree: float, difference: float) -> None:
    power = by_p(declared(disagree, likeness=0.0, items=1), users, difference, PowerSettings(simulations=3_000))
    assert power.value == pytest.approx(sign_test_power(users, disagree, difference), abs=0.025)


@pytest.mark.parametrize("simulations", [600, pytest.param(2_000, marks=pytest.mark.slow)])
def test_the_number_of_single_items_is_the_one_that_the_exact_sign_test_needs(simulations: int) -> None:
    needed = clusters_needed(declared(0.4, likeness=0.0, items=1), 0.2, 1, PowerSettings(simulations=simulations))
    exact = next(users for users in range(50, 200) if sign_test_power(users, 0.4, 0.2) >= 0.8)
    assert needed.clusters is not None
    assert needed.clusters.value == pytest.approx(exact, rel=0.08)


@pytest.mark.parametrize(("disagree", "difference"), [(0.3, 0.1), pytest.param(0.5, 0.08, marks=pytest.mark.slow)])
def test_intervals_of_independent_items_have_the_power_of_the_normal_curve(disagree: float, difference: float) -> None:
    world, variance = declared(disagree, likeness=0.0, items=4), disagree - difference**2
    wanted = (norm.ppf(0.975) + norm.ppf(0.8)) ** 2 * variance / difference**2 / 4
    assert found(world, round(wanted), difference, SETTINGS).by_interval.value == pytest.approx(0.8, abs=0.04)
    needed = clusters_needed(world, difference, 4, SETTINGS)
    assert needed.clusters is not None
    assert needed.clusters.value == pytest.approx(wanted, rel=0.12)  # the test needs a little more than the interval


def test_six_users_that_all_agree_are_the_fewest_whose_signs_say_anything() -> None:
    # 5 of 5 have p = 2/32, 6 of 6 have p = 2/64.
    world = declared(1.0, likeness=0.0, items=1)
    assert by_p(world, 5, 0.9999, SETTINGS).value == 0
    assert by_p(world, 6, 0.9999, SETTINGS).value > 0.99
    needed = clusters_needed(world, 0.9999, 1, SETTINGS)
    assert needed.clusters is not None
    assert needed.clusters.value == 6


@pytest.mark.parametrize("items", [1, 4])
def test_no_difference_is_found_as_often_as_alpha_allows(items: int) -> None:
    rng = np.random.default_rng(items)
    pilot = benchmark(rng, 80, items, mean=(0.2, 0.5, 0.3), r=0.3)
    names = [f"u{user:04}" for user in range(80) for _ in range(items)]
    for world in (observed(pilot.ravel().tolist(), names), declared(0.4, likeness=0.3, items=items)):
        both = found(world, 60, 0.0, PowerSettings(simulations=2_000))
        assert 0.015 < both.by_p.value < 0.065  # an exact test on few users who differ keeps below alpha
        assert 0.03 < both.by_interval.value < 0.065


@pytest.mark.slow
def test_power_grows_with_users_and_with_the_difference() -> None:
    pilot = benchmark(np.random.default_rng(3), 60, 2, mean=(0.2, 0.5, 0.3), r=0.3)
    names = [f"u{user:04}" for user in range(60) for _ in range(2)]
    for world in (observed(pilot.ravel().tolist(), names), declared(0.4, likeness=0.3, items=2)):
        by_users = [by_p(world, users, 0.1, SETTINGS).value for users in (20, 40, 60, 90, 140, 220)]
        by_difference = [by_p(world, 80, step / 50, SETTINGS).value for step in range(6)]
        assert all(low < high for low, high in pairwise(by_users))
        assert all(low < high for low, high in pairwise(by_difference))


def test_a_mean_over_domains_keeps_their_shares() -> None:
    rng = np.random.default_rng(8)
    names = [f"u{place:03}" for place in range(90)]
    domains = ["a"] * 60 + ["b"] * 30
    values = np.concatenate([rng.choice([0.0, 1.0, -1.0], 60), rng.choice([0.0, 1.0], 30)])
    world = observed(values.tolist(), names, domains)
    draws = world.draw(300, 200, difference=0.15, seed=(1,))
    assert np.bincount(draws.blocks).tolist() == [200, 100]
    means = (draws.sums.sum(axis=0) / draws.sizes.sum(axis=0)).mean(axis=0)
    assert means.mean() == pytest.approx(0.15, abs=0.01)
    assert means.std() * 300**0.5 == pytest.approx(world.spread(0.15), rel=0.15)


def test_the_smallest_difference_is_one_that_is_told_and_little_less_is_not() -> None:
    world = declared(0.3, likeness=0.15, items=4)
    lowest = smallest_difference(world, 100, SETTINGS)
    assert lowest is not None
    assert by_p(world, 100, lowest, SETTINGS).value >= 0.8
    assert by_p(world, 100, 0.95 * lowest, SETTINGS).value < 0.8
    assert smallest_difference(world, 4, SETTINGS) is None  # no p below 2/16


@pytest.mark.parametrize(("users", "items"), [(12, 3), (60, 4)])
def test_what_a_pilot_leaves_open_holds_the_true_variance(users: int, items: int) -> None:
    # The number needed goes with the variance, and so does its interval.
    true = declared(0.4, likeness=0.2, items=items).spread(0.1) ** 2 / users
    names, rng = [f"u{user:04}" for user in range(users) for _ in range(items)], np.random.default_rng(1)
    inside = []
    for _ in range(400):
        pilot = benchmark(rng, users, items, mean=(0.15, 0.6, 0.25), r=0.2)
        variance, df = spread(cluster_means(pilot.ravel(), names), 0)
        number = _number(100, df, SETTINGS)
        assert number.low is not None
        assert number.high is not None
        inside.append(number.low <= 100 * true / variance <= number.high)
    assert 92 <= 100 * np.mean(inside) <= 99


def test_few_flips_decide_as_all_of_them_do() -> None:
    parts = np.random.default_rng(2).normal(0.02, 0.1, (50, 300))
    assert (significant(parts, 0.05) == (flip_p_of_differences(parts) < 0.05)).mean() > 0.995


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(MetricError, match=r"a difference of \+0.4 where the models differ on 30% of the items"):
        clusters_needed(declared(0.3, likeness=0.0, items=1), 0.4, 1, SETTINGS)
    with pytest.raises(SpecError, match="--difference 2: wanted one between 0 and 1"):
        check_differences([2.0])

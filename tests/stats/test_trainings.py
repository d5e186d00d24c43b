"""A mean over several trainings: held against sums of squares by hand, and against simulated trainings and users."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm, ttest_1samp
from scipy.stats import t as student

from pluralrm.errors import MetricError
from pluralrm.stats import Interval, share_interval, trainings, trainings_difference
from pluralrm.stats.clusters import FloatArray, cluster_means
from tests.metrics.trainings import Trainings as Simulated
from tests.metrics.trainings import covered, width

USERS = [f"u{number:02}" for number in range(12)]


def drawn(seed: int, seeds: int, users: int, *, apart: float = 0.3) -> FloatArray:
    """Return grades (seeds, users), one item each: trainings, users and chance, squeezed into (0, 1)."""
    rng = np.random.default_rng(seed)
    latent = 0.3 + rng.normal(0, apart, (seeds, 1)) + rng.normal(0, 0.6, users) + rng.normal(0, 0.5, (seeds, users))
    grades: FloatArray = norm.cdf(latent)
    return grades


def ends(found: Interval) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


# ---------------------------------------------------------------- one training, many users


def test_about_users_it_is_the_interval_of_the_means_over_trainings() -> None:
    grades = drawn(1, 3, 12)
    alone = share_interval(cluster_means(grades.mean(axis=0), USERS))
    found = trainings(grades, USERS).users
    assert ends(found) == pytest.approx(ends(alone))
    assert found.value == pytest.approx(grades.mean())
    assert found.method == alone.method


def test_one_training_says_nothing_of_others() -> None:
    found = trainings(drawn(2, 1, 12), USERS)
    assert width(found.users) > 0
    assert (found.both.low, found.both.high) == (None, None)
    assert found.both.method == "no interval: one training"


def test_one_user_says_nothing_of_others() -> None:
    found = trainings([[0.2, 0.4], [0.3, 0.5]], ["u", "u"])
    assert found.both == found.users
    assert found.users.low is None


# ---------------------------------------------------------------- by hand


def squared_half(grades: FloatArray) -> float:
    """Return what both parts come to by the mean squares of a crossed table: t² MSB / (S U) + t² MSA / (S U)."""
    seeds, users = grades.shape
    centre = grades.mean()
    msa = users * sum((row.mean() - centre) ** 2 for row in grades) / (seeds - 1)
    msb = seeds * sum((column.mean() - centre) ** 2 for column in grades.T) / (users - 1)
    parts = zip((msa, msb), (seeds - 1, users - 1), strict=True)
    return float(sum(student.ppf(0.975, df) ** 2 * square for square, df in parts) / (seeds * users))


@pytest.mark.parametrize(("seed", "seeds"), list(product(range(4), (2, 3, 5))))
def test_its_ends_are_where_the_score_test_of_both_parts_rejects(seed: int, seeds: int) -> None:
    # At an end p the distance from the mean m is the half-width that the variance of a share p gives:
    # (m - p)² = q² V p(1 - p) / m(1 - m).
    grades = drawn(seed, seeds, 200)
    mean, squared = float(grades.mean()), squared_half(grades)
    for end in ends(trainings(grades, [f"u{number}" for number in range(200)]).both):
        assert (mean - end) ** 2 == pytest.approx(squared * end * (1 - end) / (mean * (1 - mean)), rel=0.03)


def test_with_the_same_users_over_and_over_it_is_students_interval_of_the_trainings() -> None:
    # No user differs from another: what is left is the t interval of five means, as scipy has it.
    means = np.array([0.48, 0.5, 0.53, 0.51, 0.49])
    found = trainings_difference(np.repeat(means[:, None], 4000, axis=1), np.zeros((5, 4000)) + 0.2, numbered(4000))
    wanted = ttest_1samp(means - 0.2, 0).confidence_interval(0.95)
    assert ends(found.both) == pytest.approx((wanted.low, wanted.high), abs=2e-3)


def numbered(count: int) -> list[str]:
    return [f"u{number:04}" for number in range(count)]


def test_several_items_of_a_user_are_no_more_users() -> None:
    once = drawn(5, 3, 12)
    found, again = trainings(once, USERS), trainings(np.tile(once, 4), USERS * 4)
    assert ends(again.both) == pytest.approx(ends(found.both))
    assert ends(again.users) == pytest.approx(ends(found.users))


# ---------------------------------------------------------------- two recipes


def test_what_trainings_and_users_have_in_common_does_not_widen_a_difference() -> None:
    # A seed that is good for one recipe is as good for the other: paired, only what they do not share is left.
    shared = drawn(7, 5, 40, apart=0.8) * 0.8
    better = shared + np.random.default_rng(0).uniform(0, 0.2, 40)
    paired = trainings_difference(better, shared, numbered(40))
    apart = trainings_difference(better[[1, 2, 3, 4, 0]], shared, numbered(40))
    assert ends(paired.both) == pytest.approx(ends(paired.users), abs=1e-9)
    assert ends(apart.users) == pytest.approx(ends(paired.users))
    assert width(apart.both) > 3 * width(paired.both)


def test_a_difference_turned_around_is_its_negative() -> None:
    one, other = drawn(8, 3, 12), drawn(9, 3, 12)
    there, back = trainings_difference(one, other, USERS), trainings_difference(other, one, USERS)
    for this, that in zip(there, back, strict=True):
        assert ends(this) == pytest.approx([-end for end in ends(that)[::-1]])


# ---------------------------------------------------------------- for any grades

_GRADES = st.integers(2, 4).flatmap(
    lambda items: st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=items, max_size=items), min_size=2, max_size=5
    )
)


@given(_GRADES)
def test_it_stays_in_bounds_is_never_the_narrower_and_knows_no_order(grades: Sequence[Sequence[float]]) -> None:
    users = numbered(len(grades[0]))
    found = trainings(grades, users)
    (low, high), (inner, outer) = ends(found.both), ends(found.users)
    assert 0 <= low <= inner <= outer <= high <= 1
    assert low - 1e-12 <= found.both.value <= high + 1e-12
    order = np.random.default_rng(len(grades)).permutation(len(grades))
    assert trainings(np.array(grades)[order], users) == found
    other = trainings_difference(grades, np.array(grades)[order], users)
    (low, high), (inner, outer) = ends(other.both), ends(other.users)
    assert -1 <= low <= inner <= outer <= high <= 1


@pytest.mark.parametrize("grade", [0.0, 0.3, 1.0])
def test_constants_have_the_interval_about_users_and_say_how_many_trainings_agree(grade: float) -> None:
    found = trainings(np.full((3, 12), grade), USERS)
    assert ends(found.both) == ends(found.users)
    assert found.both.method == f"{found.users.method}, 3 trainings"
    apart = trainings_difference(np.full((3, 12), grade), np.zeros((3, 12)), USERS)
    assert ends(apart.both) == ends(apart.users)
    assert apart.both.value == grade


def test_trainings_that_differ_while_users_do_not_are_seen() -> None:
    found = trainings([[0.2] * 12, [0.6] * 12], USERS)
    assert width(found.both) > width(found.users)
    assert "12 clusters, few clusters and 2 trainings" in found.both.method


@pytest.mark.parametrize(
    ("grades", "told"),
    [
        ([0.5] * 12, r"shape \(12,\) for 12 items; wanted \(trainings, items\)"),
        ([[0.5] * 11], r"shape \(1, 11\) for 12 items"),
        ([[0.5] * 11 + [float("nan")]], r"not in \[0, 1\]"),
        ([[1.5] * 12], r"not in \[0, 1\]"),
    ],
)
def test_slips_are_told(grades: object, told: str) -> None:
    with pytest.raises(MetricError, match=told):
        trainings(grades, USERS)  # type: ignore[arg-type] # what a slip would hand over
    with pytest.raises(MetricError, match="1 trainings beside 2; wanted the same seeds"):
        trainings_difference([[0.5] * 12], [[0.5] * 12] * 2, USERS)


# ---------------------------------------------------------------- how often it covers


_STUDIES = 400
_LEAST = binom.ppf(1e-3, _STUDIES, 0.95) / _STUDIES
"""Were the coverage 95%, fewer would be seen in one of a thousand such tests."""
_SIZES = list(product((2, 3, 5), (30, 100)))


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0.05, 0.6])
@pytest.mark.parametrize(("seeds", "users"), _SIZES)
@pytest.mark.parametrize("apart", [0.0, 0.1, 0.3, 0.8])
def test_it_covers_the_mean_of_other_users_and_trainings(seeds: int, users: int, apart: float, alike: float) -> None:
    world = Simulated(seeds, users, apart, alike)
    drawn_from = world.studies(_STUDIES, seed=(seeds, users, round(10 * apart), round(100 * alike)))
    found = [trainings(grades, world.clusters) for grades in drawn_from]
    assert covered([one.both for one in found], world.mean) >= _LEAST
    if apart == 0:  # nothing but users: theirs is right, and the other at most 1.75 times as wide with five
        assert covered([one.users for one in found], world.mean) >= _LEAST
        assert seeds < 5 or np.median([width(one.both) / width(one.users) for one in found]) < 1.75
    if apart == 0.8:
        assert covered([one.users for one in found], world.mean) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "users"), _SIZES)
@pytest.mark.parametrize("apart", [0.0, 0.2, 0.6])
def test_a_difference_covers_too(seeds: int, users: int, apart: float) -> None:
    worlds = [Simulated(seeds, users, apart, alike) for alike in (0.4, 0.9)]
    pairs = zip(
        *(one.studies(_STUDIES, seed=(9, seeds, users, place)) for place, one in enumerate(worlds)), strict=True
    )
    found = [trainings_difference(one, other, worlds[0].clusters).both for one, other in pairs]
    assert covered(found, worlds[0].mean - worlds[1].mean) >= _LEAST

"""Four styles for each record."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pluralrm.benchmarks.rmgap import STYLES
from pluralrm.construct.rmgap.responses import (
    APART,
    PROFILES,
    Profile,
    assignments,
    choose,
    describe,
    distance,
)
from pluralrm.digests import digest

Four = tuple[Profile, Profile, Profile, Profile]

EVERYWHERE = "0362e6020d991d4fd09014e4210dd30af2ed38216640015c0841683e2266c5a0"


@pytest.fixture(scope="module")
def distances() -> NDArray[np.int8]:
    """Return how far every profile is from every other."""
    levels = np.array(PROFILES, dtype=np.int8)
    found: NDArray[np.int8] = np.abs(levels[:, None] - levels[None]).sum(axis=-1, dtype=np.int8)
    return found


@pytest.fixture(scope="module")
def chosen() -> list[Four]:
    return [choose(f"record-{number}") for number in range(3000)]


def test_there_are_five_levels_on_five_dimensions() -> None:
    assert len(set(PROFILES)) == len(PROFILES) == 3125
    assert {len(levels) for levels in STYLES.values()} == {5}
    assert {level for profile in PROFILES for level in profile} == set(range(5))


def test_from_every_start_and_whatever_is_drawn_four_are_apart(distances: NDArray[np.int8]) -> None:
    # Every farthest second, and then every farthest third, of every one of the 3,125 starts.
    least = []
    for start in range(len(PROFILES)):
        for second in np.flatnonzero(distances[start] == distances[start].max()):
            nearest = np.minimum(distances[start], distances[second])
            thirds = np.flatnonzero(nearest == nearest.max())
            fourth = np.minimum(nearest, distances[thirds]).max(axis=1)
            least.append(min(int(distances[start, second]), int(nearest.max()), int(fourth.min())))
    assert len(least) >= len(PROFILES)
    assert min(least) == APART + 1


def test_three_thousand_records_have_four_styles_each_all_apart(chosen: list[Four]) -> None:
    assert len(chosen) == 3000
    for four in chosen:
        assert len(four) == 4
        assert min(distance(one, other) for one, other in combinations(four, 2)) > APART


def test_the_choice_is_the_same_on_every_machine(chosen: list[Four]) -> None:
    assert digest(chosen) == EVERYWHERE


def test_each_style_is_as_far_as_can_be_from_those_before_it(chosen: list[Four], distances: NDArray[np.int8]) -> None:
    for four in chosen[:300]:
        places = [PROFILES.index(one) for one in four]
        assert any(is_greedy(order, distances) for order in permutations(places))


def is_greedy(order: Sequence[int], distances: NDArray[np.int8]) -> bool:
    reaches = [distances[list(order[:count])].min(axis=0) for count in (1, 2, 3)]
    return all(reach[place] == reach.max() for reach, place in zip(reaches, order[1:], strict=True))


def test_a_choice_depends_on_the_id_and_the_seed_alone() -> None:
    assert choose("a") == choose("a", seed=0) == choose("a", seed="0")
    assert len({choose(name, seed=seed) for name in ("a", "b", "c") for seed in (0, 1, "spring")}) == 9


def test_no_response_has_a_kind_of_style_of_its_own(chosen: list[Four]) -> None:
    # A start is drawn from all, the others lie near the ends; if it stayed first, r1 would have the levels between.
    between = [sum(sum(level in {1, 2, 3} for level in four[number]) >= 2 for four in chosen) for number in range(4)]
    expected = sum(between) / 4
    assert expected > 100
    assert all(abs(count - expected) < 5 * expected**0.5 for count in between), between


def test_levels_are_used_alike_from_both_ends(chosen: list[Four]) -> None:
    for place, names in enumerate(STYLES.values()):
        counts = Counter(response[place] for four in chosen for response in four)
        levels = {level: counts[level] for level in range(len(names))}
        lowest, low, _, high, highest = levels.values()
        assert sum(levels.values()) == 4 * len(chosen)
        assert abs(lowest - highest) < 5 * (lowest + highest) ** 0.5
        assert abs(low - high) < 5 * (low + high) ** 0.5
        assert min(levels.values()) > 0.05 * sum(levels.values())


def test_a_profile_is_described_by_the_names_of_its_levels() -> None:
    assert describe((0, 1, 2, 3, 4)) == {
        "Formality": "casual",
        "Conciseness": "concise",
        "Technicality": "semi_technical",
        "Objectivity": "objective",
        "Structural_Coherence": "rigorous",
    }
    four = choose("chat_17")
    assert list(assignments(four)) == ["r1", "r2", "r3", "r4"]
    assert assignments(four)["r3"] == describe(four[2])


@given(st.sampled_from(PROFILES), st.sampled_from(PROFILES), st.sampled_from(PROFILES))
def test_the_distance_is_one(one: Profile, other: Profile, third: Profile) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)
    assert distance(one, third) <= distance(one, other) + distance(other, third) <= 40

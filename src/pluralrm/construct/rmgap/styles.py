"""Four styles for the four answers of a record, far from each other, the same on every machine.

>>> from itertools import combinations
>>> four = choose("chat_17")
>>> min(distance(one, other) for one, other in combinations(four, 2)) > 8
True
>>> describe(four[0])["Formality"] in STYLES["Formality"]
True
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pluralrm.benchmarks.rmgap import KEYS, STYLES

Profile = tuple[int, ...]
"""A level, from 0 to 4, on each dimension of STYLES in its order."""

PROFILES: tuple[Profile, ...] = tuple(product(*(range(len(levels)) for levels in STYLES.values())))
"""All 3,125, in the order of their levels."""

APART = 8
"""Any two styles of a record differ by more, in levels summed over the dimensions (arXiv 2605.01831)."""


def distance(one: Profile, other: Profile) -> int:
    """Return the Manhattan distance of two profiles, from 0 to 20."""
    return sum(abs(first - second) for first, second in zip(one, other, strict=True))


def choose(record: str, *, seed: int | str = 0) -> tuple[Profile, Profile, Profile, Profile]:
    """Return four profiles, any two of them more than APART apart, by the record's id and the seed alone.

    The first is drawn from all; each of the others is one of those farthest from the nearest that is chosen, and which
    of them is drawn too. tests/construct/rmgap proves that from every start, whatever is drawn, all four are apart.
    """
    # Only random() is used: of all draws it alone is promised to be the same in every release of Python.
    draw = random.Random(f"{seed}:{record}").random
    nearest = np.full(len(PROFILES), np.iinfo(np.int64).max)
    chosen: list[Profile] = []
    for _ in KEYS:
        farthest = np.flatnonzero(nearest == nearest.max())
        place = int(farthest[int(draw() * len(farthest))])
        chosen.append(PROFILES[place])
        nearest = np.minimum(nearest, np.abs(_levels() - _levels()[place]).sum(axis=1))
    # The first is like any profile and the others are near the ends: no response's number may tell them apart.
    for place in range(len(chosen) - 1, 0, -1):
        other = int(draw() * (place + 1))
        chosen[place], chosen[other] = chosen[other], chosen[place]
    first, second, third, fourth = chosen
    return first, second, third, fourth


@cache
def _levels() -> NDArray[np.int64]:
    return np.array(PROFILES, dtype=np.int64)


def describe(profile: Profile) -> dict[str, str]:
    """Return the level's name on each dimension."""
    return {dimension: levels[level] for (dimension, levels), level in zip(STYLES.items(), profile, strict=True)}


def assignments(profiles: Sequence[Profile]) -> dict[str, dict[str, str]]:
    """Return the published `style_assignments` of a record: r1 to r4, each with its levels."""
    return {f"r{number}": describe(profile) for number, profile in enumerate(profiles, 1)}


def level_counts(records: Iterable[Sequence[Profile]]) -> Mapping[str, Mapping[str, int]]:
    """Return how many answers have each level of each dimension, over some records."""
    counts = Counter((place, level) for profiles in records for one in profiles for place, level in enumerate(one))
    return {
        dimension: {name: counts[place, level] for level, name in enumerate(levels)}
        for place, (dimension, levels) in enumerate(STYLES.items())
    }

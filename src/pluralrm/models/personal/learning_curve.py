"""What a user's own pairs are worth by how many users were trained on, as measured: bench/personal_curve.py.

Each gain is in points of accuracy over the same model with another user's pairs, with its 95% interval over people. The
world is `simulated` with 20 pairs a user, seed 11, one training each; new people show eight.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Gain(NamedTuple):
    """A gain in points, and its interval."""

    value: float
    low: float
    high: float


CURVE: Mapping[str, Mapping[int, Gain]] = {
    "lore": {
        50: Gain(4.3, 2.6, 6.0),
        100: Gain(6.2, 4.1, 8.3),
        175: Gain(7.4, 4.8, 10.0),
        400: Gain(11.3, 8.5, 14.2),
    },
    "pref": {
        50: Gain(4.4, 2.4, 6.5),
        100: Gain(8.5, 5.9, 11.0),
        175: Gain(10.3, 7.7, 12.8),
        400: Gain(14.8, 11.9, 17.6),
    },
    "gpo": {
        50: Gain(4.5, 1.7, 7.3),
        100: Gain(7.3, 4.6, 10.1),
        175: Gain(7.1, 4.6, 9.5),
        400: Gain(10.2, 7.1, 13.2),
    },
    "vpl": {
        50: Gain(2.8, 0.4, 5.2),
        100: Gain(5.9, 3.3, 8.5),
        175: Gain(6.6, 4.1, 9.2),
        400: Gain(6.5, 3.8, 9.3),
    },
    "pal-a": {
        50: Gain(3.7, 1.0, 6.4),
        100: Gain(5.2, 2.3, 8.2),
        175: Gain(5.7, 2.8, 8.5),
        400: Gain(10.1, 7.2, 13.0),
    },
    "pal-b": {
        50: Gain(8.6, 5.8, 11.3),
        100: Gain(8.1, 5.0, 11.1),
        175: Gain(6.2, 3.4, 9.1),
        400: Gain(9.3, 6.7, 11.9),
    },
}

_CLEAR = 2.6
"""Points: by so many trainings of one algorithm on two seeds differed, at most."""


_STEADY = ("lore", "pref")
"""What is recommended: fits that no draw of weights decides, in seconds."""


def better_served(algorithm: str, users: int) -> list[str]:
    """Return a sentence that names lore or pref, if it gained clearly more than a network with about so many users.

    Nothing where the difference is not clear, and where there are more users than were measured.
    """
    if algorithm in _STEADY or algorithm not in CURVE or users > max(CURVE[algorithm]):
        return []
    near = min(CURVE[algorithm], key=lambda measured: abs(math.log(measured / users)))
    mine = CURVE[algorithm][near]
    best = max((name for name in _STEADY if near in CURVE[name]), key=lambda name: CURVE[name][near].value)
    most = CURVE[best][near]
    if most.value <= max(mine.high, mine.value + _CLEAR):
        return []
    text = f"{algorithm} gained {mine.value:.1f} points of accuracy from a user's own pairs, {best} {most.value:.1f}"
    return [f"With {near} users of simulated {text}: with so few users {best} serves better."]

"""What a user's own pairs are worth by how many users were trained on, as measured: bench/personal_curve.py.

Each gain is in points of accuracy over the same model with another user's pairs, with its 95% interval over people. The
world is `simulated` with 20 pairs a user; new people show eight. Up to 175 users two worlds (seeds 11 and 12), each
with one training and 150 people; 400 users: the first alone.
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
        50: Gain(3.4, 2.1, 4.6),
        100: Gain(5.6, 4.1, 7.2),
        175: Gain(7.3, 5.5, 9.2),
        400: Gain(11.3, 8.5, 14.2),
    },
    "pref": {
        50: Gain(4.7, 3.3, 6.0),
        100: Gain(8.6, 6.9, 10.3),
        175: Gain(9.5, 7.7, 11.3),
        400: Gain(14.8, 11.9, 17.6),
    },
    "gpo": {
        50: Gain(3.5, 1.6, 5.3),
        100: Gain(6.3, 4.4, 8.2),
        175: Gain(5.4, 3.6, 7.1),
        400: Gain(10.2, 7.1, 13.2),
    },
    "vpl": {
        50: Gain(3.0, 1.3, 4.7),
        100: Gain(5.2, 3.5, 7.0),
        175: Gain(6.1, 4.3, 7.9),
        400: Gain(6.5, 3.8, 9.3),
    },
    "pal-a": {
        50: Gain(4.3, 2.5, 6.0),
        100: Gain(4.7, 2.6, 6.7),
        175: Gain(6.2, 4.1, 8.2),
        400: Gain(10.1, 7.2, 13.0),
    },
    "pal-b": {
        50: Gain(6.2, 4.3, 8.0),
        100: Gain(7.3, 5.2, 9.3),
        175: Gain(7.6, 5.6, 9.6),
        400: Gain(9.3, 6.7, 11.9),
    },
}

_CLEAR = 2.6
"""Points: by so many trainings of one algorithm on two seeds differed, at most, when the same people were asked."""


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

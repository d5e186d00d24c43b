"""What is counted of answers, apart from any reward."""

import math
from collections.abc import Sequence

_GRAM = 4


def repetition(ids: Sequence[int]) -> float:
    """Return the share of an answer's runs of four tokens that were there before; 0 where it has none.

    >>> round(repetition([1, 2, 3, 4, 1, 2, 3, 4]), 3)
    0.2
    """
    grams = [tuple(ids[start : start + _GRAM]) for start in range(len(ids) - _GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def mean(values: Sequence[float]) -> float:
    """Return the mean, of at least one value."""
    return sum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation (n - 1); exactly 0 where all values are one."""
    if min(values) == max(values):  # their mean may be rounded: six times 0.7 would deviate by 1e-16
        return 0.0
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))

"""From the results of pairs to one score per candidate, in [0, 1].

wins   the mean result against the others: 1 for a win, 1/2 for a tie
bt     Bradley-Terry: the mean chance against the others under the strengths that explain the results best

Where every pair was asked equally often, as it is here, both give the same order (Zermelo 1929); the chances of `bt`
lie closer together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_PRIOR = 0.5
"""Every candidate also ties once with one of strength 1, or one that wins always would be infinitely strong."""
_CLOSE, _ROUNDS = 1e-13, 100_000
_PLACES = 9
"""Decimals that are kept: equal candidates are equal, whatever the order of the sums."""


class Result(NamedTuple):
    """What the first of two candidates won against the second: 1, 0, or 1/2 for a tie."""

    first: int
    second: int
    won: float


def win_shares(results: Sequence[Result], candidates: int) -> list[float]:
    """Return each candidate's mean result; one that was never compared has 0.5."""
    won = _won(results, candidates)
    met = (won + won.T).sum(axis=1)
    return [round(float(sum(row) / total), _PLACES) if total else 0.5 for row, total in zip(won, met, strict=True)]


def bradley_terry(results: Sequence[Result], candidates: int) -> list[float]:
    """Return each candidate's mean chance to win against the others.

    Strengths p maximise the likelihood of p_i / (p_i + p_j) for each result, by the iteration of Hunter (2004).
    """
    won = _won(results, candidates)
    met = won + won.T
    strength = np.ones(candidates)
    for _ in range(_ROUNDS):
        against = (met / (strength[:, None] + strength[None, :])).sum(axis=1) + 2 * _PRIOR / (strength + 1)
        updated = (won.sum(axis=1) + _PRIOR) / against
        moved = np.abs(updated / strength - 1).max()
        strength = updated
        if moved < _CLOSE:
            break
    chances = strength[:, None] / (strength[:, None] + strength[None, :])
    others = (chances.sum(axis=1) - 0.5) / max(1, candidates - 1)
    return [round(float(chance), _PLACES) for chance in others]


def _won(results: Sequence[Result], candidates: int) -> NDArray[np.float64]:
    """Return (candidates, candidates): what the row won against the column."""
    won = np.zeros((candidates, candidates))
    for first, second, share in results:
        won[first, second] += share
        won[second, first] += 1 - share
    return won


AGGREGATES: Mapping[str, Callable[[Sequence[Result], int], list[float]]] = {"wins": win_shares, "bt": bradley_terry}
"""Each aggregate by its name, the default first."""

r"""Best-of-k: the grade that is expected of the answer that scores highest among k of N, over all subsets at once.

>>> expected_best_of([[1.0, 2.0, 3.0]], [[0.0, 0.0, 1.0]], [1, 2, 3]).round(3).tolist()
[[0.333, 0.667, 1.0]]

The answer of rank r (from below) is the best of C(r-1, k-1) of the C(N, k) subsets, so that all k are one product of
the sorted grades with a table of weights. Answers with one score share what falls to them: the expectation over tied
tops is their mean.

A score that failed is NaN. It stands below every score, and a subset in which all failed earns 0: an answer without a
score is never worth more than one with the lowest.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray

NONE = -1
"""The place of a pick where nothing can be picked."""
_BLOCK = 256
"""Items at once: what is in between stays in the processor's cache."""


def expected_best_of(scores: ArrayLike, grades: ArrayLike, ks: Sequence[int]) -> FloatArray:
    """Return the expected grade of the best of k, (items, ks), of scores and grades of shape (items, N)."""
    keys, values = _ranked_by(scores, grades)
    check_ks(ks, keys.shape[1])
    weights = rank_weights(keys.shape[1], tuple(ks))
    found = np.empty((len(keys), len(ks)))
    for start in range(0, len(keys), _BLOCK):
        block = slice(start, start + _BLOCK)
        found[block] = _ranked(keys[block], values[block]) @ weights
    return found


def first_best_of(scores: ArrayLike, grades: ArrayLike, ks: Sequence[int]) -> FloatArray:
    """Return the grade of the best of the first k, (items, ks), as it is published: one subset of the many, 0 if none.

    Of several with the highest score the first is taken.
    """
    values = np.asarray(grades, dtype=np.float64)
    picks = first_picks(scores, ks)
    found = np.take_along_axis(values, np.maximum(picks, 0), axis=1)
    return np.where(picks == NONE, 0.0, found)


def first_picks(scores: ArrayLike, ks: Sequence[int]) -> IntArray:
    """Return the place of the best of the first k, (items, ks); NONE where all of them failed."""
    keys, _ = _ranked_by(scores, scores)
    check_ks(ks, keys.shape[1])
    leaders = np.stack([keys[:, :k].argmax(axis=1) for k in ks], axis=1)
    return np.where(np.isneginf(np.take_along_axis(keys, leaders, axis=1)), NONE, leaders)


def kl_best_of(k: int) -> float:
    """Return KL(best-of-k || policy) = log k - (k-1)/k, which is exact without ties and else an upper bound."""
    return math.log(k) - (k - 1) / k


@lru_cache(maxsize=64)
def rank_weights(n: int, ks: tuple[int, ...]) -> FloatArray:
    """Return (n, ks): the share of the subsets of k in which the answer of each rank, lowest first, is the best."""
    # Whole numbers divided once: each weight is correctly rounded, at any n.
    shares = [[math.comb(rank, k - 1) / math.comb(n, k) for k in ks] for rank in range(n)]
    table = np.array(shares, dtype=np.float64).reshape(n, len(ks))
    table.flags.writeable = False
    return table


def powers_of_two(n: int) -> list[int]:
    """Return 1, 2, 4, ... below n, and n itself."""
    return [*(1 << power for power in range(n.bit_length()) if 1 << power < n), n]


def check_ks(ks: Sequence[int], n: int) -> None:
    """Raise where a k is not between 1 and the number of answers per item: more than there are cannot be drawn."""
    for k in ks:
        if not 1 <= k <= n:
            raise MetricError(f"best-of-{k} of {n} answers per item; wanted k from 1 to {n}, or a pool with more")


def _ranked_by(scores: ArrayLike, grades: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return what answers are ranked by, failed ones last, and what each is worth, failed ones nothing."""
    keys, values = np.asarray(scores, dtype=np.float64), np.asarray(grades, dtype=np.float64)
    if keys.ndim != 2 or keys.shape != values.shape:
        raise MetricError(f"scores of shape {keys.shape} and grades of {values.shape}; wanted (items, N) for both")
    failed: BoolArray = np.isnan(keys)
    if not np.isfinite(values[~failed]).all() or np.isinf(keys).any():
        raise MetricError("a grade or a score is not finite; give a failed score as NaN and a failed grade its worth")
    return np.where(failed, -np.inf, keys), np.where(failed, 0.0, values)


def _ranked(keys: FloatArray, values: FloatArray) -> FloatArray:
    """Return what the answers of each rank are worth, the lowest first; tied ones share."""
    # Any order among tied scores does, for they share; one that needs not be stable takes a sixth of the time.
    order = np.argsort(keys, axis=1) + np.arange(len(keys))[:, None] * keys.shape[1]
    keys, ranked = np.take(keys, order), np.take(values, order)
    begins = np.ones(keys.shape, dtype=np.bool_)
    np.not_equal(keys[:, 1:], keys[:, :-1], out=begins[:, 1:])
    return ranked if begins.all() else _shared(ranked, begins)


def _shared(ranked: FloatArray, begins: BoolArray) -> FloatArray:
    """Return the sorted grades with the mean of each run of tied ones in place of its members."""
    group = np.cumsum(begins.ravel()) - 1
    means = np.bincount(group, ranked.ravel()) / np.bincount(group)
    shared: FloatArray = means[group].reshape(ranked.shape)
    return shared

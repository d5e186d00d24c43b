r"""Best-of-k and maj@k: what a pick among k of N answers is expected to be worth, over all subsets at once.

Best-of-k is the grade that is expected of the answer that scores highest.

>>> expected_best_of([[1.0, 2.0, 3.0]], [[0.0, 0.0, 1.0]], [1, 2, 3]).round(3).tolist()
[[0.333, 0.667, 1.0]]

The answer of rank r (from below) is the best of C(r-1, k-1) of the C(N, k) subsets, so that all k are one product of
the sorted grades with a table of weights. Answers with one score share what falls to them: the expectation over tied
tops is their mean.

A score that failed is NaN: it could have been any, and counts as the worst that it could have been. A subset with such
answers earns the least of their grades and of the top's, one without any score 0. So no choice of what to fail on earns
more than some scores for the same answers would: a constant that fails on all but the best is no oracle. Where there is
no answer the score is -inf, and the grade 0: it is picked where there is nothing else.

maj@k is that of the largest group's answer. Answers of one group say the same. Groups that tie for the largest share
what falls to them; an answer without a group does not vote, and a subset without a vote earns 0. A group is worth the
mean of its answers.

>>> expected_majority([[0, 0, 1]], [[1.0, 1.0, 0.0]], [1, 2, 3]).round(3).tolist()
[[0.667, 0.667, 1.0]]

The group c has j of the k, every other at most j, and t others exactly j: 1 / (t + 1) of it is the integral of y^t from
0 to 1. So the share of c is a coefficient of a product of polynomials in x, with y at the nodes of a Gauss-Legendre
rule that is exact at their degree. All terms are positive.
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
    expected = np.empty((len(keys), len(ks)))
    failing = np.isnan(keys).any(axis=1)
    whole = np.flatnonzero(~failing)
    for start in range(0, len(whole), _BLOCK):
        block = whole[start : start + _BLOCK]
        expected[block] = _ranked(keys[block], values[block]) @ weights
    for index in np.flatnonzero(failing):
        expected[index] = _at_worst(keys[index], values[index], tuple(ks))
    return expected


def first_best_of(scores: ArrayLike, grades: ArrayLike, ks: Sequence[int]) -> FloatArray:
    """Return the grade of the best of the first k, (items, ks), as it is published: one subset of the many, 0 if none.

    Of several with the highest score the first is taken; where a score among them failed, the worst that it could be.
    """
    keys, values = _ranked_by(scores, grades)
    picks = first_picks(scores, ks)
    top = np.take_along_axis(values, np.maximum(picks, 0), axis=1)
    lowest = np.minimum.accumulate(np.where(np.isnan(keys), values, np.inf), axis=1)
    least = np.stack([lowest[:, k - 1] for k in ks], axis=1)
    return np.where(picks == NONE, 0.0, np.minimum(top, least))


def first_picks(scores: ArrayLike, ks: Sequence[int]) -> IntArray:
    """Return the place of the best of the first k, (items, ks); NONE where all of them failed."""
    keys = np.asarray(scores, dtype=np.float64)
    check_ks(ks, keys.shape[1])
    finite = np.where(np.isnan(keys), -np.inf, keys)
    leaders = np.stack([finite[:, :k].argmax(axis=1) for k in ks], axis=1)
    return np.where(np.isneginf(np.take_along_axis(finite, leaders, axis=1)), NONE, leaders)


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
    """Return what answers are ranked by, NaN where that failed, and what each is worth."""
    keys, values = np.asarray(scores, dtype=np.float64), np.asarray(grades, dtype=np.float64)
    if keys.ndim != 2 or keys.shape != values.shape:
        raise MetricError(f"scores of shape {keys.shape} and grades of {values.shape}; wanted (items, N) for both")
    if not np.isfinite(values).all() or np.isposinf(keys).any():
        raise MetricError("a grade or a score is not finite; give a failed score as NaN and a failed grade its worth")
    return keys, values


def _at_worst(keys: FloatArray, values: FloatArray, ks: tuple[int, ...]) -> FloatArray:
    """Return (ks,): what one item with failed scores earns, over all subsets, each at the worst that they could be.

    Of the subsets of k in which an answer with r known scores below it is the top and the j-th lowest grade of F failed
    answers is the lowest, there are C(r + F - j, k - 2); without a failed one C(r, k - 1).
    """
    failed, n = np.isnan(keys), len(keys)
    low = np.sort(values[failed])
    order = np.argsort(keys[~failed])
    ranks, tied = np.arange(len(order)), np.unique(keys[~failed][order], return_inverse=True)[1]
    above = (len(low) - 1 - np.arange(len(low)))[None, :] + ranks[:, None]
    tops = values[~failed][order]
    both = _mean_of_tied(np.minimum(tops[:, None], low[None, :]), tied)
    alone = _mean_of_tied(tops[:, None], tied)[:, 0]
    worst = np.zeros(len(ks))
    for at, k in enumerate(ks):
        share = np.array([math.comb(number, k - 1) / math.comb(n, k) for number in range(n)])
        pairs = np.array([math.comb(number, k - 2) / math.comb(n, k) if k > 1 else 0.0 for number in range(n)])
        worst[at] = (share[ranks] * alone).sum() + (pairs[above] * both).sum()
    return worst


def _mean_of_tied(values: FloatArray, tied: IntArray) -> FloatArray:
    """Return each row as the mean of those that tie with it."""
    sums = np.zeros((len(values), values.shape[1]))
    np.add.at(sums, tied, values)
    counts = np.bincount(tied, minlength=len(values)) if len(values) else np.ones(0)
    means: FloatArray = sums[tied] / counts[tied][:, None]
    return means


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


MOST = 1_000
"""Answers per item: the number of subsets of more is no float."""


def expected_majority(groups: ArrayLike, grades: ArrayLike, ks: Sequence[int]) -> FloatArray:
    """Return the expected grade of the majority's answer among k, (items, ks); `groups` is (items, N), -1 for none."""
    names, values = np.asarray(groups, dtype=np.int64), np.asarray(grades, dtype=np.float64)
    if names.ndim != 2 or names.shape != values.shape:
        raise MetricError(f"groups of shape {names.shape} and grades of {values.shape}; wanted (items, N) for both")
    count = names.shape[1]
    check_ks(ks, count)
    if count > MOST:
        raise MetricError(f"maj@k of {count:,} answers per item; wanted at most {MOST:,}")
    expected = np.zeros((len(names), len(ks)))
    for index, (own, worth) in enumerate(zip(names, values, strict=True)):
        voting = own != NONE
        if voting.any():
            _, group, sizes = np.unique(own[voting], return_inverse=True, return_counts=True)
            means = np.bincount(group, worth[voting]) / sizes
            shares = majority_shares(tuple(sorted(sizes.tolist())), count, tuple(ks))
            rows = np.searchsorted(np.sort(sizes), sizes)  # groups of one size have one share
            expected[index] = means @ shares[rows]
    return expected


@lru_cache(maxsize=4096)
def majority_shares(sizes: tuple[int, ...], count: int, ks: tuple[int, ...]) -> FloatArray:
    """Return (groups, ks): the share of the subsets of k of `count` answers that each group wins, ties shared."""
    by_size = {size: _share(size, sizes, count, ks) for size in set(sizes)}
    table = np.array([by_size[size] for size in sizes])
    table.flags.writeable = False
    return table


def _share(size: int, sizes: tuple[int, ...], count: int, ks: tuple[int, ...]) -> FloatArray:
    others = list(sizes)
    others.remove(size)
    silent = count - sum(sizes)
    subsets = np.array([float(math.comb(count, k)) for k in ks])
    total = np.zeros(len(ks))
    for votes in range(1, min(size, max(ks)) + 1):
        rest = [k - votes for k in ks]
        ways = _others_at_most(votes, others, silent, max(rest)) * math.comb(size, votes)
        total += [ways[left] if left >= 0 else 0.0 for left in rest] / subsets
    return total


def _others_at_most(votes: int, others: Sequence[int], silent: int, most: int) -> FloatArray:
    """Return for each number up to `most` of answers of others in how many ways they leave `votes` the largest."""
    degree = min(sum(other >= votes for other in others), most // votes)
    nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    ties = (nodes + 1) / 2
    ways = np.zeros((len(ties), most + 1))
    ways[:, : silent + 1] = [float(math.comb(silent, left)) for left in range(min(silent, most) + 1)]
    for other in others:
        more = np.zeros_like(ways)
        for own in range(min(votes, other, most) + 1):
            term = math.comb(other, own) * ways[:, : most + 1 - own]
            more[:, own:] += term * ties[:, None] if own == votes else term
        ways = more
    integrated: FloatArray = (weights / 2) @ ways
    return integrated

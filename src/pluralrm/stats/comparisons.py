"""Many runs on the same items: which differences are there, and which ranks do they leave open.

And two one-sided tests on a mean of judgments that are alike by item and by annotator (Schuirmann 1987): shown at
alpha is what the interval at 1 - 2 alpha shows, so that test, interval and plan are one and the same thing.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache, reduce
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pluralrm.stats.clusters import ClusterMeans, FloatArray, IntArray, cluster_means, on_grid, spread
from pluralrm.stats.intervals import Bounds, Interval, crossed_interval, crossed_spread

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped] # it comes with scikit-learn

_HALVINGS = 40
_NOTHING, _FAR = 1e-12, 40.0
"""A variance that is none, and how many standard errors away everything is then."""


class Crossed(NamedTuple):
    """The mean of judgments in [0, 1], by item, by annotator, and with each judgment alone."""

    by_item: ClusterMeans
    by_annotator: ClusterMeans
    alone: ClusterMeans

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval that is robust to both kinds of clusters."""
        return crossed_interval(*self, level=level)


class Tested(NamedTuple):
    """An interval at 1 - 2 alpha, the p-value, and whether it shows what it was to show.

    `against` is the p-value of the contrary: that the mean lies beyond a bound.
    """

    interval: Interval
    p: float
    shown: bool
    against: float


def crossed(values: ArrayLike, items: Sequence[str], annotators: Sequence[str]) -> Crossed:
    """Return the means of judgments in [0, 1]."""
    alone = [str(index) for index in range(len(items))]
    return Crossed(*(cluster_means(values, names) for names in (items, annotators, alone)))


def within(means: Crossed, bounds: Bounds, alpha: float) -> Tested:
    """Test that the mean lies between two bounds, against its lying on or beyond one of them."""
    interval = means.interval(1 - 2 * alpha)
    p = max(_p_above(means, bounds.low), _p_below(means, bounds.high))
    against = min(_p_below(means, bounds.low), _p_above(means, bounds.high))
    return Tested(interval, p, p < alpha, against)


def above(means: Crossed, bound: float, alpha: float) -> Tested:
    """Test that the mean lies above a bound, against its lying on it or below."""
    p = _p_above(means, bound)
    return Tested(means.interval(1 - 2 * alpha), p, p < alpha, _p_below(means, bound))


def _p_above(means: Crossed, bound: float) -> float:
    """Return the smallest alpha whose interval lies above the bound; 1 where there is no interval."""
    value, low, _, _ = means.interval()
    if low is None or value == bound:
        return 1.0 if low is None else 0.5
    return _crossing(means, bound) if value > bound else 1 - _crossing(means, bound)


def _p_below(means: Crossed, bound: float) -> float:
    return 1.0 if means.interval().low is None else 1 - _p_above(means, bound)


def _crossing(means: Crossed, bound: float) -> float:
    """Return the alpha whose interval at 1 - 2 alpha just reaches the bound, from 0 to 0.5."""
    from pluralrm.stats.special import ndtr, stdtr

    variance, df = crossed_spread(*means)
    if not variance:
        return _by_halves(means, bound)
    value = float(means.by_item.means[0])
    if bound in {0.0, 1.0}:
        return 0.0
    # Wilson's interval reaches where the score test, with the variance scaled to the bound, has its quantile.
    score = abs(value - bound) / (variance * bound * (1 - bound) / (value * (1 - value))) ** 0.5
    return float(stdtr(df, -score)) if np.isfinite(df) else float(ndtr(-score))


def _by_halves(means: Crossed, bound: float) -> float:
    outside, inside = 0.5, 0.0  # at 0.5 the interval is the value alone
    for _ in range(_HALVINGS):
        alpha = (outside + inside) / 2
        _, low, high, _ = means.interval(1 - 2 * alpha)
        reached = low is None or high is None or low <= bound <= high
        outside, inside = (outside, alpha) if reached else (alpha, inside)
    return outside


FLIPS = 10_000
_BLOCK, _STRIP = 512, 128
"""Patterns drawn at once, and multiplied at once: as floats, 128 x 2,830 stay in the cache, which is twice as fast."""
_MOST_LEVELS = 16
_Bits = NDArray[np.int8]


class RankInterval(NamedTuple):
    """The best and the worst rank that the data leave open; 1 is the highest mean."""

    low: int
    high: int


def sign_flip_p(means: ClusterMeans, *, seed: int = 0, flips: int = FLIPS) -> FloatArray:
    """Return (M, M) two-sided p-values that two columns differ in nothing but name; 1 on the diagonal.

    Under that hypothesis the two names may be swapped within any whole cluster: each cluster's difference keeps its
    size and draws its sign. All patterns are tried where there are no more than `flips` of them, and the test is
    then exact; otherwise `flips` random ones and the observed one. With G clusters no p is below 2 / 2**G.
    """
    return sign_flip_ps([means], seed=seed, flips=flips)[0]


def sign_flip_ps(several: Sequence[ClusterMeans], *, seed: int = 0, flips: int = FLIPS) -> list[FloatArray]:
    """Return what `sign_flip_p` returns of each; all have as many clusters and see the same patterns, drawn once."""
    tables = [on_grid(means.parts) for means in several]
    clusters, edges = len(tables[0]), np.cumsum([0, *(table.shape[1] for table in tables)])
    total = np.concatenate([table.sum(axis=0) for table in tables])
    spans = [slice(low, high) for low, high in pairwise(edges.tolist())]
    least = [_least(np.abs(total[span][:, None] - total[span])) for span in spans]
    sums = _sums(np.hstack(tables))

    def beyond(flipped: _Bits) -> FloatArray:
        apart = total[:, None] - 2 * sums(flipped)
        return np.concatenate([_beyond(apart[span], own).ravel() for span, own in zip(spans, least, strict=True)])

    counts = _counted(beyond, clusters, seed, flips)
    patterns, exact = _tried(clusters, flips)
    ends = np.cumsum([own.size for own in least])[:-1]
    values = []
    for means, column in zip(several, np.split(counts, ends), strict=True):
        width = len(means.means)
        extreme = column.reshape(width, width)
        extreme = extreme + extreme.T
        np.fill_diagonal(extreme, patterns)  # a column is as far from itself as ever
        p: FloatArray = extreme / patterns if exact else (extreme + 1) / (patterns + 1)
        values.append(p if means.crossed is None else np.maximum(p, _two_way_p(means)))
    return values


def _two_way_p(means: ClusterMeans) -> FloatArray:
    """Return (M, M) two-sided p-values by Student's t; 0 where nothing varies, 1 where the means are equal."""
    from pluralrm.stats.special import stdtr

    p = np.ones((len(means.means), len(means.means)))
    for first, second in combinations(range(len(p)), 2):
        variance, df = spread(means, first, second)
        apart = abs(float(means.means[first] - means.means[second]))
        if apart:
            p[first, second] = p[second, first] = 2 * stdtr(df, -apart / variance**0.5) if variance else 0.0
    return p


def flip_p_of_differences(differences: ArrayLike, *, seed: int = 0, flips: int = FLIPS) -> FloatArray:
    """Return (S,) two-sided p-values of columns (G, S) of what each of G clusters adds to a difference of two means.

    The test of `sign_flip_p`, of many benchmarks with as many clusters at once: all see the same patterns.
    """
    parts = on_grid(np.asarray(differences, dtype=np.float64))
    clusters = len(parts)
    total = parts.sum(axis=0)
    least = _least(np.abs(total))[:, None]
    sums = _sums(parts)

    def beyond(flipped: _Bits) -> FloatArray:
        counts: FloatArray = (np.abs(total[:, None] - 2 * sums(flipped)) >= least).sum(axis=1).astype(np.float64)
        return counts

    extreme = _counted(beyond, clusters, seed, flips)
    patterns, exact = _tried(clusters, flips)
    return extreme / patterns if exact else (extreme + 1) / (patterns + 1)


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted by Holm's step-down method, in the order given; the family is all of them."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def benjamini_yekutieli(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted for the false discovery rate under any dependence (2001, thm 1.3), in their order."""
    p = np.asarray(p_values, dtype=np.float64)
    order, ranks = np.argsort(p, kind="stable")[::-1], np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(p[order] * len(p) * (1 / ranks).sum() / ranks)
    return np.minimum(adjusted, 1.0)


def partial_conjunction(p_values: ArrayLike, least: int) -> float:
    """Return the p-value of fewer than `least` effects among the hypotheses, under any dependence.

    Bonferroni's: (m - r + 1) times the r-th smallest p (Benjamini and Heller 2008, eq. 3).
    """
    p = np.sort(np.asarray(p_values, dtype=np.float64))
    return min(1.0, float((len(p) - least + 1) * p[least - 1]))


def paired_score(first: ArrayLike, second: ArrayLike, n: ArrayLike, difference: ArrayLike) -> FloatArray:
    """Return the score statistic that two paired shares differ by `difference` (Tango 1998); normal if they do.

    Of n pairs the first alone holds in `first`, the second alone in `second`. The variance is that of the hypothesis,
    at its most likely discordant shares: where all pairs are concordant it is not 0.
    """
    b, c, size, gap = (np.asarray(value, dtype=np.float64) for value in (first, second, n, difference))
    linear = (2 * size - b + c) * gap - b - c
    product = -c * gap * (1 - gap)
    rarer = (np.sqrt(np.maximum(linear**2 - 8 * size * product, 0)) - linear) / (4 * size)
    variance = np.maximum(size * (2 * rarer + gap * (1 - gap)), 0)
    distance = b - c - size * gap
    # A variance of 0 is that of no discordant pair and no difference, or of a difference of 1.
    statistic: FloatArray = np.where(
        variance > _NOTHING * size, distance / np.sqrt(np.maximum(variance, _NOTHING)), np.sign(distance) * _FAR
    )
    return statistic


def student_p(behind: int, leads: int, n: int, epsilon: float) -> float:
    """Return the authors' p: Student's t of the differences, one-sided; 0 or 1 where none varies."""
    from pluralrm.stats.special import stdtr

    mean = (behind - leads) / n
    variance = (behind + leads - n * mean**2) / (n - 1) / n if n > 1 else 0.0
    if variance < 1e-18:
        return 0.0 if mean < epsilon else 1.0
    return float(stdtr(n - 1, (mean - epsilon) / variance**0.5))


def rank_intervals(means: ArrayLike, adjusted: ArrayLike, *, alpha: float = 0.05) -> list[RankInterval]:
    """Return, per column, the ranks that significant differences leave open; `adjusted` is (M, M), symmetric.

    A column ranks below all that are significantly better and above all that are significantly worse. With p-values
    adjusted over all pairs, all true ranks lie in their intervals at once with probability 1 - alpha or more
    (Mogstad, Romano, Shaikh and Wilhelm 2024).
    """
    value, p = np.asarray(means, dtype=np.float64), np.asarray(adjusted, dtype=np.float64)
    better = (p < alpha) & (value[:, None] < value)
    worse = (p < alpha) & (value[:, None] > value)
    return [
        RankInterval(1 + int(above), len(value) - int(below))
        for above, below in zip(better.sum(axis=1), worse.sum(axis=1), strict=True)
    ]


def alike(places: Sequence[int], differing: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return the largest sets of places without a differing pair: two share a set if and only if they do not differ.

    Insert and absorb (Piepho 2004): a pair splits each set that holds both; subsets of others are dropped.
    """
    sets = [frozenset(places)] if places else []
    for pair in differing:
        both = [members for members in sets if members.issuperset(pair)]
        sets = [members for members in sets if members not in both]
        for half in sorted((members - {index} for members in both for index in pair), key=len, reverse=True):
            if not any(half <= members for members in sets):
                sets.append(half)
    return tuple(sorted(tuple(sorted(members)) for members in sets))


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS keeps to one thread: where others use the cores too, more of them wait, and wait.

    A product of one block takes 3 ms; shared by two threads on two busy cores it was seen to take 200. Sums then also
    come in the same order everywhere.
    """
    limits: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    return limits


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> "ThreadpoolController":
    """Return the loaded BLAS libraries, found anew where a module has come: a search takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _least(observed: FloatArray) -> FloatArray:
    least: FloatArray = observed - 1e-9 * (1 + observed)  # equal up to rounding is as extreme as observed
    return least


def _tried(clusters: int, flips: int) -> tuple[int, bool]:
    """Return how many patterns of signs are tried, and whether those are all."""
    # Turning all signs around changes no distance, so the first cluster may keep its sign.
    patterns = 2 ** min(clusters - 1, 60)
    return (patterns, True) if patterns <= flips else (flips, False)


def _flipped(clusters: int, seed: int, flips: int) -> Iterator[_Bits]:
    """Yield blocks (some patterns, G) of which clusters change sign."""
    patterns, exact = _tried(clusters, flips)
    rng = np.random.default_rng(seed)
    for start in range(0, patterns, _BLOCK):
        rows = min(_BLOCK, patterns - start)
        yield _patterns(start, rows, clusters) if exact else _random_bits(rng, rows, clusters)


def _counted(beyond: Callable[[_Bits], FloatArray], clusters: int, seed: int, flips: int) -> FloatArray:
    """Return what `beyond` counts in all blocks of patterns, some blocks at once where there are cores for them."""
    blocks = _flipped(clusters, seed, flips)
    with one_thread():
        total = beyond(next(blocks))
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[FloatArray]] = deque()
            for block in blocks:
                waiting.append(pool.submit(beyond, block))
                if len(waiting) > workers:
                    total += waiting.popleft().result()
            for future in waiting:
                total += future.result()
    return total


class _Level(NamedTuple):
    """A value of parts: the clusters that have it in some column, and in which columns (M, of those clusters)."""

    value: float
    clusters: slice | IntArray
    holds: NDArray[np.float32]


def _sums(parts: FloatArray) -> Callable[[_Bits], FloatArray]:
    """Return what makes of bits (patterns, G) the sums (M, patterns) of the parts (G, M) where they are set.

    Where few values occur, as where items are right or wrong, a sum is each value by how often it is among them. These
    counts are exact in 32 bits, at half the cost, and on the grid so are their multiples: the same sums, bit for bit.
    """
    levels = _levels(parts)

    def of_strip(bits: _Bits) -> FloatArray:
        if not levels:
            return parts.T @ bits.astype(np.float64).T
        flipped = bits.astype(np.float32)
        terms = (level.value * (level.holds @ flipped[:, level.clusters].T).astype(np.float64) for level in levels)
        return reduce(np.add, terms)

    def sums(bits: _Bits) -> FloatArray:
        strips = [of_strip(bits[start : start + _STRIP]) for start in range(0, len(bits), _STRIP)]
        return np.concatenate(strips, axis=1)

    return sums


def _levels(parts: FloatArray) -> list[_Level]:
    """Return the values of the parts but 0; nothing where they are too many for counts to be the faster way."""
    values = np.unique(parts[parts != 0])
    if len(values) > _MOST_LEVELS:
        return []
    levels, width = [], 0
    for value in values.tolist():
        mask = parts == value
        inside = np.flatnonzero(mask.any(axis=1))
        span = slice(int(inside[0]), int(inside[-1]) + 1)
        clusters = span if 2 * len(inside) > span.stop - span.start else inside
        levels.append(_Level(value, clusters, np.ascontiguousarray(mask[clusters].T, dtype=np.float32)))
        width += levels[-1].holds.shape[1]
    return levels if 2 * width < 3 * len(parts) else []


def _beyond(sums: FloatArray, least: FloatArray) -> FloatArray:
    """Return, above the diagonal, how many of the patterns (M, patterns) set two columns at least so far apart.

    One column against all later ones at a time: their distances stay in the cache, those of all pairs would not.
    """
    counts = np.zeros_like(least)
    for column in range(len(sums) - 1):
        far = np.abs(sums[column + 1 :] - sums[column]) >= least[column, column + 1 :, None]
        counts[column, column + 1 :] = far.sum(axis=1)
    return counts


def _patterns(start: int, rows: int, clusters: int) -> _Bits:
    numbers = np.arange(start, start + rows)[:, None]
    return ((numbers >> np.arange(clusters)) & 1).astype(np.int8)


def _random_bits(rng: np.random.Generator, rows: int, clusters: int) -> _Bits:
    octets = rng.integers(0, 256, (rows, -(-clusters // 8)), dtype=np.uint8)
    return np.unpackbits(octets, axis=1, count=clusters).view(np.int8)

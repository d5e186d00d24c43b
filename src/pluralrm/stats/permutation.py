"""How often chance does as well: permutation tests of a statistic of two rows, of a difference, of two samples."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations
from math import comb, factorial
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.stats.clusters import FloatArray, IntArray
from pluralrm.stats.ranking import Ranking

EXACT_UP_TO = 9
"""Up to so many models all n! orders are tried: 362,880."""
SWAPS_UP_TO = 14
"""Up to so many models all 2**(n - 1) ways to swap two scores are tried: 8,192. To swap all of them changes a sign."""
ORDERS = 10_000
_BLOCK = 4_096
_ENTRIES = 4_000_000
"""Numbers in one array of a block: some measures set up (rows, n, n)."""

Side = Literal["both", "high", "low"]
"""What counts as at least as extreme: as far from chance, as high, or as low."""


class Permutation(NamedTuple):
    """The share of orders at least as extreme as the one observed, how many were tried, and whether those are all."""

    p: float
    orders: int
    exact: bool


def permutation_test(
    statistic: Ranking, x: FloatArray, y: FloatArray, *, side: Side = "both", chance: float = 0.0, seed: int = 0
) -> Permutation:
    """Return the permutation test of `statistic(x, y)`, models of y put into another order, x as it is.

    All n! orders are tried up to n = 9; above, 10,000 random ones, and the observed one counts as one more.
    """
    exact = len(x) <= EXACT_UP_TO
    observed = _extremity(statistic(x[None], y[None]), side, chance)[0]
    least = observed - 1e-9 * (1 + abs(observed))  # equal up to rounding is as extreme as observed
    extreme, tried = 0, 0
    for orders in _all_orders(len(x)) if exact else _random_orders(len(x), seed):
        extreme += int((_extremity(statistic(x[None], y[orders]), side, chance) >= least).sum())
        tried += len(orders)
    return (
        Permutation(extreme / tried, tried, True) if exact else Permutation((extreme + 1) / (tried + 1), tried, False)
    )


def swap_test(
    statistic: Ranking, first: FloatArray, second: FloatArray, y: FloatArray, *, ranked: bool = True, seed: int = 0
) -> Permutation:
    """Return the two-sided test of `statistic(first, y) - statistic(second, y)`, which depend on each other.

    Each row is put on one scale first: mid-ranks, or standard deviations where not `ranked`. Under the null hypothesis
    the first two are then exchangeable given y: a model's two scores may be swapped. All ways to do so are tried up to
    n = 14, 10,000 random ones above, where the observed one counts as one more. Spearman's correlation is Pearson's of
    the ranks: to rank the swapped ranks again would make ties that the data do not have, and p too small.
    """
    n = len(y)
    one, other, y = (_scaled(row, ranked) for row in (first, second, y))
    observed = abs(float(statistic(one[None], y[None])[0] - statistic(other[None], y[None])[0]))
    least = observed - 1e-9 * (1 + observed)
    exact = n <= SWAPS_UP_TO
    extreme, tried = 0, 0
    for swapped in _all_swaps(n) if exact else _random_swaps(n, seed):
        results = np.broadcast_to(y, swapped.shape)
        moved = statistic(np.where(swapped, other, one), results) - statistic(np.where(swapped, one, other), results)
        # A row that no longer varies correlates with nothing.
        extreme += int((np.abs(np.nan_to_num(moved)) >= least).sum())
        tried += len(swapped)
    return (
        Permutation(extreme / tried, tried, True) if exact else Permutation((extreme + 1) / (tried + 1), tried, False)
    )


def two_sample_test(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> Permutation:
    """Return the two-sided test that two samples have one mean where they have one distribution.

    p is twice the smaller share of splits of all values whose first mean is as low, or as high. All splits are tried
    where there are at most 10,000, else 10,000 random ones, and the observed one counts as one more.
    """
    values, size = np.array([*first, *second], dtype=np.float64), len(first)
    splits = comb(len(values), size)
    exact = splits <= ORDERS
    chosen = _all_splits(len(values), size) if exact else _random_splits(len(values), size, seed)
    sums = np.concatenate([values[places].sum(axis=-1) for places in chosen])
    observed, rounding = values[:size].sum(), 1e-9 * (1 + np.abs(values).sum())
    fewest = min(int((sums <= observed + rounding).sum()), int((sums >= observed - rounding).sum()))
    p = fewest / splits if exact else (fewest + 1) / (len(sums) + 1)
    return Permutation(min(1.0, 2 * p), len(sums), exact)


class Null(NamedTuple):
    """What a statistic of ranks gets over orders of untied models: sorted distances from chance, and whether all."""

    distances: FloatArray
    exact: bool

    def p(self, distance: FloatArray) -> FloatArray:
        """Return two-sided p-values of observed distances from chance."""
        least = distance - 1e-9 * (1 + distance)
        beyond = len(self.distances) - np.searchsorted(self.distances, least)
        p: FloatArray = beyond / len(self.distances) if self.exact else (beyond + 1) / (len(self.distances) + 1)
        return p


@lru_cache(maxsize=64)
def null_of_ranks(statistic: Ranking, n: int, *, chance: float = 0.0, seed: int = 0) -> Null:
    """Return against what `permutation_test` holds any n untied models, where only their ranks count.

    The orders of one study are then those of all: thousands of simulated studies are tested at the price of one.
    """
    places = np.arange(n, dtype=np.float64)
    exact = n <= EXACT_UP_TO
    blocks = _all_orders(n) if exact else _random_orders(n, seed)
    return Null(
        np.sort(np.concatenate([np.abs(statistic(places[None], places[one]) - chance) for one in blocks])), exact
    )


def mean_of_rotations(statistic: Ranking, x: FloatArray, y: FloatArray) -> float:
    """Return the mean of the statistic over the n rotations of y.

    For a sum over models of what each one's places in x and y give, that is the mean over all n! orders: each model of
    x meets each of y equally often.
    """
    rotations = np.stack([np.roll(y, shift) for shift in range(len(y))])
    return float(statistic(x[None], rotations).mean())


def _extremity(values: FloatArray, side: Side, chance: float) -> FloatArray:
    return np.abs(values - chance) if side == "both" else values if side == "high" else -values


def _all_orders(n: int) -> Iterator[IntArray]:
    table = _table(n)
    for start in range(0, factorial(n), _BLOCK):
        yield table[start : start + _BLOCK].astype(np.intp)


@lru_cache(maxsize=1)
def _table(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """Return (n!, n): every order once."""
    flat = np.fromiter((place for order in permutations(range(n)) for place in order), np.int8, factorial(n) * n)
    return flat.reshape(-1, n)


def _random_orders(n: int, seed: int) -> Iterator[IntArray]:
    rng = np.random.default_rng(seed)
    rows = max(1, min(_BLOCK, _ENTRIES // n**2))
    for start in range(0, ORDERS, rows):
        yield np.argsort(rng.random((min(rows, ORDERS - start), n)), axis=-1)


def _all_splits(n: int, size: int) -> Iterator[IntArray]:
    yield np.array(list(combinations(range(n), size)), dtype=np.intp)


def _random_splits(n: int, size: int, seed: int) -> Iterator[IntArray]:
    rng = np.random.default_rng(seed)
    rows = max(1, min(_BLOCK, _ENTRIES // n))
    for start in range(0, ORDERS, rows):
        # The places of the `size` smallest: a random set, in a tenth of the time of a whole order.
        yield np.argpartition(rng.random((min(rows, ORDERS - start), n)), size - 1, axis=-1)[:, :size]


def _scaled(row: FloatArray, ranked: bool) -> FloatArray:
    from scipy.stats import rankdata

    scaled: FloatArray = rankdata(row) if ranked else (row - row.mean()) / row.std()
    return scaled


Swaps = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


def _all_swaps(n: int) -> Iterator[Swaps]:
    """Yield every way to swap the scores of some of the first n - 1 models."""
    for start in range(0, 2 ** (n - 1), _BLOCK):
        codes = np.arange(start, min(start + _BLOCK, 2 ** (n - 1)))
        yield (codes[:, None] >> np.arange(n) & 1).astype(np.bool_)


def _random_swaps(n: int, seed: int) -> Iterator[Swaps]:
    rng = np.random.default_rng(seed)
    rows = max(1, min(_BLOCK, _ENTRIES // n**2))
    for start in range(0, ORDERS, rows):
        yield rng.random((min(rows, ORDERS - start), n)) < 0.5

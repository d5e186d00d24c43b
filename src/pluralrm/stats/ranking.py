"""How alike two rankings of the same n models are, and how often chance does as well: permutation tests of a statistic
of two rows, of a difference, of two samples. Every statistic takes rows (..., n) of scores and returns (...).

Rows are permutations or resamples of one study, so a row is never looped over. A tie counts as the mean over the orders
in which it could be broken, but where tau-b or the mid-rank is the usual name for something else. NaN where a row has
no such number: a side that never varies.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations
from math import comb, factorial
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.stats.clusters import FloatArray, IntArray

Gain = Literal["exponential", "linear"]
Convention = Literal["truncated", "extrapolated", "normalised"]

RBO_P = 0.8
"""How far down a reader of a ranking looks: with this chance from each place on to the next."""


def pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return Pearson's correlation of each row."""
    a, b = (side - side.mean(axis=-1, keepdims=True) for side in (x, y))
    return _cosine((a * b).sum(axis=-1), (a * a).sum(axis=-1) * (b * b).sum(axis=-1))


def spearman(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return Spearman's correlation of each row: Pearson's of the mid-ranks."""
    return pearson(_ranks(x, "average"), _ranks(y, "average"))


def kendall(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return Kendall's tau-b of each row."""
    a, b = _orders(x), _orders(y)
    return _cosine((a * b).sum(axis=-1), (a * a).sum(axis=-1) * (b * b).sum(axis=-1))


def weighted_kendall(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the weighted tau of each row (Vigna 2015): a pair weighs 1/place + 1/place, so that the top counts most.

    The mean of two: places by x (ties by y), and places by y (ties by x).
    """
    x, y = np.broadcast_arrays(x, y)
    a, b = _orders(x), _orders(y)
    products, x_differs, y_differs = a * b, np.abs(a), np.abs(b)
    taus = []
    for first, second in ((x, y), (y, x)):
        weights = _pair_weights(1 / _places(first, second))
        above, left, other = ((weights * part).sum(axis=-1) for part in (products, x_differs, y_differs))
        taus.append(_cosine(above, left * other))
    return (taus[0] + taus[1]) / 2


def ndcg(x: FloatArray, y: FloatArray, *, gain: Gain = "exponential") -> FloatArray:
    """Return the normalised discounted cumulative gain of ranking by x, where y is what one hopes to find at the top.

    Relevance is n + 1 - the rank by y (mid-ranks), gain 2**relevance - 1 or the relevance itself, discount
    log2(1 + place); models tied in x share the discounts of their places.
    """
    relevance = _ranks(y, "average")
    gains = 2.0**relevance - 1 if gain == "exponential" else relevance
    discounts = 1 / np.log2(1 + np.arange(1, x.shape[-1] + 1))
    ideal = (-np.sort(-gains, axis=-1) * discounts).sum(axis=-1)
    ratio: FloatArray = (gains * _shared(x, discounts)).sum(axis=-1) / ideal
    return ratio


def rbo(x: FloatArray, y: FloatArray, *, p: float = RBO_P, convention: Convention = "extrapolated") -> FloatArray:
    """Return the rank-biased overlap of each row (Webber, Moffat and Zobel 2010) to the full depth n.

    `truncated` is (1 - p) sum p**(d-1) A_d, with A_d the overlap of the first d of each in shares of d; it is at most
    1 - p**n. `normalised` divides it by that; `extrapolated` adds p**n A_n (here A_n = 1: both rank the same models).
    """
    n = x.shape[-1]
    depth = np.arange(1, n + 1)
    truncated: FloatArray = np.einsum("...nd,...nd,d->...", _within(x), _within(y), (1 - p) * p ** (depth - 1) / depth)
    if convention == "truncated":
        return truncated
    beyond: float = p**n
    return truncated + beyond if convention == "extrapolated" else truncated / (1 - beyond)


def top_regret(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return how far the model that x puts first stays below the best by y, in units of y; tied firsts share."""
    first = x == x.max(axis=-1, keepdims=True)
    chosen = (first * y).sum(axis=-1) / first.sum(axis=-1)
    regret: FloatArray = y.max(axis=-1) - chosen
    return regret


def order_agreement(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the share of the pairs that y orders which x orders alike; a pair tied in x counts one half."""
    a, b = _orders(x), _orders(y)
    ordered = np.abs(b).sum(axis=-1)
    return np.where(ordered > 0, 0.5 + 0.5 * (a * b).sum(axis=-1) / np.maximum(ordered, 1), np.nan)


Ranking = Callable[[FloatArray, FloatArray], FloatArray]


def _cosine(products: FloatArray, squares: FloatArray) -> FloatArray:
    """Return products over the root of the product of squares, NaN where a side does not vary."""
    varies = squares > 1e-24
    return np.where(varies, np.clip(products / np.sqrt(np.where(varies, squares, 1.0)), -1.0, 1.0), np.nan)


def _orders(side: FloatArray) -> FloatArray:
    """Return (..., pairs): 1, 0 or -1 for each pair of models."""
    first, second = _pairs(side.shape[-1])
    signs: FloatArray = np.sign(side[..., first] - side[..., second])
    return signs


def _pairs(n: int) -> tuple[IntArray, IntArray]:
    first, second = np.triu_indices(n, 1)
    return first, second


def _pair_weights(weights: FloatArray) -> FloatArray:
    first, second = _pairs(weights.shape[-1])
    pairs: FloatArray = weights[..., first] + weights[..., second]
    return pairs


def _places(side: FloatArray, ties: FloatArray) -> FloatArray:
    """Return each model's place, 1 at the top; models tied in `side` are placed by `ties`."""
    order = np.lexsort((-ties, -side), axis=-1)
    places = np.empty(side.shape)
    np.put_along_axis(places, order, np.broadcast_to(np.arange(1.0, side.shape[-1] + 1), side.shape), axis=-1)
    return places


def _ranks(side: FloatArray, ties: Literal["average", "min", "max"]) -> FloatArray:
    """Return ranks from below, 1 for the lowest score."""
    from scipy.stats import rankdata

    ranks: FloatArray = rankdata(side, method=ties, axis=-1).astype(np.float64)
    return ranks


def _shared(side: FloatArray, values: FloatArray) -> FloatArray:
    """Return what each model gets of `values` (n,) by place from the top; tied models share those of their places."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    above, upto = _ranks(-side, "min").astype(np.intp), _ranks(-side, "max").astype(np.intp)
    shared: FloatArray = (sums[upto] - sums[above - 1]) / (upto - above + 1)
    return shared


def _within(side: FloatArray) -> FloatArray:
    """Return (..., n models, n depths): the chance that a model is among the first d, ties broken at random."""
    above, upto = _ranks(-side, "min")[..., None], _ranks(-side, "max")[..., None]
    depth = np.arange(1, side.shape[-1] + 1)
    inside: FloatArray = np.clip((depth - above + 1) / (upto - above + 1), 0.0, 1.0)
    return inside


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


class SwapTest(NamedTuple):
    """A permutation test by swaps, and the smallest p that any of them has: below that no result could be."""

    p: float
    orders: int
    exact: bool
    smallest: float


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
) -> SwapTest:
    """Return the two-sided test of `statistic(first, y) - statistic(second, y)`, which depend on each other.

    Each row is put on one scale first: mid-ranks, or standard deviations where not `ranked`. Under the null hypothesis
    the first two are then exchangeable given y: a model's two scores may be swapped. All ways to do so are tried up to
    n = 14, 10,000 random ones above, where the observed one counts as one more. Spearman's correlation is Pearson's of
    the ranks: to rank the swapped ranks again would make ties that the data do not have, and p too small.

    The smallest p is that of the most extreme swap: 2 ** (1 - n) where no two tie, more where models have equal ranks
    on both sides.
    """
    n = len(y)
    left, other, y = (_scaled(row, ranked) for row in (first, second, y))
    observed = abs(float(statistic(left[None], y[None])[0] - statistic(other[None], y[None])[0]))
    exact = n <= SWAPS_UP_TO
    blocks = []
    for swapped in _all_swaps(n) if exact else _random_swaps(n, seed):
        results = np.broadcast_to(y, swapped.shape)
        moved = statistic(np.where(swapped, other, left), results) - statistic(np.where(swapped, left, other), results)
        # A row that no longer varies correlates with nothing.
        blocks.append(np.abs(np.nan_to_num(moved)))
    distances = np.concatenate(blocks)
    more = 0 if exact else 1
    p, smallest = (
        (int((distances >= least - 1e-9 * (1 + least)).sum()) + more) / (len(distances) + more)
        for least in (observed, max(observed, float(distances.max())))
    )
    return SwapTest(p, len(distances), exact, smallest)


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
        np.sort(np.concatenate([np.abs(statistic(places[None], places[block]) - chance) for block in blocks])), exact
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
    flat = np.fromiter((index for order in permutations(range(n)) for index in order), np.int8, factorial(n) * n)
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

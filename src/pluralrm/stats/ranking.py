"""How alike two rankings of the same n models are: every function takes rows (..., n) of scores and returns (...).

Rows are permutations or resamples of one study, so a row is never looped over. A tie counts as the mean over the orders
in which it could be broken, but where tau-b or the mid-rank is the usual name for something else. NaN where a row has
no such number: a side that never varies.
"""

from collections.abc import Callable
from typing import Literal

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
        above, one, other = ((weights * part).sum(axis=-1) for part in (products, x_differs, y_differs))
        taus.append(_cosine(above, one * other))
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

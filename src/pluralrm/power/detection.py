"""Simulated benchmarks with a true difference, and how often the test and the interval of `compare` find it.

Weights that move a mean where it is wanted leave the values as they were observed (exponential tilting).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from pluralrm.core import Estimate
from pluralrm.errors import MetricError
from pluralrm.stats import difference_interval, flip_p_of_differences
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray, codes, means_of_sums
from pluralrm.stats.intervals import normal_quantile, wilson

_FURTHEST = 60.0
"""In standard deviations of the pull; beyond, all weight is on one value."""
_HALVINGS = 80
_STILL_COUNT = 0.8
"""Weights may cost this share of the clusters, by Kish's number: on a few of them nothing varies any more."""


class Recentred(NamedTuple):
    """Shares of the clusters, and what is added to every value."""

    shares: FloatArray
    shift: float


def tilted(sums: FloatArray, sizes: FloatArray, target: float, *, base: FloatArray | None = None) -> FloatArray:
    """Return shares (G,) with which G clusters of these sums and sizes (G, H) have the mean `target`.

    The mean is that over H strata of their means. Of all shares that do so these are the nearest to `base` (equal ones,
    unless given) by relative entropy, where H is 1 (Efron 1981). A target beyond what the clusters hold is an error.
    """
    start = np.full(len(sums), 1 / len(sums)) if base is None else base
    pull = _pull(sums, sizes, start, target)
    side = 1.0 if target >= _mean(start, sums, sizes) else -1.0

    def passed(strength: float) -> bool:
        return side * (_mean(_tilted_shares(start, pull, side * strength), sums, sizes) - target) > 0

    far = _first(passed)
    if far is None:
        ends = sorted(_mean(_tilted_shares(start, pull, end), sums, sizes) for end in (-_FURTHEST, _FURTHEST))
        raise MetricError(
            f"a true difference of {target:+.3f} is outside of what these items can show ({ends[0]:+.3f} to "
            f"{ends[1]:+.3f}); wanted a smaller one, or runs that differ more"
        )
    return _tilted_shares(start, pull, side * _crossing(passed, far))


def recentred(sums: FloatArray, sizes: FloatArray, target: float) -> Recentred:
    """Return how G clusters of these sums and sizes (G, H) come to have the mean `target`, whatever that is.

    By weights, as `tilted`, as far as four fifths of the clusters still count; what is left is added to every value.
    """
    start = np.full(len(sums), 1 / len(sums))
    pull = _pull(sums, sizes, start, target)
    side = 1.0 if target >= _mean(start, sums, sizes) else -1.0

    def too_far(strength: float) -> bool:
        shares = _tilted_shares(start, pull, side * strength)
        passed = side * (_mean(shares, sums, sizes) - target) > 0
        return passed or bool(1 / (shares @ shares) < _STILL_COUNT * len(sums))

    far = _first(too_far)
    shares = start if far is None else _tilted_shares(start, pull, side * _crossing(too_far, far))
    return Recentred(shares, target - _mean(shares, sums, sizes))


def _first(passed: Callable[[float], bool]) -> float | None:
    """Return a strength at which something is passed; None where even all weight on one value does not."""
    # With several strata the mean may turn back where all weight is on one cluster: the first crossing is meant.
    strengths = (2.0**power for power in range(-4, 6))
    return next((strength for strength in (*strengths, _FURTHEST) if passed(strength)), None)


def _crossing(passed: Callable[[float], bool], far: float) -> float:
    """Return the last strength, from 0 on, before something is passed that is at `far`."""
    near = 0.0
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        near, far = (near, middle) if passed(middle) else (middle, far)
    return near


def _pull(sums: FloatArray, sizes: FloatArray, base: FloatArray, target: float) -> FloatArray:
    """Return by how much each cluster moves a mean at the target, in standard deviations."""
    total = np.maximum(base @ sizes, 1e-300)
    centres = base @ sums / total
    centres = centres + target - centres.mean()
    pull = ((sums - sizes * centres) / total).sum(axis=1)
    spread = float((pull - pull.mean()).std())
    scaled: FloatArray = pull / spread if spread > 1e-12 else np.zeros_like(pull)
    return scaled


def _tilted_shares(base: FloatArray, pull: FloatArray, strength: float) -> FloatArray:
    exponent = strength * pull
    weights: FloatArray = base * np.exp(exponent - exponent.max())
    shares: FloatArray = weights / weights.sum()
    return shares


def _mean(shares: FloatArray, sums: FloatArray, sizes: FloatArray) -> float:
    total = shares @ sizes
    return float((shares @ sums / np.where(total > 0, total, 1.0))[total > 0].mean())


_CLOSE = 0.01
"""A number is found when one that is smaller by this share is known not to be enough: simulations say no more."""
_PATIENT = 7
"""After so many steps by the curve the way is halved: the curve is not what it is taken for."""
_LEAP = 8
"""A step goes at most so many times as far."""


def smallest(
    share: Callable[[int], float], target: float, *, start: int, least: int = 1, most: int, exponent: float = 2.0
) -> int | None:
    """Return the smallest number from `least` to `most` whose share is at least `target`; None where `most` is not.

    `share` grows with the number, and like the power of a test: its normal quantile grows with the number to the power
    of 1/exponent (2 for a number of draws, 1 for the size of an effect). To one per cent, or one.
    """
    below, enough, tried = least - 1, most + 1, min(max(start, least), most)
    bounded, steps = False, 0
    while True:
        value = share(tried)
        if value >= target:
            enough, bounded = tried, True
        elif tried >= most:
            return None
        else:
            below = tried
        if bounded and enough - below <= max(1, int(enough * _CLOSE)):
            return enough
        steps += 1
        guess = _guess(tried, value, target, exponent) if steps < _PATIENT else (below + enough) // 2
        tried = min(max(guess, below + 1), enough - 1)


def _guess(tried: int, value: float, target: float, exponent: float) -> int:
    """Return where the curve through the share found reaches the target, and one step further than that.

    The step leaves the number between two that were asked: one of them enough, the other not.
    """
    two_sided = normal_quantile()
    goal, seen = (_quantile(share) + two_sided for share in (target, value))
    ratio = float((max(goal, 0.1) / max(seen, 0.1)) ** exponent)
    step = 1 - _CLOSE / 2 if value >= target else 1 + _CLOSE / 2
    guess = tried * min(max(ratio, 1 / _LEAP), _LEAP) * step
    return min(round(guess), tried - 1) if value >= target else max(round(guess), tried + 1)


def _quantile(share: float) -> float:
    from pluralrm.stats.special import ndtri

    return float(ndtri(min(max(share, 0.01), 0.999)))


FEWEST = 4
"""Clusters of the smallest benchmark that is simulated."""


class Draws(NamedTuple):
    """Sums and sizes (G, H, S) of the clusters of S benchmarks, over H strata; `blocks` (G,) where they are drawn."""

    sums: FloatArray
    sizes: FloatArray
    blocks: IntArray


class DifferenceWorld(Protocol):
    """Draws benchmarks in which the first model's true mean minus the second's is `difference`.

    More clusters, or another difference, with the same seed: what was there stays, so that power moves smoothly.
    """

    def draw(self, clusters: int, benchmarks: int, *, difference: float, seed: Sequence[int]) -> Draws:
        """Return as many benchmarks with as many clusters each."""
        ...

    def spread(self, difference: float) -> float:
        """Return the standard deviation of what one cluster adds to the mean, in units of a mean over clusters."""
        ...

    @property
    def limit(self) -> float:
        """The difference that no benchmark of this world reaches."""
        ...

    @property
    def least(self) -> int:
        """The fewest clusters that a benchmark can have."""
        ...


@dataclass(frozen=True)
class Observed:
    """Clusters as observed, drawn whole: they keep their sizes, and whatever goes on among their items."""

    sums: FloatArray
    """(G, H): each cluster's sum of differences in each stratum; G in the order of `blocks`."""
    sizes: FloatArray
    blocks: IntArray
    """(G,): clusters are drawn within their block."""
    kept: dict[float, Recentred] = field(default_factory=dict, repr=False)
    """Weights that were asked for before."""

    def draw(self, clusters: int, benchmarks: int, *, difference: float, seed: Sequence[int]) -> Draws:
        """Return clusters drawn with weights that make the true difference what is asked, each block in its share."""
        weights, shift = self._recentred(difference)
        counts = _shares(np.bincount(self.blocks), clusters)
        uniform = [
            np.random.default_rng([*seed, block]).random((int(count), benchmarks)) for block, count in enumerate(counts)
        ]
        drawn = np.concatenate([self._places(weights, block, numbers) for block, numbers in enumerate(uniform)])
        sums, sizes = np.moveaxis(self.sums[drawn], 2, 1), np.moveaxis(self.sizes[drawn], 2, 1)
        return Draws(sums + shift * sizes, sizes, np.repeat(np.arange(len(counts)), counts))

    def spread(self, difference: float) -> float:
        """Return the standard deviation, from the influence of the weighted clusters on the mean."""
        weights, _ = self._recentred(difference)
        total = weights @ self.sizes
        pull = ((self.sums - self.sizes * (weights @ self.sums / total)) / total).sum(axis=1) / self.sums.shape[1]
        return float(np.sqrt(weights @ pull**2))

    @property
    def limit(self) -> float:
        """One: what weights do not reach is added."""
        return 1.0

    @property
    def least(self) -> int:
        """One in each block, and FEWEST."""
        return max(FEWEST, int(self.blocks.max()) + 1)

    def _recentred(self, difference: float) -> Recentred:
        if difference not in self.kept:
            self.kept[difference] = recentred(self.sums, self.sizes, difference)
        return self.kept[difference]

    def _places(self, weights: FloatArray, block: int, uniform: FloatArray) -> IntArray:
        """Return the places of the clusters drawn in a block, one for each number in [0, 1)."""
        # From the lowest to the highest mean: with a larger true difference each draw moves up, or stays.
        inside = np.flatnonzero(self.blocks == block)
        inside = inside[np.argsort((self.sums[inside] / np.maximum(self.sizes[inside], 1)).sum(axis=1), kind="stable")]
        drawn: IntArray = inside[_by_weight(weights[inside], uniform)]
        return drawn


@dataclass(frozen=True)
class Urn:
    """Clusters of `items` items whose differences take some values, any two of one cluster with a correlation.

    Polya's urn: an item after j others is a draw of its own with chance 1 / (1 + j r / (1 - r)), and repeats one of
    them otherwise. The share of items without a difference stays what it is, whatever the true difference.
    """

    values: FloatArray
    """(K,): the differences that occur, ascending."""
    weights: FloatArray
    """(K,): how often, in shares."""
    likeness: float
    items: int

    def draw(self, clusters: int, benchmarks: int, *, difference: float, seed: Sequence[int]) -> Draws:
        """Return clusters of as many items each."""
        weights, again = self.at(difference), self.likeness / max(1 - self.likeness, 1e-12)
        drawn = np.empty((self.items, clusters, benchmarks))
        for index in range(self.items):
            rng = np.random.default_rng([*seed, index])
            fresh, repeats, which = rng.random((clusters, benchmarks, 3)).transpose(2, 0, 1)
            drawn[index] = self.values[_by_weight(weights, fresh)]
            if index and again:
                earlier = np.take_along_axis(drawn[:index], (which[None] * index).astype(np.intp), axis=0)[0]
                drawn[index] = np.where(repeats * (1 + index * again) < 1, drawn[index], earlier)
        sums = drawn.sum(axis=0)[:, None]
        return Draws(sums, np.full_like(sums, self.items), np.zeros(clusters, dtype=np.intp))

    def spread(self, difference: float) -> float:
        """Return the standard deviation of a cluster's mean."""
        weights = self.at(difference)
        variance = float(weights @ self.values**2) - difference**2
        return float(np.sqrt(variance * (1 + (self.items - 1) * self.likeness) / self.items))

    @property
    def limit(self) -> float:
        """The difference where the first model is the better one wherever they differ."""
        return float(self.weights[self.values != 0].sum() * self.values.max())

    @property
    def least(self) -> int:
        """FEWEST."""
        return FEWEST

    def at(self, difference: float) -> FloatArray:
        """Return the values' shares where their mean is `difference`."""
        differs = self.values != 0
        values, shares = self.values[differs][:, None], self.weights[differs]
        share = float(shares.sum())
        if not values.min(initial=1.0) < difference / max(share, 1e-12) < values.max(initial=-1.0):
            raise MetricError(
                f"a difference of {difference:+g} where the models differ on {100 * share:.0f}% of the items, by "
                f"{values.min(initial=0.0):+g} to {values.max(initial=0.0):+g}; wanted a smaller one, or --disagree"
            )
        weights = self.weights.copy()
        weights[differs] = share * tilted(values, np.ones_like(values), difference / share, base=shares / share)
        return weights


def observed(differences: Sequence[float], clusters: Sequence[str], strata: Sequence[str] | None = None) -> Observed:
    """Return the world of items as they were observed; with strata the mean is that over strata."""
    values = np.asarray(differences, dtype=np.float64)
    cluster, stratum = codes(clusters), codes(strata if strata is not None else [""] * len(clusters))
    shape = (int(cluster.max()) + 1, int(stratum.max()) + 1)
    sums, sizes = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (cluster, stratum), values)
    np.add.at(sizes, (cluster, stratum), 1.0)
    # A cluster in several strata cannot be drawn within one: all are draws from one population, as in cluster_means.
    spans = bool(((sizes > 0).sum(axis=1) > 1).any())
    blocks = np.zeros(shape[0], dtype=np.intp) if spans else sizes.argmax(axis=1)
    order = np.argsort(blocks, kind="stable")
    return Observed(sums[order], sizes[order], blocks[order])


def urn(differences: Sequence[float], *, likeness: float, items: int) -> Urn:
    """Return the world of items whose differences are those observed, and as alike within a cluster as is said."""
    values, counts = np.unique([round(difference, 9) for difference in differences], return_counts=True)
    return Urn(values, counts / counts.sum(), likeness, items)


def declared(disagree: float, *, likeness: float, items: int) -> Urn:
    """Return the world of two models of which exactly one is right on this share of the items."""
    return Urn(np.array([-1.0, 0.0, 1.0]), np.array([disagree / 2, 1 - disagree, disagree / 2]), likeness, items)


def _by_weight(weights: FloatArray, uniform: FloatArray) -> IntArray:
    """Return for each number in [0, 1) the place where the weights, added up, reach it."""
    edges = np.cumsum(weights)
    places = np.searchsorted(edges / edges[-1], uniform, side="right")
    inside: IntArray = np.minimum(places, len(weights) - 1).astype(np.intp)
    return inside


def _shares(sizes: IntArray, clusters: int) -> IntArray:
    """Return how many of the clusters each block gets: in proportion, the largest remainders first, one at least."""
    exact = sizes / sizes.sum() * clusters
    counts: IntArray = np.maximum(np.floor(exact), 1).astype(np.intp)
    for block in np.argsort(counts - exact, kind="stable")[: max(clusters - int(counts.sum()), 0)]:
        counts[block] += 1
    return counts


_AT_ONCE = 100
"""Benchmarks drawn at once. Each block has a seed of its own, so their number must not depend on the clusters."""
_AT_MOST = 4_000_000
"""Clusters that are simulated for one answer; of very large benchmarks there are fewer, but _AT_LEAST."""
_AT_LEAST = 500
_FLIPS = (500, 2_500)
"""Sign flips after which p is looked at: where it is clearly above or below alpha no more are tried."""
_CLEARLY = 4.0
"""Standard errors of a share of flips."""


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """What counts as found, how often it should be, and how many benchmarks say so."""

    power: float = 0.8
    alpha: float = 0.05
    simulations: int = 2_000
    seed: int = 0


class DetectionPower(NamedTuple):
    """The share of simulated benchmarks in which p < alpha, and in which the interval leaves out 0."""

    by_p: Estimate
    by_interval: Estimate


def found(world: DifferenceWorld, clusters: int, difference: float, settings: PowerSettings) -> DetectionPower:
    """Return how often benchmarks of so many clusters show a true difference: `compare`'s p, and its interval."""
    blocks = _blocks(world, clusters, difference, settings)
    intervals = np.concatenate([_left_out(draws, 1 - settings.alpha) for draws in blocks])
    return DetectionPower(by_p(world, clusters, difference, settings), simulated(intervals))


def by_p(world: DifferenceWorld, clusters: int, difference: float, settings: PowerSettings) -> Estimate:
    """Return how often `compare`'s p is below alpha."""
    blocks = _blocks(world, clusters, difference, settings)
    parts = [means_of_sums(draws.sums, draws.sizes, blocks=draws.blocks).parts for draws in blocks]
    return simulated(significant(np.concatenate(parts, axis=1), settings.alpha, seed=settings.seed))


def _blocks(world: DifferenceWorld, clusters: int, difference: float, settings: PowerSettings) -> Iterator[Draws]:
    """Yield the benchmarks, some at once."""
    benchmarks = min(settings.simulations, max(_AT_LEAST, _AT_MOST // clusters))
    for start in range(0, benchmarks, _AT_ONCE):
        rows = min(_AT_ONCE, benchmarks - start)
        yield world.draw(clusters, rows, difference=difference, seed=(settings.seed, 1 + start))


def significant(parts: FloatArray, alpha: float, *, seed: int = 0) -> BoolArray:
    """Return for which columns (G, S) of differences the sign-flip test has p < alpha.

    Few flips decide where p is far from alpha, by four standard errors; where it is near, all that `compare` tries.
    """
    below = np.zeros(parts.shape[1], dtype=np.bool_)
    left = np.arange(parts.shape[1])
    for flips in _FLIPS:
        p = flip_p_of_differences(parts[:, left], seed=seed, flips=flips)
        below[left] = p < alpha
        left = left[np.abs(p - alpha) < _CLEARLY * (alpha * (1 - alpha) / flips) ** 0.5]
        if not len(left):
            return below
    below[left] = flip_p_of_differences(parts[:, left], seed=seed) < alpha
    return below


def simulated(hits: BoolArray, what: str = "benchmarks") -> Estimate:
    """Return the share of simulations that hit as an Estimate: its interval is about the simulation alone."""
    share = float(hits.mean())
    low, high = wilson(share, len(hits), normal_quantile())
    return Estimate(share, low, high, len(hits), 0, f"share of {len(hits):,} simulated {what}, Wilson interval")


def _left_out(draws: Draws, level: float) -> BoolArray:
    """Return in which benchmarks the interval of the difference leaves out 0."""
    # The difference stands against a model that earns nothing on the same items.
    sums, sizes = np.concatenate([draws.sums, 0 * draws.sums], axis=2), np.concatenate([draws.sizes] * 2, axis=2)
    means, columns = means_of_sums(sums, sizes, blocks=draws.blocks), draws.sums.shape[2]
    ends = [difference_interval(means, index, columns + index, level=level)[1:3] for index in range(columns)]
    return np.array([low is not None and high is not None and not low <= 0 <= high for low, high in ends])

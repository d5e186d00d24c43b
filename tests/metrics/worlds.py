"""Simulated benchmarks whose true accuracies are known: many at once, one per column."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from pluralrm.stats import cluster_means, difference_interval, share_interval

Array = NDArray[np.float64]
Likeness = Literal["alike", "independent", "opposed", "clumped"]
"""How the items of one cluster go together: positive, no, or negative correlation, or users nearly all or nothing."""

SIZES: dict[str, list[int]] = {"1": [1], "4": [4], "12": [12], "1-8": [1, 2, 3, 4, 6, 8], "2-30": [2, 4, 8, 12, 12, 30]}
"""Items per cluster, repeated over the clusters: one as in PRB, twelve as in RMGAP, four, and two unequal kinds."""

STRENGTH = 0.3
OPPOSITION = 0.9


@dataclass(frozen=True)
class World:
    """Clusters of some sizes, in strata of some numbers of clusters, and how their items go together."""

    strata: tuple[int, ...]
    size: str
    likeness: Likeness

    @property
    def sizes(self) -> list[int]:
        """Items of each cluster, stratum by stratum."""
        return [SIZES[self.size][place % len(SIZES[self.size])] for count in self.strata for place in range(count)]

    @property
    def clusters(self) -> list[str]:
        return [f"u{place:05}" for place, size in enumerate(self.sizes) for _ in range(size)]

    @property
    def domains(self) -> list[str]:
        names = [f"d{place}" for place, count in enumerate(self.strata) for _ in range(count)]
        return [name for name, size in zip(names, self.sizes, strict=True) for _ in range(size)]


def latent(world: World, rng: np.random.Generator, benchmarks: int) -> Array:
    """Return (items, benchmarks) standard normal numbers, alike, independent or opposed within clusters."""
    sizes = np.array(world.sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    own: Array = rng.standard_normal((len(owner), benchmarks))
    if world.likeness == "alike":
        shared = rng.standard_normal((len(sizes), benchmarks))[owner]
        own = np.sqrt(STRENGTH) * shared + np.sqrt(1 - STRENGTH) * own
    if world.likeness == "opposed":
        mean = (np.add.reduceat(own, starts(world.sizes), axis=0) / sizes[:, None])[owner]
        take = np.where(sizes > 1, OPPOSITION, 0.0)[owner, None]
        own = (own - take * mean) / np.sqrt(1 - (2 * take - take**2) / sizes[owner, None])
    return own


def starts(sizes: Sequence[int]) -> list[int]:
    """Return the place of each cluster's first item."""
    return [0, *accumulate(sizes)][:-1]


def right(world: World, accuracy: float | Array, rng: np.random.Generator, benchmarks: int) -> Array:
    """Return (items, benchmarks) of 0 and 1, right with this chance (one number, or one per item)."""
    each = np.broadcast_to(accuracy, len(world.clusters))[:, None]
    if world.likeness == "clumped":
        # Beta-binomial: a model is right about some users nearly always, about a few nearly never.
        scale, first = (1 - STRENGTH) / STRENGTH, each[starts(world.sizes)]
        chance = rng.beta(scale * first, scale * (1 - first), (len(first), benchmarks))
        return np.asarray(
            rng.random((len(each), benchmarks)) < np.repeat(chance, world.sizes, axis=0), dtype=np.float64
        )
    return np.asarray(latent(world, rng, benchmarks) < norm.ppf(each), dtype=np.float64)


def right_twice(
    world: World, accuracies: tuple[float, float], rng: np.random.Generator, benchmarks: int
) -> tuple[Array, Array]:
    """Return the same for two models that find the same items hard (half of what decides is shared)."""
    hard, first, second = (latent(world, rng, benchmarks) for _ in range(3))
    one, other = (
        ((hard + own) / np.sqrt(2) < norm.ppf(accuracy)).astype(np.float64)
        for own, accuracy in zip((first, second), accuracies, strict=True)
    )
    return one, other


def coverage(world: World, accuracy: float, *, benchmarks: int = 1_000, seed: int = 0) -> float:
    """Return how often, in percent, the interval of the mean covers the true accuracy; macro with several strata."""
    values = right(world, accuracy, np.random.default_rng(seed), benchmarks)
    means = cluster_means(values, world.clusters, strata=world.domains)
    return _hits([share_interval(means, column)[1:3] for column in range(benchmarks)], accuracy)


def uneven_coverage(world: World, accuracy: float, *, benchmarks: int = 1_000, seed: int = 0) -> float:
    """Return the same where the strata's accuracies differ by up to 0.12 around `accuracy`."""
    offsets = np.linspace(-0.06, 0.06, len(world.strata))
    each = np.array([accuracy + offsets[int(name[1:])] for name in world.domains])
    means = cluster_means(
        right(world, each, np.random.default_rng(seed), benchmarks), world.clusters, strata=world.domains
    )
    return _hits([share_interval(means, column)[1:3] for column in range(benchmarks)], accuracy)


def difference_coverage(
    world: World, accuracies: tuple[float, float], *, benchmarks: int = 1_000, seed: int = 0
) -> float:
    """Return how often the interval of a paired difference covers the true one."""
    one, other = right_twice(world, accuracies, np.random.default_rng(seed), benchmarks)
    means = cluster_means(np.hstack([one, other]), world.clusters, strata=world.domains)
    found = [difference_interval(means, column, benchmarks + column)[1:3] for column in range(benchmarks)]
    return _hits(found, accuracies[0] - accuracies[1])


def naive_coverage(world: World, accuracy: float, *, benchmarks: int = 1_000, seed: int = 0) -> float:
    """Return how often the textbook interval for independent items, m +- 1.96 sqrt(m(1 - m)/n), covers."""
    mean = right(world, accuracy, np.random.default_rng(seed), benchmarks).mean(axis=0)
    reach = 1.96 * np.sqrt(mean * (1 - mean) / len(world.clusters))
    return _hits(list(zip(mean - reach, mean + reach, strict=True)), accuracy)


def percentile_coverage(world: World, accuracy: float, *, benchmarks: int = 1_000, seed: int = 0) -> float:
    """Return how often the expanded percentile interval of the cluster bootstrap covers (one stratum)."""
    from pluralrm.stats.correlation import expanded_percentiles

    rng = np.random.default_rng(seed)
    values = right(world, accuracy, rng, benchmarks)
    sizes = np.array(world.sizes)
    sums = np.add.reduceat(values, starts(world.sizes), axis=0)
    counts = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=2_000)
    draws = (counts @ sums) / (counts @ sizes)[:, None]
    return _hits([expanded_percentiles(draws[:, column], len(sizes)) for column in range(benchmarks)], accuracy)


def _hits(intervals: Sequence[tuple[float | None, ...]], truth: float) -> float:
    # A bound that equals the truth up to rounding covers it.
    inside = [
        low <= truth + 1e-12 and truth - 1e-12 <= high
        for low, high in intervals
        if low is not None and high is not None
    ]
    return 100 * sum(inside) / len(inside)

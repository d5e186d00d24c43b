"""Simulated trainings of simulated users, of which the mean over all there could be is known."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from pluralrm.stats import Interval
from pluralrm.stats.clusters import FloatArray

ITEMS = 3
_CENTRE, _TOGETHER, _CHANCE = 0.3, 0.3, 0.6


class Trainings(NamedTuple):
    """How many trainings and users, and how far trainings and users lie apart, on a probit scale."""

    seeds: int
    users: int
    apart: float
    alike: float = 0.5

    @property
    def clusters(self) -> list[str]:
        """The user of each item."""
        return [f"u{number:04}" for number in range(self.users) for _ in range(ITEMS)]

    @property
    def mean(self) -> float:
        """That over all users and all trainings: of a normal number within, P(normal < x) has a closed mean."""
        variance = self.apart**2 + self.alike**2 + _TOGETHER**2 + _CHANCE**2
        return float(norm.cdf(_CENTRE / (1 + variance) ** 0.5))

    def studies(self, count: int, *, seed: Sequence[int]) -> Iterator[FloatArray]:
        """Yield grades (trainings, items): a training, a user, what both have in common, and chance."""
        rng = np.random.default_rng(list(seed))
        for _ in range(count):
            latent = (
                _CENTRE + rng.normal(0, self.apart, (self.seeds, 1, 1)) + rng.normal(0, self.alike, (self.users, 1))
            )
            latent = latent + rng.normal(0, _TOGETHER, (self.seeds, self.users, 1))
            yield norm.cdf(latent + rng.normal(0, _CHANCE, (self.seeds, self.users, ITEMS))).reshape(self.seeds, -1)


def covered(found: Sequence[Interval], truth: float) -> float:
    """Return the share of the intervals that hold the truth; one without ends holds nothing."""
    return float(
        np.mean([one.low is not None and one.high is not None and one.low <= truth <= one.high for one in found])
    )


def width(found: Interval) -> float:
    """Return how far the ends are apart; there have to be some."""
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low

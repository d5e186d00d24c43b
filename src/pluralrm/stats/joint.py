"""Intervals for a statistic of n models whose scores are means over items: models and items are resampled together.

The estimand is the mean of the statistic over studies of as many models and items, drawn alike; where no items are
known, of as many models on the same items. A score's own error is part of how models differ, so resampling models has
it already; of the items only what they do to several models at once is added. docs/design/statistics.md has the
measured coverage, docs/log.md what was tried and failed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.stats.clusters import FloatArray, on_grid, resample_counts
from pluralrm.stats.comparisons import one_thread
from pluralrm.stats.correlation import expanded_percentiles
from pluralrm.stats.intervals import Bounds, Interval, t_quantile

RESAMPLES = 2_000
_BLOCK = 500
_ENTRIES = 4_000_000
"""Numbers in one array of a block: some measures set up (rows, n, n)."""
_INSIDE = 0.002
"""Angles are read no nearer to the ends of where the statistic lives: there their scale stretches without bound."""

Statistic = Callable[[FloatArray], FloatArray]
"""Takes (..., k, n), k rows of scores of n models, and returns (...)."""
Scale = Literal["fisher", "sine", "plain", "arcsine"]
"""Where the interval is symmetric. `sine`, the angle with that sine, lies between the plain scale and Fisher's.

On `arcsine` the statistic is in [0, 1], and may jump when a model comes or goes.
"""


@dataclass(frozen=True, slots=True)
class Scores:
    """k rows of scores of the same n models, and by how much each of G clusters of items moves each of them."""

    values: FloatArray
    """(k, n)"""
    influence: FloatArray
    """(G, k, n), 0 where a row does not rest on a cluster; G is 0 where scores were published without items."""

    def rows(self, *places: int) -> "Scores":
        """Return some of the rows."""
        return Scores(self.values[list(places)], self.influence[:, list(places)])

    @property
    def clusters(self) -> int:
        """The number of clusters of items; 0 where there are none."""
        return len(self.influence)


class JointSpread(NamedTuple):
    """The variance of a statistic over studies, and where it is centred."""

    variance: float
    centre: float


def spread_over_studies(statistic: Statistic, scores: Scores, *, scale: Scale, seed: int = 0) -> JointSpread:
    """Return the variance over models and items.

    Models: leaving out each one (the jackknife), or where the statistic may jump, draws with replacement, whose mean is
    the centre: a smooth stand-in for the value.
    """
    jumps = scale == "arcsine"
    draws = _redrawn_models(statistic, scores, seed) if jumps else _left_out(statistic, scores)
    draws = draws[np.isfinite(draws)]  # a resample in which one side never varies has no value
    squares = float(((draws - draws.mean()) ** 2).sum())
    n = scores.values.shape[-1]
    models = squares / len(draws) if jumps else squares * (n - 1) / n
    centre = float(draws.mean()) if jumps else _value(statistic, scores)
    return JointSpread(models + _shared_by_items(statistic, scores, seed), centre)


def interval_over_studies(
    statistic: Statistic, scores: Scores, *, scale: Scale, floor: float = 0.0, limit: float = 1.0, seed: int = 0
) -> Interval:
    """Return the value and its interval: Student's t with n - 1 degrees of freedom, on its scale.

    `floor` is the least standard error that is believed, of Fisher's z on that scale; on the plain scale an interval
    ends at -limit and limit.
    No interval where every resample gives the same value.
    """
    value, n = _value(statistic, scores), scores.values.shape[-1]
    variance, centre = spread_over_studies(statistic, scores, scale=scale, seed=seed)
    error = max(variance**0.5, floor * (1 - centre**2) if scale == "fisher" else floor)
    if error < 1e-9:
        return Interval(value, None, None, "no interval: the same in every resample")
    reach = t_quantile(n - 1) * error
    what = f"models and items resampled{_of(scores)}" if scores.clusters else "models alone resampled"
    low, high = _ends(centre, reach, scale, limit)
    # Centred on the resamples, an interval may leave out the value itself; one that does would mislead.
    return Interval(value, min(low, value), max(high, value), what)


def interval_over_items(statistic: Statistic, scores: Scores, *, seed: int = 0) -> Interval:
    """Return the value and its interval for these models only: expanded percentiles over resampled items."""
    value = _value(statistic, scores)
    if scores.clusters < 4:
        return Interval(
            value, None, None, f"no interval: too few models, and {scores.clusters or 'no'} items to resample"
        )
    draws = _redrawn_items(statistic, scores, seed)
    draws = draws[np.isfinite(draws)]
    if not len(draws) or np.ptp(draws) < 1e-9:
        return Interval(value, None, None, "no interval: the same in every resample")
    return Interval(value, *expanded_percentiles(draws, scores.clusters), f"these models only{_of(scores)}")


def _value(statistic: Statistic, scores: Scores) -> float:
    return float(statistic(scores.values[None])[0])


def _of(scores: Scores) -> str:
    return f", {scores.clusters:,} clusters of items" if scores.clusters else ""


def _ends(centre: float, reach: float, scale: Scale, limit: float) -> Bounds:
    """Return the ends of an interval that is centre +- reach to first order and stays where the statistic lives."""
    if scale == "arcsine":
        inside = float(np.clip(centre, _INSIDE, 1 - _INSIDE))
        angle, half = np.arcsin(inside**0.5), reach / (2 * (inside * (1 - inside)) ** 0.5)
        low, high = (np.sin(np.clip(angle + side * half, 0.0, np.pi / 2)) ** 2 for side in (-1, 1))
    elif scale == "sine":
        inside = float(np.clip(centre, _INSIDE - 1, 1 - _INSIDE))
        angle, half = np.arcsin(inside), reach / (1 - inside**2) ** 0.5
        low, high = (np.sin(np.clip(angle + side * half, -np.pi / 2, np.pi / 2)) for side in (-1, 1))
    elif scale == "fisher" and abs(centre) < 1 - 1e-9:
        low, high = (np.tanh(np.arctanh(centre) + side * reach / (1 - centre**2)) for side in (-1, 1))
    else:
        low, high = (np.clip(centre + side * reach, -limit, limit) for side in (-1, 1))
    return Bounds(float(low), float(high))


def _left_out(statistic: Statistic, scores: Scores) -> FloatArray:
    n = scores.values.shape[-1]
    kept = np.array([[place for place in range(n) if place != out] for out in range(n)])
    return statistic(np.moveaxis(scores.values[:, kept], 0, 1))


def _redrawn_models(statistic: Statistic, scores: Scores, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    n = scores.values.shape[-1]
    drawn = rng.integers(0, n, (RESAMPLES, n))
    return _in_blocks(statistic, np.moveaxis(scores.values[:, drawn], 0, 1))


def _redrawn_items(statistic: Statistic, scores: Scores, seed: int) -> FloatArray:
    flat = on_grid(scores.influence.reshape(scores.clusters, -1))
    strata = np.zeros(scores.clusters, dtype=np.intp)
    with one_thread():
        moved = [(counts - 1) @ flat for counts in resample_counts(strata, seed=seed, resamples=RESAMPLES)]
    return _in_blocks(statistic, scores.values + np.concatenate(moved).reshape(-1, *scores.values.shape))


def _shared_by_items(statistic: Statistic, scores: Scores, seed: int) -> float:
    """Return the variance from resampling items, less what it would be if each model had items of its own.

    That part is in the spread of the models already. What moves all models alike moves no ranking and is taken out.
    """
    if not scores.clusters:
        return 0.0
    own = scores.influence - scores.influence.mean(axis=-1, keepdims=True)
    n = own.shape[-1]
    covariance = np.einsum("gkn,gln->nkl", own, own) * n / max(n - 1, 1)
    size, turn = np.linalg.eigh(covariance)
    noise = np.random.default_rng(seed + 1).standard_normal((RESAMPLES, n, len(scores.values)))
    errors = np.einsum("nkl,bnl->bkn", turn * np.sqrt(np.clip(size, 0, None))[:, None, :], noise)
    alone = _in_blocks(statistic, scores.values + errors)
    return max(0.0, float(np.nanvar(_redrawn_items(statistic, scores, seed)) - np.nanvar(alone)))


def _in_blocks(statistic: Statistic, rows: FloatArray) -> FloatArray:
    block = max(1, min(_BLOCK, _ENTRIES // rows.shape[-1] ** 2))
    return np.concatenate([statistic(rows[start : start + block]) for start in range(0, len(rows), block)])

"""Do scores mean probabilities? Where sigmoid(score - score) is the chance to be preferred, it can be checked.

For two candidates with scores a and b the model is max(p, 1 - p) sure, with p = sigmoid(a - b); how often is it right?
The expected calibration error is the mean distance of the two over ten bins of sureness, weighted by their items. A
model that means what it says has an error too, by the luck of the items: the bootstrap takes the excess off, and where
labels drawn from the model's own probabilities give as large an error, the interval begins at 0. Ties earn half.

A failed item could have been sure of anything from one half to one, and right or wrong: its gap, sureness less
accuracy, lies in [-1/2, 1]. The error is a convex function of where the failed items fall, so it is largest where all
of them fall alike; it is smallest where they take from the bins that err what they can.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pluralrm.core import Estimate, Row, Run
from pluralrm.display import Brief
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import remark
from pluralrm.metrics.units import numbers
from pluralrm.stats import cluster_means, difference_interval

_INSIDE = 1e-12
"""From the edge of a bin."""


class CalibrationBounds(NamedTuple):
    """The plain error, and the overconfidence, of all items: at best and at worst."""

    error_low: float
    error_high: float
    over_low: float
    over_high: float
    failed: int

    def to_json(self) -> dict[str, float | int]:
        """Return the fields under their names, for --json."""
        return self._asdict()


def calibration_bounds(gaps: npt.NDArray[np.float64], scored: int, failed: int) -> CalibrationBounds | None:
    """Return the bounds, from the sum of the gaps in each bin of sureness; None where no item failed."""
    if not failed:
        return None
    items, total = scored + failed, float(gaps.sum())
    over = (total - failed / 2) / items, (total + failed) / items
    return CalibrationBounds(_least(gaps, failed) / items, _most(gaps, failed) / items, *over, failed)


def _ends(bins: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    edges = 0.5 + np.arange(bins + 1) / bins / 2
    return edges[:-1], edges[1:]


def _most(gaps: npt.NDArray[np.float64], failed: int) -> float:
    """Return the largest sum of sizes: all in one bin, as sure as it allows and wrong, or as unsure and right."""
    return float(_alike(gaps, failed).max())


def _alike(gaps: npt.NDArray[np.float64], failed: int) -> npt.NDArray[np.float64]:
    """Return (2, bins): the sum of sizes with all failed items in a bin, surest and wrong, or least sure and right."""
    low, high = _ends(len(gaps))
    size = np.abs(gaps)
    moved = np.stack([np.abs(gaps + failed * high), np.abs(gaps - failed * (1 - low))])
    pairs: npt.NDArray[np.float64] = size.sum() - size + moved
    return pairs


def worst_answer(gaps: npt.NDArray[np.float64], failed: int) -> tuple[float, float]:
    """Return how sure and how right all failed items would have to be for the largest error."""
    low, high = _ends(len(gaps))
    way, place = divmod(int(_alike(gaps, failed).argmax()), len(gaps))
    return (float(high[place]) - _INSIDE, 0.0) if way == 0 else (float(low[place]) + _INSIDE, 1.0)


def _least(gaps: npt.NDArray[np.float64], failed: int) -> float:
    """Return a sum of sizes below which none can be: items go where one of them takes most, none adds anything.

    An item takes from a bin that is too sure by being right, from one that is not sure enough by being wrong. One that
    finds nothing to take is sure and right.
    """
    low, high = _ends(len(gaps))
    taken = np.where(gaps > 0, 1 - low, high)
    left, size = float(failed), np.abs(gaps)
    for place in np.argsort(-taken, kind="stable"):
        used = min(left, size[place] / taken[place])
        size[place] -= used * taken[place]
        left -= used
    return float(size.sum())


BINS = 10
_DRAWS = 2000
_NOISE = 400
_FEW = 10
"""Clusters below which nothing is resampled."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Items of which the model is about equally sure."""

    low: float
    high: float
    items: int
    sure: float
    right: float


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(Brief):
    """How sure a model is, and how often it is right; `overconfidence` is the mean of the one minus that of the other.

    A failed item counts as the worst that it could have been: `error` is the largest, and `overconfidence` the farthest
    from 0, that the failed items could have made, so that failing never makes a model look calibrated. `bins` are of
    the scored items alone, and `bounds` says how much the failed ones could hide.
    """

    error: Estimate
    overconfidence: Estimate
    bins: tuple[Bin, ...]
    bounds: CalibrationBounds | None = None

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "error": self.error.to_json(),
            "overconfidence": self.overconfidence.to_json(),
            "bins": [asdict(one) for one in self.bins],
            "bounds": None if self.bounds is None else self.bounds.to_json(),
        }


def calibration(run: Run, *, seed: int = 0) -> Calibration:
    """Return the calibration of a run whose items have two candidates each; others, and none scored, are errors."""
    if any(len(row.scores) != 2 for row in run.rows):
        raise MetricError(f"{run.benchmark}: calibration is of items with two candidates, and some have more or fewer.")
    every = sorted(run.rows, key=lambda row: (row.failed, row.cluster, row.item))
    rows = [row for row in every if not row.failed]
    if not rows:
        raise MetricError(
            f"{run.model} under {run.condition}: no item was scored, so nothing is known of its sureness."
        )
    sure, right = _sure(rows)
    clusters, prompts = [row.cluster for row in every], [row.prompt for row in every]
    gaps, failed = _gaps(sure, right), len(every) - len(rows)
    note = "; ".join(filter(None, ("failed items at their worst" * bool(failed), remark(run))))
    far = (1.0, 0.0) if abs(gaps.sum() + failed) >= abs(gaps.sum() - failed / 2) else (0.5, 1.0)
    both = np.stack(_with(sure, right, far, failed), axis=1)
    apart = difference_interval(cluster_means(both, clusters, crossed=prompts), 0, 1)
    method = "; ".join(filter(None, (f"sureness - accuracy, {apart.method}", note)))
    return Calibration(
        _error(*_with(sure, right, worst_answer(gaps, failed), failed), clusters, failed=failed, note=note, seed=seed),
        Estimate(apart.value, apart.low, apart.high, len(every), failed, method),
        tuple(_bins(sure, right)),
        calibration_bounds(gaps, len(rows), failed),
    )


def _with(
    sure: npt.NDArray[np.float64], right: npt.NDArray[np.float64], answer: tuple[float, float], failed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return sureness and rightness of all items, the failed ones last, each as if it had been answered so."""
    return np.append(sure, [answer[0]] * failed), np.append(right, [answer[1]] * failed)


def _sure(rows: Sequence[Row]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return how sure the model is of its choice, and whether it is right; a tie is half right."""
    sure, right = [], []
    for row in rows:
        scores = numbers(row) or [0.0, 0.0]
        lead = scores[row.preferred] - scores[1 - row.preferred]
        sure.append(1 / (1 + math.exp(-min(abs(lead), 700.0))))
        right.append(1.0 if lead > 0 else 0.5 if lead == 0 else 0.0)
    return np.array(sure), np.array(right)


def _places(sure: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the bin of each item: ten of equal width between one half and one."""
    return np.minimum((sure - 0.5) * 2 * BINS, BINS - 1).astype(np.int64)


def _gaps(sure: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sum of sureness less accuracy in each bin."""
    return np.bincount(_places(sure), weights=sure - right, minlength=BINS).astype(np.float64)


def _bins(sure: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> list[Bin]:
    places = _places(sure)
    bins = []
    for place in sorted(set(places.tolist())):
        here = places == place
        low = 0.5 + place / BINS / 2
        bins.append(Bin(low, low + 0.5 / BINS, int(here.sum()), float(sure[here].mean()), float(right[here].mean())))
    return bins


def _error(
    sure: npt.NDArray[np.float64],
    right: npt.NDArray[np.float64],
    clusters: Sequence[str],
    *,
    failed: int,
    note: str,
    seed: int,
) -> Estimate:
    """Return the error less its expected excess, and a basic bootstrap interval over whole clusters, cut at 0."""
    names, owners = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(names), BINS))
    np.add.at(sums, (owners, _places(sure)), sure - right)
    plain = float(np.abs(sums.sum(axis=0)).sum() / len(sure))
    if len(names) < _FEW:
        method = f"ten bins, no interval: {len(names)} clusters"
        return Estimate(plain, None, None, len(sure), failed, "; ".join(filter(None, (method, note))))
    rng = np.random.default_rng(seed)
    noise = _by_noise(sure, rng)
    weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), _DRAWS)
    draws = np.abs(weights @ sums).sum(axis=1) / (weights @ np.bincount(owners))
    value = max(0.0, 2 * plain - float(draws.mean()))
    low, high = (max(0.0, 2 * plain - float(np.quantile(draws, end))) for end in (0.975, 0.025))
    if plain <= np.quantile(noise, 0.975):
        low = 0.0  # a model that means what it says errs as much, by the luck of the items alone
    method = f"ten bins, less its expected excess; basic bootstrap over {len(names)} clusters, {_DRAWS:,} draws"
    bounds = min(low, value), max(high, value)
    return Estimate(value, *bounds, len(sure), failed, "; ".join(filter(None, (method, note))))


def _by_noise(sure: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return errors of a model that is right exactly as often as it is sure, on as many items."""
    places = _places(sure)
    errors = []
    for _ in range(_NOISE):
        gaps = np.bincount(places, weights=sure - (rng.random(len(sure)) < sure), minlength=BINS)
        errors.append(np.abs(gaps).sum() / len(sure))
    return np.array(errors)

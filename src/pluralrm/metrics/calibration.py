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
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pluralrm.core import Estimate, Row, Run
from pluralrm.display import Brief, JsonFields
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import remark
from pluralrm.metrics.units import numbers, winner
from pluralrm.stats import cluster_means, difference_interval
from pluralrm.stats.clusters import FloatArray, cells, codes, covariances, crossing
from pluralrm.stats.intervals import t_quantile

_INSIDE = 1e-12
"""From the edge of a bin."""


class CalibrationBounds(NamedTuple):
    """The plain error, and the overconfidence, of all items: at best and at worst."""

    error_low: float
    error_high: float
    over_low: float
    over_high: float
    failed: int


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
    side, index = divmod(int(_alike(gaps, failed).argmax()), len(gaps))
    return (float(high[index]) - _INSIDE, 0.0) if side == 0 else (float(low[index]) + _INSIDE, 1.0)


def _least(gaps: npt.NDArray[np.float64], failed: int) -> float:
    """Return a sum of sizes below which none can be: items go where one of them takes most, none adds anything.

    An item takes from a bin that is too sure by being right, from one that is not sure enough by being wrong. One that
    finds nothing to take is sure and right.
    """
    low, high = _ends(len(gaps))
    taken = np.where(gaps > 0, 1 - low, high)
    left, size = float(failed), np.abs(gaps)
    for index in np.argsort(-taken, kind="stable"):
        used = min(left, size[index] / taken[index])
        size[index] -= used * taken[index]
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
class Calibration(Brief, JsonFields):
    """How sure a model is, and how often it is right; `overconfidence` is the mean of the one minus that of the other.

    A failed item counts as the worst that it could have been: `error` is the largest, and `overconfidence` the farthest
    from 0, that the failed items could have made, so that failing never makes a model look calibrated. `bins` are of
    the scored items alone, and `bounds` says how much the failed ones could hide.
    """

    error: Estimate
    overconfidence: Estimate
    bins: tuple[Bin, ...]
    bounds: CalibrationBounds | None = None


def calibration(run: Run) -> Calibration:
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
        _error(
            *_with(sure, right, worst_answer(gaps, failed), failed),
            clusters,
            crossing(clusters, prompts),
            failed=failed,
            note=note,
            seed=0,
        ),
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
        lead = scores[winner(row)] - scores[1 - winner(row)]
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
    for number in sorted(set(places.tolist())):
        here = places == number
        low = 0.5 + number / BINS / 2
        bins.append(Bin(low, low + 0.5 / BINS, int(here.sum()), float(sure[here].mean()), float(right[here].mean())))
    return bins


def _error(
    sure: npt.NDArray[np.float64],
    right: npt.NDArray[np.float64],
    clusters: Sequence[str],
    prompts: Sequence[str] | None,
    *,
    failed: int,
    note: str,
    seed: int,
) -> Estimate:
    """Return the error less its expected excess, and a basic bootstrap interval over whole clusters, cut at 0.

    Where clusters share prompts, the gaps of the bins are drawn from a normal with their two-way covariance.
    """
    names, owners = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(names), BINS))
    np.add.at(sums, (owners, _places(sure)), sure - right)
    plain = float(np.abs(sums.sum(axis=0)).sum() / len(sure))
    count = len(names) if prompts is None else min(len(names), len(set(prompts)))
    if count < _FEW:
        method = f"ten bins, no interval: {count} {'clusters' if count == len(names) else 'prompts'}"
        return Estimate(plain, None, None, len(sure), failed, "; ".join(filter(None, (method, note))))
    rng = np.random.default_rng(seed)
    noise = _by_noise(sure, rng)
    if prompts is None:
        weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), _DRAWS)
        draws = np.abs(weights @ sums).sum(axis=1) / (weights @ np.bincount(owners))
    else:
        in_bins = (sure - right)[:, None] * (_places(sure)[:, None] == np.unique(_places(sure)))
        means = cluster_means(in_bins, clusters, crossed=prompts)
        draws = np.abs(rng.multivariate_normal(means.means, covariances(means), _DRAWS)).sum(axis=1)
    value = max(0.0, 2 * plain - float(draws.mean()))
    low, high = (max(0.0, 2 * plain - float(np.quantile(draws, end))) for end in (0.975, 0.025))
    if plain <= np.quantile(noise, 0.975):
        low = 0.0  # a model that means what it says errs as much, by the luck of the items alone
    over = f"{len(names)} clusters" + (f" × {len(set(prompts)):,} prompts" if prompts else "")
    method = f"ten bins, less its expected excess; basic bootstrap over {over}, {_DRAWS:,} draws"
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


# ---------------------------------------------------------------- the share of people


class VoteBin(NamedTuple):
    """Pairs of candidates by the share of people that the model predicts for the one it scores higher."""

    low: float
    high: float
    weight: float
    """The share of the rows."""
    predicted: float
    share: float
    """Of the other people who prefer one of the two, who prefers that one."""
    failed: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class VoteCalibration(Brief, JsonFields):
    """Whether sigmoid(margin / T) is the share of people: the root mean square of prediction less share, over bins.

    `temperature` is the median T over folds; None where margins say nothing of shares (T is infinite).
    """

    error: Estimate
    temperature: float | None
    bins: tuple[VoteBin, ...]


class _Pairs(NamedTuple):
    """Pairs of candidates; a pair of a failed item has the margin nan."""

    row: npt.NDArray[np.intp]
    weight: FloatArray
    """A row's pairs sum to 1, each by the number of people who prefer one of the two."""
    share: FloatArray
    margin: FloatArray


_FOLDS = 5
_STEEPEST = 50.0
"""1 / T in standard deviations of the margins, at most."""


def vote_calibration(run: Run, *, seed: int = 0) -> VoteCalibration | None:
    """Return how far margins are from the shares of other people; None where no one else judged, or only one prompt.

    T is fitted on the other folds of prompts. A failed item predicts 1 for the less preferred of each pair, in a bin of
    its own: nothing could be farther off. The square of the error is freed of its expected excess.
    """
    rows = sorted((row for row in run.rows if any(row.others)), key=attrgetter("cluster", "prompt", "item"))
    prompts = codes([row.prompt or f"item {row.item}" for row in rows]) if rows else np.zeros(0, dtype=np.intp)
    if not rows or (kinds := int(prompts.max()) + 1) < 2:
        return None
    pairs = _vote_pairs(rows)
    folds = (np.random.default_rng(seed).permutation(kinds) % _FOLDS)[prompts][pairs.row]
    failed, slopes = np.isnan(pairs.margin), np.zeros(len(pairs.row))
    for fold in np.unique(folds):
        slopes[folds == fold] = _slope(*(part[(folds != fold) & ~failed] for part in pairs[1:]))
    margin = np.where(failed, 0.0, pairs.margin)
    sure = np.where(failed, 1.0, 1 / (1 + np.exp(-np.minimum(slopes * np.abs(margin), 700.0))))
    won = np.where(margin > 0, pairs.share, np.where(margin < 0, 1 - pairs.share, 0.5))
    won = np.where(failed, np.minimum(pairs.share, 1 - pairs.share), won)
    slots = np.where(failed, BINS, _places(sure))
    totals = [np.bincount(slots, pairs.weight * part, BINS + 1) for part in (np.ones(len(sure)), sure, won)]
    bins = [
        VoteBin(*_edges(number), float(weight) / len(rows), float(p / weight), float(share / weight), number == BINS)
        for number, (weight, p, share) in enumerate(zip(*totals, strict=True))
        if weight > 0
    ]
    gaps = np.zeros((len(rows), BINS + 1))
    np.add.at(gaps, (pairs.row, slots), pairs.weight * (sure - won))
    middle = float(np.median(np.unique(slopes[~failed]))) if not failed.all() else 0.0
    error = _vote_error(gaps, totals[0] / len(rows), rows)
    return VoteCalibration(error, 1 / middle if middle else None, tuple(bins))


def _edges(number: int) -> tuple[float, float]:
    return (1.0, 1.0) if number == BINS else (0.5 + number / BINS / 2, 0.5 + (number + 1) / BINS / 2)


def _vote_pairs(rows: Sequence[Row]) -> _Pairs:
    parts = []
    failed, others, scored = (list(map(attrgetter(name), rows)) for name in ("failed", "others", "scores"))
    widths = list(map(len, scored))
    for width in sorted(set(widths)):
        members = [number for number, size in enumerate(widths) if size == width]
        votes = np.array([others[number] for number in members])
        scores = np.array([[np.nan] * width if failed[number] else scored[number] for number in members])
        first, second = np.triu_indices(width, 1)
        people = votes[:, first] + votes[:, second]
        here = people > 0
        weight = people / people.sum(axis=1, keepdims=True)
        share = votes[:, first] / np.where(here, people, 1.0)
        index = np.broadcast_to(np.array(members)[:, None], people.shape)
        parts.append([part[here] for part in (index, weight, share, scores[:, first] - scores[:, second])])
    return _Pairs(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _slope(weight: FloatArray, share: FloatArray, margin: FloatArray) -> float:
    """Return the 1 / T >= 0 of the least log loss, by Newton steps inside a bracket."""
    scale = math.sqrt(float((weight * margin**2).sum() / weight.sum())) if len(weight) else 0.0
    if not scale:
        return 0.0
    unit = margin / scale
    low, high, slope = 0.0, _STEEPEST, 0.0
    for _ in range(60):
        chance = 1 / (1 + np.exp(-slope * unit))
        rise = float((weight * unit * (chance - share)).sum())
        low, high = (low, slope) if rise > 0 else (slope, high)
        curve = float((weight * unit**2 * chance * (1 - chance)).sum())
        step = slope - rise / curve if curve else high
        after = step if low <= step <= high else (low + high) / 2
        if abs(after - slope) < 1e-9:
            break
        slope = after
    return slope / scale


def _vote_error(gaps: FloatArray, weights: FloatArray, rows: Sequence[Row]) -> Estimate:
    """Return the root mean square of the bins' gaps, from what each row adds to each bin (rows, bins).

    Its square is a sum over bins of gap² / weight, less the variance of the gap: an unbiased estimate, whose own
    variance follows from the covariances of the gaps, robust to users and prompts.
    """
    count, failed = len(rows), sum(row.failed for row in rows)
    inside = weights > 0
    means, share = gaps.mean(axis=0)[inside], weights[inside]
    influence = (gaps[:, inside] - means) / count
    users, prompts = [row.cluster for row in rows], [row.prompt or f"item {row.item}" for row in rows]
    kinds = [codes(users), codes(prompts), codes(cells(users, prompts))]
    people, asks = (int(kind.max()) + 1 for kind in kinds[:2])
    own, other, both = (_covariances(influence, kind) for kind in kinds)
    values, vectors = np.linalg.eigh(own + other - both)
    spread = (vectors * np.maximum(values, 0.0)) @ vectors.T
    square = float(((means**2 - np.diag(spread)) / share).sum())
    what = "root mean square over ten bins, T out of fold, less its expected excess"
    note = "; failed items at their worst" * bool(failed)
    if min(people, asks) < _FEW:
        words = f"{what}; no interval: {people} users × {asks} prompts{note}"
        return Estimate(math.sqrt(max(0.0, square)), None, None, count, failed, words)
    slope = 2 * means / share
    variance = float(slope @ spread @ slope + 2 * (spread**2 / np.outer(share, share)).sum())
    reach = t_quantile(min(people, asks) - 1) * math.sqrt(variance)
    value, low, high = (math.sqrt(max(0.0, part)) for part in (square, square - reach, square + reach))
    words = f"{what}; interval of its square, robust to {people:,} users × {asks:,} prompts{note}"
    return Estimate(value, low, high, count, failed, words)


def _covariances(influence: FloatArray, kind: npt.NDArray[np.intp]) -> FloatArray:
    size = int(kind.max()) + 1
    sums = np.stack([np.bincount(kind, column, size) for column in influence.T], axis=1)
    return np.asarray(sums.T @ sums * (size / (size - 1)), dtype=np.float64)

"""From tables of scores and grades to curves of Estimates: one point per k, with its distance from the policy."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pluralrm.card import Average
from pluralrm.core import Estimate, Item
from pluralrm.display import Brief, brief
from pluralrm.stats import ClusterMeans, Interval, cluster_means, difference_interval, share_interval
from pluralrm.stats.best_of import expected_best_of, expected_majority, first_best_of, kl_best_of
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class GradedPool(Brief):
    """The pool as statistics take it, (items, N): what each answer is worth, and which are answers at all.

    `worth` of an answer whose grade failed is 0, and `most` is 1. Nothing is known of answers that no curve needs.
    """

    items: tuple[Item, ...]
    average: Average
    worth: FloatArray
    most: FloatArray
    ungraded: BoolArray
    answered: BoolArray


class CurvePoint(NamedTuple):
    """Best-of-k of one reward model.

    `grade` is exact over all subsets, or of the first k where only picks are graded; then `first` and `regret` are
    None. `score` is what the model itself gives its picks, over the items of which it scored every answer.
    """

    k: int
    kl: float
    grade: Estimate
    first: Estimate | None = None
    regret: Estimate | None = None
    at_most: float | None = None
    score: float | None = None

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True, repr=False)
class BestOfCurve(Brief):
    """The points of one reward model, and where optimising against it stops to help.

    `fall` is the grade at the largest k minus that at `peak`, the k with the highest; None where the largest is the
    highest, or the model's own score does not rise in between.
    """

    model: str
    condition: str
    points: tuple[CurvePoint, ...]
    peak: int
    fall: Estimate | None
    values: FloatArray = field(repr=False, compare=False)
    """(items, ks): the grade of each item, from which all estimates are made."""
    shown_rubric: bool = False
    """True for an upper control: the reward model was shown what its picks are graded by."""

    @property
    def last(self) -> CurvePoint:
        """The point at the largest k."""
        return self.points[-1]

    @property
    def over_optimised(self) -> bool:
        """Whether the grade surely falls while the model's own score rises."""
        return self.fall is not None and self.fall.high is not None and self.fall.high < 0


def exact_curve(name: tuple[str, str], scores: FloatArray, given: GradedPool, ks: Sequence[int]) -> BestOfCurve:
    """Return the curve over all subsets, with the first k and the regret to the oracle beside it."""
    values = expected_best_of(scores, given.worth, ks)
    oracle = expected_best_of(given.worth, given.worth, ks)
    first = first_best_of(scores, given.worth, ks)
    failed = failed_items(scores, given)
    means = averaged(given, np.hstack([values, oracle, first]))
    found, count = estimates(means, failed, range(3 * len(ks))), len(ks)
    regrets = [_regret(means, count + place, place, failed) for place in range(count)]
    most, own = _at_most(scores, given, ks), _own_scores(scores, ks)
    points = [
        CurvePoint(k, kl_best_of(k), found[at], found[2 * count + at], regrets[at], most[at], own[at])
        for at, k in enumerate(ks)
    ]
    peak = int(np.argmax(means.means[:count]))
    return BestOfCurve(*name, tuple(points), ks[peak], _fall(means, peak, failed, own), values)


def first_curve(name: tuple[str, str], scores: FloatArray, given: GradedPool, ks: Sequence[int]) -> BestOfCurve:
    """Return the curve of the first k, for which the grades of the picks are enough."""
    values, failed = first_best_of(scores, given.worth, ks), failed_items(scores, given)
    means = averaged(given, values)
    most = averaged(given, first_best_of(scores, given.most, ks)).means if given.ungraded.any() else None
    points = [
        CurvePoint(k, kl_best_of(k), found, at_most=None if most is None else float(most[at]))
        for at, (k, found) in enumerate(zip(ks, estimates(means, failed, range(len(ks))), strict=True))
    ]
    return BestOfCurve(*name, tuple(points), ks[int(np.argmax(means.means))], None, values)


def lines(given: GradedPool, ks: Sequence[int]) -> tuple[list[Estimate], list[Estimate]]:
    """Return the best and the blind choice at each k: by the grades themselves, and by chance among the answers."""
    chance = np.where(given.answered, 0.0, -np.inf)
    both = [expected_best_of(scores, given.worth, ks) for scores in (given.worth, chance)]
    failed = int((given.ungraded | ~given.answered).any(axis=1).sum())
    found = estimates(averaged(given, np.hstack(both)), failed, range(2 * len(ks)))
    return found[: len(ks)], found[len(ks) :]


def majority_line(given: GradedPool, groups: IntArray, ks: Sequence[int]) -> list[Estimate]:
    """Return what the majority's answer is worth at each k; an item whose answers cannot vote earns 0, as failed."""
    failed = int((given.ungraded.any(axis=1) | (groups < 0).all(axis=1)).sum())
    return estimates(averaged(given, expected_majority(groups, given.worth, ks)), failed, range(len(ks)))


def averaged(given: GradedPool, values: FloatArray) -> ClusterMeans:
    """Return the means of columns over the items, as the benchmark's card averages them."""
    domains = [item.domain for item in given.items] if given.average == "macro" else None
    # Sums of rounded weights may pass 1 in the last bit; grades do not.
    return cluster_means(np.clip(values, 0.0, 1.0), [item.cluster for item in given.items], strata=domains)


def estimates(means: ClusterMeans, failed: int, columns: Sequence[int]) -> list[Estimate]:
    """Return the columns as Estimates."""
    return [_estimate(share_interval(means, column), means, failed) for column in columns]


def failed_items(scores: FloatArray, given: GradedPool) -> int:
    """Return for how many items an answer, its score or its grade is missing."""
    return int((~np.isfinite(scores) | given.ungraded).any(axis=1).sum())


def _regret(means: ClusterMeans, oracle: int, column: int, failed: int) -> Estimate:
    """Return the oracle minus a column; no model is above the oracle, so the interval ends at 0."""
    found = _difference(means, oracle, column, failed)
    return replace(found, low=None if found.low is None else max(0.0, found.low))


def _difference(means: ClusterMeans, first: int, second: int, failed: int, *, level: float = 0.95) -> Estimate:
    return _estimate(difference_interval(means, first, second, level=level), means, failed)


def _estimate(found: Interval, means: ClusterMeans, failed: int) -> Estimate:
    return Estimate(found.value, found.low, found.high, int(means.held[:, 0].sum()), failed, found.method)


def _fall(means: ClusterMeans, peak: int, failed: int, own: Sequence[float | None]) -> Estimate | None:
    """Return last minus peak; the peak was chosen by looking, so the interval holds for every k that it could be."""
    last = len(own) - 1
    high, low = own[last], own[peak]
    if peak == last or high is None or low is None or high <= low:
        return None
    found = _difference(means, last, peak, failed, level=1 - 0.05 / last)
    return replace(found, method=f"{found.method}; lowest of {last} differences, Bonferroni")


def _at_most(scores: FloatArray, given: GradedPool, ks: Sequence[int]) -> list[float | None]:
    """Return the grade at each k if every failed grade were 1; None where none failed."""
    if not given.ungraded.any():
        return [None] * len(ks)
    return [float(mean) for mean in averaged(given, expected_best_of(scores, given.most, ks)).means]


def _own_scores(scores: FloatArray, ks: Sequence[int]) -> list[float | None]:
    """Return the mean score of the picks at each k, over the items without a failed one."""
    whole = scores[np.isfinite(scores).all(axis=1)]
    return [float(mean) for mean in expected_best_of(whole, whole, ks).mean(axis=0)] if len(whole) else [None] * len(ks)

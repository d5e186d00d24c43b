"""Logistic regression of a choice on several covariates, with errors robust to items and to annotators.

The variance is that over items plus that over annotators less that over single judgments (Cameron, Gelbach and Miller
2011, eq. 2.5), each with the correction G/(G-1) (n-1)/(n-k); of each coefficient never below the larger of the first
two, as in `crossed_interval`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import FloatArray, IntArray, codes
from pluralrm.stats.intervals import Interval, few, t_quantile

_STEPS = 100
_RIDGE = 1.0
RIDGE = "ridge, the choice is nearly decided"
"""Stands in the method where slopes had no finite estimate without a penalty."""
_STEEPEST = 12.0
"""A log odds beyond this, per standard deviation, means that a covariate all but decides the choice."""


class CrossedFit(NamedTuple):
    """Coefficients, the intercept first; their covariance over items and annotators; what the intervals rest on."""

    values: FloatArray
    covariance: FloatArray
    """The sum of the three, before any coefficient's variance is raised."""
    errors: FloatArray
    items: int
    annotators: int
    ridge: float
    """The penalty that was needed, 0 as a rule."""

    @property
    def df(self) -> int:
        """The degrees of freedom: the fewer clusters, less one."""
        return min(self.items, self.annotators) - 1

    def interval(self, place: int, level: float = 0.95) -> Interval:
        """Return one coefficient with its interval by Student's t."""
        value, error = float(self.values[place]), float(self.errors[place])
        reach = t_quantile(self.df, level) * error
        ridge = f"; {RIDGE}" if self.ridge else ""
        method = f"logistic regression, robust to {few(self.items)} of items, {self.annotators:,} annotators{ridge}"
        return Interval(value, value - reach, value + reach, method)

    def p(self, place: int) -> float:
        """Return the two-sided p-value against no effect."""
        from scipy.special import stdtr

        error = float(self.errors[place])
        return float(2 * stdtr(self.df, -abs(float(self.values[place])) / error)) if error else 1.0


def fit_crossed(
    choice: ArrayLike, covariates: ArrayLike, items: Sequence[str], annotators: Sequence[str]
) -> CrossedFit:
    """Return the fit of choices in [0, 1] on covariates (n, k); where they all but decide, slopes get a ridge.

    Fewer than two items or annotators, or a covariate that never varies, are a MetricError.
    """
    y, x = np.asarray(choice, dtype=np.float64), np.asarray(covariates, dtype=np.float64)
    item, annotator = codes(items), codes(annotators)
    order = np.lexsort((*x.T, y, annotator, item))  # sums must not depend on the order of the rows
    y, x, item, annotator = y[order], x[order], item[order], annotator[order]
    _check(y, x, item, annotator)
    scale = x.std(axis=0)
    design = np.hstack([np.ones((len(y), 1)), x / scale])
    beta, ridge = _fitted(y, design)
    parts = [_variance(y, design, groups, beta=beta, ridge=ridge) for groups in (item, annotator, np.arange(len(y)))]
    factor = np.concatenate([[1.0], 1 / scale])
    by_item, by_annotator, alone = (part * factor * factor[:, None] for part in parts)
    both = by_item + by_annotator - alone
    variances = np.max([np.diag(both), np.diag(by_item), np.diag(by_annotator)], axis=0)
    return CrossedFit(beta * factor, both, np.sqrt(variances), int(item.max()) + 1, int(annotator.max()) + 1, ridge)


def _check(y: FloatArray, x: FloatArray, item: IntArray, annotator: IntArray) -> None:
    if min(item.max(initial=0), annotator.max(initial=0)) < 1:
        raise MetricError("a regression on judgments wants two items and two annotators at least")
    if not x.std(axis=0).all() or len(y) <= x.shape[1] + 1:
        raise MetricError("a covariate is the same in every judgment, or there are as few judgments as coefficients")
    if np.ptp(y) == 0:
        raise MetricError("all choices are the same; nothing can be told to decide them")


def _fitted(y: FloatArray, design: FloatArray) -> tuple[FloatArray, float]:
    free = _newton(y, design, 0.0)
    if free is not None:
        return free, 0.0
    held = _newton(y, design, _RIDGE)
    if held is None:
        raise MetricError("the logistic regression has no solution even with a ridge")
    return held, _RIDGE


def _newton(y: FloatArray, design: FloatArray, ridge: float) -> FloatArray | None:
    """Return the coefficients, or None where they run off towards infinity (separation)."""
    beta = np.zeros(design.shape[1])
    penalty = _penalty(design, ridge)
    for _ in range(_STEPS):
        fitted = _curve(design, beta)
        slope = (design * (y - fitted)[:, None]).sum(axis=0) - penalty @ beta
        try:
            step = np.linalg.solve(_information(design, fitted) + penalty, slope)
        except np.linalg.LinAlgError:
            return None
        beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(beta).max() > _STEEPEST:
            return None
        if np.abs(step).max() < 1e-11:
            return beta
    return None


def _variance(y: FloatArray, design: FloatArray, groups: IntArray, *, beta: FloatArray, ridge: float) -> FloatArray:
    fitted = _curve(design, beta)
    bread = np.linalg.inv(_information(design, fitted) + _penalty(design, ridge))
    scores = np.zeros((int(groups.max()) + 1, design.shape[1]))
    np.add.at(scores, groups, design * (y - fitted)[:, None])
    n, k = design.shape
    factor = len(scores) / (len(scores) - 1) * (n - 1) / (n - k)
    variance: FloatArray = factor * bread @ (scores.T @ scores) @ bread
    return variance


def _penalty(design: FloatArray, ridge: float) -> FloatArray:
    return np.diag([0.0, *[ridge] * (design.shape[1] - 1)])


def _information(design: FloatArray, fitted: FloatArray) -> FloatArray:
    # Sums, not a matrix product: BLAS may order a product differently for another number of threads.
    weighted = design * (fitted * (1 - fitted))[:, None]
    return np.asarray((weighted[:, :, None] * design[:, None, :]).sum(axis=0))


def _curve(design: FloatArray, beta: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip((design * beta).sum(axis=1), -500, 500))))

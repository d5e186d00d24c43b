"""Regressions on covariates, robust to clusters.

A straight line and a logistic curve on one covariate are read where the covariate is zero. A logistic regression of
choices on several is robust to items and to annotators: its variance is that over items plus that over annotators less
that over single judgments (Cameron, Gelbach and Miller 2011, eq. 2.5), each with the correction G/(G-1) (n-1)/(n-k); of
each coefficient never below the larger of the first two, as in `crossed_interval`.

A conditional logit reads a choice among several answers, each in a place that has an advantage of its own:

    log odds of a candidate = worth x (1 where it is a best one, else 0) + advantage of its place

The ability is the chance that a best candidate wins where no place has an advantage. With two candidates this is
Bradley and Terry's model with an order effect (Davidson and Beaver 1977): the log odds of being right are averaged over
both orders, not the shares. Its interval is robust to clusters, and to prompts where they cross them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray, cluster_means, codes, spread
from pluralrm.stats.intervals import Bounds, Interval, counts, few, robust, share_interval, t_quantile, unvaried

# ---------------------------------------------------------------- a line on one covariate


def mean_at_zero(
    values: ArrayLike, covariate: ArrayLike, clusters: Sequence[str], *, crossed: Sequence[str] | None = None
) -> Interval:
    """Return the value of the least-squares line where the covariate is 0; cluster-robust, Student's t, in [-1, 1].

    The covariate is not centred, and its unit does not matter. Where it is 0 throughout this is the plain mean; where
    it never varies otherwise, or 0 lies outside what was seen, there is no such number: an error.
    """
    y, x, order = _in_order(values, covariate, clusters)
    names = [clusters[index] for index in order]
    prompts = None if crossed is None else [crossed[index] for index in order]
    if np.ptp(x) == 0 and x[0] != 0:
        raise MetricError(f"the covariate is {x[0]:g} for every item; its effect cannot be told from the mean.")
    if not x.min() <= 0 <= x.max():
        raise MetricError(f"the covariate lies between {x.min():g} and {x.max():g}; 0 is outside of what was seen.")
    intercept, influence, parameters = _line(y, x)
    value = float(np.clip(intercept, -1.0, 1.0))
    # n times the influence, as a column of values: the variance of its mean is that of the intercept.
    means = cluster_means(len(y) * influence, names, crossed=prompts)
    count = means.clusters()
    if count <= parameters:
        return Interval(value, None, None, f"no interval: {counts(means)}")
    variance, df = spread(means, 0)
    if not variance:
        ends = unvaried(value, means.effective_clusters(), floor=-1.0)
        return Interval(value, *ends, f"least squares, on the line in all of {counts(means)}")
    # spread() allows for one fitted number, the mean; a slope is one more.
    reach = t_quantile(df) * (variance * (count - 1) / (count - parameters)) ** 0.5
    low, high = (float(np.clip(intercept + side * reach, -1.0, 1.0)) for side in (-1, 1))
    return Interval(value, low, high, f"least squares, {robust(means)}, {counts(means)}")


def weights_at_zero(covariate: ArrayLike) -> FloatArray:
    """Return what each value adds to the line's height where the covariate is 0: some may be below 0."""
    x = np.asarray(covariate, dtype=np.float64)
    if not x.any() or np.ptp(x) == 0:
        return np.full(len(x), 1 / len(x))
    centred = x - x.mean()
    weights: FloatArray = 1 / len(x) - float(x.mean()) * centred / float((centred**2).sum())
    return weights


def _line(y: FloatArray, x: FloatArray) -> tuple[float, FloatArray, int]:
    """Return the line's height at 0, how much each item moves it, and how many numbers were fitted."""
    if not x.any():
        return float(y.mean()), (y - y.mean()) / len(y), 1
    centred = x - x.mean()
    squares = float((centred**2).sum())
    slope = float((centred * y).sum()) / squares
    intercept = float(y.mean()) - slope * float(x.mean())
    weights = 1 / len(y) - float(x.mean()) * centred / squares
    return intercept, weights * (y - intercept - slope * x), 2


def _in_order(
    values: ArrayLike, covariate: ArrayLike, clusters: Sequence[str]
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the items sorted by cluster and values, and that order: sums do not depend on the order of the rows."""
    y, x = np.asarray(values, dtype=np.float64), np.asarray(covariate, dtype=np.float64)
    if not len(y) or not len(y) == len(x) == len(clusters):
        raise MetricError(f"{len(y)} values, {len(x)} covariates, {len(clusters)} clusters; wanted as many of each.")
    order = np.lexsort((y, x, codes(clusters)))
    return y[order], x[order], order


# ---------------------------------------------------------------- a logistic curve on one covariate

_STEPS = 50
_RIDGE = 1.0
"""Penalty on half the squared slope (of the standardised covariate) where the two groups are nearly separated."""
_STEEPEST = 6.0
"""A slope beyond this, per standard deviation, rests on the few items where two divided groups touch."""


class LogisticFit(NamedTuple):
    """Intercept and slope on the scale of log odds; `ridge` is the penalty that was needed, 0 as a rule."""

    intercept: float
    slope: float
    ridge: float


def fit_logistic(credit: ArrayLike, covariate: ArrayLike) -> LogisticFit:
    """Return the maximum-likelihood fit; credits may be fractions. Near separation the slope gets a ridge.

    What is near is judged per standard deviation: give the covariate in those.
    """
    y, x = np.asarray(credit, dtype=np.float64), np.asarray(covariate, dtype=np.float64)
    free = _newton(y, x, 0.0)
    return free if free is not None else _penalised(y, x)


def share_at_zero(
    credit: ArrayLike, covariate: ArrayLike, clusters: Sequence[str], *, crossed: Sequence[str] | None = None
) -> Interval:
    """Return the fitted share where the covariate is 0, and its interval: delta method, cluster-robust, Student's t.

    The covariate is divided by its standard deviation and not centred. Where it never differs from 0, or the credit
    never varies, this is the plain share.
    """
    y, x, order = _in_order(credit, covariate, clusters)
    if np.ptp(y) == 0 or not x.any():
        return share_interval(cluster_means(credit, clusters, crossed=crossed))
    scale = float(x.std())
    if scale == 0:
        raise MetricError(f"the covariate is {x[0]:g} for every item; its effect cannot be told from the share.")
    x = x / scale
    fit = fit_logistic(y, x)
    # n times the influence, as a column of values: the variance of its mean is that of the intercept.
    influence = np.empty_like(y)
    influence[order] = len(y) * _influence(y, x, fit)
    means = cluster_means(influence, clusters, crossed=crossed)
    value = _expit(fit.intercept)
    if means.clusters() < 2:
        return Interval(value, None, None, "no interval: one cluster")
    variance, df = spread(means, 0)
    reach = t_quantile(df) * variance**0.5 if variance else 0.0
    ends = Bounds(_expit(fit.intercept - reach), _expit(fit.intercept + reach))
    if not variance:
        ends = unvaried(value, means.effective_clusters())
    note = "; slope with ridge, nearly separated" if fit.ridge else ""
    return Interval(value, *ends, f"logistic regression, {robust(means)}, {counts(means)}{note}")


def _newton(y: FloatArray, x: FloatArray, ridge: float) -> LogisticFit | None:
    """Return the fit, or None where it runs off towards infinity (separation)."""
    design = np.stack([np.ones_like(x), x])
    penalty = np.diag([0.0, ridge])
    beta = np.zeros(2)
    for _ in range(_STEPS):
        fitted = _curve(beta[0] + beta[1] * x)
        slope = (design * (y - fitted)).sum(axis=1) - np.array([0.0, ridge * beta[1]])
        step = np.linalg.solve(_information(design, fitted) + penalty, slope)
        beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if abs(beta[1]) > _STEEPEST or abs(beta[0]) > 4 * _STEEPEST:
            return None
        if np.abs(step).max() < 1e-10:
            return LogisticFit(float(beta[0]), float(beta[1]), ridge)
    return None


def _penalised(y: FloatArray, x: FloatArray) -> LogisticFit:
    fit = _newton(y, x, _RIDGE)
    if fit is None:
        raise MetricError("the logistic regression has no solution even with a ridge; all credits may be equal.")
    return fit


def _influence(y: FloatArray, x: FloatArray, fit: LogisticFit) -> FloatArray:
    """Return how much each item moves the intercept."""
    fitted = _curve(fit.intercept + fit.slope * x)
    information = _information(np.stack([np.ones_like(x), x]), fitted) + np.diag([0.0, fit.ridge])
    first, second = np.linalg.solve(information, np.array([1.0, 0.0]))
    pull: FloatArray = (float(first) + float(second) * x) * (y - fitted)
    return pull


def _information(design: FloatArray, fitted: FloatArray) -> FloatArray:
    # Sums, not a matrix product: BLAS may order a product differently for another number of threads.
    weighted = design * (fitted * (1 - fitted))
    information: FloatArray = (weighted[:, None, :] * design[None, :, :]).sum(axis=2)
    return information


def _curve(log_odds: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))


def _expit(log_odds: float) -> float:
    return float(_curve(np.array([log_odds]))[0])


# ---------------------------------------------------------------- choices on several covariates

_CROSSED_STEPS = 100
_CROSSED_RIDGE = 1.0
RIDGE = "ridge, the choice is nearly decided"
"""Stands in the method where slopes had no finite estimate without a penalty."""
_DECIDING = 12.0
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

    def interval(self, index: int, level: float = 0.95) -> Interval:
        """Return one coefficient with its interval by Student's t."""
        value, error = float(self.values[index]), float(self.errors[index])
        reach = t_quantile(self.df, level) * error
        ridge = f"; {RIDGE}" if self.ridge else ""
        method = f"logistic regression, robust to {few(self.items)} of items, {self.annotators:,} annotators{ridge}"
        return Interval(value, value - reach, value + reach, method)

    def p(self, index: int) -> float:
        """Return the two-sided p-value against no effect."""
        from pluralrm.stats.special import stdtr

        error = float(self.errors[index])
        return float(2 * stdtr(self.df, -abs(float(self.values[index])) / error)) if error else 1.0


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
    beta, ridge = _crossed_beta(y, design)
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


def _crossed_beta(y: FloatArray, design: FloatArray) -> tuple[FloatArray, float]:
    free = _crossed_newton(y, design, 0.0)
    if free is not None:
        return free, 0.0
    beta = _crossed_newton(y, design, _CROSSED_RIDGE)
    if beta is None:
        raise MetricError("the logistic regression has no solution even with a ridge")
    return beta, _CROSSED_RIDGE


def _crossed_newton(y: FloatArray, design: FloatArray, ridge: float) -> FloatArray | None:
    """Return the coefficients, or None where they run off towards infinity (separation)."""
    beta = np.zeros(design.shape[1])
    penalty = _penalty(design, ridge)
    for _ in range(_CROSSED_STEPS):
        fitted = _curve((design * beta).sum(axis=1))
        slope = (design * (y - fitted)[:, None]).sum(axis=0) - penalty @ beta
        try:
            step = np.linalg.solve(_crossed_information(design, fitted) + penalty, slope)
        except np.linalg.LinAlgError:
            return None
        beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(beta).max() > _DECIDING:
            return None
        if np.abs(step).max() < 1e-11:
            return beta
    return None


def _variance(y: FloatArray, design: FloatArray, groups: IntArray, *, beta: FloatArray, ridge: float) -> FloatArray:
    fitted = _curve((design * beta).sum(axis=1))
    bread = np.linalg.inv(_crossed_information(design, fitted) + _penalty(design, ridge))
    scores = np.zeros((int(groups.max()) + 1, design.shape[1]))
    np.add.at(scores, groups, design * (y - fitted)[:, None])
    n, k = design.shape
    factor = len(scores) / (len(scores) - 1) * (n - 1) / (n - k)
    variance: FloatArray = factor * bread @ (scores.T @ scores) @ bread
    return variance


def _penalty(design: FloatArray, ridge: float) -> FloatArray:
    return np.diag([0.0, *[ridge] * (design.shape[1] - 1)])


def _crossed_information(design: FloatArray, fitted: FloatArray) -> FloatArray:
    # Sums, not a matrix product: BLAS may order a product differently for another number of threads.
    weighted = design * (fitted * (1 - fitted))[:, None]
    return np.asarray((weighted[:, :, None] * design[:, None, :]).sum(axis=0))


# ---------------------------------------------------------------- a choice among answers in places

_PLACE_STEPS = 100
_CLOSE = 1e-10
_DECIDED = 8.0
"""A log odds beyond this rests on no choice that went the other way: there is no finite estimate."""


@dataclass(frozen=True)
class PlacedChoices:
    """C calls with up to K places: which share each place won, where best candidates stood, of which item a call is."""

    won: FloatArray
    """(C, K): a call's row sums to 1; ties share."""
    best: BoolArray
    """(C, K)"""
    shown: BoolArray
    """(C, K): False for places that a call with fewer candidates does not have."""
    item: IntArray
    """(C,): from 0, each item at least once."""


class PlaceFit(NamedTuple):
    """The advantage of each place over the mean of all places, in log odds, and the ability with its interval."""

    advantages: tuple[float, ...]
    ability: Interval


def fit_places(
    choices: PlacedChoices, clusters: Sequence[str], *, crossed: Sequence[str] | None = None, level: float = 0.95
) -> PlaceFit:
    """Return the fit; `clusters` and `crossed` are those of the items.

    A MetricError where no call shows a best candidate beside another, or where places or candidates decide every call.
    """
    design = _place_design(choices)
    best, others = choices.best & choices.shown, ~choices.best & choices.shown
    informative = np.asarray(best.any(axis=1) & others.any(axis=1), dtype=np.bool_)
    if not informative.any():
        raise MetricError("no call shows a best candidate beside another: there is nothing to be right about.")
    beta = _place_newton(choices, design)
    fitted = _chances(choices, design, beta)
    influence = _worth_influence(choices, design, fitted)
    items = len(clusters)
    by_item = np.zeros(items)
    np.add.at(by_item, choices.item, influence)
    # As many times the influence as there are items: the variance of its mean is that of the worth.
    means = cluster_means(items * by_item, clusters, crossed=crossed)
    value = _ability(choices, informative, beta[0])
    advantages = np.concatenate([[0.0], beta[1:]])
    places = tuple(float(each) for each in advantages - advantages.mean())
    if means.clusters() <= len(beta):
        return PlaceFit(places, Interval(value, None, None, f"no interval: {counts(means)}"))
    variance, df = spread(means, 0)
    reach = t_quantile(df, level) * variance**0.5 if variance else 0.0
    low, high = (_ability(choices, informative, beta[0] + side * reach) for side in (-1, 1))
    method = f"conditional logit with places, {robust(means)}, {counts(means)}"
    return PlaceFit(places, Interval(value, low, high, method))


def _place_design(choices: PlacedChoices) -> FloatArray:
    """Return (C, K, P): whether a candidate is a best one, and a column for each place but the first."""
    calls, places = choices.won.shape
    later = np.broadcast_to(np.eye(places)[:, 1:], (calls, places, places - 1))
    return np.concatenate([choices.best[:, :, None].astype(np.float64), later], axis=2)


def _chances(choices: PlacedChoices, design: FloatArray, beta: FloatArray) -> FloatArray:
    # Sums, not matrix products: BLAS may order a product differently for another number of threads.
    logits = np.where(choices.shown, (design * beta).sum(axis=2), -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return chances


def _place_newton(choices: PlacedChoices, design: FloatArray) -> FloatArray:
    beta = np.zeros(design.shape[2])
    for _ in range(_PLACE_STEPS):
        fitted = _chances(choices, design, beta)
        slope = (design * (choices.won - fitted)[:, :, None]).sum(axis=(0, 1))
        try:
            step = np.linalg.solve(_place_information(design, fitted), slope)
        except np.linalg.LinAlgError as exc:
            what = "best candidates are always shown in the same place"
            raise MetricError(f"{what}: ability and place cannot be separated.") from exc
        beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(beta).max() > _DECIDED:
            break
        if np.abs(step).max() < _CLOSE:
            return beta
    what = "a place" if np.abs(beta[1:]).max(initial=0.0) > abs(beta[0]) else "the candidates"
    raise MetricError(f"{what} all but decide every call: ability and place cannot be separated.")


def _place_information(design: FloatArray, fitted: FloatArray) -> FloatArray:
    centre = (design * fitted[:, :, None]).sum(axis=1)
    second = (design[:, :, :, None] * design[:, :, None, :] * fitted[:, :, None, None]).sum(axis=(0, 1))
    information: FloatArray = second - (centre[:, :, None] * centre[:, None, :]).sum(axis=0)
    return information


def _worth_influence(choices: PlacedChoices, design: FloatArray, fitted: FloatArray) -> FloatArray:
    """Return (C,): how much each call moves the worth."""
    unit = np.zeros(design.shape[2])
    unit[0] = 1.0
    pull = np.linalg.solve(_place_information(design, fitted), unit)
    scores = (design * (choices.won - fitted)[:, :, None]).sum(axis=1)
    influence: FloatArray = (scores * pull).sum(axis=1)
    return influence


def _ability(choices: PlacedChoices, informative: BoolArray, worth: float) -> float:
    """Return the mean chance, over calls that show a best candidate beside another, that a best one wins."""
    best = (choices.best & choices.shown).sum(axis=1)[informative]
    others = choices.shown.sum(axis=1)[informative] - best
    return float(np.mean(best / (best + others * np.exp(-worth))))

"""What the place of an answer does to a choice among several: a conditional logit with an advantage for each place.

    log odds of a candidate = worth x (1 where it is a best one, else 0) + advantage of its place

The ability is the chance that a best candidate wins where no place has an advantage. With two candidates this is
Bradley and Terry's model with an order effect (Davidson and Beaver 1977): the log odds of being right are averaged over
both orders, not the shares. Intervals are robust to clusters, and to prompts where they cross them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray, cluster_means, spread
from pluralrm.stats.intervals import Interval, counts, robust, t_quantile

_STEPS = 100
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
    design = _design(choices)
    best, others = choices.best & choices.shown, ~choices.best & choices.shown
    informative = np.asarray(best.any(axis=1) & others.any(axis=1), dtype=np.bool_)
    if not informative.any():
        raise MetricError("no call shows a best candidate beside another: there is nothing to be right about.")
    beta = _newton(choices, design)
    fitted = _chances(choices, design, beta)
    influence = _influence(choices, design, fitted)
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


def _design(choices: PlacedChoices) -> FloatArray:
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


def _newton(choices: PlacedChoices, design: FloatArray) -> FloatArray:
    beta = np.zeros(design.shape[2])
    for _ in range(_STEPS):
        fitted = _chances(choices, design, beta)
        slope = (design * (choices.won - fitted)[:, :, None]).sum(axis=(0, 1))
        try:
            step = np.linalg.solve(_information(design, fitted), slope)
        except np.linalg.LinAlgError:
            break
        beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(beta).max() > _DECIDED:
            break
        if np.abs(step).max() < _CLOSE:
            return beta
    what = "a place" if np.abs(beta[1:]).max(initial=0.0) > abs(beta[0]) else "the candidates"
    raise MetricError(f"{what} all but decide every call: ability and place cannot be separated.")


def _information(design: FloatArray, fitted: FloatArray) -> FloatArray:
    centre = (design * fitted[:, :, None]).sum(axis=1)
    second = (design[:, :, :, None] * design[:, :, None, :] * fitted[:, :, None, None]).sum(axis=(0, 1))
    information: FloatArray = second - (centre[:, :, None] * centre[:, None, :]).sum(axis=0)
    return information


def _influence(choices: PlacedChoices, design: FloatArray, fitted: FloatArray) -> FloatArray:
    """Return (C,): how much each call moves the worth."""
    unit = np.zeros(design.shape[2])
    unit[0] = 1.0
    pull = np.linalg.solve(_information(design, fitted), unit)
    scores = (design * (choices.won - fitted)[:, :, None]).sum(axis=1)
    influence: FloatArray = (scores * pull).sum(axis=1)
    return influence


def _ability(choices: PlacedChoices, informative: BoolArray, worth: float) -> float:
    """Return the mean chance, over calls that show a best candidate beside another, that a best one wins."""
    best = (choices.best & choices.shown).sum(axis=1)[informative]
    others = choices.shown.sum(axis=1)[informative] - best
    return float(np.mean(best / (best + others * np.exp(-worth))))

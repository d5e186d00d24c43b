"""How far answers have come from those of the first step, with an interval over users: from the lines on disk.

The first step's answers are the policy's own, drawn before anything is moved; there are few of them, and every later
step is compared with them. So their error is taken to be no smaller than that of a later step, nor than it would be
had the answers of one of their users been as the last ones are: a few answers that happen to be alike prove nothing.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.stats import cluster_means, spread
from pluralrm.stats.intervals import t_quantile
from pluralrm.stats.permutation import two_sample_test
from pluralrm.training.measures import mean
from pluralrm.training.records import Errors, StepLine, UserMeans

_FEWEST = 2 - 1e-9
"""Users, below whom there is no error; equal shares of 0.5 may be rounded."""
_LARGEST = 700.0
"""Logarithm of a ratio: that of more is no float."""
Measure = Literal["length", "repetition", "cut", "masked"]


class Drift(NamedTuple):
    """A measure at first and in the last steps, and the distance between the two: their ratio for `length`."""

    first: float
    last: float
    distance: float
    low: float
    high: float
    answers: tuple[int, int]
    """How many it rests on, at first and last."""


def errors_of(measured: Mapping[str, ArrayLike], users: Sequence[str]) -> Errors | None:
    """Return the standard error of each mean over answers; None where they are to fewer than two users."""
    means = cluster_means(np.array(list(measured.values())).T, users)
    if means.effective_clusters(0) < _FEWEST:
        return None
    found = {name: math.sqrt(spread(means, place).variance) for place, name in enumerate(measured)}
    return Errors(users=float(means.effective_clusters(0)), **found)


def means_by_user(measured: Mapping[str, Sequence[float]], users: Sequence[str]) -> UserMeans:
    """Return what each user's answers measure on average, users in the order in which they come."""
    names = list(dict.fromkeys(users))
    return UserMeans(
        users=tuple(names),
        **{
            name: tuple(
                mean([value for value, user in zip(values, users, strict=True) if user == one]) for one in names
            )
            for name, values in measured.items()
        },
    )


def equality_p(first: StepLine, last: Sequence[StepLine], name: Measure) -> float | None:
    """Return the p that the first step's users and those of the last steps have answers of one distribution.

    Users are permuted between the two, each with the mean of her answers, so that no shape of the distribution is
    assumed: with short and long answers and none between, an interval by Student's t is too narrow. None where a line
    does not tell its users.
    """
    parts = [step.by_user for step in (first, *last) if step.by_user is not None]
    if len(parts) <= len(last):
        return None
    later = defaultdict[str, list[float]](list)
    for part in parts[1:]:
        for user, value in zip(part.users, getattr(part, name), strict=True):
            later[user].append(value)
    return two_sample_test(getattr(parts[0], name), [mean(values) for values in later.values()]).p


def drift(first: StepLine, last: Sequence[StepLine], name: Measure, *, level: float = 0.95) -> Drift | None:
    """Return how far the last steps are from the first; None where no step has two users, or tells its errors."""
    known = [step for step in last if step.errors is not None]
    if not known or first.errors is None:
        return None
    before, now = value_of(first, name), mean([value_of(step, name) for step in known])
    ratio = name == "length"
    apart = math.log(now / before) if ratio else now - before
    per_step = mean([_variance(step, name, ratio=ratio) for step in known])
    users = first.errors.users
    at_first = max(_variance(first, name, ratio=ratio), per_step, (apart / users) ** 2)
    at_last = per_step / len(known)
    later = sum(step.errors.users - 1 for step in known if step.errors is not None)
    half = _quantile([(at_first, users - 1), (at_last, later)], level) * math.sqrt(at_first + at_last)
    ends = apart - half, apart + half
    distance, low, high = (math.exp(min(one, _LARGEST)) for one in (apart, *ends)) if ratio else (apart, *ends)
    return Drift(before, now, distance, low, high, (first.answers, sum(step.answers for step in known)))


def value_of(step: StepLine, name: Measure) -> float:
    """Return a step's mean over its answers."""
    return step.masked / step.answers if name == "masked" else float(getattr(step, name))


def _variance(step: StepLine, name: Measure, *, ratio: bool) -> float:
    """Return the variance of a step's mean, or of its logarithm (by the delta method)."""
    error = 0.0 if step.errors is None else float(getattr(step.errors, name))
    return (error / value_of(step, name) if ratio else error) ** 2


def _quantile(parts: Sequence[tuple[float, float]], level: float) -> float:
    """Return Student's quantile for a sum of variances, each with its degrees of freedom (Satterthwaite 1946)."""
    total = sum(variance for variance, _ in parts)
    squares = sum(variance**2 / df for variance, df in parts)
    return t_quantile(total**2 / squares, level) if squares else 0.0

"""The personalization gain with something else taken out: the answers' length, or their general quality."""

from collections.abc import Sequence

import numpy as np

from pluralrm.core import Estimate, Row
from pluralrm.errors import MetricError
from pluralrm.metrics.contrast import AT_WORST, SAME
from pluralrm.metrics.credits import numbers
from pluralrm.metrics.length import extra_length
from pluralrm.metrics.sides import Side, paired
from pluralrm.stats import Interval
from pluralrm.stats.regression import mean_at_zero, weights_at_zero


def equal_length(own: Side, swapped: Side) -> Estimate:
    """Return the gain expected where the preferred candidate is as long as the others are on average."""
    return _at_zero(own, swapped, [extra_length(row) for row in own.rows], "at equal length")


def equal_quality(own: Side, swapped: Side, none: Side) -> Estimate:
    """Return the gain expected where the model, told nothing of the user, finds no candidate the better one.

    An error where items failed under `none`: what it would have found there moves the line either way.
    """
    if none.failed.any():
        raise MetricError(f"{int(none.failed.sum()):,} items failed under none, so their margin there is not known.")
    return _at_zero(own, swapped, margins(none.rows), "at equal general quality (margin under none = 0)")


def margins(rows: Sequence[Row]) -> list[float]:
    """Return the preferred candidate's score minus the best other's, in standard deviations over the run.

    The deviations are taken from 0, not from the mean,
    for 0 is where the line is read.
    """
    found = np.array([_margin(row) for row in rows])
    largest = float(np.abs(found).max())
    if largest == 0:
        return [0.0] * len(rows)
    scaled = found / largest  # squares of very large or very small scores would overflow
    return [float(value) for value in scaled / np.sqrt(np.mean(np.sort(scaled**2)))]


def _margin(row: Row) -> float:
    scores = numbers(row)
    if scores is None:
        return 0.0
    others = scores[: row.preferred] + scores[row.preferred + 1 :]
    # Halved first: the difference of two finite numbers may be infinite, that of their halves is not.
    return scores[row.preferred] / 2 - max(others) / 2


def _at_zero(own: Side, swapped: Side, covariate: Sequence[float], scope: str) -> Estimate:
    """Return the height of the line at 0, failed items at their worst: where a gain there lowers it, at their best."""
    least, most = own.earned - swapped.at_best, own.at_best - swapped.earned
    gains = np.where(weights_at_zero(covariate) < 0, most, least)
    interval = mean_at_zero(gains, covariate, own.clusters, crossed=own.prompts)
    if own.same_as(swapped):
        interval = Interval(interval.value if own.failed.any() else 0.0, None, None, SAME)
    failed = own.failed.any() or swapped.failed.any()
    return paired(interval, own, swapped, scope=f"{AT_WORST}; {scope}" if failed else scope)

"""Personalized RewardBench as published (arXiv 2604.07343): pointwise accuracy.

    accuracy = (number of items with score(chosen) > score(rejected)) / (number of items)

Strictly greater: a tie is a loss. A score that is missing or NaN is not greater than anything, nor anything greater
than it, so such an item is wrong and stays in the denominator.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.core import Average, Row
from pluralrm.metrics.credits import numbers
from pluralrm.metrics.official.as_published import Published, count, macro_mean, sentence
from pluralrm.metrics.units import rows_by_domain


def pointwise_accuracy(chosen: ArrayLike, rejected: ArrayLike) -> float:
    """Return the share of items whose chosen answer scores strictly higher; NaN stands for a missing score."""
    above = np.asarray(chosen, dtype=np.float64) > np.asarray(rejected, dtype=np.float64)
    return float(above.mean())


def published_accuracy(rows: Sequence[Row], average: Average) -> Published:
    """Return the published accuracy of rows with two candidates, averaged as the headline is."""
    domains = {domain: _accuracy(members) for domain, members in rows_by_domain(rows).items()}
    value = macro_mean(domains.values()) if average == "macro" else _accuracy(rows)
    return Published("Personalized RewardBench", value, domains, reason(rows))


def reason(rows: Sequence[Row]) -> str:
    """Return in one sentence, with the counts of these rows, why the published number differs from the headline."""
    tied = sum(len(set(scores)) == 1 for row in rows if (scores := numbers(row)) is not None)
    failed = sum(row.failed for row in rows)
    return sentence(
        tied and f"{count(tied, 'tie')}: credit shared here, losses as published",
        failed and f"{count(failed, 'failed item')}: wrong in both",
    )


def _accuracy(rows: Sequence[Row]) -> float:
    scores = [numbers(row) for row in rows]
    chosen = [np.nan if found is None else found[row.preferred] for row, found in zip(rows, scores, strict=True)]
    rejected = [np.nan if found is None else found[1 - row.preferred] for row, found in zip(rows, scores, strict=True)]
    return pointwise_accuracy(chosen, rejected)

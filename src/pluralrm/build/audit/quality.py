"""Are preferred candidates better in general, beyond taste? Where items carry ratings: two one-sided tests.

A rating is a tag named `quality:` and a candidate's id, such as `quality:chosen`, whose value is a number on any scale.
"""

import math

import numpy as np

from pluralrm.build.audit.comparisons import Comparisons
from pluralrm.build.audit.measured import amount
from pluralrm.build.audit.result import Finding, Measures, Status, counted
from pluralrm.core import Item

TOPIC, TAG = "general quality", "quality:"
MARGIN = 0.2
"""How many standard deviations of the ratings still count as equal: what is called a small effect."""


def quality(table: Comparisons) -> Finding:
    """Return whether preferred and other candidates are rated alike; items not fully rated are left out."""
    rated = [(item, ratings) for item in table.items if (ratings := _ratings(item)) is not None]
    if not rated:
        return Finding(
            TOPIC, "not available", f"no item has a rating of every candidate (tags {TAG}<candidate id>)", {}
        )
    spread = float(np.std([rating for _, ratings in rated for rating in ratings]))
    margin = MARGIN * spread
    extra = [_ahead(item, ratings) for item, ratings in rated]
    clusters = [item.cluster for item, _ in rated]
    wide, narrow = amount(extra, clusters), amount(extra, clusters, level=0.9)
    low, high = (wide.value, wide.value) if narrow.low is None or narrow.high is None else (narrow.low, narrow.high)
    status, verdict = _verdict(low, high, margin)
    found = (
        f"over {counted(len(rated), 'item')} preferred candidates are rated {wide.value:+.2f} above the others, 90% "
        f"interval [{low:+.2f}, {high:+.2f}], margin {margin:.2f} (a fifth of a standard deviation): {verdict}"
    )
    measures: Measures = {
        "preferred minus others": wide,
        "90% interval": narrow,
        "margin": margin,
        "rated items": len(rated),
    }
    return Finding(TOPIC, status, found, measures)


def _verdict(low: float, high: float, margin: float) -> tuple[Status, str]:
    # An interval of 90% inside the margin is both one-sided tests passed at 5%.
    if -margin <= low and high <= margin:
        return "ok", "equivalent"
    if low > 0:
        return "warn", "preferred candidates are better in general, so part of any accuracy is quality, not taste"
    if high < 0:
        return "note", "preferred candidates are worse in general"
    return "note", "neither equality nor a difference is shown"


def _ratings(item: Item) -> list[float] | None:
    try:
        found = [float(item.tags[f"{TAG}{name}"]) for name in item.candidate_ids]
    except (KeyError, ValueError):
        return None
    return found if len(found) == len(item.candidates) and all(map(math.isfinite, found)) else None


def _ahead(item: Item, ratings: list[float]) -> float:
    place = item.preferred or 0
    return ratings[place] - (sum(ratings) - ratings[place]) / (len(ratings) - 1)

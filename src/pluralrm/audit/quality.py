"""Are preferred candidates better in general, beyond taste? Where candidates are rated: two one-sided tests.

A rating is a tag named `quality:` and a candidate's id, such as `quality:chosen`, whose value is a number on any scale;
or what a judge gives each candidate alone, without knowing who asks.
"""

import math

import numpy as np

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.measured import amount
from pluralrm.audit.result import Finding, Measures, Status
from pluralrm.core import Item, Row, Run
from pluralrm.text import counted

TOPIC, TAG = "general quality", "quality:"
MARGIN = 0.2
"""How many standard deviations of the ratings still count as equal: what is called a small effect."""


def quality(table: Comparisons, run: Run | None = None) -> Finding:
    """Return whether preferred and other candidates are rated alike, by `run` or else by tags.

    Items whose candidates are not all rated are left out, and counted.
    """
    told = {row.item: row for row in run.rows} if run else {}
    rated = [
        (item, ratings)
        for item in table.items
        if (ratings := _ratings(item) if run is None else _scores(told.get(item.id))) is not None
    ]
    if not rated and run is not None:
        return Finding(TOPIC, "not available", f"{run.model} rated no item whole", {"rated items": 0})
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
    best = float(np.mean([ratings[item.preferred or 0] for item, ratings in rated]))
    by = f"{run.model}, asked of each answer alone, rates" if run else "ratings put"
    found = (
        f"over {counted(len(rated), 'item')} of {len(table.items):,} {by} preferred candidates at {best:.2f} and the "
        f"others at {best - wide.value:.2f}: a difference of {wide.value:+.2f}, 90% "
        f"interval [{low:+.2f}, {high:+.2f}], margin {margin:.2f} (a fifth of a standard deviation): {verdict}"
    )
    measures: Measures = {
        "preferred minus others": wide,
        "90% interval": narrow,
        "margin": margin,
        "mean of preferred": best,
        "mean of others": best - wide.value,
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


def _scores(row: Row | None) -> list[float] | None:
    if row is None or row.failed:
        return None
    return [score for score in row.scores if isinstance(score, float)]


def _ahead(item: Item, ratings: list[float]) -> float:
    place = item.preferred or 0
    return ratings[place] - (sum(ratings) - ratings[place]) / (len(ratings) - 1)

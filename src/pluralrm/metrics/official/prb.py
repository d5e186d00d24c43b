"""Personalized RewardBench as published (arXiv 2604.07343): accuracy of models that score and of judges.

    pointwise   (number of items with score(chosen) > score(rejected)) / (number of items)
    pairwise    (number of items in which a judge names the chosen answer, asked once) / (number of items)

Pointwise, a tie is a loss. A NaN or a missing score is not greater than anything, nor anything greater than it, so
such an item is wrong and stays in the denominator; an infinite score is a number.

Pairwise, each subset has one stream `random.Random(42)` and one draw per item in the order of the file: below 0.5 the
chosen answer is A. A reply in which neither A nor B is found counts as A, and so does a tie, which the script does not
know. Here a judge may have been asked in both orders, or in one by another coin: the drawn order counts where it was
asked, and where it was not the order that was asked.
"""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.card import Average
from pluralrm.core import Row
from pluralrm.metrics.official.formula import (
    PlaceAccuracy,
    PublishedMetric,
    infinite,
    macro_mean,
    number,
    sentence,
    shared,
)
from pluralrm.metrics.units import numbers, rows_by_domain
from pluralrm.text import counted

SOURCE = "Personalized RewardBench"
SEED = 42


def pointwise_accuracy(chosen: ArrayLike, rejected: ArrayLike) -> float:
    """Return the share of items whose chosen answer scores strictly higher; NaN stands for a missing score."""
    above = np.asarray(chosen, dtype=np.float64) > np.asarray(rejected, dtype=np.float64)
    return float(above.mean())


def published_accuracy(
    rows: Sequence[Row], average: Average, *, source: str = SOURCE, open_items: int = 0
) -> PublishedMetric:
    """Return the published accuracy of rows with two candidates in the order of the file, averaged as the headline is.

    Draws go by an item's place in its subset, so a judge's run with open items has no number.
    """
    if any(row.votes for row in rows):
        return _judged_accuracy(rows, average, source, open_items)
    domains = {domain: _accuracy(members) for domain, members in rows_by_domain(rows).items()}
    value = macro_mean(domains.values()) if average == "macro" else _accuracy(rows)
    return PublishedMetric(
        "ties lose", source, value, domains, _reason(rows, "as published" if source else "by this rule")
    )


def _accuracy(rows: Sequence[Row]) -> float:
    return pointwise_accuracy(
        [number(row.scores[row.preferred]) for row in rows], [number(row.scores[1 - row.preferred]) for row in rows]
    )


def _reason(rows: Sequence[Row], by: str) -> str:
    """Return in one sentence, with the counts of these rows, why the published number differs from the headline."""
    tied = sum(len(set(scores)) == 1 for row in rows if (scores := numbers(row)) is not None)
    endless = sum(infinite(row.scores) for row in rows)
    failed = sum(row.failed for row in rows) - endless
    return sentence(
        tied and f"{counted(tied, 'tie')}: {shared(rows, 'credit shared')}a loss {by}",
        endless and f"{counted(endless, 'item')} with an infinite score: failed in the headline, compared {by}",
        failed and f"{counted(failed, 'failed item')}: wrong in both",
    )


# ---------------------------------------------------------------- judges


class OneOrder(NamedTuple):
    """What the published script makes of one item: the place of the preferred answer, and how the reply counts."""

    preferred_first: bool
    right: bool
    asked: bool
    """Whether the drawn order is one of those that the judge was asked in."""
    readable: bool


def drawn(rows: Sequence[Row]) -> list[OneOrder]:
    """Return what the script makes of the rows of one subset, in the order of its file."""
    draws = random.Random(SEED)
    return [_drawn(row, draws.random() < 0.5) for row in rows]


def _drawn(row: Row, preferred_first: bool) -> OneOrder:
    other = 1 - row.preferred
    order: tuple[int, ...] = (row.preferred, other) if preferred_first else (other, row.preferred)
    outcomes = {vote.order: vote.outcome for vote in row.votes}
    asked = order in outcomes or not outcomes  # an item that failed before it was asked fails in any order
    if not asked:
        order = row.votes[0].order
    named = outcomes.get(order, "").partition(">")[0]
    winner = int(named) if named.isdecimal() else order[0]
    return OneOrder(order[0] == row.preferred, winner == row.preferred, asked, named.isdecimal())


def _judged_accuracy(rows: Sequence[Row], average: Average, source: str, open_items: int) -> PublishedMetric:
    if open_items:
        why = f"{counted(open_items, 'item')} still open: the drawn orders go by every item's place in the file."
        return PublishedMetric("one order", source, None, dict.fromkeys(rows_by_domain(rows)), why)
    subsets = {domain: drawn(members) for domain, members in rows_by_domain(rows).items()}
    domains = {domain: _share(orders) for domain, orders in subsets.items()}
    every = [one for orders in subsets.values() for one in orders]
    value = macro_mean(domains.values()) if average == "macro" else _share(every)
    first, second = (_shown(one for one in every if one.preferred_first == place) for place in (True, False))
    return PublishedMetric("one order", source, value, domains, _judged_reason(every, first, second), first, second)


def _share(orders: Sequence[OneOrder]) -> float | None:
    return sum(one.right for one in orders) / len(orders) if orders else None


def _shown(orders: Iterable[OneOrder]) -> PlaceAccuracy:
    members = list(orders)
    return PlaceAccuracy(len(members), _share(members))


def _judged_reason(every: Sequence[OneOrder], first: PlaceAccuracy, second: PlaceAccuracy) -> str:
    """Return in one sentence how the drawn orders count, and where they were not asked."""
    places = [
        f"{100 * shown.accuracy:.1f} with the preferred answer {place} ({counted(shown.items, 'item')})"
        for place, shown in (("first", first), ("second", second))
        if shown.accuracy is not None
    ]
    unread, other = sum(not one.readable for one in every), sum(not one.asked for one in every)
    return sentence(
        f"one order per item, drawn with seed {SEED}: {', '.join(places)}",
        unread and f"ties and failures ({unread:,}) counted as the answer shown first",
        other
        and f"the drawn order was not asked on {other:,} of {counted(len(every), 'item')}: the order asked counts",
    )

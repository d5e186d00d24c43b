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
    macro_mean,
    named_by,
    number,
    sentence,
    strict_reasons,
)
from pluralrm.metrics.units import rows_by_domain, winner
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
    return PublishedMetric("ties lose", source, value, domains, sentence(*strict_reasons(rows, named_by(source))))


def _accuracy(rows: Sequence[Row]) -> float:
    return pointwise_accuracy(
        [number(row.scores[winner(row)]) for row in rows], [number(row.scores[1 - winner(row)]) for row in rows]
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
    preferred = winner(row)
    order: tuple[int, ...] = (preferred, 1 - preferred) if preferred_first else (1 - preferred, preferred)
    outcomes = {vote.order: vote.outcome for vote in row.votes}
    available = order in outcomes or not outcomes  # an item that failed before it was asked fails in any order
    if not available:
        order = row.votes[0].order
    answer = outcomes.get(order, "").partition(">")[0]
    choice = int(answer) if answer.isdecimal() else order[0]
    return OneOrder(order[0] == preferred, choice == preferred, available, answer.isdecimal())


def _judged_accuracy(rows: Sequence[Row], average: Average, source: str, open_items: int) -> PublishedMetric:
    if open_items:
        why = f"{counted(open_items, 'item')} still open: the drawn orders go by every item's place in the file."
        return PublishedMetric("one order", source, None, dict.fromkeys(rows_by_domain(rows)), why)
    subsets = {domain: drawn(members) for domain, members in rows_by_domain(rows).items()}
    domains = {domain: _share(orders) for domain, orders in subsets.items()}
    every = [order for orders in subsets.values() for order in orders]
    value = macro_mean(domains.values()) if average == "macro" else _share(every)
    first, second = (
        _shown(order for order in every if order.preferred_first == is_first) for is_first in (True, False)
    )
    return PublishedMetric("one order", source, value, domains, _judged_reason(every, first, second), first, second)


def _share(orders: Sequence[OneOrder]) -> float | None:
    return sum(order.right for order in orders) / len(orders) if orders else None


def _shown(orders: Iterable[OneOrder]) -> PlaceAccuracy:
    members = list(orders)
    return PlaceAccuracy(len(members), _share(members))


def _judged_reason(every: Sequence[OneOrder], first: PlaceAccuracy, second: PlaceAccuracy) -> str:
    """Return in one sentence how the drawn orders count, and where they were not asked."""
    places = [
        f"{100 * side.accuracy:.1f} with the preferred answer {position} ({counted(side.items, 'item')})"
        for position, side in (("first", first), ("second", second))
        if side.accuracy is not None
    ]
    unread, other = sum(not order.readable for order in every), sum(not order.asked for order in every)
    return sentence(
        f"one order per item, drawn with seed {SEED}: {', '.join(places)}",
        unread and f"ties and failures ({unread:,}) counted as the answer shown first",
        other
        and f"the drawn order was not asked on {other:,} of {counted(len(every), 'item')}: the order asked counts",
    )

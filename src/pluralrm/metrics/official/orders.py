"""Judges asked in an order, as published: Personalized RewardBench in one drawn order; JudgeBench and LLMBar in both.

Personalized RewardBench (arXiv 2604.07343): accuracy of models that score and of judges.

    pointwise   (number of items with score(chosen) > score(rejected)) / (number of items)
    pairwise    (number of items in which a judge names the chosen answer, asked once) / (number of items)

Pointwise, a tie is a loss. A NaN or a missing score is not greater than anything, nor anything greater than it, so
such an item is wrong and stays in the denominator; an infinite score is a number.

Pairwise, each subset has one stream `random.Random(42)` and one draw per item in the order of the file: below 0.5 the
chosen answer is A. A reply in which neither A nor B is found counts as A, and so does a tie, which the script does not
know. Here a judge may have been asked in both orders, or in one by another coin: the drawn order counts where it was
asked, and where it was not the order that was asked.

JudgeBench (arXiv 2410.12784): each order gives 1 where its verdict is the label, -1 where it is the opposite, 0 for a
tie or no verdict; a pair is won where the sum is above 0. So one verdict and one unreadable reply win it, and a verdict
for each side does not. A model that scores is asked once: A wins only where it scores strictly higher, so a tie is a
verdict for B, right where the label is B>A. The value is over all pairs, whatever their source.

LLMBar (arXiv 2310.07641): the accuracies in the two orders, averaged, and the share of instances in which both orders
name one output (positional agreement). The value is the mean over the subsets. An output's rating is compared strictly
in each order, the first against the second: a tie names the second output in one order and the first in the other, half
right and no agreement. A reply without a verdict is wrong, and agrees with nothing. (LLMBar's script counts two such
replies as agreeing, and a rating that is no number as half right: here failing earns nothing.)
"""

import math
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
    named_by,
    number,
    sentence,
    shared,
    strict_reasons,
)
from pluralrm.metrics.units import numbers, rows_by_domain, score_table, winner
from pluralrm.stats.clusters import FloatArray, codes
from pluralrm.text import counted

PRB, JUDGEBENCH, LLMBAR = "Personalized RewardBench", "JudgeBench", "LLMBar"
SEED = 42
"""Of Personalized RewardBench's draws."""
CANDIDATES = ("response_A", "response_B")
"""The ids of JudgeBench's candidates, in the order of its file."""


# ---------------------------------------------------------------- Personalized RewardBench


def pointwise_accuracy(chosen: ArrayLike, rejected: ArrayLike) -> float:
    """Return the share of items whose chosen answer scores strictly higher; NaN stands for a missing score."""
    above = np.asarray(chosen, dtype=np.float64) > np.asarray(rejected, dtype=np.float64)
    return float(above.mean())


def published_accuracy(
    rows: Sequence[Row], average: Average, *, source: str = PRB, open_items: int = 0
) -> PublishedMetric:
    """Return the published accuracy of rows with two candidates in the order of the file, averaged as the headline is.

    Draws go by an item's place in its subset, so a judge's run with open items has no number.
    """
    if any(row.votes for row in rows):
        return _judged_accuracy(rows, average, source, open_items)
    chosen, rejected = _both_scores(rows)
    names = [row.domain for row in rows]
    inside = {domain: codes(names) == code for code, domain in enumerate(sorted(set(names)))}
    domains = {domain: pointwise_accuracy(chosen[mask], rejected[mask]) for domain, mask in inside.items()}
    value = macro_mean(domains.values()) if average == "macro" else pointwise_accuracy(chosen, rejected)
    return PublishedMetric("ties lose", source, value, domains, sentence(*strict_reasons(rows, named_by(source))))


def _both_scores(rows: Sequence[Row]) -> tuple[FloatArray, FloatArray]:
    """Return the scores of the chosen and of the rejected answers; NaN where one is missing."""
    if table := score_table(rows):
        order = np.arange(len(rows))
        return table.scores[order, table.preferred], table.scores[order, 1 - table.preferred]
    scores = [(number(row.scores[winner(row)]), number(row.scores[1 - winner(row)])) for row in rows]
    chosen, rejected = np.array(scores).T
    return chosen, rejected


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


# ---------------------------------------------------------------- JudgeBench


def judgebench_win(verdicts: Sequence[int]) -> bool:
    """Return whether a pair is won: 1 for each verdict that is the label, -1 for the opposite, 0 for none."""
    return sum(verdicts) > 0


def published_judgebench(rows: Sequence[Row], source: str) -> PublishedMetric:
    """Return the accuracy over all pairs, and per domain."""
    domains = {domain: _won(members) for domain, members in rows_by_domain(rows).items()}
    return PublishedMetric(JUDGEBENCH, source, _won(rows), domains, _judgebench_reason(rows, named_by(source)))


def _won(rows: Sequence[Row]) -> float:
    return sum(judgebench_win(_verdicts(row)) for row in rows) / len(rows)


def _verdicts(row: Row) -> list[int]:
    """Return 1, -1 or 0 for each order asked; of a model that scores, one verdict."""
    if row.votes:
        return [_sign(row, vote.outcome) for vote in row.votes]
    a, b = (number(row.scores[row.candidate_ids.index(name)]) for name in CANDIDATES)
    if math.isnan(a) or math.isnan(b):
        return [0]
    return [_sign(row, str(row.candidate_ids.index(CANDIDATES[a <= b])))]


def _sign(row: Row, outcome: str) -> int:
    return 0 if not outcome.isdecimal() else 1 if int(outcome) == row.best[0] else -1


def _judgebench_reason(rows: Sequence[Row], by: str) -> str:
    judged = [(row, _verdicts(row)) for row in rows if row.votes]
    split = sum(not row.failed and sum(verdicts) == 0 for row, verdicts in judged)
    half = sum(row.failed and judgebench_win(verdicts) for row, verdicts in judged)
    single = sum(len(verdicts) == 1 for _, verdicts in judged)
    ties = [_verdicts(row) == [1] for row in rows if not row.votes and _tied(row)]
    endless = sum(not row.votes and infinite(row.scores) for row in rows)
    failed = sum(row.failed for row in rows) - half - endless
    return sentence(
        split and f"{counted(split, 'pair')} without a majority of orders: {shared(rows, 'credit shared')}a loss {by}",
        half and f"{counted(half, 'pair')} with one unreadable and one right reply: failed in the headline, won {by}",
        single and f"{counted(single, 'pair')} asked in one order, which decides",
        ties
        and f"{counted(len(ties), 'tie')}: {shared(rows, 'credit shared')}a verdict for B {by} ({sum(ties)} right)",
        endless and f"{counted(endless, 'item')} with an infinite score: failed in the headline, compared {by}",
        failed and f"{counted(failed, 'failed item')}: wrong in both",
    )


def _tied(row: Row) -> bool:
    scores = numbers(row)
    return scores is not None and len(set(scores)) == 1


# ---------------------------------------------------------------- LLMBar


class Positional(NamedTuple):
    """What an instance earns: the share of the two orders that is right, and whether both name one output."""

    right: float
    agrees: bool


def llmbar_instance(winners: tuple[int | None, int | None], label: int) -> Positional:
    """Return what the winners in both orders earn; None is a reply without a verdict."""
    first, second = winners
    return Positional(((first == label) + (second == label)) / 2, first is not None and first == second)


def published_llmbar(rows: Sequence[Row], source: str) -> PublishedMetric:
    """Return the accuracy in both orders, and the positional agreement as a part: both the mean over the subsets."""
    subsets = rows_by_domain(rows)
    if single := sum(len(row.votes) == 1 for row in rows):
        why = f"{counted(single, 'instance')} asked in one order; the rule needs both."
        return PublishedMetric(LLMBAR, source, None, dict.fromkeys(subsets), why)
    earned = {domain: [llmbar_instance(_winners(row), row.best[0]) for row in own] for domain, own in subsets.items()}
    right, agreement = (
        {domain: sum(each[part] for each in own) / len(own) for domain, own in earned.items()} for part in (0, 1)
    )
    parts = {"agreement": macro_mean(agreement.values())}
    why = _llmbar_reason(rows, named_by(source))
    return PublishedMetric(LLMBAR, source, macro_mean(right.values()), right, why, parts=parts)


def _winners(row: Row) -> tuple[int | None, int | None]:
    """Return the winner in each order; two ratings are compared strictly, the first output against the second."""
    if row.votes:
        first, second = (int(vote.outcome) if vote.outcome.isdecimal() else None for vote in row.votes[:2])
        return first, second
    a, b = map(number, row.scores)
    if math.isnan(a) or math.isnan(b):
        return None, None
    return (0 if a > b else 1), (1 if b > a else 0)


def _llmbar_reason(rows: Sequence[Row], by: str) -> str:
    judged = [row for row in rows if row.votes]
    split = sum(not row.failed and row.votes[0].outcome != row.votes[1].outcome for row in judged)
    half = sum(row.failed and any(vote.outcome == str(row.best[0]) for vote in row.votes) for row in judged)
    called = sum(not row.failed and any(vote.outcome == "tie" for vote in row.votes) for row in judged)
    endless = sum(not row.votes and infinite(row.scores) for row in rows)
    failed = sum(row.failed for row in rows) - half - endless
    return sentence(
        split and f"{counted(split, 'instance')} with another winner in the other order: half right in both",
        called and f"{counted(called, 'instance')} called a tie: {shared(rows, 'credit shared')}wrong {by}",
        half
        and f"{counted(half, 'instance')} with one unreadable and one right reply: failed in the headline, half {by}",
        endless and f"{counted(endless, 'item')} with an infinite score: failed in the headline, compared {by}",
        failed and f"{counted(failed, 'failed item')}: wrong in both",
    )

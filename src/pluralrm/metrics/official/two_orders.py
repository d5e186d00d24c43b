"""Judges asked in both orders, as published: JudgeBench (arXiv 2410.12784) and LLMBar (arXiv 2310.07641).

JudgeBench: each order gives 1 where its verdict is the label, -1 where it is the opposite, 0 for a tie or no verdict; a
pair is won where the sum is above 0. So one verdict and one unreadable reply win it, and a verdict for each side does
not. A model that scores is asked once: A wins only where it scores strictly higher, so a tie is a verdict for B, right
where the label is B>A. The value is over all pairs, whatever their source.

LLMBar: the accuracies in the two orders, averaged, and the share of instances in which both orders name one output
(positional agreement). The value is the mean over the subsets. An output's rating is compared strictly in each order,
the first against the second: a tie names the second output in one order and the first in the other, half right and no
agreement. A reply without a verdict is wrong, and agrees with nothing. (LLMBar's script counts two such replies as
agreeing, and a rating that is no number as half right: here failing earns nothing.)
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pluralrm.core import Row
from pluralrm.metrics.official.formula import PublishedMetric, infinite, macro_mean, named_by, number, sentence, shared
from pluralrm.metrics.units import numbers, rows_by_domain
from pluralrm.text import counted

JUDGEBENCH, LLMBAR = "JudgeBench", "LLMBar"
CANDIDATES = ("response_A", "response_B")
"""The ids of JudgeBench's candidates, in the order of its file."""


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

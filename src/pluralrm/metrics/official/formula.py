"""A number by a paper's exact formula, beside our headline, with the reason for the difference."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pluralrm.core import Failure, Row, Score
from pluralrm.display import json_fields
from pluralrm.metrics.units import numbers, score_table, top_tied, winner
from pluralrm.text import counted


class PlaceAccuracy(NamedTuple):
    """The items whose preferred answer stood in one place, and the share of them that was judged right."""

    items: int
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class PublishedMetric:
    """A metric by a published formula. `value` is None where it cannot be computed, and `reason` says why.

    `source` is the paper, on the paper's own items alone; elsewhere it is empty and `rule` names the column. `first`
    and `second` are the accuracies of a judge by the place of the preferred answer, None for other models.
    """

    rule: str
    source: str
    value: float | None
    domains: Mapping[str, float | None]
    reason: str
    first: PlaceAccuracy | None = None
    second: PlaceAccuracy | None = None
    parts: Mapping[str, float | None] = field(default_factory=dict)
    """What the value is made of beside domains, by name, such as easy, normal and hard."""

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names, for --json."""
        return {
            **json_fields(self, "rule", "source", "value", "domains", "reason"),
            **({"parts": dict(self.parts)} if self.parts else {}),
            **({"preferred_first": self.first._asdict()} if self.first else {}),
            **({"preferred_second": self.second._asdict()} if self.second else {}),
        }


RULES: Mapping[str, str] = {
    "ties lose": "the preferred answer must score strictly higher; a tie is wrong",
    "one order": "a judge's reply in one drawn order per item; without a winner, the order shown counts",
    "RewardBench": "a tie is wrong; math-prm counts as 984 pairs within Reasoning, the prior sets half",
    "RewardBench 2": "credit shared at the top; Ties by accuracy and margins",
    "RM-Bench": "a tie is wrong; a domain is the mean of easy, normal and hard",
    "RMB": "the best answer must score strictly higher than every loser; the mean of four sections",
    "JudgeBench": "the verdicts of both orders add up, and the sum must be above 0; a tie of scores is a verdict for B",
    "LLMBar": "the accuracy in each of two orders, averaged; the mean of the subsets",
    "RewardMATH": "the right solution must score strictly higher than all others",
    "PPE choices": "a tie is wrong; models ranked by scores and by people",
    "PPE answers": "sampled pairs of a right and a wrong answer, a tie is wrong; the mean of the data sets",
}
"""What each rule says."""


def number(score: Score) -> float:
    """Return the score as the model gave it, infinities included; NaN for every other failure."""
    if not isinstance(score, Failure):
        return score
    return float(score.detail) if score.kind == "nonfinite" and score.detail in {"inf", "-inf"} else math.nan


def infinite(scores: Iterable[Score]) -> bool:
    """Return whether some score is infinite: a failure in the headline, a number in the papers' formulas."""
    return any(isinstance(score, Failure) and math.isinf(number(score)) for score in scores)


def strictly_best(row: Row) -> bool:
    """Return whether the preferred answer scores strictly higher than all others; nothing is higher than a NaN."""
    preferred = winner(row)
    best = number(row.scores[preferred])
    return all(best > number(score) for index, score in enumerate(row.scores) if index != preferred)


def tied_on_top(row: Row) -> bool:
    """Return whether the preferred answer shares the highest score with others; False for a failed item."""
    return top_tied(row) and row.scores[winner(row)] == max(numbers(row) or ())


def strict_share(rows: Sequence[Row]) -> float | None:
    """Return the share of items whose preferred answer scores strictly higher; None of no items."""
    return sum(map(strictly_best, rows)) / len(rows) if rows else None


def strict_reasons(rows: Sequence[Row], by: str) -> list[str]:
    """Return why the share of strict wins differs from the headline, with the counts of these rows."""
    if table := score_table(rows):
        tied, endless, failed = int(((table.tied > 1) & (table.credit > 0)).sum()), 0, 0
    else:
        tied = sum(map(tied_on_top, rows))
        endless = sum(infinite(row.scores) for row in rows)
        failed = sum(row.failed for row in rows) - endless
    reasons = (
        tied and f"{counted(tied, 'tie')}: {shared(rows, 'credit shared')}a loss {by}",
        endless and f"{counted(endless, 'item')} with an infinite score: failed in the headline, compared {by}",
        failed and f"{counted(failed, 'failed item')}: wrong in both",
    )
    return [reason for reason in reasons if reason]


def named_by(source: str) -> str:
    """Return how a reason names the rule: on the paper's own items, and elsewhere."""
    return "as published" if source else "by this rule"


def percentages(values: Mapping[str, float | None]) -> str:
    """Return `easy 81.2, hard 40.0`, without what has no value."""
    return ", ".join(f"{name} {100 * value:.1f}" for name, value in values.items() if value is not None)


def macro_mean(domains: Iterable[float | None]) -> float | None:
    """Return the mean over the domains that have a value; None where none has."""
    values = [value for value in domains if value is not None]
    return sum(values) / len(values) if values else None


def shared(rows: Sequence[Row], what: str) -> str:
    """Return what a tie is in the headline; nothing where it goes by another rule than shared credit."""
    return f"{what} in the headline, " if rows[0].ties == "share" else ""


def sentence(*clauses: object) -> str:
    """Return the clauses that apply as one sentence; what is empty or zero does not apply."""
    parts = [str(clause) for clause in clauses if clause]
    return f"{'; '.join(parts)}." if parts else "No tie and no failure: the same as the headline."

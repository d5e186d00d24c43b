"""A number by a paper's exact formula, beside our headline, with the reason for the difference."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pluralrm.core import Failure, Row, Score


class PlaceAccuracy(NamedTuple):
    """The items whose preferred answer stood in one place, and the share of them that was judged right."""

    items: int
    accuracy: float | None

    def to_json(self) -> dict[str, float | None]:
        """Return both under their names, for --json."""
        return self._asdict()


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

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names, for --json."""
        return {
            "rule": self.rule,
            "source": self.source,
            "value": self.value,
            "domains": dict(self.domains),
            "reason": self.reason,
            **({"preferred_first": self.first.to_json()} if self.first else {}),
            **({"preferred_second": self.second.to_json()} if self.second else {}),
        }


RULES: Mapping[str, str] = {
    "ties lose": "the preferred answer must score strictly higher; a tie is wrong",
    "one order": "a judge's reply in one drawn order per item; without a winner, the order shown counts",
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


def macro_mean(domains: Iterable[float | None]) -> float | None:
    """Return the mean over the domains that have a value; None where none has."""
    values = [value for value in domains if value is not None]
    return sum(values) / len(values) if values else None


def shared(rows: Sequence[Row], what: str) -> str:
    """Return what a tie is in the headline; nothing where it goes by another rule than shared credit."""
    return f"{what} in the headline, " if rows[0].ties == "share" else ""


def sentence(*clauses: str | int) -> str:
    """Return the clauses that apply as one sentence; an empty string or a zero does not apply."""
    kept = [str(clause) for clause in clauses if clause]
    return f"{'; '.join(kept)}." if kept else "No tie and no failure: the same as the headline."

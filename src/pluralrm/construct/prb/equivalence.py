"""Is the general quality of the two sides equal over the whole set? The mean difference, and a verdict.

Two one-sided tests at 5%: the sides are equivalent where the 90% interval of the mean difference lies within a margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pluralrm.audit.measured import amount
from pluralrm.audit.measured import share as mean_share
from pluralrm.construct.pipeline import Record
from pluralrm.construct.prb.products import SIDES, Answer, Chosen, Kind, Quality, share
from pluralrm.core import Estimate

MARGIN = 0.5
"""Points of 1 to 5 by which the means of two sides may differ."""
COVERAGE_MARGIN = 0.1
"""By how much the mean shares of the question's parts may differ."""

Verdict = Literal["equivalent", "not shown", "different"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Chosen minus rejected in one dimension, with a 90% interval over users; `different` excludes 0 and the margin."""

    dimension: str
    estimate: Estimate
    margin: float

    @property
    def verdict(self) -> Verdict:
        """What the interval shows."""
        low, high = self.estimate.low, self.estimate.high
        if low is None or high is None:
            return "not shown"
        if -self.margin < low and high < self.margin:
            return "equivalent"
        return "different" if low > self.margin or high < -self.margin else "not shown"

    def to_json(self) -> dict[str, object]:
        """Return it under its names, for the data card."""
        return {
            "dimension": self.dimension,
            "chosen minus rejected": self.estimate.to_json(),
            "margin": self.margin,
            "verdict": self.verdict,
        }


def differences(records: Sequence[Record], kind: Kind) -> list[Difference]:
    """Return the difference in each dimension of quality, and in coverage where it was judged."""
    pairs = [(record[Chosen], record[SIDES[kind].makes]) for record in records]
    users = [record.id for record in records]
    found = [_of(name, [(_rated(one, name), _rated(two, name)) for one, two in pairs], users) for name in _DIMENSIONS]
    if pairs and all(one.marks.coverage and two.marks.coverage for one, two in pairs):
        covered = [(share(one.marks.coverage), share(two.marks.coverage)) for one, two in pairs]
        found.append(_of("coverage", covered, users, COVERAGE_MARGIN))
    return found


_DIMENSIONS = tuple(Quality.model_fields)


def _rated(answer: Answer, dimension: str) -> float:
    return float(getattr(answer.marks.quality, dimension))


def _of(name: str, pairs: Sequence[tuple[float, float]], users: Sequence[str], margin: float = MARGIN) -> Difference:
    return Difference(name, amount([one - other for one, other in pairs], users, level=0.90), margin)


def adherence(records: Sequence[Record], side: type[Answer]) -> Estimate:
    """Return the mean share of what users expect that the answers of a side give, by the judges."""
    shares = [share(record[side].marks.adherence) for record in records]
    return mean_share(shares, [record.id for record in records])

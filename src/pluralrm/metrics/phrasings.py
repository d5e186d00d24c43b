"""Groups of phrasings: the same request in three wordings, which should get the same ranking (RMGAP).

Such rows carry the tags `record`, `group` and `phrasing`, and name their candidates in `candidate_ids`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pluralrm.core import Row
from pluralrm.errors import MetricError
from pluralrm.metrics.credits import numbers, strictly_right

PHRASINGS = 3
"""How many wordings a group has; a group that lacks one is neither consistent nor right in all."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group of phrasings: its name, and the rows that are there."""

    id: str
    rows: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        """True when no phrasing is missing and none failed."""
        return len(self.rows) == PHRASINGS and not any(row.failed for row in self.rows)

    @property
    def consistent(self) -> bool:
        """True when every phrasing has a strict ranking of the candidates, and all have the same one."""
        rankings = {strict_ranking(row) for row in self.rows}
        return self.complete and len(rankings) == 1 and None not in rankings

    @property
    def all_right(self) -> bool:
        """True when the preferred candidate is strictly above all others in every phrasing."""
        return self.complete and all(strictly_right(row) for row in self.rows)


def groups(rows: Sequence[Row]) -> list[Group]:
    """Return the groups in the order of their first row; a row without the three tags is an error."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        missing = [tag for tag in ("record", "group", "phrasing") if tag not in row.tags]
        if missing:
            raise MetricError(
                f"item {row.item!r} has no tag {missing[0]!r}; consistency needs record, group and phrasing."
            )
        if len(row.candidate_ids) != len(row.scores):
            raise MetricError(f"item {row.item!r} does not name its candidates; consistency compares them by name.")
        phrasings = found.setdefault(f"{row.tags['record']}/{row.tags['group']}", {})
        if row.tags["phrasing"] in phrasings:
            raise MetricError(f"item {row.item!r} repeats phrasing {row.tags['phrasing']!r} of its group.")
        phrasings[row.tags["phrasing"]] = row
    return [Group(name, tuple(phrasings.values())) for name, phrasings in found.items()]


def strict_ranking(row: Row) -> tuple[str, ...] | None:
    """Return the candidate ids from the highest score to the lowest; None where two are equal or one failed."""
    scores = numbers(row)
    if scores is None or len(set(scores)) < len(scores):
        return None
    return tuple(name for _, name in sorted(zip(scores, row.candidate_ids, strict=True), reverse=True))

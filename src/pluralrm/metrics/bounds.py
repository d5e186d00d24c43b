"""How much failures could hide: a metric with every failed item wrong, as in the headline, and with every one right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pluralrm.core import Average, Row, Run
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import chosen, measure

ANSWERABLE = ("accuracy", "bon", "pair", "all_phrasings")
"""The metrics for which an item can be right or wrong."""


class Bounds(NamedTuple):
    """The metric with all `failed` items wrong, and with all of them right."""

    worst: float
    best: float
    failed: int

    def to_json(self) -> dict[str, float | int]:
        """Return the fields under their names, for --json."""
        return self._asdict()


def bounds(run: Run, metric: str = "", *, average: Average | None = None) -> Bounds | None:
    """Return between which values a metric (the headline, unless named) lies; None where no item failed."""
    name = chosen(run, metric)
    if name not in ANSWERABLE:
        raise MetricError(f"{name} has no bounds: no item is right or wrong by it. Wanted: {', '.join(ANSWERABLE)}.")
    failed = sum(row.failed for row in run.rows)
    if not failed:
        return None
    worst, best = (measure(one, name, average=average).value for one in (run, replace(run, rows=_mended(run.rows))))
    return Bounds(worst, best, failed)


def _mended(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows as if each failed one had put the preferred candidate above all others."""
    return tuple(replace(row, scores=_right(row)) if row.failed else row for row in rows)


def _right(row: Row) -> tuple[float, ...]:
    return tuple(float(place == row.preferred) for place in range(len(row.scores)))

"""Metrics by the exact formula of a paper, one file per benchmark, each explained beside our headline."""

from collections.abc import Mapping
from dataclasses import replace

from pluralrm.core import OPEN_KINDS, Failure, Run
from pluralrm.errors import SpecError
from pluralrm.metrics.estimates import reported
from pluralrm.metrics.official.formula import RULES, PublishedMetric
from pluralrm.metrics.official.prb import SOURCE as PRB
from pluralrm.metrics.official.prb import published_accuracy
from pluralrm.metrics.official.rmgap import SOURCE as RMGAP
from pluralrm.metrics.official.rmgap import published_rmgap
from pluralrm.models import rates

__all__ = ["RULES", "PublishedMetric", "published"]

_PAPERS: Mapping[str, str] = {"prb": PRB, "rmgap": RMGAP}
"""The paper of each benchmark by the name on its card: no other rows bear it, so none has the paper's column."""


def published(run: Run) -> dict[str, PublishedMetric]:
    """Return the as-published number of each reported metric that a paper defines; empty where none does.

    An unfinished run has none: a paper's formula may leave failed items out, and failing would pay.
    """
    names, source = reported(run), _PAPERS.get(run.card.name, "")
    metrics = {}
    if "accuracy" in names and all(len(row.scores) == 2 for row in run.rows):
        metrics["accuracy"] = published_accuracy(run.rows, run.card.average, source=source, open_items=_open(run))
    if "consistency" in names:
        whole = run.whole and not _open(run)
        numbers = published_rmgap(run.rows, source=source, whole=whole, rates=bool(source) and _rates(run.model))
        metrics |= {name: number for name, number in numbers.items() if name in names}
    if still_open := _open(run):
        metrics = {
            name: number if number.value is None else _none(number, still_open) for name, number in metrics.items()
        }
    return metrics


def _none(number: PublishedMetric, still_open: int) -> PublishedMetric:
    why = f"the run is unfinished, {still_open:,} of its items are open."
    return replace(number, value=None, domains=dict.fromkeys(number.domains), reason=why)


def _open(run: Run) -> int:
    """Return how many items have no row, or one that an outage left open."""
    outages = sum(any(isinstance(one, Failure) and one.kind in OPEN_KINDS for one in row.scores) for row in run.rows)
    return max(0, run.items - len(run.rows)) + outages


def _rates(model: str) -> bool:
    """Return whether the model rates one answer at a time; not where the name is no spec, as in runs made elsewhere."""
    try:
        return rates(model)
    except SpecError:
        return False

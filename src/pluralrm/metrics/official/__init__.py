"""Metrics by the exact formula of a paper, one file per benchmark, each explained beside our headline."""

from pluralrm.core import Run
from pluralrm.metrics.estimates import reported
from pluralrm.metrics.official.as_published import Published
from pluralrm.metrics.official.prb import published_accuracy
from pluralrm.metrics.official.rmgap import published_rmgap

__all__ = ["Published", "published"]


def published(run: Run) -> dict[str, Published]:
    """Return the as-published number of each reported metric that a paper defines; empty where none does."""
    names = reported(run)
    found = {}
    if "accuracy" in names and all(len(row.scores) == 2 for row in run.rows):
        found["accuracy"] = published_accuracy(run.rows, run.card.average)
    if "consistency" in names:
        found |= {name: number for name, number in published_rmgap(run.rows).items() if name in names}
    return found

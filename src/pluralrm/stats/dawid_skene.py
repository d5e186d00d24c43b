"""The consensus of raters who are not equally good: Dawid and Skene (1979), by EM.

Every rater has a table of how often each true label is called each label; items' true labels and the tables are
estimated in turn, beginning with the shares of votes. Half a rating, spread as all raters' together, is added to each
row of a table, so that a rater with few ratings is nobody's oracle.
"""

from typing import NamedTuple

import numpy as np

from pluralrm.stats.agreement import Ratings
from pluralrm.stats.clusters import FloatArray

_STEPS = 500
_STILL = 1e-9
_ADDED = 0.5


class Consensus(NamedTuple):
    """How likely each label is the true one of each item (items, C), and what raters make of true labels (r, C, C)."""

    likely: FloatArray
    called: FloatArray
    shares: FloatArray
    """(C,): of the true labels."""
    steps: int

    def right(self) -> FloatArray:
        """Return (r,): how often each rater is expected to call a label by its name."""
        found: FloatArray = (np.diagonal(self.called, axis1=1, axis2=2) * self.shares).sum(axis=1)
        return found


def dawid_skene(ratings: Ratings) -> Consensus:
    """Return the consensus; an item without a rating has the shares of all labels."""
    likely = _votes(ratings)
    moved, steps = 1.0, 0
    while moved > _STILL and steps < _STEPS:
        before, likely = likely, _posterior(ratings, *_tables(ratings, likely))
        moved, steps = float(np.abs(likely - before).max()), steps + 1
    return Consensus(likely, *_tables(ratings, likely), steps)


def _votes(ratings: Ratings) -> FloatArray:
    held = ratings.counts.sum(axis=1, keepdims=True)
    everywhere = ratings.counts.sum(axis=0) / ratings.counts.sum()
    votes: FloatArray = np.where(held > 0, ratings.counts / np.maximum(held, 1), everywhere)
    return votes


def _tables(ratings: Ratings, likely: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the tables (r, true C, called C) and the shares of true labels, given how likely each label is."""
    labels = len(ratings.worths)
    by_call = np.zeros((ratings.raters, labels, labels))
    np.add.at(by_call, (ratings.rater, ratings.label), likely[ratings.item])
    calls = by_call.swapaxes(1, 2)
    shares = likely.mean(axis=0)
    everyone = calls.sum(axis=0) + 1e-3
    calls = calls + _ADDED * everyone / everyone.sum(axis=1, keepdims=True)
    return calls / calls.sum(axis=2, keepdims=True), shares


def _posterior(ratings: Ratings, called: FloatArray, shares: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        said = np.tile(np.log(shares), (ratings.items, 1))
    np.add.at(said, ratings.item, np.log(called[ratings.rater, :, ratings.label]))
    said -= said.max(axis=1, keepdims=True)
    likely = np.exp(said)
    found: FloatArray = likely / likely.sum(axis=1, keepdims=True)
    return found

"""What annotators say together of each item: the most frequent label, and the consensus of Dawid and Skene."""

from dataclasses import dataclass

import numpy as np

from pluralrm.metrics.agreement import Votes
from pluralrm.stats.agreement import dawid_skene


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of one item; `most_frequent` is None where two labels are given equally often."""

    item: str
    most_frequent: str | None
    consensus: str
    likely: float
    """How likely the consensus is, given the ratings."""


@dataclass(frozen=True, slots=True)
class Together:
    """What is said of all items, and how often each annotator is expected to call a label by its name."""

    said: tuple[Said, ...]
    right: tuple[tuple[str, float], ...]

    @property
    def undecided(self) -> int:
        """Items in which two or more labels are equally frequent, and none is more so."""
        return sum(one.most_frequent is None for one in self.said)

    @property
    def differ(self) -> tuple[Said, ...]:
        """Items whose most frequent label is not the consensus."""
        return tuple(one for one in self.said if one.most_frequent not in {None, one.consensus})


def consensus(votes: Votes) -> Together:
    """Return the most frequent label and the consensus of every item."""
    ratings = votes.ratings()
    found, labels = dawid_skene(ratings), votes.scaled.labels
    items, annotators = sorted(set(votes.items)), sorted(set(votes.annotators))
    said = []
    for item, counts, likely in zip(items, ratings.counts, found.likely, strict=True):
        most = np.flatnonzero(counts == counts.max())
        best = int(likely.argmax())
        said.append(Said(item, labels[most[0]] if len(most) == 1 else None, labels[best], float(likely[best])))
    right = zip(annotators, found.right().tolist(), strict=True)
    return Together(tuple(said), tuple(right))

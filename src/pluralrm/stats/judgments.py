"""Judgments of items by several annotators, simulated: how precise will a share be, is an equivalence shown?

A judgment repeats what is typical of its item with chance sqrt(r), what is typical of its annotator with chance
sqrt(l), and is a draw of its own otherwise. All three are draws from the same labels, so that two judgments of one
item by different annotators correlate by r, two of one annotator on different items by l, whatever labels are worth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import BoolArray, ClusterMeans, FloatArray, IntArray, means_of_sums
from pluralrm.stats.intervals import Bounds, Interval, crossed_interval, share_interval

Goal = Literal["precision", "agreement", "equivalence"]
"""The share is known to +- a width; so is the share of pairs of judgments of one item that are alike; the share is
shown to lie within a margin of one half (two one-sided tests), where it is one half."""
_AT_ONCE = 50
_AT_MOST = 3_000_000
_AT_LEAST = 400


@dataclass(frozen=True, slots=True)
class Labels:
    """What judgments say: the labels' shares and worths in [0, 1], and the two correlations."""

    shares: tuple[float, ...]
    worths: tuple[float, ...]
    likeness: float
    lean: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.likeness < 1 or not 0 <= self.lean < 1 or self.likeness**0.5 + self.lean**0.5 > 1:
            raise MetricError(
                f"judgments correlate by {self.likeness:g} on one item, by {self.lean:g} from one annotator: wanted "
                "both from 0 to below 1, and their square roots to add up to 1 at most"
            )
        if min(self.shares) < 0 or abs(sum(self.shares) - 1) > 1e-9:
            raise MetricError(f"labels with the shares {self.shares}: wanted none below 0, and 1 together")

    @property
    def mean(self) -> float:
        """The expected worth of a judgment."""
        return float(np.dot(self.shares, self.worths))

    @property
    def agreement(self) -> float:
        """The chance that two annotators say the same of an item."""
        return self.likeness + (1 - self.likeness) * float(np.dot(self.shares, self.shares))

    def balanced(self) -> "Labels":
        """Return the same labels with a mean worth of one half: those above it, and those below, get equal weight."""
        worth, share = np.array(self.worths) - 0.5, np.array(self.shares)
        above, below = (float((share * np.clip(side * worth, 0, None)).sum()) for side in (1, -1))
        if not above or not below:
            raise MetricError("judgments that all fall on one side of one half cannot show that it is one half")
        factor = np.where(worth > 0, (below / above) ** 0.5, np.where(worth < 0, (above / below) ** 0.5, 1.0))
        sided = worth != 0
        share = np.where(sided, share * factor * share[sided].sum() / (share * factor)[sided].sum(), share)
        return Labels(tuple(share.tolist()), self.worths, self.likeness, self.lean)


class Aim(NamedTuple):
    """A goal, the half-width or the margin that goes with it, and the chance of being wrong."""

    goal: Goal
    within: float
    alpha: float = 0.05

    @property
    def level(self) -> float:
        """That of the interval: two one-sided tests at alpha are one interval at 1 - 2 alpha."""
        return 1 - 2 * self.alpha if self.goal == "equivalence" else 1 - self.alpha

    def holds(self, ends: Bounds | None) -> bool:
        """Return whether an interval is what is aimed at; none is not."""
        if ends is None:
            return False
        if self.goal == "equivalence":
            return 0.5 - self.within < ends.low and ends.high < 0.5 + self.within
        return ends.high - ends.low <= 2 * self.within


class Design(NamedTuple):
    """Items, different annotators for each, and annotators in all; without a number each judgment has its own."""

    items: int
    each: int
    annotators: int | None = None

    def owners(self) -> IntArray:
        """Return (items, each): who judges what, in turn, so that all judge alike many."""
        places = np.arange(self.items * self.each).reshape(self.items, self.each)
        return places if self.annotators is None else places % self.annotators


def judgments(labels: Labels, design: Design, studies: int, *, seed: Sequence[int]) -> IntArray:
    """Return (items, each, studies) places of labels; more items with the same seed keep those that were there."""
    if design.annotators is not None and design.annotators < design.each:
        raise MetricError(f"{design.annotators} annotators cannot judge each item {design.each} times; wanted as many")
    shape = (design.items, design.each, studies)
    own, which = (np.random.default_rng([*seed, stream]).random(shape) for stream in (1, 2))
    codes = _labels(labels, own)
    item = _labels(labels, np.random.default_rng([*seed, 3]).random((design.items, 1, studies)))
    codes = np.where(which < labels.likeness**0.5, item, codes)
    if design.annotators is not None and labels.lean:
        habit = _labels(labels, np.random.default_rng([*seed, 4]).random((design.annotators, studies)))
        codes = np.where(which > 1 - labels.lean**0.5, habit[design.owners()], codes)
    return codes


def reached(labels: Labels, design: Design, aim: Aim, *, studies: int, seed: int) -> BoolArray:
    """Return in which simulated studies the goal is reached; there are fewer where studies are large."""
    return np.array([aim.holds(ends) for ends in interval_ends(labels, design, aim, studies=studies, seed=seed)])


def interval_ends(labels: Labels, design: Design, aim: Aim, *, studies: int, seed: int) -> list[Bounds | None]:
    """Return the ends of each simulated study's interval, whatever width or margin is aimed at; None where none is."""
    world = labels.balanced() if aim.goal == "equivalence" else labels
    studies = min(studies, max(_AT_LEAST, _AT_MOST // (design.items * design.each)))
    ends: list[Bounds | None] = []
    for start in range(0, studies, _AT_ONCE):
        rows = min(_AT_ONCE, studies - start)
        ends += _intervals(world, design, judgments(world, design, rows, seed=(seed, 1 + start)), aim)
    return ends


def _intervals(labels: Labels, design: Design, codes: IntArray, aim: Aim) -> Iterator[Bounds | None]:
    """Yield the ends of each study's interval."""
    level, columns = aim.level, range(codes.shape[2])
    if aim.goal == "agreement":
        alike = means_of_sums(_alike(codes, len(labels.shares))[:, None], np.ones((design.items, 1, codes.shape[2])))
        intervals = (share_interval(alike, column, level=level) for column in columns)
    else:
        values = np.array(labels.worths)[codes]
        by_item, *others = _means(values, design, binary=set(labels.worths) <= {0.0, 1.0})
        intervals = (_interval(by_item, others, column, level) for column in columns)
    return (None if low is None or high is None else Bounds(low, high) for _, low, high, _ in intervals)


def _interval(by_item: ClusterMeans, others: Sequence[ClusterMeans], column: int, level: float) -> Interval:
    if not others:
        return share_interval(by_item, column, level=level)
    by_annotator, alone = others
    return crossed_interval(by_item, by_annotator, alone, column, level=level)


def _means(values: FloatArray, design: Design, *, binary: bool) -> list[ClusterMeans]:
    """Return the means by item, and where there is a number of annotators those by annotator and by judgment too."""
    sums = values.sum(axis=1)
    means = [means_of_sums(sums[:, None], np.full_like(sums, design.each)[:, None], binary=binary)]
    if design.annotators is None:
        return means
    flat, owner = values.reshape(-1, values.shape[2]), design.owners().ravel()
    order = np.argsort(owner, kind="stable")
    starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
    counts = np.diff(starts, append=len(owner)).astype(np.float64)
    totals = np.add.reduceat(flat[order], starts, axis=0)
    sizes = np.broadcast_to(counts[:, None, None], (len(counts), 1, flat.shape[1]))
    by_annotator = means_of_sums(totals[:, None], sizes, binary=binary)
    return [*means, by_annotator, means_of_sums(flat[:, None], np.ones_like(flat)[:, None], binary=binary)]


def _alike(codes: IntArray, labels: int) -> FloatArray:
    """Return (items, studies): the share of the pairs of an item's judgments that are alike."""
    each = codes.shape[1]
    if each < 2:
        raise MetricError("agreement of one judgment per item: wanted two or more (--judgments)")
    counts = np.stack([(codes == label).sum(axis=1) for label in range(labels)])
    pairs: FloatArray = (counts * (counts - 1)).sum(axis=0) / (each * (each - 1))
    return pairs


def _labels(labels: Labels, uniform: FloatArray) -> IntArray:
    edges = np.cumsum(labels.shares)[:-1]
    return np.searchsorted(edges, uniform, side="right").astype(np.intp)

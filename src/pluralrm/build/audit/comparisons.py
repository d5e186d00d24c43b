"""The labelled items as arrays, and other labels that would have been as likely if the answers said nothing.

Items stand in the order of their ids and candidates in the order of their texts, so neither the order of the file
nor where a loader placed the candidates can change a number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from pluralrm.core import Item
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray, codes


@dataclass(frozen=True)
class Comparisons:
    """n items with N candidates in all; row `starts[i] + j` is the j-th candidate, by text, of item i."""

    items: tuple[Item, ...]
    orders: tuple[tuple[int, ...], ...]
    """Per item: the places of its candidates, sorted by text."""

    @cached_property
    def texts(self) -> list[str]:
        """The N candidates."""
        return [item.candidates[place] for item, order in zip(self.items, self.orders, strict=True) for place in order]

    @cached_property
    def places(self) -> IntArray:
        """(N,): where the loader placed each candidate."""
        return np.concatenate([np.array(order, dtype=np.intp) for order in self.orders])

    @cached_property
    def sizes(self) -> IntArray:
        """(n,): how many candidates each item has."""
        return np.array([len(order) for order in self.orders], dtype=np.intp)

    @cached_property
    def starts(self) -> IntArray:
        """(n,): the row of each item's first candidate."""
        return (self.sizes.cumsum() - self.sizes).astype(np.intp)

    @cached_property
    def owners(self) -> IntArray:
        """(N,): the item of each row."""
        return np.repeat(np.arange(len(self.items)), self.sizes).astype(np.intp)

    @cached_property
    def labels(self) -> IntArray:
        """(n,): which candidate, by text, is preferred."""
        pairs = zip(self.items, self.orders, strict=True)
        return np.array([order.index(_preferred(item)) for item, order in pairs], dtype=np.intp)

    @property
    def clusters(self) -> list[str]:
        """The cluster of each item."""
        return [item.cluster for item in self.items]

    @cached_property
    def cluster(self) -> IntArray:
        """(n,): the number of each item's cluster, clusters sorted by name."""
        return codes(self.clusters)

    @property
    def chance(self) -> float:
        """The accuracy of a guess that knows nothing."""
        return float((1 / self.sizes).mean())

    @cached_property
    def contrasts(self) -> sparse.csr_array:
        """(N, N - n): turns rows into orthonormal differences within each item; its transpose turns them back.

        A score fitted to differences cannot depend on the order in which the candidates stand: with two candidates
        this is the fit to both orders.
        """
        blocks = {size: _helmert(size) for size in sorted(set(self.sizes.tolist()))}
        return sparse.csr_array(sparse.block_diag([blocks[size] for size in self.sizes.tolist()], format="csr"))

    @cached_property
    def answer_sets(self) -> IntArray:
        """(n,): the number of each item's set of candidates; items of one cluster with the same texts share it."""
        names = [
            repr((item.cluster, [item.candidates[place] for place in order]))
            for item, order in zip(self.items, self.orders, strict=True)
        ]
        return codes(names)

    @cached_property
    def balanced(self) -> bool:
        """True where every answer wins equally often among the items that share it: answers alone are at chance."""
        for members in self._members(self.answer_sets):
            wins = np.bincount(self.labels[members], minlength=int(self.sizes[members[0]]))
            if len(members) < 2 or wins.min() != wins.max():
                return False
        return bool(len(self.items))

    @cached_property
    def uneven(self) -> bool:
        """True where relabelling cannot keep what the items of a cluster have in common.

        That is a cluster with several sets of three or more answers: no relabelling turns all of its preferences
        around at once. A test must then look at the spread between clusters as well.
        """
        for members in self._members(self.cluster):
            if len(set(self.answer_sets[members].tolist())) > 1 and self.sizes[members].max() > 2:
                return True
        return False

    def relabelled(self, times: int, seed: int) -> IntArray:
        """Return (n, times) labels, each column as likely as the true one if the answers say nothing of the label.

        Items that share their answers get one permutation of them. With two candidates a whole cluster is turned
        around at once, so a user who always wants the short answer stays one who always wants the same kind.
        """
        rng = np.random.default_rng([seed, 1])
        turned = rng.integers(0, 2, (int(self.cluster.max()) + 1, times), dtype=np.int8)
        labels = np.where(turned[self.cluster] == 1, 1 - self.labels[:, None], self.labels[:, None])
        for members in self._members(self.answer_sets):
            size = int(self.sizes[members[0]])
            if size > 2:
                permutations = rng.random((times, size)).argsort(axis=1)
                labels[members] = permutations[:, self.labels[members]].T
        return labels.astype(np.intp)

    def _members(self, groups: IntArray) -> list[IntArray]:
        if not len(groups):
            return []
        order = np.argsort(groups, kind="stable")
        return np.split(order.astype(np.intp), np.flatnonzero(np.diff(groups[order])) + 1)

    def credit(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        """Return (n, B): what scores (N, B) earn where labels (n, B) are preferred; ties share the credit."""
        earned = np.empty(labels.shape)
        for size in np.unique(self.sizes).tolist():
            members = np.flatnonzero(self.sizes == size)
            each = scores[self.starts[members, None] + np.arange(size)]
            top: BoolArray = each >= each.max(axis=1, keepdims=True) - 1e-9
            won = np.take_along_axis(top, labels[members, None], axis=1)[:, 0]
            earned[members] = won / top.sum(axis=1)
        return earned


def comparisons(items: Sequence[Item]) -> Comparisons:
    """Return the items that have a label and at least two candidates, sorted by id."""
    kept = sorted(
        (item for item in items if item.preferred is not None and len(item.candidates) > 1), key=lambda item: item.id
    )
    orders = [tuple(sorted(range(len(item.candidates)), key=lambda place: _text_and_id(item, place))) for item in kept]
    return Comparisons(tuple(kept), tuple(orders))


def _text_and_id(item: Item, place: int) -> tuple[str, str]:
    return item.candidates[place], item.candidate_ids[place] if item.candidate_ids else ""


def _preferred(item: Item) -> int:
    if item.preferred is None:
        raise ValueError(f"{item.id} has no label")
    return item.preferred


def _helmert(size: int) -> FloatArray:
    """Return (size, size - 1): orthonormal columns, each orthogonal to ones."""
    columns = np.zeros((size, size - 1))
    for place in range(1, size):
        columns[:place, place - 1] = 1
        columns[place, place - 1] = -place
    unit: FloatArray = columns / np.sqrt((columns**2).sum(axis=0))
    return unit

"""The labelled items as arrays, and other labels that would have been as likely if the answers said nothing.

Items stand in the order of their ids and candidates in the order of their texts, so neither the order of the file
nor where a loader placed the candidates can change a number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from pluralrm.audit.result import Sharing
from pluralrm.core import Item
from pluralrm.stats.clusters import BoolArray, ClusterMeans, FloatArray, IntArray, cluster_means, codes

LARGEST = 0.2
"""The share of items that shared texts may chain together before texts take the place of clusters: one fold of five."""


@dataclass(frozen=True)
class Comparisons:
    """n items with N candidates in all; row `starts[i] + j` is the j-th candidate, by text, of item i."""

    items: tuple[Item, ...]
    orders: tuple[tuple[int, ...], ...]
    """Per item: the places of its candidates, sorted by text."""

    @cached_property
    def texts(self) -> list[str]:
        """The N candidates."""
        return [item.candidates[index] for item, order in zip(self.items, self.orders, strict=True) for index in order]

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
        """(L,): which candidates, by text, are preferred; L is n where one candidate of each item is."""
        pairs = zip(self.items, self.orders, strict=True)
        best = [sorted(order.index(index) for index in item.best) for item, order in pairs]
        return np.array([index for indices in best for index in indices], dtype=np.intp)

    @cached_property
    def bests(self) -> IntArray:
        """(n,): how many candidates of each item are preferred."""
        return np.array([len(item.best) for item in self.items], dtype=np.intp)

    @cached_property
    def labelled(self) -> IntArray:
        """(L,): the item of each label."""
        return np.repeat(np.arange(len(self.items)), self.bests).astype(np.intp)

    def by_item(self, values: FloatArray) -> FloatArray:
        """Return (n, ...): the sums over each item's labels of (L, ...) values."""
        if len(values) == len(self.items):
            return values
        return np.add.reduceat(values, (self.bests.cumsum() - self.bests).astype(np.intp), axis=0)

    @property
    def clusters(self) -> list[str]:
        """The cluster of each item."""
        return [item.cluster for item in self.items]

    @property
    def prompts(self) -> list[str]:
        """The prompt of each item, which clusters may share."""
        return [item.crossed for item in self.items]

    @cached_property
    def owner(self) -> IntArray:
        """(n,): the number of each item's cluster, clusters sorted by name."""
        return codes(self.clusters)

    @cached_property
    def shared(self) -> bool:
        """True where two clusters share a prompt or an answer."""
        return bool(self._component.max() < self.owner.max()) if len(self.items) else False

    @cached_property
    def crossed(self) -> bool:
        """True where shared texts chain more than LARGEST of the items, of several clusters, into one component."""
        if not self.shared:
            return False
        sizes = np.bincount(self._component)
        largest = self._component == int(sizes.argmax())
        return bool(sizes.max() > LARGEST * len(self.items) and len(np.unique(self.owner[largest])) > 1)

    @property
    def sharing(self) -> Sharing:
        """How clusters share texts, which decides what folds and relabellings keep whole."""
        return "crossed" if self.crossed else "together" if self.shared else "apart"

    @cached_property
    def unit(self) -> IntArray:
        """(n,): what is kept whole, in one fold and under one sign: clusters that share no text with others.

        Where shared texts chain too many clusters together, the texts that go together instead: held-out items then
        share neither a text nor a cluster with those trained on, and the test asks both kinds.
        """
        return self._texts if self.crossed else self._component

    @cached_property
    def unlinked(self) -> bool:
        """False where texts alone chain more than half of the items together: then nothing can be held out."""
        return not self.crossed or bool(np.bincount(self._texts).max() <= len(self.items) / 2)

    @cached_property
    def _component(self) -> IntArray:
        """(n,): clusters and the texts that they share, connected; numbered as the first of their clusters by name."""
        component = _connected([*self._holdings(), (np.arange(len(self.items)), self.owner)])
        return _by_first(component, self.owner)

    @cached_property
    def _texts(self) -> IntArray:
        """(n,): items whose prompt or an answer is the same, connected; by prompt alone where that is too much.

        An answer that very many prompts share ("Yes.", "I cannot help with that.") would make all items one.
        """
        every = np.arange(len(self.items))
        component = _connected([*self._holdings(), (every, every)])
        if np.bincount(component).max() > LARGEST * len(self.items):
            component = self._holdings()[0][1]
        return _by_first(component, every)

    def _holdings(self) -> list[tuple[IntArray, IntArray]]:
        """Return which item has which prompt, and which has which answer."""
        return [
            (np.arange(len(self.items)), codes([item.crossed for item in self.items])),
            (self.owners, codes(self.texts)),
        ]

    @property
    def chance(self) -> float:
        """The accuracy of a guess that knows nothing."""
        return float((self.bests / self.sizes).mean())

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
        """(n,): the number of each item's set of candidates; items of one unit with the same texts share it."""
        first = np.unique(self.unit, return_index=True)[1]
        names = [
            repr((self.items[int(first[unit])].cluster, [item.candidates[index] for index in order]))
            for item, order, unit in zip(self.items, self.orders, self.unit.tolist(), strict=True)
        ]
        return codes(names)

    @cached_property
    def settled(self) -> bool:
        """True where every answer wins equally often among the items that share prompt and answers: people disagree.

        Then prompt and answers together are at chance, for any classifier.
        """
        if not len(self.items):
            return False
        pairs = zip(self.answer_sets.tolist(), self.items, strict=True)
        return self._even(codes([f"{number}|{item.crossed}" for number, item in pairs]))

    @cached_property
    def balanced(self) -> bool:
        """True where every answer wins equally often among the items that share it: answers alone are at chance."""
        return bool(len(self.items)) and self._even(self.answer_sets)

    def _even(self, groups: IntArray) -> bool:
        for members in self._members(groups[self.labelled]):
            wins = np.bincount(self.labels[members], minlength=int(self.sizes[self.labelled[members[0]]]))
            if wins.min() != wins.max():
                return False
        return True

    @cached_property
    def uneven(self) -> bool:
        """True where relabelling cannot keep all that items have in common: the spread must be looked at as well.

        That is a unit with several sets of three or more answers: no relabelling turns all of its preferences around
        at once. Or clusters and texts that cross: turning the texts around keeps nothing of the clusters.
        """
        if self.crossed:
            return True
        for members in self._members(self.unit):
            if len(set(self.answer_sets[members].tolist())) > 1 and self.sizes[members].max() > 2:
                return True
        return False

    def relabelled(self, times: int, seed: int) -> IntArray:
        """Return (L, times) labels, each column as likely as the true one if the answers say nothing of the label.

        Items that share their answers get one permutation of them. With two candidates a whole unit is turned around
        at once, so a user who always wants the short answer stays one who always wants the same kind, and what two
        users said of one text stays the same or the opposite.
        """
        rng = np.random.default_rng([seed, 1])
        turned = rng.integers(0, 2, (int(self.unit.max()) + 1, times), dtype=np.int8)
        labels = np.where(turned[self.unit[self.labelled]] == 1, 1 - self.labels[:, None], self.labels[:, None])
        for members in self._members(self.answer_sets[self.labelled]):
            size = int(self.sizes[self.labelled[members[0]]])
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
        """Return (n, B): what scores (N, B) earn where labels (L, B) are preferred; ties share the credit."""
        earned = np.empty(labels.shape)
        for size in np.unique(self.sizes).tolist():
            members = np.flatnonzero(self.sizes == size)
            each = scores[self.starts[members, None] + np.arange(size)]
            top: BoolArray = each >= each.max(axis=1, keepdims=True) - 1e-9
            own = np.flatnonzero(self.sizes[self.labelled] == size)
            holder = np.searchsorted(members, self.labelled[own])
            won = np.take_along_axis(top[holder], labels[own, None], axis=1)[:, 0]
            earned[own] = won / top.sum(axis=1)[holder]
        return self.by_item(earned)

    def means(self, values: FloatArray) -> ClusterMeans:
        """Return the mean of (n,) values over units, or over clusters and the texts that cross them."""
        if self.crossed:
            return cluster_means(values, self.clusters, crossed=[f"{unit:09}" for unit in self.unit.tolist()])
        return cluster_means(values, [f"{unit:09}" for unit in self.unit.tolist()])


def comparisons(items: Sequence[Item]) -> Comparisons:
    """Return the items with a candidate that is better than another, sorted by id."""
    subset = sorted((item for item in items if len(set(item.grades)) > 1), key=lambda item: item.id)
    orders = [
        tuple(sorted(range(len(item.candidates)), key=lambda index: _text_and_id(item, index))) for item in subset
    ]
    return Comparisons(tuple(subset), tuple(orders))


def _connected(holdings: Sequence[tuple[IntArray, IntArray]]) -> IntArray:
    """Return for each item the number of its component; each holding is items, and what each of them holds."""
    count, nodes = int(max(items.max() for items, _ in holdings)) + 1, 0
    first, second = [], []
    for items, contents in holdings:
        first.append(items)
        second.append(contents + count + nodes)
        nodes += int(contents.max()) + 1
    ends = np.concatenate(first), np.concatenate(second)
    graph = sparse.coo_array((np.ones(len(ends[0])), ends), shape=(count + nodes, count + nodes))
    return np.asarray(csgraph.connected_components(graph, directed=False)[1][:count], dtype=np.intp)


def _by_first(groups: IntArray, order: IntArray) -> IntArray:
    """Return the groups renumbered by the least of `order` in each."""
    least = np.full(int(groups.max()) + 1, np.iinfo(np.intp).max)
    np.minimum.at(least, groups, order)
    return np.unique(least[groups], return_inverse=True)[1].astype(np.intp)


def _text_and_id(item: Item, index: int) -> tuple[str, str]:
    return item.candidates[index], item.candidate_ids[index] if item.candidate_ids else ""


def _helmert(size: int) -> FloatArray:
    """Return (size, size - 1): orthonormal columns, each orthogonal to ones."""
    columns = np.zeros((size, size - 1))
    for index in range(1, size):
        columns[:index, index - 1] = 1
        columns[index, index - 1] = -index
    unit: FloatArray = columns / np.sqrt((columns**2).sum(axis=0))
    return unit

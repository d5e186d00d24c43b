"""What predicts a person's judgment without any model: the ladder of floors that a model has to climb.

Each floor sees other judgments than the one it predicts: other people's, or the same person's of other panels.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pluralrm.core import Estimate, Item
from pluralrm.metrics.shares import CrossedJudgments, Moments, exists, shared_votes, sums_by
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray

_FILE_PLACE = re.compile(r"(.*?)([a-z]|\d{1,2})", re.IGNORECASE | re.DOTALL)
_SETTLED = 0.99
"""A place in the file that is preferred so often is how the file was written, and no habit of people."""
_WEIGHTS, _SHRINKAGE = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0), (1.0, 4.0)
"""What agreement on other panels may count for, and how many panels without agreement are added to it."""
_DENSE = 4_000
"""Up to so many people a table of all pairs of people is kept in full."""


class Floors:
    """What predicts a judgment without a model, each from other judgments than the one it predicts."""

    def __init__(self, judged: CrossedJudgments) -> None:
        cells, judgments = judged.cells, judged.judgments
        self.cells, self.cell, self.widths, self.crossed = cells, judged.cell, judged.widths, judged.crossed
        self.moments = Moments(cells)
        self._exists = exists(judgments)
        self._votes = shared_votes(judgments)
        self._best = self._votes > 0
        self._places = _places(judged.items)
        panel_votes = sums_by(cells.panel, cells.votes)[cells.panel]
        self.majority = panel_votes - cells.votes
        fellows = sums_by(cells.panel_group, cells.votes)[cells.panel_group] - cells.votes
        self.fellows = np.where(self.moments.has("group")[:, None], fellows, self.majority)

    def credits(self, *, grouped: bool) -> dict[str, FloatArray]:
        """Return for each floor the credit of every judgment of a panel that several people judged."""
        cell, rows = self.cell, self.crossed[self.cell]
        others = np.bincount(self.cells.panel)[self.cells.panel] - 1
        floors = {
            "position habit": self._top_credit(self._habit()),
            "another person": self._vote_credit((self.majority / np.maximum(others, 1)[:, None])[cell]),
        }
        if grouped:
            members = np.where(self.moments.has("group"), self.moments.partners["group"], others)
            floors["another person of the group"] = self._vote_credit(
                (self.fellows / np.maximum(members, 1)[:, None])[cell]
            )
        floors["majority of the item"] = self._top_credit(self.majority[cell])
        if grouped:
            floors["majority of the group"] = self._top_credit((self.fellows + 1e-6 * self.majority)[cell])
        floors["nearest neighbours"] = self._neighbours()
        return {name: credit[rows] for name, credit in floors.items()}

    def again(self) -> tuple[FloatArray, BoolArray]:
        """Return how well a person's other judgments of a panel predict each, and of which there are others."""
        count = self.cells.counts[self.cell]
        centred = self._votes - self._exists / self.widths[self.cell][:, None]
        other = (count[:, None] * self.cells.votes[self.cell] - centred) / np.maximum(count - 1, 1)[:, None]
        return self._vote_credit(other), (count > 1) & self.crossed[self.cell]

    def chance(self) -> FloatArray:
        """Return what knowing nothing earns."""
        credit: FloatArray = self._best.sum(axis=1) / self.widths[self.cell]
        return credit

    def _top_credit(self, scores: FloatArray) -> FloatArray:
        scores = np.where(self._exists, scores, -np.inf)
        tops = scores >= scores.max(axis=1, keepdims=True) - 1e-9
        credit: FloatArray = (tops & self._best).sum(axis=1) / tops.sum(axis=1)
        return credit

    def _vote_credit(self, centred: FloatArray) -> FloatArray:
        """Return how often a draw from votes is right."""
        votes = centred + 1 / self.widths[self.cell][:, None]
        credit: FloatArray = (votes * self._best).sum(axis=1)
        return credit

    def _habit(self) -> FloatArray:
        """Return how often the other half of the people prefers each place, of items that are as wide.

        By halves: where all but the person vote, two places that are preferred alike turn every person's own around.
        """
        size = self._exists.shape[1]
        key = (self.widths[self.cell].astype(np.intp) * size)[:, None] + self._places.astype(np.intp)
        half = self.cells.person[self.cell] % 2
        votes = [
            np.bincount(key[half == side].ravel(), self._votes[half == side].ravel(), key.max() + 1) for side in (0, 1)
        ]
        habit: FloatArray = np.where(half[:, None] == 0, votes[1][key], votes[0][key])
        return habit

    def _neighbours(self) -> FloatArray:
        """Return the credit of votes weighted by agreement on other panels; weights are chosen on the other half."""
        choices = [
            self._top_credit((self.majority + weight * sums)[self.cell])
            for sums in self._agreeing()
            for weight in _WEIGHTS
        ]
        credit, half = np.array(choices), self.cells.panel[self.cell] % 2
        rows = self.crossed[self.cell]
        best = [credit[:, rows & (half != side)].sum(axis=1).argmax() if rows.any() else 0 for side in (0, 1)]
        result: FloatArray = np.where(half == 0, credit[best[0]], credit[best[1]])
        return result

    def _agreeing(self) -> list[FloatArray]:
        """Return for each shrinkage the votes of the others, each times its agreement with the person elsewhere."""
        from scipy.sparse import csr_matrix

        cells, width = self.cells, self.cells.votes.shape[1]
        people = int(cells.person.max()) + 1
        where = np.flatnonzero(self.crossed)
        column = (cells.panel[where, None] * width + np.arange(width)).ravel()
        votes = csr_matrix((cells.votes[where].ravel(), (np.repeat(cells.person[where], width), column)))
        met = csr_matrix((np.ones(len(where)), (cells.person[where], cells.panel[where])))
        agreement, meetings = (votes @ votes.T).tocsr(), (met @ met.T).tocsr()
        if people <= _DENSE:
            agreement, meetings = agreement.toarray(), meetings.toarray()
        scale = max(float(cells.squares.mean()), 1e-9)
        sums = [np.zeros_like(cells.votes) for _ in _SHRINKAGE]
        order = where[np.argsort(cells.panel[where], kind="stable")]
        for members in np.split(order, np.flatnonzero(np.diff(cells.panel[order])) + 1) if len(order) else ():
            who, own = cells.person[members], cells.votes[members]
            alike, count = _square(agreement, who) - own @ own.T, _square(meetings, who) - 1
            np.fill_diagonal(alike, 0)
            for total, shrinkage in zip(sums, _SHRINKAGE, strict=True):
                total[members] = (alike / (np.maximum(count, 0) + shrinkage)) @ own / scale
        return sums


def _square(table: Any, who: IntArray) -> FloatArray:  # noqa: ANN401 - an array, or a sparse matrix of scipy
    part = table[np.ix_(who, who)] if isinstance(table, np.ndarray) else table[who][:, who].toarray()
    result: FloatArray = np.asarray(part, dtype=np.float64)
    return result


def _places(items: Sequence[Item]) -> FloatArray:
    """Return (N, K): the place of each candidate, in the order of their texts: in the file where all ids tell it."""
    order = [sorted(range(len(item.candidates)), key=item.candidates.__getitem__) for item in items]
    width = max(map(len, order))
    in_file = _file_order([item.candidate_ids for item in items], width)
    first = Counter(ranks[item.best[0]] for item, ranks in zip(items, in_file, strict=False) if item.best)
    settled = max(first.values(), default=0) > _SETTLED * first.total()
    chosen = [list(range(len(ranks))) for ranks in order] if settled or not in_file else in_file
    places = np.zeros((len(items), width))
    for index, (ranks, ordinals) in enumerate(zip(order, chosen, strict=True)):
        places[index, : len(ranks)] = [ordinals[rank] for rank in ranks]
    return places


def _file_order(names: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Return each candidate's place in the file by ids such as `response_a` or `answer2`; nothing where ids differ.

    An item may lack a place, as `a, c, d` where b was empty: those that there are count from 0.
    """
    ends: list[list[str]] = []
    for ids in names:
        matches = [match for match in map(_FILE_PLACE.fullmatch, ids) if match]
        if len(matches) < max(len(ids), 1) or len({match[1] for match in matches}) > 1:
            return []
        ends.append([match[2].lower() for match in matches])
    ranks = [[int(end) if end.isdigit() else ord(end) - ord("a") for end in row] for row in ends]
    slots = {rank for row in ranks for rank in row}
    if min(slots) > 1 or max(slots) - min(slots) >= width or any(len(set(row)) < len(row) for row in ranks):
        return []
    return [[sorted(row).index(rank) for rank in row] for row in ranks]


def ladder(judged: CrossedJudgments) -> dict[str, Estimate]:
    """Return the accuracy of each floor, over the judgments of panels that several people judged."""
    floors = Floors(judged)
    rows = floors.crossed[floors.cell]
    chance = float(floors.chance()[rows].mean())
    result = {"chance": Estimate(chance, None, None, int(rows.sum()), 0, "fixed by design: 1 / candidates")}
    columns = [(name, credit, rows) for name, credit in floors.credits(grouped=bool(judged.traits)).items()]
    credit, mask = floors.again()
    if mask.any():
        columns.append(("the person again", credit[mask], mask))
    for name, values, mask in columns:
        judgments = [judged.judgments[index] for index in np.flatnonzero(mask)]
        means = cluster_means(values, [each.person for each in judgments], crossed=[each.prompt for each in judgments])
        value, low, high, method = share_interval(means)
        result[name] = Estimate(value, low, high, len(judgments), 0, f"leave-one-out; {method}")
    return result

"""Users and halves of their items: who is picked on one half is measured on the other."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pluralrm.stats.clusters import FloatArray, IntArray, Spread, two_way
from pluralrm.stats.intervals import Interval, few, t_quantile, unvaried, wilson

SPLITS = 10
_ADDED = 4.0
"""Items at the model's mean that are added to a user's before the user, or the user's best model, is picked."""


class Halves(NamedTuple):
    """One split, in one direction: the items on which users are picked, and those on which they are measured."""

    pick: NDArray[np.bool_]
    measure: NDArray[np.bool_]


class SplitSums(NamedTuple):
    """What a split gives, of the users who can be split alone."""

    shrunk: FloatArray
    """(V, M): the accuracy that picks."""
    pick: FloatArray
    """(V, M): the sums on the half that picks."""
    mean: FloatArray
    """(V, M): the accuracy that is measured."""
    weights: FloatArray
    """(n,): 1 / items on the half that measures, 0 on the other half."""


class PickedMean(NamedTuple):
    """A number for each model (M,), and what each item (n, M) adds to its error."""

    values: FloatArray
    influence: FloatArray


@dataclass(frozen=True)
class UserItems:
    """What models earned on items (n,) of users, who may share prompts; users and prompts are numbered from 0."""

    users: IntArray
    prompts: IntArray
    crossed: bool
    """Whether users share prompts."""
    earned: FloatArray
    """(n, M)"""
    seed: int = 0

    @cached_property
    def sizes(self) -> FloatArray:
        """(users,): items of each."""
        return np.bincount(self.users).astype(np.float64)

    @cached_property
    def cells(self) -> IntArray:
        """(n,): the number of each item's pair of user and prompt, sorted by user."""
        return np.unique(self.users * (self.prompts.max() + 1) + self.prompts, return_inverse=True)[1].astype(np.intp)

    @cached_property
    def split(self) -> NDArray[np.bool_]:
        """(users,): whether a user has two prompts, so that their items can be split."""
        return np.bincount(self.users[self.firsts]) > 1

    @cached_property
    def firsts(self) -> IntArray:
        """The first item of each pair of user and prompt."""
        return np.unique(self.cells, return_index=True)[1].astype(np.intp)

    @cached_property
    def halves(self) -> list[Halves]:
        """Seeded splits, each in both directions; the items of users with one prompt are in neither half."""
        rng = np.random.default_rng(self.seed)
        owners, prompts = self.users[self.firsts], self.prompts[self.firsts]
        count = np.bincount(owners)
        start = np.cumsum(count) - count
        inside = self.split[self.users]
        result = []
        for _ in range(SPLITS * bool(self.split.any())):
            order = np.lexsort((rng.permutation(prompts.max() + 1)[prompts], owners))
            rank = np.empty(len(order), dtype=np.intp)
            rank[order] = np.arange(len(order))
            odd = rng.integers(0, 2, len(count))
            lower = (2 * (rank - start[owners]) + odd[owners] < count[owners])[self.cells]
            result += [Halves(lower & inside, ~lower & inside), Halves(~lower & inside, lower & inside)]
        return result

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sums over each user's items of columns (n, M)."""
        return np.stack([np.bincount(self.users, column, len(self.sizes)) for column in values.T], axis=1)

    @cached_property
    def splits(self) -> list[SplitSums]:
        """What each split gives."""
        return [self._split(half) for half in self.halves]

    def _split(self, halves: Halves) -> SplitSums:
        inside = self.split
        sizes = [np.bincount(self.users, half, len(self.sizes))[inside, None] for half in halves]
        pick, measure = (self.sums(self.earned * half[:, None])[inside] for half in halves)
        shrunk = (pick + _ADDED * pick.sum(axis=0) / sizes[0].sum()) / (sizes[0] + _ADDED)
        weights = halves.measure * self.by_item(1 / sizes[1][:, 0])
        return SplitSums(shrunk, pick, measure / sizes[1], weights)

    def by_item(self, values: FloatArray) -> FloatArray:
        """Return for each item the value (V, ...) of its user; 0 where the user cannot be split."""
        whole = np.zeros((len(self.sizes), *values.shape[1:]))
        whole[self.split] = values
        each: FloatArray = whole[self.users]
        return each

    def spread(self, influence: FloatArray) -> Spread:
        """Return the variance of a number from what each item adds to its error, robust to users and to prompts.

        Who is picked depends on all prompts of a user. So users also count as alike by the share of prompts that they
        have in common, and the larger variance is taken: users with the same prompts and answers are one user.
        """
        own = _spread(self.users, influence)
        if not self.crossed:
            return own
        both = two_way(own, *(_spread(names, influence) for names in (self.prompts, self.cells)))
        users, prompts = self.users[self.firsts], self.prompts[self.firsts]
        errors = np.bincount(self.users, influence) / np.sqrt(np.bincount(users))
        alike = float((np.bincount(prompts, errors[users]) ** 2).sum())
        return Spread(max(both.variance, alike), both.df)

    def shared(self, influence: FloatArray) -> Spread:
        """Return what is added to the variance of a number because users share prompts."""
        prompts, cells = (_spread(names, influence) for names in (self.prompts, self.cells))
        return Spread(max(0.0, prompts.variance - cells.variance), prompts.df)

    def interval(self, value: float, influence: FloatArray, *, floor: float = 0.0, level: float = 0.95) -> Interval:
        """Return the ends of a score interval of a mean of values between `floor` and 1."""
        members = len(np.unique(self.users[influence != 0])) or len(self.sizes)
        variance, df = self.spread(influence)
        share, width = (value - floor) / (1 - floor), 1 - floor
        if variance <= 1e-24 or not 0 < share < 1:
            draws = float(min(members, int(self.prompts.max()) + 1) if self.crossed else members)
            low, high = unvaried(min(1.0, max(floor, value)), draws, level=level, floor=floor)
            return Interval(value, low, high, f"Wilson interval, equal in all of {few(members)}")
        low, high = wilson(share, share * (1 - share) * width**2 / variance, t_quantile(df, level))
        users = few(members).replace("clusters", "users")
        users += f" × {int(self.prompts.max()) + 1:,} prompts" * self.crossed
        method = f"{'two-way ' * self.crossed}cluster-robust score interval, {users}"
        return Interval(value, floor + width * low, floor + width * high, method)


def _spread(names: IntArray, influence: FloatArray) -> Spread:
    """Return the variance of a sum of independent parts with mean 0, and its degrees of freedom."""
    sums = np.bincount(names, influence).astype(np.float64)
    sums = sums[sums != 0]
    size, squares = len(sums), sums**2
    if size < 2:
        return Spread(0.0, 0.0)
    total = float(squares.sum())
    excess = float((squares**2).sum()) - total**2 / size
    return Spread(total * size / (size - 1), min(size - 1.0, 2 * total**2 / excess if excess > 0 else np.inf))

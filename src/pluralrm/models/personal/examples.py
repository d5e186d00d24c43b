"""Users as arrays: labelled pairs and posts, as features alone. Who is held out is derived from the seed and the id."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from pluralrm.errors import ModelError

FloatArray = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


class UserExamples(NamedTuple):
    """One user in features of width d. A question and its answer are one text; `prompts` has the question alone."""

    user: str
    posts: FloatArray
    """(p, d)"""
    prompts: FloatArray
    """(n, d)"""
    preferred: FloatArray
    """(n, d)"""
    other: FloatArray
    """(n, d)"""

    @property
    def pairs(self) -> int:
        """How many labelled pairs there are."""
        return len(self.preferred)

    @property
    def differences(self) -> FloatArray:
        """Preferred minus other, (n, d)."""
        return self.preferred - self.other

    def only(self, places: slice) -> "UserExamples":
        """Return the user with some of the pairs and all posts."""
        return self._replace(prompts=self.prompts[places], preferred=self.preferred[places], other=self.other[places])


def nobody(width: int) -> UserExamples:
    """Return a user of whom nothing is known."""
    none = np.zeros((0, width), np.float32)
    return UserExamples("", none, none, none, none)


class PlacedUser(NamedTuple):
    """A user as places in a matrix of features: one row for each post, and three for each pair."""

    user: str
    posts: Places
    prompts: Places
    preferred: Places
    other: Places


class Examples(Sequence[UserExamples]):
    """Users whose rows lie in one matrix, which may be on disk: a user's rows are read when the user is asked for."""

    def __init__(self, matrix: FloatArray, users: Sequence[PlacedUser]) -> None:
        self._matrix = matrix
        self._users = users

    def __len__(self) -> int:
        return len(self._users)

    def __iter__(self) -> Iterator[UserExamples]:
        return (self._read(each) for each in self._users)

    @overload
    def __getitem__(self, index: int) -> UserExamples: ...

    @overload
    def __getitem__(self, index: slice) -> "Examples": ...

    def __getitem__(self, index: int | slice) -> "UserExamples | Examples":
        if isinstance(index, slice):
            return Examples(self._matrix, self._users[index])
        return self._read(self._users[index])

    def _read(self, placed: PlacedUser) -> UserExamples:
        rows = (np.asarray(self._matrix[places]) for places in placed[1:])
        return UserExamples(placed.user, *rows)


Judged = Mapping[str, Sequence[tuple[str, Sequence[str]]]]
"""What each user judged: prompts, and the answers to each."""


def split_held_out(judged: Judged, share: float, seed: int) -> frozenset[str]:
    """Return the users who are held out: about a share of them, at least one, never all.

    Users who judged a prompt or an answer in common stay together, so that no one is held out whose texts are trained
    on. Each lot follows from the seed and the id of the first user who stays together, so users who share nothing
    change no other user's. Fewer than two users are an error.
    """
    if len(judged) < 2:
        count = len(judged)
        raise ModelError(f"found {count} users with labelled pairs, wanted at least 2: one to train, one held out")
    first = together(judged, share)
    groups = {name: [user for user in judged if first[user] == name] for name in sorted(set(first.values()))}
    lots = {name: random.Random(f"{seed}:{name}").random() for name in groups}
    order = sorted(groups, key=lambda name: (lots[name], name))
    count = sum(lot < share for lot in lots.values())
    names = order[: min(max(count, 1), len(groups) - 1)]
    return frozenset(user for name in names for user in groups[name])


def together(judged: Judged, share: float) -> dict[str, str]:
    """Return for each user the first of those, by id, who judged prompts or answers in common, in chains.

    Where prompts chain more users together than the share to hold out, answers alone count; where those do too, each
    user is alone: so few groups would be another split than was asked for.
    """
    by_answer = {user: {text for _, answers in pairs for text in answers} for user, pairs in judged.items()}
    by_both = {user: texts | {f"\0{prompt}" for prompt, _ in judged[user]} for user, texts in by_answer.items()}
    for texts in (by_both, by_answer):
        first = _chained(texts)
        if max(Counter(first.values()).values()) <= max(len(judged) * share, 1):
            return first
    return {user: user for user in judged}


def _chained(texts: Mapping[str, AbstractSet[str]]) -> dict[str, str]:
    """Return for each user the first, by id, with whom texts connect it."""
    above: dict[str, str] = {user: user for user in texts}

    def root(user: str) -> str:
        while above[user] != user:
            above[user] = user = above[above[user]]
        return user

    holder: dict[str, str] = {}
    for user in sorted(texts):
        for text in texts[user]:
            first, other = sorted((root(holder.setdefault(text, user)), root(user)))
            above[other] = first
    return {user: root(user) for user in texts}

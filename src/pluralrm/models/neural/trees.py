"""A group of asks as a tree, and trees as packs: every distinct token of a group is computed once.

A tree has a root, the longest common prefix of its sequences, and leaves, their distinct continuations. A pack is what
one pass through the network computes: pieces of trees, laid flat, at most about a budget of tokens.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pluralrm.models.neural.asks import Ask

ROOT = -1
"""The name of the root among the nodes of a tree; leaves count from 0."""


class Tree(NamedTuple):
    """Token ids: the shared root, the distinct leaves (none is empty), and per ask the node in which it ends."""

    root: tuple[int, ...]
    leaves: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """How many tokens have to be computed."""
        return len(self.root) + sum(map(len, self.leaves))

    def node(self, name: int) -> tuple[int, ...]:
        """The ids of the root or of a leaf."""
        return self.root if name == ROOT else self.leaves[name]

    def place(self, ask: int, position: int) -> tuple[int, int]:
        """Return the node, and the offset in it, of a position of an ask's sequence."""
        inside = position < len(self.root)
        return (ROOT, position) if inside else (self.ends[ask], position - len(self.root))


class Piece(NamedTuple):
    """Tokens [first, last) of one node of one tree."""

    tree: int
    node: int
    first: int
    last: int


def grow(asks: Sequence[Ask]) -> Tree:
    """Return the tree of a group; sequences that are equal as far as they are needed are one."""
    sequences = [ask.needed for ask in asks]
    cut = common_prefix(sequences)
    leaves = {sequence[cut:]: None for sequence in sequences if len(sequence) > cut}
    names = {leaf: name for name, leaf in enumerate(leaves)}
    return Tree(sequences[0][:cut], tuple(leaves), tuple(names.get(sequence[cut:], ROOT) for sequence in sequences))


def common_prefix(sequences: Sequence[tuple[int, ...]]) -> int:
    """Return the length of the longest common prefix: that of the least and the greatest sequence."""
    low, high = min(sequences), max(sequences)
    equal, unequal = 0, min(len(low), len(high)) + 1
    while unequal - equal > 1:  # bisected by comparing slices, which is quicker than token by token
        middle = (equal + unequal) // 2
        equal, unequal = (middle, unequal) if low[equal:middle] == high[equal:middle] else (equal, middle)
    return equal


def packs(trees: Sequence[Tree], budget: int) -> list[list[Piece]]:
    """Return the packs of some trees, in the order in which they have to be computed.

    A root longer than the budget is cut into even chunks. A leaf stays whole: a pack is larger than the budget only
    where one leaf is.
    """
    result: list[list[Piece]] = [[]]
    used = 0
    for piece in _pieces(trees, budget):
        length = piece.last - piece.first
        if used and used + length > budget:
            result.append([])
            used = 0
        result[-1].append(piece)
        used += length
    return result


def _pieces(trees: Sequence[Tree], budget: int) -> Iterator[Piece]:
    for number, tree in enumerate(trees):
        length = len(tree.root)
        chunks = -(-length // budget)
        for chunk in range(chunks):
            yield Piece(number, ROOT, chunk * length // chunks, (chunk + 1) * length // chunks)
        for name, leaf in enumerate(tree.leaves):
            yield Piece(number, name, 0, len(leaf))

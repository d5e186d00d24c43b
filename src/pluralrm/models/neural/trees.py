"""What a kind of reward model asks of its network, a group of asks as a tree, and trees as packs.

An ask is a sequence and the positions whose states are read. A tree has a root, the longest common prefix of a group's
sequences, and leaves, their distinct continuations: every distinct token of a group is computed once. A pack is what
one pass through the network computes: pieces of trees, laid flat, at most about a budget of tokens.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class StateRequest(NamedTuple):
    """A whole sequence of token ids and the ascending positions whose last hidden states are needed."""

    ids: tuple[int, ...]
    wanted: tuple[int, ...]
    targets: tuple[int, ...] = ()
    """Per wanted position, the token whose log-prob is read there; none for a scalar head."""
    second: int = 0
    """Where the second text of a pair begins, for encoders that tell the two apart; 0 where there is one text."""

    @property
    def needed(self) -> tuple[int, ...]:
        """The tokens that have to be computed: nothing after the last wanted position can reach it."""
        return self.ids[: self.wanted[-1] + 1]


def rated(ids: Sequence[int], start: int, end: int) -> StateRequest:
    """Return the Ask for the log-probs of the tokens in [start, end); each is read in the state before it."""
    if not 0 < start < end <= len(ids):
        raise ValueError(f"no token to rate in [{start}, {end}) of {len(ids)}: the first has nothing before it")
    return StateRequest(tuple(ids), tuple(range(start - 1, end - 1)), tuple(ids[start:end]))


def pooled(ids: Sequence[int], pad: int | None) -> StateRequest:
    """Return the Ask for a head's score, at the position where transformers pools.

    That is the last token that is not `config.pad_token_id`, or the last one where the config names no pad token or
    nothing else is there.
    """
    last = next((index for index in range(len(ids) - 1, -1, -1) if ids[index] != pad), None)
    if last is None:
        last = len(ids) - 1 if pad is None else 0
    return StateRequest(tuple(ids), (last,))


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


def grow(asks: Sequence[StateRequest]) -> Tree:
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

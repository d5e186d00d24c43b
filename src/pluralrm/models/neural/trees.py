"""What a kind of reward model asks of its network, asks of neighbouring groups as tries, and tries as packs.

An ask is a sequence and the positions whose states are read. A trie holds the sequences of some groups so that every
distinct token is computed once: chains, each of which continues another from some token on. A pack is what one pass
through the network computes: pieces of chains, laid flat, at most a budget of tokens.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
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


ROOTLESS = -1
"""The parent of a chain that begins with the first token of a sequence."""


class Chain(NamedTuple):
    """Neighbouring tokens, none of which another chain holds, that continue a part of another chain."""

    ids: tuple[int, ...]
    before: int
    """How many tokens stand before the first: its position."""
    parent: int = ROOTLESS
    """The chain that holds the token before the first."""


class Trie(NamedTuple):
    """The chains of some groups, each right before those that continue it, and per group and ask where it ends."""

    chains: tuple[Chain, ...]
    ends: tuple[tuple[int, ...], ...]
    """A chain that the ask's last token lies in, or before which it lies."""

    @property
    def tokens(self) -> int:
        """How many tokens have to be computed."""
        return sum(len(chain.ids) for chain in self.chains)

    def locate(self, group: int, ask: int, position: int) -> tuple[int, int]:
        """Return the chain, and the offset in it, of a position of an ask's sequence."""
        name = self.ends[group][ask]
        while position < self.chains[name].before:
            name = self.chains[name].parent
        return name, position - self.chains[name].before

    def path(self, name: int) -> list[tuple[int, int]]:
        """Return the chains that stand before a chain, the outermost first, and how many tokens of each."""
        chain, path = self.chains[name], []
        while chain.parent != ROOTLESS:
            parent = self.chains[chain.parent]
            path.append((chain.parent, chain.before - parent.before))
            chain = parent
        return path[::-1]


class Piece(NamedTuple):
    """Tokens [first, last) of one chain."""

    chain: int
    first: int
    last: int


def grow(groups: Sequence[Sequence[StateRequest]]) -> Trie:
    """Return the trie of some groups. A token has at most log2(sequences) chains before its own.

    Where sequences part, the chain continues with the part that most of them share, and the others begin chains.
    """
    distinct = {ask.needed for group in groups for ask in group}
    cut = common_prefix(distinct)
    sequences = sorted(distinct, key=lambda ids: ids[cut:])  # thousands of candidates may have a long prompt in common
    shared = [common_prefix(pair) for pair in pairwise(sequences)]
    # A sequence that another one begins with comes right before it: it ends on the way.
    leaf_of: dict[tuple[int, ...], int] = {}
    leaves: list[tuple[int, ...]] = []
    parting: list[int] = []
    for sequence, length in zip(sequences, [*shared, 0], strict=True):
        leaf_of[sequence] = len(leaves)
        if length < len(sequence):
            leaves.append(sequence)
            parting.append(length)
    before, parent = _parents(len(leaves), parting[:-1])
    order = _in_depth(before, parent)
    name_of = {leaf: name for name, leaf in enumerate(order)} | {ROOTLESS: ROOTLESS}
    chains = tuple(Chain(leaves[leaf][before[leaf] :], before[leaf], name_of[parent[leaf]]) for leaf in order)
    return Trie(chains, tuple(tuple(name_of[leaf_of[ask.needed]] for ask in group) for group in groups))


def _parents(leaves: int, parting: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return per leaf how many tokens it leaves to its parent, and which leaf that is.

    `parting` has the common prefixes of neighbours. The longest are joined first, the smaller set of leaves to the
    larger: a leaf's tokens stand behind those of at most log2(leaves) others.
    """
    before, parent = [0] * leaves, [ROOTLESS] * leaves
    keeper, size = list(range(leaves)), [1] * leaves
    for left in sorted((leaf for leaf, length in enumerate(parting) if length), key=parting.__getitem__, reverse=True):
        small, large = sorted((_keeper(keeper, left), _keeper(keeper, left + 1)), key=size.__getitem__)
        keeper[small], size[large] = large, size[small] + size[large]
        before[small], parent[small] = parting[left], large
    for leaf in range(leaves):
        while parent[leaf] != ROOTLESS and before[parent[leaf]] == before[leaf]:
            parent[leaf] = parent[parent[leaf]]  # they part at one token: both hang on what stands before it
    return before, parent


def _keeper(keeper: list[int], leaf: int) -> int:
    while keeper[leaf] != leaf:
        keeper[leaf] = leaf = keeper[keeper[leaf]]
    return leaf


def _in_depth(before: Sequence[int], parent: Sequence[int]) -> list[int]:
    """Return all leaves, each followed by those that hang on it, by rising offset."""
    hanging: list[list[int]] = [[] for _ in range(len(before) + 1)]
    for leaf in sorted(range(len(before)), key=before.__getitem__, reverse=True):
        hanging[parent[leaf]].append(leaf)
    order, waiting = [], hanging[ROOTLESS][::-1]
    while waiting:
        order.append(leaf := waiting.pop())
        waiting += hanging[leaf]
    return order


def common_prefix(sequences: Collection[tuple[int, ...]]) -> int:
    """Return the length of the longest common prefix: that of the least and the greatest sequence."""
    low, high = min(sequences), max(sequences)
    equal, unequal = 0, min(len(low), len(high)) + 1
    while unequal - equal > 1:  # bisected by comparing slices, which is quicker than token by token
        middle = (equal + unequal) // 2
        equal, unequal = (middle, unequal) if low[equal:middle] == high[equal:middle] else (equal, middle)
    return equal


def packs(trie: Trie, budget: int) -> list[list[Piece]]:
    """Return the packs of a trie, in the order in which they have to be computed.

    None is larger than the budget: a longer chain is cut into even pieces.
    """
    result: list[list[Piece]] = [[]]
    used = 0
    for piece in _pieces(trie, budget):
        length = piece.last - piece.first
        if used + length > budget:
            result.append([])
            used = 0
        result[-1].append(piece)
        used += length
    return result


def _pieces(trie: Trie, budget: int) -> Iterator[Piece]:
    for number, chain in enumerate(trie.chains):
        length = len(chain.ids)
        pieces = -(-length // budget)
        for piece in range(pieces):
            yield Piece(number, piece * length // pieces, (piece + 1) * length // pieces)

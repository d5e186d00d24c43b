"""States of asks by packed trees, or by right-padded batches.

Packed: one flat sequence per pack, positions reset in every tree, no padding. The packs of one tree may run beside each
other: what a later one needs of the root, an earlier one has written a layer before.

Padded: each distinct sequence whole, of about equal length together. The way for decoders that packs do not serve, and
the check for packs. No attention mask is passed: under a causal mask nothing on the right reaches a real token.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

import torch

from pluralrm.models.neural import attention
from pluralrm.models.neural.attention import OwnRows, PackPart, PackPlan, Root, Span
from pluralrm.models.neural.trees import ROOT, Piece, StateRequest, Tree, packs

Group = Sequence[StateRequest]


class States(NamedTuple):
    """Hidden states, one row per wanted place, and for which ask of which group each row was computed."""

    rows: torch.Tensor
    """(places, width); a row may be wanted by several asks."""
    readings: list["StateReading"]


class StateReading(NamedTuple):
    """One wanted number: the row of its state, and where it belongs."""

    row: int
    group: int
    ask: int
    place: int
    """Which of the ask's wanted positions."""


Pass = Callable[[], States]
"""One pass through a network."""


class Packed:
    """Computes packs through a decoder whose attention is `attention.NAME`."""

    def __init__(self, decoder: torch.nn.Module, *, layers: Sequence[torch.nn.Module], prune: bool) -> None:
        self._decoder = decoder
        self._device = next(decoder.parameters()).device
        self._last = len(layers) - 1
        self._prune = prune
        if prune:
            _let_it_compute_rows(layers[-1])

    def passes(self, groups: Sequence[Group], trees: Sequence[Tree], budget: int) -> list[Pass]:
        """Return one pass per pack; they may run beside each other, if they begin in this order. Each runs once."""
        reads = _wanted(groups, trees)
        layout = packs(trees, budget)
        roots = _stored_roots(trees, layout)
        return [partial(self._pack, trees, pieces, roots, reads) for pieces in layout]

    def _pack(self, trees: Sequence[Tree], pieces: list[Piece], roots: "Roots", read_places: "ReadPlaces") -> States:
        try:
            return self._states(trees, pieces, roots, read_places)
        except BaseException:
            for root in roots.values():
                root.give_up()  # or a pass that waits for keys would wait for ever
            raise

    def _states(self, trees: Sequence[Tree], pieces: list[Piece], roots: "Roots", read_places: "ReadPlaces") -> States:
        starts = _starts(pieces)
        places = [
            (start + offset - piece.first, readings)
            for piece, start in zip(pieces, starts, strict=True)
            for offset, readings in sorted(read_places.get((piece.tree, piece.node), {}).items())
            if piece.first <= offset < piece.last
        ]
        reads = [row for row, _ in places]
        plan = self._plan(pieces, roots, reads)
        hidden = self._run(trees, pieces, plan)
        row_of = {row: number for number, row in enumerate(plan.rows)}
        rows = hidden[[row_of[row] for row in reads]] if reads else hidden[:0]
        readings = [StateReading(row, *which) for row, (_, several) in enumerate(places) for which in several]
        return States(rows, readings)

    def _plan(self, pieces: list[Piece], roots: "Roots", reads: list[int]) -> PackPlan:
        parts = _parts(pieces, roots)
        if not self._prune:
            length = sum(piece.last - piece.first for piece in pieces)
            return PackPlan(parts, -1, [], list(range(length)))
        last, rows = _narrowed(parts, reads)
        return PackPlan(parts, self._last, last, rows)

    def _run(self, trees: Sequence[Tree], pieces: list[Piece], plan: PackPlan) -> torch.Tensor:
        ids = [token for piece in pieces for token in trees[piece.tree].node(piece.node)[piece.first : piece.last]]
        positions = [position for piece in pieces for position in _positions(trees, piece)]
        inputs = torch.tensor([ids, positions], device=self._device)
        with attention.attending(plan):
            try:
                output = self._decoder(input_ids=inputs[:1], position_ids=inputs[1:], use_cache=False)
            except attention.Learned:  # the keys of a root were all that this pack was for
                return torch.empty(0, 0)
        return cast("torch.Tensor", output.last_hidden_state[0])


ReadPlaces = dict[tuple[int, int], dict[int, list[tuple[int, int, int]]]]
"""By tree and node, then by offset in the node: (group, ask, place) of everything that is read there."""
Roots = dict[int, Root]


def _wanted(groups: Sequence[Group], trees: Sequence[Tree]) -> ReadPlaces:
    reads: ReadPlaces = {}
    for number, (group, tree) in enumerate(zip(groups, trees, strict=True)):
        for name, ask in enumerate(group):
            for order, position in enumerate(ask.wanted):
                node, offset = tree.place(name, position)
                reads.setdefault((number, node), {}).setdefault(offset, []).append((number, name, order))
    return reads


def _stored_roots(trees: Sequence[Tree], layout: list[list[Piece]]) -> Roots:
    """Return a store for every root that a later pack than its first has to see."""
    packs_of: dict[int, set[int]] = {}
    for number, pieces in enumerate(layout):
        for piece in pieces:
            packs_of.setdefault(piece.tree, set()).add(number)
    several = [tree for tree, numbers in packs_of.items() if len(numbers) > 1 and trees[tree].root]
    return {tree: Root(len(trees[tree].root)) for tree in several}


def _starts(pieces: list[Piece]) -> list[int]:
    starts, row = [], 0
    for piece in pieces:
        starts.append(row)
        row += piece.last - piece.first
    return starts


def _positions(trees: Sequence[Tree], piece: Piece) -> range:
    before = 0 if piece.node == ROOT else len(trees[piece.tree].root)
    return range(before + piece.first, before + piece.last)


def _parts(pieces: list[Piece], roots: Roots) -> list[PackPart]:
    """Return one Part per root chunk, and one for all leaves of a tree that stand side by side."""
    parts: list[PackPart] = []
    leaves: list[OwnRows] = []
    root_rows: dict[int, Span] = {}
    for number, (piece, start) in enumerate(zip(pieces, _starts(pieces), strict=True)):
        span = (start, start + piece.last - piece.first)
        root = roots.get(piece.tree)
        if piece.node == ROOT:
            root_rows[piece.tree] = span
            seen = (root, piece.first) if root is not None and piece.first else None
            parts.append(
                PackPart(span, (OwnRows(span, span),), stored=seen, store=None if root is None else (root, piece.first))
            )
            continue
        leaves.append(OwnRows(span, span))
        following = pieces[number + 1] if number + 1 < len(pieces) else None
        if following is None or following.tree != piece.tree:
            rows = (leaves[0].rows[0], span[1])
            stored = (root, root.length) if root is not None else None
            parts.append(PackPart(rows, tuple(leaves), None if stored else root_rows.get(piece.tree), stored))
            leaves = []
    return parts


def _narrowed(parts: list[PackPart], reads: list[int]) -> tuple[list[PackPart], list[int]]:
    """Return the parts of the last layer, where a node is computed from the first row that is read, and the rows."""
    narrow: list[PackPart] = []
    rows: list[int] = []
    for part in parts:
        owns: list[OwnRows] = []
        for own in part.owns:
            first = next((row for row in reads if own.rows[0] <= row < own.rows[1]), None)
            if first is None:
                continue
            last = max(row for row in reads if row < own.rows[1]) + 1
            owns.append(OwnRows((len(rows), len(rows) + last - first), (own.keys[0], last)))
            rows += range(first, last)
        if owns:
            narrow.append(part._replace(rows=(owns[0].rows[0], owns[-1].rows[1]), owns=tuple(owns), store=None))
    return narrow, rows


def _let_it_compute_rows(layer: torch.nn.Module) -> None:
    """Have a layer compute some rows alone: entered once for the keys of all rows, then for the rows of the plan."""
    whole: Callable[..., torch.Tensor] = layer.forward

    def forward(hidden: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        plan = attention.current()
        if plan is None:
            return whole(hidden, *args, **kwargs)
        try:
            whole(hidden, *args, **kwargs)
        except attention.Learned:
            if not plan.rows:
                raise
        rows = torch.tensor(plan.rows, device=hidden.device)
        options = {name: _rows_of(value, rows, hidden.shape[1]) for name, value in kwargs.items()}
        return whole(hidden[:, rows], *(_rows_of(value, rows, hidden.shape[1]) for value in args), **options)

    layer.forward = forward


def _rows_of(value: object, rows: torch.Tensor, length: int) -> object:
    """Return some rows of what has one per token: (1, tokens, ...), alone or in a tuple; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(_rows_of(part, rows, length) for part in value)
    if isinstance(value, torch.Tensor) and value.ndim >= 2 and value.shape[1] == length:
        return value[:, rows.to(value.device)]
    return value


# ---------------------------------------------------------------- padded


class Padded:
    """Computes batches through a decoder."""

    def __init__(self, decoder: torch.nn.Module) -> None:
        self._decoder = decoder
        self._device = next(decoder.parameters()).device

    def passes(self, groups: Sequence[Group], budget: int) -> list[Pass]:
        """Return one pass per batch of at most about `budget` tokens with their padding."""
        asks: _Rows = {}
        for number, group in enumerate(groups):
            for name, ask in enumerate(group):
                asks.setdefault(ask.needed, []).append((number, name))
        return [partial(self._states, groups, batch, asks) for batch in batches(list(asks), budget)]

    def _states(self, groups: Sequence[Group], batch: list[tuple[int, ...]], asks: "_Rows") -> States:
        hidden = self._run(batch)
        places: list[tuple[int, int]] = []
        readings: list[StateReading] = []
        for index, sequence in enumerate(batch):
            for number, name in asks[sequence]:
                for order, position in enumerate(groups[number][name].wanted):
                    readings.append(StateReading(len(places), number, name, order))
                    places.append((index, position))
        rows, positions = zip(*places, strict=True)
        return States(hidden[list(rows), list(positions)], readings)

    def _run(self, batch: list[tuple[int, ...]]) -> torch.Tensor:
        width = max(map(len, batch))
        # Which token fills up does not matter: none of these places is ever read.
        ids = torch.tensor([[*sequence, *(0 for _ in range(width - len(sequence)))] for sequence in batch])
        output = self._decoder(input_ids=ids.to(self._device), use_cache=False)
        return cast("torch.Tensor", output.last_hidden_state)


_Rows = dict[tuple[int, ...], list[tuple[int, int]]]
"""By sequence: (group, ask) of everything that is read from it."""


def batches(sequences: Sequence[tuple[int, ...]], budget: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield sequences by falling length, as many together as fit into the budget when padded to the first."""
    batch: list[tuple[int, ...]] = []
    for sequence in sorted(sequences, key=lambda ids: (-len(ids), ids)):
        if batch and (len(batch) + 1) * len(batch[0]) > budget:
            yield batch
            batch = []
        batch.append(sequence)
    if batch:
        yield batch

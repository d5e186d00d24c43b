"""States of asks by packed tries, or by right-padded batches.

Packed: one flat sequence per pack, positions reset in every chain, no padding. The packs of one trie may run beside
each other: what a later one needs of a chain, an earlier one has written a layer before.

Padded: each distinct sequence whole, of about equal length together. The way for decoders that packs do not serve, and
the check for packs. No attention mask is passed: under a causal mask nothing on the right reaches a real token.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple, cast

import torch

from pluralrm.models.neural import attention
from pluralrm.models.neural.attention import (
    AncestorView,
    AttentionLayout,
    ChunkStore,
    OwnRows,
    PackPlan,
    Span,
    StoredKeys,
)
from pluralrm.models.neural.trees import Piece, StateRequest, Trie, packs

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

    def passes(self, groups: Sequence[Group], trie: Trie, budget: int) -> list[Pass]:
        """Return one pass per pack; they may run beside each other, if they begin in this order. Each runs once."""
        reads = _wanted(groups, trie)
        pieces = packs(trie, budget)
        stored = _stored(trie, pieces)
        return [partial(self._pack, trie, some, stored, reads) for some in pieces]

    def _pack(self, trie: Trie, pieces: list[Piece], stored: "Stored", read_places: "ReadPlaces") -> States:
        try:
            return self._states(trie, pieces, stored, read_places)
        except BaseException:
            for keys in stored.values():
                keys.give_up()  # or a pass that waits for keys would wait for ever
            raise

    def _states(self, trie: Trie, pieces: list[Piece], stored: "Stored", read_places: "ReadPlaces") -> States:
        places = [
            (start + offset - piece.first, readings)
            for piece, start in zip(pieces, _starts(pieces), strict=True)
            for offset, readings in sorted(read_places.get(piece.chain, {}).items())
            if piece.first <= offset < piece.last
        ]
        reads = [row for row, _ in places]
        plan = self._plan(trie, pieces, stored, reads)
        hidden = self._run(trie, pieces, plan)
        row_of = {row: number for number, row in enumerate(plan.rows)}
        rows = hidden[[row_of[row] for row in reads]] if reads else hidden[:0]
        readings = [StateReading(row, *which) for row, (_, several) in enumerate(places) for which in several]
        return States(rows, readings)

    def _plan(self, trie: Trie, pieces: list[Piece], stored: "Stored", reads: list[int]) -> PackPlan:
        spans = [
            (start, start + piece.last - piece.first) for piece, start in zip(pieces, _starts(pieces), strict=True)
        ]
        stores = [
            ChunkStore(span, stored[piece.chain], piece.first)
            for piece, span in zip(pieces, spans, strict=True)
            if piece.chain in stored and piece.first < stored[piece.chain].length
        ]
        layout = AttentionLayout([OwnRows(span, span) for span in spans], _views(trie, pieces, spans, stored))
        if not self._prune:
            return PackPlan(layout, stores, -1, layout, list(range(spans[-1][1])))
        return PackPlan(layout, stores, self._last, *_narrowed(layout, reads))

    def _run(self, trie: Trie, pieces: list[Piece], plan: PackPlan) -> torch.Tensor:
        chains = [(trie.chains[piece.chain], piece) for piece in pieces]
        ids = [token for chain, piece in chains for token in chain.ids[piece.first : piece.last]]
        positions = [
            position
            for chain, piece in chains
            for position in range(chain.before + piece.first, chain.before + piece.last)
        ]
        inputs = torch.tensor([ids, positions], device=self._device)
        with attention.attending(plan):
            try:
                output = self._decoder(input_ids=inputs[:1], position_ids=inputs[1:], use_cache=False)
            except attention.Learned:  # the keys of a chain were all that this pack was for
                return torch.empty(0, 0)
        return cast("torch.Tensor", output.last_hidden_state[0])


ReadPlaces = dict[int, dict[int, list[tuple[int, int, int]]]]
"""By chain, then by offset in the chain: (group, ask, place) of everything that is read there."""
Stored = dict[int, StoredKeys]
"""By chain, the keys that other packs than its own need."""


def _wanted(groups: Sequence[Group], trie: Trie) -> ReadPlaces:
    reads: ReadPlaces = {}
    for number, group in enumerate(groups):
        for name, ask in enumerate(group):
            for order, position in enumerate(ask.wanted):
                chain, offset = trie.locate(number, name, position)
                reads.setdefault(chain, {}).setdefault(offset, []).append((number, name, order))
    return reads


def _past(trie: Trie, piece: Piece) -> list[tuple[int, int]]:
    """Return the chains that a piece continues, the outermost first, and how many tokens of each it sees."""
    return [*trie.path(piece.chain), *([(piece.chain, piece.first)] if piece.first else [])]


def _stored(trie: Trie, layout: list[list[Piece]]) -> Stored:
    """Return a store for every chain of which a later pack sees something."""
    whole = {piece.chain for pieces in layout for piece in pieces if piece.last < len(trie.chains[piece.chain].ids)}
    home = {piece.chain: number for number, pieces in enumerate(layout) for piece in pieces}
    length: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    for number, pieces in enumerate(layout):
        for piece in pieces:
            for chain, tokens in _past(trie, piece):
                readers.setdefault(chain, set()).add(number)
                length[chain] = max(length.get(chain, 0), tokens)
    return {
        chain: StoredKeys(length[chain], len(numbers))
        for chain, numbers in readers.items()
        if chain in whole or numbers != {home[chain]}
    }


def _starts(pieces: list[Piece]) -> list[int]:
    return list(accumulate((piece.last - piece.first for piece in pieces[:-1]), initial=0))


def _views(trie: Trie, pieces: list[Piece], spans: list[Span], stored: Stored) -> list[AncestorView]:
    """Return one view per chain and run of neighbouring pieces that see the same of it, and of those before it."""
    views: list[AncestorView] = []
    begun: list[tuple[tuple[int, int], int]] = []
    span_of = {piece.chain: span for piece, span in zip(pieces, spans, strict=True)}
    for piece, span in zip(pieces, spans, strict=True):
        past = _past(trie, piece)
        same = next((level for level, (seen, _) in enumerate(begun) if past[level : level + 1] != [seen]), len(begun))
        del begun[same:]
        for _, number in begun:
            views[number] = views[number]._replace(rows=(views[number].rows[0], span[1]))
        for chain, tokens in past[same:]:
            begun.append(((chain, tokens), len(views)))
            if chain in stored:
                views.append(AncestorView(span, stored=(stored[chain], tokens)))
            else:
                views.append(AncestorView(span, inside=(span_of[chain][0], span_of[chain][0] + tokens)))
    return views


def _narrowed(layout: AttentionLayout, reads: list[int]) -> tuple[AttentionLayout, list[int]]:
    """Return the layout of the last layer, where a piece is computed from the first row that is read, and the rows."""
    owns: list[OwnRows] = []
    rows: list[int] = []
    for own in layout.owns:
        inside = reads[bisect_left(reads, own.rows[0]) : bisect_left(reads, own.rows[1])]
        if inside:
            first, last = inside[0], inside[-1] + 1
            owns.append(OwnRows((len(rows), len(rows) + last - first), (own.keys[0], last)))
            rows += range(first, last)
    narrow = [(view, (bisect_left(rows, view.rows[0]), bisect_left(rows, view.rows[1]))) for view in layout.views]
    return AttentionLayout(owns, [view._replace(rows=span) for view, span in narrow if span[0] < span[1]]), rows


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

"""States of asks by right-padded batches: each distinct sequence whole, of about equal length together.

The way for decoders that packs do not serve, and the check for packs. No attention mask is passed: under a causal mask
nothing on the right reaches a real token.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import torch

from pluralrm.models.neural.packed import Group, Pass, Reading, States


class Padded:
    """Computes batches through a decoder."""

    def __init__(self, decoder: torch.nn.Module) -> None:
        self._decoder = decoder
        self._device = next(decoder.parameters()).device

    def passes(self, groups: Sequence[Group], budget: int) -> list[Pass]:
        """Return one pass per batch of at most about `budget` tokens with their padding."""
        wanted: Wanted = {}
        for number, group in enumerate(groups):
            for name, ask in enumerate(group):
                wanted.setdefault(ask.needed, []).append((number, name))
        return [partial(self._states, groups, batch, wanted) for batch in batches(list(wanted), budget)]

    def _states(self, groups: Sequence[Group], batch: list[tuple[int, ...]], wanted: "Wanted") -> States:
        hidden = self._run(batch)
        places: list[tuple[int, int]] = []
        readings: list[Reading] = []
        for place, sequence in enumerate(batch):
            for number, name in wanted[sequence]:
                for order, position in enumerate(groups[number][name].wanted):
                    readings.append(Reading(len(places), number, name, order))
                    places.append((place, position))
        rows, positions = zip(*places, strict=True)
        return States(hidden[list(rows), list(positions)], readings)

    def _run(self, batch: list[tuple[int, ...]]) -> torch.Tensor:
        width = max(map(len, batch))
        # Which token fills up does not matter: none of these places is ever read.
        ids = torch.tensor([[*sequence, *(0 for _ in range(width - len(sequence)))] for sequence in batch])
        output = self._decoder(input_ids=ids.to(self._device), use_cache=False)
        return cast("torch.Tensor", output.last_hidden_state)


Wanted = dict[tuple[int, ...], list[tuple[int, int]]]
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

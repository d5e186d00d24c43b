"""Prompts and answers as one tensor: prompts padded at the left, answers at the right, so that all answers begin
in one column.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

_PAD = 0
"""Any token: none that is padding is seen."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Some sequences; P is the longest prompt, R the longest answer."""

    ids: torch.Tensor
    """(rows, P + R)."""
    seen: torch.Tensor
    """(rows, P + R): true at real tokens."""
    width: int
    """R."""

    @property
    def answers(self) -> torch.Tensor:
        """The ids of the answers: (rows, R)."""
        return self.ids[:, -self.width :]

    @property
    def mask(self) -> torch.Tensor:
        """True at the answers' real tokens: (rows, R)."""
        return self.seen[:, -self.width :]

    @property
    def positions(self) -> torch.Tensor:
        """Each token's place in its own sequence: (rows, P + R)."""
        return positions(self.seen)

    def rows(self, places: Sequence[int]) -> "Tokens":
        """Return some of the sequences, as wide as they all are."""
        return Tokens(self.ids[list(places)], self.seen[list(places)], self.width)


def positions(seen: torch.Tensor) -> torch.Tensor:
    """Return each token's place in its own sequence; padding before it has 0."""
    return (seen.long().cumsum(dim=-1) - 1).clamp_min(0)


def padded_prompts(prompts: Sequence[Sequence[int]], device: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and what is seen of prompts, padded at the left: (rows, P) each."""
    width = max(map(len, prompts))
    ids = [[*[_PAD] * (width - len(one)), *one] for one in prompts]
    seen = [[*[False] * (width - len(one)), *[True] * len(one)] for one in prompts]
    return torch.tensor(ids, device=device), torch.tensor(seen, device=device)


def padded(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], device: object) -> Tokens:
    """Return the sequences of prompts and their answers; each answer has a token."""
    width = max(map(len, answers))
    ids = torch.tensor([[*one, *[_PAD] * (width - len(one))] for one in answers], device=device)
    seen = torch.tensor([[*[True] * len(one), *[False] * (width - len(one))] for one in answers], device=device)
    before, shown = padded_prompts(prompts, device)
    return Tokens(torch.cat([before, ids], dim=1), torch.cat([shown, seen], dim=1), width)

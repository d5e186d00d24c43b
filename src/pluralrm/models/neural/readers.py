"""States to numbers: a reward head, or the log-probs of given tokens."""

from collections.abc import Sequence
from typing import Protocol

import torch

_AT_ONCE = 256
"""Rows whose logits are held at once: a vocabulary of 150,000 is 600 kB a row."""


class Reader(Protocol):
    """What turns hidden states (n, width) into numbers, one row of the result per row of the input."""

    def read(self, states: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
        """Return (n, labels) from a head, (n,) from log-probs; `targets` has one token per row, or none for a head."""
        ...


class HeadReader:
    """A linear head on top of a decoder, such as `score` of transformers' sequence classification."""

    def __init__(self, head: torch.nn.Module) -> None:
        self._head = head

    def read(self, states: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:  # noqa: ARG002 - a head has no targets
        """Return the labels' logits."""
        weight = next(self._head.parameters())
        return self._head(states.to(weight.device)).float()


class LogProbReader:
    """The log-probs of tokens under a language model's output layer."""

    def __init__(self, output: torch.nn.Module, *, softcap: float | None = None) -> None:
        self._output = output
        self._softcap = softcap

    def read(self, states: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
        """Return the log-prob of one token per row."""
        weight = next(self._output.parameters())
        tokens = torch.tensor(targets, device=weight.device)
        parts = [
            self._logprobs(some.to(weight.device), those)
            for some, those in zip(states.split(_AT_ONCE), tokens.split(_AT_ONCE), strict=True)
        ]
        return torch.cat(parts) if parts else torch.empty(0)

    def _logprobs(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        logits = self._output(states)
        if self._softcap is not None:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        logits = logits.float()
        return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(dim=1)

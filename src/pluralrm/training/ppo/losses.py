"""The two losses of PPO and the entropy, per token: (answers, tokens), to be summed over the mask and divided."""

from typing import NamedTuple

import torch


class Clipped(NamedTuple):
    """A loss per token, and where clipping made it larger than it would have been."""

    losses: torch.Tensor
    clipped: torch.Tensor


_FARTHEST = 20.0
"""Of a log-ratio, before it becomes a ratio."""


def policy_loss(log_probs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, clip: float) -> Clipped:
    """Return max(-ratio A, -clipped ratio A): Schulman et al. 2017, eq. 7, as a loss."""
    ratio = (log_probs - old).clamp(-_FARTHEST, _FARTHEST).exp()
    plain, cut = -ratio * advantages, -ratio.clamp(1 - clip, 1 + clip) * advantages
    return Clipped(torch.maximum(plain, cut), cut > plain)


def value_loss(values: torch.Tensor, old: torch.Tensor, returns: torch.Tensor, clip: float) -> Clipped:
    """Return half the larger squared error, of the value and of the value kept within `clip` of the old one."""
    plain = (values - returns).square()
    cut = (old + (values - old).clamp(-clip, clip) - returns).square()
    return Clipped(torch.maximum(plain, cut) / 2, cut > plain)


def chosen(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-prob of each token, of logits (..., vocabulary)."""
    return logits.log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0]


def entropies(logits: torch.Tensor) -> torch.Tensor:
    """Return the entropy of each distribution, in nats, of logits (..., vocabulary)."""
    logs = logits.log_softmax(dim=-1)
    return -(logs.exp() * logs).sum(dim=-1)

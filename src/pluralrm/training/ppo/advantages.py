"""From one reward per answer to an advantage per token; (answers, tokens) throughout, the mask true at real tokens."""

from typing import NamedTuple

import torch

from pluralrm.training.ppo import masked


class Advantages(NamedTuple):
    """What a token was better than expected by, and what the critic should have said there."""

    advantages: torch.Tensor
    returns: torch.Tensor


def token_rewards(scores: torch.Tensor, mask: torch.Tensor, penalties: torch.Tensor) -> torch.Tensor:
    """Return -penalty at each token, and the answer's score (answers,) on top at its last one."""
    rewards = torch.where(mask, -penalties, 0.0)
    last = mask.sum(dim=-1) - 1
    rewards[torch.arange(len(scores), device=scores.device), last] += scores
    return rewards


def gae(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, *, discount: float, decay: float
) -> Advantages:
    """Return generalised advantages (Schulman et al. 2016, eq. 16) and returns; both 0 beyond an answer's end.

    delta_t = r_t + discount V_(t+1) - V_t; A_t = delta_t + discount decay A_(t+1); nothing comes after the last token.
    """
    found = torch.zeros_like(values)
    following, ahead = torch.zeros_like(values[:, 0]), torch.zeros_like(values[:, 0])
    for place in range(values.shape[1] - 1, -1, -1):
        here = mask[:, place]
        delta = rewards[:, place] + discount * following - values[:, place]
        ahead = torch.where(here, delta + discount * decay * ahead, 0.0)
        following = torch.where(here, values[:, place], 0.0)
        found[:, place] = ahead
    return Advantages(found, torch.where(mask, found + values, 0.0))


def whiten(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return values of mean 0 and variance 1 over the mask (n - 1); one value alone, or equal ones, become 0."""
    count = mask.sum()
    centred = torch.where(mask, values - masked.mean(values, mask), 0.0)
    variance = centred.square().sum() / (count - 1).clamp_min(1)
    return centred * torch.rsqrt(variance + 1e-8)

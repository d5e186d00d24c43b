"""What one step learns from: answers, their rewards, and what policy, critic and reference said of each token."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from pluralrm.training.answering import Answered
from pluralrm.training.ppo import masked
from pluralrm.training.ppo.actor import Actor, Passed
from pluralrm.training.ppo.advantages import gae, token_rewards, whiten
from pluralrm.training.ppo.kl import estimate
from pluralrm.training.ppo.settings import PpoSettings
from pluralrm.training.tokens import Tokens, padded


class Experience(NamedTuple):
    """Of each token of the answers, (answers, R); `mask` is true where something is learned."""

    tokens: Tokens
    mask: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    reference: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


class Looked(NamedTuple):
    """What the policy and the reference say of answers before a step, and how far they are apart."""

    tokens: Tokens
    before: Passed
    reference: torch.Tensor

    def told(self) -> Mapping[str, float]:
        """Return KL in nats per answer (k3) and entropy in nats per token."""
        mask = self.tokens.mask
        kl = masked.per_row(estimate(self.before.log_probs, self.reference, "k3"), mask).mean()
        return {"kl": float(kl), "entropy": float(masked.mean(self.before.entropies, mask))}


def look(actor: Actor, answered: Answered, *, rows: int) -> Looked:
    """Return what is said of answers, computed `rows` at a time."""
    prompts, answers = answered.prompts, answered.answers
    tokens = padded([one.ids for one in prompts], [one.ids for one in answers], actor.model.device)
    parts = [tokens.rows(range(first, min(first + rows, len(tokens.ids)))) for first in range(0, len(tokens.ids), rows)]
    with torch.no_grad():
        passed = [actor.passed(part) for part in parts]
    before = Passed(*(torch.cat(columns) for columns in zip(*passed, strict=True)))
    return Looked(tokens, before, torch.cat([actor.reference(part) for part in parts]))


def experience(
    looked: Looked, rewards: Sequence[float | None], coefficient: float, settings: PpoSettings
) -> Experience:
    """Return what is to be learned; an answer without a reward is left out, of every mean too."""
    tokens, device = looked.tokens, looked.reference.device
    has = torch.tensor([reward is not None for reward in rewards], device=device)
    # Not a number where there is none: if one of these reached a loss, training would stop, and not go on by it.
    scores = torch.tensor([math.nan if reward is None else reward for reward in rewards], device=device)
    mask = tokens.mask & has[:, None]
    far = estimate(looked.before.log_probs, looked.reference, settings.kl)
    penalties = coefficient * far if settings.kl_in == "reward" else torch.zeros_like(far)
    given = token_rewards(scores, tokens.mask, penalties)
    found = gae(given, looked.before.values, tokens.mask, discount=settings.discount, decay=settings.decay)
    advantages = whiten(found.advantages, mask) if settings.whiten else found.advantages
    return Experience(
        tokens,
        mask,
        looked.before.log_probs,
        looked.before.values,
        looked.reference,
        torch.where(mask, advantages, 0.0),  # 0 times what is no number would be no number, in a gradient too
        torch.where(mask, found.returns, 0.0),
    )

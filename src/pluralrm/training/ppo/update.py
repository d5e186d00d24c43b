"""A step: minibatches of a step's answers, a loss over each, and one move of the actor's and the critic's weights."""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import torch

from pluralrm.errors import ModelError
from pluralrm.training.measures import mean
from pluralrm.training.ppo import masked
from pluralrm.training.ppo.actor import Actor
from pluralrm.training.ppo.experience import Experience
from pluralrm.training.ppo.kl import estimate
from pluralrm.training.ppo.losses import policy_loss, value_loss
from pluralrm.training.ppo.settings import PpoSettings


class Sums(NamedTuple):
    """Over the tokens of a pass: what a loss is made of, and where it was clipped."""

    policy: torch.Tensor
    value: torch.Tensor
    entropy: torch.Tensor
    kl: torch.Tensor
    clipped: torch.Tensor
    value_clipped: torch.Tensor


def open_optimizer(actor: Actor, settings: PpoSettings) -> torch.optim.AdamW:
    """Return the optimizer of both, each with its own rate."""
    groups = [
        {"params": list(actor.trained.values()), "lr": settings.actor_rate},
        {"params": list(actor.critic.parameters()), "lr": settings.critic_rate},
    ]
    return torch.optim.AdamW(groups, weight_decay=0.0)


def update(
    actor: Actor,
    optimizer: torch.optim.Optimizer,
    learned: Experience,
    settings: PpoSettings,
    *,
    coefficient: float,
    seed: str,
) -> dict[str, float]:
    """Move the weights and return the means over minibatches; ModelError where a loss is no number any more."""
    found: list[Mapping[str, float]] = []
    for epoch in range(settings.epochs):
        order = Random(f"{seed}:{epoch}").sample(range(len(learned.mask)), len(learned.mask))
        for first in range(0, len(order), settings.minibatch):
            places = order[first : first + settings.minibatch]
            if bool(learned.mask[places].any()):
                found.append(_move(actor, optimizer, learned, places, settings, coefficient))
    return {name: mean([one[name] for one in found]) for name in found[0]} if found else {}


def _move(  # noqa: PLR0917 - the parts of one move, handed on
    actor: Actor,
    optimizer: torch.optim.Optimizer,
    learned: Experience,
    places: Sequence[int],
    settings: PpoSettings,
    coefficient: float,
) -> dict[str, float]:
    """Take one minibatch, in passes of a few rows: each adds its share of the mean over all of its tokens."""
    optimizer.zero_grad()
    tokens = learned.mask[places].sum()
    sums = []
    for first in range(0, len(places), settings.rows):
        part = _sums(actor, learned, places[first : first + settings.rows], settings)
        penalty = coefficient * part.kl if settings.kl_in == "loss" else 0.0
        loss = (part.policy + part.value + penalty - settings.entropy * part.entropy) / tokens
        loss.backward()
        sums.append(Sums(*(one.detach() for one in part)))
    told = {name: float(sum(getattr(part, name) for part in sums) / tokens) for name in Sums._fields}
    norms = {"actor_norm": list(actor.trained.values()), "critic_norm": list(actor.critic.parameters())}
    told |= {name: float(torch.nn.utils.clip_grad_norm_(weights, settings.max_norm)) for name, weights in norms.items()}
    if not all(map(math.isfinite, told.values())):
        wrong = ", ".join(f"{name} {value}" for name, value in told.items() if not math.isfinite(value))
        raise ModelError(f"training went astray: {wrong}. Use smaller rates, or precision=float32")
    optimizer.step()
    return told


def _sums(actor: Actor, learned: Experience, places: Sequence[int], settings: PpoSettings) -> Sums:
    places = list(places)
    now, mask = actor.passed(learned.tokens.rows(places)), learned.mask[places]
    policy = policy_loss(now.log_probs, learned.log_probs[places], learned.advantages[places], settings.clip)
    value = value_loss(now.values, learned.values[places], learned.returns[places], settings.value_clip)
    far = estimate(now.log_probs, learned.reference[places], settings.kl)
    return Sums(
        masked.total(policy.losses, mask),
        masked.total(value.losses, mask),
        masked.total(now.entropies, mask),
        masked.total(far, mask),
        masked.total(policy.clipped.float(), mask),
        masked.total(value.clipped.float(), mask),
    )

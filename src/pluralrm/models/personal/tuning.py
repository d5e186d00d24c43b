"""Gradient steps on a reward head and what is below it: whole weights, or LoRA beside them that is merged in the end.

    loss of a group = -log softmax of the rewards, at the preferred answer

which for two answers is Bradley-Terry, and for four a winner against three.
"""

import math
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from pluralrm.errors import MissingExtraError, ModelError
from pluralrm.models.neural.trees import StateRequest
from pluralrm.models.personal.algorithms import Epoch, Tell
from pluralrm.models.personal.defaults import Hyper

EXTRA = "tune"
Group = Sequence[StateRequest]
"""The answers to one question as token ids, the preferred one first; each ends where the head reads it."""


class Tuned(NamedTuple):
    """The model of the epoch with the least held-out loss, without adapters, and what every epoch lost."""

    model: torch.nn.Module
    curve: tuple[Epoch, ...]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from this seed (dropout, LoRA's first weights), and leave everybody's random numbers as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def tune(
    model: torch.nn.Module, train: Sequence[Group], held_out: Sequence[Group], settings: Hyper, *, seed: int, tell: Tell
) -> Tuned:
    """Return the model after training; the one that was passed is changed."""
    with seeded(seed):
        model = _adapted(model, settings) if settings.whole("lora") else model
        trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
        curve, kept = _epochs(model, trained, (train, held_out), settings, seed=seed, tell=tell)
    with torch.no_grad():
        for name, weights in trained.items():
            weights.copy_(kept[name])
    model.eval()
    return Tuned(model.merge_and_unload() if settings.whole("lora") else model, curve)


_Kept = dict[str, torch.Tensor]


def _epochs(
    model: torch.nn.Module,
    trained: _Kept,
    groups: tuple[Sequence[Group], Sequence[Group]],
    settings: Hyper,
    *,
    seed: int,
    tell: Tell,
) -> tuple[tuple[Epoch, ...], _Kept]:
    train, held_out = groups
    size, epochs = settings.whole("batch"), settings.whole("epochs")
    rate = _rate(settings.real("rate"), settings.real("warmup"), epochs * math.ceil(len(train) / size))
    optimizer = torch.optim.AdamW(list(trained.values()), weight_decay=0.0)
    curve: list[Epoch] = []
    kept: _Kept = {}
    for number in range(epochs):
        model.train()
        lost: list[float] = []
        for batch in _shuffled(train, size, f"{seed}:{number}"):
            optimizer.param_groups[0]["lr"] = rate(len(curve) * math.ceil(len(train) / size) + len(lost))
            lost.append(_step(model, optimizer, batch))
        curve.append(Epoch(number, sum(lost) / len(lost), mean_loss(model, held_out, size)))
        tell(curve[-1])
        best = min(curve, key=lambda epoch: epoch.held_out)
        if best is curve[-1]:
            kept = {name: weights.detach().clone() for name, weights in trained.items()}
        if number - best.number >= settings.whole("patience"):
            break
    return tuple(curve), kept


def _rate(most: float, warmup: float, steps: int) -> Callable[[int], float]:
    """Return the rate at each step: up along a line for a share of the steps, then down along a cosine."""
    rising = round(warmup * steps)

    def at(step: int) -> float:
        if step < rising:
            return most * (step + 1) / rising
        return most * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))

    return at


def _shuffled(groups: Sequence[Group], size: int, seed: str) -> Iterator[list[Group]]:
    order = random.Random(seed).sample(range(len(groups)), len(groups))
    for start in range(0, len(order), size):
        yield [groups[place] for place in order[start : start + size]]


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Sequence[Group]) -> float:
    optimizer.zero_grad()
    loss = group_losses(model, batch).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([each for each in model.parameters() if each.requires_grad], 1.0)
    optimizer.step()
    return float(loss.detach())


def mean_loss(model: torch.nn.Module, groups: Sequence[Group], size: int) -> float:
    """Return the mean loss over groups, without a step."""
    model.eval()
    with torch.no_grad():
        losses = [group_losses(model, groups[start : start + size]).double() for start in range(0, len(groups), size)]
    return float(torch.cat(losses).mean())


# ---------------------------------------------------------------- rewards


def group_losses(model: torch.nn.Module, groups: Sequence[Group]) -> torch.Tensor:
    """Return -log softmax at the first answer of each group, (groups,)."""
    found = rewards(model, [ask for group in groups for ask in group])
    several = found.split([len(group) for group in groups])
    return torch.stack([each.logsumexp(dim=0) - each[0] for each in several])


def rewards(model: torch.nn.Module, asks: Sequence[StateRequest]) -> torch.Tensor:
    """Return the head at the end of each sequence, (asks,), as `hf:` reads it; padded at the right."""
    device = next(model.parameters()).device
    needed = [ask.needed for ask in asks]
    width = max(map(len, needed))
    ids = torch.tensor([[*each, *[0] * (width - len(each))] for each in needed], device=device)
    mask = torch.tensor([[1] * len(each) + [0] * (width - len(each)) for each in needed], device=device)
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    states = whole.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    ends = torch.tensor([len(each) - 1 for each in needed], device=device)
    return whole.score(states[torch.arange(len(asks), device=device), ends])[:, 0].float()


# ---------------------------------------------------------------- LoRA


def _adapted(model: torch.nn.Module, settings: Hyper) -> torch.nn.Module:
    """Return the model with LoRA at every linear layer below the head, which itself is trained whole."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as exc:
        raise MissingExtraError("fit bt --base with lora above 0", EXTRA) from exc
    layers = [name for name, each in model.named_modules() if isinstance(each, torch.nn.Linear) and name != "score"]
    if not layers:
        raise ModelError("found no linear layer that LoRA could stand beside; train whole weights with --set lora=0")
    chosen = LoraConfig(
        task_type="SEQ_CLS",
        r=settings.whole("lora"),
        lora_alpha=settings.whole("alpha"),
        lora_dropout=settings.real("dropout"),
        target_modules=layers,
        modules_to_save=["score"],
    )
    with warnings.catch_warnings():
        # peft reads a property under the name that transformers is about to drop.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return get_peft_model(model, chosen)

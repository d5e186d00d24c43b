"""Adapters beside a language model: what is trained is small, and switched off it is the reference."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from pluralrm.errors import MissingExtraError, ModelError
from pluralrm.models.personal.tuning import seeded

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def with_adapters(model: "PreTrainedModel", *, rank: int, alpha: float, seed: int) -> "PreTrainedModel":
    """Return the model with adapters at every linear layer below the head; they begin as nothing."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as exc:
        raise MissingExtraError("ppo with lora above 0", "ppo") from exc
    head = model.get_output_embeddings()
    layers = [name for name, one in model.named_modules() if isinstance(one, torch.nn.Linear) and one is not head]
    if not layers:
        raise ModelError("found no linear layer that LoRA could stand beside; train whole weights with lora=0")
    chosen = LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=layers)
    with warnings.catch_warnings(), seeded(seed):
        # peft reads a property under the name that transformers is about to drop.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return get_peft_model(model, chosen)


@contextmanager
def switched_off(model: "PreTrainedModel") -> Iterator[None]:
    """Compute as if there were no adapters."""
    with model.disable_adapter():
        yield


def merged(model: "PreTrainedModel") -> "PreTrainedModel":
    """Return a copy of the model with its adapters added to the weights, as any folder holds them."""
    return copy.deepcopy(model).merge_and_unload()

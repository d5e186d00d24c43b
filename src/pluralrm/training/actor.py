"""The policy in training: log-probs, entropies and values of a pass; critic, adapters and the frozen reference.

No dropout, in any pass: the ratio of the first minibatch is 1, and a step can be computed again bit for bit.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from pluralrm.errors import MissingExtraError, ModelError, SpecError
from pluralrm.models.neural.families import family
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.loading import LoadSettings
from pluralrm.models.personal.text import seeded
from pluralrm.policies.generate import Network, open_network
from pluralrm.training.rollout import Tokens
from pluralrm.training.settings import PpoSettings, Precision

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Critic(torch.nn.Module):  # type: ignore[misc] # torch is not followed
    """Two layers over the trunk's last states. It begins as one number, 0 until `begin_at` says which."""

    def __init__(self, width: int, *, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.inner = torch.nn.Linear(width, width)
        self.outer = torch.nn.Linear(width, 1)
        torch.nn.init.zeros_(self.outer.weight)
        torch.nn.init.zeros_(self.outer.bias)

    def begin_at(self, value: float) -> None:
        """Say the same everywhere, until it is trained: the mean of what is to come."""
        with torch.no_grad():
            self.outer.bias.fill_(value)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the value in each state: states (..., width) without their gradient, values (...)."""
        # The trunk belongs to the actor: a critic that moved it would move the policy under a constant reward.
        hidden = torch.nn.functional.gelu(self.inner(states.detach().float()))
        return self.outer(hidden)[..., 0].float()


class TokenOutput(NamedTuple):
    """What a pass says of each token of the answers: (rows, R)."""

    log_probs: torch.Tensor
    entropies: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True)
class Actor:
    """A policy, its critic, and the reference: a copy, or the policy itself without its adapters."""

    network: Network
    critic: Critic
    copied: "PreTrainedModel | None"
    temperature: float
    precision: Precision

    @property
    def model(self) -> "PreTrainedModel":
        """The policy's weights."""
        return self.network.model

    @property
    def trained(self) -> dict[str, torch.nn.Parameter]:
        """The policy's weights that are trained, by name."""
        return {name: one for name, one in self.model.named_parameters() if one.requires_grad}

    def passed(self, tokens: Tokens) -> TokenOutput:
        """Return log-probs, entropies and values at the answers' tokens."""
        with self.computing():
            logits, states = _forward(self.model, tokens, self.temperature)
        # The critic counts in float32: rounded, a constant reward would differ from it, and whitening blow that up.
        return TokenOutput(token_log_probs(logits, tokens.answers), entropies(logits), self.critic(states))

    def reference(self, tokens: Tokens) -> torch.Tensor:
        """Return the reference's log-probs at the answers' tokens; they have no gradient."""
        switch = switched_off(self.model) if self.copied is None else nullcontext()
        with torch.no_grad(), self.computing(), switch:
            logits, _ = _forward(self.copied or self.model, tokens, self.temperature)
            return token_log_probs(logits, tokens.answers)

    def whole(self) -> "PreTrainedModel":
        """Return the policy's weights, adapters added to them."""
        return self.model if self.copied is not None else merged(self.model)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in the precision that was chosen."""
        with _precision(self.precision, self.model.device.type):
            yield


def open_actor(folder: ModelFolder, how: LoadSettings, settings: PpoSettings, *, seed: int) -> Actor:
    """Return the policy of a folder, ready to be trained; adapters and critic begin as the seed says."""
    network = open_network(folder, trainable(how, folder, whole=not settings.lora))
    model = network.model
    copied = None
    if settings.lora:
        model = with_adapters(model, rank=settings.lora, alpha=settings.alpha, seed=seed)
    else:
        copied = copy.deepcopy(model).requires_grad_(requires_grad=False)
    model.eval()
    critic = Critic(model.config.get_text_config().hidden_size, seed=seed).to(model.device)
    return Actor(network._replace(model=model), critic, copied, settings.temperature, settings.precision)


def trainable(how: LoadSettings, folder: ModelFolder, *, whole: bool) -> LoadSettings:
    """Return how weights are loaded that are trained: in float32, with an attention that has a gradient."""
    if whole and how.dtype not in {"", "float32"}:
        raise SpecError(
            f"dtype is {how.dtype}: a step of 1e-6 is nothing to weights that are kept so. Leave it out; "
            "--set precision=bfloat16 computes in half precision"
        )
    return replace(how, dtype=how.dtype or "float32", attn=how.attn or _attention(folder))


def _attention(folder: ModelFolder) -> str:
    """Return an attention that has a gradient; that of packed sequences, which scoring uses, has none."""
    known = family(folder.config)
    return "" if known is None else "sdpa" if known.packs else "eager"


def _precision(name: Precision, device: str) -> AbstractContextManager[object]:
    return nullcontext() if name == "float32" else torch.autocast(device, dtype=torch.bfloat16)


def _forward(model: "PreTrainedModel", tokens: Tokens, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits before each token of the answers, (rows, R, vocabulary), and the states: (rows, R, width)."""
    found = model(
        input_ids=tokens.ids,
        attention_mask=tokens.seen.long(),
        position_ids=tokens.positions,
        use_cache=False,
        output_hidden_states=True,
        logits_to_keep=tokens.width + 1,
    )
    states = found.hidden_states[-1][:, -tokens.width - 1 : -1]
    return found.logits[:, :-1].float() / temperature, states


# ---------------------------------------------------------------- log-probs and entropies of a pass


def token_log_probs(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-prob of each token, of logits (..., vocabulary)."""
    return logits.log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0]


def entropies(logits: torch.Tensor) -> torch.Tensor:
    """Return the entropy of each distribution, in nats, of logits (..., vocabulary)."""
    logs = logits.log_softmax(dim=-1)
    return -(logs.exp() * logs).sum(dim=-1)


# ---------------------------------------------------------------- the critic


# ---------------------------------------------------------------- LoRA


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

"""The policy in training: log-probs, entropies and values of a pass; critic, adapters and the frozen reference.

No dropout, in any pass: the ratio of the first minibatch is 1, and a step can be computed again bit for bit.
Its whole state between two steps is kept as safetensors: weights that are trained, moments, coefficient. There is one
checkpoint, and it is replaced at once: a kill leaves the old one or the new one.
"""

import copy
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, FiniteFloat
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pluralrm.errors import MissingExtraError, ModelError, RunError, SpecError
from pluralrm.files import LOCK, sync, whole_folder
from pluralrm.folders import CODE, LOADED, files_hash
from pluralrm.journal import parse_document, sealed
from pluralrm.models.neural.families import family
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.loading import LoadSettings, quietly
from pluralrm.models.personal.text import seeded
from pluralrm.policies.local import Network, open_network
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
        return {name: weights for name, weights in self.model.named_parameters() if weights.requires_grad}

    def passed(self, tokens: Tokens) -> TokenOutput:
        """Return log-probs, entropies and values at the answers' tokens."""
        with self.computing():
            logits, states = _forward(self.model, tokens, self.temperature)
        # The critic counts in float32: rounded, a constant reward would differ from it, and whitening blow that up.
        return TokenOutput(token_log_probs(logits, tokens.answers), entropies(logits), self.critic(states))

    def reference(self, tokens: Tokens) -> torch.Tensor:
        """Return the reference's log-probs at the answers' tokens; they have no gradient."""
        switch = self.model.disable_adapter() if self.copied is None else nullcontext()
        with torch.no_grad(), self.computing(), switch:
            logits, _ = _forward(self.copied or self.model, tokens, self.temperature)
            return token_log_probs(logits, tokens.answers)

    def whole(self) -> "PreTrainedModel":
        """Return the policy's weights; adapters are added to a copy of them, as any folder holds them."""
        return self.model if self.copied is not None else copy.deepcopy(self.model).merge_and_unload()

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
    kind = family(folder.config)
    return "" if kind is None else "sdpa" if kind.packs else "eager"


def _precision(name: Precision, device: str) -> AbstractContextManager[object]:
    return nullcontext() if name == "float32" else torch.autocast(device, dtype=torch.bfloat16)


def _forward(model: "PreTrainedModel", tokens: Tokens, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits before each token of the answers, (rows, R, vocabulary), and the states: (rows, R, width)."""
    output = model(
        input_ids=tokens.ids,
        attention_mask=tokens.seen.long(),
        position_ids=tokens.positions,
        use_cache=False,
        output_hidden_states=True,
        logits_to_keep=tokens.width + 1,
    )
    states = output.hidden_states[-1][:, -tokens.width - 1 : -1]
    return output.logits[:, :-1].float() / temperature, states


# ---------------------------------------------------------------- log-probs and entropies of a pass


def token_log_probs(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-prob of each token, of logits (..., vocabulary)."""
    return logits.log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0]


def entropies(logits: torch.Tensor) -> torch.Tensor:
    """Return the entropy of each distribution, in nats, of logits (..., vocabulary)."""
    logs = logits.log_softmax(dim=-1)
    return -(logs.exp() * logs).sum(dim=-1)


# ---------------------------------------------------------------- LoRA


def with_adapters(model: "PreTrainedModel", *, rank: int, alpha: float, seed: int) -> "PreTrainedModel":
    """Return the model with adapters at every linear layer below the head; they begin as nothing."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as exc:
        raise MissingExtraError("ppo with lora above 0", "ppo") from exc
    head = model.get_output_embeddings()
    layers = [name for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear) and layer is not head]
    if not layers:
        raise ModelError("found no linear layer that LoRA could stand beside; train whole weights with lora=0")
    chosen = LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=layers)
    with warnings.catch_warnings(), seeded(seed):
        # peft reads a property under the name that transformers is about to drop.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return get_peft_model(model, chosen)


_NAME, _OLD, _NEW = "checkpoint", "checkpoint.old", "checkpoint.new"
_ACTOR, _CRITIC, _MOMENTS, _STATE = "actor.safetensors", "critic.safetensors", "moments.safetensors", "state.json"


class State(BaseModel):
    """What is not a tensor: how many steps are done, and the coefficient that the next one has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    coefficient: FiniteFloat
    tensors: str = ""
    """The hash of the files beside it; none in checkpoints of before, which are taken as they are."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint of one training."""

    folder: Path
    actor: Actor
    optimizer: torch.optim.Optimizer

    def save(self, state: State) -> None:
        """Write the state; what was there goes when the new one is whole."""
        new, here, old = (self.folder / name for name in (_NEW, _NAME, _OLD))
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        try:
            for name, tensors in self._tensors().items():
                save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, new / name)
            hashed = state.model_copy(update={"tensors": _hash(new)})
            (new / _STATE).write_text(json.dumps(sealed(hashed.model_dump(mode="json"))), encoding="utf-8")
            for file in new.iterdir():
                sync(file)
            if here.exists():
                shutil.rmtree(old, ignore_errors=True)
                here.replace(old)
            new.replace(here)
        except (OSError, SafetensorError) as exc:
            raise RunError(f"cannot write {new}: {exc}. Make room; the checkpoint before it is kept") from exc
        shutil.rmtree(old, ignore_errors=True)

    def load(self) -> State | None:
        """Take the state that is on disk into policy, critic and optimizer and return the rest; None where none is."""
        # A kill between the two renames leaves the old one alone under its second name.
        path = next((self.folder / name for name in (_NAME, _OLD) if (self.folder / name / _STATE).exists()), None)
        if path is None:
            return None
        try:
            state = parse_document(State, (path / _STATE).read_bytes())
            if state.tensors and state.tensors != _hash(path):
                raise RunError(f"{path}: its *.safetensors are not as they were written. {_ANEW}")
            parts = {name: load_file(path / name) for name in (_ACTOR, _CRITIC, _MOMENTS)}
        except ValueError as exc:
            raise RunError(f"{path / _STATE}: {exc}. {_ANEW}") from exc
        except (OSError, SafetensorError) as exc:
            raise RunError(f"{path}: cannot be read: {exc}. {_ANEW}") from exc
        _copy(self.actor.trained, parts[_ACTOR], path)
        _copy(dict(self.actor.critic.named_parameters()), parts[_CRITIC], path)
        self._set_moments(parts[_MOMENTS])
        return state

    def _tensors(self) -> dict[str, Mapping[str, torch.Tensor]]:
        moments = {
            f"{index}.{name}": value
            for index, moments in self.optimizer.state_dict()["state"].items()
            for name, value in moments.items()
        }
        return {_ACTOR: self.actor.trained, _CRITIC: dict(self.actor.critic.named_parameters()), _MOMENTS: moments}

    def _set_moments(self, moments: Mapping[str, torch.Tensor]) -> None:
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in moments.items():
            index, _, name = key.partition(".")
            state.setdefault(int(index), {})[name] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


_ANEW = "Restore it, or train anew with another -o"


def _hash(folder: Path) -> str:
    return files_hash(folder, [folder / name for name in (_ACTOR, _CRITIC, _MOMENTS)])


def _copy(weights: Mapping[str, torch.nn.Parameter], saved: Mapping[str, torch.Tensor], where: Path) -> None:
    if weights.keys() != saved.keys():
        raise RunError(f"{where}: found the weights of another model; train anew with another -o")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(saved[name])


_WEIGHTS = (".safetensors", ".safetensors.index.json")
_CONFIG, _PRECISIONS = "config.json", ("dtype", "torch_dtype")


def write_policy(model: "PreTrainedModel", base: ModelFolder, out: Path) -> Path:
    """Write the folder at once and return it."""
    copied = (*LOADED, *(CODE if base.trusted else ()))
    try:
        with whole_folder(out) as beside:
            with quietly():
                model.save_pretrained(beside)
            for file in beside.iterdir():
                # Trainers set tokens in the others that are none of the model's.
                if not file.name.endswith((*_WEIGHTS, LOCK)):
                    file.unlink()
            for file in base.path.iterdir():
                if file.is_file() and file.suffix in copied and not file.name.endswith(_WEIGHTS):
                    shutil.copyfile(file, beside / file.name)
            _name_precision(beside / _CONFIG, str(model.dtype).removeprefix("torch."))
    except (OSError, SafetensorError) as exc:
        raise RunError(f"cannot write {out}: {exc}. Make room; the same command writes it again") from exc
    return out


def _name_precision(file: Path, precision: str) -> None:
    """Let a config say how its weights are held now: on a GPU the old word would round what was trained away."""
    config = json.loads(file.read_text(encoding="utf-8"))
    changes = {key: precision for key in _PRECISIONS if config.get(key) not in {None, precision}}
    if changes:
        file.write_text(json.dumps({**config, **changes}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

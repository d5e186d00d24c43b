"""The whole state of a training between two steps, as safetensors: weights that are trained, moments, coefficient.

There is one, and it is replaced at once: a kill leaves the old one or the new one.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import BaseModel, ConfigDict, FiniteFloat
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pluralrm.errors import RunError
from pluralrm.files import LOCK, whole_folder
from pluralrm.folders import CODE, LOADED, files_hash
from pluralrm.journal import parse_document, sealed
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.loading import quietly
from pluralrm.training.actor import Actor

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
                save_file({key: one.detach().cpu().contiguous() for key, one in tensors.items()}, new / name)
            hashed = state.model_copy(update={"tensors": _hash(new)})
            (new / _STATE).write_text(json.dumps(sealed(hashed.model_dump(mode="json"))), encoding="utf-8")
            for file in new.iterdir():
                _sync(file)
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
        found = next((self.folder / name for name in (_NAME, _OLD) if (self.folder / name / _STATE).exists()), None)
        if found is None:
            return None
        try:
            state = parse_document(State, (found / _STATE).read_bytes())
            if state.tensors and state.tensors != _hash(found):
                raise RunError(f"{found}: its *.safetensors are not as they were written. {_ANEW}")
            parts = {name: load_file(found / name) for name in (_ACTOR, _CRITIC, _MOMENTS)}
        except ValueError as exc:
            raise RunError(f"{found / _STATE}: {exc}. {_ANEW}") from exc
        except (OSError, SafetensorError) as exc:
            raise RunError(f"{found}: cannot be read: {exc}. {_ANEW}") from exc
        _copy(self.actor.trained, parts[_ACTOR], found)
        _copy(dict(self.actor.critic.named_parameters()), parts[_CRITIC], found)
        self._set_moments(parts[_MOMENTS])
        return state

    def _tensors(self) -> dict[str, Mapping[str, torch.Tensor]]:
        moments = {
            f"{place}.{name}": value
            for place, kept in self.optimizer.state_dict()["state"].items()
            for name, value in kept.items()
        }
        return {_ACTOR: self.actor.trained, _CRITIC: dict(self.actor.critic.named_parameters()), _MOMENTS: moments}

    def _set_moments(self, moments: Mapping[str, torch.Tensor]) -> None:
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in moments.items():
            place, _, name = key.partition(".")
            state.setdefault(int(place), {})[name] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


_ANEW = "Restore it, or train anew with another -o"


def _hash(folder: Path) -> str:
    return files_hash(folder, [folder / name for name in (_ACTOR, _CRITIC, _MOMENTS)])


def _copy(weights: Mapping[str, torch.nn.Parameter], kept: Mapping[str, torch.Tensor], where: Path) -> None:
    if weights.keys() != kept.keys():
        raise RunError(f"{where}: found the weights of another model; train anew with another -o")
    with torch.no_grad():
        for name, one in weights.items():
            one.copy_(kept[name])


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def _name_precision(file: Path, held: str) -> None:
    """Let a config say how its weights are held now: on a GPU the old word would round what was trained away."""
    config = json.loads(file.read_text(encoding="utf-8"))
    named = {key: held for key in _PRECISIONS if config.get(key) not in {None, held}}
    if named:
        file.write_text(json.dumps({**config, **named}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

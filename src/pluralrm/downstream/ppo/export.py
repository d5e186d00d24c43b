"""The trained policy as a folder like any other: whole weights, and the tokenizer of the one it came from."""

import shutil
from pathlib import Path

from pluralrm.downstream.ppo.actor import Actor
from pluralrm.downstream.ppo.lora import merged
from pluralrm.errors import RunError
from pluralrm.folders import LOADED
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.loading import quietly

_WEIGHTS = ("config.json", "model.safetensors.index.json")


def write_policy(actor: Actor, base: ModelFolder, out: Path) -> Path:
    """Write the folder at once and return it; adapters are added to the weights."""
    beside = out.with_name(f"{out.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        with quietly():
            (actor.model if actor.copied is not None else merged(actor.model)).save_pretrained(beside)
        for file in base.path.iterdir():
            # Tokenizer and chat template as they are: written anew they might differ.
            if file.is_file() and file.suffix in LOADED and file.suffix != ".safetensors" and file.name not in _WEIGHTS:
                shutil.copyfile(file, beside / file.name)
        shutil.rmtree(out, ignore_errors=True)
        beside.replace(out)
    except OSError as exc:
        raise RunError(f"cannot write {out}: {exc}. Make room; the same command writes it again") from exc
    return out

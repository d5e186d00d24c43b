"""The trained policy as a folder like any other: the folder that it came from, with other weights."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from pluralrm.errors import RunError
from pluralrm.files import LOCK, whole_folder
from pluralrm.folders import CODE, LOADED
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.loading import quietly

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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

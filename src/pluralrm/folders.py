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
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

from pluralrm.core import digest
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
    if named := os.environ.get("PLURALRM_CACHE"):
        return Path(named).expanduser()
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
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as exc:
        raise MissingExtraError(label, extra) from exc
    # The client lets errors of its HTTP library through; which library that is depends on the client's version.
    http_error = cast(type[Exception], HfHubHTTPError.__mro__[1])
    repository, _, revision = name.partition("@")
    try:
        path = snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=[f"*{suffix}" for suffix in suffixes],
            ignore_patterns=["*/*"] if top_only else None,
        )
    except (http_error, OSError, ValueError) as exc:
        reason = str(exc).strip().split("\n")[0][:200]
        raise ModelError(f"{label}: cannot be fetched ({reason}). Name a local copy by its path") from exc
    return Snapshot(Path(path), Path(path).name)


# ---------------------------------------------------------------- what is in a folder


def files_hash(folder: Path, files: Iterable[Path]) -> str:
    """Return the SHA-256 over the names and contents of some files; a file is read once in a process."""
    return digest([[file.relative_to(folder).as_posix(), file_hash(file)] for file in sorted(files)])


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file; one that has not changed since is not read again."""
    now, found = time.time_ns(), file.stat()
    if now - found.st_mtime_ns < _SETTLED_NS:
        return _sha256(file)
    return _remembered(file.absolute(), found.st_size, found.st_mtime_ns)


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


def refuse_pickles(names: Iterable[str], *, label: str) -> None:
    """Raise where one of some file names is that of a pickle; the message says how to convert it."""
    pickles = sorted(name for name in names if name.endswith(_PICKLES))
    if pickles:
        raise ModelError(
            f"{label}: found {pickles[0]}, wanted *.safetensors: loading a pickle can run code. Convert it on a "
            "machine where that does no harm: save_pretrained(FOLDER) of transformers writes safetensors"
        )

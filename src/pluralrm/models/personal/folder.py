"""The folder of a fitted model: JSON for what is read by people, safetensors for arrays. It needs nothing else on disk.

fit.json              what was asked for and what came of it; there from the first moment, `complete` at the end
shared.safetensors    the parameters that all users share
users.safetensors     those of the training users, one array per name with a row per user, where there are any
users.json            the training users: id, and the hash of each labelled pair and post that was trained on
words.json, tfidf.safetensors   the features, where they were fitted
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import FiniteFloat
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pluralrm.errors import ModelError
from pluralrm.files import replace_file
from pluralrm.folders import files_hash
from pluralrm.journal import JournalKind, Manifest, Strict
from pluralrm.models.personal.algorithms import Fitted, State
from pluralrm.models.personal.examples import FloatArray

SHARED, USERS, SEEN = "shared.safetensors", "users.safetensors", "users.json"
MATRICES = ("training.npy", "held-out.npy")
"""The vectors of all texts, while a fit runs."""


class TrainedOn(Strict):
    """Whose pairs: a benchmark by its content, and counts. Labels of items are never among them."""

    benchmark: str
    revision: str
    content_hash: str
    users: int
    held_out: int
    pairs: int
    posts: int
    labels: Literal["own", "shuffled"] = "own"
    written: str = ""
    """Whose pairs they are, where not the users' own choices."""


class EpochRecord(Strict):
    """One point of the loss curves."""

    number: int
    training: FiniteFloat
    held_out: FiniteFloat


class FitManifest(Manifest):
    """fit.json."""

    status: Literal["incomplete", "complete"] = "incomplete"
    algorithm: str
    settings: dict[str, int | float | str]
    features: str
    seed: int
    trained_on: TrainedOn
    by_size: tuple[str, ...] = ()
    """The settings whose default went by how many users and pairs are trained on; fits of before have none."""
    features_identity: str = ""
    rule: Literal["joined", "apart"] = "joined"
    """How the features read an answer; folders from before this was declared say nothing."""
    texts: int = 0
    longer: int = 0
    """Distinct texts that were fitted on, and those longer than the model's window: cut where the rule is `joined`."""
    curve: tuple[EpochRecord, ...] = ()
    seconds: dict[str, FiniteFloat] = {}
    """What it cost: features, fit, and adapting one held-out user on average."""
    versions: dict[str, str] = {}
    files_hash: str = ""
    """Of all that shapes a score, once the fit is complete; none in fits of before."""

    def facts(self) -> dict[str, object]:
        """Return what must be the same for a folder to be that of a command."""
        names = ("algorithm", "settings", "features", "seed")
        return {**{name: getattr(self, name) for name in names}, "trained_on": self.trained_on.model_dump()}


FIT = JournalKind(
    noun="fit",
    manifest="fit.json",
    record=FitManifest,
    error=ModelError,
    source="'pluralrm fit' writes one with -o",
    anew="fit it again",
    other="Name another folder with -o, or remove it",
)


def check_files(folder: Path, manifest: FitManifest) -> None:
    """Raise where the arrays and words are not those that were fitted."""
    if manifest.files_hash and folder_hash(folder) != manifest.files_hash:
        names = ", ".join(sorted(file.name for file in _shaping(folder)))
        raise ModelError(f"personal:{folder}: one of {names} is not as it was fitted. Restore it, or fit it anew")


def write_fitted(folder: Path, fitted: Fitted, seen: Mapping[str, Sequence[str]]) -> None:
    """Write the parameters, and who was trained on: users, each with the hashes of pairs and posts."""
    _save(fitted.shared, folder / SHARED)
    names = list(fitted.users)
    if names:
        keys = sorted(fitted.users[names[0]])
        _save({key: np.stack([fitted.users[name][key] for name in names]) for key in keys}, folder / USERS)
    stored = [[user, list(hashes), user in fitted.users] for user, hashes in seen.items()]
    replace_file(folder / SEEN, json.dumps(stored, ensure_ascii=False))


def _save(arrays: Mapping[str, FloatArray], file: Path) -> None:
    save_file({name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}, file)


def read_shared(folder: Path) -> State:
    """Return the shared parameters."""
    return _load(folder / SHARED)


def read_users(folder: Path) -> tuple[dict[str, frozenset[str]], dict[str, State]]:
    """Return what was trained on of each user, and the stored parameters of those that have some."""
    try:
        rows = json.loads((folder / SEEN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelError(f"personal:{folder}: {SEEN} cannot be read: {exc}. Fit it anew") from exc
    seen = {user: frozenset(hashes) for user, hashes, _ in rows}
    stored = [user for user, _, has in rows if has]
    arrays = _load(folder / USERS) if stored else {}
    return seen, {user: {key: array[place] for key, array in arrays.items()} for place, user in enumerate(stored)}


def _load(file: Path) -> dict[str, FloatArray]:
    try:
        found: dict[str, FloatArray] = load_file(file)
    except (OSError, SafetensorError) as exc:
        raise ModelError(f"personal:{file.parent}: {file.name} cannot be read: {exc}. Fit it anew") from exc
    return found


def folder_hash(folder: Path) -> str:
    """Return the SHA-256 over all that shapes a score: parameters, users, features; not of times and curves."""
    return files_hash(folder, _shaping(folder))


def _shaping(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix in {".safetensors", ".json"} and file.name != FIT.manifest]

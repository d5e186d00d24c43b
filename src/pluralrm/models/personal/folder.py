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
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pluralrm.errors import ModelError
from pluralrm.files import replace_file
from pluralrm.folders import files_hash
from pluralrm.journal import parse_document, sealed
from pluralrm.models.personal.algorithms import Fitted, State
from pluralrm.models.personal.examples import FloatArray

MANIFEST, SHARED, USERS, SEEN = "fit.json", "shared.safetensors", "users.safetensors", "users.json"
MATRICES = ("training.npy", "held-out.npy")
"""The vectors of all texts, while a fit runs."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TrainedOn(_Strict):
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


class EpochRecord(_Strict):
    """One point of the loss curves."""

    number: int
    training: FiniteFloat
    held_out: FiniteFloat


class FitManifest(_Strict):
    """fit.json. What a second command must agree with is `asked`; the rest is what came of it."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
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

    @property
    def asked(self) -> tuple[object, ...]:
        """What must be the same for a folder to be that of a command."""
        return self.algorithm, self.settings, self.features, self.seed, self.trained_on

    def to_json(self) -> str:
        """Return the text of fit.json."""
        return json.dumps(sealed(self.model_dump(mode="json", by_alias=True)), indent=1, ensure_ascii=False) + "\n"


def holds_fit(folder: Path) -> bool:
    """Return whether a fit was begun in a folder."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> FitManifest:
    """Return fit.json; a ModelError says what is wrong with it."""
    label = f"personal:{folder}"
    try:
        text = (folder / MANIFEST).read_bytes()
    except OSError as exc:
        raise ModelError(f"{label}: found no {MANIFEST}; wanted a folder that 'pluralrm fit' wrote") from exc
    try:
        return parse_document(FitManifest, text)
    except ValueError as exc:
        raise ModelError(f"{label}: {MANIFEST}: {exc}. Fit it anew") from exc


def check_files(folder: Path, manifest: FitManifest) -> None:
    """Raise where the arrays and words are not those that were fitted."""
    if manifest.files_hash and folder_hash(folder) != manifest.files_hash:
        names = ", ".join(sorted(file.name for file in _shaping(folder)))
        raise ModelError(f"personal:{folder}: one of {names} is not as it was fitted. Restore it, or fit it anew")


def write_manifest(folder: Path, manifest: FitManifest) -> None:
    """Write fit.json at once."""
    replace_file(folder / MANIFEST, manifest.to_json())


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
    return [file for file in folder.iterdir() if file.suffix in {".safetensors", ".json"} and file.name != MANIFEST]

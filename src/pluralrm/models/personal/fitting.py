"""`fit`: from a benchmark's context pairs to a folder. The same call on a complete folder does nothing.

What an interruption left is removed and fitted again: fits take minutes at most, and end at the same numbers. In the
folder is JSON for what is read by people, safetensors for arrays:

fit.json              what was asked for and what came of it; there from the first moment, `complete` at the end
shared.safetensors    the parameters that all users share
users.safetensors     those of the training users, one array per name with a row per user, where there are any
users.json            the training users: id, and the hash of each labelled pair and post that was trained on
words.json, tfidf.safetensors   the features, where they were fitted
"""

import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import FiniteFloat
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # it comes with scikit-learn

from pluralrm.cluster import Cluster, each_job
from pluralrm.core import Benchmark, ContextPair, User, persons
from pluralrm.digests import digest
from pluralrm.display import brief
from pluralrm.errors import ModelError, check_type
from pluralrm.files import LOCK, beside_of, replace_file
from pluralrm.folders import files_hash
from pluralrm.journal import Journal, JournalKind, Manifest, Strict
from pluralrm.models.personal.algorithms import (
    Algorithm,
    Fitted,
    Hyper,
    Size,
    State,
    Tell,
    by_size,
    find,
    load_algorithm,
    read_settings,
)
from pluralrm.models.personal.examples import FloatArray, UserExamples, split_held_out
from pluralrm.models.personal.features import all_texts, examples_on_disk, fit_features, parse_features, training_texts

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

    __repr__ = brief

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
        raise ModelError(f"personal:{folder}: one of {names} is not as it was fitted. Restore it, or fit it again")


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
        raise ModelError(f"personal:{folder}: {SEEN} cannot be read: {exc}. Fit it again") from exc
    seen = {user: frozenset(hashes) for user, hashes, _ in rows}
    stored = [user for user, _, has in rows if has]
    arrays = _load(folder / USERS) if stored else {}
    return seen, {user: {key: array[index] for key, array in arrays.items()} for index, user in enumerate(stored)}


def _load(file: Path) -> dict[str, FloatArray]:
    try:
        arrays: dict[str, FloatArray] = load_file(file)
    except (OSError, SafetensorError) as exc:
        raise ModelError(f"personal:{file.parent}: {file.name} cannot be read: {exc}. Fit it again") from exc
    return arrays


def folder_hash(folder: Path) -> str:
    """Return the SHA-256 over all that shapes a score: parameters, users, features; not of times and curves."""
    return files_hash(folder, _shaping(folder))


def _shaping(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix in {".safetensors", ".json"} and file.name != FIT.manifest]


Labels = Literal["own", "shuffled"]


# ---------------------------------------------------------------- the fit


class FitRequest(NamedTuple):
    """What is to be fitted, and where embeddings are kept."""

    settings: Hyper
    features: str = "tfidf"
    seed: int = 0
    labels: Labels = "own"
    cache: Path | None = None


def fit(benchmark: Benchmark, request: FitRequest, out: Path, *, log: Tell = lambda _: None) -> FitManifest:
    """Return the manifest of a fitted folder, fitting it where it is not complete.

    Trained on are the context pairs of the benchmark's users, never the label of an item. A folder that was fitted
    otherwise is an error.
    """
    users = trainable(benchmark, request)
    held_ids = held_out(benchmark, users, request)
    request = request._replace(settings=request.settings.sized(size_of(users, held_ids)))
    plan = _manifest(benchmark, request, users, held_ids)
    with Journal(out, FIT, plan) as journal:
        if journal.manifest.status == "complete":
            return journal.manifest
        names = {LOCK, FIT.manifest, beside_of(out / FIT.manifest).name}
        if not FIT.holds(out) and any(file.name not in names for file in out.iterdir()):
            raise ModelError(f"{out}: holds other files, wanted a new or empty folder. Name another with -o")
        try:
            journal.write(plan)
            manifest = _fitted(users, held_ids, request, plan, out=out, log=log)
            _remove_matrices(out)  # a kill leaves no complete folder with gigabytes that nothing reads
            journal.write(manifest)
        except (OSError, SafetensorError) as exc:
            raise ModelError(f"cannot write {out}: {exc}. Make room: the same command fits it again") from exc
        finally:
            _remove_matrices(out)
    return manifest


def fit_each(benchmark: Benchmark, requests: Mapping[Path, FitRequest], on: Cluster | None = None) -> list[FitManifest]:
    """Return the manifest of each folder, fitting those that are not complete: here, or each as a task of a cluster.

    A fit is written where it is computed, so all machines of the cluster must see the folders.
    """
    folders = [folder if on is None else folder.resolve() for folder in requests]
    manifests = each_job(on, fit, [(benchmark, *cell) for cell in zip(requests.values(), folders, strict=True)])
    for folder, manifest in zip(folders, manifests, strict=True):
        if not FIT.holds(folder) or FIT.read(folder) != manifest:
            raise ModelError(f"{folder}: fitted on another machine, and not there on this one. Name a shared folder")
    return manifests


def fit_requests(
    out: Path,
    algorithms: Sequence[str],
    seeds: Sequence[int],
    hyperparameters: Mapping[str, str | float],
    *,
    single: bool,
    features: str = "tfidf",
    shuffled: bool = False,
) -> dict[Path, FitRequest]:
    """Return what is fitted in which folder: OUT/ALGO-SEED for each algorithm and seed, OUT for a `single` one."""
    for name in algorithms:
        check_type(name, (str,), "algorithm", "the name of one, such as 'bt' or 'lore'")
        find(name)
    texts = {name: str(value) for name, value in hyperparameters.items()}
    return {
        out if single else out / f"{name}-{seed}": FitRequest(
            read_settings(name, texts), features, seed, "shuffled" if shuffled else "own"
        )
        for name, seed in product(algorithms, seeds)
    }


def trainable(benchmark: Benchmark, fit_request: FitRequest) -> list[User]:
    """Return the users with labelled pairs, in the order of their ids; with shuffled labels, if those are asked for.

    A user who asks several questions is learned from what stands with each of them, and from nothing later.
    """
    users = sorted((user for user in benchmark.users_before if user.preferences), key=lambda user: user.id)
    if not users and any(user.preferences for user in benchmark.users):
        raise ModelError(
            f"{benchmark.card.name}: no context pair stands with all questions of its user, so that each may be later "
            "than one of them: nothing to fit on. Give every row of a user the pairs from before the first question"
        )
    if not users:
        raise ModelError(
            f"{benchmark.card.name} has no labelled context pairs of its users: nothing to fit on. The labels of items "
            "are never trained on; see 'pluralrm fit --help'"
        )
    return users if fit_request.labels == "own" else [shuffled(user, fit_request.seed) for user in users]


def held_out(benchmark: Benchmark, users: Sequence[User], fit_request: FitRequest) -> frozenset[str]:
    """Return the ids of the users held out: whole people, for one person may have asked under several ids.

    People who judged equal texts go together (`split_held_out`).
    """
    behind = persons(benchmark.items)
    who = {item.user.id: behind[item.cluster] for item in benchmark.items if item.user is not None}
    judged: dict[str, list[tuple[str, tuple[str, str]]]] = {}
    for user in users:
        pairs = ((preference.prompt, (preference.preferred, preference.other)) for preference in user.preferences)
        judged.setdefault(who[user.id], []).extend(pairs)
    aside = split_held_out(judged, fit_request.settings.real("held_out"), fit_request.seed)
    return frozenset(user.id for user in users if who[user.id] in aside)


def size_of(users: Sequence[User], held_ids: AbstractSet[str]) -> Size:
    """Return how many users are trained on, and how many pairs of theirs."""
    trained = [user for user in users if user.id not in held_ids]
    return Size(len(trained), sum(len(user.preferences) for user in trained))


def shuffled(user: User, seed: int) -> User:
    """Return the user with each pair's label given by a coin, seeded by the pair: the control of all labels."""
    pairs = tuple(_tossed(pair, random.Random(f"{seed}:{user.id}:{pair.id}")) for pair in user.preferences)
    return replace(user, preferences=pairs)


def _tossed(pair: ContextPair, rng: random.Random) -> ContextPair:
    return pair if rng.random() < 0.5 else replace(pair, preferred=pair.other, other=pair.preferred)


def _manifest(
    benchmark: Benchmark, fit_request: FitRequest, users: Sequence[User], held_ids: frozenset[str]
) -> FitManifest:
    size = size_of(users, held_ids)
    return FitManifest(
        algorithm=fit_request.settings.algorithm,
        settings=dict(fit_request.settings.values),
        by_size=tuple(sorted(set(by_size(fit_request.settings.algorithm, size)) - fit_request.settings.explicit)),
        features=str(parse_features(fit_request.features)),
        seed=fit_request.seed,
        trained_on=TrainedOn(
            benchmark=benchmark.card.name,
            revision=benchmark.card.revision,
            content_hash=benchmark.content_hash,
            users=size.users,
            held_out=len(held_ids),
            pairs=size.pairs,
            posts=sum(len(user.posts) for user in users if user.id not in held_ids),
            labels=fit_request.labels,
            written=benchmark.card.pairs,
        ),
    )


def _fitted(
    users: Sequence[User], held_ids: frozenset[str], fit_request: FitRequest, plan: FitManifest, *, out: Path, log: Tell
) -> FitManifest:
    began = time.monotonic()
    algorithm = load_algorithm(fit_request.settings.algorithm, fit_request.settings)
    trained = [user for user in users if user.id not in held_ids]
    features = fit_features(
        parse_features(fit_request.features), training_texts(trained), seed=fit_request.seed, cache=fit_request.cache
    )
    aside = [user for user in users if user.id in held_ids]
    parts = zip((trained, aside), MATRICES, strict=True)
    train, validation = (examples_on_disk(some, features, out / name) for some, name in parts)
    texts, longer = features.count(all_texts(users))
    ready = time.monotonic()
    with threadpool_limits(limits=1):  # many small products: threads would wait for each other, and order sums anew
        fitted = algorithm.fit(train, validation, seed=fit_request.seed, log=log)
    done = time.monotonic()
    features.save(out)
    write_fitted(out, fitted, {user.id: seen_hashes(user) for user in trained})
    return plan.model_copy(
        update={
            "status": "complete",
            "features_identity": features.identity,
            "rule": features.rule,
            "texts": texts,
            "longer": longer,
            "curve": tuple(EpochRecord(**epoch._asdict()) for epoch in fitted.curve),
            "seconds": {
                "features": ready - began,
                "fit": done - ready,
                "adapt": _adapting(algorithm, fitted, validation),
            },
            "versions": _versions(),
            "files_hash": folder_hash(out),
        }
    )


def _remove_matrices(out: Path) -> None:
    for name in MATRICES:
        (out / name).unlink(missing_ok=True)


def _adapting(algorithm: Algorithm, fitted: Fitted, users: Sequence[UserExamples]) -> float:
    """Return the mean seconds that a held-out user's adapting takes."""
    began = time.monotonic()
    for user in users:
        algorithm.adapt(fitted.shared, user)
    return (time.monotonic() - began) / len(users)


def seen_hashes(user: User) -> list[str]:
    """Return a short hash of each pair and post: what tells this user from a namesake of another benchmark."""
    return [pair_hash(pair) for pair in user.preferences] + [text_hash(post.text) for post in user.posts]


def pair_hash(pair: ContextPair) -> str:
    """Return a short hash of a labelled pair."""
    return digest([pair.prompt, pair.preferred, pair.other])[:16]


def text_hash(text: str) -> str:
    """Return a short hash of a text."""
    return digest(text)[:16]


def _versions() -> dict[str, str]:
    import scipy

    from pluralrm._version import __version__

    return {"pluralrm": __version__, "numpy": np.__version__, "scipy": scipy.__version__}


# ---------------------------------------------------------------- what a user's own pairs are worth


class Gain(NamedTuple):
    """A gain in points, and its interval."""

    value: float
    low: float
    high: float


CURVE: Mapping[str, Mapping[int, Gain]] = {
    "lore": {50: Gain(3.4, 2.1, 4.6), 100: Gain(5.6, 4.1, 7.2), 175: Gain(7.3, 5.5, 9.2), 400: Gain(11.3, 8.5, 14.2)},
    "pref": {
        50: Gain(4.7, 3.3, 6.0),
        100: Gain(8.6, 6.9, 10.3),
        175: Gain(9.5, 7.7, 11.3),
        400: Gain(14.8, 11.9, 17.6),
    },
    "gpo": {50: Gain(3.5, 1.6, 5.3), 100: Gain(6.3, 4.4, 8.2), 175: Gain(5.4, 3.6, 7.1), 400: Gain(10.2, 7.1, 13.2)},
    "vpl": {50: Gain(3.0, 1.3, 4.7), 100: Gain(5.2, 3.5, 7.0), 175: Gain(6.1, 4.3, 7.9), 400: Gain(6.5, 3.8, 9.3)},
    "pal-a": {50: Gain(4.3, 2.5, 6.0), 100: Gain(4.7, 2.6, 6.7), 175: Gain(6.2, 4.1, 8.2), 400: Gain(10.1, 7.2, 13.0)},
    "pal-b": {50: Gain(6.2, 4.3, 8.0), 100: Gain(7.3, 5.2, 9.3), 175: Gain(7.6, 5.6, 9.6), 400: Gain(9.3, 6.7, 11.9)},
}
"""By algorithm and training users, by bench/studies/personal_curve.py, in points of accuracy over the same model
with another user's pairs, with the 95% interval over people. The world is `simulated` with 20 pairs a user; new people
show eight. Up to 175 users two worlds (seeds 11 and 12), each with one training and 150 people; 400 users: the first
alone."""

_CLEAR = 2.6
"""Points: by so many trainings of one algorithm on two seeds differed, at most, when the same people were asked."""


_STEADY = ("lore", "pref")
"""What is recommended: fits that no draw of weights decides, in seconds."""


def better_served(algorithm: str, users: int) -> list[str]:
    """Return a sentence that names lore or pref, if it gained clearly more than a network with about so many users.

    Nothing where the difference is not clear, and where there are more users than were measured.
    """
    if algorithm in _STEADY or algorithm not in CURVE or users > max(CURVE[algorithm]):
        return []
    near = min(CURVE[algorithm], key=lambda measured: abs(math.log(measured / users)))
    mine = CURVE[algorithm][near]
    best = max((name for name in _STEADY if near in CURVE[name]), key=lambda name: CURVE[name][near].value)
    most = CURVE[best][near]
    if most.value <= max(mine.high, mine.value + _CLEAR):
        return []
    text = f"{algorithm} gained {mine.value:.1f} points of accuracy from a user's own pairs, {best} {most.value:.1f}"
    return [f"With {near} users of simulated {text}: with so few users {best} serves better."]

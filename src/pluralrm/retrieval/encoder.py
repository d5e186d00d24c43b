"""Texts to vectors: each distinct text once, long ones first, in batches of about equally many tokens, kept on disk.

The key of a kept vector must cover all that shapes it.
"""

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pluralrm.core import digest
from pluralrm.errors import ModelError, RunError
from pluralrm.folders import default_cache
from pluralrm.retrieval.folder import EmbeddingFolder, EmbeddingModel, Similarity, open_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


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

        found: dict[bytes, Vectors] = {}
        with self._open() as database:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = database.execute(f"SELECT key, vector, seal FROM vectors WHERE key IN ({marks})", some)  # noqa: S608 - marks only
                for key, vector, seal in rows:
                    if seal is not None and seal != _seal(key, vector):
                        raise self._unusable("a vector is not as it was kept")
                    found[key] = np.frombuffer(vector, dtype="<f4")
        return found

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
        known = self._cache.get(list(keys.values()))
        vectors = {text: known[key] for text, key in keys.items() if key in known}
        for some in self._computed([text for text in keys if text not in vectors], role):
            self._cache.put({keys[text]: vector for text, vector in some.items()})
            vectors.update(some)
        return vectors

    def whole(self, texts: Iterable[str], role: Role) -> "dict[str, Vectors]":
        """Return the vector of each distinct text, read to its end: the mean over windows, where it takes several."""
        pieces = self.windows(texts, role)
        known = self.vectors((piece for some in pieces.values() for piece in some), role)
        return {text: self._mean([known[piece] for piece in some]) for text, some in pieces.items()}

    def windows(self, texts: Iterable[str], role: Role) -> dict[str, list[str]]:
        """Return each distinct text in the windows in which the model reads it to its end; one for most."""
        import numpy as np

        keys = {text: bytes.fromhex(digest([self.identity, "windows", role, text])) for text in dict.fromkeys(texts)}
        # Where windows begin is kept as a vector is: float32 is exact up to 16 million characters.
        known = self._cache.get(list(keys.values()))
        starts = {text: known[key].astype(int).tolist() for text, key in keys.items() if key in known}
        if new := [text for text in keys if text not in starts]:
            self._backend = self._backend or self._load(self._folder)
            backend = self._backend
            found = window_starts(new, lambda pieces: backend.fits(pieces, role))
            self._cache.put({keys[text]: np.array(found[text], np.float32) for text in new})
            starts.update(found)
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
        found: Vectors = mean.astype(np.float32)
        return found

    def _computed(self, texts: Sequence[str], role: Role) -> "Iterator[dict[str, Vectors]]":
        """Yield the vectors of new texts, some at a time."""
        if not texts:
            return
        self._backend = self._backend or self._load(self._folder)
        some: dict[str, Vectors] = {}
        places = batches(self._backend.lengths(texts), self._backend.budget)
        asked = [[texts[place] for place in batch] for batch in places]
        for batch, rows in zip(asked, self._backend.encode(asked, role), strict=True):
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
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
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
    return {text: sorted(found) for text, found in starts.items()}


def _near_blank(text: str, start: int, end: int) -> int:
    """Return the place behind the blank nearest to the middle, or the middle where a quarter around it has none."""
    middle = (start + end) // 2
    reach = (end - start) // 8
    behind = (place + 1 for place in range(middle - reach, middle + reach) if text[place].isspace())
    return min(behind, key=lambda place: abs(place - middle), default=middle)


def _cut(text: str, starts: Sequence[int]) -> list[str]:
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]

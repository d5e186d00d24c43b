"""Vectors kept on disk, so that no text is embedded twice. A key must cover all that shapes its vector."""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pluralrm.errors import RunError
from pluralrm.folders import default_cache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_AT_ONCE = 500
"""Keys per query: below the number of variables that every SQLite allows."""
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""


class VectorCache:
    """float32 vectors by key, in one SQLite file (WAL) that several processes may share."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = (folder or default_cache()) / "embeddings.sqlite"

    def get(self, keys: Sequence[bytes]) -> "dict[bytes, Vector]":
        """Return the vectors that are kept, by key."""
        import numpy as np

        found: dict[bytes, Vector] = {}
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

    def put(self, vectors: "Mapping[bytes, Vector]") -> None:
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

"""What a report reads: the runs, where they came from, and what their models were given."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.core import Run
from pluralrm.runs import find_runs, load_run
from pluralrm.runs.records import Manifest, read_manifest


@dataclass(frozen=True, slots=True)
class Source:
    """A run and its run.json."""

    run: Run
    manifest: Manifest


def read_sources(paths: Sequence[str | Path]) -> list[Source]:
    """Return the runs at or below some paths, in the order of their folders' names."""
    return [Source(load_run(folder), _manifest(folder)) for folder in find_runs(paths)]


def _manifest(folder: Path) -> Manifest:
    file = folder / "run.json"
    return read_manifest(file.read_text(encoding="utf-8"), str(file))


def read_inputs(path: str | Path) -> Iterator[Mapping[str, object]]:
    """Yield what a model was given, item by item; nothing where the run keeps no inputs, or past a torn end."""
    file = Path(path) / "inputs.jsonl.gz"
    if not file.exists():
        return
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
    except (EOFError, zlib.error, gzip.BadGzipFile, json.JSONDecodeError):
        return  # a writer at work, or a kill: what is whole has been read

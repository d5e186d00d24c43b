"""What a report reads: the runs, and where they came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.core import Run
from pluralrm.runs import load_manifest, load_runs
from pluralrm.runs.records import Manifest


@dataclass(frozen=True, slots=True)
class Source:
    """A run and its run.json."""

    run: Run
    manifest: Manifest


def read_sources(paths: Sequence[str | Path]) -> list[Source]:
    """Return the runs at or below some paths, in the order of their folders; runs without any row are an error."""
    return [Source(run, load_manifest(run.path)) for run in load_runs(paths)]

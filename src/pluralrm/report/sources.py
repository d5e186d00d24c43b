"""What a report reads: the runs, where they came from, and what is shown beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.audit.result import Audit
from pluralrm.core import Run
from pluralrm.report.human import Asked
from pluralrm.runs import load_manifest, load_runs
from pluralrm.runs.records import Manifest


@dataclass(frozen=True, slots=True)
class Source:
    """A run and its run.json."""

    run: Run
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Beside:
    """What a report shows beside the runs of the same content: audits, and what people said."""

    audits: Sequence[Audit] = ()
    people: Sequence[Asked] = ()


def read_sources(paths: Sequence[str | Path]) -> list[Source]:
    """Return the runs at or below some paths, in the order of their folders; runs without any row are an error."""
    return [Source(run, load_manifest(run.path)) for run in load_runs(paths)]

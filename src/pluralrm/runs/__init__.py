"""Runs: one model on one benchmark under one condition, as rows on disk that outlive any kill.

>>> import tempfile
>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.runs import score
>>> run = score(load_benchmark("pocket-prb"), "longest", "none", out=tempfile.mkdtemp(), limit=6)
>>> len(run.rows), run.complete
(6, True)
"""

from pluralrm.runs.loop import GridCell, Progress, dry_score, each_cell, plan, run_folder, score
from pluralrm.runs.store import find_runs, load_inputs, load_manifest, load_run, load_runs, read_inputs, runs_of
from pluralrm.runs.usage import last_outage, total

__all__ = [
    "GridCell",
    "Progress",
    "dry_score",
    "each_cell",
    "find_runs",
    "last_outage",
    "load_inputs",
    "load_manifest",
    "load_run",
    "load_runs",
    "plan",
    "read_inputs",
    "run_folder",
    "runs_of",
    "score",
    "total",
]

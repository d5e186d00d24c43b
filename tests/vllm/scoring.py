"""Runs by the real command line."""

import subprocess
from pathlib import Path

from pluralrm.core import Run
from pluralrm.runs import find_runs, load_run
from tests.cli.test_verbs import pluralrm

CONDITIONS = ("none", "raw:10")


def score(model: str, desk: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Score a model on pocket-prb under every condition."""
    desk.mkdir(exist_ok=True)
    shown = [word for condition in CONDITIONS for word in ("-c", condition)]
    return pluralrm("score", "pocket-prb", "-m", model, *shown, "-o", "runs", *words, cwd=desk)


def scored(model: str, desk: Path, *words: str) -> list[Run]:
    """Return the runs of a model, complete, in the order of the conditions; `desk` holds no others."""
    done = score(model, desk, *words)
    assert done.returncode == 0, done.stderr
    runs = {run.condition: run for run in map(load_run, find_runs([desk / "runs"]))}
    assert all(run.complete for run in runs.values())
    return [runs[condition] for condition in CONDITIONS]

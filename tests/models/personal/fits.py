"""Small fits on simulated users, and what they are worth on others."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Run
from pluralrm.models import load_model
from pluralrm.models.personal.algorithms import read_settings
from pluralrm.models.personal.fitting import FitRequest, Labels, fit
from pluralrm.runs import score


@cache
def world(users: int, items: int, pairs: int, seed: int) -> Benchmark:
    return load_benchmark(f"simulated:users={users},items={items},pairs={pairs},seed={seed}")


def fitted(
    name: str, train: Benchmark, out: Path, *, labels: Labels = "own", given: Mapping[str, str] | None = None
) -> Path:
    """Return the folder of a fit."""
    fit(train, FitRequest(read_settings(name, given or {}), labels=labels), out)
    return out


def run(folder: Path, bench: Benchmark, condition: str, out: Path) -> Run:
    """Return what the model of a folder says of a benchmark under a condition."""
    return score(bench, load_model(f"personal:{folder}"), condition, out=out)

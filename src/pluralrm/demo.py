"""The demo: every baseline on both shipped benchmarks, without and with the user's posts."""

from collections.abc import Callable, Iterator
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Run
from pluralrm.models import BASELINES
from pluralrm.runs import Cell, plan, score

BENCHMARKS = ("pocket-prb", "pocket-rmgap")
CONDITIONS = ("none", "recent:10")


def run_demo(out: str | Path, skipped: Callable[[Cell], None]) -> Iterator[Run]:
    """Yield the runs as they end; what a benchmark cannot support is handed to `skipped` with its reason."""
    for cell in plan([load_benchmark(name) for name in BENCHMARKS], BASELINES, CONDITIONS):
        if cell.skip is None:
            yield score(cell.benchmark, cell.model, cell.condition, out=out)
        else:
            skipped(cell)

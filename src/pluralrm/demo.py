"""The demo: every baseline on the shipped benchmarks and on simulated users, with and without the right user's posts.

On simulated users there is also the best that any model can do with the posts: what a personalized model looks like.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.scorers import posts_known
from pluralrm.core import Run
from pluralrm.models import BASELINES
from pluralrm.runs import Cell, plan, score

SHIPPED = ("pocket-prb", "pocket-rmgap")
SIMULATED = "simulated:users=150,items=2"
OWN = "raw:10"
CONDITIONS = ("none", OWN, "swapped:10", "oracle")


def run_demo(out: str | Path, skipped: Callable[[Cell], None]) -> Iterator[Run]:
    """Yield the runs as they end; what a benchmark cannot support is handed to `skipped` with its reason."""
    simulated = load_benchmark(SIMULATED)
    for cell in plan([*map(load_benchmark, SHIPPED), simulated], BASELINES, CONDITIONS):
        if cell.skip is None:
            yield score(cell.benchmark, cell.model, cell.condition, out=out)
        else:
            skipped(cell)
    for condition in CONDITIONS[:3]:  # it reads posts, not rubrics
        yield score(simulated, posts_known(simulated), condition, out=out)

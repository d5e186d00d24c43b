"""`pluralrm demo`: every baseline on the shipped benchmarks and on simulated users, and what to try next."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import console, note

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, Run
    from pluralrm.runs import GridCell

SHIPPED = ("pocket-prb", "pocket-rmgap")
SIMULATED = "simulated:users=150,items=2,pairs=8"
TRAINING = "simulated:users=200,items=1,pairs=24,posts=0,seed=1"
"""Other users than those of SIMULATED, with pairs to learn from; no item of theirs is used."""
OWN = "raw:10"
PAIRS = "pairs:8"
CONDITIONS = ("none", OWN, "swapped:10", "swapped:10,by=prompt", "oracle")

RUNS = 79
"""So many runs the grid has, and those of the two models beside it; a test counts them."""

_NEXT = """The report, with every item and plot: {report}
What to try next:
  every number behind this       pluralrm compare {out} --all
  what a model was given         pluralrm show {run} --item {item}
  your own, in my_model.py       pluralrm evaluate python:my_model:MyModel
  one that learns from others    pluralrm fit pref --train simulated:users=200,pairs=24,seed=1 -o my-fit
  the real benchmarks            pluralrm list benchmarks
"""


def demo(
    out: Path = typer.Option(Path("demo-runs"), "--out", "-o", help="Folder of the runs."),
) -> None:
    """Score the baselines with and without the user's posts: no download, no key, no GPU, under a minute."""
    note("scoring seven baselines, an exact model and a fitted one, with and without the user; half a minute")
    from pluralrm.cli.compare import same_items
    from pluralrm.cli.overview import View, print_answer, print_overview
    from pluralrm.report import write_report

    reasons: Counter[str] = Counter()

    def skipped(cell: "GridCell") -> None:
        reasons[cell.skip or ""] += 1

    runs = []
    with ProgressDisplay("demo", "runs") as display:
        display.waits()
        for run in run_demo(out, skipped):
            runs.append(run)
            display.show(len(runs), RUNS)
    left_out = f"{sum(reasons.values())} left out: a benchmark without posts, a model that needs them"
    note(f"{len(runs)} runs in {out}, {left_out}")
    report = out / "report.html"
    with ProgressDisplay("") as display:
        display.waits(f"demo: comparing {len(runs)} runs for the report")
        write_report([out], report)
    groups = sorted(same_items(runs), key=_order)
    for group in groups:
        print_overview(group, View(quiet=True))
    console().print()
    print_answer(groups[-1])
    shown = next(run for run in runs if run.model == "lsa" and run.condition == OWN)
    console().print(_NEXT.format(report=report, out=out, run=shown.path, item=shown.rows[0].item).rstrip())


def _order(group: "Sequence[Run]") -> tuple[bool, int]:
    """Return a key that puts last what says most: users rather than records, then the most items."""
    return group[0].card.cluster == "user", len(group[0].rows)


def run_demo(out: Path, skipped: "Callable[[GridCell], None]") -> "Iterator[Run]":
    """Yield the runs as they end; what a benchmark cannot support is handed to `skipped` with its reason.

    On simulated users there are also the best that any model can do with the posts, and a personalized model.
    """
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.benchmarks.simulated.scorers import posts_known
    from pluralrm.models import BASELINES
    from pluralrm.runs import plan, score

    simulated = load_benchmark(SIMULATED)
    for cell in plan([*map(load_benchmark, SHIPPED), simulated], BASELINES, CONDITIONS):
        if cell.skip is None:
            yield score(cell.benchmark, cell.model, cell.condition, out=out)
        else:
            skipped(cell)
    for condition in CONDITIONS[:4]:  # it reads posts, not rubrics
        yield score(simulated, posts_known(simulated), condition, out=out)
    yield from _personal(simulated, out)


def _personal(simulated: "Benchmark", out: Path) -> "Iterator[Run]":
    """Yield the runs of a model fitted on pairs of other users, which sees eight pairs of each user that it judges."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.models import load_model
    from pluralrm.models.personal.algorithms import read_settings
    from pluralrm.models.personal.fitting import FitRequest, fit
    from pluralrm.runs import score

    fit(load_benchmark(TRAINING), FitRequest(read_settings("pref", {})), out / "pref")
    model = load_model(f"personal:{out / 'pref'}")
    for condition in ("none", PAIRS, f"{PAIRS},of=swapped", f"{PAIRS},of=swapped,by=prompt"):
        yield score(simulated, model, condition, out=out)

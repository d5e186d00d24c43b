"""`pluralrm demo`: every baseline on the shipped benchmarks and on simulated users, and what to try next."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

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

_NEXT = """
The report, with every plot and item: {report}

What to try next
  one item, and exactly what the model was given
      pluralrm show {run} --item {item}
  the same ranking with every pairwise difference
      pluralrm compare {out} --json
  your own model: a class with score(queries), in my_model.py
      pluralrm check python:my_model:MyModel
      pluralrm score pocket-prb -m python:my_model:MyModel -c none -c raw:10 -c swapped:10
  a reward model that adapts to each user, from labelled pairs of others
      pluralrm fit pref --train simulated:users=200,pairs=24,seed=1 -o my-fit
  the real benchmarks
      pluralrm list benchmarks
"""


def demo(
    out: Path = typer.Option(Path("demo-runs"), "--out", "-o", help="Folder of the runs."),
) -> None:
    """Score the baselines with and without the user's posts: no download, no key, no GPU, under a minute."""
    from pluralrm.cli.compare import print_board, same_items
    from pluralrm.cli.personalization import print_personal, print_prompt_use
    from pluralrm.report import write_report

    reasons: Counter[str] = Counter()

    def skipped(cell: "GridCell") -> None:
        reasons[cell.skip or ""] += 1

    runs = list(run_demo(out, skipped))
    note(f"{len(runs)} runs in {out}")
    for reason, times in reasons.items():
        note(f"skipped ({times}×): {reason}")
    for group in same_items(runs):
        print_board([run for run in group if run.condition in {OWN, PAIRS}] or group)
        print_personal(group)
        print_prompt_use(group)
    shown = next(run for run in runs if run.model == "lsa" and run.condition == OWN)
    report = out / "report.html"
    write_report([out], report)
    console().print(_NEXT.format(report=report, out=out, run=shown.path, item=shown.rows[0].item).rstrip())


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
    from pluralrm.models.personal.fitting import Asked, fit
    from pluralrm.runs import score

    fit(load_benchmark(TRAINING), Asked(read_settings("pref", {})), out / "pref")
    model = load_model(f"personal:{out / 'pref'}")
    for condition in ("none", PAIRS, f"{PAIRS},of=swapped", f"{PAIRS},of=swapped,by=prompt"):
        yield score(simulated, model, condition, out=out)

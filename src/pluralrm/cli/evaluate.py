"""`pluralrm evaluate` and `demo`: is a reward model personalized, how does it rank? Score, compare, report in one."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.compare import print_answers, print_boards
from pluralrm.cli.options import (
    ACCESS,
    DEVICES,
    LIMIT,
    LOG,
    ON,
    QUIET,
    SERVED,
    ModelAccess,
    ServerOptions,
    check_names,
    complete_benchmark,
    complete_condition,
    complete_model,
    listed_devices,
    named_models,
    names_of,
    open_benchmark,
    with_access,
    with_server_options,
)
from pluralrm.cli.overview import View, print_unscored
from pluralrm.cli.plan import DRY_RUN, RATE, note_skipped, print_plan, settings_of
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.score import GridOptions, ScoredCells, check_open, controls_of, end, note_models, score_cells
from pluralrm.cli.terminal import console, note, print_wrapped

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, RewardModel, Run
    from pluralrm.runs import GridCell


BESIDE = ("longest", "bm25")
"""Baselines that are scored beside the models: what length and shared words alone earn."""


_BENCHMARKS = typer.Option(
    ["pocket-prb"],
    "--benchmark",
    "-b",
    metavar="BENCH",
    help="Names or paths; repeat for more.",
    autocompletion=complete_benchmark,
)
_SEES = typer.Option(
    "raw:10",
    "--sees",
    metavar="CONDITION",
    help="What models see of the user; no context and other users' are added.",
    autocompletion=complete_condition,
)


_GENERAL = typer.Option(
    [],
    "--general",
    metavar="BENCH",
    help="What personalization costs here: no user, a lent user's posts, another's. Repeatable.",
    autocompletion=complete_benchmark,
)


@with_server_options
@with_access
def evaluate(
    models: list[str] = typer.Argument(
        ..., metavar="MODEL", help="Reward models, SPEC or NAME=SPEC.", autocompletion=complete_model
    ),
    benchmarks: list[str] = _BENCHMARKS,
    sees: str = _SEES,
    out: Path = typer.Option(Path("runs"), "--out", "-o", help="Folder of the runs; the same command resumes."),
    general: list[str] = _GENERAL,
    margin: float = typer.Option(2.0, min=0.01, max=99, help="Points within which a change on --general is none."),
    baselines: bool = typer.Option(True, help="Also score longest and bm25."),
    limit: int | None = LIMIT,
    seed: int = typer.Option(0, help="Seed of the order of candidates."),
    workers: int = typer.Option(1, min=1, help="Processes; the rows are the same for any number."),
    devices: str = DEVICES,
    on: str = ON,
    fresh: bool = typer.Option(False, "--fresh", help="Delete the rows of earlier runs and start over."),
    access: ModelAccess = ACCESS,
    dry_run: bool = DRY_RUN,
    rate: str = RATE,
    log: str = LOG,
    quiet: bool = QUIET,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON, as compare does."),
) -> None:
    """Is a reward model personalized, and how does it rank? Scores it with no posts, the user's own, and others'."""
    from pluralrm.conditions import condition_summaries
    from pluralrm.conditions.loans import lend_users
    from pluralrm.models import KINDS, load_model
    from pluralrm.runs import plan

    aliases, specs = named_models(models)
    check_names(specs, "MODEL", KINDS)
    check_names([sees], "--sees", condition_summaries())
    specs, conditions = access.specs(specs, controls_of(sees))
    settings = settings_of(served, rate, dry_run=dry_run)
    loaded = [load_model(spec, settings=settings) for spec in specs]
    benches = [open_benchmark(name, seed=seed) for name in benchmarks]
    beside = [name for name in BESIDE if baselines and name not in specs]
    personal = next((bench for bench in benches if bench.has_posts), benches[0])
    lent = [lend_users(open_benchmark(name, seed=seed), personal, seed=seed) for name in general]
    cells = plan(benches, [*specs, *beside], conditions, settings=settings)
    cells += plan(lent, specs, conditions[:3], settings=settings)
    served.check([*loaded, *(cell.condition for cell in cells)])
    check_open(cells)
    where = (workers, listed_devices(devices), on)
    grid = GridOptions(out, [], limit, *where, fresh, settings, names_of(loaded, aliases), log)
    if dry_run:
        print_plan(cells, loaded, grid, rate)
        return
    note_models(loaded, benches)
    if not (as_json or quiet):
        _print_checks(loaded, benches[0], sees)
    note_skipped(cells)
    scored = score_cells([cell for cell in cells if cell.skip is None], grid)
    if scored.runs:
        _print_answer(scored, View(quiet, baselines=beside, margin=margin / 100), out, as_json=as_json)
    end(scored)


# ---------------------------------------------------------------- before


def _print_checks(models: "Sequence[RewardModel]", benchmark: "Benchmark", sees: str) -> None:
    """Print how each local model is read: the checks of doctor, and what is wrong, or other programs do otherwise."""
    from pluralrm.conditions import load_condition
    from pluralrm.doctor import examine, is_neural

    condition = load_condition(sees if any(item.user for item in benchmark.items) else "none")
    for model in models:
        if not is_neural(model):
            continue
        with ProgressDisplay(f"checking {model.spec}"):
            signs = examine(model, benchmark, condition).signs
        green = sum(sign.colour == "green" for sign in signs)
        print_wrapped(
            f"{model.spec}: {green} of {len(signs)} checks passed; all: pluralrm doctor {model.spec} -c {sees}"
        )
        for sign in signs:
            if sign.colour != "green" or sign.differs:
                why = "; ".join(filter(None, (sign.found, sign.reason)))
                text = f"{sign.name}: {why}. {f'→ {sign.remedy}.' if sign.remedy else ''}"
                print_wrapped(text, first=f"{sign.colour:<8}", indent=" " * 8, style=sign.colour)


# ---------------------------------------------------------------- after


def _print_answer(scored: ScoredCells, view: View, out: Path, *, as_json: bool) -> None:
    """Print one table per set of items, and write the report."""
    from pluralrm.report import write_report

    if as_json:
        print_boards(scored.answered, as_json=True, margin=view.margin, unscored=scored.unscored)
    else:
        print_answers(scored.answered, view)
        print_unscored(scored.unscored)
    report = out / "report.html"
    with ProgressDisplay(f"writing {report}"):
        write_report([out], report)
    if not (as_json or view.quiet):
        note(f"\nEvery item and plot: {report}   More numbers: pluralrm compare {out} --all")


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
    from pluralrm.cli.overview import View, print_answer, print_overview
    from pluralrm.metrics.overview import same_items
    from pluralrm.report import write_report

    reasons: Counter[str] = Counter()

    def skipped(cell: "GridCell") -> None:
        reasons[cell.skip or ""] += 1

    runs = []
    with ProgressDisplay("demo", "runs") as display:
        for run in run_demo(out, skipped):
            runs.append(run)
            display.show(len(runs), RUNS)
    left_out = f"{sum(reasons.values())} left out: a benchmark without posts, a model that needs them"
    note(f"{len(runs)} runs in {out}, {left_out}")
    report = out / "report.html"
    with ProgressDisplay(f"demo: comparing {len(runs)} runs for the report"):
        write_report([out], report)
    groups = sorted(same_items(runs), key=_order)
    for group in groups:
        print_overview(group, View(quiet=True))
    console().print()
    print_answer(groups[-1])
    example = next(run for run in runs if run.model == "lsa" and run.condition == OWN)
    console().print(_NEXT.format(report=report, out=out, run=example.path, item=example.rows[0].item).rstrip())


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

"""`pluralrm evaluate`: is a reward model personalized, and how does it rank? Score, compare and report in one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.compare import print_answers, print_boards
from pluralrm.cli.options import (
    LENGTH,
    LIMIT,
    QUIET,
    SEND,
    SERVED,
    TRUST,
    ServerOptions,
    check_names,
    complete_benchmark,
    complete_condition,
    complete_model,
    named_models,
    names_of,
    open_benchmark,
    with_length,
    with_posts_of,
    with_server_options,
    with_trust,
)
from pluralrm.cli.overview import View
from pluralrm.cli.score import GridOptions, controls_of, end, note_models, nothing_to_score, score_cells
from pluralrm.cli.terminal import note, print_wrapped
from pluralrm.errors import ConditionError
from pluralrm.text import counted

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


@with_server_options
def evaluate(
    models: list[str] = typer.Argument(
        ..., metavar="MODEL", help="Reward models, SPEC or NAME=SPEC.", autocompletion=complete_model
    ),
    benchmarks: list[str] = _BENCHMARKS,
    sees: str = _SEES,
    out: Path = typer.Option(Path("runs"), "--out", "-o", help="Folder of the runs; the same command resumes."),
    baselines: bool = typer.Option(True, help="Also score longest and bm25."),
    limit: int | None = LIMIT,
    seed: int = typer.Option(0, help="Seed of the order of candidates."),
    workers: int = typer.Option(1, min=1, help="Processes; the rows are the same for any number."),
    fresh: bool = typer.Option(False, "--fresh", help="Delete the rows of earlier runs and start over."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    max_prompt_tokens: int | None = LENGTH,
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the runs, the calls and what they cost, and stop."),
    quiet: bool = QUIET,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON, as compare does."),
) -> None:
    """Is a reward model personalized, and how does it rank? Scores it with no posts, the user's own, and others'."""
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS, load_model
    from pluralrm.runs import plan

    aliases, specs = named_models(models)
    check_names(specs, "MODEL", KINDS)
    check_names([sees], "--sees", condition_summaries())
    conditions = controls_of(sees)
    specs, conditions = with_posts_of(with_trust(specs, trust), conditions, allowed=send)
    specs = with_length(specs, max_prompt_tokens)
    settings = served.settings()
    loaded = [load_model(spec, settings=settings) for spec in specs]
    found = [open_benchmark(name, seed=seed) for name in benchmarks]
    beside = [name for name in BESIDE if baselines and name not in specs]
    cells = plan(found, [*specs, *beside], conditions, settings=settings)
    served.check([*loaded, *(cell.condition for cell in cells)])
    if all(cell.skip for cell in cells):
        raise ConditionError(nothing_to_score(cells))
    grid = GridOptions(out, [], limit, workers, fresh, settings, names_of(loaded, aliases))
    if dry_run:
        _print_plan(cells, grid)
        return
    note_models(loaded, found)
    if not (as_json or quiet):
        _print_checks(loaded, found[0], sees)
    _note_skipped(cells)
    scored = score_cells([cell for cell in cells if cell.skip is None], grid)
    if scored.runs:
        _print_answer(scored.runs, View(quiet, baselines=beside), out, as_json=as_json)
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
        signs = examine(model, benchmark, condition).signs
        green = sum(sign.colour == "green" for sign in signs)
        print_wrapped(
            f"{model.spec}: {green} of {len(signs)} checks passed; all: pluralrm doctor {model.spec} -c {sees}"
        )
        for sign in signs:
            if sign.colour != "green" or sign.differs:
                text = ". ".join(filter(None, (f"{sign.name}: {sign.found}", sign.reason, sign.remedy))) + "."
                print_wrapped(text, first=f"{sign.colour:<8}", indent=" " * 8, style=sign.colour)


def _note_skipped(cells: "Sequence[GridCell]") -> None:
    """Say which runs cannot be, each reason once."""
    for reason, times in Counter(cell.skip for cell in cells if cell.skip is not None).items():
        note(f"skipped {counted(times, 'run')}: {reason}")


def _print_plan(cells: "Sequence[GridCell]", grid: GridOptions) -> None:
    """Print how many runs and calls there would be, and what they cost; every step is real but for the requests."""
    from pluralrm.http import DryRun, cost_of
    from pluralrm.models import KINDS, parse_model
    from pluralrm.runs import score

    dry = DryRun()
    open_ = [cell for cell in cells if cell.skip is None]
    _note_skipped(cells)
    settings = replace(grid.settings, dry_run=dry)
    with TemporaryDirectory() as folder:
        for cell in open_:
            if KINDS[parse_model(cell.model).kind].served or _asks(cell):
                score(cell.benchmark, cell.model, cell.condition, out=folder, limit=grid.limit, settings=settings)
    answers = sum(len(item.candidates) for cell in open_ for item in cell.benchmark.items)
    print_wrapped(f"{len(open_)} runs, {answers:,} answers to score at most, in {grid.out}")
    for model, asked in dry.requests.items():
        print_wrapped(f"{model}: {asked.calls:,} calls", indent="  ")
    cost = cost_of(dry.requests, settings.prices)
    if dry.requests:
        known = "unknown: name prices with --prices" if cost is None else f"{cost.least:.2f} to {cost.most:.2f}"
        print_wrapped(f"cost: {known}")


def _asks(cell: "GridCell") -> bool:
    """Return whether a condition asks a chat model for notes."""
    return bool(getattr(cell.condition, "asks", ()))


# ---------------------------------------------------------------- after


def _print_answer(runs: "Sequence[Run]", view: View, out: Path, *, as_json: bool) -> None:
    """Print one table per set of items, and write the report."""
    from pluralrm.report import write_report

    if as_json:
        print_boards(runs, as_json=True)
    else:
        print_answers(runs, view)
    report = out / "report.html"
    write_report([out], report)
    if not (as_json or view.quiet):
        note(f"\nEvery item and plot: {report}   More numbers: pluralrm compare {out} --all")

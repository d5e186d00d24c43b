"""`pluralrm score`: a grid of benchmarks, models and conditions, each cell a run on disk."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.given import check_names
from pluralrm.cli.progress import Meter
from pluralrm.cli.sending import SEND, with_posts
from pluralrm.cli.terminal import note
from pluralrm.cli.trust import TRUST, with_trust
from pluralrm.errors import ConditionError, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pluralrm.core import Run
    from pluralrm.runs import Cell

INCOMPLETE = 3
"""Exit code of a run that an outage left open."""
_SHOWN = 10
"""Cells that are named where none can be scored."""


def score(
    benchmarks: list[str] = typer.Argument(..., metavar="BENCH", help="Names or paths; see 'pluralrm list'."),
    models: list[str] = typer.Option(..., "--model", "-m", help="A reward model; repeat for more."),
    conditions: list[str] = typer.Option(["none"], "--condition", "-c", help="What the model sees; repeat for more."),
    out: Path = typer.Option(Path("runs"), "--out", "-o", help="Folder of the runs; the same command resumes."),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains."),
    limit: int | None = typer.Option(
        None, help="At most this many users (or records), taken in turn from each domain."
    ),
    seed: int = typer.Option(0, help="Places the candidates."),
    workers: int = typer.Option(1, min=1, help="Processes; the rows are the same for any number."),
    fresh: bool = typer.Option(False, "--fresh", help="Remove what an earlier run left, and start over."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score reward models on benchmarks under declared conditions; what is on disk is not scored again."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.cli.board import print_boards
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS, load_model
    from pluralrm.runs import plan

    check_names(models, "-m", KINDS)
    check_names(conditions, "-c", condition_summaries())
    models = with_posts(with_trust(models, trust), allowed=send)
    for model in models:
        load_model(model)  # a misspelt name costs a second now, not a night
    cells = plan([load_benchmark(name, seed=seed) for name in benchmarks], models, conditions)
    if all(cell.skip for cell in cells):
        raise ConditionError(_nothing(cells))
    runs, broken = [], []
    for cell in cells:
        if cell.skip is not None:
            note(f"skipped {_title(cell)}: {cell.skip}")
            continue
        try:
            runs.append(_run(cell, out=out, domains=domains, limit=limit, workers=workers, fresh=fresh))
        except ModelError as exc:
            broken.append(str(exc))
    if runs:
        print_boards(runs, as_json=as_json)
    unfinished = [run for run in runs if not run.complete]
    for run in unfinished:
        note(f"incomplete: {run.path} has {len(run.rows)} of {run.items} items; the same command tries the rest again")
    if broken:
        raise ModelError("\n".join(broken))
    if unfinished:
        raise typer.Exit(INCOMPLETE)


def _nothing(cells: "Sequence[Cell]") -> str:
    """Return why no cell of a grid can be scored, cell by cell."""
    shown = [f"\n  {_title(cell)}: {cell.skip}" for cell in cells[:_SHOWN]]
    more = f"\n  and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else ""
    return f"nothing can be scored:{''.join(shown)}{more}"


def _run(cell: "Cell", *, out: Path, domains: list[str], limit: int | None, workers: int, fresh: bool) -> "Run":
    from pluralrm.runs import score as score_cell

    try:
        with Meter(_title(cell)) as meter:
            return score_cell(
                cell.benchmark,
                cell.model,
                cell.condition,
                out=out,
                domains=domains,
                limit=limit,
                workers=workers,
                fresh=fresh,
                progress=meter.update,
            )
    except KeyboardInterrupt:
        note(f"stopped in {_title(cell)}. What was scored is kept; the same command goes on from there:\n  {command()}")
        raise typer.Exit(130) from None


def _title(cell: "Cell") -> str:
    return f"{cell.benchmark.card.name} × {cell.model} × {cell.condition.spec}"


def command() -> str:
    """Return the command line that is running, to be typed again."""
    import shlex
    import sys

    return shlex.join(["pluralrm", *(word for word in sys.argv[1:] if word != "--fresh")])

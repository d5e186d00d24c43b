"""`pluralrm score`: a grid of benchmarks, models and conditions, each cell a run on disk."""

from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.compare import note_more, print_answers, print_boards
from pluralrm.cli.options import (
    ALL,
    CONDITIONS,
    LENGTH,
    LIMIT,
    QUIET,
    SEND,
    SERVED,
    TRUST,
    ServerOptions,
    check_names,
    complete_benchmark,
    complete_model,
    named_models,
    names_of,
    with_length,
    with_posts_of,
    with_server_options,
    with_trust,
)
from pluralrm.cli.overview import View
from pluralrm.cli.progress import INCOMPLETE, GridDisplay, asked_line, command, interruptible
from pluralrm.cli.terminal import note
from pluralrm.errors import ConditionError, ModelError, PluralrmError, ServiceError, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pluralrm.core import Benchmark, RewardModel, Run
    from pluralrm.http import Settings, Tally
    from pluralrm.runs import GridCell

_SHOWN = 10
"""Cells that are named where none can be scored."""


@with_server_options
def score(
    benchmarks: list[str] = typer.Argument(
        ..., metavar="BENCH", help="Names or paths; see 'pluralrm list'.", autocompletion=complete_benchmark
    ),
    models: list[str] = typer.Option(
        ..., "--model", "-m", help="A reward model, SPEC or NAME=SPEC; repeat.", autocompletion=complete_model
    ),
    conditions: list[str] = CONDITIONS,
    controls: bool = typer.Option(False, "--controls", help="Add no context, and another user's, to each -c."),
    out: Path = typer.Option(Path("runs"), "--out", "-o", help="Folder of the runs; the same command resumes."),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains."),
    limit: int | None = LIMIT,
    seed: int = typer.Option(0, help="Seed of the order of candidates."),
    workers: int = typer.Option(1, min=1, help="Processes; the rows are the same for any number."),
    fresh: bool = typer.Option(False, "--fresh", help="Delete the rows of earlier runs and start over."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    max_prompt_tokens: int | None = LENGTH,
    every: bool = ALL,
    quiet: bool = QUIET,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score reward models on benchmarks under declared conditions; what is on disk is not scored again."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS, load_model
    from pluralrm.runs import plan

    aliases, models = named_models(models)
    check_names(models, "-m", KINDS)
    check_names(conditions, "-c", condition_summaries())
    if controls:
        conditions = with_controls(conditions)
    models, conditions = with_posts_of(with_trust(models, trust), conditions, allowed=send)
    models = with_length(models, max_prompt_tokens)
    settings = served.settings()
    loaded = [load_model(model, settings=settings) for model in models]  # a slip costs a second now, not a night
    found = [load_benchmark(name, seed=seed) for name in benchmarks]
    cells = plan(found, models, conditions, settings=settings)
    served.check([*loaded, *(cell.condition for cell in cells)])
    if all(cell.skip for cell in cells):
        raise ConditionError(nothing_to_score(cells))
    note_models(loaded, found)
    grid = GridOptions(out, domains, limit, workers, fresh, settings, names_of(loaded, aliases))
    scored = score_cells(cells, grid)
    if scored.runs and (as_json or every):
        print_boards(scored.runs, as_json=as_json)
    elif scored.runs:
        print_answers(scored.runs, View(quiet=quiet, asking=None if controls else command()))
        if not quiet:
            note_more([out])
    end(scored)


def with_controls(conditions: "Sequence[str]") -> list[str]:
    """Return the conditions, each that shows the user's own context followed by its controls; an error without one.

    The controls are no context, another user's, and that of a user who writes on the prompt's subject.
    """
    from pluralrm.conditions import condition_role, load_condition

    added = {text: controls_of(text) for text in conditions if condition_role(load_condition(text)).role == "own"}
    if not added:
        raise ConditionError(
            f"--controls: found {', '.join(conditions)}, wanted a condition that shows the user's own posts, pairs or "
            "notes, such as -c raw:10"
        )
    return list(dict.fromkeys(spec for text in conditions for spec in added.get(text, [text])))


def controls_of(sees: str) -> list[str]:
    """Return none, a condition that shows the user's own context, and the same with another user's.

    And with that of a user who writes on the prompt's subject: without it a model that follows the subject passes for
    one that follows the person.
    """
    from pluralrm.conditions import condition_role, load_condition, parse_condition

    own = load_condition(sees)
    role = condition_role(own)
    if role.role != "own" or not role.control:
        wanted = "a condition that shows the user's own posts, pairs or notes, such as raw:10, pairs:8 or persona:MODEL"
        raise ConditionError(f"{sees}: wanted {wanted}; none and the matching controls are added to it")
    control = parse_condition(role.control)
    by = control.options.get("by", "")
    nearest = replace(
        control, options={**control.options, "by": f"prompt:{by}" if by.startswith("embed") else "prompt"}
    )
    return ["none", own.spec, role.control, load_condition(str(nearest)).spec]


def note_models(models: "Sequence[RewardModel]", benchmarks: "Sequence[Benchmark]") -> None:
    """Say which users of the benchmarks models were trained on, and how much of their texts they cannot read."""
    from pluralrm.models.declarations import Reads, TrainedModel

    for model, each in product(models, benchmarks):
        for remark in model.met(each) if isinstance(model, TrainedModel) else ():
            note(remark)
        if isinstance(model, Reads) and (reading := model.reading(each)).longer:
            note(f"{model.spec} on {each.card.name}: {reading}")


class GridOptions(NamedTuple):
    """What holds for every cell."""

    out: Path
    domains: list[str]
    limit: int | None
    workers: int
    fresh: bool
    settings: "Settings"
    names: "Mapping[str, str]"
    """What models are called, by their specs; those without a name go by them."""


class ScoredCells(NamedTuple):
    """What came of the cells: runs, what broke, what servers were asked."""

    runs: "list[Run]"
    broken: list[PluralrmError]
    asked: "list[Tally | None]"


def score_cells(cells: "Sequence[GridCell]", how: GridOptions) -> ScoredCells:
    """Return what came of each cell; a broken model or server costs its own cells alone."""
    found = ScoredCells([], [], [])
    for cell in cells:
        if cell.skip is not None:
            note(f"skipped {_title(cell)}: {cell.skip}")
    scored = [cell for cell in cells if cell.skip is None]
    with GridDisplay([_size(cell, how) for cell in scored]) as meter:
        for cell in scored:
            meter.begin(_title(cell))
            try:
                found.runs.append(_run(cell, how, meter))
            except (ModelError, ServiceError) as exc:
                found.broken.append(exc)
            else:
                _say_unasked(cell, meter)
            found.asked.append(meter.asked)
    return found


def _size(cell: "GridCell", how: GridOptions) -> int:
    """Return how many items a cell has; of a domain that is not there, which is an error in a moment, all."""
    with suppress(PluralrmError):
        return len(cell.benchmark.select(domains=how.domains, limit=how.limit))
    return len(cell.benchmark.items)


def _say_unasked(cell: "GridCell", meter: GridDisplay) -> None:
    """Say so where a run behind a URL was complete: another model may be there by now, and would go unseen."""
    from pluralrm.models import KINDS, parse_model

    if meter.idle and KINDS[parse_model(cell.model).kind].served:
        note(f"{_title(cell)}: complete before, and its server was not asked; --fresh asks anew")


def end(found: ScoredCells) -> None:
    """Say what servers were asked and what is open; raise where something broke, exit with 3 where something is."""
    from pluralrm.runs import last_outage

    if told := asked_line(found.asked):
        note(told)
    unfinished = [run for run in found.runs if not run.complete]
    for run in unfinished:
        why = f" ({reason})" if (reason := last_outage(run.path)) else ""
        note(f"incomplete: {run.path} has {run.done} of {run.items} items{why}; the same command tries the rest again")
    if found.broken:
        raise together(found.broken)
    if unfinished:
        raise typer.Exit(INCOMPLETE)


def nothing_to_score(cells: "Sequence[GridCell]") -> str:
    """Return why no cell of a grid can be scored, cell by cell."""
    shown = [f"\n  {_title(cell)}: {cell.skip}" for cell in cells[:_SHOWN]]
    more = f"\n  and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else ""
    return f"nothing can be scored:{''.join(shown)}{more}"


def _run(cell: "GridCell", how: GridOptions, meter: GridDisplay) -> "Run":
    from pluralrm.runs import score as score_cell

    with interruptible("scored items are kept", _title(cell)):
        options = how._asdict()
        alias = options.pop("names").get(cell.model, "")
        return score_cell(cell.benchmark, cell.model, cell.condition, **options, progress=meter.update, alias=alias)


def _title(cell: "GridCell") -> str:
    return f"{cell.benchmark.card.name} × {cell.model} × {cell.condition.spec}"

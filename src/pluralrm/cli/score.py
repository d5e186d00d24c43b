"""`pluralrm score`: a grid of benchmarks, models and conditions, each cell a run on disk; `merge` unites shards."""

import shlex
from collections import deque
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.compare import print_answers, print_boards
from pluralrm.cli.options import (
    ACCESS,
    ALL,
    CONDITIONS,
    DEVICES,
    LIMIT,
    LOG,
    ON,
    QUIET,
    SERVED,
    SHARD,
    ModelAccess,
    ServerOptions,
    check_names,
    complete_benchmark,
    complete_model,
    listed_devices,
    named_models,
    named_shard,
    names_of,
    with_access,
    with_server_options,
)
from pluralrm.cli.overview import UnscoredCell, View, note_more, print_unscored
from pluralrm.cli.plan import DRY_RUN, RATE, print_plan, settings_of
from pluralrm.cli.progress import INCOMPLETE, GridDisplay, command, interruptible, note_asked
from pluralrm.cli.terminal import clean, console, note, print_json, print_wrapped
from pluralrm.errors import ConditionError, ModelError, PluralrmError, RunError, ServiceError, together
from pluralrm.progress import JobStep, size_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pluralrm.cluster import Cluster
    from pluralrm.core import Benchmark, RewardModel, Run
    from pluralrm.exchange.trackers import TrackerLog
    from pluralrm.http import Settings, Tally
    from pluralrm.runs import GridCell, Progress
    from pluralrm.shards import Shard, ShardProgress

_SHOWN = 10
"""Cells that are named where none can be scored."""


@with_server_options
@with_access
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
    devices: str = DEVICES,
    on: str = ON,
    shard: str = SHARD,
    fresh: bool = typer.Option(False, "--fresh", help="Delete the rows of earlier runs and start over."),
    access: ModelAccess = ACCESS,
    dry_run: bool = DRY_RUN,
    rate: str = RATE,
    log: str = LOG,
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
    from pluralrm.runs.store import uncollected

    part = named_shard(shard)
    aliases, models = named_models(models)
    check_names(models, "-m", KINDS)
    check_names(conditions, "-c", condition_summaries())
    if controls:
        conditions = with_controls(conditions)
    models, conditions = access.specs(models, conditions)
    settings = settings_of(served, rate, dry_run=dry_run)
    loaded = [load_model(model, settings=settings) for model in models]  # a slip costs a second now, not a night
    with uncollected():
        benches = [load_benchmark(name, seed=seed) for name in benchmarks]
    cells = plan(benches, models, conditions, settings=settings)
    served.check([*loaded, *(cell.condition for cell in cells)])
    check_open(cells)
    where = (workers, listed_devices(devices), on)
    grid = GridOptions(out, domains, limit, *where, fresh, settings, names_of(loaded, aliases), log, part)
    if dry_run:
        print_plan(cells, loaded, grid, rate)
        return
    note_models(loaded, benches)
    scored = score_cells(cells, grid)
    view = View(quiet=quiet, asking=None if controls else command())
    _print(scored, out, view, as_json=as_json, every=every)
    end(scored)


def _print(scored: "ScoredCells", out: Path, view: View, *, as_json: bool, every: bool) -> None:
    """Print what came of the cells: shards, all runs, or the answer."""
    if scored.shards:
        print_shards(scored.shards, f"pluralrm merge {shlex.quote(str(out))}", as_json=as_json)
    elif scored.runs and (as_json or every):
        print_boards(scored.answered, as_json=as_json, unscored=scored.unscored)
    elif scored.runs:
        print_answers(scored.answered, view)
        print_unscored(scored.unscored)
        if not view.quiet:
            note_more([out])


def with_controls(conditions: "Sequence[str]") -> list[str]:
    """Return the conditions, each that shows the user's own context followed by its controls; an error without one.

    The controls are no context, another user's, and that of a user who writes on the prompt's subject.
    """
    from pluralrm.conditions import condition_role, load_condition

    roles = {text: condition_role(load_condition(text)) for text in conditions}
    added = {text: controls_of(text) for text, role in roles.items() if role.role == "own"}
    if not added:
        raise ConditionError(
            f"--controls: found {', '.join(conditions)}, wanted a condition that shows the user's own posts, pairs, "
            "notes or traits, such as -c raw:10"
        )
    return list(
        dict.fromkeys(spec for text in conditions for spec in added.get(text, [text, roles[text].control]) if spec)
    )


def controls_of(sees: str) -> list[str]:
    """Return none, a condition that shows the user's own context, and the same with another user's.

    And with that of a user who writes on the prompt's subject: without it a model that follows the subject passes for
    one that follows the person.
    """
    from pluralrm.conditions import KINDS, condition_role, load_condition, parse_condition

    own = load_condition(sees)
    role = condition_role(own)
    if role.role != "own" or not role.control:
        expected = (
            "a condition that shows the user's own posts, pairs, notes or traits, such as raw:10, pairs:8 or traits"
        )
        raise ConditionError(f"{sees}: wanted {expected}; none and the matching controls are added to it")
    control = parse_condition(role.control)
    by = control.options.get("by", "")
    if "by" not in KINDS[control.kind].form.keys:  # no texts that could be near to a question
        return ["none", own.spec, role.control]
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
    devices: list[str]
    on: str
    fresh: bool
    settings: "Settings"
    names: "Mapping[str, str]"
    """What models are called, by their specs; those without a name go by them."""
    log: str = ""
    """The tracker."""
    shard: "Shard | None" = None


class ScoredCells(NamedTuple):
    """What came of the cells: runs, what broke, what servers were asked."""

    runs: "list[Run]"
    broken: list[PluralrmError]
    asked: "list[Tally | None]"
    shards: "list[ShardProgress]"
    board: "TrackerLog"
    unscored: list[UnscoredCell]

    @property
    def answered(self) -> "list[Run]":
        """The runs that have a row in a table."""
        return [run for run in self.runs if run.done]


def score_cells(cells: "Sequence[GridCell]", how: GridOptions) -> ScoredCells:
    """Return what came of each cell; a broken model or server costs its own cells alone."""
    from pluralrm.exchange.trackers import opened_log

    result = ScoredCells([], [], [], [], opened_log(how.log, note, note, sharded=how.shard is not None), [])
    for cell in cells:
        if cell.skip is not None:
            note(f"skipped {cell.title}: {cell.skip}")
    from pluralrm.cluster import opened
    from pluralrm.runs import each_cell, last_outage
    from pluralrm.shards import ShardProgress

    scored = [cell for cell in cells if cell.skip is None]
    steps = [JobStep(cell.title, cell.model, size_of(cell.benchmark, how.domains, how.limit)) for cell in scored]
    with GridDisplay() as meter, opened(how.on) as cluster:
        begin = steps_of(meter, steps, at_once=cluster is not None)
        meter.workers = lambda: cluster.summary if cluster is not None else ""

        def outcome(cell: "GridCell") -> "Run | ShardProgress | PluralrmError":
            show, last = begin(cell.title), deque["Progress"](maxlen=1)

            def update(progress: "Progress") -> None:
                last.append(progress)
                show(progress)

            with interruptible("scored items are kept", cell.title):
                run = _run(cell, how, cluster, update)
            if not isinstance(run, PluralrmError):
                _say_unasked(cell, idle=not last)
            result.asked.extend(progress.asked for progress in last)
            return run

        with interruptible("scored items are kept"):
            for cell, run in zip(scored, each_cell(scored, outcome, cluster, how.settings), strict=True):
                if isinstance(run, PluralrmError):
                    result.broken.append(run)
                    result.unscored.append(_unscored(cell, how, str(run)))
                elif isinstance(run, ShardProgress):
                    result.shards.append(run)
                else:
                    result.runs.append(run)
                    result.unscored.extend([] if run.done else [_unscored(cell, how, last_outage(run.path))])
    return result


def _unscored(cell: "GridCell", how: GridOptions, reason: str) -> UnscoredCell:
    model, text = cell.model, next(iter(reason.splitlines()), "no item is answered yet")
    return UnscoredCell(cell.benchmark.card.name, model, how.names.get(model, model), cell.condition.spec, text)


def _say_unasked(cell: "GridCell", *, idle: bool) -> None:
    """Say so where a run behind a URL was complete: another model may be there by now, and would go unseen."""
    from pluralrm.models import KINDS, parse_model

    if idle and KINDS[parse_model(cell.model).kind].served:
        note(f"{cell.title}: complete before, and its server was not asked; --fresh asks anew")


def end(result: ScoredCells) -> None:
    """Log the runs, say what was asked and what is open; raise where something broke, exit with 3 where it is open."""
    from pluralrm.exchange.tracking import log_runs
    from pluralrm.runs import last_outage

    with result.board:
        log_runs(result.board, result.runs)
    note_asked(result.asked)
    unfinished = [run for run in result.runs if not run.complete]
    for run in unfinished:
        why = f" ({reason})" if (reason := last_outage(run.path)) else ""
        note(f"incomplete: {run.path} has {run.done} of {run.items} items{why}; the same command tries the rest again")
    if result.broken:
        raise together(result.broken)
    if unfinished or note_open_shards(result.shards):
        raise typer.Exit(INCOMPLETE)


def check_open(cells: "Sequence[GridCell]") -> None:
    """Raise where no cell of a grid can be scored, with the reason of each."""
    if not all(cell.skip for cell in cells):
        return
    lines = [f"\n  {cell.title}: {cell.skip}" for cell in cells[:_SHOWN]]
    more = f"\n  and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else ""
    raise ConditionError(f"nothing can be scored:{''.join(lines)}{more}")


def _run(
    cell: "GridCell", how: GridOptions, cluster: "Cluster | None", progress: "Callable[[Progress], None]"
) -> "Run | ShardProgress | PluralrmError":
    from pluralrm.runs import score as score_cell
    from pluralrm.runs.loop import score_shard

    options = how._asdict() | {"on": cluster, "progress": progress}
    del options["log"]
    options["alias"], shard = options.pop("names").get(cell.model, ""), options.pop("shard")
    try:
        if shard is not None:
            return score_shard(cell.benchmark, cell.model, cell.condition, shard=shard, **options)
        return score_cell(cell.benchmark, cell.model, cell.condition, **options)
    except (ModelError, ServiceError) as exc:
        return exc


# ---------------------------------------------------------------- shards


def merge(
    folders: list[Path] = typer.Argument(..., metavar="DIR...", help="Folders with shards; those below are found."),
    out: Path | None = typer.Option(
        None, "--out", "-o", metavar="OUT", help="Folder of what is merged.", show_default="beside the shards"
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make runs, pools, grades, pairs and builds of their shards.

    A gap, an unfinished or damaged shard, and one of other work are refused by name; what is whole is merged.
    """
    from pluralrm.shards import merge as merge_folders

    result = merge_folders(folders, out)
    if as_json:
        merged = [{**work._asdict(), "folder": str(work.folder)} for work in result.merged]
        print_json({"merged": merged, "refused": result.refused})
    for work in result.merged if not as_json else ():
        done = f"{work.shards} shards" if work.new else f"{work.shards} shards, merged before"
        print_wrapped(f"{work.folder}: a {work.kind} of {done}")
    if result.refused:
        raise RunError("\n".join(result.refused))


# ---------------------------------------------------------------- what verbs print of a shard


def print_shards(shards: "Sequence[ShardProgress]", then: str, *, as_json: bool) -> None:
    """Print how far some shards are, and what makes the whole of them."""
    if as_json:
        print_json([shard.to_json() for shard in shards])
        return
    if shards:
        done, size, failed = (sum(getattr(shard, name) for shard in shards) for name in ("done", "size", "failed"))
        cells = f" of {len(shards):,} runs" * (len(shards) > 1)
        name = f"shard {shards[0].index} of {shards[0].count}{cells}"
        print_wrapped(f"{name}: {done:,} of {size:,} done, {failed:,} failed", style="bold")
        console().print(f"  with all {shards[0].count} shards: {clean(then)}", soft_wrap=True)  # to be copied whole


def tell_shard(shard: "ShardProgress", usage: "Tally | None", *, as_json: bool) -> None:
    """Print how far a shard of a pool or of grades is, and what servers were asked; exit 3 where it is not complete."""
    whole = Path(shard.folder).parent
    print_shards([shard], f"pluralrm merge {shlex.quote(str(whole))}", as_json=as_json)
    note_asked([usage])
    if note_open_shards([shard]):
        raise typer.Exit(INCOMPLETE)


def note_open_shards(shards: "Sequence[ShardProgress]") -> bool:
    """Say which shards are not complete, and return whether there are any."""
    unfinished = [shard for shard in shards if not shard.complete]
    for shard in unfinished:
        note(f"incomplete: {shard.folder} has {shard.done:,} of {shard.size:,}; the same command tries the rest again")
    return bool(unfinished)

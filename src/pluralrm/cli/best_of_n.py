"""`pluralrm best-of-n`: what a policy's answers are worth when a reward model picks among k of them."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.curves import draw, print_curves, to_json
from pluralrm.cli.grade import BENCHMARK, GRADE, POOL, Job, Which, grade_wanted, named_grader, sends, tell_bills
from pluralrm.cli.options import (
    CONDITIONS,
    LENGTH,
    MODELS,
    SEND,
    SERVED,
    TRUST,
    Served,
    check_names,
    with_length,
    with_posts_of,
    with_server_options,
    with_trust,
)
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, asked_line, interruptible
from pluralrm.cli.terminal import note, print_json
from pluralrm.errors import ConditionError, ModelError, PluralrmError, PoolError, ServiceError, SpecError, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pluralrm.core import Benchmark, Run
    from pluralrm.grading import Grader
    from pluralrm.http import Price, Settings
    from pluralrm.policies.pool import Pool
    from pluralrm.runs import Cell


@with_server_options
def best_of_n(
    pool: Path = POOL,
    models: list[str] = MODELS,
    conditions: list[str] = CONDITIONS,
    grader: str = typer.Option(
        "", "--grader", "-g", help="Who grades what has no grade yet; may be left out where one has graded all."
    ),
    which: Which = GRADE,
    k: list[int] = typer.Option([], "-k", metavar="K", help="Picks among K answers; repeatable. 1, 2, 4, ... N."),
    benchmark: str = BENCHMARK,
    picture: Path | None = typer.Option(None, "--figure", metavar="FILE", help="Also draw the curves: .svg or .pdf."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Score, then say what grading would take, and stop."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    max_prompt_tokens: int | None = LENGTH,
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Let reward models pick among a pool's answers, and grade the picks. Exit 3 where something is open."""
    from pluralrm.policies.answers import source
    from pluralrm.policies.grading import check_grader
    from pluralrm.policies.pool import load_pool
    from pluralrm.stats.best_of import check_ks, powers_of_two

    _check_picture(picture)
    if dry_run and not grader:
        raise SpecError("--dry-run needs -g GRADER: what grading takes depends on who grades")
    settings = served.settings()
    answered = load_pool(pool)
    ks = sorted(set(k)) or powers_of_two(answered.n)
    check_ks(ks, answered.n)
    models = with_length(with_trust(models, trust), max_prompt_tokens)
    models, conditions = _sending(models, conditions, send=send, graded=bool(grader) and sends(grader))
    marker = named_grader(grader, settings, send=send) if grader else None
    by = _graded_by(answered, marker, models, conditions)
    asked = _Asked(answered, source(answered, benchmark), models, conditions, settings)
    job = None if marker is None else Job(answered, asked.benchmark, marker)
    if job is not None:
        check_grader(*job)
    scored, bill = _score(asked, served, marker), settings.prices if dry_run else None
    graded = job is None or _grade(job, scored.runs, ks, which=which, bill=bill, as_json=as_json)
    if graded and not dry_run:
        _tell(asked, scored.runs, ks, by, _How(which is Which.all, picture, as_json))
    _close(scored, graded=graded)


class _Asked(NamedTuple):
    """Who scores which pool, and how servers are asked."""

    pool: "Pool"
    benchmark: "Benchmark"
    models: list[str]
    conditions: list[str]
    settings: "Settings"


class _By(NamedTuple):
    """Who graded, and where the grades are."""

    spec: str
    folder: Path


def _check_picture(picture: Path | None) -> None:
    if picture is not None and picture.suffix not in {".svg", ".pdf"}:
        raise SpecError(f"--figure {picture}: found {picture.suffix or 'no ending'!r}, wanted a name in .svg or .pdf")


def _sending(models: list[str], conditions: list[str], *, send: bool, graded: bool) -> tuple[list[str], list[str]]:
    """Return the specs with `send=posts` in those that can send; where none can, the grader must be who does."""
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS

    check_names(models, "-m", KINDS)
    check_names(conditions, "-c", condition_summaries())
    try:
        return with_posts_of(models, conditions, allowed=send)
    except SpecError:
        if not graded:
            raise
        return models, conditions


def _graded_by(pool: "Pool", grader: "Grader | None", models: "Sequence[str]", conditions: "Sequence[str]") -> _By:
    """Return who grades: the one named, or the only one whose grades are there; never a model that also picks."""
    from pluralrm.grading import check_independent
    from pluralrm.policies.grades import find_graders, grade_folder

    if grader is not None:
        name, by = grader.model, _By(grader.spec, grade_folder(pool, grader))
    else:
        known = find_graders(pool)
        if len(known) != 1:
            found = ", ".join(record.spec for record in known.values()) or "nobody"
            raise PoolError(
                f"{pool.folder}: graded by {found}; wanted one: -g names who grades, per-aspect:MODEL,url=URL"
            )
        [(folder, record)] = known.items()
        name, by = record.model, _By(record.spec, folder)
    check_independent(by.spec, name, picks=models, conditions=conditions)
    return by


class _Scored(NamedTuple):
    """What came of the reward models: complete runs, those that an outage left open, and what broke."""

    runs: "list[Run]"
    unfinished: "list[Run]"
    broken: list[PluralrmError]


def _score(asked: _Asked, served: Served, grader: "Grader | None") -> _Scored:
    """Return what came of every model and condition, at least one complete run; a broken model costs itself alone."""
    from pluralrm.models import load_model
    from pluralrm.policies.answers import as_benchmark
    from pluralrm.runs import plan

    loaded = [load_model(model, settings=asked.settings) for model in asked.models]  # a slip costs a second now
    offered = as_benchmark(asked.pool, asked.benchmark)
    cells = plan([offered], asked.models, asked.conditions, settings=asked.settings)
    served.check([grader, *loaded, *(cell.condition for cell in cells)])
    for cell in cells:
        if cell.skip is not None:
            note(f"skipped {cell.model} under {cell.condition.spec}: {cell.skip}")
    found = _Scored([], [], [])
    for cell in cells:
        if cell.skip is None:
            try:
                run = _run(asked, cell)
            except (ModelError, ServiceError) as exc:
                found.broken.append(exc)
            else:
                (found.runs if run.complete else found.unfinished).append(run)
    for run in found.unfinished:
        note(f"incomplete: {run.path} has {run.done} of {run.items} items; the same command tries the rest again")
    if not found.runs:
        _close(found, graded=True)
        raise ConditionError("nothing can be scored: every model was skipped")
    return found


def _close(found: _Scored, *, graded: bool) -> None:
    """Raise where a model is broken, which is named after the table of the others; exit with 3 where one is open."""
    if found.broken:
        raise together(found.broken)
    if found.unfinished or not graded:
        raise typer.Exit(INCOMPLETE)


def _run(asked: _Asked, cell: "Cell") -> "Run":
    from pluralrm.policies.best_of_n import score_pool

    title = f"{asked.pool.folder} × {cell.model} × {cell.condition.spec}"
    meter = ProgressDisplay(title)
    with interruptible("scored items are kept", title), meter:
        run = score_pool(
            asked.pool, asked.benchmark, cell.model, cell.condition, settings=asked.settings, progress=meter.update
        )
    if told := asked_line([meter.asked]):
        note(told)
    return run


def _grade(
    job: Job, runs: "list[Run]", ks: list[int], *, which: Which, bill: "Mapping[str, Price] | None", as_json: bool
) -> bool:
    """Grade what the curves need and return whether all of it has a grade; with prices for a `bill` only tell that."""
    from pluralrm.policies.best_of_n import selected

    picks = selected(job.pool, runs, ks)
    if bill is not None:
        tell_bills(job, picks, bill, as_json=as_json)
        return True
    return not grade_wanted(job, picks if which is Which.selected else None).open


class _How(NamedTuple):
    """What is printed, and drawn where a file is named."""

    exact: bool
    picture: Path | None
    as_json: bool


def _tell(asked: _Asked, runs: "list[Run]", ks: list[int], by: _By, how: _How) -> None:
    """Measure, write the outcomes, print and draw."""
    from pluralrm.policies.best_of_n import best_of_n as measure
    from pluralrm.policies.grades import read_grades
    from pluralrm.policies.outcomes import write_outcomes

    found = measure(asked.pool, asked.benchmark, runs, read_grades(by.folder), ks=ks, exact=how.exact)
    written = write_outcomes(asked.pool, asked.benchmark, runs, found, grader=by.spec)
    if how.as_json:
        print_json(to_json(asked.pool, found, by.spec, written))
    else:
        print_curves(asked.pool, found, by.spec)
    if how.picture is not None:
        draw(asked.pool, found, how.picture)

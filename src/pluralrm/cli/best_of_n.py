"""`pluralrm best-of-n`: what a policy's answers are worth when a reward model picks among k of them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.grade import (
    BENCHMARK,
    GRADE,
    POOL,
    GradeScope,
    GradingJob,
    grade_wanted,
    named_grader,
    sends,
    tell_bills,
)
from pluralrm.cli.options import (
    ACCESS,
    CONDITIONS,
    FORMAT,
    MODELS,
    ON,
    SERVED,
    TEXT_FORMS,
    ModelAccess,
    ServerOptions,
    TableFormat,
    check_names,
    output_format,
    print_records,
    with_access,
    with_server_options,
)
from pluralrm.cli.progress import INCOMPLETE, GridDisplay, interruptible, note_asked
from pluralrm.cli.terminal import Kind, console, note, percent, print_json, print_legend, print_wrapped, table
from pluralrm.errors import ConditionError, ModelError, PluralrmError, PoolError, ServiceError, SpecError, together
from pluralrm.progress import JobStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pluralrm.core import Benchmark, Estimate, Run
    from pluralrm.grading import Grader
    from pluralrm.http import Price, Settings
    from pluralrm.policies.best_of_n import BestOfCurve, BestOfN, CurvePoint
    from pluralrm.policies.pool import Pool
    from pluralrm.runs import GridCell


@with_server_options
@with_access
def best_of_n(
    pool: Path = POOL,
    models: list[str] = MODELS,
    conditions: list[str] = CONDITIONS,
    grader: str = typer.Option(
        "", "--grader", "-g", help="Grader of answers without a grade; optional if one grader has graded all."
    ),
    which: GradeScope = GRADE,
    k: list[int] = typer.Option(
        [], "-k", metavar="K", help="Best of K answers; repeatable.", show_default="1, 2, 4, ... N"
    ),
    benchmark: str = BENCHMARK,
    picture: Path | None = typer.Option(None, "--figure", metavar="FILE", help="Also draw the curves: .svg or .pdf."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Score, print what grading would cost, and stop."),
    access: ModelAccess = ACCESS,
    on: str = ON,
    served: ServerOptions = SERVED,
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Let reward models pick among a pool's answers, and grade the picks. Exit 3 if something stays open."""
    from pluralrm.policies.grades import check_grader
    from pluralrm.policies.pool import load_pool, source
    from pluralrm.stats.best_of import check_ks, powers_of_two

    form = output_format(form, as_json=as_json)
    if picture is not None and picture.suffix not in {".svg", ".pdf"}:
        raise SpecError(f"--figure {picture}: found {picture.suffix or 'no ending'!r}, wanted a name in .svg or .pdf")
    if dry_run and not grader:
        raise SpecError("--dry-run needs -g GRADER: what grading takes depends on who grades")
    settings = served.settings()
    answered = load_pool(pool)
    ks = sorted(set(k)) or powers_of_two(answered.n)
    check_ks(ks, answered.n)
    models, conditions = _allowed(models, conditions, access, graded=bool(grader) and sends(grader))
    marker = named_grader(grader, settings, send=access.send) if grader else None
    by = _graded_by(answered, marker, models, conditions)
    task = _Selection(answered, source(answered, benchmark), models, conditions, settings, on)
    job = None if marker is None else GradingJob(answered, task.benchmark, marker, on=on)
    if job is not None:
        check_grader(job.pool, job.benchmark, job.grader)
    scored, bill = _score(task, served, marker), settings.prices if dry_run else None
    graded = job is None or _grade(job, scored.runs, ks, which=which, bill=bill, as_json=form is TableFormat.JSON)
    if graded and not dry_run:
        _tell(task, scored.runs, ks, by, exact=which is GradeScope.all, picture=picture, form=form)
    _close(scored, graded=graded)


class _Selection(NamedTuple):
    """Who scores which pool, and how servers are asked."""

    pool: "Pool"
    benchmark: "Benchmark"
    models: list[str]
    conditions: list[str]
    settings: "Settings"
    on: str


class _GradedBy(NamedTuple):
    """Who graded, and where the grades are."""

    spec: str
    folder: Path


def _allowed(
    models: list[str], conditions: list[str], access: ModelAccess, *, graded: bool
) -> tuple[list[str], list[str]]:
    """Return the specs with what is allowed in them; where none can send posts, the grader must be who does."""
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS

    check_names(models, "-m", KINDS)
    check_names(conditions, "-c", condition_summaries())
    return access.specs(models, conditions, elsewhere=graded)


def _graded_by(
    pool: "Pool", grader: "Grader | None", models: "Sequence[str]", conditions: "Sequence[str]"
) -> _GradedBy:
    """Return who grades: the one named, or the only one whose grades are there; never a model that also picks."""
    from pluralrm.grading import check_independent
    from pluralrm.policies.grades import find_graders, grade_folder

    if grader is not None:
        name, by = grader.model, _GradedBy(grader.spec, grade_folder(pool, grader))
    else:
        graders = find_graders(pool)
        if len(graders) != 1:
            names = ", ".join(record.spec for record in graders.values())
            raise PoolError(
                f"{pool.folder}: {f'graded by {names}' if names else 'no grades'}; wanted one grader: "
                "-g per-aspect:MODEL,url=URL"
            )
        [(folder, record)] = graders.items()
        name, by = record.model, _GradedBy(record.spec, folder)
    check_independent(by.spec, name, picks=models, conditions=conditions)
    return by


class _Scored(NamedTuple):
    """What came of the reward models: complete runs, those that an outage left open, and what broke."""

    runs: "list[Run]"
    unfinished: "list[Run]"
    broken: list[PluralrmError]


def _score(task: _Selection, served: ServerOptions, grader: "Grader | None") -> _Scored:
    """Return what came of every model and condition, at least one complete run; a broken model costs itself alone."""
    from pluralrm.cluster import opened
    from pluralrm.models import load_model
    from pluralrm.policies.best_of_n import score_pool
    from pluralrm.policies.pool import pool_benchmark
    from pluralrm.runs import plan

    loaded = [load_model(model, settings=task.settings) for model in task.models]  # a slip costs a second now
    offered = pool_benchmark(task.pool, task.benchmark)
    cells = plan([offered], task.models, task.conditions, settings=task.settings)
    served.check([grader, *loaded, *(cell.condition for cell in cells)])
    for cell in cells:
        if cell.skip is not None:
            note(f"skipped {cell.model} under {cell.condition.spec}: {cell.skip}")
    outcome = _Scored([], [], [])
    scored = [cell for cell in cells if cell.skip is None]
    steps = [JobStep(_title(task, cell), cell.model, len(task.pool.samples)) for cell in scored]
    with GridDisplay(steps) as meter, opened(task.on) as cluster:
        for cell in scored:
            title, parts = _title(task, cell), (task.pool, task.benchmark, cell.model, cell.condition)
            meter.begin(title)
            try:
                with interruptible("scored items are kept", title):
                    run = score_pool(*parts, settings=task.settings, on=cluster, progress=meter.update)
            except (ModelError, ServiceError) as exc:
                outcome.broken.append(exc)
            else:
                (outcome.runs if run.complete else outcome.unfinished).append(run)
                note_asked([meter.asked])
    for run in outcome.unfinished:
        note(f"incomplete: {run.path} has {run.done} of {run.items} items; the same command tries the rest again")
    if not outcome.runs:
        _close(outcome, graded=True)
        raise ConditionError("nothing can be scored: every model was skipped")
    return outcome


def _close(outcome: _Scored, *, graded: bool) -> None:
    """Raise where a model is broken, which is named after the table of the others; exit with 3 where one is open."""
    if outcome.broken:
        raise together(outcome.broken)
    if outcome.unfinished or not graded:
        raise typer.Exit(INCOMPLETE)


def _title(task: _Selection, cell: "GridCell") -> str:
    return f"{task.pool.folder} × {cell.model} × {cell.condition.spec}"


def _grade(
    job: GradingJob,
    runs: "list[Run]",
    ks: list[int],
    *,
    which: GradeScope,
    bill: "Mapping[str, Price] | None",
    as_json: bool,
) -> bool:
    """Grade what the curves need and return whether all of it has a grade; with prices for a `bill` only tell that."""
    from pluralrm.policies.best_of_n import selected

    picks = selected(job.pool, runs, ks)
    if bill is not None:
        tell_bills(job, picks, bill, as_json=as_json)
        return True
    return not grade_wanted(job, picks if which is GradeScope.selected else None).open


def _tell(
    task: _Selection,
    runs: "list[Run]",
    ks: list[int],
    by: _GradedBy,
    *,
    exact: bool,
    picture: Path | None,
    form: TableFormat,
) -> None:
    """Measure, write the outcomes, print and draw."""
    from pluralrm.policies.best_of_n import best_of_n as measure
    from pluralrm.policies.grades import read_grades
    from pluralrm.policies.outcomes import write_outcomes
    from pluralrm.specs import short_names

    result = measure(task.pool, task.benchmark, runs, read_grades(by.folder), ks=ks, exact=exact)
    written = write_outcomes(task.pool, task.benchmark, runs, result, grader=by.spec)
    names = short_names([curve.model for curve in result.curves])
    view = replace(result, curves=tuple(replace(curve, model=names[curve.model]) for curve in result.curves))
    if form is TableFormat.JSON:
        print_json(to_json(task.pool, result, by.spec, written))
    elif form in TEXT_FORMS:
        print_records(view.records(), form, ["grade", "regret"])
    else:
        print_curves(task.pool, view, by.spec)
    if picture is not None:
        draw(task.pool, view, picture)


# ---------------------------------------------------------------- tables, JSON, a picture

_EXACT = "Grades in per cent of the most that the rubric gives. Best-of-k: expected over all subsets of k answers"
_FIRST = "Grades in per cent of the most that the rubric gives. Best-of-k: of the first k answers alone, as published"


def print_curves(pool: "Pool", result: "BestOfN", grader: str) -> None:
    """Print the ranking and every curve."""
    print_wrapped(
        f"{len(pool.samples):,} items of {pool.benchmark} × {pool.n} answers of {pool.policy} under {pool.condition}",
        style="bold",
    )
    print_wrapped(f"graded by {grader}")
    if "oracle" in pool.reveals:
        print_wrapped("ORACLE: the policy saw the rubric", style="red")
    for curve in result.curves:
        if curve.shown_rubric:
            print_wrapped(f"ORACLE: {curve.model} under {curve.condition} saw the rubric", style="red")
    for text in result.notes:
        print_wrapped(text, style="yellow")
    console().print()
    _print_ranking(result)
    for curve in result.curves:
        _print_curve(result, curve, several=len({curve.condition for curve in result.curves}) > 1)
    print_legend(_legend(result))


def _print_ranking(result: "BestOfN") -> None:
    columns: list[tuple[str, Kind]] = [("reward model", "name"), ("condition", "name")]
    columns += [(f"best-of-{result.ks[-1]} [95%]", "left"), ("best k", "right")]
    ranked = sorted(result.curves, key=lambda curve: -curve.last.grade.value)
    rows = [[curve.model, curve.condition, percent(curve.last.grade), str(curve.peak)] for curve in ranked]
    if result.exact:
        columns.append(("regret [95%]", "left"))
        regrets = ["" if curve.last.regret is None else percent(curve.last.regret) for curve in ranked]
        rows = [[*row, regret] for row, regret in zip(rows, regrets, strict=True)]
        rows.insert(0, ["(oracle)", "", percent(result.oracle[-1]), "", ""])
        if result.majority:
            rows.append(["(majority)", "", percent(result.majority[-1]), "", ""])
        rows.append(["(random)", "", percent(result.random[-1]), "", ""])
    console().print(table(columns, rows))


def _print_curve(result: "BestOfN", curve: "BestOfCurve", *, several: bool) -> None:
    console().print()
    print_wrapped(f"{curve.model} under {curve.condition}" if several else curve.model, style="bold")
    columns: list[tuple[str, Kind]] = [("k", "right"), ("KL", "right"), ("grade [95%]", "left")]
    if result.exact:
        columns += [("first k [95%]", "left"), ("oracle", "right"), ("random", "right")]
        columns += [("maj@k", "right")] * bool(result.majority)
    rows = [_point_row(result, index, point) for index, point in enumerate(curve.points)]
    console().print(table(columns, rows))
    if (text := _fall(curve)) is not None:
        print_wrapped(text, first="  ", indent="    ", style="red" if curve.over_optimised else "")


def _point_row(result: "BestOfN", index: int, point: "CurvePoint") -> tuple[str, ...]:
    cells = (str(point.k), f"{point.kl:.2f}", percent(point.grade))
    if point.first is None:
        return cells
    lines = [line[index] for line in (result.oracle, result.random, result.majority) if line]
    return (*cells, percent(point.first), *(f"{100 * line.value:.1f}" for line in lines))


def _fall(curve: "BestOfCurve") -> str | None:
    """Return in words what happens after the peak; None where the curve does not fall while its score rises."""
    if curve.fall is None:
        return None
    change = f"from k = {curve.peak} to k = {curve.last.k} the grade changes by {percent(curve.fall)}"
    if curve.over_optimised:
        return f"Over-optimised: {change}, while the model's own score rises."
    return f"Highest at k = {curve.peak}: {change}, which may be chance."


def _legend(result: "BestOfN") -> list[str]:
    last = result.curves[0].last
    methods = dict.fromkeys(point.grade.method for curve in result.curves for point in curve.points)
    lines = [f"{_EXACT if result.exact else _FIRST}.", *(f"interval: {method}." for method in methods)]
    lines.append("KL(best-of-k || policy) = log k - (k-1)/k nats, an upper bound where answers or scores repeat.")
    if result.exact:
        lines.append(
            "regret: the grade of the oracle, which picks by the grades themselves, minus the model's. first k: the "
            "same picks from the first k answers alone, as published. random: a pick by chance."
        )
        lines += [*_majority(result), *_wider(result)]
    if failed := [curve for curve in result.curves if curve.last.grade.failed]:
        counts = ", ".join(f"{curve.model} ({curve.condition}) {curve.last.grade.failed:,}" for curve in failed)
        lines.append(
            f"Items of {last.grade.n:,} with an answer, a score or a grade that failed: {counts}. An answer without a "
            "score is picked last, and one without a grade earns nothing."
        )
    if result.ungraded:
        most = ", ".join(f"{curve.model} ≤ {100 * (curve.last.at_most or 0):.1f}" for curve in result.curves)
        lines.append(f"{result.ungraded:,} grades failed; if each were full, at k = {last.k}: {most}.")
    return lines


def _majority(result: "BestOfN") -> list[str]:
    """Return what maj@k is, or why there is none."""
    if not result.majority:
        return [f"maj@k is not applicable: {result.no_majority}."]
    silent = result.majority[-1].failed
    remark = f" {silent:,} items have no boxed answer, or a grade that failed, and count so." if silent else ""
    rule = (
        "majority, maj@k: the most frequent \\boxed{} answer among k; numbers are compared as numbers, others as text."
    )
    return [f"{rule} Ties share, and what boxes nothing does not vote.{remark}"]


def _wider(result: "BestOfN") -> list[str]:
    """Return what it is worth to go through all subsets, instead of taking the first k alone."""
    ratios = [
        (_width(point.first) / _width(point.grade), curve.model, point.k)
        for curve in result.curves
        for point in curve.points
        if point.first is not None and _width(point.grade) > 0
    ]
    most, model, k = max(ratios, default=(1.0, "", 0))
    text = f"Intervals of the first k are up to {most:.1f} times as wide as over all subsets ({model}, k = {k})."
    return [text] if most > 1 else []


def _width(estimate: "Estimate") -> float:
    return 0.0 if estimate.low is None or estimate.high is None else estimate.high - estimate.low


# ---------------------------------------------------------------- JSON


def to_json(pool: "Pool", result: "BestOfN", grader: str, written: "Sequence[Path]") -> dict[str, object]:
    """Return everything that is printed, every number an Estimate where it is one."""
    return {
        "pool": {"folder": pool.folder, "hash": pool.content_hash, "policy": pool.policy, "condition": pool.condition},
        "benchmark": pool.benchmark,
        "items": len(pool.samples),
        "n": pool.n,
        "grader": grader,
        "way": "exact" if result.exact else "first",
        "ungraded": result.ungraded,
        "notes": list(result.notes),
        "oracle": _by_k(result, result.oracle),
        "random": _by_k(result, result.random),
        "majority": _by_k(result, result.majority),
        "no_majority": result.no_majority,
        "curves": [
            _curve(curve) | {"outcome": str(folder)} for curve, folder in zip(result.curves, written, strict=True)
        ],
    }


def _by_k(result: "BestOfN", line: "Sequence[Estimate]") -> list[dict[str, object]]:
    return [{"k": k, "bon": estimate.to_json()} for k, estimate in zip(result.ks, line, strict=False)]


def _curve(curve: "BestOfCurve") -> dict[str, object]:
    return {
        "model": curve.model,
        "condition": curve.condition,
        "shown_rubric": curve.shown_rubric,
        "peak": curve.peak,
        "over_optimised": curve.over_optimised,
        "fall": curve.fall and curve.fall.to_json(),
        "points": [
            {
                "k": point.k,
                "kl": point.kl,
                "bon": point.grade.to_json(),
                "first": point.first and point.first.to_json(),
                "regret": point.regret and point.regret.to_json(),
                "at_most": point.at_most,
                "score": point.score,
            }
            for point in curve.points
        ],
    }


# ---------------------------------------------------------------- a picture


def draw(pool: "Pool", result: "BestOfN", file: Path) -> None:
    """Write the curves of all reward models on one panel, over their distance from the policy."""
    from pluralrm.pages.lines import PlotLine, line_plot
    from pluralrm.pages.plots import Dot

    def dot(value: "Estimate") -> "Dot":
        return Dot(*(None if end is None else 100 * end for end in (value.value, value.low, value.high)))  # type: ignore[arg-type]

    def dots(line: "Sequence[Estimate]") -> "dict[float, Dot]":
        return {point.kl: dot(value) for point, value in zip(result.curves[0].points, line, strict=True)}

    several = len({curve.condition for curve in result.curves}) > 1
    names = [f"{curve.model} ({curve.condition})" if several else curve.model for curve in result.curves]
    lines = [
        PlotLine(name, dots([point.grade for point in curve.points]))
        for name, curve in zip(names, result.curves, strict=True)
    ]
    if result.exact:
        lines += [
            PlotLine("(oracle)", dots(result.oracle), bound=True),
            PlotLine("(random)", dots(result.random), bound=True),
        ]
        lines += [PlotLine("(majority)", dots(result.majority), bound=True)] if result.majority else []
    plot = line_plot(
        "best-of-n",
        lines,
        title=f"Best-of-k of {pool.policy} on {pool.benchmark}",
        words=f"{len(result.curves)} reward models, k = {result.ks[0]} to {result.ks[-1]}; bars are 95% intervals.",
        labels=("KL(best-of-k || policy), nats; above: k", "grade, per cent"),
        above={point.kl: str(point.k) for point in result.curves[0].points},
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(plot.pdf() if file.suffix == ".pdf" else plot.svg().encode())
    except OSError as exc:
        raise PluralrmError(f"cannot write {str(file)!r}: {exc}. Name another place with --figure") from exc
    note(f"wrote {file}")

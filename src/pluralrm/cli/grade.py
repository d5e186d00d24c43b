"""`pluralrm grade`: a grader marks a pool's answers, each different one once, or grades made elsewhere are read."""

import shlex
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.options import (
    ON,
    SEND,
    SERVED,
    SHARD,
    ServerOptions,
    check_names,
    named_shard,
    with_key,
    with_server_options,
)
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, interruptible, note_asked
from pluralrm.cli.score import print_shards
from pluralrm.cli.terminal import Kind, console, note, print_json, print_wrapped, table
from pluralrm.errors import PoolError, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pluralrm.core import Benchmark
    from pluralrm.grading import Grader
    from pluralrm.http import Price, Settings
    from pluralrm.policies.grades import GradingCost
    from pluralrm.policies.pool import Pool
    from pluralrm.runs import Progress
    from pluralrm.shards import Shard


# ---------------------------------------------------------------- what every verb that grades has: best-of-n, train

Wanted = set[tuple[str, str]]


class GradeScope(StrEnum):
    """Which answers of a pool are graded."""

    all = "all"
    selected = "selected"


POOL = typer.Argument(..., metavar="POOL", help="Folder of a pool; 'pluralrm sample' writes one.")
BENCHMARK = typer.Option("", "--benchmark", metavar="BENCH", help="The pool's benchmark, if it was loaded from a path.")
GRADE = typer.Option(
    GradeScope.all, "--grade", help="All distinct answers, or only those that some reward model picks from the first k."
)


def named_grader(text: str, settings: "Settings", *, send: bool) -> "Grader":
    """Return the grader that a spec names, with `send=posts` where that is allowed and it sends anything."""
    from pluralrm.grading import open_grader, parse_grader

    [text] = with_key([text], "send", "posts", [sends(text) and send], parse_grader)
    return open_grader(text, settings=settings)


def sends(text: str) -> bool:
    """Return whether the grader that a spec names shows a server what users wrote."""
    from pluralrm.grading import FORMS, parse_grader

    check_names([text], "-g", FORMS)
    return "send" in FORMS[parse_grader(text).kind].keys


def check_send(text: str, *, send: bool) -> None:
    """Raise where --send-posts stands beside a grader that sends nothing."""
    if send and not sends(text):
        raise SpecError(f"--send-posts: nothing is sent by {text}; leave it out")


class GradingJob(NamedTuple):
    """A pool, its benchmark, and who grades."""

    pool: "Pool"
    benchmark: "Benchmark"
    grader: "Grader"
    shard: "Shard | None" = None
    on: str = ""


def grade_wanted(job: GradingJob, subset: Wanted | None) -> "Progress":
    """Grade what has no grade yet, with progress on stderr; Ctrl-C keeps what is done."""
    from pluralrm.cluster import opened
    from pluralrm.policies.grades import grade_pool, has_replicas

    title = f"{job.pool.folder} × {job.grader.spec}"
    meter, computed = ProgressDisplay(title), has_replicas(job.grader)
    if job.on and not computed:
        note(f"--on starts no replica of {job.grader.spec}: what asks a server is asked from this machine")
    with interruptible("grades are kept", title), meter, opened(job.on if computed else "") as cluster:
        meter.workers = lambda: cluster.summary if cluster is not None else ""
        done = grade_pool(
            job.pool, job.benchmark, job.grader, only=subset, progress=meter.update, shard=job.shard, on=cluster
        )
    note_asked([meter.asked])
    if done.open:
        note(f"incomplete: {done.open:,} of {done.total:,} answers are not graded; the same command tries them again")
    return done


def tell_bills(job: GradingJob, subset: Wanted | None, prices: "Mapping[str, Price]", *, as_json: bool) -> None:
    """Print what grading everything, and what grading the wanted answers alone would take; None is not known yet."""
    from pluralrm.policies.grades import grading_cost

    bills = {"all": grading_cost(job.pool, job.benchmark, job.grader, shard=job.shard)}
    if subset is not None:
        bills["selected"] = grading_cost(job.pool, job.benchmark, job.grader, subset, shard=job.shard)
    price = prices[job.grader.model].input if job.grader.model in prices else None
    if as_json:
        print_json({name: {**bill._asdict(), "cost": bill.cost(price)} for name, bill in bills.items()})
        return
    part = f"{job.shard} of " if job.shard else ""
    print_wrapped(f"{part}{job.pool.folder} by {job.grader.spec}: what has no grade yet", style="bold")
    columns: list[tuple[str, Kind]] = [("--grade", "left"), ("answers", "right"), ("calls", "right")]
    columns += [("prompt tokens, about", "right"), ("cost of prompts", "right")]
    console().print(table(columns, [_bill_row(name, bill, price) for name, bill in bills.items()]))
    if subset is None:
        print_wrapped("selected: no reward model has scored this pool yet; 'pluralrm best-of-n' does.", first="  ")


def _bill_row(name: str, bill: "GradingCost", price: float | None) -> tuple[str, ...]:
    cost = bill.cost(price)
    text = "not known" if cost is None else f"{cost:.4g}"
    return name, f"{bill.answers:,}", f"{bill.calls:,}", f"{bill.prompt_tokens:,}", text


# ---------------------------------------------------------------- the verb


@with_server_options
def grade(
    pool: Path = POOL,
    grader: str = typer.Option(
        "",
        "--grader",
        "-g",
        help="per-aspect:MODEL,url=URL, joint:MODEL,url=URL, truth, math, code, python:MODULE:NAME.",
    ),
    which: GradeScope = GRADE,
    file: Path | None = typer.Option(
        None, "--from", metavar="FILE", help="Import grades: item, index or text, grade, by. CSV, JSON, Parquet."
    ),
    by: str = typer.Option("", "--by", metavar="NAME", help="With --from: the grader's name, if no column has it."),
    scale: tuple[float, float] = typer.Option(
        (0.0, 1.0), "--range", metavar="LOW HIGH", help="With --from: the lowest and the highest possible grade."
    ),
    benchmark: str = BENCHMARK,
    shard: str = SHARD,
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what either --grade would cost, and stop."),
    send: bool = SEND,
    on: str = ON,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Grade a pool's answers by their users' rubrics, or import grades. Exit 3 if some stay open."""
    from pluralrm.policies.grades import check_grader
    from pluralrm.policies.pool import load_pool, source

    if file is not None:
        options = {"-g": bool(grader), "--grade selected": which is GradeScope.selected, "--benchmark": bool(benchmark)}
        _check_alone(
            file, {**options, "--dry-run": dry_run, "--send-posts": send, "--shard": bool(shard), "--on": bool(on)}
        )
        served.check([])
        _import(pool, file, by, scale, as_json=as_json)
        return
    if by or scale != (0.0, 1.0):
        raise SpecError("--by and --range tell how to read a file of grades; wanted --from FILE beside them")
    if not grader:
        raise SpecError("who grades? Wanted -g GRADER (see 'pluralrm list graders'), or a file of grades: --from FILE")
    part, settings, answered = named_shard(shard), served.settings(), load_pool(pool)
    bench = source(answered, benchmark)
    job = GradingJob(answered, bench, named_grader(grader, settings, send=send), part, on)
    check_send(grader, send=send)
    check_grader(answered, bench, job.grader)
    chosen = _picks(answered, bench)
    if dry_run:
        tell_bills(job, chosen, settings.prices, as_json=as_json)
        return
    if which is GradeScope.selected and chosen is None:
        raise PoolError(f"{pool}: no reward model has scored this pool yet; 'pluralrm best-of-n {pool} -m ...' does")
    _grade(job, chosen if which is GradeScope.selected else None, as_json=as_json)


def _grade(job: GradingJob, subset: Wanted | None, *, as_json: bool) -> None:
    """Grade the pool, or a shard of it, and print what came of it; exit with 3 where answers are open."""
    from pluralrm.policies.grades import shard_of_grades

    done = grade_wanted(job, subset)
    if job.shard is None:
        _tell(job, done, as_json=as_json)
    else:
        far = shard_of_grades(job.pool, job.grader, job.shard, done)
        print_shards([far], f"pluralrm merge {shlex.quote(str(job.pool.folder))}", as_json=as_json)
    if done.open:
        raise typer.Exit(INCOMPLETE)


def _check_alone(file: Path, options: "Mapping[str, bool]") -> None:
    """Raise where an option that is about asking for grades stands beside a file of them."""
    if names := [name for name, value in options.items() if value]:
        raise SpecError(f"{', '.join(names)}: the grades in {file} are made already; leave it out")


def _import(pool: Path, file: Path, by: str, scale: tuple[float, float], *, as_json: bool) -> None:
    from pluralrm.policies.imported import RULE, import_grades
    from pluralrm.policies.pool import load_pool

    low, high = scale
    imports = import_grades(load_pool(pool), file, by=by, low=low, high=high)
    if as_json:
        print_json(
            [
                {
                    "grader": part.grader.spec,
                    "folder": str(part.folder),
                    "rows": part.rows,
                    "answers": len(part.grades) + part.ungraded,
                    "graded": len(part.grades),
                    "ungraded": part.ungraded,
                    "equal_texts": {"rule": RULE, "averaged": part.averaged},
                    "ignored_columns": list(part.ignored),
                }
                for part in imports
            ]
        )
        return
    if imports[0].ignored:
        note(f"columns that are not read: {', '.join(imports[0].ignored)}")
    for part in imports:
        print_wrapped(
            f"{part.folder}: {part.rows:,} grades by {part.grader.spec}; {len(part.grades):,} of "
            f"{len(part.grades) + part.ungraded:,} different answers graded"
        )
        if part.averaged:
            print_wrapped(
                f"{part.averaged:,} answers whose equal texts were graded differently have the {RULE} of their grades",
                first="  ",
                indent="  ",
            )
        _print_levels(_levels(part.grades))


def _picks(pool: "Pool", benchmark: "Benchmark") -> Wanted | None:
    """Return what the reward models pick that have scored this pool; None where none has."""
    from pluralrm.policies.best_of_n import scored, selected
    from pluralrm.stats.best_of import powers_of_two

    runs = scored(pool, benchmark)
    return selected(pool, runs, powers_of_two(pool.n)) if runs else None


def _tell(job: GradingJob, done: "Progress", *, as_json: bool) -> None:
    from pluralrm.core import Failure
    from pluralrm.policies.grades import grade_folder, read_grades

    folder = grade_folder(job.pool, job.grader)
    grades = list(read_grades(folder).values())
    if as_json:
        counts = {"answers": done.total, "graded": done.done, "failed": done.failed, "open": done.open}
        print_json({**counts, "alarm": done.warning, "grader": job.grader.spec, "folder": str(folder)})
        return
    print_wrapped(f"{folder}: {done.done:,} of {done.total:,} answers graded, {done.failed:,} of them failed")
    if done.warning:
        print_wrapped(f"ALARM: {done.warning}", style="red")
    levels = _levels([value for value in grades if not isinstance(value, Failure)])
    levels.update(f"failed ({value.kind})" for value in grades if isinstance(value, Failure))
    _print_levels(levels)


_MOST_LEVELS = 21


def _levels(grades: "Sequence[float]") -> "Counter[str]":
    """Return how many answers have each grade; by tenths where there are too many different ones to list."""
    levels = Counter(f"{grade:.2f}" for grade in grades)
    if len(levels) <= _MOST_LEVELS:
        return levels
    tenths = (min(int(10 * grade), 9) for grade in grades)
    return Counter(f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}" for tenth in tenths)


def _print_levels(levels: "Counter[str]") -> None:
    columns: list[tuple[str, Kind]] = [("grade", "left"), ("answers", "right")]
    console().print()
    console().print(table(columns, [(level, f"{count:,}") for level, count in sorted(levels.items())]))

"""What the verbs that grade a pool have in common: who grades, how much, at what cost."""

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.options import check_names, with_key
from pluralrm.cli.progress import ProgressDisplay, asked_line, interruptible
from pluralrm.cli.terminal import Kind, console, note, print_json, print_wrapped, table
from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pluralrm.core import Benchmark
    from pluralrm.grading import Grader
    from pluralrm.http import Price, Settings
    from pluralrm.policies.grading import Bill
    from pluralrm.policies.pool import Pool
    from pluralrm.runs import Progress

Wanted = set[tuple[str, str]]


class Which(StrEnum):
    """Which answers of a pool are graded."""

    all = "all"
    selected = "selected"


POOL = typer.Argument(..., metavar="POOL", help="Folder of a pool; 'pluralrm sample' writes one.")
BENCHMARK = typer.Option(
    "", "--benchmark", metavar="BENCH", help="The pool's benchmark, where it was read from a path."
)
GRADE = typer.Option(
    Which.all, "--grade", help="Every different answer, or those alone that some reward model picks from the first k."
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


class Job(NamedTuple):
    """A pool, its benchmark, and who grades."""

    pool: "Pool"
    benchmark: "Benchmark"
    grader: "Grader"


def grade_wanted(job: Job, wanted: Wanted | None) -> "Progress":
    """Grade what has no grade yet, with progress on stderr; Ctrl-C keeps what is done."""
    from pluralrm.policies.grading import grade_pool

    title = f"{job.pool.folder} × {job.grader.spec}"
    meter = ProgressDisplay(title)
    with interruptible("grades are kept", title), meter:
        done = grade_pool(job.pool, job.benchmark, job.grader, wanted=wanted, progress=meter.update)
    if told := asked_line([meter.asked]):
        note(told)
    if done.open:
        note(f"incomplete: {done.open:,} of {done.total:,} answers are not graded; the same command tries them again")
    return done


def tell_bills(job: Job, wanted: Wanted | None, prices: "Mapping[str, Price]", *, as_json: bool) -> None:
    """Print what grading everything, and what grading the wanted answers alone would take; None is not known yet."""
    from pluralrm.policies.grading import bill

    bills = {"all": bill(job.pool, job.benchmark, job.grader)}
    if wanted is not None:
        bills["selected"] = bill(job.pool, job.benchmark, job.grader, wanted)
    price = prices[job.grader.model].input if job.grader.model in prices else None
    if as_json:
        print_json({name: {**one._asdict(), "cost": one.cost(price)} for name, one in bills.items()})
        return
    print_wrapped(f"{job.pool.folder} by {job.grader.spec}: what has no grade yet", style="bold")
    columns: list[tuple[str, Kind]] = [("--grade", "left"), ("answers", "right"), ("calls", "right")]
    columns += [("prompt tokens, about", "right"), ("cost of prompts", "right")]
    console().print(table(columns, [_bill_row(name, one, price) for name, one in bills.items()]))
    if wanted is None:
        print_wrapped("selected: no reward model has scored this pool yet; 'pluralrm best-of-n' does.", first="  ")


def _bill_row(name: str, one: "Bill", price: float | None) -> tuple[str, ...]:
    cost = one.cost(price)
    told = "not known" if cost is None else f"{cost:.4g}"
    return name, f"{one.answers:,}", f"{one.calls:,}", f"{one.prompt_tokens:,}", told

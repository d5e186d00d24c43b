"""What the verbs that build a benchmark share: their options, one run with its exit codes, the funnel as a table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.options import ServerOptions
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, interruptible, note_asked
from pluralrm.cli.score import tell_shard
from pluralrm.cli.terminal import Kind, clean, console, note, print_json, print_wrapped, table
from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from pluralrm.construct.pipeline import BuildPlan, BuildProgress, Built, Funnel, Pipeline, Range, Record, Role
    from pluralrm.construct.pipeline.pools import Pools
    from pluralrm.construct.release import About, Edition, Released
    from pluralrm.http import Price, Settings
    from pluralrm.shards import Shard

OUT = typer.Option(..., "--out", "-o", metavar="DIR", help="Folder of the build; the same command resumes.")
URL = typer.Option("", "--url", metavar="URL", help="Server of models whose spec names none.")
LIMIT = typer.Option(None, "--limit", min=1, metavar="N", help="Only N records, sampled by their ids.")
DRY_RUN = typer.Option(False, "--dry-run", help="Print calls and cost, and stop.")
ACCEPT_LEAKS = typer.Option(
    False, "--accept-leaks", help="Release although the audit can guess the labels; the card says so."
)

LEAKS = 1
"""Exit code where a release is withheld, as that of `pluralrm audit` on a leak."""


class ConstructOptions(NamedTuple):
    """What every verb that builds is given."""

    out: Path
    url: str = ""
    limit: int | None = None
    dry_run: bool = False
    accept_leaks: bool = False
    send: bool = False
    served: ServerOptions = ServerOptions()
    as_json: bool = False
    shard: "Shard | None" = None

    @property
    def folder(self) -> Path:
        """The folder of the build, or of a shard of it."""
        return self.out if self.shard is None else self.shard.folder(self.out)


class BuildWork(NamedTuple):
    """What a verb builds: records, who plays which role, the stages, and what is released of what came through."""

    records: "Sequence[Record]"
    roles: "Sequence[Role]"
    pipeline: "Callable[[], Pipeline]"
    released: "Callable[[Built], tuple[Sequence[Edition], About]]"


def run_build(work: BuildWork, options: ConstructOptions) -> "Released | None":
    """Build, print the funnel and release; None for a dry run. Exit 3 where records wait, 1 where labels leak."""
    if options.served.record:
        raise SpecError("--record: a build records its calls in its own folder, as calls.jsonl; leave it out")
    settings = options.served.settings()
    roles = [role._replace(specs=[_placed(role.name, text, options) for text in role.specs]) for role in work.roles]
    if options.dry_run:
        _tell_plan(work, roles, settings, options)
        return None
    with interruptible("replies and decisions are kept"):
        if options.shard is not None:
            _build_shard(work, roles, settings, options, shard=options.shard)
            return None
        return _built(work, roles, settings, options)


def refuse_beside_demo(options: Mapping[str, object]) -> None:
    """Raise where an option stands beside --demo that a recording cannot heed."""
    if names := [name for name, value in options.items() if value]:
        raise SpecError(f"{', '.join(names)}: --demo answers from its own recording; leave it out, or leave out --demo")


def build_demo(work: BuildWork, options: ConstructOptions, next_steps: str) -> None:
    """Build from a recording, and print what to try with the result."""
    released = run_build(work, options)
    if released is not None and not options.as_json:
        text = next_steps.format(folder=quote(str(options.out)), load=quote(released.loads[-1]))
        console().print(text, markup=False, highlight=False)


def _placed(role: str, text: str, options: ConstructOptions) -> str:
    """Return a model's spec with the server and the permission that the command gives to all of them."""
    from pluralrm.construct.pipeline.pools import FORM
    from pluralrm.specs import parse

    spec = parse(f"{role}:{text}", {role: FORM}, noun="role")
    server = {"url": options.url} if options.url else {}
    sent = {"send": "posts"} if options.send else {}
    return str(replace(spec, options={**server, **spec.options, **sent})).partition(":")[2]


def _built(work: BuildWork, roles: "Sequence[Role]", settings: "Settings", options: ConstructOptions) -> "Released":
    from pluralrm.construct.pipeline import Folder, build, open_pools
    from pluralrm.construct.release import release, require_kept

    with Folder(options.out) as folder, open_pools(roles, settings=folder.settings(settings)) as pools:
        pipeline = work.pipeline()
        with ProgressDisplay(f"build {pipeline.name}") as meter:
            report = _report(meter, pools)
            built = build(pipeline, work.records, folder, pools, limit=options.limit, progress=report)
        note_asked([pools.tally])
        if not options.as_json:
            print_funnel(built.funnel, settings.prices)
        if not built.complete:
            _tell_waiting(built, settings.prices, options)
        require_kept(built)  # before anything is told of a set that is not there
        released = release(built, *work.released(built), accept_leaks=options.accept_leaks)
        _tell_released(built, released, settings.prices, as_json=options.as_json)
    return released


def _build_shard(
    work: BuildWork, roles: "Sequence[Role]", settings: "Settings", options: ConstructOptions, *, shard: "Shard"
) -> None:
    """Take a shard of the records through the stages that ask, and say how far it is; exit 3 where some wait."""
    from pluralrm.construct.pipeline import Folder, build_shard, open_pools

    with Folder(options.folder) as folder, open_pools(roles, settings=folder.settings(settings)) as pools:
        pipeline = work.pipeline()
        with ProgressDisplay(f"build {pipeline.name}, {shard}") as meter:
            report = _report(meter, pools)
            far, why = build_shard(
                pipeline, work.records, folder, pools, shard=shard, limit=options.limit, progress=report
            )
        note(f"some records wait ({why})" if why else f"{shard} of {pipeline.name}")
        tell_shard(far, pools.tally, as_json=options.as_json)


def _report(meter: ProgressDisplay, pools: "Pools | None" = None) -> "Callable[[BuildProgress], None]":
    """Return what shows how far a build is, and what its models were asked."""
    from pluralrm.runs import Progress

    def report(going: "BuildProgress") -> None:
        meter.update(Progress(going.done, going.total, 0, going.waiting, None if pools is None else pools.tally))

    return report


def _tell_waiting(built: "Built", prices: "Mapping[str, Price]", options: ConstructOptions) -> None:
    if options.as_json:
        print_json({**_told(built.funnel, prices), "folder": str(built.folder), "released": None})
    further = "" if options.served.replay else "; the same command resumes"
    note(f"{built.funnel.waiting:,} records wait ({built.why}){further}")
    raise typer.Exit(INCOMPLETE)


def _tell_released(built: "Built", released: "Released", prices: "Mapping[str, Price]", *, as_json: bool) -> None:
    if as_json:
        paths = {"folder": str(built.folder), "released": None if released.withheld else str(released.path)}
        print_json({**_told(built.funnel, prices), **paths, "leaks": list(released.leaks)})
    elif released.withheld:
        print_wrapped(
            f"withheld: the labels can be guessed from what must not reveal them; {released.path}", style="red"
        )
        for leak in released.leaks:
            print_wrapped(leak, first="  ", indent="    ")
        print_wrapped("--accept-leaks releases it anyway, and its card says so.", first="  ", indent="    ")
    else:
        print_wrapped(f"released: {released.path}", style="bold")
        for load in released.loads:
            console().print(f"  load it as {clean(load)}", soft_wrap=True)  # to be copied whole
    if released.withheld:
        raise typer.Exit(LEAKS)


# ---------------------------------------------------------------- the funnel


def print_funnel(funnel: "Funnel", prices: "Mapping[str, Price]") -> None:
    """Print how many records came to each stage and stayed, and why the others did not."""
    from pluralrm.construct.pipeline import COLUMNS, funnel_rows

    print_wrapped(f"{funnel.pipeline}: {funnel.kept:,} of {funnel.records:,} records came through", style="bold")
    rows = funnel_rows(funnel, prices)
    indices = [index for index, name in enumerate(COLUMNS) if name not in _empty(rows)]
    columns: list[tuple[str, Kind]] = [(COLUMNS[index], "right" if index else "name") for index in indices]
    console().print(table(columns, [[row[index] for index in indices] for row in rows]))
    for counts in funnel.stages:
        if counts.rejected:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.rejected.items())
            print_wrapped(f"rejected at {counts.stage}: {reasons}", first="  ", indent="    ")
    if unmetered := sum(spent.unmetered for counts in funnel.stages for spent in counts.spent):
        print_wrapped(f"{unmetered:,} calls came without token counts.", first="  ", indent="    ", style="dim")


def _empty(rows: "Sequence[tuple[str, ...]]") -> Iterator[str]:
    """Yield the columns that say nothing: no record waits, no price is known, no request is sent."""
    from pluralrm.construct.pipeline import COLUMNS

    for name in ("waiting", "calls", "tokens", "cost"):
        if all(row[COLUMNS.index(name)] in {"0", "–"} for row in rows):
            yield name


def _told(funnel: "Funnel", prices: "Mapping[str, Price]") -> dict[str, object]:
    costs = {counts.stage: counts.cost(prices) for counts in funnel.stages} if prices else {}
    return {"funnel": funnel.to_json(), "cost": funnel.cost(prices) if prices else None, "costs": costs}


# ---------------------------------------------------------------- the plan


def _tell_plan(work: BuildWork, roles: "Sequence[Role]", settings: "Settings", options: ConstructOptions) -> None:
    from pluralrm.construct.pipeline import open_pools, plan

    with open_pools(roles, settings=settings):  # what a build would refuse is refused now
        pass
    with ProgressDisplay("dry run") as meter:
        result = plan(
            *(work.pipeline(), work.records, roles),
            limit=options.limit,
            settings=settings,
            progress=_report(meter),
            shard=options.shard,
        )
    if options.as_json:
        print_json(result.to_json())
    else:
        print_plan(result)


def print_plan(plan: "BuildPlan") -> None:
    """Print what a build would ask."""
    part = f", {plan.shard}" if plan.shard else ""
    print_wrapped(f"{plan.pipeline}{part}: {plan.records:,} records; nothing was sent", style="bold")
    rows = [
        (row.stage, row.role, _range(row.calls), _range(row.tokens_in), _range(row.tokens_out), _price(row.cost))
        for row in (*plan.rows, plan.total)
    ]
    columns: list[tuple[str, Kind]] = [("stage", "name"), ("role", "name"), ("calls", "right"), ("tokens in", "right")]
    console().print(table([*columns, ("tokens out", "right"), ("cost", "right")], rows))
    print_wrapped(
        "A dry run: the stages run on stand-ins for the replies. From: every text is accepted at once. To: each is "
        "rewritten as often as allowed; second tries of unreadable replies are on top. A rejected record costs less. "
        "Tokens are estimated from letters.",
        first="  ",
        indent="    ",
        style="dim",
    )


def _range(span: "Range") -> str:
    least, most = f"{span.least:,.0f}", f"{span.most:,.0f}"
    return least if least == most else f"{least} to {most}"


def _price(span: "Range | None") -> str:
    if span is None:
        return "–"
    return f"{span.least:.3g}" if span.least == span.most else f"{span.least:.3g} to {span.most:.3g}"

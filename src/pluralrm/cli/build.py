"""`pluralrm build`: data that a benchmark lacks, made and said to be made."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.build_prb import build_prb
from pluralrm.cli.build_rmgap import build_rmgap
from pluralrm.cli.build_show import build_show
from pluralrm.cli.dedup import dedup
from pluralrm.cli.progress import Meter, asked_line
from pluralrm.cli.score import INCOMPLETE
from pluralrm.cli.sending import SEND
from pluralrm.cli.served import SERVED, Served, with_server_options
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.cli.validate import validate

if TYPE_CHECKING:
    from pluralrm.build.context_pairs import Progress

app = typer.Typer(no_args_is_help=True, help="Make data that a benchmark lacks.")


@app.callback()
def _root() -> None:
    """Make data that a benchmark lacks."""


app.command("dedup")(dedup)
app.command("prb")(build_prb)
app.command("rmgap")(build_rmgap)
app.command("show")(build_show)
app.command("validate")(validate)


@app.command("context-pairs")
@with_server_options
def context_pairs(
    benchmark: str = typer.Argument(..., metavar="BENCH", help="Whose users have posts and no labelled pairs: prb."),
    writer: str = typer.Option(
        ..., "--writer", metavar="MODEL", help="The chat model; MODEL,key=NAME for its options."
    ),
    url: str = typer.Option("", "--url", metavar="URL", help="Its server; OPENAI_BASE_URL unless told."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="One line per user; a benchmark to score."),
    pairs: int = typer.Option(8, "-n", min=1, metavar="N", help="Pairs per user."),
    posts: int = typer.Option(10, "--posts", min=1, metavar="K", help="The user's first K posts are shown."),
    limit: int | None = typer.Option(None, "--limit", min=1, metavar="N", help="Only the first N users with posts."),
    send: bool = SEND,
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Have a chat model invent choices from each user's posts. Nobody chose them. Exit 3 where some are open."""
    from pluralrm.build.context_pairs import open_writer, write_pairs
    from pluralrm.chat.requests import tally_of
    from pluralrm.cli.given import open_benchmark
    from pluralrm.runs import Progress as Going

    said = [writer, *([f"url={url}"] if url else []), *(["send=posts"] if send else [])]
    asked = open_writer(",".join(said), count=pairs, posts=posts, settings=served.settings())
    bench = open_benchmark(benchmark)
    with Meter(f"{bench.card.name} × {asked.chat.name}") as meter:

        def tell(done: int, of: int) -> None:
            meter.update(Going(done, of, 0, 0, tally_of(asked.chat)))

        done = write_pairs(bench, benchmark, asked, out, limit=limit, tell=tell)
    if told := asked_line([tally_of(asked.chat)]):
        note(told)
    _tell(done, out, asked.chat.name, as_json=as_json)
    if done.open:
        note(f"{done.open:,} users are open ({done.why}); the same command asks again")
        raise typer.Exit(INCOMPLETE)


def _tell(done: "Progress", out: Path, writer: str, *, as_json: bool) -> None:
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

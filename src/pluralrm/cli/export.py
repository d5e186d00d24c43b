"""`pluralrm export`: files that other tools train on."""

import json
from dataclasses import asdict
from pathlib import Path

import typer

from pluralrm.cli.terminal import print_json, print_wrapped
from pluralrm.errors import RunError

app = typer.Typer(no_args_is_help=True, help="Write a file that other tools train on.")


@app.callback()
def _root() -> None:
    """Write a file that other tools train on."""


@app.command("planner")
def planner(
    benchmark: str = typer.Argument(
        ..., metavar="BENCH", help="A benchmark with posts and rubrics: lamp-qa,split=train."
    ),
    out: Path = typer.Option(
        ..., "--out", "-o", metavar="FILE.jsonl", help="One line per item: prompt and completion."
    ),
    condition: str = typer.Option("planner:MODEL,k=10", "--condition", "-c", help="How the planner will be asked."),
    seed: int = typer.Option(0, help="Seed of the condition's draws."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write what a planner is fine-tuned on: posts and question in, the rubric's aspects out. No label is used."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions.notes import planner_rows
    from pluralrm.files import replace_file

    if out.exists():
        raise RunError(f"{out}: is there already; name another file with -o, or remove it")
    bench = open_benchmark(benchmark, seed=seed)
    rows, left = planner_rows(bench, condition)
    replace_file(out, "".join(f"{json.dumps(asdict(row), ensure_ascii=False)}\n" for row in rows))
    counts = {name: len(items) for name, items in left._asdict().items()}
    if as_json:
        print_json({"rows": len(rows), **counts, "file": str(out), "content_hash": bench.content_hash})
        return
    print_wrapped(f"{out}: {len(rows):,} lines from {bench.card.name}, as {condition} asks", style="bold")
    if told := ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count):
        print_wrapped(f"Left out: {told}.", first="  ")

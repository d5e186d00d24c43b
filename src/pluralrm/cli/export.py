"""`pluralrm export`: files for other tools."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

import typer

from pluralrm.cli.compare import TieRule, with_rows
from pluralrm.cli.terminal import clean, note, print_json, print_wrapped
from pluralrm.errors import RunError, SpecError
from pluralrm.text import TextForm, counted

app = typer.Typer(no_args_is_help=True, help="Write files for other tools.")


@app.callback()
def _export() -> None:
    """Write files for other tools."""


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
    if text := ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count):
        print_wrapped(f"Left out: {text}.", first="  ")


# ---------------------------------------------------------------- tables


class TableFile(StrEnum):
    """What --format of a table takes."""

    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"
    PARQUET = "parquet"


_ENDINGS = {".csv": TableFile.CSV, ".md": TableFile.MARKDOWN, ".tex": TableFile.LATEX, ".parquet": TableFile.PARQUET}
_FORMS: dict[TableFile, TextForm] = {
    TableFile.CSV: "csv",
    TableFile.MARKDOWN: "markdown",
    TableFile.LATEX: "latex",
}


@app.command("table")
def table(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    form: TableFile | None = typer.Option(None, "--format", help="Default: by the ending of FILE, or csv."),
    out: Path | None = typer.Option(None, "--out", "-o", metavar="FILE", help="Where to; standard output if left out."),
    by: str = typer.Option("", "--by", metavar="TAG", help="A row for each value of a tag."),
    every: bool = typer.Option(False, "--all", help="A row for each run, with every metric."),
    plural: bool = typer.Option(False, "--plural", help="By user: the worst-served tenth, regret, welfare."),
    ties: TieRule = typer.Option(TieRule.SHARE, "--ties", help="Credit where the preferred answer's score is tied."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    force: bool = typer.Option(False, "--force", help="Replace the file."),
) -> None:
    """Write the table of `compare` as a file: CSV and Parquet with every digit, Markdown and LaTeX for a paper."""
    from pluralrm.cli.diagnostics import PLURAL_SHARES, plural_records
    from pluralrm.cli.overview import View, table_records, table_text
    from pluralrm.files import replace_file, write_parquet
    from pluralrm.metrics import with_ties
    from pluralrm.runs import load_runs
    from pluralrm.text import records_text

    chosen = form or _ENDINGS.get(out.suffix if out else "", TableFile.CSV)
    _check_target(out, chosen, force=force)
    if plural and (by or every):
        raise SpecError("--plural has a row per model; leave out --by and --all")
    runs, view = with_rows(load_runs(paths), by), View(seed=seed, ties=ties.rule)
    users = plural_records([with_ties(run, ties.rule) for run in runs], [], seed) if plural else []
    if out is not None and chosen is TableFile.PARQUET:
        write_parquet(out, users or table_records(runs, view, by, every=every))
    else:
        text = (
            records_text(users, _FORMS[chosen], PLURAL_SHARES)
            if plural
            else table_text(runs, _FORMS[chosen], view, by, every=every)
        )
        if out is None:
            sys.stdout.write(clean(text))
            return
        replace_file(out, text)
    note(f"{out}: {counted(len(runs), 'run')} as {chosen.value}")


def _check_target(out: Path | None, form: TableFile, *, force: bool) -> None:
    """Raise before anything is computed where the table cannot be written."""
    if out is None and form is TableFile.PARQUET:
        raise SpecError("--format parquet is no text; name a file with -o FILE.parquet")
    if out is not None and out.exists() and not force:
        raise RunError(f"{out}: is there already; name another file with -o, or pass --force")

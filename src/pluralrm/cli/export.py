"""`pluralrm export`: files for other tools."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.compare import TieRule, with_rows
from pluralrm.cli.terminal import check_new, clean, note, print_json, print_wrapped, warnings_as_notes
from pluralrm.errors import RunError, SpecError
from pluralrm.text import TextForm, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pluralrm.exchange.card import Yaml
    from pluralrm.exchange.hub import HubBranch, HubRepository, RepositoryKind

app = typer.Typer(no_args_is_help=True)


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

    check_new(out)
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


# ---------------------------------------------------------------- logs and results of other tools

RUNS = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some.")
POSTS = typer.Option(
    False, "--posts", help="Export too what was derived from users' posts: context, transcripts, details of failures."
)


@app.command("inspect")
def inspect_logs(
    runs: list[Path] = RUNS,
    out: Path = typer.Option(..., "--out", "-o", metavar="DIR", help="One .eval log per run."),
    posts: bool = POSTS,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write runs as logs that 'inspect view' opens; 'import inspect' reads them back."""
    from pluralrm.exchange.inspect import write_log

    _exported(runs, posts, lambda folder: [write_log(folder, out, posts=posts)], as_json=as_json)
    note(f"inspect view --log-dir {out}")


class Relation(StrEnum):
    """What who hands results over is to the developer of the model."""

    first_party = "first_party"
    third_party = "third_party"
    collaborative = "collaborative"
    other = "other"


@app.command("evaleval")
def evaleval_files(
    runs: list[Path] = RUNS,
    out: Path = typer.Option(
        ..., "--out", "-o", metavar="DIR", help="data/BENCH/DEVELOPER/MODEL: JSON and JSONL per run."
    ),
    by: str = typer.Option("unknown", "--by", metavar="NAME", help="Your organization."),
    relation: Relation = typer.Option(Relation.other, help="What it is to the developer of the models."),
    posts: bool = POSTS,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write runs in the common schema of evaluation results (EvalEval 0.3), with intervals."""
    from pluralrm.exchange.evaleval import Publisher, write_evaleval

    publisher = Publisher(by, relation.value)
    _exported(runs, posts, lambda folder: list(write_evaleval(folder, out, publisher, posts=posts)), as_json=as_json)


def _exported(runs: "Sequence[Path]", posts: bool, write: "Callable[[Path], list[Path]]", *, as_json: bool) -> None:
    """Write the files of each run, and print which, with how many items failed and whether posts stayed here."""
    from pluralrm.runs import find_runs, load_run

    written = []
    for folder in find_runs(list(runs)):
        run, files = load_run(folder), write(folder)
        withheld = bool(run.reveals) and not posts
        written.append({"run": str(folder), "files": list(map(str, files)), "failed": run.failed, "withheld": withheld})
        if not as_json:
            failed = f", {run.failed:,} failed: errors, no scores" * bool(run.failed)
            typer.echo(f"{files[0]}: {counted(len(run.rows), 'item')}{failed}")
    if as_json:
        print_json(written)
    elif any(entry["withheld"] for entry in written):
        note("Not exported: what was derived from users' posts. With --posts it is; ids of users are there either way")


# ---------------------------------------------------------------- tables


class TableFile(StrEnum):
    """What --format of a table takes."""

    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"
    PARQUET = "parquet"


_ENDINGS = {".csv": TableFile.CSV, ".md": TableFile.MARKDOWN, ".tex": TableFile.LATEX, ".parquet": TableFile.PARQUET}
_FORMS: dict[TableFile, TextForm] = {TableFile.CSV: "csv", TableFile.MARKDOWN: "markdown", TableFile.LATEX: "latex"}


@app.command("table")
def table(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    form: TableFile | None = typer.Option(
        None, "--format", help="The form of the table.", show_default="by the ending of FILE, or csv"
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", metavar="FILE", help="The file to write.", show_default="standard output"
    ),
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
    if out is None and chosen is TableFile.PARQUET:
        raise SpecError("--format parquet is no text; name a file with -o FILE.parquet")
    if out is not None and out.exists() and not force:
        raise RunError(f"{out}: is there already; name another file with -o, or pass --force")
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


# ---------------------------------------------------------------- onto the hub

PUSH = typer.Option(
    "", "--push", metavar="OWNER/NAME", help="Print the change, and commit it to this repository on the hub."
)
PULL_REQUEST = typer.Option(False, "--pr", help="With --push: a pull request.")
DRY_RUN = typer.Option(False, "--dry-run", help="With --push: print the change alone.")
README = "README.md"


class Push(NamedTuple):
    """Where files are pushed, and how."""

    repository: "HubRepository"
    base: "HubBranch"
    title: str
    pull_request: bool
    dry_run: bool

    def files(self, texts: "Mapping[str, str]", *, quiet: bool = False) -> str:
        """Print what changes, make the change, and return its page; '' where there is none to make."""
        changes = self.base.changes(texts)
        for change in () if quiet else changes:
            sys.stdout.write(clean(change.diff))
        if self.dry_run or not changes:
            note("--dry-run: nothing was pushed" if changes else "nothing to push: the repository has these results")
            return ""
        with warnings_as_notes():
            page = self.repository.commit(self.base, changes, self.title, propose=self.pull_request)
        note(f"pushed: {page}")
        return page


def _open_push(
    name: str, kind: "RepositoryKind", paths: "Sequence[str]", title: str, *, pull_request: bool, dry_run: bool
) -> Push | None:
    """Return the repository as it is, once it is said which one, on which host and by whom; None without a name."""
    from pluralrm.exchange.hub import HubRepository

    if not name:
        if pull_request or dry_run:
            raise SpecError(f"{'--pr' if pull_request else '--dry-run'} is of a push: add --push OWNER/NAME")
        return None
    repository = HubRepository(name, kind)
    account = repository.account(required=not dry_run)
    note(f"{repository.target}, as {account}" if account else f"{repository.target}, without a token")
    base = repository.branch(paths, author=account if pull_request else "", title=title)
    return Push(repository, base, title, pull_request, dry_run)


@app.command("results")
def results(
    paths: list[Path] = RUNS,
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="DIR",
        help="Write results.jsonl and README.md here.",
        show_default="rows on standard output",
    ),
    push: str = PUSH,
    pull_request: bool = PULL_REQUEST,
    dry_run: bool = DRY_RUN,
    seed: int = typer.Option(0, help="Seed of the resampling."),
) -> None:
    """Write results as a data set: a line per model, condition and metric, with interval, n and hashes."""
    from pluralrm.exchange.results import DATA, insert_results, left_out, results_text
    from pluralrm.files import replace_file
    from pluralrm.report.sections import read_sources, sections

    if push and out is not None:
        raise SpecError("--push and -o are two targets; name one")
    target = _open_push(
        push, "dataset", [README, DATA], "Results by pluralrm", pull_request=pull_request, dry_run=dry_run
    )
    old = out / README if out is not None and (out / README).exists() else None
    readme = target.base.texts[README] if target else _read_text(old)
    every = sections(read_sources(paths), seed=seed)
    inserted = insert_results(readme, every)
    texts = {README: inserted.text, DATA: results_text(every)}
    for text in left_out(every):
        note(f"left out: {text}")
    if not inserted.indexed:
        note(f"{README} has configs of its own, which stay: name {DATA} there")
    if target:
        target.files(texts)
    elif out is None:
        sys.stdout.write(texts[DATA])
    else:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replace_file(out / name, text)
        note(f"{out}: {counted(texts[DATA].count(chr(10)), 'row')}")


# ---------------------------------------------------------------- model cards

ENTRIES = ".eval_results/pluralrm.yaml"
"""Where a model's repository has the entries that hubs read."""


@app.command("card")
def card(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    model: str = typer.Option(
        "", "--model", "-m", metavar="NAME", help="Whose card.", show_default="the one that is no baseline"
    ),
    into: Path | None = typer.Option(
        None, "--into", metavar="README.md", help="Insert it into this file, between marks; the rest stays as it is."
    ),
    push: str = PUSH,
    pull_request: bool = PULL_REQUEST,
    dry_run: bool = DRY_RUN,
    url: str = typer.Option("", "--url", metavar="URL", help="Where the report or the runs are published."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write a model's results for its README: a section with intervals and hashes, and metadata that hubs read.

    With --into, entries of data sets on the hub are also written to .eval_results/pluralrm.yaml beside the file.
    """
    from pluralrm.exchange.card import eval_results, insert_card, model_card, model_index
    from pluralrm.report.sections import read_sources, sections

    if push and into is not None:
        raise SpecError("--push and --into are two targets; name one")
    title = "Evaluation by pluralrm"
    target = _open_push(push, "model", [README], title, pull_request=pull_request, dry_run=dry_run)
    readme = target.base.texts[README] if target else _read_text(into)
    result = model_card(sections(read_sources(paths), seed=seed), model, url=url)
    entries = eval_results(result)
    inserted = insert_card(readme, result)
    for text in result.left_out:
        note(f"left out: {text}")
    if not inserted.indexed:
        note("a model-index of another origin stays: model pages show that one")
    page = target.files({README: inserted.text}, quiet=as_json) if target else ""
    if target and entries:
        note(f"{ENTRIES} is not pushed: --into a clone of the repository writes it")
    if as_json:
        records = [each.to_json() for each in result.results]
        record = {"results": records, "model-index": model_index(result), "eval_results": entries}
        print_json({**record, "pushed": page} if target else record)
    elif into is None and target is None:
        sys.stdout.write(clean(inserted.text))
    if into is not None:
        _write_card(into, inserted.text, f"{counted(len(result.results), 'result')} of {result.name}", entries)


def _write_card(readme: Path, text: str, what: str, entries: "Sequence[Yaml]") -> None:
    """Write a README with a card, and beside it the entries of results on data sets of the hub."""
    from pluralrm.exchange.card import yaml_text
    from pluralrm.files import replace_file

    replace_file(readme, text)
    note(f"{readme}: {what}")
    if entries:
        target = readme.parent / ENTRIES
        target.parent.mkdir(exist_ok=True)
        replace_file(target, yaml_text(entries))
        note(f"{target}: {counted(len(entries), 'result')} on data sets of the hub")


def _read_text(path: Path | None) -> str:
    """Return the text of a file, its line ends as they are; nothing without one."""
    if path is None:
        return ""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError as exc:
        raise RunError(f"{path}: no such file; without --into the card is printed") from exc
    except UnicodeDecodeError as exc:
        raise RunError(f"{path} is not UTF-8 ({exc.reason} at byte {exc.start:,}); save it as UTF-8") from exc

"""`pluralrm import` and `align`: other people's numbers.

Published scores and verdicts become runs, published leaderboards become tables; a model's rewards are compared with
human ratings over a file.
"""

from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import typer

from pluralrm.cli.compare import print_answers, print_boards
from pluralrm.cli.options import (
    ACCESS,
    SERVED,
    ModelAccess,
    ServerOptions,
    complete_model,
    with_access,
    with_server_options,
)
from pluralrm.cli.overview import View, note_more
from pluralrm.cli.terminal import Kind, check_new, console, note, print_json, print_wrapped, table
from pluralrm.errors import SpecError
from pluralrm.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pluralrm.core import Run
    from pluralrm.exchange.items import RunHeader
    from pluralrm.runs.formats import FileFormat


LEADERBOARD = "leaderboard"
INSPECT, EVALEVAL = "inspect", "evaleval"
FORMATS = "scores, choices, rewardbench2, rewardmath, judgebench, listwise, personal-rb, answers, inspect or evaleval"


def import_(
    form: str = typer.Argument(..., metavar="FORMAT", help=f"{FORMATS}; or {LEADERBOARD}."),
    files: list[Path] = typer.Argument(..., metavar="FILE", help="One file, or the parts of one."),
    benchmark: str = typer.Option("", "--benchmark", "-b", metavar="BENCH", help="What was scored."),
    name: str = typer.Option(
        "", "--model", "-m", metavar="NAME", help="What the model is called.", show_default="the file's name"
    ),
    condition: str = typer.Option(
        "",
        "--condition",
        "-c",
        help="What the model saw, as you declare it, or file:NAME.",
        show_default="none, or as the log of an exported run says",
    ),
    partial: bool = typer.Option(False, "--partial", help="Items may be missing; every number says so."),
    steps: str = typer.Option("", metavar="product|min|mean", help="How the scores of an answer's steps become one."),
    who: str = typer.Option("", metavar="TEXT", help="Who scored it."),
    url: str = typer.Option("", metavar="URL", help="Where it was published."),
    commit: str = typer.Option("", metavar="HASH", help="Which version of it."),
    out: Path = typer.Option(Path("runs"), "--out", "-o", help="Folder of the runs, or a leaderboard's CSV file."),
    seed: int = typer.Option(0, help="Seed of the order of candidates."),
    fresh: bool = typer.Option(False, "--fresh", help="Replace an earlier import."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make runs of scores and verdicts that others published; what does not fit the benchmark is refused."""
    if form == LEADERBOARD:
        _leaderboard(files, out, as_json=as_json)
        return
    from pluralrm.cli.options import open_benchmark
    from pluralrm.runs.imported import ImportOptions, import_runs

    if not benchmark:
        raise SpecError(f"-b: which benchmark do the rows of {files[0]} belong to? Wanted -b BENCH")
    logs = _log_format(form)
    bench = open_benchmark(benchmark, seed=seed)
    options = ImportOptions(name, who, url, commit, condition or "none", partial, steps)
    if logs is None:
        runs = import_runs(form, files, bench, options, out=out, fresh=fresh)
    else:  # each file is a run of its own, and says what it is
        runs = []
        instances = {file.with_name(f"{file.stem}_samples.jsonl") for file in files if file.suffix == ".json"}
        for file in (file for file in files if file not in instances):  # an aggregate names its instances
            header = logs.read_header(file)
            own = replace(
                options,
                name=name or header.model,
                condition=condition or header.condition or "none",
                trained=header.trained,
                reveals=header.reveals,
            )
            formats = {form: logs.FORMAT}
            runs += import_runs(form, [file], bench, own, out=out, fresh=fresh, formats=formats)
    _print(runs, out, as_json=as_json)


class LogFormat(Protocol):
    """A module of `pluralrm.exchange`."""

    FORMAT: "FileFormat"

    def read_header(self, file: Path) -> "RunHeader":
        """Return what a file says of its run."""
        ...


def _log_format(form: str) -> LogFormat | None:
    """Return the module that reads logs of other tools; None for the formats of published scores."""
    if form not in {INSPECT, EVALEVAL}:
        return None
    return cast("LogFormat", import_module(f"pluralrm.exchange.{form}"))


def _print(runs: "Sequence[Run]", out: Path, *, as_json: bool) -> None:
    from pluralrm.runs import load_manifest

    if as_json:
        print_boards(runs, as_json=True)
        return
    for run in runs:
        source = load_manifest(run.path).source
        if source is not None and source.ignored:
            note(f"{run.name}: unknown columns ignored: {', '.join(source.ignored)}")
        print_wrapped(f"{run.path}: {counted(len(run.rows), 'item')} of {run.benchmark}, {run.imported}")
    print_answers(runs, View(quiet=True))
    note_more([out])


def _leaderboard(files: "Sequence[Path]", out: Path, *, as_json: bool) -> None:
    from pluralrm.exchange.evaleval import csv_of, missing, read_leaderboard
    from pluralrm.files import replace_file

    target = Path(f"{LEADERBOARD}.csv") if out == Path("runs") else out
    check_new(target)
    table = read_leaderboard(files)
    replace_file(target, csv_of(table))
    lines = [*missing(table), *table.notes]
    if as_json:
        print_json({"file": str(target), "models": len(table.models), "columns": table.columns, "notes": lines})
        return
    print_wrapped(
        f"{target}: {counted(len(table.models), 'model')}, {counted(len(table.columns), 'column')}", style="bold"
    )
    for line in (", ".join(table.columns), *lines):
        print_wrapped(line, first="  ", indent="    ")
    note(f"pluralrm correlate --csv {target} --benchmark COL --downstream COL")


class RewardMapping(StrEnum):
    """How a reward becomes a number in [0, 1]."""

    identity = "identity"
    cosine = "cosine"
    logistic = "logistic"


@with_server_options
@with_access
def align(
    file: Path = typer.Argument(
        ..., help="JSONL rows: output, profile, human_score in [0, 1]; optional: prompt, user."
    ),
    model: str = typer.Option(..., "--model", "-m", help="A reward model.", autocompletion=complete_model),
    mapping: RewardMapping | None = typer.Option(
        None, help="How a reward becomes a number in [0, 1].", show_default="from the model's range"
    ),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    access: ModelAccess = ACCESS,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare a model's rewards with human ratings: mean alignment = 1 - |predicted - human|, and correlations."""
    from pluralrm.align import align as align_file
    from pluralrm.models import load_model

    [model], _ = access.specs([model])
    settings = served.settings()
    served.check([load_model(model, settings=settings)])
    report = align_file(file, model, mapping=mapping.value if mapping else None, seed=seed, settings=settings)
    if as_json:
        print_json(report.to_json())
        return
    rows = []
    for name in ("alignment", "pearson", "spearman"):
        estimate = getattr(report, name)
        if estimate is None:
            rows.append((name, "none", "all predictions or ratings equal, or one user", "", ""))
            continue
        interval = "" if estimate.low is None else f"[{estimate.low:.3f}, {estimate.high:.3f}]"
        rows.append((name, f"{estimate.value:.3f}", interval, str(estimate.n), str(estimate.failed)))
    columns: list[tuple[str, Kind]] = [("", "left"), ("value", "right"), ("95% interval", "text")]
    console().print(table([*columns, ("n", "right"), ("failed", "right")], rows))
    console().print()
    print_wrapped(f"model {report.model}, mapped by {report.mapping}", indent="  ")
    correlations = [estimate.method for estimate in (report.pearson, report.spearman) if estimate]
    methods = dict.fromkeys([report.alignment.method, *correlations])
    print_wrapped(f"intervals: {'; '.join(methods)}", indent="  ")

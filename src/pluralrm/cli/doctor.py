"""`pluralrm doctor`, `check` and `gate`: can a model's scores be trusted?

What does a local neural model really read; does somebody's own reward model, or benchmark, keep the promises; does the
harness reproduce what somebody published of the same model?
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.options import (
    ACCESS,
    CONDITION,
    SERVED,
    TRUST,
    ModelAccess,
    ServerOptions,
    complete_model,
    open_benchmark,
    with_access,
    with_server_options,
    with_trust,
)
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.score import GridOptions, check_open, end, score_cells
from pluralrm.cli.terminal import Kind, console, note, percent, print_json, print_legend, print_wrapped, table
from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pluralrm.core import Benchmark, Estimate, RewardModel, Row, Run
    from pluralrm.doctor import Colour, Examination, GateCard, Sign
    from pluralrm.doctor.tokens import TokenView
    from pluralrm.testing import Finding


_COLOURS: "Mapping[str, Colour]" = {"pass": "green", "warn": "yellow", "fail": "red"}
_ENDS, _AROUND = 4, 3
"""Tokens that are shown at the ends of a conversation, and at each side of where its answer starts and ends."""
_INDENT = " " * 10


def doctor(
    model: str = typer.Argument(..., metavar="MODEL", help="For example hf:FOLDER; see 'pluralrm list models'."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the model sees."),
    benchmark: str = typer.Option("pocket-prb", "--benchmark", metavar="BENCH", help="Where the queries come from."),
    item: str = typer.Option(
        "", "--item", "-i", metavar="ID", help="The item whose tokens are shown.", show_default="the first"
    ),
    limit: int = typer.Option(100, min=1, help="Items that a dtype is compared with float32 on."),
    trust: list[str] = TRUST,
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with all token ids."),
) -> None:
    """Show what a neural model really reads, and whether its scores depend on what they should. Exit 1 on any red."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.doctor import examine, is_neural
    from pluralrm.models import load_model

    [name] = with_trust([model], trust)
    loaded, bench, context = load_model(name), open_benchmark(benchmark), load_condition(condition)
    with ProgressDisplay(f"doctor: checking {name}"):
        if is_neural(loaded):
            result = examine(loaded, bench, context, item=item, limit=limit)
        else:
            result = _promises(loaded, bench)
    if as_json:
        print_json(result.to_json())
    else:
        _print(result)
    if result.red:
        raise typer.Exit(1)


def _promises(model: "RewardModel", benchmark: "Benchmark") -> "Examination":
    """Return what applies to any reward model, and how much of the benchmark's texts a model of embeddings reads."""
    from pluralrm.doctor import Examination, Sign
    from pluralrm.models.declarations import Reads
    from pluralrm.testing import reward_model_findings

    note(f"{model.spec} is no folder of weights: its promises are checked, nothing else can be looked into")
    findings = reward_model_findings(model)
    signs = [Sign(finding.check, _COLOURS[finding.status], finding.detail, "") for finding in findings]
    if isinstance(model, Reads):
        reading = model.reading(benchmark)
        colour: Colour = "red" if reading.longer and reading.cut else "green"
        why = "what an answer says behind the cut has no part in its score" if colour == "red" else "nothing is cut"
        signs.append(Sign("length", colour, f"on {benchmark.card.name} {reading}", why))
    return Examination(model.spec, tuple(signs))


def _print(result: "Examination") -> None:
    print_wrapped(result.model, style="bold")
    if result.sample:
        _print_sample(result)
    for sign in result.signs:
        _print_sign(sign)
    counts = Counter(sign.colour for sign in result.signs)
    ends = ", ".join(f"{counts[colour]} {colour}" for colour in ("green", "yellow", "red"))
    reds = ", ".join(sign.name for sign in result.signs if sign.colour == "red")
    print_wrapped(f"{ends}{': ' * bool(reds)}{reds}", style="bold")


def _print_sample(result: "Examination") -> None:
    from pluralrm.core import Failure

    title = f"{result.benchmark} under {result.condition}, item {result.item!r}"
    for number, view in enumerate(result.sample, 1):
        if not isinstance(view, Failure):
            print_wrapped(f"{title}, conversation {number} of {len(result.sample)}: {len(view.ids)} tokens")
            print_wrapped(" ".join(_tokens(view)), first="  ", indent="  ", style="dim")
            return
    print_wrapped(f"{title}: no conversation can be asked about")


def _tokens(view: "TokenView") -> Iterator[str]:
    """Yield ids with their pieces, the answer in brackets; what is far from all ends is counted."""
    marks = (0, view.start, view.end, len(view.ids))
    positions = [
        position
        for position in range(len(view.ids))
        if any(
            -reach <= position - mark < reach
            for mark, reach in zip(marks, (_ENDS, _AROUND, _AROUND, _ENDS), strict=True)
        )
    ]
    before = -1
    for position in positions:
        if position > before + 1:
            yield f"… {position - before - 1} more …"
        opens, closes = "[ " * (position == view.start < view.end), " ]" * (position == view.end - 1 >= view.start)
        yield f"{opens}{view.ids[position]} {view.pieces[position]!r}{closes}"
        before = position


def _print_sign(sign: "Sign") -> None:
    head = f"{sign.name}: {sign.found}" if sign.found else sign.name
    print_wrapped(head, first=f"{sign.colour:<8}", indent=_INDENT, style=sign.colour)
    if sign.reason:
        print_wrapped(sign.reason, first=_INDENT, indent=_INDENT, style="dim")
    if sign.remedy:
        print_wrapped(f"→ {sign.remedy}", first=_INDENT, indent=f"{_INDENT}  ")


@with_server_options
@with_access
def check(
    name: str = typer.Argument(
        ..., metavar="MODEL", help="For example python:my_module:MyModel.", autocompletion=complete_model
    ),
    benchmark: bool = typer.Option(False, "--benchmark", help="Check a benchmark instead of a model."),
    fix: Path | None = typer.Option(
        None, metavar="OUT", help="With --benchmark FILE: write a cleaned copy of the file, and check that."
    ),
    access: ModelAccess = ACCESS,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check the contract of a reward model (types, order, batching) or of a benchmark. Exit 1 on a failure."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.testing import benchmark_findings

    if fix is not None and not benchmark:
        raise SpecError("--fix cleans a benchmark's file: add --benchmark")

    names = [] if benchmark else [name]
    models, _ = access.specs(names)
    findings = [finding for model in models for finding in _model_findings(model, served)]
    if benchmark:
        served.check([])
        findings = benchmark_findings(open_benchmark(name) if fix is None else _mended(name, fix))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        rows = [(finding.check, finding.status, finding.detail) for finding in findings]
        console().print(table([("check", "left"), ("result", "left"), ("found", "text")], rows))
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)


def _mended(name: str, out: Path) -> "Benchmark":
    """Write the mended file, say what was done, and return what it holds."""
    from pluralrm.benchmarks.dirt import mend

    result = mend(name, out)
    written = ", ".join(str(file) for file in result.files)
    note(f"{written}: {str(result.done) or 'nothing to fix'}")
    if left := str(result.benchmark.card.load):
        note(f"still so: {left}")
    return result.benchmark


def _model_findings(name: str, served: ServerOptions) -> "list[Finding]":
    from pluralrm.models import load_model
    from pluralrm.testing import reward_model_findings

    model = load_model(name, settings=served.settings())
    served.check([model])
    return reward_model_findings(model)


@with_server_options
@with_access
def gate(
    model: str = typer.Argument(..., metavar="MODEL", help="A reward model, as 'score -m' takes it."),
    against: Path = typer.Option(..., metavar="FILE", help="The same model's published file, or imported run."),
    form: str = typer.Option("scores", "--format", metavar="FORMAT", help="Of the file, as 'import' takes it."),
    benchmark: str = typer.Option(
        "", "--benchmark", "-b", metavar="BENCH", help="What was scored.", show_default="the imported run's"
    ),
    name: str = typer.Option("", "--of", metavar="NAME", help="Which of a file's models."),
    steps: str = typer.Option("", metavar="product|min|mean", help="How the scores of an answer's steps become one."),
    condition: str = CONDITION,
    out: Path = typer.Option(Path("runs"), "--out", "-o", help="Folder of the runs; the same command resumes."),
    seed: int = typer.Option(0, help="Seed of the order of candidates."),
    access: ModelAccess = ACCESS,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score MODEL and compare its decisions with published ones of the same model. Exit 1 on red.

    The card is kept with the run; compare and report show its line.
    """
    from pluralrm.doctor import gate as compared
    from pluralrm.doctor import keep

    bench = _benchmark(benchmark, against, seed)
    published = _published(bench, against, form, name=name, steps=steps)
    run = _scored_run(model, bench, condition, out, access=access, served=served)
    card = compared(run, published.rows, published.label, seed=seed)
    keep(run, card, published.sha256)
    if as_json:
        print_json({"run": run.path, **card.to_json()})
    else:
        _print_gate(card)
        note(f"kept with the run: {run.path}/gate.json")
    if card.colour == "red":
        raise typer.Exit(1)


class _Published(NamedTuple):
    """The rows of somebody else's run, what they are called, and the hashes of the files."""

    rows: "Sequence[Row]"
    label: str
    sha256: "Sequence[str]"


def _benchmark(name: str, against: Path, seed: int) -> "Benchmark":
    from pluralrm.runs.records import RUN

    if name:
        return open_benchmark(name, seed=seed)
    if not RUN.holds(against):
        raise SpecError(f"-b: which benchmark do the rows of {against} belong to? Wanted -b BENCH")
    origin = RUN.read(against).benchmark
    return open_benchmark(origin.spec or origin.card.name, seed=origin.seed)


def _published(bench: "Benchmark", against: Path, form: str, *, name: str, steps: str) -> _Published:
    from pluralrm.doctor import published_rows
    from pluralrm.folders import file_hash
    from pluralrm.runs import load_run
    from pluralrm.runs.imported import read_verdicts
    from pluralrm.runs.records import RUN

    if RUN.holds(against):
        run, source = load_run(against), RUN.read(against).source
        if run.benchmark_hash != bench.content_hash:
            raise SpecError(f"{against} is on other content than {bench.card.name}; leave -b and --seed out")
        files = source.files if source else ()
        return _Published(run.rows, run.name or run.model, [file.sha256 for file in files])
    parts = read_verdicts(form, [against], bench, steps=steps, partial=True)
    return _Published(published_rows(str(against), parts, bench, name), against.name, [file_hash(against)])


def _scored_run(
    model: str, bench: "Benchmark", condition: str, out: Path, *, access: ModelAccess, served: ServerOptions
) -> "Run":
    """Return the run of the model, resuming what is on disk; exit as `score` does where it stays open or breaks."""
    from pluralrm.models import load_model
    from pluralrm.runs import plan

    models, conditions = access.specs([model], [condition])
    settings = served.settings()
    loaded = [load_model(spec, settings=settings) for spec in models]
    cells = plan([bench], models, conditions, settings=settings)
    served.check([*loaded, *(cell.condition for cell in cells)])
    check_open(cells)
    scored = score_cells(cells, GridOptions(out, [], None, 1, [], "", False, settings, {}))
    end(scored)
    return scored.runs[0]


_SHARES = {"equal": "equal decisions", "near": "flips near the margin", "far": "flips away from the margin"}
_OTHERS = {"ranks": "rank correlation of scores", "drift": "change of scores, raw"}


def _print_gate(card: "GateCard") -> None:
    print_wrapped(str(card), style=f"bold {card.colour}")
    rows = [
        (title, percent(card.estimates[key]), f"{card.estimates[key].n:,}")
        for key, title in _SHARES.items()
        if key in card.estimates
    ]
    rows += [
        (title, _number(card.estimates[key]), f"{card.estimates[key].n:,}")
        for key, title in _OTHERS.items()
        if key in card.estimates
    ]
    columns: list[tuple[str, Kind]] = [("", "left"), ("[95%]", "left"), ("n", "right")]
    console().print(table(columns, rows))
    print_legend([f"{title}: {card.estimates[key].method}." for key, title in _OTHERS.items() if key in card.estimates])


def _number(estimate: "Estimate") -> str:
    ends = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.4g}, {estimate.high:.4g}]"
    return f"{estimate.value:.4g}{ends}"

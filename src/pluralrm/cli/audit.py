"""`pluralrm audit`: is a benchmark itself sound?"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import BENCH, SERVED, ServerOptions, with_server_options
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, asked_line, interruptible
from pluralrm.cli.terminal import Kind, check_place, console, note, print_json, print_wrapped, table, write_page

if TYPE_CHECKING:
    from pluralrm.audit import Appraisal, Audit
    from pluralrm.audit.embedder import Embedder
    from pluralrm.core import Benchmark, Run

_STYLES = {"leak": "red", "shortcut": "yellow", "warn": "red", "note": "yellow"}


@with_server_options
def audit(
    benchmark: str = BENCH,
    against: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Human prompts to compare the style with: lines of text, rows, HH-RLHF or UltraFeedback.",
    ),
    judge: str = typer.Option(
        "",
        metavar="MODEL",
        help="Also guess by this model. A judge also rates answers alone, and names aspects that anyone would expect.",
    ),
    runs: Path = typer.Option(Path("runs"), metavar="DIR", help="Folder of the judge's run; the same command resumes."),
    embed: str = typer.Option(
        "", metavar="MODEL", help="embed:MODEL or letters: similarity of rewrites to their prompt (RMGAP)."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", metavar="FILE.html", help="Also write a page."),
    seed: int = typer.Option(0, help="Seed of the folds, the relabelling and the order of candidates."),
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Test whether labels can be guessed without the user, and report other flaws. Exit 1 on a leak, 3 on an outage."""
    from pluralrm.audit import audit as audit_benchmark
    from pluralrm.audit import audit_page, read_prompts
    from pluralrm.cli.options import open_benchmark

    if out is not None:
        check_place(out)
    prompts = read_prompts(against) if against else None
    bench = open_benchmark(benchmark, seed=seed)
    judged = _judged(bench, judge, runs, served)
    appraisal = _appraisal(bench, judge, runs, served)
    found = audit_benchmark(
        bench, seed=seed, against=prompts, judge=judged, appraisal=appraisal, embedder=_embedder(embed, served)
    )
    if out is not None:
        write_page(out, audit_page(found))
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    if judged is not None and not judged.complete:
        note(f"incomplete: {judged.path}; the same command asks for the rest")
        raise typer.Exit(INCOMPLETE)
    if appraisal is not None and not appraisal.complete:
        note("the judge left questions about ratings and rubrics open; the same command retries them")
        raise typer.Exit(INCOMPLETE)
    if found.leaks:
        raise typer.Exit(1)


def _embedder(text: str, served: ServerOptions) -> "Embedder | None":
    from pluralrm.audit.embedder import open_embedder

    if not text:
        return None
    embedder = open_embedder(text, cache=served.cache, settings=served.settings())
    served.check([embedder])
    return embedder


def _appraisal(benchmark: "Benchmark", judge: str, runs: Path, served: ServerOptions) -> "Appraisal | None":
    """Return what a judge says of answers and rubrics in general; None where no judge is named."""
    from pluralrm.audit import Appraisal, aspect_kinds
    from pluralrm.audit.rubrics import TEMPLATE, rubrics
    from pluralrm.models.judge import open_judge, rating_spec
    from pluralrm.templates import load_template

    spec = rating_spec(judge)
    if spec is None:
        return None
    model = open_judge(spec, settings=served.settings())
    ratings = _judged(benchmark, str(spec), runs, served)
    if not rubrics(benchmark).items:
        return Appraisal(model.role.chat.name, None, ratings)
    if not model.role.chat.sees_posts:
        note("rubrics hold what users wrote, and were not sent to the judge: send=posts in its spec allows it")
        return Appraisal(model.role.chat.name, None, ratings)
    kinds = aspect_kinds(benchmark, replace(model.role, template=load_template(TEMPLATE)))
    if told := asked_line([model.tally]):
        note(told)
    return Appraisal(model.role.chat.name, kinds, ratings)


def _judged(benchmark: "Benchmark", judge: str, runs: Path, served: ServerOptions) -> "Run | None":
    """Return the judge's run without the user, scored or resumed; None where no judge is named."""
    from pluralrm.models import load_model
    from pluralrm.runs import score

    settings = served.settings()
    served.check([load_model(judge, settings=settings)] if judge else [])
    if not judge:
        return None
    meter = ProgressDisplay(f"{benchmark.card.name} × {judge} × none")
    with interruptible("the judge's verdicts are kept"), meter:
        run = score(benchmark, judge, "none", out=runs, settings=settings, progress=meter.update)
    if told := asked_line([meter.asked]):
        note(told)
    return run


def _print(found: "Audit") -> None:
    from pluralrm.audit import counts

    print_wrapped(f"{found.benchmark}: {counts(found)}", style="bold")
    _paragraph(found.verdict, "red" if found.leaks else "")
    _paragraph(found.limits)
    _print_probes(found)
    _print_findings(found)


def _print_probes(found: "Audit") -> None:
    from pluralrm.audit import found_from, reading
    from pluralrm.text import estimated

    console().print("\nCan the label be guessed without the user?", style="bold")
    rows = [
        (
            probe.title,
            estimated(probe.accuracy),
            "–" if probe.adjusted_p is None else f"{probe.adjusted_p:.3f}",
            found_from(probe),
            probe.verdict,
        )
        for probe in found.probes
    ]
    columns: list[tuple[str, Kind]] = [("guess by", "name"), ("right in % [95%]", "left"), ("p", "right")]
    console().print(table([*columns, ("found from", "right"), ("verdict", "left")], rows))
    for probe in found.probes:
        if probe.detail and probe.verdict in {"leak", "shortcut"}:
            _paragraph(f"{probe.name} ({probe.reads}): {probe.detail}", _STYLES[probe.verdict])
    _paragraph(reading(found), "dim")


def _print_findings(found: "Audit") -> None:
    console().print("\nOther findings", style="bold")
    for finding in found.findings:
        _paragraph(f"{finding.status}: {finding.topic}: {finding.found}", _STYLES.get(finding.status, ""))


def _paragraph(text: str, style: str = "") -> None:
    print_wrapped(text, indent="  ", style=style)

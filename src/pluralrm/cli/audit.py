"""`pluralrm audit`: is a benchmark itself sound? `pluralrm share`: how much of its preferences is personal?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import (
    BENCH,
    FORMAT,
    SERVED,
    TEXT_FORMS,
    ServerOptions,
    TableFormat,
    complete_benchmark,
    open_benchmark,
    output_format,
    print_records,
    with_server_options,
)
from pluralrm.cli.progress import INCOMPLETE, ProgressDisplay, interruptible, note_asked
from pluralrm.cli.terminal import (
    Kind,
    check_place,
    console,
    note,
    print_json,
    print_legend,
    print_wrapped,
    table,
    write_page,
)
from pluralrm.errors import SpecError
from pluralrm.text import counted, estimated, listed

if TYPE_CHECKING:
    from pluralrm.audit import Appraisal, Audit
    from pluralrm.audit.embedder import Embedder
    from pluralrm.audit.gallery import GalleryEntry, GalleryRow
    from pluralrm.core import Benchmark, Estimate, Run
    from pluralrm.metrics.shares import Shares


_STYLES = {"leak": "red", "not personal": "red", "shortcut": "yellow", "warn": "red", "note": "yellow"}
AUDITED = typer.Argument(
    "", metavar="BENCH", help="A name or a path; see 'pluralrm list benchmarks'.", autocompletion=complete_benchmark
)


@with_server_options
def audit(
    benchmark: str = AUDITED,
    gallery: Path | None = typer.Option(
        None, metavar="FILE.toml", help="Audit every benchmark of this file, and print one table: a row for each."
    ),
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
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Test whether labels can be guessed without the user, and report other flaws. Exit 1 on a leak, 3 on an outage."""
    from pluralrm.audit import audit as audit_benchmark
    from pluralrm.audit import audit_page, read_prompts
    from pluralrm.cli.options import open_benchmark

    form = output_format(form, as_json=as_json)
    if out is not None:
        check_place(out)
    if gallery is not None:
        options = {"BENCH": benchmark, "--against": against, "--judge": judge, "--embed": embed}
        if beside := [name for name, value in options.items() if value]:
            raise SpecError(f"--gallery and {beside[0]}: wanted one of them; a judge stands in the file (judge = ...)")
        _gallery(gallery, runs, out, seed, served, form)
        return
    if not benchmark:
        raise SpecError("found no benchmark, wanted BENCH or --gallery FILE.toml")
    prompts = read_prompts(against) if against else None
    bench = open_benchmark(benchmark, seed=seed)
    judged = _judged(bench, judge, runs, served)
    appraisal = _appraisal(bench, judge, runs, served)
    embedder = _embedder(embed, served)
    with ProgressDisplay(f"audit {benchmark}: guessing labels without the user"):
        result = audit_benchmark(
            bench, seed=seed, against=prompts, judge=judged, appraisal=appraisal, embedder=embedder
        )
    if out is not None:
        write_page(out, audit_page(result))
    _print_as(result, form)
    _exit(result, judged, appraisal)


def _exit(result: "Audit", judged: "Run | None", appraisal: "Appraisal | None") -> None:
    """End with 3 where an outage left something open, with 1 on a leak."""
    if judged is not None and not judged.complete:
        note(f"incomplete: {judged.path}; the same command asks for the rest")
        raise typer.Exit(INCOMPLETE)
    if appraisal is not None and not appraisal.complete:
        note("the judge left questions about ratings and rubrics open; the same command retries them")
        raise typer.Exit(INCOMPLETE)
    if result.leaks:
        raise typer.Exit(1)


def _gallery(file: Path, runs: Path, out: Path | None, seed: int, served: ServerOptions, form: TableFormat) -> None:
    from pluralrm.audit.gallery import gallery, gallery_page, read_gallery
    from pluralrm.cli.options import open_benchmark

    title, entries = read_gallery(file)
    entries = [entry._replace(seed=entry.seed or seed) for entry in entries]

    def opens(entry: "GalleryEntry") -> "Benchmark":
        note(f"audit {entries.index(entry) + 1} of {len(entries)}: {entry.name}")
        return open_benchmark(entry.spec, seed=entry.seed)

    def judges(entry: "GalleryEntry", benchmark: "Benchmark") -> "Run | None":
        return _judged(benchmark, entry.judge, runs, served)

    folder = None if out is None else out.with_name(f"{out.stem}-audits")
    with interruptible("the audits that are complete are kept"):
        rows = gallery(entries, opens, judges, folder=folder)
    if out is not None:
        write_page(out, gallery_page(title, rows))
    if form is TableFormat.JSON:
        print_json({"title": title, "benchmarks": [row.record() for row in rows]})
    elif form is TableFormat.CSV:
        print_records([row.record() for row in rows], form)
    elif form in TEXT_FORMS:
        print_records([row.paper_record() for row in rows], form)
    else:
        _print_gallery(title, rows)
    if any(row.incomplete for row in rows):
        note("incomplete: the same command asks for the rest")
        raise typer.Exit(INCOMPLETE)
    if any(row.audit is not None and row.audit.leaks for row in rows):
        raise typer.Exit(1)
    if any(row.audit is None for row in rows):
        raise typer.Exit(2)


def _print_gallery(title: str, rows: "Sequence[GalleryRow]") -> None:
    from pluralrm.audit.gallery import error_rates, gallery_verdict

    print_wrapped(title, style="bold")
    _paragraph(gallery_verdict(rows), "red" if any(row.flaws for row in rows) else "")
    lines = [(row.entry.name, f"{row.audit.items:,}" if row.audit else "–", "\n".join(row.lines)) for row in rows]
    red = [number for number, row in enumerate(rows) if row.flaws]
    console().print(
        table([("benchmark", "name"), ("items", "right"), ("points beyond chance", "text")], lines, red=red)
    )
    _paragraph(error_rates(rows), "dim")


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
    note_asked([model.tally])
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
    note_asked([meter.asked])
    return run


def _print_as(result: "Audit", form: TableFormat) -> None:
    if form is TableFormat.JSON:
        print_json(result.to_json())
    elif form in TEXT_FORMS:
        print_records(result.records(), form, ("accuracy", "detectable"))
    else:
        _print(result)


def _print(result: "Audit") -> None:
    from pluralrm.audit import counts

    print_wrapped(f"{result.benchmark}: {counts(result)}", style="bold")
    _paragraph(result.verdict, "red" if result.leaks else "")
    _paragraph(result.limits)
    _print_probes(result)
    console().print("\nOther findings", style="bold")
    for finding in result.findings:
        _paragraph(f"{finding.status}: {finding.topic}: {finding.found}", _STYLES.get(finding.status, ""))


def _print_probes(result: "Audit") -> None:
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
        for probe in result.probes
    ]
    columns: list[tuple[str, Kind]] = [("guess by", "name"), ("right in % [95%]", "left"), ("p", "right")]
    console().print(table([*columns, ("found from", "right"), ("verdict", "left")], rows))
    for probe in result.probes:
        if probe.detail and (probe.flaw or probe.compares):
            _paragraph(f"{probe.name} ({probe.reads}): {probe.detail}", _STYLES.get(probe.verdict, ""))
    _paragraph(reading(result), "dim")


def _paragraph(text: str, style: str = "") -> None:
    print_wrapped(text, indent="  ", style=style)


def share(
    benchmark: str = BENCH,
    traits: list[str] = typer.Option(
        [], "--trait", metavar="NAME", help="People are one group who have this trait alike; repeat: all of them."
    ),
    seed: int = typer.Option(0, help="Seed of the order of candidates."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """How much is there to win by knowing the person? For benchmarks whose items several people judged.

    Shares of the preferences that are everybody's, a group's, a person's own or noise, and floors without a model.
    """
    from pluralrm.conditions.posts import showing
    from pluralrm.metrics.floors import ladder
    from pluralrm.metrics.shares import crossed_judgments, shares

    form = output_format(form, as_json=as_json)
    bench = open_benchmark(benchmark, seed=seed)
    with ProgressDisplay(f"share {benchmark}: comparing judgments"):
        judged = crossed_judgments(bench, traits)
        result, floors = shares(judged), ladder(judged)
    if form is TableFormat.JSON:
        print_json(result.to_json() | {"floors": {name: floor.to_json() for name, floor in floors.items()}})
    elif form in TEXT_FORMS:
        rows = [{"number": name, **floor.to_json()} for name, floor in floors.items()]
        print_records([*result.records(), *rows], form, ["value", "low", "high"])
    else:
        _print_shares(result, floors)
        if contexts := showing(bench):
            words = "next: score a model with the user and without; compare says what it wins of this"
            print_wrapped(words, style="bold")
            console().print(f"pluralrm score {quote(benchmark)} -m MODEL -c {contexts[0]} -c none", soft_wrap=True)


def _print_shares(result: "Shares", floors: "dict[str, Estimate]") -> None:
    print_wrapped(f"{result.benchmark}: {result.answer}", style="bold")
    repeated = f"{result.repeated:,} of them by people who judged twice" if result.repeated else "none repeated"
    alone = f"; {counted(result.alone, 'other')} by one person alone" * bool(result.alone)
    people = f"{counted(result.panels, 'set')} of candidates by {result.people:,} people"
    print_wrapped(f"{counted(result.judgments, 'judgment')} of {people}, {repeated}{alone}.")
    console().print()
    shares: list[tuple[str, Kind]] = [("whose preferences", "name"), ("share in % [95%]", "left")]
    console().print(table(shares, list(_share_rows(result))))
    console().print()
    if rows := [(trait, estimated(each)) for trait, each in result.by_trait.items() if (trait,) != result.traits]:
        by_trait: list[tuple[str, Kind]] = [("in common by trait", "name"), ("share in % [95%]", "left")]
        console().print(table(by_trait, rows))
        console().print()
    columns: list[tuple[str, Kind]] = [("what predicts a judgment", "name"), ("right in % [95%]", "left")]
    most = {"any scorer, at most": result.ceiling} if result.ceiling is not None else {}
    ladder = [(name, estimated(floor), f"{floor.n:,}") for name, floor in {**floors, **most}.items()]
    console().print(table([*columns, ("judgments", "right")], ladder))
    print_legend(list(_share_legend(result)))


def _share_rows(result: "Shares") -> Iterator[tuple[str, str]]:
    group = f"the group's ({listed(result.traits)})"
    shares = {
        "everybody's": result.consensus,
        group: result.group,
        "the person's own": result.person,
        "noise": result.noise,
        "the person's own, or noise": result.rest,
    }
    yield from ((name, estimated(share)) for name, share in shares.items() if share is not None)


def _share_legend(result: "Shares") -> Iterator[str]:
    yield f"interval: {result.consensus.method}. Shares are unbiased: intervals may leave 0 to 100."
    if result.by_trait:
        hint = "" if result.traits else "; --trait adds the group's share and floors"
        yield f"in common by trait: beyond what is everybody's; intervals hold for all traits at once{hint}."
    yield "floors: each predicts a judgment from others; neighbours agreed with this person on other candidates."
    if result.ceiling is not None:
        yield "at most: by how often people agree with themselves; the low end is that agreement."
    else:
        yield "No person judged the same candidates twice: what is a person's own and what is noise stays one share."

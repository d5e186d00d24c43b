"""`pluralrm stand-in`: may a judge stand in for a person? The same behind `annotate agreement --judge`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.annotate_agreement import JUDGMENTS, declared_scale, labels_in
from pluralrm.cli.options import FORMAT, TEXT_FORMS, TableFormat, output_format, print_records
from pluralrm.cli.terminal import Kind, console, note, print_json, print_legend, print_wrapped, table
from pluralrm.errors import PlanError, SpecError
from pluralrm.text import counted, difference, estimated, p_value, share

if TYPE_CHECKING:
    from pluralrm.annotate.labels import Label
    from pluralrm.core import Run
    from pluralrm.metrics.agreement import Scaled
    from pluralrm.metrics.stand_in import StandInResult, StandInTerms

_ROWS = 12
"""People that the table names."""


def stand_in(
    paths: list[Path] = typer.Argument(
        ..., metavar="RUN|PLAN|FILE", help="Runs on items that several people judged, or labels."
    ),
    judge: list[str] = typer.Option([], "--judge", metavar="NAME|FILE|RUN", help="Judge of the labels; repeat."),
    epsilon: float = typer.Option(0.15, min=0.0, max=0.99, help="How far it may fall behind: experts .2, crowd .1."),
    alpha: float = typer.Option(0.05, min=0.0001, max=0.5, help="Error rate of the verdict."),
    items: int = typer.Option(30, "--min-items", min=2, help="Independent items that a person must have."),
    judgments: Path | None = JUDGMENTS,
    scale: str = typer.Option("", "--scale", metavar="SCALE", help="Of a file's labels: nominal, ordinal or interval."),
    labels: str = typer.Option("", metavar="L,L", help="A file's labels in ascending order."),
    dimension: str = typer.Option("", metavar="NAME", help="Only this dimension of labels."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """May a judge stand in for a person? The alternative annotator test.

    An answer that the judge did not give loses.
    """
    from pluralrm.metrics.stand_in import StandInTerms

    form, terms = output_format(form, as_json=as_json), StandInTerms(epsilon, alpha, items)
    if judge:
        if len(paths) > 1:
            raise SpecError(f"--judge goes with one plan or file of labels; found {len(paths)}")
        if paths[0].is_dir() and (scale or labels):
            raise SpecError("--scale and --labels are about a file; a plan's answers have scales of their own")
        people, rehearsal, left_out = labels_in(paths[0], judgments, None)
        if left_out:
            note(left_out)
        results = judged_labels(
            paths[0], people, judge, terms, declared=declared_scale(scale, labels), dimension=dimension
        )
    else:
        if any(not path.is_dir() for path in paths) or judgments or scale or labels or dimension:
            raise SpecError("labels of a plan or file need --judge NAME|FILE|RUN, and runs take no options of labels")
        results, rehearsal = _of_runs(paths, terms), False
    if form is TableFormat.JSON:
        print_json([result.to_json() | {"rehearsal": rehearsal} for result in results])
    elif form in TEXT_FORMS:
        print_records([row for result in results for row in result.records()], form, ["advantage", "lead"])
    else:
        if rehearsal:
            print_wrapped("REHEARSAL: these judgments are simulated", style="red")
        print_stand_ins(results)


def judged_labels(
    path: Path,
    rows: "Sequence[Label]",
    names: Sequence[str],
    terms: "StandInTerms",
    *,
    declared: "Scaled | None" = None,
    dimension: str = "",
) -> "list[StandInResult]":
    """Return each judge of the labels in a plan or file; one of its own annotators is no longer among the people."""
    from pluralrm.annotate.stand_in import LabelJudge, judges_in, parted, read_label_table, stand_ins

    people, judges = list(rows), []
    for name in names:
        if Path(name).is_dir():
            judges += [LabelJudge(_name(run), run=run) for run in _same_content(path, _runs([Path(name)]))]
        elif Path(name).is_file():
            judges += judges_in(read_label_table(Path(name)))
        else:
            people, own = parted(people, name)
            judges.append(own)
    return [
        result
        for each in judges
        for result in stand_ins(str(path), people, each, dimension=dimension, declared=declared, terms=terms)
    ]


def _same_content(path: Path, runs: "list[Run]") -> "list[Run]":
    """Return the runs; one on another content than a plan's is a PlanError."""
    from pluralrm.annotate.plan import read_plan

    if path.is_dir():
        content = read_plan(path).declared.content_hash
        for run in runs:
            if run.benchmark_hash != content:
                raise PlanError(
                    f"{run.path}: scored {run.benchmark!r} (content {run.benchmark_hash[:12]}), and the plan {path} is "
                    f"of content {content[:12]}; wanted a run on the same items and seed"
                )
    return runs


def _of_runs(paths: Sequence[Path], terms: "StandInTerms") -> "list[StandInResult]":
    from pluralrm.metrics.stand_in import run_comparisons, stand_in

    return [stand_in(_name(run), run_comparisons(run), data=run.benchmark, terms=terms) for run in _runs(paths)]


def _runs(paths: Sequence[Path]) -> "list[Run]":
    from pluralrm.runs import load_runs

    runs = load_runs(list(paths))
    for run in runs:
        if not run.complete:
            note(f"{run.path}: {run.items - run.done:,} of {run.items:,} items are not scored yet; each loses")
    return runs


def _name(run: "Run") -> str:
    return f"{run.name or run.model} under {run.condition}"


# ---------------------------------------------------------------- what is printed


def print_stand_ins(results: "Sequence[StandInResult]") -> None:
    """Print the verdict, for whom it holds, and the risk where the judge is certain; of several judges one row each."""
    if len(results) == 1:
        _print(results[0])
    else:
        _print_several(results)
    terms = results[0].terms
    lead = "lead: how often the judge is at least as close to the others as a person, less how often the person is"
    well = f"{lead}; as well: above {share(-terms.epsilon)}, p adjusted over people (Benjamini-Yekutieli)."
    verdict = f"may: as well as half of the people, by a partial conjunction test at {100 * terms.alpha:g}% too."
    silent = "An answer that is missing or failed loses to everybody."
    print_legend([well, f"{verdict} {silent}", "Every person: --format csv; published p-values too."])


def _print_several(results: "Sequence[StandInResult]") -> None:
    for data in dict.fromkeys(result.data for result in results):
        print_wrapped(f"{data}: may they stand in for a person? epsilon {results[0].terms.epsilon:g}", style="bold")
        rows = [
            (
                result.judge,
                result.ruling,
                f"{result.count('as well'):,} of {len(result.testable):,}",
                p_value(result.p),
                estimated(result.advantage),
            )
            for result in results
            if result.data == data
        ]
        columns: list[tuple[str, Kind]] = [("judge", "name"), ("", "left"), ("as well as", "right"), ("p", "right")]
        console().print()
        console().print(table([*columns, ("rho, % [95%]", "left")], rows))
        console().print()


def _print(result: "StandInResult") -> None:
    print_wrapped(f"{result.data}: {result}" if result.data else str(result), style="bold")
    everything = result.risks[0].risk
    missing = f", {everything.failed:,} without an answer of the judge" if everything.failed else ""
    people = f"{len(result.testable):,} of {counted(len(result.people), 'person').replace('persons', 'people')}"
    print_wrapped(f"{counted(everything.n, 'comparison')}{missing}; {people} with enough items.")
    if result.advantage is not None:
        published = "passes" if (result.published_rate or 0) >= 0.5 else "does not pass"
        print_wrapped(
            f"mean advantage probability (rho): {estimated(result.advantage)}; the published test {published} "
            f"(winning rate {share(result.published_rate)})"
        )
    console().print()
    columns: list[tuple[str, Kind]] = [
        ("compared with", "name"),
        ("independent items", "right"),
        ("lead in points [95%]", "left"),
    ]
    console().print(table([*columns, ("p", "right"), ("", "left")], list(_rows(result))))
    if len(result.risks) > 1:
        console().print()
        heads: list[tuple[str, Kind]] = [("most certain, % of all", "right"), ("person closer, % [95%]", "left")]
        console().print(table(heads, [(share(row.coverage), estimated(row.risk)) for row in result.risks]))


def _rows(result: "StandInResult") -> Iterator[tuple[str, str, str, str, str]]:
    people = sorted(result.people, key=lambda row: (row.adjusted is None, row.lead.value, row.person))
    for row in people[:_ROWS]:
        yield row.person, f"{row.clusters:,}", difference(row.lead), p_value(row.adjusted), row.likeness
    if len(people) > _ROWS:
        yield f"... and {len(people) - _ROWS:,} more", "", "", "", ""

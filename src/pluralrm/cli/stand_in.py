"""`pluralrm stand-in`: may a judge stand in for a person? The same behind `annotate agreement --judge`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.annotate_agreement import JUDGMENTS, declared_scale
from pluralrm.cli.options import FORMAT, TEXT_FORMS, TableFormat, output_format, print_records
from pluralrm.cli.terminal import (
    Kind,
    console,
    note,
    print_json,
    print_legend,
    print_wrapped,
    table,
    warnings_as_notes,
)
from pluralrm.errors import SpecError
from pluralrm.text import counted, difference, estimated, listed, p_value, share

if TYPE_CHECKING:
    from pluralrm.metrics.stand_in import StandInResult, StandInTerms

_ROWS = 20
"""Rows of the table of people."""


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
    from pluralrm.annotate.stand_in import judged_labels, labels_in
    from pluralrm.metrics.stand_in import StandInTerms

    form, terms = output_format(form, as_json=as_json), StandInTerms(epsilon, alpha, items)
    _check_exist(paths)
    if judge:
        if len(paths) > 1:
            raise SpecError(f"--judge goes with one plan or file of labels; found {len(paths)}")
        if paths[0].is_dir() and (scale or labels):
            raise SpecError("--scale and --labels are about a file; a plan's answers have scales of their own")
        declared = declared_scale(scale, labels)
        with warnings_as_notes():
            people, left_out = labels_in(paths[0], judgments)
            results = judged_labels(paths[0], people, judge, declared=declared, dimension=dimension, terms=terms)
        if left_out:
            note(left_out)
    else:
        if any(not path.is_dir() for path in paths) or judgments or scale or labels or dimension:
            raise SpecError("labels of a plan or file need --judge NAME|FILE|RUN, and runs take no options of labels")
        results = _of_runs(paths, terms)
    if form is TableFormat.JSON:
        print_json([result.to_json() for result in results])
    elif form in TEXT_FORMS:
        print_records([row for result in results for row in result.records()], form, ["advantage", "lead"])
    else:
        if any(result.rehearsal for result in results):
            print_wrapped("REHEARSAL: these judgments are simulated", style="red")
        print_stand_ins(results)


def _check_exist(paths: "Sequence[Path]") -> None:
    from pluralrm.benchmarks.rows import exists

    for path in paths:
        if not exists(path):
            raise SpecError(f"{str(path)!r}: no such file or folder; wanted runs, a plan, or a file of labels")


def _of_runs(paths: "Sequence[Path]", terms: "StandInTerms") -> "list[StandInResult]":
    from pluralrm.annotate.stand_in import load_all, of_run

    runs = load_all(paths)
    for run in runs:
        if not run.complete:
            note(f"{run.path}: {run.items - run.done:,} of {run.items:,} items are not scored yet; each loses")
    return [of_run(run, terms) for run in runs]


# ---------------------------------------------------------------- what is printed


def print_stand_ins(results: "Sequence[StandInResult]") -> None:
    """Print the verdict, for whom it holds, and the risk where the judge is certain; of several judges one row each."""
    for result in results:
        if result.unmatched:
            labels = listed([repr(label) for label in result.unmatched])
            note(f"{result.data}: {result.judge} answers {labels}, which no person does: such answers never agree")
    if len(results) == 1:
        _print(results[0])
    else:
        _print_several(results)
    terms = results[0].terms
    lead = "lead: how often the judge is at least as close to the others as the person, less how often the person is."
    level = f"at most {100 * terms.alpha:g}% of such results are false (p: Benjamini-Yekutieli)"
    well = f"as well: lead above {share(-terms.epsilon)}; worse: below; {level}."
    verdict = "may: as well as half of the people, by a partial conjunction test too."
    published = "" if len(results) > 1 else _published(results[0])
    print_legend([lead, well, verdict, *filter(None, [published]), "Every number: --format csv, --json."])


def _published(result: "StandInResult") -> str:
    if result.published_rate is None:
        return ""
    outcome = "passes" if result.published_rate >= 0.5 else "fails"
    return f"The published test (Student's t) {outcome}: winning rate {share(result.published_rate)}."


def _print_several(results: "Sequence[StandInResult]") -> None:
    columns: list[tuple[str, Kind]] = [("judge", "name"), ("", "left"), ("as well as", "right"), ("p (may)", "right")]
    columns.append(("rho, % [95%]", "left"))
    silent = any(result.unanswered for result in results)
    columns += [("no answer, %", "right")] * silent
    for data in dict.fromkeys(result.data for result in results):
        print_wrapped(f"{data}: may they stand in for a person? epsilon {results[0].terms.epsilon:g}", style="bold")
        rows = [
            (
                result.judge,
                result.ruling,
                f"{result.count('as well'):,} of {len(result.testable):,}",
                p_value(result.p),
                estimated(result.advantage),
                *[share(result.unanswered)] * silent,
            )
            for result in results
            if result.data == data
        ]
        console().print()
        console().print(table(columns, rows))
        console().print()


def _print(result: "StandInResult") -> None:
    print_wrapped(f"{result.data}: {result}" if result.data else str(result), style="bold")
    if result.advantage is not None:
        rate = f"winning rate {share(result.winning_rate)} (50 needed)"
        print_wrapped(f"{rate}, mean advantage probability (rho) {estimated(result.advantage)}")
    everything = result.risks[0].risk
    missing = f", {everything.failed:,} without an answer: these lose" if everything.failed else ""
    print_wrapped(f"{counted(everything.n, 'comparison')}{missing}")
    console().print()
    columns: list[tuple[str, Kind]] = [("compared with", "name"), ("", "left"), ("lead in points [95%]", "left")]
    console().print(table([*columns, ("p", "right"), ("items", "right")], list(_rows(result))))
    if len(result.risks) > 1:
        console().print()
        heads: list[tuple[str, Kind]] = [("of", "left"), ("% of all", "right"), ("person closer, % [95%]", "left")]
        console().print(table(heads, [(row.covered, share(row.coverage), estimated(row.risk)) for row in result.risks]))


def _rows(result: "StandInResult") -> Iterator[tuple[str, str, str, str, str]]:
    people = sorted(result.people, key=lambda row: (row.adjusted is None, row.lead.value, row.person))
    most = len(people) if len(people) <= _ROWS else _ROWS - 1
    for row in people[:most]:
        yield row.person, row.likeness, difference(row.lead), p_value(row.stated), f"{row.clusters:,}"
    if len(people) > most:
        yield f"... and {len(people) - most:,} more", "", "", "", ""

"""`pluralrm annotate agreement`: how far annotators agree; `pluralrm stand-in`: may a judge stand in for a person?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

import typer

from pluralrm.cli.options import FORMAT, TEXT_FORMS, TableFormat, output_format, print_records
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import (
    Kind,
    console,
    note,
    percent,
    print_json,
    print_legend,
    print_wrapped,
    table,
    warnings_as_notes,
)
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.text import counted, difference, estimated, listed, p_value, share

if TYPE_CHECKING:
    from pluralrm.annotate.labels import AgreementResult, DimensionAgreement
    from pluralrm.metrics.agreement import Coefficient, Scaled
    from pluralrm.metrics.stand_in import StandInResult, StandInTerms


T = TypeVar("T", bound=str)

JUDGMENTS = typer.Option(
    None, "--judgments", metavar="FILE", help="judgments.jsonl, where they are not in the plan's folder."
)


def agreement(
    path: Path = typer.Argument(..., metavar="PLAN|FILE", help="A plan's folder, or CSV or JSONL of labels."),
    judgments: Path | None = JUDGMENTS,
    attention: float | None = typer.Option(
        None,
        min=0.0,
        max=1.0,
        metavar="P",
        help="Share of checks to pass; annotators below it are excluded.",
        show_default="as the plan says",
    ),
    ties: str = typer.Option("kept", metavar="WHAT", help="Labels equal and tie: kept, or left_out."),
    cannot_tell: str = typer.Option("left_out", metavar="WHAT", help="Blank labels: left_out, or tie."),
    slight: str = typer.Option("kept", metavar="WHAT", help="Slight preferences: kept, or merged with the others."),
    scale: str = typer.Option("", "--scale", metavar="SCALE", help="Of a file's labels: nominal, ordinal or interval."),
    labels: str = typer.Option("", metavar="L,L", help="A file's labels in ascending order."),
    dimension: str = typer.Option("", metavar="NAME", help="Print every coefficient of this dimension."),
    judge: list[str] = typer.Option([], "--judge", metavar="NAME|FILE|RUN", help="Also: may it stand in for a person?"),
    resamples: int = typer.Option(2_000, min=200, help="Bootstrap resamples of the items."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure how far annotators agree with each other and with themselves, and print their consensus.

    FILE has the columns item, annotator, label, and perhaps dimension, domain, arm, cluster and round.
    """
    from pluralrm.annotate.labels import CannotTell, Policies, Slight, Ties, agreed
    from pluralrm.annotate.stand_in import judged_labels, labels_in

    form = output_format(form, as_json=as_json)
    policies = Policies(
        _one_of(ties, get_args(Ties), "--ties"),
        _one_of(cannot_tell, get_args(CannotTell), "--cannot-tell"),
        _one_of(slight, get_args(Slight), "--slight"),
    )
    declared = declared_scale(scale, labels)
    if path.is_dir() and declared is not None:
        raise SpecError("--scale and --labels are about a file; a plan's answers have scales of their own")
    with warnings_as_notes():
        rows, out = labels_in(path, judgments, attention)
        stand_ins = judged_labels(path, rows, judge, declared=declared, dimension=dimension) if judge else []
    if dimension and dimension not in {label.dimension for label in rows}:
        raise SpecError(f"--dimension {dimension!r}.{did_you_mean(dimension, {label.dimension for label in rows})}")
    rehearsal = any(label.rehearsal for label in rows)
    rows = [label for label in rows if label.annotator not in judge]
    with ProgressDisplay(f"agreement of {path}: resampling"):
        result = agreed(
            str(path), rows, policies, declared=declared, seed=seed, resamples=resamples, rehearsal=rehearsal
        )
    if out:
        result = replace(result, policies=(*result.policies, out))
    _write(result, stand_ins, form, dimension)


def _write(result: "AgreementResult", stand_ins: "Sequence[StandInResult]", form: TableFormat, dimension: str) -> None:
    """Print agreement, and the judges where there are any; flat records are then about them."""
    if form in TEXT_FORMS:
        parts = [part for part in result.parts if dimension in {"", part.dimension}]
        rows = [row for part in stand_ins or parts for row in part.records()]
        print_records(rows, form, ["advantage", "lead"])
    elif form is TableFormat.JSON:
        judges = {"stand_in": [each.to_json() for each in stand_ins]} if stand_ins else {}
        print_json(result.to_json() | judges)
    else:
        _print(result, dimension)
        if stand_ins:
            console().print()
            print_stand_ins(stand_ins)


def _one_of(text: str, choices: "tuple[T, ...]", option: str) -> "T":
    if text not in choices:
        raise SpecError(f"{option} {text!r}: wanted {' or '.join(choices)}.{did_you_mean(text, choices)}")
    return text


def declared_scale(scale: str, labels: str) -> "Scaled | None":
    """Return the scale that was declared; labels in order are ordinal by default."""
    from pluralrm.metrics.agreement import Scaled
    from pluralrm.stats.agreement import Scale

    names = tuple(name.strip() for name in labels.split(",") if name.strip())
    if not names:
        return Scaled((), _one_of(scale, get_args(Scale), "--scale")) if scale else None
    kind = _one_of(scale or "ordinal", get_args(Scale), "--scale")
    if len(set(names)) < max(len(names), 2):
        raise SpecError(f"--labels {labels}: wanted two or more, each once")
    if kind != "interval":
        return Scaled(names, kind)
    try:
        worths = tuple(float(name) for name in names)
    except ValueError:
        raise SpecError(f"--scale interval: the labels {labels} are not all numbers; wanted --scale ordinal") from None
    if list(worths) != sorted(worths):
        raise SpecError(f"--labels {labels}: wanted in ascending order")
    return Scaled(names, kind, worths)


# ---------------------------------------------------------------- what is printed


def _print(result: "AgreementResult", dimension: str) -> None:
    print_wrapped(result.source, style="bold")
    if result.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    parts = [part for part in result.parts if not dimension or part.dimension == dimension]
    if dimension or len({(part.arm, part.dimension) for part in parts}) == 1:
        for part in parts:
            _print_all(part)
    else:
        parts = [part for part in parts if not part.domain]
        _print_table(parts)
    for name, own in result.own.items():
        if not dimension or name == dimension:
            titled = f"with themselves, {name}" if name else "with themselves"
            print_wrapped(f"{titled}: {percent(own)} of {own.n:,} items judged again", indent="  ")
    for row in result.between:
        together, lowest = row.together, row.others[0]
        where = ", ".join(filter(None, (row.arm, row.dimension)))
        items = f"{f'{where}: ' if where else ''}{len(together.said):,} items"
        print_wrapped(
            f"{items}, {together.undecided:,} without a single most frequent label; "
            f"Dawid and Skene's consensus differs from that label on {len(together.differ):,}. "
            f"Least alike with the others: {lowest.annotators[0]}, {percent(lowest.share)}",
            indent="  ",
        )
    print_legend(_legend(result, parts))


def _print_all(part: "DimensionAgreement") -> None:
    """Print every coefficient of one dimension in one domain."""
    title = ", ".join(filter(None, (part.arm, part.dimension, part.domain)))
    counts = f"{part.labels:,} labels of {part.items:,} items by {part.annotators:,} annotators"
    console().print()
    print_wrapped(f"{title}: {counts}" if title else counts)
    if part.why:
        print_wrapped(f"no agreement: {part.why}", first="  ")
        return
    rows = [(coefficient.title, _number(coefficient)) for coefficient in part.coefficients]
    columns: list[tuple[str, Kind]] = [("coefficient", "name"), ("value [95%]", "left")]
    console().print(table(columns, rows))


def _print_table(parts: "Sequence[DimensionAgreement]") -> None:
    """Print one row for each dimension and domain: how often alike, alpha of its scale, and Gwet's coefficient."""
    columns: list[tuple[str, Kind]] = [("dimension", "name"), ("items", "right"), ("alike, %", "left")]
    for arm in dict.fromkeys(part.arm for part in parts):
        rows = []
        for part in (part for part in parts if part.arm == arm):
            by_name = {coefficient.name: coefficient for coefficient in part.coefficients}
            name = f"  {part.domain}" if part.domain else part.dimension
            if part.why:
                rows.append((name, f"{part.items:,}", part.why, "", ""))
                continue
            alike = by_name["percent"].estimate
            scaled = next(
                by_name[kind] for kind in ("alpha_interval", "alpha_ordinal", "alpha_nominal") if kind in by_name
            )
            gwet = by_name.get("ac2", by_name["ac1"])
            rows.append((name, f"{part.items:,}", percent(alike) if alike else "–", _number(scaled), _number(gwet)))
        console().print()
        if arm:
            print_wrapped(arm)
        console().print(table([*columns, ("alpha [95%]", "left"), ("AC [95%]", "left")], rows))


def _number(coefficient: "Coefficient") -> str:
    from pluralrm.metrics.agreement import TOO_NARROW

    if coefficient.estimate is None:
        return "–"
    ends = (coefficient.estimate.value, coefficient.estimate.low, coefficient.estimate.high)
    value, low, high = ("" if end is None else f"{round(end, 2) + 0.0:.2f}" for end in ends)
    return f"{value} [{low}, {high}]{'*' * (TOO_NARROW in coefficient.estimate.method)}" if low and high else value


def _legend(result: "AgreementResult", parts: "Sequence[DimensionAgreement]") -> "list[str]":
    from pluralrm.metrics.agreement import TOO_NARROW

    lines = [f"{text}." for text in result.policies]
    numbers = [coefficient.estimate for part in parts for coefficient in part.coefficients if coefficient.estimate]
    how = dict.fromkeys(number.method.split("; ")[1] for number in numbers)
    lines += [
        f"Intervals: 95%, {text}." if text.startswith(("bootstrap", "exact")) else f"{text.capitalize()}."
        for text in how
    ]
    if any(TOO_NARROW in number.method for number in numbers):
        lines.append("*: annotators differ on few items, so that the interval is too narrow.")
    missing = dict.fromkeys(
        coefficient.why for part in parts for coefficient in part.coefficients if coefficient.estimate is None
    )
    lines += [f"–: {why}." for why in missing]
    if len({(part.arm, part.dimension) for part in parts}) > 1:
        lines.append("alpha: Krippendorff's, of the dimension's scale; AC: Gwet's, AC2 where labels have an order.")
        lines.append("Every coefficient, and each domain: --dimension NAME; all dimensions: --json.")
    return lines


# ---------------------------------------------------------------- may a judge stand in for a person?

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


def print_stand_ins(results: "Sequence[StandInResult]") -> None:
    """Print the verdict, for whom it holds, and the risk where the judge is certain; of several judges one row each."""
    for result in results:
        if result.unmatched:
            labels = listed([repr(label) for label in result.unmatched])
            note(f"{result.data}: {result.judge} answers {labels}, which no person does: such answers never agree")
    if len(results) == 1:
        _print_judge(results[0])
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


def _print_judge(result: "StandInResult") -> None:
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

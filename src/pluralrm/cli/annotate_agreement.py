"""`pluralrm annotate agreement`: how far annotators agree; `annotate claim`: does personal fit separate the pair?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

import typer

from pluralrm.cli.options import FORMAT, TEXT_FORMS, TableFormat, output_format, print_records
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import (
    Kind,
    check_place,
    console,
    note,
    percent,
    print_json,
    print_legend,
    print_wrapped,
    table,
    warnings_as_notes,
    write_page,
)
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.text import estimated, p_value

if TYPE_CHECKING:
    from pluralrm.annotate.judgments import Judgment
    from pluralrm.annotate.labels import AgreementResult, DimensionAgreement
    from pluralrm.annotate.plan import AnnotationPlan
    from pluralrm.metrics.agreement import Coefficient, Scaled
    from pluralrm.metrics.stand_in import StandInResult
if TYPE_CHECKING:
    from pluralrm.annotate.claim_result import ArmResult, ClaimResult
    from pluralrm.annotate.judgments import Judgment
    from pluralrm.annotate.plan import AnnotationPlan


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
    from pluralrm.cli.stand_in import print_stand_ins

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
            share = by_name["percent"].estimate
            scaled = next(
                by_name[kind] for kind in ("alpha_interval", "alpha_ordinal", "alpha_nominal") if kind in by_name
            )
            gwet = by_name.get("ac2", by_name["ac1"])
            rows.append((name, f"{part.items:,}", percent(share) if share else "–", _number(scaled), _number(gwet)))
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


def claim(
    plan: Path = typer.Argument(..., metavar="PLAN", help="A plan's folder, which states the claim."),
    judgments: Path | None = JUDGMENTS,
    out: Path | None = typer.Option(None, "--out", "-o", metavar="FILE.html", help="Also write a page with plots."),
    figures: Path | None = typer.Option(None, metavar="DIR", help="Also write every plot here, as PDF and SVG."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Test the claim of a plan: the labelled answer wins in personal fit, and is equal in general quality.

    Equal is a win rate (and a mean rating) within the margins that the plan states, in factuality, relevance and
    helpfulness; what was not asked is not tested.

    Exit 1 if it is refuted. With four answers there is no claim, only how often people pick the labelled one.
    """
    from pluralrm.annotate.claim import claimed
    from pluralrm.annotate.claim_page import claim_page, write_figures
    from pluralrm.annotate.judgments import judged_plan

    if out is not None:
        check_place(out)
    content, answers = judged_plan(plan, judgments)
    if content.declared.task == "four":
        _print_fours(content, answers, path=out or figures, as_json=as_json)
        return
    with ProgressDisplay(f"claim of {plan}: testing"):
        result = claimed(content, answers)
    if out is not None:
        write_page(out, claim_page(result))
    if figures is not None:
        note(f"wrote {', '.join(file.name for file in write_figures(result, figures))} in {figures}")
    if as_json:
        print_json(result.to_json())
    else:
        _print_claim(result)
    if result.first.contrary:
        raise typer.Exit(1)


def _print_claim(result: "ClaimResult") -> None:
    from pluralrm.annotate import claim_result as words

    print_wrapped(f"{result.benchmark}: is personal fit what separates the pairs?", style="bold")
    if result.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    print_wrapped(words.verdict(result), style="red" if result.first.contrary else "")
    print_wrapped(f"{words.stated(result.declared)} Plan {result.plan_hash[:16]}.")
    for arm in result.arms:
        _print_arm(arm)
    level = 100 * (1 - 2 * result.claim.alpha)
    ends = f"Intervals of tests at {level:g}%, others at 95%, robust to items and annotators; of majorities, to items."
    p = "p of tests: one-sided, of equality (±) the larger of two; of log odds: two-sided."
    print_legend([f"{ends} {p}", words.ABOUT, f"{'; '.join(result.policies)}."])


def _print_arm(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    console().print()
    print_wrapped(f"{arm.arm}: {words.SEEN[arm.arm]}", style="bold")
    print_wrapped(f"{words.counts(arm)} {words.survival(arm)} {words.ceiling(arm)}")
    rows = [
        (test.name, test.unit, words.measured(test), p_value(test.test.p), words.state(test.test)) for test in arm.tests
    ]
    columns: list[tuple[str, Kind]] = [("test", "name"), ("in", "left"), ("estimate", "left"), ("p", "right")]
    console().print(table([*columns, ("", "left")], rows))
    if text := words.untold(arm):
        print_wrapped(text)
    _print_weights(arm)


def _print_weights(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    if not arm.weights:
        print_wrapped(f"No regression of the overall choice: {arm.why_no_weights}")
        return
    rows = [
        (words.named(weight.name), estimated(weight.log_odds, times=1, places=2), p_value(weight.p))
        for weight in arm.weights
    ]
    columns: list[tuple[str, Kind]] = [("the overall choice", "name"), ("log odds per step [95%]", "left")]
    console().print(table([*columns, ("p", "right")], rows))
    if text := words.held_down(arm):
        print_wrapped(text)


def _print_fours(plan: "AnnotationPlan", judgments: "list[Judgment]", *, path: Path | None, as_json: bool) -> None:
    """Print what people say of four answers."""
    from pluralrm.annotate.claim import fours

    if path is not None:
        raise SpecError(f"{path}: only the claim of two answers has a page and plots; leave out -o and --figures")
    result = fours(plan, judgments)
    if as_json:
        print_json(result.to_json())
        return
    print_wrapped(f"{result.benchmark}: do people pick the labelled answer?", style="bold")
    if result.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    for arm in result.arms:
        same = "no one could tell" if arm.paraphrases_same is None else estimated(arm.paraphrases_same)
        rows = [
            (f"labelled answer picked (by chance {100 * arm.chance:.0f})", "%", estimated(arm.picked)),
            ("items on which it is picked most", "%", estimated(arm.survives)),
            ("only one answer fits", "%", estimated(arm.only_one_fits)),
            ("no answer fits", "%", estimated(arm.none_fits)),
            ("paraphrases mean the same", "%", same),
            ("naturalness of the prompt", "1 to 5", estimated(arm.naturalness, times=1, places=2)),
        ]
        console().print()
        print_wrapped(f"{arm.picked.n:,} judgments of {arm.items:,} items by {arm.annotators:,} annotators")
        columns: list[tuple[str, Kind]] = [("", "name"), ("in", "left"), ("estimate [95%]", "left")]
        console().print(table(columns, rows))
    ends = "Intervals are robust to items and annotators. 'Cannot tell' counts as not picking the labelled answer."
    print_legend([ends, *([f"{result.left_out}."] if result.left_out else [])])

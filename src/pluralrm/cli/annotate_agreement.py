"""`pluralrm annotate agreement`: how far annotators agree; `annotate claim`: does personal fit separate the pair?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

import typer

from pluralrm.cli.options import FORMAT, TEXT_FORMS, TableFormat, output_format, print_records
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
    write_page,
)
from pluralrm.errors import PlanError, SpecError, did_you_mean
from pluralrm.text import estimated, p_value

if TYPE_CHECKING:
    from pluralrm.annotate.judgments import Judgment
    from pluralrm.annotate.labels import AgreementResult, DimensionAgreement, Label
    from pluralrm.annotate.plan import AnnotationPlan
    from pluralrm.metrics.agreement import Coefficient, Scaled
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
    scale: str = typer.Option("", metavar="SCALE", help="Of a file's labels: nominal, ordinal or interval."),
    labels: str = typer.Option("", metavar="L,L", help="A file's labels in ascending order."),
    dimension: str = typer.Option("", metavar="NAME", help="Print every coefficient of this dimension."),
    resamples: int = typer.Option(2_000, min=200, help="Bootstrap resamples of the items."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure how far annotators agree with each other and with themselves, and print their consensus.

    FILE has the columns item, annotator, label, and perhaps dimension, domain, arm, cluster and round.
    """
    from pluralrm.annotate import labels as made

    form = output_format(form, as_json=as_json)
    policies = made.Policies(
        _one_of(ties, get_args(made.Ties), "--ties"),
        _one_of(cannot_tell, get_args(made.CannotTell), "--cannot-tell"),
        _one_of(slight, get_args(made.Slight), "--slight"),
    )
    declared = _declared(scale, labels)
    if path.is_dir() and declared is not None:
        raise SpecError("--scale and --labels are about a file; a plan's answers have scales of their own")
    said, rehearsal, out = _labels_in(path, judgments, attention)
    if dimension and dimension not in {one.dimension for one in said}:
        raise SpecError(f"--dimension {dimension!r}.{did_you_mean(dimension, {one.dimension for one in said})}")
    found = made.agreed(
        str(path), said, policies, declared=declared, seed=seed, resamples=resamples, rehearsal=rehearsal
    )
    if out:
        found = replace(found, policies=(*found.policies, out))
    if form in TEXT_FORMS:
        parts = [part for part in found.parts if dimension in {"", part.dimension}]
        print_records([row for part in parts for row in part.records()], form)
    elif form is TableFormat.JSON:
        print_json(found.to_json())
    else:
        _print(found, dimension)


def judged(path: Path, judgments: Path | None) -> "tuple[AnnotationPlan, list[Judgment]]":
    """Return a plan and its judgments; none at all are an error."""
    from pluralrm.annotate.judgments import read_judgments
    from pluralrm.annotate.plan import read_plan

    plan = read_plan(path)
    found = read_judgments(plan, judgments or path)
    if not found:
        raise PlanError(f"{path}: no judgments yet; see 'pluralrm annotate serve', or --judgments FILE")
    return plan, found


def _labels_in(path: Path, judgments: Path | None, attention: float | None) -> "tuple[list[Label], bool, str]":
    """Return the labels of a plan's judgments, or those in a file; whether it is a rehearsal; and who is left out."""
    from pluralrm.annotate.judgments import inattentive, told_inattentive
    from pluralrm.annotate.labels import labels_of, read_labels

    if path.is_dir():
        plan, found = judged(path, judgments)
        least = plan.declared.claim.attention if attention is None else attention
        out = inattentive(plan, found, least)
        said = [one for one in labels_of(plan, found) if one.annotator not in out]
        if out and not said:
            raise PlanError(f"{path}: no judgment is left: {told_inattentive(out, least)}; see --attention")
        return said, any(one.rehearsal for one in said), told_inattentive(out, least)
    if judgments is not None or attention is not None:
        raise SpecError("--judgments and --attention go with a plan's folder; a file has labels alone")
    labels = read_labels(path)
    return labels, any(one.rehearsal for one in labels), ""


def _one_of(text: str, known: "tuple[T, ...]", option: str) -> "T":
    if text not in known:
        raise SpecError(f"{option} {text!r}: wanted {' or '.join(known)}.{did_you_mean(text, known)}")
    return text


def _declared(scale: str, labels: str) -> "Scaled | None":
    """Return the scale that was declared; labels in order are ordinal by default."""
    from pluralrm.metrics.agreement import Scaled
    from pluralrm.stats.agreement import Scale

    names = tuple(name.strip() for name in labels.split(",") if name.strip())
    if not names:
        return Scaled((), _one_of(scale, get_args(Scale), "--scale")) if scale else None
    known = _one_of(scale or "ordinal", get_args(Scale), "--scale")
    if len(set(names)) < max(len(names), 2):
        raise SpecError(f"--labels {labels}: wanted two or more, each once")
    if known != "interval":
        return Scaled(names, known)
    try:
        worths = tuple(float(name) for name in names)
    except ValueError:
        raise SpecError(f"--scale interval: the labels {labels} are not all numbers; wanted --scale ordinal") from None
    if list(worths) != sorted(worths):
        raise SpecError(f"--labels {labels}: wanted in ascending order")
    return Scaled(names, known, worths)


# ---------------------------------------------------------------- what is printed


def _print(found: "AgreementResult", dimension: str) -> None:
    print_wrapped(found.source, style="bold")
    if found.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    shown = [part for part in found.parts if not dimension or part.dimension == dimension]
    if dimension or len({(part.arm, part.dimension) for part in shown}) == 1:
        for part in shown:
            _print_all(part)
    else:
        shown = [part for part in shown if not part.domain]
        _print_table(shown)
    for name, own in found.own.items():
        if not dimension or name == dimension:
            titled = f"with themselves, {name}" if name else "with themselves"
            print_wrapped(f"{titled}: {percent(own)} of {own.n:,} items judged again", indent="  ")
    for one in found.between:
        together, lowest = one.together, one.others[0]
        where = ", ".join(filter(None, (one.arm, one.dimension)))
        items = f"{f'{where}: ' if where else ''}{len(together.said):,} items"
        print_wrapped(
            f"{items}, {together.undecided:,} without a single most frequent label; "
            f"Dawid and Skene's consensus differs from that label on {len(together.differ):,}. "
            f"Least alike with the others: {lowest.annotators[0]}, {percent(lowest.share)}",
            indent="  ",
        )
    print_legend(_legend(found, shown))


def _print_all(part: "DimensionAgreement") -> None:
    """Print every coefficient of one dimension in one domain."""
    title = ", ".join(filter(None, (part.arm, part.dimension, part.domain)))
    counts = f"{part.labels:,} labels of {part.items:,} items by {part.annotators:,} annotators"
    console().print()
    print_wrapped(f"{title}: {counts}" if title else counts)
    if part.why:
        print_wrapped(f"no agreement: {part.why}", first="  ")
        return
    rows = [(one.title, _number(one)) for one in part.coefficients]
    columns: list[tuple[str, Kind]] = [("coefficient", "name"), ("value [95%]", "left")]
    console().print(table(columns, rows))


def _print_table(parts: "Sequence[DimensionAgreement]") -> None:
    """Print one row for each dimension and domain: how often alike, alpha of its scale, and Gwet's coefficient."""
    columns: list[tuple[str, Kind]] = [("dimension", "name"), ("items", "right"), ("alike, %", "left")]
    for arm in dict.fromkeys(part.arm for part in parts):
        rows = []
        for part in (part for part in parts if part.arm == arm):
            found = {one.name: one for one in part.coefficients}
            name = f"  {part.domain}" if part.domain else part.dimension
            if part.why:
                rows.append((name, f"{part.items:,}", part.why, "", ""))
                continue
            share = found["percent"].estimate
            scaled = next(found[kind] for kind in ("alpha_interval", "alpha_ordinal", "alpha_nominal") if kind in found)
            gwet = found.get("ac2", found["ac1"])
            rows.append((name, f"{part.items:,}", percent(share) if share else "–", _number(scaled), _number(gwet)))
        console().print()
        if arm:
            print_wrapped(arm)
        console().print(table([*columns, ("alpha [95%]", "left"), ("AC [95%]", "left")], rows))


def _number(found: "Coefficient") -> str:
    from pluralrm.metrics.agreement import TOO_NARROW

    if found.estimate is None:
        return "–"
    ends = (found.estimate.value, found.estimate.low, found.estimate.high)
    value, low, high = ("" if end is None else f"{round(end, 2) + 0.0:.2f}" for end in ends)
    return f"{value} [{low}, {high}]{'*' * (TOO_NARROW in found.estimate.method)}" if low and high else value


def _legend(found: "AgreementResult", parts: "Sequence[DimensionAgreement]") -> "list[str]":
    from pluralrm.metrics.agreement import TOO_NARROW

    told = [f"{text}." for text in found.policies]
    numbers = [one.estimate for part in parts for one in part.coefficients if one.estimate]
    how = dict.fromkeys(one.method.split("; ")[1] for one in numbers)
    told += [
        f"Intervals: 95%, {text}." if text.startswith(("bootstrap", "exact")) else f"{text.capitalize()}."
        for text in how
    ]
    if any(TOO_NARROW in one.method for one in numbers):
        told.append("*: annotators differ on few items, so that the interval is too narrow.")
    missing = dict.fromkeys(one.why for part in parts for one in part.coefficients if one.estimate is None)
    told += [f"–: {why}." for why in missing]
    if len({(part.arm, part.dimension) for part in parts}) > 1:
        told.append("alpha: Krippendorff's, of the dimension's scale; AC: Gwet's, AC2 where labels have an order.")
        told.append("Every coefficient, and each domain: --dimension NAME; all dimensions: --json.")
    return told


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

    if out is not None:
        check_place(out)
    made, said = judged(plan, judgments)
    if made.declared.task == "four":
        _print_fours(made, said, wanted=out or figures, as_json=as_json)
        return
    found = claimed(made, said)
    if out is not None:
        write_page(out, claim_page(found))
    if figures is not None:
        note(f"wrote {', '.join(file.name for file in write_figures(found, figures))} in {figures}")
    if as_json:
        print_json(found.to_json())
    else:
        _print_claim(found)
    if found.first.contrary:
        raise typer.Exit(1)


def _print_claim(found: "ClaimResult") -> None:
    from pluralrm.annotate import claim_result as words

    print_wrapped(f"{found.benchmark}: is personal fit what separates the pairs?", style="bold")
    if found.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    print_wrapped(words.verdict(found), style="red" if found.first.contrary else "")
    print_wrapped(f"{words.stated(found.declared)} Plan {found.plan_hash[:16]}.")
    for arm in found.arms:
        _print_arm(arm)
    level = 100 * (1 - 2 * found.claim.alpha)
    ends = f"Intervals of tests at {level:g}%, others at 95%, robust to items and annotators; of majorities, to items."
    p = "p of tests: one-sided, of equality (±) the larger of two; of log odds: two-sided."
    print_legend([f"{ends} {p}", words.ABOUT, f"{'; '.join(found.policies)}."])


def _print_arm(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    console().print()
    print_wrapped(f"{arm.arm}: {words.SEEN[arm.arm]}", style="bold")
    print_wrapped(f"{words.counts(arm)} {words.survival(arm)} {words.ceiling(arm)}")
    rows = [(one.name, one.unit, words.measured(one), p_value(one.test.p), words.state(one.test)) for one in arm.tests]
    columns: list[tuple[str, Kind]] = [("test", "name"), ("in", "left"), ("estimate", "left"), ("p", "right")]
    console().print(table([*columns, ("", "left")], rows))
    if told := words.untold(arm):
        print_wrapped(told)
    _print_weights(arm)


def _print_weights(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    if not arm.weights:
        print_wrapped(f"No regression of the overall choice: {arm.why_no_weights}")
        return
    rows = [(words.named(one.name), estimated(one.log_odds, times=1, places=2), p_value(one.p)) for one in arm.weights]
    columns: list[tuple[str, Kind]] = [("the overall choice", "name"), ("log odds per step [95%]", "left")]
    console().print(table([*columns, ("p", "right")], rows))
    if told := words.held_down(arm):
        print_wrapped(told)


def _print_fours(plan: "AnnotationPlan", said: "list[Judgment]", *, wanted: Path | None, as_json: bool) -> None:
    """Print what people say of four answers."""
    from pluralrm.annotate.claim import fours

    if wanted is not None:
        raise SpecError(f"{wanted}: only the claim of two answers has a page and plots; leave out -o and --figures")
    found = fours(plan, said)
    if as_json:
        print_json(found.to_json())
        return
    print_wrapped(f"{found.benchmark}: do people pick the labelled answer?", style="bold")
    if found.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    for arm in found.arms:
        same = "no one could tell" if arm.same is None else estimated(arm.same)
        rows = [
            ("labelled answer picked (by chance 25)", "%", estimated(arm.picked)),
            ("items on which it is picked most", "%", estimated(arm.survives)),
            ("only one answer fits", "%", estimated(arm.only_one)),
            ("no answer fits", "%", estimated(arm.none)),
            ("paraphrases mean the same", "%", same),
            ("naturalness of the prompt", "1 to 5", estimated(arm.naturalness, times=1, places=2)),
        ]
        console().print()
        print_wrapped(f"{arm.picked.n:,} judgments of {arm.items:,} items by {arm.annotators:,} annotators")
        columns: list[tuple[str, Kind]] = [("", "name"), ("in", "left"), ("estimate [95%]", "left")]
        console().print(table(columns, rows))
    ends = "Intervals are robust to items and annotators. 'Cannot tell' counts as not picking the labelled answer."
    print_legend([ends, *([f"{found.left_out}."] if found.left_out else [])])

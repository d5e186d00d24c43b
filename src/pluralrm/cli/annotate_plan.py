"""`pluralrm annotate plan`: who sees what, and what that will show."""

import secrets
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from pluralrm.cli.options import BENCH
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import percent, print_json, print_wrapped
from pluralrm.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.annotate.plan import AnnotationPlan, Arm, Mode
    from pluralrm.annotate.planner import PlanRequest
    from pluralrm.annotate.rehearsal import PlanPower
    from pluralrm.core import Benchmark
    from pluralrm.stats.judgments import Goal, Labels

_GOALS = ("precision", "agreement", "claim")


def plan(
    benchmark: str = BENCH,
    out: Path = typer.Option(..., "--out", "-o", metavar="DIR", help="A new folder; it will hold the labels."),
    annotators: int = typer.Option(..., "--annotators", "-n", min=1, metavar="N", help="Annotators, in all arms."),
    each: int = typer.Option(3, "--judgments", "-k", min=1, metavar="K", help="Judgments per item and arm."),
    items: int | None = typer.Option(None, min=1, metavar="N", help="Number of items.", show_default="all"),
    goals: list[str] = typer.Option(
        [], "--for", metavar="GOAL", help="As many items as it takes for claim, precision=W or agreement=W."
    ),
    arms: str = typer.Option("", metavar="ARM,ARM", help="narrative, posts or prompt.", show_default="all it has"),
    mode: str = typer.Option("validate", help="validate (is the label right?) or own (what do you prefer?)."),
    condition: str = typer.Option("", "--condition", "-c", help="Which posts are shown: raw:10, recent:5, none."),
    checks: int = typer.Option(5, min=0, help="Attention checks per annotator."),
    repeats: int = typer.Option(3, min=0, help="Items that each annotator judges twice."),
    examples: int = typer.Option(2, min=0, help="Training items at the start, with feedback."),
    margin: float = typer.Option(0.1, metavar="M", help="A win rate of 0.5 ± M counts as equal."),
    rating_margin: float = typer.Option(0.5, metavar="S", help="Mean ratings of 1 to 5 closer than S count as equal."),
    floor: float = typer.Option(3.0, metavar="S", help="What mean ratings of 1 to 5 must exceed."),
    alpha: float = typer.Option(0.05, help="Significance level of the claim."),
    attention: float = typer.Option(0.8, metavar="P", help="Attention checks to pass, or be excluded."),
    power: float = typer.Option(0.8, help="Share of studies that should show a true claim."),
    ties: float = typer.Option(0.2, metavar="P", help="Expected share of ties."),
    likeness: float = typer.Option(0.3, metavar="R", help="Expected correlation of two judgments of an item."),
    lean: float = typer.Option(0.02, metavar="L", help="Expected correlation of an annotator's judgments."),
    seed: int | None = typer.Option(None, help="Seed of the orders.", show_default="drawn, and kept with the plan"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Assign items to annotators, blind and balanced, and print the power of the plan.

    The claim (margins, floor, alpha) and the rule for inattentive annotators are fixed here, before judging begins.
    """
    from pluralrm.annotate.plan import Claim
    from pluralrm.annotate.planner import PlanRequest, task_of
    from pluralrm.cli.options import open_benchmark
    from pluralrm.power import declared_labels

    if items is not None and goals:
        raise SpecError("--items and --for: one of them says how many items are judged; leave one out")
    labels = declared_labels(0.5, ties, likeness, lean)
    bench = open_benchmark(benchmark)  # placed as in runs; the screens have orders of their own
    ask = PlanRequest(
        annotators=annotators,
        each=each,
        claim=Claim(margin, floor, alpha, attention),
        mode=_mode(mode),
        arms=_arms(arms),
        rating_margin=rating_margin,
        items=items,
        checks=checks,
        repeats=repeats,
        examples=examples,
        condition=condition,
        # Who knows the seed and the benchmark could tell from a screen's place which answer is the labelled one.
        seed=secrets.randbits(62) if seed is None else seed,
    )
    if goals:
        if "claim" in goals and (mode == "own" or task_of(bench) != "pair"):
            raise SpecError("--for claim: only two answers that others asked for are claimed to differ in fit alone")
        ask = _sized(bench, ask, [_goal(text, margin) for text in goals], labels, power)
    _write(bench, ask, out, labels, power=power, as_json=as_json)


def _write(bench: "Benchmark", ask: "PlanRequest", out: Path, labels: "Labels", *, power: float, as_json: bool) -> None:
    """Make the plan, keep it, and print what it will show."""
    from pluralrm.annotate.plan import write_plan
    from pluralrm.annotate.planner import make_plan

    with ProgressDisplay("annotate plan: simulating what it shows"):
        plan = make_plan(bench, ask, key=secrets.token_hex(16))
        shows = _shows(plan, labels, power)
    write_plan(plan, out)
    if as_json:
        print_json(_as_json(plan, shows, out))
    else:
        _print(plan, ask, shows, out, power)


def _mode(text: str) -> "Mode":
    from pluralrm.annotate.plan import MODES

    if text not in MODES:
        raise SpecError(f"--mode {text!r}: wanted one of {', '.join(MODES)}.{did_you_mean(text, MODES)}")
    return text


def _arms(text: str) -> "tuple[Arm, ...]":
    from pluralrm.annotate.plan import ARMS

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ARMS:
            raise SpecError(f"--arms: unknown arm {name!r}.{did_you_mean(name, ARMS)}")
    return cast("tuple[Arm, ...]", tuple(names))


# ---------------------------------------------------------------- how many items


def _goal(text: str, margin: float) -> "tuple[Goal, float]":
    """Return a goal and its width; the claim is the equivalence of three win rates at once."""
    name, _, width = text.partition("=")
    if name not in _GOALS:
        raise SpecError(f"--for: unknown goal {name!r}.{did_you_mean(name, _GOALS)}")
    if name == "claim":
        if width:
            raise SpecError(f"--for {text}: the claim's margin is --margin {margin:g}; wanted --for claim")
        return "equivalence", margin
    try:
        return cast("Goal", name), float(width)
    except ValueError:
        raise SpecError(f"--for {text}: wanted a half-width, such as {name}=0.05") from None


def _sized(
    bench: "Benchmark", ask: "PlanRequest", goals: "Sequence[tuple[Goal, float]]", labels: "Labels", power: float
) -> "PlanRequest":
    """Return the ask with as many items as the goals take in each arm."""
    from dataclasses import replace

    from pluralrm.annotate.planner import arms_of
    from pluralrm.annotate.rehearsal import STUDIES, power_of_each
    from pluralrm.power import Aim, PowerSettings, plan_judgments

    in_arm = ask.annotators // len(arms_of(bench, ask))
    needed: list[int] = []
    for goal, within in goals:
        target = power_of_each(power) if goal == "equivalence" else power
        settings = PowerSettings(target, ask.claim.alpha, simulations=STUDIES)
        aim = Aim(goal, within, ask.claim.alpha)
        with ProgressDisplay(f"annotate plan: simulating studies for {goal}"):
            rows = plan_judgments(labels, [aim], [ask.each], settings, annotators=in_arm).needed
        if not rows or rows[0].items is None:
            raise SpecError(
                f"--for {goal} within {within:g}: no number of items is enough with {in_arm} annotators in an arm "
                f"and {ask.each} judgments of each item; wanted more annotators, or a wider margin"
            )
        needed.append(rows[0].items)
    return replace(ask, items=max(needed))


def _shows(plan: "AnnotationPlan", labels: "Labels", power: float) -> "PlanPower":
    """Return what the arm with the fewest annotators shows."""
    from collections import Counter

    from pluralrm.annotate.rehearsal import foreseen
    from pluralrm.stats.judgments import Design

    judged = sum(item.kind == "item" for item in plan.items)
    in_arm = min(Counter(plan.arm.values()).values())
    design = Design(judged, plan.declared.each, max(in_arm, 2))
    return foreseen(labels, design, plan.declared.claim, power=power)


# ---------------------------------------------------------------- what is printed


def _as_json(plan: "AnnotationPlan", shows: "PlanPower", out: Path) -> dict[str, object]:
    from dataclasses import asdict

    from pluralrm.annotate.rehearsal import screening

    declared = {**asdict(plan.declared), "claim": plan.declared.claim._asdict()}
    counts = {kind: sum(item.kind == kind for item in plan.items) for kind in ("item", "check", "example")}
    return {
        "folder": str(out),
        "content_hash": plan.content_hash,
        "declared": declared,
        "items": counts,
        "annotators": [annotator._asdict() for annotator in plan.annotators],
        "screens": {name: len(screens) for name, screens in plan.by_annotator.items()},
        "attention": screening(plan).to_json(),
        "shows": shows.to_json(),
    }


def _print(plan: "AnnotationPlan", ask: "PlanRequest", shows: "PlanPower", out: Path, power: float) -> None:
    from pluralrm.annotate.rehearsal import power_of_each
    from pluralrm.cli.power import points

    declared, loads = plan.declared, [len(screens) for screens in plan.by_annotator.values()]
    judged = sum(item.kind == "item" for item in plan.items)
    arms = f"{len(declared.arms)} arms ({', '.join(declared.arms)})" if len(declared.arms) > 1 else declared.arms[0]
    print_wrapped(
        f"{out}: {judged:,} items of {declared.benchmark}, {len(plan.annotators):,} annotators, {arms}", style="bold"
    )
    load = f"{min(loads):,}" if min(loads) == max(loads) else f"{min(loads):,} to {max(loads):,}"
    print_wrapped(
        f"{declared.each} judgments of each item in each arm; {load} screens for each annotator, with "
        f"{ask.examples if declared.mode == 'validate' else 0} examples, {ask.checks} attention checks and up to "
        f"{ask.repeats} repeats. Posts: {declared.condition}."
    )
    claim = declared.claim
    if plan.claims:
        print_wrapped(
            f"Stated before anybody judges: equal is a win rate within ±{points(claim.margin)} points of 50, and mean "
            f"ratings less than {declared.rating_margin:g} points apart; both answers' mean ratings above "
            f"{claim.floor:g}; alpha {claim.alpha:g}."
        )
    _print_screening(plan)
    print_wrapped(f"Plan {plan.content_hash[:16]}: who knows these digits can check that nothing was changed.")
    print_wrapped(f"In each arm, with {100 * power:g}% power:")
    width = "known to no better than ±49 points" if shows.precision is None else f"±{points(shows.precision)} points"
    rate = "win rate" if declared.task == "pair" else "share of an answer"
    print_wrapped(f"{rate}: {width}", first="  ")
    if shows.precision is not None and declared.task == "pair":
        far = points(shows.precision)
        print_wrapped(
            f"this can show a preference where the win rate found lies {far} points or more from 50, not a smaller one",
            first="  ",
            indent="    ",
        )
    if shows.agreement is not None:
        print_wrapped(f"how often two annotators agree: ±{points(shows.agreement)} points", first="  ")
    sizes = Counter(item.cluster for item in plan.items if item.kind == "item")
    if len(sizes) < judged:
        print_wrapped(
            f"these take the items for independent; they are of {len(sizes):,} users or records, up to "
            f"{max(sizes.values()):,} of one",
            first="  ",
            indent="    ",
        )
    if plan.claims:
        print_wrapped(
            f"one dimension that is equal is shown to be in {percent(shows.equivalence)}% of studies; the claim needs "
            "three at once",
            first="  ",
            indent="    ",
        )
        if shows.equivalence.value < power_of_each(power):
            print_wrapped("this is too small for the claim: --for claim finds how many items that takes", first="  ")


def _print_screening(plan: "AnnotationPlan") -> None:
    """Print who is left out for inattention, and how many of those who click without reading are not."""
    from pluralrm.annotate.rehearsal import MOST_CLICKERS, screening
    from pluralrm.cli.terminal import note

    result = screening(plan)
    share = f"{100 * result.clickers:.3g}%"
    if result.needed:
        print_wrapped(
            f"Left out is who passes fewer than {result.needed} of {result.checks} attention checks. Of people who "
            f"choose an answer without reading, {share} pass."
        )
    else:
        print_wrapped("No one is excluded for inattention: people who choose an answer without reading all pass.")
    if result.clickers > MOST_CLICKERS:
        note(f"{share} of those who click without reading pass: more --checks, or a higher --attention, let fewer")

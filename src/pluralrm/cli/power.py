"""`pluralrm power`: how many items, models, judgments it takes to tell."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import ON
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import Kind, console, percent, print_json, print_legend, print_wrapped, table, with_interval
from pluralrm.errors import SpecError
from pluralrm.text import counted, estimated

if TYPE_CHECKING:
    from pluralrm.core import Estimate
    from pluralrm.power import (
        ClustersNeeded,
        ItemsPlan,
        JudgmentsNeeded,
        JudgmentsPlan,
        ModelsNeeded,
        ModelsPlan,
        Pilot,
        PowerSettings,
        RatingsSummary,
    )


app = typer.Typer(no_args_is_help=True)

POWER = typer.Option(0.8, "--power", help="Share of studies that should detect a true effect.")
ALPHA = typer.Option(0.05, "--alpha", help="Significance level; divide it by the number of pairs compared.")
SIMULATIONS = typer.Option(2_000, "--simulations", min=200, help="Simulations per sample size.")
SEED = typer.Option(0, "--seed", help="Seed of the simulation.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command("items")
def items(
    paths: list[Path] = typer.Argument(None, metavar="RUN", help="Two runs on the same items, as a pilot."),
    difference: list[float] = typer.Option(
        [0.05], "--difference", "-d", metavar="D", help="Difference to detect; 0.02 is 2 points."
    ),
    items: list[int] = typer.Option(
        [], "--items", "-i", metavar="M", help="Items per user.", show_default="as in the runs"
    ),
    disagree: float | None = typer.Option(
        None, metavar="Q", help="Without runs: share of items where only one model is right."
    ),
    likeness: float | None = typer.Option(None, metavar="R", help="Correlation of the differences of a user's items."),
    power: float = POWER,
    alpha: float = ALPHA,
    simulations: int = SIMULATIONS,
    seed: int = SEED,
    on: str = ON,
    as_json: bool = JSON,
) -> None:
    """Print how many users, and items of each, `compare` needs to detect a difference of D."""
    from pluralrm.cluster import opened
    from pluralrm.metrics.estimates import synthesised_notes
    from pluralrm.power import ItemsQuestion, plan_declared, plan_for_runs
    from pluralrm.runs import load_runs

    if bool(paths) == (disagree is not None):
        raise SpecError("wanted two runs, or --disagree Q for models that have none yet, and not both")
    ask = ItemsQuestion(difference, items, likeness, _settings(power, alpha, simulations, seed))
    if likeness is not None and paths and not items:
        raise SpecError("--likeness: the runs' users are drawn whole, as alike as they are; it goes with --items M")
    runs = load_runs(paths) if disagree is None else []
    with ProgressDisplay("power items: simulating"), opened(on) as cluster:
        ask = replace(ask, cluster=cluster)
        plan = plan_for_runs(runs, ask) if disagree is None else plan_declared(disagree, ask)
    notes = synthesised_notes(runs)
    if as_json:
        print_json(plan.to_json() | {"notes": notes})
    else:
        print_items(plan, notes)


@app.command("models")
def models(
    paths: list[Path] = typer.Argument(None, metavar="RUN", help="Runs of several models, as a pilot of their noise."),
    correlation: list[float] = typer.Option([0.8], "--correlation", "-r", metavar="R", help="True rank correlation."),
    noise: float | None = typer.Option(
        None, metavar="E", help="Standard error of a score over the deviation of true scores."
    ),
    downstream_noise: float = typer.Option(0.0, metavar="E", help="The same for the downstream result."),
    present: int | None = typer.Option(
        None, "--models", metavar="N", help="Also print what N models show.", show_default="as many as runs"
    ),
    power: float = POWER,
    alpha: float = ALPHA,
    simulations: int = SIMULATIONS,
    seed: int = SEED,
    on: str = ON,
    as_json: bool = JSON,
) -> None:
    """Print how many models `correlate` needs to show that a benchmark predicts the downstream ranking."""
    from pluralrm.cluster import opened
    from pluralrm.metrics.estimates import synthesised_notes
    from pluralrm.power import ScoreNoise, noise_of_runs, plan_models
    from pluralrm.runs import load_runs

    if paths and noise is not None:
        raise SpecError("--noise: the runs say how noisy their scores are; leave one of them out")
    runs = load_runs(paths) if paths else []
    observed = noise_of_runs(runs) if runs else None
    declared = ScoreNoise(observed.value if observed else noise or 0.0, downstream_noise)
    settings = _settings(power, alpha, simulations, seed)
    present = present or (observed.n if observed else None)
    with ProgressDisplay("power models: simulating"), opened(on) as cluster:
        plan = plan_models(correlation, declared, settings, observed=observed, present=present, cluster=cluster)
    notes = synthesised_notes(runs)
    if as_json:
        print_json(plan.to_json() | {"notes": notes})
    else:
        print_models(plan, notes)


@app.command("judgments")
def judgments(
    ratings: Path | None = typer.Option(None, metavar="FILE", help="CSV with the columns item, annotator, label."),
    first: str = typer.Option("", metavar="LABEL", help="With --ratings: the label whose share is estimated."),
    second: str = typer.Option(
        "", metavar="LABEL", help="The label against it: a win rate, in which others count half."
    ),
    win: float | None = typer.Option(
        None, metavar="P", help="Without ratings: the win rate, or share.", show_default="0.5"
    ),
    ties: float | None = typer.Option(None, metavar="P", help="Without ratings: the share of ties.", show_default="0"),
    likeness: float | None = typer.Option(
        None, metavar="R", help="Correlation of two judgments of an item.", show_default="of the ratings, else 0.3"
    ),
    lean: float | None = typer.Option(
        None,
        metavar="L",
        help="Correlation of one annotator's judgments of different items.",
        show_default="of the ratings, else 0",
    ),
    annotators: int | None = typer.Option(
        None, min=2, metavar="N", help="Number of annotators.", show_default="as many as in the ratings"
    ),
    each: list[int] = typer.Option([1, 3], "--judgments", "-k", metavar="K", help="Annotators per item."),
    precision: list[float] = typer.Option([], metavar="W", help="Estimate the share, or win rate, to ± W."),
    agreement: list[float] = typer.Option([], metavar="W", help="Estimate how often two annotators agree, to ± W."),
    equivalence: list[float] = typer.Option([], metavar="M", help="Show that a win rate of one half is within ± M."),
    power: float = POWER,
    alpha: float = ALPHA,
    simulations: int = SIMULATIONS,
    seed: int = SEED,
    on: str = ON,
    as_json: bool = JSON,
) -> None:
    """Print how many items, judged by K annotators each, an estimate to ± W or an equivalence test needs."""
    from pluralrm.cluster import opened
    from pluralrm.power import Aim, declared_labels, plan_judgments

    settings = _settings(power, alpha, simulations, seed)
    seen = _judged(ratings, first, second)
    if seen is None:
        labels = declared_labels(
            0.5 if win is None else win, ties or 0.0, 0.3 if likeness is None else likeness, lean or 0.0
        )
    elif win is not None or ties is not None:
        raise SpecError(f"--win, --ties: {ratings} says how often each label comes; leave them out")
    else:
        labels, annotators = seen.with_declared(likeness, lean), annotators or seen.annotators
    aims = [
        *(Aim("precision", width, alpha) for width in precision),
        *(Aim("agreement", width, alpha) for width in agreement),
        *(Aim("equivalence", margin, alpha) for margin in equivalence),
    ]
    with ProgressDisplay("power judgments: simulating"), opened(on) as cluster:
        plan = plan_judgments(labels, aims, each, settings, annotators=annotators, observed=seen, cluster=cluster)
    if as_json:
        print_json(plan.to_json())
    else:
        print_judgments(plan)


def _judged(ratings: Path | None, first: str, second: str) -> "RatingsSummary | None":
    from pluralrm.power import judged, read_ratings

    if ratings is None:
        if first or second:
            raise SpecError("--first and --second name labels in a file: add --ratings FILE")
        return None
    summary = read_ratings(ratings)
    if not first:
        raise SpecError(f"--ratings {ratings}: which share? Add --first LABEL, {_some(summary.labels)}")
    return judged(summary, first, second)


def _some(labels: "Sequence[str]") -> str:
    """Return the labels that come most often."""
    from collections import Counter

    return "such as " + ", ".join(label for label, _ in Counter(labels).most_common(5))


def _settings(power: float, alpha: float, simulations: int, seed: int) -> "PowerSettings":
    from pluralrm.power import PowerSettings

    for name, value, most in (("power", power, 0.99), ("alpha", alpha, 0.5)):
        if not 0 < value <= most:
            raise SpecError(f"--{name} {value:g}: wanted a share, above 0 and up to {most:g}")
    if power <= alpha:
        raise SpecError(f"--power {power:g}: wanted more than --alpha {alpha:g}, which is what chance finds")
    return PowerSettings(power, alpha, simulations, seed)


# ---------------------------------------------------------------- tables


def print_items(plan: "ItemsPlan", notes: Sequence[str] = ()) -> None:
    """Print how many clusters of how many items tell each difference; `notes` say what to know of the runs."""
    print_wrapped(plan.title, style="bold")
    _print_notes(notes)
    noun = f"{plan.cluster}s"
    if plan.pilot:
        for text in _observed(plan, plan.pilot):
            print_wrapped(text)
    for need in plan.needed:
        print_wrapped(_needed(plan, need), indent="  ")
    console().print()
    rows = [
        (
            points(need.difference),
            f"{need.items:.3g}",
            f"{point.clusters:,}{'*' if need.clusters and point.clusters == need.clusters.value else ' '}",
            percent(point.found.by_p),
            percent(point.found.by_interval),
        )
        for need in plan.needed
        for point in need.curve
    ]
    columns: list[tuple[str, Kind]] = [("difference", "right"), ("items each", "right"), (noun, "right")]
    console().print(table([*columns, ("power by p [95%]", "left"), ("by interval [95%]", "left")], rows))
    print_legend(_legend(plan))


def _observed(plan: "ItemsPlan", pilot: "Pilot") -> "Iterator[str]":
    gap = pilot.difference
    yield f"observed: {with_interval(f'{100 * gap.value:+.1f}', gap)} points, p = {pilot.p:.3f}; {gap.method}"
    if pilot.likeness:
        yield (
            f"the differences on two items of one {plan.cluster} correlate by "
            f"{number(pilot.likeness)}; {pilot.likeness.method}"
        )
    if pilot.smallest is None:
        yield f"{pilot.clusters:,} {plan.cluster}s detect no difference on these items."
    else:
        yield (
            f"{pilot.clusters:,} {plan.cluster}s detect a difference of {points(pilot.smallest)} points or more "
            f"({portion(plan.settings.power)} power)."
        )


def _needed(plan: "ItemsPlan", need: "ClustersNeeded") -> str:
    each = f"of {need.items:.3g} item{'s' * (need.items != 1)} each"
    begins = f"to detect {points(need.difference)} points with {portion(plan.settings.power)} power: "
    if need.clusters is None:
        return f"{begins}more than {need.curve[-1].clusters:,} {plan.cluster}s {each}. Look for larger differences."
    whole = round(need.clusters.value)
    return f"{begins}{whole_interval(need.clusters)} {plan.cluster}s {each}, {round(whole * need.items):,} items"


def _legend(plan: "ItemsPlan") -> "Iterator[str]":
    level = portion(1 - plan.settings.alpha)
    failing = "; items fail as often as in these runs" if plan.pilot else ""
    yield f"assumes: {plan.assumption}; {plan.cluster}s are independent of each other{failing}."
    yield (
        f"power: share of {plan.settings.simulations:,} simulated benchmarks in which compare's p is below "
        f"{plan.settings.alpha:g}, and in which its {level} interval leaves out 0; their intervals are about the "
        "simulation. * the smallest number."
    )
    if plan.pilot:
        yield f"[...] after a number of {plan.cluster}s: what the variance of {plan.pilot.clusters:,} leaves open."


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print_wrapped(note, style="yellow")


def print_models(plan: "ModelsPlan", notes: Sequence[str] = ()) -> None:
    """Print how many models show each true rank correlation; `notes` say what to know of the runs."""
    print_wrapped("how many models until correlate says that a benchmark predicts the ranking?", style="bold")
    _print_notes(notes)
    if plan.observed:
        print_wrapped(f"observed noise of the benchmark: {number(plan.observed)}; {plan.observed.method}")
    for need in plan.needed:
        print_wrapped(_models(need, plan.settings.power), indent="  ")
    if plan.present is not None:
        tells = "no rank correlation" if plan.smallest is None else f"one of {plan.smallest:g} or more"
        print_wrapped(f"{plan.present} models show {tells} ({portion(plan.settings.power)} power).")
    console().print()
    rows = [
        (
            f"{need.correlation:g}",
            f"{point.models}{'*' if point.models == need.models else ' '}",
            percent(point.by_p),
            "–" if point.by_both is None else percent(point.by_both),
        )
        for need in plan.needed
        for point in need.curve
    ]
    columns: list[tuple[str, Kind]] = [("true correlation", "right"), ("models", "right")]
    console().print(table([*columns, ("power by p [95%]", "left"), ("and by interval [95%]", "left")], rows))
    print_legend(_models_legend(plan))


def _models(need: "ModelsNeeded", power: float) -> str:
    begins = f"to show a true rank correlation of {need.correlation:g} with {portion(power)} power: "
    if need.models is None:
        return f"{begins}more than {need.curve[-1].models} models"
    most = max(point.models for point in need.curve)
    both = f"{need.both} models" if need.both else f"more than {most} models"
    return f"{begins}{need.models} models, which see {number(need.seen)}; until the interval lies above 0 too, {both}"


def _models_legend(plan: "ModelsPlan") -> "Iterator[str]":
    yield (
        f"assumes: models are a random sample, true scores are normal; errors of {plan.noise.benchmark:.2g} on the "
        f"benchmark and {plan.noise.downstream:.2g} downstream, in standard deviations of the models' true scores."
    )
    yield (
        "power: share of simulated studies in which correlate's permutation p of Spearman's correlation is below "
        f"{plan.settings.alpha:g} and its sign right, and in which its 95% interval lies above 0 too; their intervals "
        "are about the simulation. * the smallest number."
    )
    yield "see: Spearman's correlation of such studies, with errors: the mean, and the middle 95%."


def print_judgments(plan: "JudgmentsPlan") -> None:
    """Print how many items, judged so often each, reach each goal."""
    print_wrapped("how many judgments does it take?", style="bold")
    if plan.observed:
        if plan.observed.rehearsal:
            print_wrapped("REHEARSAL: these judgments are simulated", style="red")
        for text in _rated(plan.observed):
            print_wrapped(text)
    for need in plan.needed:
        print_wrapped(_judged_labels(need, plan), indent="  ")
    console().print()
    rows = [
        (
            f"{_GOALS[need.aim.goal]} ±{points(need.aim.within)}",
            str(need.each),
            f"{point.items:,}{'*' if point.items == need.items else ' '}",
            f"{point.items * need.each:,}",
            percent(point.reached),
        )
        for need in plan.needed
        for point in need.curve
    ]
    columns: list[tuple[str, Kind]] = [("goal, points", "left"), ("per item", "right"), ("items", "right")]
    console().print(table([*columns, ("judgments", "right"), ("power [95%]", "left")], rows))
    print_legend(_judgments_legend(plan))


_GOALS = {"precision": "share", "agreement": "agreement", "equivalence": "half"}
_SENTENCES = {
    "precision": "to know a share of {mean} to ±{within} points",
    "agreement": "to know an agreement of {agreement} to ±{within} points",
    "equivalence": "to show that a win rate of 50% is within ±{within} points of it",
}


def _judged_labels(need: "JudgmentsNeeded", plan: "JudgmentsPlan") -> str:
    labels = plan.labels
    begins = _SENTENCES[need.aim.goal].format(
        mean=portion(labels.mean), agreement=portion(labels.agreement), within=points(need.aim.within)
    )
    each = f"{counted(need.each, 'judgment')} each"
    if need.items is None:
        more = " More annotators, or a wider margin." if plan.annotators else " A wider margin."
        return f"{begins}: more than {need.curve[-1].items:,} items of {each}.{more}"
    total = need.items * need.each
    load = (
        "" if plan.annotators is None else f", {-(-total // plan.annotators):,} by each of {plan.annotators} annotators"
    )
    return f"{begins} with {portion(plan.settings.power)} power: {need.items:,} items of {each}, {total:,} in all{load}"


def _rated(pilot: "RatingsSummary") -> "Iterator[str]":
    yield f"observed: {pilot.items:,} items, {pilot.annotators:,} annotators, a share of {portion(pilot.labels.mean)}"
    if pilot.likeness:
        yield f"two judgments of one item correlate by {number(pilot.likeness)}; {pilot.likeness.method}"
    if pilot.lean:
        yield f"two judgments of one annotator correlate by {number(pilot.lean)}; {pilot.lean.method}"


def _judgments_legend(plan: "JudgmentsPlan") -> "Iterator[str]":
    labels, who = plan.labels, "each judgment is by another annotator"
    if plan.annotators is not None:
        who = f"{plan.annotators} annotators judge equally many; the judgments of each correlate by {labels.lean:.2g}"
    yield f"assumes: two judgments of one item correlate by {labels.likeness:.2g}; {who}; items are independent."
    yield (
        "power: share of simulated studies whose interval is as narrow as wanted; its own interval is about the "
        "simulation. * the smallest number."
    )
    if any(need.aim.goal == "equivalence" for need in plan.needed):
        level = portion(1 - 2 * plan.settings.alpha)
        yield f"half: two one-sided tests; the {level} interval lies within the margin where the true win rate is 50%."


def points(difference: float) -> str:
    """Return a difference of shares in points: 2, 0.5, 12.3."""
    return f"{100 * difference:.3g}"


def portion(part: float) -> str:
    """Return a share in per cent: 80%, 99.5%."""
    return f"{100 * part:.3g}%"


def number(estimate: "Estimate") -> str:
    """Return a correlation with its interval."""
    return estimated(estimate, times=1, places=2)


def whole_interval(estimate: "Estimate") -> str:
    """Return a whole number with its interval, where it has one."""
    ends = (
        "" if estimate.low is None or estimate.high is None else f" [{round(estimate.low):,}, {round(estimate.high):,}]"
    )
    return f"{round(estimate.value):,}{ends}"

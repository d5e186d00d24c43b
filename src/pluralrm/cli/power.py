"""`pluralrm power`: how many items, models, judgments it takes to tell."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.terminal import print_json
from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from pluralrm.power import PowerSettings, RatingsSummary

app = typer.Typer(help="How many items, models or judgments does it take to tell?", no_args_is_help=True)

POWER = typer.Option(0.8, "--power", help="How often what is there should be found.")
ALPHA = typer.Option(0.05, "--alpha", help="What p must be below; divide it by the number of pairs that are compared.")
SIMULATIONS = typer.Option(2_000, "--simulations", min=200, help="How many are drawn for each number that is tried.")
SEED = typer.Option(0, "--seed", help="Of the simulation.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command("items")
def items(
    paths: list[Path] = typer.Argument(None, metavar="RUN", help="Two runs on the same items: how much they vary."),
    difference: list[float] = typer.Option(
        [0.05], "--difference", "-d", metavar="D", help="To tell; 0.02 is 2 points."
    ),
    items: list[int] = typer.Option([], "--items", "-i", metavar="M", help="Items per user; as in the runs, if none."),
    disagree: float | None = typer.Option(
        None, metavar="Q", help="Without runs: share where one model alone is right."
    ),
    likeness: float | None = typer.Option(None, metavar="R", help="Correlation of the differences of a user's items."),
    power: float = POWER,
    alpha: float = ALPHA,
    simulations: int = SIMULATIONS,
    seed: int = SEED,
    as_json: bool = JSON,
) -> None:
    """Say how many users, and items of each, it takes until `compare` tells two models apart that differ by D."""
    from pluralrm.cli.planned import print_items
    from pluralrm.metrics.estimates import synthesised_notes
    from pluralrm.power import ItemsQuestion, plan_declared, plan_for_runs
    from pluralrm.runs import load_runs

    if bool(paths) == (disagree is not None):
        raise SpecError("wanted two runs, or --disagree Q for models that have none yet, and not both")
    ask = ItemsQuestion(difference, items, likeness, _settings(power, alpha, simulations, seed))
    if likeness is not None and paths and not items:
        raise SpecError("--likeness: the runs' users are drawn whole, as alike as they are; it goes with --items M")
    runs = load_runs(paths) if disagree is None else []
    plan = plan_for_runs(runs, ask) if disagree is None else plan_declared(disagree, ask)
    notes = synthesised_notes(runs)
    if as_json:
        print_json(plan.to_json() | {"notes": notes})
    else:
        print_items(plan, notes)


@app.command("models")
def models(
    paths: list[Path] = typer.Argument(None, metavar="RUN", help="Runs of several models: how noisy their scores are."),
    correlation: list[float] = typer.Option([0.8], "--correlation", "-r", metavar="R", help="True rank correlation."),
    noise: float | None = typer.Option(None, metavar="E", help="Error of a score over the spread of the models' own."),
    downstream_noise: float = typer.Option(0.0, metavar="E", help="The same of the downstream result."),
    present: int | None = typer.Option(None, "--models", metavar="N", help="What do N models show? As many as runs."),
    power: float = POWER,
    alpha: float = ALPHA,
    simulations: int = SIMULATIONS,
    seed: int = SEED,
    as_json: bool = JSON,
) -> None:
    """Say how many models it takes until `correlate` shows that a benchmark predicts the ranking downstream."""
    from pluralrm.cli.planned import print_models
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
    plan = plan_models(correlation, declared, settings, observed=observed, present=present)
    notes = synthesised_notes(runs)
    if as_json:
        print_json(plan.to_json() | {"notes": notes})
    else:
        print_models(plan, notes)


@app.command("judgments")
def judgments(
    ratings: Path | None = typer.Option(None, metavar="FILE", help="CSV with the columns item, annotator, label."),
    first: str = typer.Option("", metavar="LABEL", help="With --ratings: the label whose share is asked about."),
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
        None, metavar="L", help="That of one annotator's on different items.", show_default="of the ratings, else 0"
    ),
    annotators: int | None = typer.Option(
        None, min=2, metavar="N", help="In all.", show_default="as many as in the ratings"
    ),
    each: list[int] = typer.Option([1, 3], "--judgments", "-k", metavar="K", help="Annotators that judge an item."),
    precision: list[float] = typer.Option([], metavar="W", help="Know the share, or win rate, to +- W."),
    agreement: list[float] = typer.Option([], metavar="W", help="Know how often two annotators agree to +- W."),
    equivalence: list[float] = typer.Option([], metavar="M", help="Show a win rate of one half to be within +- M."),
    power: float = POWER,
    alpha: float = ALPHA,
    simulations: int = SIMULATIONS,
    seed: int = SEED,
    as_json: bool = JSON,
) -> None:
    """Say how many items, judged by K annotators each, it takes to know a share to +- W, or to show equivalence."""
    from pluralrm.cli.planned import print_judgments
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
    plan = plan_judgments(labels, aims, each, settings, annotators=annotators, observed=seen)
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
    found = read_ratings(ratings)
    if not first:
        raise SpecError(f"--ratings {ratings}: whose share is asked about? Add --first LABEL, {_some(found.labels)}")
    return judged(found, first, second)


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

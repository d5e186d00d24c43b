"""`pluralrm compare`: the leaderboard of some runs."""

from pathlib import Path

import typer

from pluralrm.cli.board import TieRule
from pluralrm.cli.options import HUMAN, asked
from pluralrm.cli.terminal import note


def compare(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    by: str = typer.Option(
        "", "--by", metavar="TAG", help="Also per group of a tag: each, the worst, the gap; 'domain': every metric."
    ),
    ties: TieRule = typer.Option(TieRule.SHARE, "--ties", help="What an equal score of the preferred answer earns."),
    calibration: bool = typer.Option(
        False, "--calibration", help="Also: is sigmoid(score - score) the chance to be right? Two candidates."
    ),
    human: list[str] = HUMAN,
    seed: int = typer.Option(0, help="Of the resampling."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Rank runs on the same items: headline, interval, rank range, and the published formula beside it."""
    from pluralrm.cli.board import print_boards
    from pluralrm.runs import load_runs

    runs = load_runs(paths)
    print_boards(runs, seed=seed, by=by, ties=ties.rule, as_json=as_json, calibrated=calibration, people=asked(human))
    if not as_json:
        note(f"with plots and every item: pluralrm report {' '.join(map(str, paths))} -o report.html")

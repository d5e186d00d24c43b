"""`--human PLAN[:FILE]`: what people said, beside runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.terminal import print_wrapped

if TYPE_CHECKING:
    from pluralrm.core import Run
    from pluralrm.report import Asked
    from pluralrm.report.human import Human

HUMAN = typer.Option(
    [],
    "--human",
    metavar="PLAN[:FILE]",
    help="Show what people named beside the runs: an annotation plan, and its judgments where they lie elsewhere.",
)


def asked(plans: Sequence[str]) -> "list[Asked]":
    """Return plans with what their annotators said."""
    if not plans:
        return []
    from pluralrm.report import read_asked

    return [read_asked(*_parted(text)) for text in plans]


def _parted(text: str) -> tuple[Path, Path | None]:
    """Return a plan's folder, and the file of its judgments where one is named."""
    plan, found, file = text.rpartition(":")
    return (Path(text), None) if not found or Path(text).is_dir() else (Path(plan), Path(file))


def beside(people: "Sequence[Asked]", groups: "Sequence[Sequence[Run]]") -> "list[Human | None]":
    """Return people beside each group of runs on the same items; None where nobody was asked."""
    if not people:
        return [None] * len(groups)
    from pluralrm.report.human import humans

    return humans(people, groups)


def human_json(human: "Human | None", group: "Sequence[Run]") -> dict[str, object]:
    """Return the field `human` of a leaderboard; null where nobody judged its items."""
    return {"human": None if human is None else human.to_json(group)}


def print_human(human: "Human | None", group: "Sequence[Run]") -> None:
    """Print what people named on the items of a leaderboard, and what its best run earns there."""
    if human is None:
        return
    from pluralrm.report.ceiling import people_told
    from pluralrm.report.words import capital

    words = " ".join(capital(text) for text in people_told(human, group))
    print_wrapped(words, indent="  ", style="red" if human.rehearsal else "")

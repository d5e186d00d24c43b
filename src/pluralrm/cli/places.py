"""What the place of an answer does to the judges among some runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, percent, print_legend, print_wrapped, table

if TYPE_CHECKING:
    from pluralrm.core import Run

_COLUMNS: list[tuple[str, Kind]] = [
    ("model", "name"),
    ("condition", "name"),
    ("consistent [95%]", "left"),
    ("first [95%]", "left"),
]


def print_places(group: "Sequence[Run]") -> None:
    """Print position consistency and first position rate of the runs whose rows hold votes; nothing without any."""
    judges = [run for run in group if any(row.votes for row in run.rows)]
    if not judges:
        return
    console().print()
    print_wrapped("What the place of an answer does", style="bold")
    console().print(table(_COLUMNS, [_row(run) for run in judges]))
    consistent = "consistent: items with one outcome in all orders asked"
    first = f"first: calls that put the answer shown first on top; {_fair(judges)} without a liking for a place"
    print_legend([f"Per cent. {consistent}. {first}."])


def _row(run: "Run") -> list[str]:
    from pluralrm.metrics import positions

    found = positions(run)
    consistent = "asked in one order" if found.consistency is None else percent(found.consistency)
    return [run.model, run.condition, consistent, percent(found.first)]


def _fair(judges: "Sequence[Run]") -> str:
    """Return the share of calls in which the first is on top by chance: one over the number of answers shown."""
    shown = {len(vote.order) for run in judges for row in run.rows for vote in row.votes}
    return " or ".join(f"{100 / number:.0f}" for number in sorted(shown))

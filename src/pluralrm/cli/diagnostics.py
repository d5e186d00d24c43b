"""Diagnostics of runs: position bias of judges, and calibration (does a score difference mean a probability?)."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, table
from pluralrm.errors import MetricError
from pluralrm.text import counted

if TYPE_CHECKING:
    from pluralrm.core import Run
    from pluralrm.metrics import Calibration


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
    print_wrapped("Position bias", style="bold")
    console().print(table(_COLUMNS, [_position_row(run) for run in judges]))
    consistent = "consistent: items with one outcome in all orders asked"
    first = f"first: calls that put the answer shown first on top; {_fair(judges)} without position bias"
    print_legend([f"Per cent. {consistent}. {first}."])


def _position_row(run: "Run") -> list[str]:
    from pluralrm.metrics import positions

    position = positions(run)
    consistent = "asked in one order" if position.consistency is None else percent(position.consistency)
    return [run.model, run.condition, consistent, percent(position.first)]


def _fair(judges: "Sequence[Run]") -> str:
    """Return the share of calls in which the first is on top by chance: one over the number of answers shown."""
    sizes = {len(vote.order) for run in judges for row in run.rows for vote in row.votes}
    return " or ".join(f"{100 / number:.0f}" for number in sorted(sizes))


_LEGEND = (
    "Points. error: mean distance of sureness and accuracy over ten bins of sureness, sigmoid(score - score); 0 where "
    "a score difference means a probability. over: mean sureness - accuracy; above 0 is overconfident. Only models "
    "trained as probabilities (personal:, Bradley-Terry heads) are meant to be calibrated. bins: sure > right (items)."
)
_FAILED: tuple[str, Kind] = ("failed", "left")
_HIDDEN = (
    "failed: items left out of error and over, and the range of the plain error of all items, whatever those would "
    "have said. A model with failed items is not better calibrated than the upper end."
)


def print_calibration(group: "Sequence[Run]") -> None:
    """Print the calibration of each run of two candidates, and on stderr why others have none."""
    rows = list(_calibrated(group))
    if not rows:
        return
    console().print()
    print_wrapped(f"{group[0].benchmark}: is a score difference a probability?", style="bold")
    columns: list[tuple[str, Kind]] = [("model", "name"), ("condition", "name"), ("error [95%]", "left")]
    failed = any(result.bounds for _, result in rows)
    columns += [("over [95%]", "left"), *([_FAILED] if failed else [])]
    console().print(table(columns, [_row(run, result, failed=failed) for run, result in rows]))
    bins = [f"{run.model} under {run.condition}: {_bins(result)}" for run, result in rows]
    print_legend([_LEGEND, *([_HIDDEN] if failed else []), *bins])


def _row(run: "Run", calibration: "Calibration", *, failed: bool) -> list[str]:
    cells = [run.model, run.condition, percent(calibration.error), percent(calibration.overconfidence)]
    if not failed:
        return cells
    if (bounds := calibration.bounds) is None:
        return [*cells, "0"]
    return [*cells, f"{bounds.failed}: {100 * bounds.error_low:.1f} to {100 * bounds.error_high:.1f}"]


def calibration_json(group: "Sequence[Run]") -> list[dict[str, object]]:
    """Return the same for --json."""
    return [{"model": run.model, "condition": run.condition, **result.to_json()} for run, result in _calibrated(group)]


def _calibrated(group: "Sequence[Run]") -> "Iterator[tuple[Run, Calibration]]":
    from pluralrm.metrics import calibration

    for run in group:
        try:
            yield run, calibration(run)
        except MetricError as exc:
            note(f"no calibration of {run.model} under {run.condition}: {exc}")


def _bins(calibration: "Calibration") -> str:
    return ", ".join(f"{100 * part.sure:.0f} > {100 * part.right:.0f} ({part.items})" for part in calibration.bins)


def print_failures(run: "Run", whose: str = "") -> None:
    """Print each kind of failure with its count and first detail; with `whose` also where to see more."""
    from collections import Counter

    from pluralrm.core import Failure

    first = {row.item: next((s for s in row.scores if isinstance(s, Failure)), None) for row in run.rows}
    failures = {item: failure for item, failure in first.items() if failure is not None}
    for kind, count in Counter(failure.kind for failure in failures.values()).most_common():
        item, example = next((item, failure) for item, failure in failures.items() if failure.kind == kind)
        text = f"{whose}failed ({kind}): {counted(count, 'item')}, as in {item}: {example.detail}"
        if whose:
            text += f"; more: pluralrm show {run.path}"
        print_wrapped(text, first="  ", indent="    ", style="yellow")

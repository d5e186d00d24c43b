"""Diagnostics of runs: position bias of judges, calibration (does a score difference mean a probability?), and
`compare --plural`: whom each model leaves behind, and whether a group of users would rather have another model.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import TableFormat, print_records
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, table
from pluralrm.errors import MetricError
from pluralrm.text import bounds, counted, estimated, points

if TYPE_CHECKING:
    from pluralrm.core import Estimate, Run
    from pluralrm.display import Record
    from pluralrm.metrics import Calibration
    from pluralrm.metrics.plural import Plural


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
    from pluralrm.metrics.estimates import failure_kinds

    for kind, count, item, detail in failure_kinds(run):
        text = f"{whose}failed ({kind}): {counted(count, 'item')}, as in {item}: {detail}"
        if whose:
            text += f"; more: pluralrm show {run.path}"
        print_wrapped(text, first="  ", indent="    ", style="yellow")


PLURAL = typer.Option(
    False, "--plural", help="By user: the worst-served tenth, regret, welfare, groups that prefer another model."
)
LIST = typer.Option(
    [], "--list", metavar="MODEL", help="With --plural: test this list for groups that it leaves out; repeat for more."
)
PLURAL_SHARES = ("accuracy", "worst_decile", "below_mean", "regret", "utilitarian", "nash", "calibration_error")
"""Columns of the table of users that papers print in per cent."""
_WIDE = 110
"""Cells from which on there is one table of users."""


def plural_groups(groups: "Sequence[Sequence[Run]]", listed: Sequence[str], seed: int) -> "list[Plural | None]":
    """Return the plural numbers of each group of runs, None without users, said on stderr; raise where none has any."""
    from pluralrm.errors import MetricError
    from pluralrm.metrics.plural import plural

    results: list[Plural | None] = []
    reasons = []
    for group in groups:
        try:
            with ProgressDisplay(f"{group[0].benchmark}: users of {counted(len(group), 'run')}"):
                results.append(plural(group, listed=listed, seed=seed))
        except MetricError as exc:
            results.append(None)
            reasons.append(str(exc))
    if not any(result for result in results):
        raise MetricError(f"{' '.join(dict.fromkeys(reasons))} 'pluralrm list benchmarks' says which have users")
    for reason in dict.fromkeys(reasons):
        note(reason)
    return results


def plural_json(groups: "Sequence[Sequence[Run]]", listed: Sequence[str], seed: int) -> "list[dict[str, object]]":
    """Return the same for --json: null where a group has no users."""
    results = plural_groups(groups, listed, seed)
    return [{"plural": None if result is None else result.to_json()} for result in results]


def print_plural_form(runs: "Sequence[Run]", listed: Sequence[str], seed: int, form: TableFormat) -> None:
    """Write a record per model as CSV, Markdown or LaTeX."""
    print_records(plural_records(runs, listed, seed), form, PLURAL_SHARES)


def plural_records(runs: "Sequence[Run]", listed: Sequence[str], seed: int) -> "list[Record]":
    """Return a record per model with users, of each set of items."""
    from pluralrm.metrics.overview import same_items

    results = plural_groups(same_items(runs), listed, seed)
    return [record for result in results if result is not None for record in result.records()]


def print_plural(runs: "Sequence[Run]", listed: Sequence[str], seed: int, *, quiet: bool = False) -> None:
    """Print the answer in sentences, a row per model, with whom each model sides, and a row per list."""
    from pluralrm.metrics.overview import same_items
    from pluralrm.metrics.plural import answer, legend

    for result in plural_groups(same_items(runs), listed, seed):
        if result is None:
            continue
        console().print()
        head = f"{result.benchmark}: {counted(result.users, 'user')}, {counted(result.items, 'item')}"
        print_wrapped(head, style="bold")
        print_wrapped(answer(result), style="bold")
        _print_users(result)
        _print_sides(result)
        _print_lists(result)
        for text in result.left_out:
            note(f"left out: {text}")
        if not quiet:
            print_legend(legend(result))


def _print_users(result: "Plural") -> None:
    """Print one table in a wide terminal, else two."""
    titles = ["user mean", "worst tenth", "below mean", "regret", "Nash", "calibration"]
    rows = [
        [
            *(_share(row.utilitarian), _share(row.worst_decile), _points(row.below_mean), _points(row.regret)),
            *(_share(row.nash), _share(row.calibration.error if row.calibration else None)),
        ]
        for row in result.rows
    ]
    full = [n for n in range(len(titles)) if any(cells[n] != "–" for cells in rows)]
    parts = [full] if console().width >= _WIDE else [[n for n in full if n < 4], [n for n in full if n >= 4]]
    for part in parts:
        columns: list[tuple[str, Kind]] = [("model", "name"), *((titles[n], "left") for n in part)]
        texts = [[row.label, *(cells[n] for n in part)] for row, cells in zip(result.rows, rows, strict=True)]
        console().print()
        console().print(table(columns, texts))


def _print_sides(result: "Plural") -> None:
    for against in dict.fromkeys(sides.against for row in result.rows for sides in row.sides):
        pairs = [(row.label, sides) for row in result.rows for sides in row.sides if sides.against == against]
        settles = [sides.settles for _, sides in pairs if sides.settles is not None]
        power = f" settle ±{100 * max(settles):.1f} points" if settles else ""
        crowd = "the crowd" if against == "crowd" else "their own world ranking"
        console().print()
        print_wrapped(f"Where person and {crowd} differ: {counted(pairs[0][1].person.n, 'item')}{power}")
        columns: list[tuple[str, Kind]] = [("model", "name"), ("with the person", "left"), (f"with {crowd}", "left")]
        rows = [
            [label, _share(sides.person), _share(sides.crowd), _share(sides.neither), str(sides.person.failed)]
            for label, sides in pairs
        ]
        columns.append(("neither", "left"))
        if any(sides.person.failed for _, sides in pairs):
            columns.append(("failed", "right"))
        console().print(table(columns, [row[: len(columns)] for row in rows]))


def _print_lists(result: "Plural") -> None:
    if not result.lists:
        return
    columns: list[tuple[str, Kind]] = [("list", "name"), ("preferred", "name"), ("by users", "left"), ("over", "right")]
    rows = []
    for label, entry in result.lists:
        k = len(entry.listed)
        cells = [label, result.rows[entry.rival].label, _share(entry.group), f"{100 / k:.0f}" if k > 1 else ""]
        rows.append([*cells, _points(entry.advantage), entry.verdict if k > 1 else ""])
    console().print()
    console().print(table([*columns, ("other items", "left"), ("", "left")], rows))


def _share(estimate: "Estimate | None") -> str:
    return estimated(estimate) if estimate is None else f"{100 * estimate.value:.1f}{bounds(estimate, places=0)}"


def _points(estimate: "Estimate | None") -> str:
    return points(estimate) + ("" if estimate is None else bounds(estimate, places=0))

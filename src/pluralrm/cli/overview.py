"""The answer on the screen: one row per model, controls as columns, a sentence for each model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, print_wrapped, table
from pluralrm.text import counted, estimated, points

if TYPE_CHECKING:
    from pluralrm.core import Estimate, Run
    from pluralrm.metrics.overview import Overview, OverviewRow

_COLOURS = {"good": "green", "bad": "red", "partial": "yellow"}
_WIDE = 120
"""Cells from which on the controls have columns of their own."""


def print_overview(
    runs: "Sequence[Run]",
    *,
    seed: int = 0,
    names: Mapping[str, str] | None = None,
    baselines: Sequence[str] = (),
    quiet: bool = False,
    more: str = "",
) -> None:
    """Print the table of runs on the same items, and unless `quiet` a sentence for each model that is no baseline.

    `names` are what models are called; `more` is the command that says more.
    """
    from pluralrm.metrics.overview import MOODS, answer, leaders, overview, sentence, short_names

    found = overview(runs, seed=seed)
    short = short_names([row.model for row in found.rows]) | dict(names or {})
    console().print()
    print_wrapped(_title(found), style="bold")
    columns = _columns(found)
    moods = [MOODS.get(row.verdict, "") for row in found.rows]
    styles = {place: _COLOURS[mood] for place, mood in enumerate(moods) if mood}
    texts = [_row(row, found, short, len(columns)) for row in found.rows]
    console().print(table(columns, texts, styles=styles))
    if quiet:
        return
    console().print()
    if told := answer(found, short):
        print_wrapped(told, style="bold")
    for row in found.rows:
        if row.model not in baselines and (told := sentence(row, found, short)):
            print_wrapped(told)
    print_wrapped(leaders(found, short))
    for run in runs:
        if "oracle" in run.reveals:
            continue
        for text in run.trained:
            print_wrapped(f"TRAINED: {text}", style="red")
    if more:
        print_wrapped(more, style="dim")


def print_answer(runs: "Sequence[Run]") -> None:
    """Print how many of the models are personalized, and which."""
    from pluralrm.metrics.overview import answer, overview, short_names

    found = overview(runs)
    print_wrapped(answer(found, short_names([row.model for row in found.rows])), style="bold")


def _title(found: "Overview") -> str:
    people = counted(found.clusters, found.cluster)
    own = f"; own = {', '.join(found.own)}" if found.own else ""
    return (
        f"{found.benchmark}: {people}, {counted(found.items, 'item')}{own}; chance {100 * found.chance:.0f}; 95% "
        "intervals"
    )


def _columns(found: "Overview") -> "list[tuple[str, Kind]]":
    title = {"accuracy": "accuracy", "bon": "BoN"}.get(found.headline, found.headline)
    columns: list[tuple[str, Kind]] = [("model", "name"), (f"{title} [95%]", "left")]
    if not found.own:
        others: list[tuple[str, Kind]] = [
            (short, "right") for name, short in _OTHERS.items() if name in found.rows[0].metrics
        ]
        prompts: list[tuple[str, Kind]] = [("prompt sensitivity", "left")] if found.rows[0].sensitivity else []
        return columns + others + prompts
    columns += [("lift: own-none", "left"), ("gain: own-other", "left"), ("verdict", "left")]
    if console().width >= _WIDE:
        columns += [("none", "right"), ("other", "right"), ("nearest", "right"), ("oracle gap closed", "right")]
    return columns


_OTHERS = {"pair": "pair", "consistency": "consistency"}


def _row(row: "OverviewRow", found: "Overview", names: Mapping[str, str], width: int) -> list[str]:
    cells = [names[row.model], _number(row.metrics[found.headline])]
    if not found.own:
        cells += [f"{100 * row.metrics[name].value:.0f}" for name in _OTHERS if name in row.metrics]
        return [*cells, _points(row.sensitivity)][:width]
    personal = row.personal
    lift, gain = (personal.lift, personal.gain) if personal else (None, None)
    cells += [_points(lift), _points(gain), row.verdict]
    if personal is not None:
        cells += [_share(personal.accuracy.get(role)) for role in ("none", "swapped", "nearest")]
        cells.append(_share(personal.numbers["gap_closed"]))
    return [*cells, *[""] * width][:width]


def _number(found: "Estimate") -> str:
    return f"{100 * found.value:.1f} {_interval(found, 0)}"


def _points(found: "Estimate | None") -> str:
    return "–" if found is None else f"{points(found):>5} {_interval(found, 3)}"


def _interval(found: "Estimate", cells: int) -> str:
    if found.low is None or found.high is None:
        return "fixed"
    return f"[{100 * found.low:{cells or 1}.0f}, {100 * found.high:{max(cells - 1, 1)}.0f}]"


def _share(found: "Estimate | None") -> str:
    return estimated(found and found.value)

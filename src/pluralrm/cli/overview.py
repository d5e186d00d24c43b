"""The answer on the screen: one row per model, controls as columns, a sentence for each model."""

import shlex
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.cli.options import TEXT_FORMS, TableFormat, print_records
from pluralrm.cli.terminal import Kind, clean, console, print_wrapped, table
from pluralrm.text import counted, estimated, flat, points

if TYPE_CHECKING:
    from pluralrm.core import Estimate, Role, Run, Ties
    from pluralrm.metrics.overview import Overview, OverviewRow

_COLOURS = {"good": "green", "bad": "red", "partial": "yellow"}
_WIDE = 120
"""Cells from which on the controls have columns of their own."""
_OTHERS = {"pair": "pair", "consistency": "consistency"}
_ROLES: "tuple[Role, ...]" = ("none", "swapped", "nearest")
_APART = 2
"""So many models that saw another context than most are named in the title, more in their rows."""
_SPOKEN = 3
"""Baselines that get a sentence where there is no other model."""


class View(NamedTuple):
    """How the answer is shown."""

    quiet: bool = False
    """The table alone."""
    seed: int = 0
    ties: "Ties" = "share"
    baselines: Collection[str] | None = None
    """The models without a sentence of their own; by default those that the package ships."""
    asking: str | None = ""
    """The command that is running, to which --controls can be added; '' where runs were read, None if it has them."""


def print_overview(runs: "Sequence[Run]", view: View = View()) -> None:
    """Print the table of runs on the same items; unless quiet, what it says of each model, and what is missing."""
    from pluralrm.metrics.overview import answer, leaders, model_names, overview

    found = overview(runs, seed=view.seed, ties=view.ties)
    names = model_names(runs)
    _print_table(found, names)
    if view.quiet:
        return
    console().print()
    if text := answer(found, names):
        print_wrapped(text, style="bold")
    _print_sentences(found, names, view.baselines)
    if text := leaders(found, names):
        print_wrapped(text)
    _print_remarks(runs, names, view.ties)
    if view.asking is not None:
        reason, words = _missing(found, runs, view.asking)
        if reason:
            print_wrapped(reason, style="bold")
        for text in _command_lines(words, console().width):
            console().print(text, style="bold")


def print_answer(runs: "Sequence[Run]") -> None:
    """Print how many of the models are personalized, and which."""
    from pluralrm.metrics.overview import answer, model_names, overview

    print_wrapped(answer(overview(runs), model_names(runs)), style="bold")


# ---------------------------------------------------------------- table


def _usual(found: "Overview") -> str:
    """Return the own condition (or else any) that most rows have; it is not repeated in them."""
    return Counter(row.condition for row in found.rows if not found.own or row.condition in found.own).most_common(1)[
        0
    ][0]


def _wide(found: "Overview") -> bool:
    return console().width >= _WIDE and bool(found.own)


def _apart(found: "Overview", names: Mapping[str, str]) -> list[str]:
    """Return `pref: pairs:8` for each model, at most two, that saw another own context than most did."""
    often, usual = Counter(row.model for row in found.rows), _usual(found)
    apart = [row for row in found.rows if row.condition in {*found.own} - {usual} and often[row.model] == 1]
    return [f"{names[row.model]}: {row.condition}" for row in apart] if len(apart) <= _APART else []


def _labels(found: "Overview", names: Mapping[str, str]) -> list[str]:
    """Return what each row is called: the model, and what it sees where neither a column nor the title says it."""
    usual, told = _usual(found), _apart(found, names)
    named = [
        row.condition not in {usual, "none"} and not _wide(found) and f"{names[row.model]}: {row.condition}" not in told
        for row in found.rows
    ]
    return [
        "ORACLE " * row.oracle + names[row.model] + f" ({row.condition})" * here
        for row, here in zip(found.rows, named, strict=True)
    ]


def _print_table(found: "Overview", names: Mapping[str, str]) -> None:
    from pluralrm.metrics.overview import MOODS

    console().print()
    print_wrapped(_title(found, names), style="bold")
    labels, columns = _labels(found, names), _columns(found)
    moods = [MOODS.get(row.verdict, "") for row in found.rows]
    styles = {place: _COLOURS[mood] for place, mood in enumerate(moods) if mood}
    oracle = {place: "red" for place, row in enumerate(found.rows) if row.oracle}
    texts = [_row(row, label, found, len(columns)) for row, label in zip(found.rows, labels, strict=True)]
    console().print(table(columns, texts, styles=styles | oracle))


def _title(found: "Overview", names: Mapping[str, str]) -> str:
    """Return what the table is about; the unit of the intervals only where the line has room for it."""
    others = "".join(f" ({text})" for text in _apart(found, names)) or ", or as named" * (len(found.own) > 1)
    own = f"; own = {_usual(found)}{others}" if found.own else ""
    items = f", {counted(found.items, 'item')}" * (found.items != found.clusters)
    text = f"{found.benchmark}: {counted(found.clusters, found.cluster)}{items}{own}; chance {100 * found.chance:.0f}"
    intervals = f"95% intervals over {found.cluster}s"
    return f"{text:<{78 - len(intervals)}}{intervals}" if len(text) + len(intervals) < 77 else text


def _columns(found: "Overview") -> "list[tuple[str, Kind]]":
    title = {"accuracy": "accuracy", "bon": "BoN"}.get(found.headline, found.headline)
    columns: list[tuple[str, Kind]] = [("model", "name"), (f"{title} [95%]", "left")]
    if not found.own:
        others: list[tuple[str, Kind]] = [
            (short, "left") for name, short in _OTHERS.items() if name in found.rows[0].metrics
        ]
        prompts: list[tuple[str, Kind]] = [("prompt sensitivity", "left")] if found.rows[0].sensitivity else []
        return columns + others + prompts
    columns += [("lift: own-none", "left"), ("gain: own-other", "left"), ("verdict", "left")]
    if _wide(found):
        columns[1:1] = [("sees", "name")]
        columns += [("none", "right"), ("other", "right"), ("nearest", "right"), ("oracle gap closed", "right")]
    return columns


def _row(row: "OverviewRow", label: str, found: "Overview", width: int) -> list[str]:
    cells = [label, _number(row.metrics[found.headline])]
    if not found.own:
        cells += [_number(row.metrics[name]) for name in _OTHERS if name in row.metrics]
        return [*cells, _points(row.sensitivity)][:width]
    personal = row.personal
    lift, gain = (personal.lift, personal.gain) if personal else (None, None)
    cells += [_points(lift), _points(gain), row.verdict or "no context"]
    if _wide(found):
        cells[1:1] = [row.condition]
    if personal is not None:
        cells += [_share(personal.accuracy.get(role)) for role in _ROLES]
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


# ---------------------------------------------------------------- below the table


def _print_sentences(found: "Overview", names: Mapping[str, str], baselines: Collection[str] | None) -> None:
    """Print a sentence for each model that is no baseline; where all are, for the first of them."""
    from pluralrm.metrics.overview import sentence
    from pluralrm.models import BASELINES

    silent = BASELINES if baselines is None else baselines
    for row in [row for row in found.rows if row.model.partition(",")[0] not in silent] or found.rows[:_SPOKEN]:
        if text := sentence(row, found, names):
            print_wrapped(text)


def _print_remarks(runs: "Sequence[Run]", names: Mapping[str, str], ties: "Ties") -> None:
    """Print, each once, what a number rests on: training, synthesised pairs, failures, uneven posts, a rule of ties."""
    from pluralrm.cli.compare import TIES
    from pluralrm.metrics import uneven_posts
    from pluralrm.metrics.estimates import synthesised, trained_notes

    if ties != "share":
        print_wrapped(f"{TIES[ties]} Chance, lift and gain go by shared ties.")
    for text in trained_notes([run for run in runs if "oracle" not in run.reveals]):
        print_wrapped(text, style="red")
    for text in filter(None, dict.fromkeys(map(synthesised, runs))):
        print_wrapped(f"SYNTHESISED: {text}.", style="yellow")
    for text in _failures(runs, names):
        print_wrapped(text, style="yellow")
    for uneven in uneven_posts(runs):
        print_wrapped(str(uneven), style="yellow")


def _failures(runs: "Sequence[Run]", names: Mapping[str, str]) -> list[str]:
    """Return a line for each model that failed somewhere: how often under each condition, and the first reason."""
    from pluralrm.core import Failure

    lines = []
    for model in dict.fromkeys(run.model for run in runs):
        failed = [
            (run, failures) for run in runs if run.model == model and (failures := sum(row.failed for row in run.rows))
        ]
        if failed:
            run = failed[0][0]
            first = next(score for row in run.rows for score in row.scores if isinstance(score, Failure))
            counts = ", ".join(f"{number} of {len(one.rows)} under {one.condition}" for one, number in failed)
            lines.append(
                f"{names.get(model, model)}: failed items count as wrong: {counts}. The first: {first.kind}: "
                f"{first.detail}. More: pluralrm show {run.path}"
            )
    return lines


def _missing(found: "Overview", runs: "Sequence[Run]", asking: str) -> tuple[str, list[str]]:
    """Return why the question stays open, and the words of the command that answers it; nothing if it is answered."""
    if found.unmeasured:
        return f"Nothing is said of personalization: {found.unmeasured}", []
    if lacking := [row for row in found.rows if _can_be_completed(row)]:
        specs, sees = [row.model for row in lacking], [row.condition for row in lacking]
        return "Controls are missing; this adds them:", _adding(runs, asking, specs, [], sees)
    if found.unseen:
        reason = "No model saw the user's posts; this shows them, and adds the controls:"
        return reason, _adding(runs, asking, [row.model for row in found.rows], ["raw:10"], ["raw:10"])
    if not found.own and not any(row.sensitivity for row in found.rows):
        words = ["pluralrm", "evaluate", *dict.fromkeys(row.model for row in found.rows)]
        return f"{found.benchmark} has no users. Are these models personalized? This tells:", words
    return "", []


def _can_be_completed(row: "OverviewRow") -> bool:
    """Return whether a row lacks a control that its model could be scored under: some need posts."""
    from pluralrm.conditions import load_condition
    from pluralrm.errors import SpecError
    from pluralrm.models import unsupported

    if row.personal is None or row.personal.verdict != "unknown":
        return False
    with suppress(SpecError):  # a class of one's own that was scored in Python
        return row.personal.gain is None or unsupported(row.model, load_condition("none")) is None
    return False


def _adding(
    runs: "Sequence[Run]", asking: str, models: Sequence[str], more: Sequence[str], sees: Sequence[str]
) -> list[str]:
    """Return the command that adds the controls: the one that is running, or that which scores the models anew."""
    from pathlib import Path

    from pluralrm.benchmarks import spec_of_card

    if asking:
        return [*shlex.split(asking), *(word for name in more for word in ("-c", name)), "--controls"]
    words = [word for model in dict.fromkeys(models) for word in ("-m", model)]
    words += [word for name in dict.fromkeys(sees) for word in ("-c", name)]
    out = Path(runs[0].path).parents[2] if runs[0].path else Path("runs")
    return ["pluralrm", "score", spec_of_card(runs[0].card), *words, "--controls", "-o", str(out)]


def _command_lines(words: Sequence[str], width: int) -> list[str]:
    """Return a command that can be copied: lines of whole words, each but the last ending in a backslash."""
    lines: list[str] = []
    for word in map(shlex.quote, words):
        if lines and len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{'    ' if lines else '  '}{word}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


# ---------------------------------------------------------------- for other programs


def print_form(runs: "Sequence[Run]", form: TableFormat, view: View, by: str, *, every: bool) -> None:
    """Write the answer as CSV, Markdown or LaTeX; by a tag a record for each value of it, of `every` run one for it."""
    from pluralrm.cli.compare import same_items
    from pluralrm.metrics import METRICS, with_ties
    from pluralrm.metrics.contrast import tag_records
    from pluralrm.metrics.overview import main_runs, model_names, overview, overviews_text

    groups, names = same_items(runs), model_names(runs)
    if not (by or every):
        found = [overview(group, seed=view.seed, ties=view.ties) for group in groups]
        # Names are those of each table, as on the screen and in the report.
        sys.stdout.write(clean(overviews_text(found, [model_names(group) for group in groups], TEXT_FORMS[form])))
        return
    rows: list[dict[str, object]] = []
    for group in groups:
        ruled = [with_ties(run, view.ties) for run in (group if every else main_runs(group))]
        rows += tag_records(ruled, group, by, names) if by else _run_records(ruled, names, view.seed)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    print_records([{key: row.get(key) for key in keys} for row in rows], form, [*METRICS, "lift", "gain"])


def _run_records(runs: "Sequence[Run]", names: "Mapping[str, str]", seed: int) -> "list[dict[str, object]]":
    """Return a flat record for each run: its ranks, and every metric with its interval."""
    from pluralrm.metrics import leaderboard

    records = []
    for entry in leaderboard(runs, seed=seed).entries:
        told = entry.summary
        record: dict[str, object] = {"benchmark": told.benchmark, "model": names[told.model], "spec": told.model}
        record |= {"condition": told.condition, "rank_first": entry.rank and entry.rank.low}
        record["rank_last"] = entry.rank and entry.rank.high
        for name, estimate in told.metrics.items():
            record |= flat(name, estimate)
        records.append(record)
    return records

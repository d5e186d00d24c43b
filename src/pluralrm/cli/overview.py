"""The answer on the screen: one row per model, controls as columns, a sentence for each model."""

import shlex
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.cli.options import TEXT_FORMS, TableFormat
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import Kind, clean, console, note, print_legend, print_wrapped, rate, table
from pluralrm.text import TextForm, bounds, counted, flat, interval, listed, points, records_text

if TYPE_CHECKING:
    from pluralrm.core import Estimate, Role, Run, Ties
    from pluralrm.metrics.overview import Overview, OverviewRow

_COLOURS = {"good": "green", "bad": "red", "partial": "yellow"}
_WIDE = 120
"""Cells from which on the controls have columns of their own."""
_OTHERS = {"pair": "pair", "consistency": "consistency"}
_ROLES: "tuple[Role, ...]" = ("none", "swapped", "nearest")
_GROUPS: "tuple[Role, ...]" = ("group", "outside", "least")
"""The controls that have a column where they were run."""
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
    margin: float | None = None  # within which a change on a general benchmark is none; if None, `metrics.cost` has it
    mark: str = ""  # what tells the benchmark from others of its name


def print_overview(runs: "Sequence[Run]", view: View = View()) -> None:
    """Print the table of runs on the same items; unless quiet, what it says of each model, and what is missing."""
    from pluralrm.metrics.cost import on_general
    from pluralrm.metrics.overview import answer, leaders, model_names, overview

    if on_general(runs[0]):
        _print_costs(runs, view)
        return
    with ProgressDisplay(f"{runs[0].benchmark}: comparing {counted(len(runs), 'run')}"):
        result = overview(runs, seed=view.seed, ties=view.ties)
    names = model_names(runs)
    _print_table(replace(result, benchmark=result.benchmark + view.mark), names)
    if view.quiet:
        return
    console().print()
    if text := answer(result, names):
        print_wrapped(text, style="bold")
    _print_sentences(result, names, view.baselines, runs)
    if text := leaders(result, names):
        print_wrapped(text)
    _print_remarks(runs, names, view.ties)
    if view.asking is not None:
        reason, words = _missing(result, runs, view.asking)
        if reason:
            print_wrapped(reason, style="bold")
        for text in _command_lines(words, console().width):
            console().print(text, style="bold")


def _print_costs(runs: "Sequence[Run]", view: View) -> None:
    """Print what the posts of lent users change on a general benchmark, and a sentence for each model."""
    from pluralrm.metrics.cost import MARGIN, personalization_costs
    from pluralrm.metrics.overview import model_names

    margin, names = view.margin or MARGIN, model_names(runs)
    costs = personalization_costs(runs, margin=margin, seed=view.seed)
    console().print()
    print_wrapped(f"What personalization costs: {runs[0].benchmark}, {len(runs[0].rows):,} items", style="bold")
    seen = listed(list(dict.fromkeys(cost.condition for cost in costs)))
    rows = []
    for cost in costs:
        changes = ("–" if each is None else points(each) + bounds(each) for each in (cost.change, cost.other))
        rows.append((names[cost.model], f"{100 * cost.without.value:.1f}", *changes, cost.verdict))
    columns: list[tuple[str, Kind]] = [("model", "name"), ("no user", "right"), (f"change: {seen}", "right")]
    console().print(table([*columns, ("another's", "right"), ("verdict", "left")], rows))
    if view.quiet:
        return
    console().print()
    for cost in costs:
        print_wrapped(cost.sentence(names[cost.model]))
    print_legend(
        [
            "change: points against no user, paired by item [95%]. Users are lent, by seed: no label is theirs.",
            f"equivalent: two one-sided tests, p < .05, that the change lies within ±{100 * margin:g} points.",
        ]
    )


def print_answer(runs: "Sequence[Run]") -> None:
    """Print how many of the models are personalized, and which."""
    from pluralrm.metrics.overview import answer, model_names, overview

    print_wrapped(answer(overview(runs), model_names(runs)), style="bold")


# ---------------------------------------------------------------- table


def _usual(overview: "Overview") -> str:
    """Return the own condition (or else any) that most rows have; it is not repeated in them."""
    return Counter(
        row.condition for row in overview.rows if not overview.own or row.condition in overview.own
    ).most_common(1)[0][0]


def _wide(overview: "Overview") -> bool:
    return console().width >= _WIDE and bool(overview.own)


def _apart(overview: "Overview", names: Mapping[str, str]) -> list[str]:
    """Return `pref: pairs:8` for each model, at most two, that saw another own context than most did."""
    often, usual = Counter(row.model for row in overview.rows), _usual(overview)
    apart = [row for row in overview.rows if row.condition in {*overview.own} - {usual} and often[row.model] == 1]
    return [f"{names[row.model]}: {row.condition}" for row in apart] if len(apart) <= _APART else []


def _labels(overview: "Overview", names: Mapping[str, str]) -> list[str]:
    """Return what each row is called: the model, and what it sees where neither a column nor the title says it."""
    usual, others = _usual(overview), _apart(overview, names)
    flags = [
        row.condition not in {usual, "none"}
        and not _wide(overview)
        and f"{names[row.model]}: {row.condition}" not in others
        for row in overview.rows
    ]
    return [
        "ORACLE " * row.oracle + names[row.model] + f" ({row.condition})" * here
        for row, here in zip(overview.rows, flags, strict=True)
    ]


def _print_table(overview: "Overview", names: Mapping[str, str]) -> None:
    from pluralrm.metrics.overview import MOODS

    console().print()
    print_wrapped(_title(overview, names), style="bold")
    labels, columns = _labels(overview, names), _columns(overview)
    moods = [MOODS.get(row.verdict, "") for row in overview.rows]
    styles = {index: _COLOURS[mood] for index, mood in enumerate(moods) if mood}
    oracle = {index: "red" for index, row in enumerate(overview.rows) if row.oracle}
    texts = [_row(row, label, overview, len(columns)) for row, label in zip(overview.rows, labels, strict=True)]
    console().print(table(columns, texts, styles=styles | oracle))


def _title(overview: "Overview", names: Mapping[str, str]) -> str:
    """Return what the table is about; the unit of the intervals only where the line has room for it."""
    others = "".join(f" ({text})" for text in _apart(overview, names)) or ", or as named" * (len(overview.own) > 1)
    own = f"; own = {_usual(overview)}{others}" if overview.own else ""
    items = f", {counted(overview.items, 'item')}" * (overview.items != overview.clusters)
    text = f"{overview.benchmark}: {counted(overview.clusters, overview.cluster)}{items}{own}; "
    text += f"chance {100 * overview.chance:.0f}"
    intervals = f"95% intervals over {overview.over}"
    return f"{text:<{78 - len(intervals)}}{intervals}" if len(text) + len(intervals) < 77 else text


def _columns(overview: "Overview") -> "list[tuple[str, Kind]]":
    title = {"accuracy": "accuracy", "bon": "BoN"}.get(overview.headline, overview.headline)
    columns: list[tuple[str, Kind]] = [("model", "name"), (f"{title} [95%]", "left")]
    if not overview.own:
        others: list[tuple[str, Kind]] = [
            (short, "left") for name, short in _OTHERS.items() if name in overview.rows[0].metrics
        ]
        prompts: list[tuple[str, Kind]] = [("prompt sensitivity", "left")] if overview.rows[0].sensitivity else []
        return columns + others + prompts
    columns += [("lift: own-none", "left"), ("gain: own-other", "left"), ("verdict", "left")]
    if _wide(overview):
        columns[1:1] = [("sees", "name")]
        columns += [("none", "right"), ("other", "right"), ("nearest", "right")]
        columns += [(role, "right") for role in _groups(overview)] + [("oracle gap closed", "right")]
    return columns


def _groups(overview: "Overview") -> "list[Role]":
    accuracies = [row.personal.accuracy for row in overview.rows if row.personal is not None]
    return [role for role in _GROUPS if any(role in accuracy for accuracy in accuracies)]


def _row(row: "OverviewRow", label: str, overview: "Overview", width: int) -> list[str]:
    cells = [label, _number(row.metrics[overview.headline])]
    if not overview.own:
        cells += [_number(row.metrics[name]) for name in _OTHERS if name in row.metrics]
        return [*cells, points_cell(row.sensitivity)][:width]
    personal = row.personal
    lift, gain = (personal.lift, personal.gain) if personal else (None, None)
    silent = "–" if row.condition in overview.own else "no context"
    cells += [points_cell(lift), points_cell(gain), row.verdict.partition(":")[0] or silent]
    if _wide(overview):
        cells[1:1] = [row.condition]
    if personal is not None:
        cells += [rate(personal.accuracy.get(role)) for role in (*_ROLES, *_groups(overview))]
        cells.append(rate(personal.numbers["gap_closed"]))
    return [*cells, *[""] * width][:width]


def _number(estimate: "Estimate") -> str:
    return f"{100 * estimate.value:.1f} {_interval(estimate, 0)}"


def points_cell(estimate: "Estimate | None") -> str:
    """Return points with the ends of their interval in whole points, for a column of such cells."""
    return "–" if estimate is None else f"{points(estimate):>5} {_interval(estimate, 3)}"


def _interval(estimate: "Estimate", cells: int) -> str:
    if estimate.low is None or estimate.high is None:
        return interval(estimate)
    return f"[{100 * estimate.low:{cells or 1}.0f}, {100 * estimate.high:{max(cells - 1, 1)}.0f}]"


# ---------------------------------------------------------------- below the table


def _print_sentences(
    overview: "Overview", names: Mapping[str, str], baselines: Collection[str] | None, runs: "Sequence[Run]"
) -> None:
    """Print what is said of each model that is no baseline; where all are, of the first of them."""
    from pluralrm.metrics.overview import sentence
    from pluralrm.metrics.sides import among_people
    from pluralrm.models import BASELINES

    among = {(result.model, result.condition): str(result) for result in among_people(runs)}
    silent = BASELINES if baselines is None else baselines
    for row in [row for row in overview.rows if row.model.partition(",")[0] not in silent] or overview.rows[:_SPOKEN]:
        if text := sentence(row, overview, names):
            print_wrapped(text)
        if worth := among.get((row.model, row.condition)):
            print_wrapped(f"{overview.label(row, names)} among people: {worth}.")


def _print_remarks(runs: "Sequence[Run]", names: Mapping[str, str], ties: "Ties") -> None:
    """Print, each once, what a number rests on: training, synthesised pairs, failures, uneven posts, a rule of ties."""
    from pluralrm.cli.compare import TIES
    from pluralrm.metrics import precision_pairs, uneven_posts
    from pluralrm.metrics.estimates import source_notes, synthesised, trained_notes
    from pluralrm.metrics.roles import is_own

    if ties != "share":
        print_wrapped(f"{TIES[ties]} Chance, lift and gain go by shared ties.")
    for text in trained_notes([run for run in runs if "oracle" not in run.reveals]):
        print_wrapped(text, style="red")
    for text in filter(None, dict.fromkeys(map(synthesised, runs))):
        print_wrapped(f"SYNTHESISED: {text}.", style="yellow")
    for text in source_notes(runs, names):
        print_wrapped(text, style="yellow")
    for text in _failures(runs, names):
        print_wrapped(text, style="yellow")
    own, uneven = {run.condition for run in runs if is_own(run)}, uneven_posts(runs)
    for warning in (*([each for each in uneven if each.condition in own] or uneven), *precision_pairs(runs)):
        print_wrapped(str(warning), style="yellow")


def _failures(runs: "Sequence[Run]", names: Mapping[str, str]) -> list[str]:
    """Return a line for each model that failed somewhere: how often under each condition, and the first reason."""
    from pluralrm.core import Failure

    lines = []
    for model in dict.fromkeys(run.model for run in runs):
        failed = [(run, failures) for run in runs if run.model == model and (failures := run.failed)]
        if failed:
            run = failed[0][0]
            first = next(score for row in run.rows for score in row.scores if isinstance(score, Failure))
            counts = ", ".join(f"{number} of {len(run.rows)} under {run.condition}" for run, number in failed)
            start = f"{names.get(model, model)}: failed items count as wrong: {counts}. The first: {first.kind}: "
            lines.append(f"{start}{first.detail.rstrip('.')}. More: pluralrm show {run.path}")
    return lines


def _missing(overview: "Overview", runs: "Sequence[Run]", asking: str) -> tuple[str, list[str]]:
    """Return why the question stays open, and the words of the command that answers it; nothing if it is answered."""
    from pluralrm.labels import TRAIT

    if overview.unmeasured:
        return f"Nothing is said of personalization: {overview.unmeasured}", []
    if lacking := [row for row in overview.rows if _can_be_completed(row)]:
        return _controls(overview, runs, lacking, asking)
    models = [row.model for row in overview.rows if not row.model.startswith("imported:")]
    if overview.unseen and models:
        declared = any(tag.startswith(TRAIT) for row in runs[0].rows for tag in row.tags)
        written = not (load := runs[0].card.load).rows or "posts" in load.read
        if not (sees := ["raw:10"] * written + ["traits"] * declared):
            reason = f"{overview.benchmark} has no posts or traits. This shows earlier choices, if it has any:"
            return reason, _adding(runs, asking, models, ["pairs:8"], ["pairs:8"])
        shows = " or ".join(["posts"] * written + ["traits"] * declared)
        alone = overview.clusters < 2 and runs[0].whole
        adds = "; the gain takes a second user" if alone else ", and adds the controls"
        reason = f"No model saw the user's {shows}; this shows them{adds}:"
        return reason, _adding(runs, asking, models, sees, sees)
    if models and not overview.own and not any(row.sensitivity for row in overview.rows):
        words = ["pluralrm", "evaluate", *dict.fromkeys(models)]
        return f"{overview.benchmark} has no users. Are these models personalized? This tells:", words
    return "", []


def _controls(
    overview: "Overview", runs: "Sequence[Run]", rows: "Sequence[OverviewRow]", asking: str
) -> tuple[str, list[str]]:
    """Return what adds the controls that rows lack: only where another user of the domain can lend."""
    if overview.clusters < 2 and runs[0].whole:
        return f"{overview.benchmark} has one user: no other user's context can be lent, so there is no gain.", []
    words = _adding(runs, asking, [row.model for row in rows], [], [row.condition for row in rows])
    alone, shared = _lonely(runs[0])
    if not alone:
        return "Controls are missing; this adds them:", words
    reason = f"{overview.benchmark} has one user in {listed(alone)}: no other user's context can be lent there"
    if not shared:
        return f"{reason}, so there is no gain.", []
    chosen = [word for name in shared for word in ("--domain", name)]
    return f"{reason}. This adds the controls in {listed(shared)}:", words + chosen


def _lonely(run: "Run") -> tuple[list[str], list[str]]:
    """Return the domains of one user, which have no lender, and the others; none of the first for chosen items."""
    people: dict[str, set[str]] = {}
    for row in run.rows:
        people.setdefault(row.domain, set()).add(row.cluster)
    alone = [name for name, users in people.items() if len(users) < 2 and run.whole]
    return sorted(alone), sorted({*people} - {*alone})


def _can_be_completed(row: "OverviewRow") -> bool:
    """Return whether a row lacks a control that its model could be scored under: some need posts."""
    from pluralrm.conditions import load_condition
    from pluralrm.errors import SpecError
    from pluralrm.models import unsupported

    if row.personal is None or row.personal.verdict != "unknown" or row.model.startswith("imported:"):
        return False
    with suppress(SpecError):  # a class of one's own that was scored in Python
        return row.personal.gain is None or unsupported(row.model, load_condition("none")) is None
    return False


def _adding(
    runs: "Sequence[Run]", asking: str, models: Sequence[str], more: Sequence[str], sees: Sequence[str]
) -> list[str]:
    """Return the command that adds the controls: the one that is running, or that which scores the models anew."""
    if asking:
        return [*shlex.split(asking), *(word for name in more for word in ("-c", name)), "--controls"]
    names = {run.model: f"{run.name}={run.model}" for run in runs if run.name}
    words = [word for model in dict.fromkeys(models) for word in ("-m", names.get(model, model))]
    words += [word for name in dict.fromkeys(sees) for word in ("-c", name)]
    scored = next((run for run in runs if run.model in models), runs[0])
    benchmark, chosen = _source(scored)
    out = Path(scored.path).parents[2] if scored.path else Path("runs")
    return ["pluralrm", "score", benchmark, *words, "--controls", *chosen, "-o", str(out)]


def _source(run: "Run") -> tuple[str, list[str]]:
    """Return the name or path of a run's benchmark, and the options that choose the same of its items."""
    from pluralrm.benchmarks import spec_of_card
    from pluralrm.runs.records import RUN

    if not run.path:
        return spec_of_card(run.card), []
    manifest = RUN.read(Path(run.path))
    origin, items = manifest.benchmark, manifest.selection
    chosen = [word for name in items.domains for word in ("--domain", name)]
    chosen += ["--limit", str(items.limit)] if items.limit is not None else []
    chosen += ["--seed", str(origin.seed)] if origin.seed else []
    return origin.spec or spec_of_card(run.card), chosen


def _command_lines(words: Sequence[str], width: int) -> list[str]:
    """Return a command that can be copied: lines of whole words, each but the last ending in a backslash."""
    lines: list[str] = []
    for word in map(shlex.quote, words):
        if lines and len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{'    ' if lines else '  '}{word}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def note_unanswered(runs: "Sequence[Run]") -> None:
    """Say on stderr which models have no answer yet, and under which conditions."""
    conditions: dict[str, list[str]] = {}
    for run in runs:
        conditions.setdefault(run.name or run.model, []).append(run.condition)
    for model, names in conditions.items():
        note(f"{model} is not in the table: it answered no item yet under {listed(names)}")


class UnscoredCell(NamedTuple):
    """A model that has no row under a condition, and why."""

    benchmark: str
    model: str
    name: str
    condition: str
    reason: str


def print_unscored(cells: Sequence[UnscoredCell]) -> None:
    """Print which models have no row, under which conditions and why, a line for each reason."""
    conditions: dict[tuple[str, str], list[str]] = {}  # by name and reason, which may begin with both
    for cell in cells:
        key = cell.name, cell.reason.removeprefix(f"{cell.model} under {cell.condition}: ")
        conditions.setdefault(key, []).append(cell.condition)
    for (name, reason), specs in conditions.items():
        print_wrapped(f"{name}: not scored under {listed(list(dict.fromkeys(specs)))}: {reason}", style="red")


def with_unscored(boards: Sequence[dict[str, object]], cells: Sequence[UnscoredCell]) -> list[dict[str, object]]:
    """Return boards as JSON, each with what has no row on its benchmark; a benchmark without a board gets one."""
    lacking: dict[str, list[object]] = {}
    for cell in cells:
        lacking.setdefault(cell.benchmark, []).append(cell._asdict())
    rows = [board | {"not_scored": lacking.get(str(board["benchmark"]), [])} if cells else board for board in boards]
    empty = sorted({*lacking} - {board["benchmark"] for board in boards})
    return rows + [{"benchmark": name, "entries": [], "not_scored": lacking[name]} for name in empty]


def note_more(paths: "Sequence[Path]", *, every: bool = False) -> None:
    """Say on stderr where the rest is: every run, and a report with plots and items."""
    names = shlex.join(map(str, paths))
    if not every:
        note(f"more: pluralrm compare {names} --all (runs, controls, p, paper's formula)")
    note(f"with plots and every item: pluralrm report {names} -o report.html")


# ---------------------------------------------------------------- for other programs


def print_form(runs: "Sequence[Run]", form: TableFormat, view: View, by: str, *, every: bool) -> None:
    """Write the answer as CSV, Markdown or LaTeX; by a tag a record for each value of it, of `every` run one for it."""
    sys.stdout.write(clean(table_text(runs, TEXT_FORMS[form], view, by, every=every)))


def table_text(runs: "Sequence[Run]", form: TextForm, view: View, by: str = "", *, every: bool = False) -> str:
    """Return the answer as CSV, Markdown or LaTeX: a table for each set of items, or one of all records."""
    from pluralrm.metrics import METRICS
    from pluralrm.metrics.overview import model_names, overviews_text, same_items

    if by or every:
        return records_text(table_records(runs, view, by, every=every), form, [*METRICS, "lift", "gain"])
    groups = same_items(runs)
    # Names are those of each table, as on the screen and in the report.
    return overviews_text(_overviews(groups, view), [model_names(group) for group in groups], form)


def table_records(runs: "Sequence[Run]", view: View, by: str = "", *, every: bool = False) -> "list[dict[str, object]]":
    """Return the answer as flat records of the same keys: per model, per value of a tag, or of `every` run."""
    from pluralrm.metrics import with_ties
    from pluralrm.metrics.contrast import tag_records
    from pluralrm.metrics.overview import main_runs, model_names, overview_records, same_items

    groups, names = same_items(runs), model_names(runs)
    rows: list[dict[str, object]] = []
    if not (by or every):
        tables = zip(_overviews(groups, view), groups, strict=True)
        rows = [row for table, group in tables for row in overview_records(table, model_names(group))]
    for group in groups if by or every else ():
        ruled = [with_ties(run, view.ties) for run in (group if every else main_runs(group))]
        rows += tag_records(ruled, group, by, names) if by else _run_records(ruled, names, view.seed)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return [{key: row.get(key) for key in keys} for row in rows]


def _overviews(groups: "Sequence[Sequence[Run]]", view: View) -> "list[Overview]":
    from pluralrm.metrics.overview import overview

    return [overview(group, seed=view.seed, ties=view.ties) for group in groups]


def _run_records(runs: "Sequence[Run]", names: "Mapping[str, str]", seed: int) -> "list[dict[str, object]]":
    """Return a flat record for each run: its ranks, and every metric with its interval."""
    from pluralrm.metrics import leaderboard

    records = []
    for entry in leaderboard(runs, seed=seed).entries:
        summary = entry.summary
        record: dict[str, object] = {
            "benchmark": summary.benchmark,
            "model": names[summary.model],
            "spec": summary.model,
        }
        record |= {"condition": summary.condition, "rank_first": entry.rank and entry.rank.low}
        record["rank_last"] = entry.rank and entry.rank.high
        for name, estimate in summary.metrics.items():
            record |= flat(name, estimate)
        records.append(record)
    return records

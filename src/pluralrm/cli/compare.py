"""`pluralrm compare`, and its tables for every verb that ends in runs: leaderboards, the summary of one run."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import ALL, FORMAT, HUMAN, QUIET, TEXT_FORMS, TableFormat, asked, output_format
from pluralrm.cli.overview import View, print_form, print_overview
from pluralrm.cli.terminal import Kind, console, note, percent, print_json, print_legend, print_wrapped, table
from pluralrm.text import counted, estimated

if TYPE_CHECKING:
    from pluralrm.core import Estimate, Run, Ties
    from pluralrm.metrics import Leaderboard, PublishedMetric, Standing, Summary
    from pluralrm.report import PlanJudgments


class TieRule(StrEnum):
    """What --ties takes."""

    SHARE = "share"
    LOSE = "lose"
    WIN = "win"

    @property
    def rule(self) -> "Ties":
        """The rule as metrics know it."""
        return self.value


DOMAIN = "domain"
"""The value of --by that is no tag: every metric in each domain."""
_FEW = 2
"""So many metrics stand side by side with their intervals in full."""
_SHORT = {"consistency": "cons.", "all_phrasings": "all 3", "accuracy": "accuracy", "bon": "BoN", "pair": "pair"}


def print_boards(
    runs: "Sequence[Run]",
    *,
    seed: int = 0,
    by: str = "",
    ties: "Ties" = "share",
    as_json: bool = False,
    calibrated: bool = False,
    people: "Sequence[PlanJudgments]" = (),
) -> None:
    """Print one leaderboard per set of items, and what the user is worth to each model where the controls are there.

    Runs on different items are never ranked against each other. `ties` is the rule of the leaderboard and of what is
    told by group; what is said of chance and of the user goes by shared ties, for no model may gain by a tie.
    """
    from pluralrm.cli.diagnostics import calibration_json, print_calibration, print_places
    from pluralrm.cli.options import beside, human_json, print_human
    from pluralrm.cli.personalization import print_personal, print_prompt_use
    from pluralrm.metrics import with_ties

    groups = same_items(with_rows(runs, by))
    humans = beside(people, groups)
    if as_json:
        told = [_board_json(group, seed, by, ties) for group in groups]
        if calibrated:
            told = [one | {"calibration": calibration_json(group)} for one, group in zip(told, groups, strict=True)]
        if people:
            told = [one | human_json(*pair) for one, pair in zip(told, zip(humans, groups, strict=True), strict=True)]
        print_json(told)
    for group, human in [] if as_json else zip(groups, humans, strict=True):
        named = _called(group)
        ruled = [with_ties(run, ties) for run in named]
        print_board(ruled, seed=seed)
        print_human(human, group)
        print_places(named)
        print_personal(named, seed=seed, by=by)
        print_prompt_use(named)
        if calibrated:
            print_calibration(named)
        print_groups(ruled, by)


def _called(group: "list[Run]") -> "list[Run]":
    """Return the runs with the names that their user gave the models; as they are where two have one name."""
    names = {run.model: run.name or run.model for run in group}
    several = len(set(names.values())) < len(names)
    return group if several else [replace(run, model=names[run.model]) for run in group]


def with_rows(runs: "Sequence[Run]", by: str = "") -> "list[Run]":
    """Return the runs that have rows, and name the others; raise where those of a run lack the tag `by`."""
    for run in runs:
        if not run.done:
            note(f"left out {run.path}: it has no rows yet")
    scored = [run for run in runs if run.done]
    if by:
        check_tag(scored, by)
    return scored


def print_answers(
    runs: "Sequence[Run]",
    view: View,
    *,
    by: str = "",
    calibrated: bool = False,
    people: "Sequence[PlanJudgments]" = (),
) -> None:
    """Print the answer for each set of items: one row per model, controls as columns, and what was asked beside it."""
    from pluralrm.cli.diagnostics import print_calibration
    from pluralrm.cli.options import beside, print_human
    from pluralrm.cli.personalization import print_tags
    from pluralrm.metrics import with_ties
    from pluralrm.metrics.overview import main_runs, model_names

    groups = same_items(with_rows(runs, by))
    for group, human in zip(groups, beside(people, groups), strict=True):
        print_overview(group, view)
        print_human(human, group)
        names = model_names(group)
        named = [replace(run, model=names[run.model]) for run in group]
        if calibrated:
            print_calibration(named)
        if by:
            print_tags(named, by)
        print_groups([with_ties(run, view.ties) for run in main_runs(named)], by)


def check_tag(runs: "Sequence[Run]", tag: str) -> None:
    """Raise before anything is printed where the rows of a run have no such tag."""
    from pluralrm.metrics import by_tag

    for run in runs:
        if tag != DOMAIN and not any(tag in row.tags for row in run.rows):
            by_tag(run, tag)  # raises, and names the nearest tag


def _board_json(group: "Sequence[Run]", seed: int, by: str, ties: "Ties") -> dict[str, object]:
    from pluralrm.cli.personalization import personal_json, prompt_json
    from pluralrm.metrics import leaderboard, uneven_posts, with_ties

    ruled = [with_ties(run, ties) for run in group]
    told = leaderboard(ruled, seed=seed).to_json() | personal_json(group, seed=seed, by=by)
    told["against_chance"] = _chance_json(group)
    told["prompt_use"] = prompt_json(group)
    told["uneven_posts"] = [uneven.to_json() for uneven in uneven_posts(group)]
    if str(load := group[0].card.load):
        told["load"] = asdict(load)
    if by:
        told["by"] = [{"model": run.model, "condition": run.condition, **by_json(run, by)} for run in ruled]
    return told


def by_json(run: "Run", by: str) -> dict[str, object]:
    """Return the headline per value of a tag; for the domain also every metric, and what a paper's formula gives."""
    from pluralrm.metrics import by_domains, by_tag, published

    told = by_tag(run, by).to_json()
    if by != DOMAIN:
        return told
    domains = {name: {key: one.to_json() for key, one in found.items()} for name, found in by_domains(run).items()}
    formulas = {key: dict(found.domains) for key, found in published(run).items()}
    return told | {"domains": domains, "published_domains": formulas}


def _chance_json(group: "Sequence[Run]") -> dict[str, object]:
    from pluralrm.metrics import against_chance

    found = against_chance(group)
    sides = {"above": found.above, "below": found.below}
    named = {
        side: [{"model": group[place].model, "condition": group[place].condition} for place in places]
        for side, places in sides.items()
    }
    return {"chance": found.chance, **named, "tested": found.tested}


def same_items(runs: "Sequence[Run]") -> "list[list[Run]]":
    """Return the runs in groups that scored the same items of the same benchmark content."""
    groups: dict[tuple[str, frozenset[str]], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.benchmark_hash, frozenset(row.item for row in run.rows)), []).append(run)
    return list(groups.values())


def print_board(group: "Sequence[Run]", *, seed: int = 0) -> None:
    """Print the leaderboard of runs on the same items."""
    from pluralrm.metrics import leaderboard, uneven_posts

    board = leaderboard(group, seed=seed)
    rows, card = group[0].rows, group[0].card
    clusters = len({row.cluster for row in rows})
    title = f"{board.benchmark}: {len(rows):,} items, {counted(clusters, card.cluster)}"
    console().print()
    print_wrapped(title, style="bold")
    others = [name for name in board.entries[0].summary.metrics if name in _SHORT and name != board.headline]
    failed = any(entry.summary.metrics[board.headline].failed for entry in board.entries)
    formula = formula_name(_headlines(board))
    numbers = [*(_SHORT[name] for name in others), *["failed"] * failed, *[formula.replace(" ", "\n")] * bool(formula)]
    columns: list[tuple[str, Kind]] = [("rank", "right"), ("model", "name"), ("condition", "name")]
    columns += [(f"{_SHORT[board.headline]} [95%]", "left"), *((number, "right") for number in numbers)]
    shown = [_row(entry, board.headline, others, failed=failed, formula=formula) for entry in board.entries]
    oracle = [place for place, entry in enumerate(board.entries) if "oracle" in entry.summary.reveals]
    console().print(table(columns, shown, red=oracle))
    loaded = [f"files: {told}" for told in dict.fromkeys(str(run.card.load) for run in group) if told]
    print_legend(
        [_columns(board), *loaded, *_off_chance(group, board), *_reading(board), *_methods(board), *_reasons(board)]
    )
    for run in group:
        print_failures(run, f"{run.model} under {run.condition}: ")
    for uneven in uneven_posts(group):
        print_wrapped(str(uneven), indent="  ", style="yellow")


def _row(entry: "Standing", headline: str, others: Sequence[str], *, failed: bool, formula: str) -> list[str]:
    told = entry.summary
    value = told.metrics[headline]
    rank = "open"
    if entry.rank is not None:
        rank = f"{entry.rank.low}–{entry.rank.high}" if entry.rank.low != entry.rank.high else str(entry.rank.low)
    # First: the middle of a name may be left out.
    oracle = "ORACLE " * ("oracle" in told.reveals) + "TRAINED " * bool(told.trained)
    oracle += "SYNTHESISED " * bool(told.pairs)
    return [
        rank,
        told.model,
        oracle + told.condition,
        percent(value) + ("*" if entry.below_best else ""),
        *(f"{100 * told.metrics[name].value:.0f}" for name in others),
        *([f"{value.failed}{_at_best(told)}"] if failed else []),
        *([share(told.published.get(headline))] if formula else []),
    ]


def _at_best(told: "Summary") -> str:
    return "" if told.bounds is None else f" ≤{100 * told.bounds.best:.0f}"


def share(found: "PublishedMetric | None", domain: str = "") -> str:
    """Return a number by a published formula, a dash where it cannot be computed, nothing where there is no formula."""
    if found is None:
        return ""
    return estimated(found.domains.get(domain) if domain else found.value)


def _headlines(board: "Leaderboard") -> "list[PublishedMetric]":
    """Return the headlines by a published formula."""
    return [one for entry in board.entries if (one := entry.summary.published.get(board.headline)) is not None]


def formula_name(found: "Sequence[PublishedMetric]") -> str:
    """Return the name of the column beside the headline: the paper's on its own items, elsewhere that of its rule."""
    rules = dict.fromkeys(one.rule for one in found)
    return "publ." if any(one.source for one in found) else "by rule" if len(rules) > 1 else "".join(rules)


def _columns(board: "Leaderboard") -> str:
    mean = "mean over domains" if board.average == "macro" else "mean over items"
    return f"Per cent, {mean}. rank: the places that the data leave open.{_formulas(board)}"


def _formulas(board: "Leaderboard") -> str:
    """Return what the column beside the headline is."""
    from pluralrm.metrics.official import RULES

    found = _headlines(board)
    if any(one.source for one in found):
        return " publ.: by the paper's own formula."
    return "".join(f" {rule}: {RULES[rule]}." for rule in dict.fromkeys(one.rule for one in found))


TIES: "dict[Ties, str]" = {
    "share": "",
    "lose": "Ties lose: where another candidate has the preferred one's score, the item is wrong.",
    "win": "Ties win: where other candidates have the preferred one's score, the item is right.",
}
"""What a reader is told of a rule."""


def _reading(board: "Leaderboard") -> list[str]:
    """Return what the marks in the table mean."""
    pairs = dict.fromkeys(entry.summary.pairs for entry in board.entries if entry.summary.pairs)
    rule = TIES[board.entries[0].summary.ties]
    lines = [*[f"{rule} Chance and personalization go by shared ties."] * bool(rule)]
    lines += [f"TRAINED: {text}." for text in dict.fromkeys(_trained(board))]
    lines += [f"SYNTHESISED: {told}." for told in pairs]
    values = [entry.summary.metrics[board.headline] for entry in board.entries]
    if any(entry.below_best for entry in board.entries):
        first = "the first that did not see the rubric" if board.reference else "the first"
        tests = sum(pair.tested for pair in board.differences)
        lines.append(f"* worse than {first}, p < 0.05, Holm over {tests:,} tests of pairs.")
    if any(entry.rank is None for entry in board.entries):
        lines.append("rank open: unfinished; open items count as wrong, and nothing is tested.")
    if any(value.low is None for value in values):
        lines.append("fixed: equal in every cluster by design, so there is no interval to draw.")
    if any(value.failed for value in values):
        lines.append(f"failed: items that count as wrong; ≤ the {_SHORT[board.headline]} if all of them were right.")
    else:
        lines.append("No item failed.")
    return lines


def _trained(board: "Leaderboard") -> "Iterator[str]":
    for entry in board.entries:
        yield from entry.summary.trained


def _off_chance(group: "Sequence[Run]", board: "Leaderboard") -> list[str]:
    """Return who lies above chance and who below; nothing where all are control conditions, or have no interval."""
    from pluralrm.metrics import against_chance

    if board.entries[0].summary.ties != "share":
        return []
    found, names = against_chance(group), [(entry.summary.model, entry.summary.condition) for entry in board.entries]
    if not found.tested:
        return []

    def order(run: "Run") -> int:
        return names.index((run.model, run.condition))

    above, below = (
        ", ".join(f"{one.model} ({one.condition})" for one in sorted((group[place] for place in places), key=order))
        for places in (found.above, found.below)
    )
    line = f"Above chance ({100 * found.chance:.1f}), by {found.how}: {above or 'none'}."
    return [line, *([f"Below chance, by the same measure: {below}."] if below else [])]


def _methods(board: "Leaderboard") -> list[str]:
    values = [entry.summary.metrics[board.headline] for entry in board.entries]
    return [
        f"interval: {method}" for method in dict.fromkeys(value.method for value in values if value.low is not None)
    ]


def _reasons(board: "Leaderboard") -> list[str]:
    """Return why published and headline differ, one line per reason with the models that share it.

    A model that stands under several conditions is named with the one that is meant.
    """
    models: dict[str, list[str]] = {}
    several = len({entry.summary.condition for entry in board.entries}) > 1
    for entry in board.entries:
        told = entry.summary
        name_of = f"{told.model} ({told.condition})" if several else told.model
        for name, found in entry.summary.published.items():
            ours = entry.summary.metrics[name].value
            if found.value is None or abs(found.value - ours) > 1e-12 or found.first is not None:
                by = "as published" if found.source else found.rule
                reason = f"{_SHORT[name]} {_value(ours)}, {by} {_value(found.value)}: {found.reason}"
                models.setdefault(reason, []).append(name_of)
    return [f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in models.items()]


def _value(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def print_groups(group: "Sequence[Run]", by: str) -> None:
    """Print the headline per value of a tag, or every metric per domain; nothing where neither is named."""
    if by == DOMAIN:
        _print_domains(group)
    for run in group if by not in {"", DOMAIN} else ():
        _print_by(run, by)


def _print_domains(group: "Sequence[Run]") -> None:
    """Print every metric of the card per domain, all runs of a domain in one table."""
    from pluralrm.metrics import by_domains, leaderboard, published

    order = [(entry.summary.model, entry.summary.condition) for entry in leaderboard(group).entries]
    runs = sorted(group, key=lambda run: order.index((run.model, run.condition)))
    found, formulas = [by_domains(run) for run in runs], [published(run) for run in runs]
    names = list(next(iter(found[0].values())))
    for domain in found[0]:
        items = sum(row.domain == domain for row in runs[0].rows)
        console().print()
        print_wrapped(f"{runs[0].benchmark}, {domain}: {items:,} items", style="bold")
        columns: list[tuple[str, Kind]] = [("model", "name"), ("condition", "name")]
        columns += [(f"{_SHORT[name]} [95%]", "left") for name in names]
        rows = [
            [run.model, run.condition, *(_brief(told[domain][name], whole=len(names) > _FEW) for name in names)]
            for run, told in zip(runs, found, strict=True)
        ]
        if len(names) == 1 and formulas[0]:
            columns.append((formula_name([formula[names[0]] for formula in formulas]).replace(" ", "\n"), "right"))
            rows = [[*row, share(formula.get(names[0]), domain)] for row, formula in zip(rows, formulas, strict=True)]
        console().print(table(columns, rows))
    print_legend(["Per cent, mean over the domain's items; intervals are each by itself."])


def _brief(found: "Estimate", *, whole: bool) -> str:
    """Return a value in per cent with its interval, the ends in whole per cent where many stand side by side."""
    if not whole or found.low is None or found.high is None:
        return percent(found)
    return f"{100 * found.value:.1f} [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def _print_by(run: "Run", tag: str) -> None:
    from pluralrm.metrics import by_tag

    found = by_tag(run, tag)
    console().print()
    print_wrapped(f"{run.model} under {run.condition}, {found.metric} by {tag}", style="bold")
    rows = [(value or "(none)", percent(told), str(told.n)) for value, told in found.groups.items()]
    if found.worst is not None and found.lowest is not None and found.gap is not None:
        rows.append((f"lowest: {found.worst}", percent(found.lowest), ""))
        rows.append(("highest minus lowest", percent(found.gap), ""))
    console().print(table([(tag, "name"), (f"{found.metric} [95%]", "left"), ("items", "right")], rows))


def print_failures(run: "Run", whose: str = "") -> None:
    """Print each kind of failure with its count and first detail; with `whose` also where to see more."""
    from collections import Counter

    from pluralrm.core import Failure

    first = {row.item: next((s for s in row.scores if isinstance(s, Failure)), None) for row in run.rows}
    failures = {item: failure for item, failure in first.items() if failure is not None}
    for kind, count in Counter(failure.kind for failure in failures.values()).most_common():
        item, example = next((item, failure) for item, failure in failures.items() if failure.kind == kind)
        told = f"{whose}failed ({kind}): {counted(count, 'item')}, as in {item}: {example.detail}"
        if whose:
            told += f"; more: pluralrm show {run.path}"
        print_wrapped(told, first="  ", indent="    ", style="yellow")


def compare(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    by: str = typer.Option(
        "", "--by", metavar="TAG", help="Also by a tag: each group, the worst, the gap; 'domain': every metric."
    ),
    ties: TieRule = typer.Option(TieRule.SHARE, "--ties", help="Credit where the preferred answer's score is tied."),
    calibration: bool = typer.Option(
        False, "--calibration", help="Also print calibration: is sigmoid(score difference) a probability?"
    ),
    human: list[str] = HUMAN,
    every: bool = ALL,
    quiet: bool = QUIET,
    seed: int = typer.Option(0, help="Seed of the resampling."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Which models are personalized, and how do they rank? One row per model, from runs on the same items."""
    from pluralrm.runs import load_runs

    runs, people = load_runs(paths), asked(human)
    form = output_format(form, as_json=as_json)
    as_json = form is TableFormat.JSON
    if form in TEXT_FORMS:
        print_form(with_rows(runs, by), form, View(seed=seed, ties=ties.rule), by, every=every)
        return
    if as_json or every:
        print_boards(runs, seed=seed, by=by, ties=ties.rule, as_json=as_json, calibrated=calibration, people=people)
    else:
        view = View(quiet=quiet, seed=seed, ties=ties.rule)
        print_answers(runs, view, by=by, calibrated=calibration, people=people)
    if not (as_json or quiet):
        note_more(paths, every=every)


def note_more(paths: "Sequence[Path]", *, every: bool = False) -> None:
    """Say on stderr where the rest is: every run, and a report with plots and items."""
    names = shlex.join(map(str, paths))
    if not every:
        note(f"more: pluralrm compare {names} --all (runs, controls, p, paper's formula)")
    note(f"with plots and every item: pluralrm report {names} -o report.html")

"""`pluralrm compare`, and its tables for every verb that ends in runs: leaderboards, the summary of one run."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from pluralrm.cli.diagnostics import LIST, PLURAL, plural_json, print_plural, print_plural_form
from pluralrm.cli.options import ALL, FORMAT, HUMAN, QUIET, TEXT_FORMS, TableFormat, asked, output_format
from pluralrm.cli.overview import View, note_more, note_unanswered, points_cell, print_form, print_overview
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import Kind, console, note, percent, print_json, print_legend, print_wrapped, table
from pluralrm.text import counted, estimated

if TYPE_CHECKING:
    from pluralrm.cli.overview import UnscoredCell
    from pluralrm.core import Estimate, Run, Ties
    from pluralrm.metrics import Leaderboard, PublishedMetric, Standing
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
    margin: float | None = None,
    plural: Sequence[str] | None = None,
    unscored: "Sequence[UnscoredCell]" = (),
) -> None:
    """Print one leaderboard per set of items, and what the user is worth to each model where the controls are there.

    Runs on different items are never ranked against each other. `ties` is the rule of the leaderboard and of what is
    told by group; what is said of chance and of the user goes by shared ties, for no model may gain by a tie.
    """
    from pluralrm.cli.diagnostics import calibration_json, print_calibration, print_places
    from pluralrm.cli.options import beside, human_json, print_human
    from pluralrm.cli.overview import with_unscored
    from pluralrm.cli.personalization import print_personal, print_prompt_use
    from pluralrm.metrics import precision_pairs, with_ties
    from pluralrm.metrics.overview import same_items

    groups = same_items(with_rows(runs, by))
    humans = beside(people, groups)
    if as_json:
        boards = [_board_json(group, seed, by, ties, margin) for group in groups]
        if calibrated:
            boards = [row | {"calibration": calibration_json(group)} for row, group in zip(boards, groups, strict=True)]
        if plural is not None:
            by_rule = [[with_ties(run, ties) for run in group] for group in groups]
            boards = [row | users for row, users in zip(boards, plural_json(by_rule, plural, seed), strict=True)]
        if people:
            boards = [row | human_json(human, group) for row, human, group in zip(boards, humans, groups, strict=True)]
        print_json(with_unscored(boards, unscored))
    for group, human in [] if as_json else zip(groups, humans, strict=True):
        members = _called(group)
        ruled = [with_ties(run, ties) for run in members]
        print_board(ruled, seed=seed)
        for pair in precision_pairs(group):
            print_wrapped(str(pair), style="yellow")
        print_human(human, group)
        print_places(members)
        print_personal(members, seed=seed, by=by)
        print_prompt_use(members)
        if calibrated:
            print_calibration(members)
        print_groups(ruled, by, members)


def _called(group: "list[Run]") -> "list[Run]":
    """Return the runs with the names that their user gave the models; as they are where two have one name."""
    names = {run.model: run.name or run.model for run in group}
    several = len(set(names.values())) < len(names)
    return group if several else [replace(run, model=names[run.model]) for run in group]


def with_rows(runs: "Sequence[Run]", by: str = "") -> "list[Run]":
    """Return the runs that have rows, and name the others; raise where those of a run lack the tag `by`."""
    note_unanswered([run for run in runs if not run.done])
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
    from pluralrm.cli.personalization import print_spread, print_tags
    from pluralrm.metrics import with_ties
    from pluralrm.metrics.overview import content_mark, main_runs, model_names, same_items

    groups = same_items(with_rows(runs, by))
    for group, human in zip(groups, beside(people, groups), strict=True):
        print_overview(group, view._replace(mark=content_mark(group[0], runs)))
        print_human(human, group)
        names = model_names(group)
        members = [replace(run, model=names[run.model]) for run in group]
        if calibrated:
            print_calibration(members)
        if by not in {"", DOMAIN}:
            print_tags(members, by)
        print_groups([with_ties(run, view.ties) for run in main_runs(members)], by, members)
        if by == DOMAIN:
            print_spread(members, by)


def check_tag(runs: "Sequence[Run]", tag: str) -> None:
    """Raise before anything is printed where the rows of a run have no such tag."""
    from pluralrm.errors import MetricError
    from pluralrm.metrics import by_tag

    lacking = [run for run in runs if tag != DOMAIN and not any(tag in row.tags for row in run.rows)]
    for run in lacking:
        try:
            by_tag(run, tag)  # raises, and names the nearest tag
        except MetricError as exc:
            raise (MetricError(f"{run.path}: {exc}") if len(lacking) < len(runs) else exc) from None


def _board_json(group: "Sequence[Run]", seed: int, by: str, ties: "Ties", margin: float | None) -> dict[str, object]:
    from pluralrm.cli.personalization import chance_json, personal_json, prompt_json
    from pluralrm.metrics import leaderboard, precision_pairs, uneven_posts, with_ties
    from pluralrm.metrics.cost import MARGIN, personalization_costs
    from pluralrm.metrics.overview import model_names

    ruled = [with_ties(run, ties) for run in group]
    record = leaderboard(ruled, seed=seed).to_json() | personal_json(group, seed=seed, by=by)
    record["against_chance"] = chance_json(group)
    record["prompt_use"] = prompt_json(group)
    record["uneven_posts"] = [uneven.to_json() for uneven in uneven_posts(group)]
    if pairs := precision_pairs(group):
        record["precision_pairs"] = [pair.to_json() for pair in pairs]
    if costs := personalization_costs(group, margin=margin or MARGIN, seed=seed):
        record["personalization_cost"] = [cost.to_json() for cost in costs]
    if str(load := group[0].card.load):
        record["load"] = asdict(load)
    if by:
        record["by"] = [{"model": run.model, "condition": run.condition, **by_json(run, by)} for run in ruled]
    return cast("dict[str, object]", _with_names(record, model_names(group)))


def _with_names(record: object, names: "Mapping[str, str]") -> object:
    """Return JSON in which every record of a model has its name in tables beside its spec."""
    if isinstance(record, list):
        return [_with_names(entry, names) for entry in record]
    if not isinstance(record, dict):
        return record
    result = {key: _with_names(value, names) for key, value in record.items()}
    return result | ({"name": names[str(record["model"])]} if record.get("model") in names else {})


def by_json(run: "Run", by: str) -> dict[str, object]:
    """Return the headline per value of a tag; for the domain also every metric, and what a paper's formula gives."""
    from pluralrm.metrics import by_domains, by_tag, published

    record = by_tag(run, by).to_json()
    if by != DOMAIN:
        return record
    domains = {
        name: {key: estimate.to_json() for key, estimate in metrics.items()}
        for name, metrics in by_domains(run).items()
    }
    formulas = {key: dict(metric.domains) for key, metric in published(run).items()}
    return record | {"domains": domains, "published_domains": formulas}


def print_board(group: "Sequence[Run]", *, seed: int = 0) -> None:
    """Print the leaderboard of runs on the same items."""
    from pluralrm.cli.diagnostics import print_failures
    from pluralrm.metrics import leaderboard, uneven_posts

    with ProgressDisplay(f"{group[0].benchmark}: comparing {counted(len(group), 'run')}"):
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
    cells = [_row(entry, board.headline, others, failed=failed, formula=formula) for entry in board.entries]
    oracle = [index for index, entry in enumerate(board.entries) if "oracle" in entry.summary.reveals]
    console().print(table(columns, cells, red=oracle))
    loaded = [f"files: {text}" for text in dict.fromkeys(str(run.card.load) for run in group) if text]
    values = [entry.summary.metrics[board.headline] for entry in board.entries]
    methods = dict.fromkeys(f"interval: {value.method}" for value in values if value.low is not None)
    print_legend([_columns(board), *loaded, *_off_chance(group, board), *_reading(board), *methods, *_reasons(board)])
    for run in group:
        print_failures(run, f"{run.model} under {run.condition}: ")
    for uneven in uneven_posts(group):
        print_wrapped(str(uneven), indent="  ", style="yellow")


def _row(entry: "Standing", headline: str, others: Sequence[str], *, failed: bool, formula: str) -> list[str]:
    summary = entry.summary
    value = summary.metrics[headline]
    at_best = "" if summary.bounds is None else f" ≤{100 * summary.bounds.best:.0f}"
    rank = "open"
    if entry.rank is not None:
        rank = f"{entry.rank.low}–{entry.rank.high}" if entry.rank.low != entry.rank.high else str(entry.rank.low)
    # First: the middle of a name may be left out.
    oracle = "ORACLE " * ("oracle" in summary.reveals) + "TRAINED " * bool(summary.trained)
    oracle += "SYNTHESISED " * bool(summary.pairs) + f"{summary.dtype.upper()} " * bool(summary.dtype)
    return [
        rank,
        summary.model,
        oracle + summary.condition,
        percent(value) + ("*" if entry.below_best else ""),
        *(f"{100 * summary.metrics[name].value:.0f}" for name in others),
        *([f"{value.failed}{at_best}"] if failed else []),
        *([share(summary.published.get(headline))] if formula else []),
    ]


def share(metric: "PublishedMetric | None", domain: str = "") -> str:
    """Return a number by a published formula, a dash where it cannot be computed, nothing where there is no formula."""
    if metric is None:
        return ""
    return estimated(metric.domains.get(domain) if domain else metric.value)


def _headlines(board: "Leaderboard") -> "list[PublishedMetric]":
    """Return the headlines by a published formula."""
    return [metric for entry in board.entries if (metric := entry.summary.published.get(board.headline)) is not None]


def formula_name(headlines: "Sequence[PublishedMetric]") -> str:
    """Return the name of the column beside the headline: the paper's on its own items, elsewhere that of its rule."""
    rules = dict.fromkeys(metric.rule for metric in headlines)
    return "publ." if any(metric.source for metric in headlines) else "by rule" if len(rules) > 1 else "".join(rules)


def _columns(board: "Leaderboard") -> str:
    mean = "mean over domains" if board.average == "macro" else "mean over items"
    return f"Per cent, {mean}. rank: the places that the data leave open.{_formulas(board)}"


def _formulas(board: "Leaderboard") -> str:
    """Return what the column beside the headline is."""
    from pluralrm.metrics.official import RULES

    headlines = _headlines(board)
    if any(metric.source for metric in headlines):
        return " publ.: by the paper's own formula."
    return "".join(f" {rule}: {RULES[rule]}." for rule in dict.fromkeys(metric.rule for metric in headlines))


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
    trained = chain.from_iterable(entry.summary.trained for entry in board.entries)
    lines += [f"TRAINED: {text}." for text in dict.fromkeys(trained)]
    lines += [f"SYNTHESISED: {pair}." for pair in pairs]
    imported = [(entry.summary.model, entry.summary.imported) for entry in board.entries if entry.summary.imported]
    lines += [f"{model}: {text}." for model, text in dict.fromkeys(imported)]
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


def _off_chance(group: "Sequence[Run]", board: "Leaderboard") -> list[str]:
    """Return who lies above chance and who below; nothing where all are control conditions, or have no interval."""
    from pluralrm.metrics import against_chance

    if board.entries[0].summary.ties != "share":
        return []
    result, names = against_chance(group), [(entry.summary.model, entry.summary.condition) for entry in board.entries]
    if not result.tested:
        return []

    def order(run: "Run") -> int:
        return names.index((run.model, run.condition))

    above, below = (
        ", ".join(f"{run.model} ({run.condition})" for run in sorted((group[index] for index in places), key=order))
        for places in (result.above, result.below)
    )
    line = f"Above chance ({100 * result.chance:.1f}), by {result.how}: {above or 'none'}."
    return [line, *([f"Below chance, by the same measure: {below}."] if below else [])]


def _reasons(board: "Leaderboard") -> list[str]:
    """Return why published and headline differ, one line per reason with the models that share it.

    A model that stands under several conditions is named with the one that is meant.
    """
    models: dict[str, list[str]] = {}
    several = len({entry.summary.condition for entry in board.entries}) > 1
    for entry in board.entries:
        summary = entry.summary
        name_of = f"{summary.model} ({summary.condition})" if several else summary.model
        for name, published in entry.summary.published.items():
            own = entry.summary.metrics[name].value
            if published.value is None or abs(published.value - own) > 1e-12 or published.first or published.parts:
                by = "as published" if published.source else published.rule
                reason = f"{_SHORT[name]} {_value(own)}, {by} {_value(published.value)}: {published.reason}"
                models.setdefault(reason, []).append(name_of)
    return [f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in models.items()]


def _value(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def print_groups(group: "Sequence[Run]", by: str, siblings: "Sequence[Run]" = ()) -> None:
    """Print the headline per value of a tag, or every metric per domain; nothing where neither is named.

    `siblings` have the controls, for lift and gain per domain.
    """
    if by == DOMAIN:
        _print_domains(group, siblings)
    for run in group if by not in {"", DOMAIN} else ():
        _print_by(run, by)


def _print_domains(group: "Sequence[Run]", siblings: "Sequence[Run]") -> None:
    """Print every metric of the card, lift and gain per domain, all runs of a domain in one table."""
    from pluralrm.metrics import by_domains, leaderboard, published
    from pluralrm.metrics.contrast import tag_contrasts

    order = [(entry.summary.model, entry.summary.condition) for entry in leaderboard(group).entries]
    runs = sorted(group, key=lambda run: order.index((run.model, run.condition)))
    by_domain, formulas = [by_domains(run) for run in runs], [published(run) for run in runs]
    names, pairs = list(next(iter(by_domain[0].values()))), tag_contrasts(siblings, DOMAIN)
    titles = ["lift: own-none", "gain: own-other"] if pairs else []
    whole = len(names) + len(titles) > _FEW
    for domain in by_domain[0]:
        items = sum(row.domain == domain for row in runs[0].rows)
        console().print()
        print_wrapped(f"{runs[0].benchmark}, {domain}: {items:,} items", style="bold")
        columns: list[tuple[str, Kind]] = [("model", "name"), ("condition", "name")]
        columns += [(f"{_SHORT[name]} [95%]", "left") for name in names]
        columns += [(title, "left") for title in titles]
        rows = []
        for run, metrics in zip(runs, by_domain, strict=True):
            contrasts = (
                [contrast.get(domain) for contrast in pairs.get((run.model, run.condition), ({}, {}))] if pairs else []
            )
            numbers = [_brief(metrics[domain][name], whole=whole) for name in names]
            rows.append([run.model, run.condition, *numbers, *map(points_cell, contrasts)])
        if len(names) == 1 and formulas[0]:
            columns.append((formula_name([formula[names[0]] for formula in formulas]).replace(" ", "\n"), "right"))
            rows = [[*row, share(formula.get(names[0]), domain)] for row, formula in zip(rows, formulas, strict=True)]
        console().print(table(columns, rows))
    print_legend(["Per cent (lift and gain: points), mean over the domain's items; intervals are each by itself."])


def _brief(estimate: "Estimate", *, whole: bool) -> str:
    """Return a value in per cent with its interval, the ends in whole per cent where many stand side by side."""
    if not whole or estimate.low is None or estimate.high is None:
        return percent(estimate)
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def _print_by(run: "Run", tag: str) -> None:
    from pluralrm.metrics import by_tag
    from pluralrm.metrics.estimates import tag_values

    result = by_tag(run, tag)
    people = set(zip(tag_values(run.rows, tag), (row.cluster for row in run.rows), strict=True))
    console().print()
    print_wrapped(f"{run.model} under {run.condition}, {result.metric} by {tag}", style="bold")
    rows = [
        (value or "(none)", percent(estimate), str(sum(group == value for group, _ in people)), str(estimate.n))
        for value, estimate in result.groups.items()
    ]
    if result.worst is not None and result.lowest is not None and result.gap is not None:
        rows.append((f"lowest: {result.worst}", percent(result.lowest), "", ""))
        rows.append(("highest minus lowest", percent(result.gap), "", ""))
    columns: list[tuple[str, Kind]] = [(tag, "name"), (f"{result.metric} [95%]", "left")]
    console().print(table([*columns, (f"{run.card.cluster}s", "right"), ("items", "right")], rows))


def compare(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    by: str = typer.Option(
        "", "--by", metavar="TAG", help="Also by a tag: each group, the worst, the gap; 'domain': every metric."
    ),
    ties: TieRule = typer.Option(TieRule.SHARE, "--ties", help="Credit where the preferred answer's score is tied."),
    calibration: bool = typer.Option(
        False, "--calibration", help="Also print calibration: is sigmoid(score difference) a probability?"
    ),
    plural: bool = PLURAL,
    listed: list[str] = LIST,
    human: list[str] = HUMAN,
    every: bool = ALL,
    quiet: bool = QUIET,
    seed: int = typer.Option(0, help="Seed of the resampling."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Which models are personalized, and how do they rank? One row per model, from runs on the same items."""
    from pluralrm.metrics import with_ties
    from pluralrm.runs.store import load_runs, uncollected, without_copies

    with uncollected():
        (runs, copies), people = without_copies(load_runs(paths)), asked(human)
        if copies:
            note(copies)
        form = output_format(form, as_json=as_json)
        as_json = form is TableFormat.JSON
        if plural and form in TEXT_FORMS:
            print_plural_form([with_ties(run, ties.rule) for run in with_rows(runs, by)], listed, seed, form)
            return
        if form in TEXT_FORMS:
            print_form(with_rows(runs, by), form, View(seed=seed, ties=ties.rule), by, every=every)
            return
        if as_json or every:
            print_boards(
                runs,
                seed=seed,
                by=by,
                ties=ties.rule,
                as_json=as_json,
                calibrated=calibration,
                people=people,
                plural=listed if plural else None,
            )
        elif not plural or by or calibration or people:
            view = View(quiet=quiet, seed=seed, ties=ties.rule)
            print_answers(runs, view, by=by, calibrated=calibration, people=people)
        if plural and not as_json:
            print_plural([with_ties(run, ties.rule) for run in with_rows(runs)], listed, seed, quiet=quiet)
        if not (as_json or quiet):
            if plural:
                note(f"accuracy, lift and gain: pluralrm compare {shlex.join(map(str, paths))}")
            note_more(paths, every=every)

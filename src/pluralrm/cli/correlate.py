"""`pluralrm correlate`: does a benchmark predict what reward models do?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from pluralrm.cli.options import FORMAT, TEXT_FORMS, TableFormat, output_format, print_records
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import Kind, console, print_json, print_legend, print_wrapped, table
from pluralrm.errors import SpecError
from pluralrm.text import correlation, correlation_p

if TYPE_CHECKING:
    from pluralrm.core import Estimate
    from pluralrm.correlate import (
        Column,
        Contrast,
        Correlation,
        CorrelationCell,
        CorrelationReport,
        Dispute,
        PublishedTable,
    )
    from pluralrm.correlate.cell import Reversal

_PAIRS = 8
"""Reversed pairs that are shown; --json has all."""


def correlate(
    paths: list[Path] = typer.Argument(None, metavar="RUN", help="Runs with the benchmark scores."),
    outcome: list[Path] = typer.Option(
        [], metavar="DIR", help="Pools or other folders with outcomes of 'pluralrm best-of-n': the results to predict."
    ),
    k: list[int] = typer.Option(
        [], "-k", metavar="K", help="Best of how many answers; repeatable.", show_default="the largest"
    ),
    csv: Path | None = typer.Option(
        None, metavar="FILE", help="A table: a row per model, its name first, blank or - missing; or EvalEval files."
    ),
    benchmark: list[str] = typer.Option(
        [], metavar="COL", help="A benchmark column of the file; the start of its name suffices."
    ),
    downstream: list[str] = typer.Option([], metavar="COL", help="A column of downstream results."),
    matrix: bool = typer.Option(
        False, "--matrix", help="Correlate every pair of columns; all numeric ones if none are named."
    ),
    group: str = typer.Option("", metavar="COL", help="A column of model groups: is the sign reversed within groups?"),
    rbo_p: float = typer.Option(0.8, "--rbo-p", help="Persistence of RBO: weight of a rank over the one above."),
    seed: int = typer.Option(0, help="Seed of the resampling and of random orders."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Test whether rankings on benchmarks predict the ranking downstream. Higher scores are better."""
    from pluralrm.correlate import correlate as correlate_columns
    from pluralrm.correlate import correlate_matrix
    from pluralrm.exchange.evaleval import read_leaderboard

    form = output_format(form, as_json=as_json)
    _check(outcome, csv, k, {"--benchmark": bool(benchmark), "--downstream": bool(downstream), "--group": bool(group)})
    published = read_leaderboard([csv]) if csv is not None else None
    groups = published.words(group) if published is not None and group else None
    second = _picked(outcome, k)
    first, left = _scored(paths or [], second, beside_table=csv is not None)
    if csv is None and form is not TableFormat.JSON:  # the file has names of its own
        first, second = _short(first, second)
    with ProgressDisplay("correlate: resampling"):
        if matrix:
            names = [*benchmark, *downstream]
            texts = published.texts() if published is not None and not names else []
            names = names or [name for name in (published.columns if published else ()) if name not in texts]
            columns = [*first, *_published(published, names), *second]
            report = correlate_matrix(columns, groups=groups, rbo_p=rbo_p, seed=seed)
            report = replace(report, notes=(*report.notes, *(f"left out: {name} holds no numbers" for name in texts)))
        else:
            predictors = [*first, *_published(published, benchmark)] or _no_benchmark(published)
            outcomes = [*second, *_published(published, downstream)] or _no_downstream(published)
            report = correlate_columns(predictors, outcomes, groups=groups, rbo_p=rbo_p, seed=seed)
    report = replace(report, notes=(*report.notes, *left))
    if form is TableFormat.JSON:
        print_json(report.to_json())
    elif form in TEXT_FORMS:
        print_records(report.records(), form)
    else:
        _print_matrix(report) if matrix else _print(report)


def _check(outcome: Sequence[Path], csv: Path | None, k: Sequence[int], options: Mapping[str, bool]) -> None:
    """Raise where an option stands without the one that it is about."""
    alone = [option for option, value in options.items() if value and csv is None]
    if alone:
        raise SpecError(f"{', '.join(alone)}: which file has that column? Wanted --csv FILE beside it")
    if k and not outcome:
        raise SpecError("-k: whose best-of-k? Wanted --outcome DIR beside it")


def _scored(
    paths: Sequence[Path], downstream: "Sequence[Column]", *, beside_table: bool
) -> "tuple[list[Column], list[str]]":
    """Return a column per benchmark and condition, and a line for each control that is left out.

    Beside a table, imported runs go by the names in it.
    """
    from pluralrm.correlate import columns_of_runs, without_controls
    from pluralrm.runs.store import load_runs, without_copies

    runs = without_copies(load_runs(paths))[0] if paths else []
    if beside_table:
        runs = [replace(run, model=run.model.removeprefix("imported:")) for run in runs]
    return without_controls(columns_of_runs(runs), runs, downstream)


def _short(*sides: "Sequence[Column]") -> "list[list[Column]]":
    """Return columns of runs and outcomes with models under the shortest names that keep them apart."""
    from pluralrm.specs import short_names

    names = short_names([model for side in sides for column in side for model in column.scores])
    return [[column.renamed(names) for column in side] for side in sides]


def _picked(paths: Sequence[Path], ks: Sequence[int]) -> "list[Column]":
    from pluralrm.correlate import columns_of_outcomes
    from pluralrm.policies.outcomes import find_outcomes, load_outcome

    for path in paths:
        if not find_outcomes([path]):
            raise SpecError(f"--outcome {path}: no outcome at or below it; 'pluralrm best-of-n POOL' writes them there")
    return columns_of_outcomes([load_outcome(path) for path in find_outcomes(paths)], ks)


def _published(published: "PublishedTable | None", names: Sequence[str]) -> "list[Column]":
    if published is None:
        return []
    return [published.numbers(name) for name in dict.fromkeys(map(published.column, names))]


def _no_benchmark(published: "PublishedTable | None") -> NoReturn:
    raise SpecError(f"no benchmark; wanted run folders or --benchmark COL.{_columns(published)}")


def _no_downstream(published: "PublishedTable | None") -> NoReturn:
    raise SpecError(f"nothing to predict; wanted --outcome DIR or --downstream COL.{_columns(published)}")


def _columns(published: "PublishedTable | None") -> str:
    return "" if published is None else f" Columns: {', '.join(published.columns)}"


def _print(report: "CorrelationReport") -> None:
    from pluralrm.correlate import legend

    for cell in report.cells:
        _print_cell(cell)
    if report.contrasts:
        _print_contrasts(report.contrasts)
    for dispute in report.disputes:
        _print_dispute(dispute)
    console().print()
    print_legend([*legend(report), *_ends(report)])


def _print_matrix(report: "CorrelationReport") -> None:
    """Print a row for each pair of columns; --json has every measure of each."""
    from pluralrm.correlate import legend

    rows = []
    for cell in report.cells:
        rank = cell["spearman"]
        others = (correlation(cell[name].estimate.value) for name in ("kendall", "pearson"))
        name = f"{cell.benchmark}, {cell.downstream}"
        adjusted = (correlation_p(cell.p_adjusted),) * (len(report.cells) > 1)
        rows.append(
            (name, str(len(cell.models)), _with_interval(rank.estimate), *others, correlation_p(rank.p), *adjusted)
        )
    columns: list[tuple[str, Kind]] = [("", "name"), ("n", "right"), ("Spearman [95%]", "left"), ("Kendall", "right")]
    columns += [("Pearson", "right"), ("p", "right"), *([("p Holm", "right")] if len(report.cells) > 1 else [])]  # type: ignore[list-item]
    console().print()
    console().print(table(columns, rows))
    for cell in report.cells:
        for warning in cell.warnings:
            pair = f"warning: {cell.benchmark}, {cell.downstream}: "
            print_wrapped(warning, first=pair, indent="  ", style="yellow")
    console().print()
    family = f"; p Holm over {len(report.cells)} pairs of columns" if len(report.cells) > 1 else ""
    print_legend([*legend(report)[:1], f"p: of Spearman, by permutation of the models{family}.", *_ends(report)])


def _print_cell(cell: "CorrelationCell") -> None:
    console().print()
    print_wrapped(f"{cell.benchmark} -> {cell.downstream}: {_counted(cell)}", style="bold")
    if cell.missing:
        print_wrapped(f"left out, with only one of the two scores: {', '.join(cell.missing)}", indent="  ")
    print_wrapped(cell.verdict)
    for warning in cell.warnings:
        print_wrapped(warning, first="warning: ", indent="  ", style="yellow")
    if cell.inside and cell.inside not in cell.warnings:
        print_wrapped(cell.inside)
    console().print()
    columns: list[tuple[str, Kind]] = [("", "left"), ("value [95%]", "left"), ("chance", "right"), ("p", "right")]
    console().print(table(columns, [_row(finding) for finding in cell.findings]))
    chosen = f"The first on {cell.benchmark} stays {_plain(cell.regret)} below the best in {cell.downstream}."
    print_wrapped(chosen, first="  ", indent="  ")
    _print_reversals(cell)


def _counted(cell: "CorrelationCell") -> str:
    items = f"{cell.clusters:,} clusters of items" if cell.clusters else "no items"
    return f"{len(cell.models)} models, {items}"


def _row(finding: "Correlation") -> tuple[str, ...]:
    return finding.title, _with_interval(finding.estimate), correlation(finding.chance), correlation_p(finding.p)


def _with_interval(estimate: "Estimate") -> str:
    low, high = estimate.low, estimate.high
    interval = "" if low is None or high is None else f" [{correlation(low)}, {correlation(high)}]"
    return f"{correlation(estimate.value):>5}{interval}"


def _print_reversals(cell: "CorrelationCell") -> None:
    pairs = len(cell.models) * (len(cell.models) - 1) // 2
    console().print()
    print_wrapped(
        f"In {len(cell.reversals)} of {pairs} pairs the model that ranks lower on {cell.benchmark} does better in "
        f"{cell.downstream}{', by most' if len(cell.reversals) > _PAIRS else ''}{':' if cell.reversals else '.'}"
    )
    if not cell.reversals:
        return
    tested = any(pair.p_benchmark is not None or pair.p_downstream is not None for pair in cell.reversals)
    columns: list[tuple[str, Kind]] = [("ranks higher", "name"), ("does better", "name"), ("lead", "right")]
    columns += [("loss", "right"), *([("p lead", "right"), ("p loss", "right")] if tested else [])]  # type: ignore[list-item]
    console().print(table(columns, [_reversal(pair, tested=tested) for pair in cell.reversals[:_PAIRS]]))


def _reversal(pair: "Reversal", *, tested: bool) -> tuple[str, ...]:
    p_values = map(_p, (pair.p_benchmark, pair.p_downstream))
    return pair.above, pair.below, _plain(pair.lead), _plain(pair.loss), *(p_values if tested else ())


def _p(p: float | None) -> str:
    return "none" if p is None else f"{p:.3f}"


def _plain(number: float) -> str:
    """Return a difference of scores with three decimals at most: 5.6, 0.067, 13."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def _print_contrasts(contrasts: "Sequence[Contrast]") -> None:
    console().print()
    print_wrapped("Which benchmark predicts better? First minus second, over the models that have all three:")
    rows = []
    for contrast in contrasts:
        pair = f"{contrast.first} - {contrast.second}"
        difference = _with_interval(contrast.difference) + "*" * contrast.shown
        adjusted = (correlation_p(contrast.p_adjusted),) * (contrast.family > 1)
        rows.append(
            (
                pair,
                contrast.downstream,
                contrast.title,
                difference,
                correlation_p(contrast.test.p),
                *adjusted,
                str(contrast.difference.n),
            )
        )
    columns: list[tuple[str, Kind]] = [("", "name"), ("on", "name"), ("", "left"), ("difference [95%]", "left")]
    columns += [("p", "right"), *([("p Holm", "right")] if contrasts[0].family > 1 else [])]  # type: ignore[list-item]
    console().print(table([*columns, ("n", "right")], rows))


def _print_dispute(dispute: "Dispute") -> None:
    """Print which of two benchmarks predicts better, and the pairs of models that would refute it."""
    console().print()
    print_wrapped(dispute.verdict)
    if not (against := dispute.against):
        return
    better, other = dispute.contrast.order
    tested = any(pair.p_downstream is not None for pair in against)
    print_wrapped(f"Against {better}{', by most' if len(against) > _PAIRS else ''}:", first="  ", indent="  ")
    rows = [
        (pair.first, pair.second, _plain(-pair.gain), *((_p(pair.p_downstream),) if tested else ()))
        for pair in against[:_PAIRS]
    ]
    columns: list[tuple[str, Kind]] = [(f"higher on {better}", "name"), (f"higher on {other}, and downstream", "name")]
    columns += [("loss", "right"), *([("p loss", "right")] if tested else [])]  # type: ignore[list-item]
    console().print(table(columns, rows))


def _ends(report: "CorrelationReport") -> list[str]:
    return [*_failed(report), *report.notes]


def _failed(report: "CorrelationReport") -> list[str]:
    failed = sum(cell.findings[0].estimate.failed for cell in report.cells)
    return [f"{failed:,} failed items count as wrong."] if failed else []

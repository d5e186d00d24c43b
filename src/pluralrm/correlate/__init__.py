"""Does a benchmark predict what reward models do? Rankings of models against downstream results.

>>> models = [f"m{place}" for place in range(6)]
>>> bench = Column("bench", dict(zip(models, [1.0, 2, 3, 4, 5, 6])))
>>> tuned = Column("tuned", dict(zip(models, [1.0, 3, 2, 4, 5, 6])))
>>> rank = correlate([bench], [tuned]).cells[0]["spearman"]
>>> round(rank.estimate.value, 3), rank.orders
(0.943, 720)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pluralrm.correlate.cell import CorrelationCell, GroupCorrelation, Leverage, Reversal, cell
from pluralrm.correlate.columns import (
    Column,
    PublishedTable,
    column_of_items,
    columns_of_outcomes,
    columns_of_runs,
    complete,
    read_published,
    without_controls,
)
from pluralrm.correlate.contrasts import Contrast, Dispute, DisputedPair, contrasts_of, lines_about
from pluralrm.correlate.measures import ENOUGH, FEWEST, Correlation, unranked
from pluralrm.display import JsonFields, Record, Tabular
from pluralrm.errors import MetricError
from pluralrm.stats import holm
from pluralrm.stats.ranking import RBO_P
from pluralrm.text import flat

Pair = tuple[Column, Column]


def matched(benchmarks: Sequence[Column], result: Column) -> list[Column]:
    """Return the benchmarks that stand against a result: of one under several conditions, that of the picks, if any."""
    alike = {column.source for column in benchmarks if column.condition and column.condition == result.condition}
    return [column for column in benchmarks if column.source not in alike or column.condition == result.condition]


def match_notes(benchmarks: Sequence[Column], downstream: Sequence[Column]) -> list[str]:
    """Return what a reader must know of how models were matched, where that was not by condition too."""
    notes, used = [], set()
    for result in downstream:
        for column in matched(benchmarks, result):
            used.add(column.name)
            if column.condition and result.condition and column.condition != result.condition:
                notes.append(
                    f"{column.name} -> {result.name}: matched by model alone. Scores are under {column.condition}, "
                    f"picks under {result.condition}"
                )
    left = [column for column in benchmarks if column.name not in used]
    return notes + [f"left out: {column.name}, for no model picks under {column.condition}" for column in left]


def usable(pairs: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """Return the pairs that can be correlated, and a line for each column and pair that cannot: left out everywhere."""
    columns = {column.name: column for pair in pairs for column in pair}
    few = [name for name, column in columns.items() if len(column.scores) < FEWEST]
    lines = [
        f"left out: {name} has a score for {len(columns[name].scores)}, wanted {FEWEST} models or more" for name in few
    ]
    good = []
    for first, second in pairs:
        if first.name in few or second.name in few:
            continue
        if first.is_again(second):
            lines.append(f"left out: {first.name} against itself")
        elif reason := unranked((first, second), complete((first, second), list(first.scores))):
            lines.append(f"left out: {first.name} -> {second.name}: {reason}")
        else:
            good.append((first, second))
    return good, lines


__all__ = [
    "ENOUGH",
    "Column",
    "Contrast",
    "Correlation",
    "CorrelationCell",
    "CorrelationReport",
    "Dispute",
    "DisputedPair",
    "GroupCorrelation",
    "Leverage",
    "PublishedTable",
    "Reversal",
    "column_of_items",
    "columns_of_outcomes",
    "columns_of_runs",
    "correlate",
    "correlate_matrix",
    "legend",
    "read_published",
    "without_controls",
]


@dataclass(frozen=True, slots=True, repr=False)
class CorrelationReport(Tabular, JsonFields):
    """All cells, and where there are several benchmarks how they differ on the same downstream result."""

    in_json = ("rbo_p", "cells", "contrasts", "disputes", "notes")

    cells: tuple[CorrelationCell, ...]
    contrasts: tuple[Contrast, ...]
    rbo_p: float
    notes: tuple[str, ...]
    disputes: tuple[Dispute, ...] = ()
    """For each pair of benchmarks the pairs of models that they order differently, and who is right."""

    def records(self) -> list[Record]:
        """Return a row per pair of columns and measure: the value with its interval, its permutation p, chance."""
        return [
            {
                "benchmark": cell.benchmark,
                "downstream": cell.downstream,
                "measure": finding.title,
                **flat("value", finding.estimate),
                "p": finding.p,
                "p_adjusted": cell.p_adjusted if finding.measure == "spearman" else None,
                "chance": finding.chance,
            }
            for cell in self.cells
            for finding in cell.findings
        ]


def correlate(
    benchmarks: Sequence[Column],
    downstream: Sequence[Column],
    *,
    groups: Mapping[str, str] | None = None,
    rbo_p: float = RBO_P,
    seed: int = 0,
) -> CorrelationReport:
    """Return every benchmark against every downstream result; higher is better in all columns.

    Each cell rests on the models that have both scores. Where a benchmark was scored under the condition of the picks,
    its other conditions stand back. `groups` names the group of a model.
    """
    pairs = [(benchmark, result) for result in downstream for benchmark in matched(benchmarks, result)]
    notes = match_notes(benchmarks, downstream)
    report = _report(pairs, notes, groups or {}, rbo_p=rbo_p, seed=seed)
    contrasts, disputes = contrasts_of(benchmarks, downstream, matched, rbo_p=rbo_p, seed=seed)
    return replace(report, contrasts=tuple(contrasts), disputes=tuple(disputes))


def correlate_matrix(
    columns: Sequence[Column], *, groups: Mapping[str, str] | None = None, rbo_p: float = RBO_P, seed: int = 0
) -> CorrelationReport:
    """Return every pair of columns once, the earlier against the later; no benchmark is compared with another."""
    return _report(list(combinations(columns, 2)), [], groups or {}, rbo_p=rbo_p, seed=seed)


def _report(
    pairs: Sequence[Pair], notes: Sequence[str], groups: Mapping[str, str], *, rbo_p: float, seed: int
) -> CorrelationReport:
    """Return the cells of the pairs that can be correlated, which are one family; a line for each that cannot."""
    pairs, lines = usable(pairs)
    if not pairs:
        raise MetricError(
            f"nothing to correlate: {'; '.join(lines) or 'wanted one benchmark and one downstream result, or more'}"
        )
    cells = [cell(first, second, groups, rbo_p=rbo_p, seed=seed) for first, second in pairs]
    adjusted = holm([cell.p_adjusted for cell in cells])
    own = [note for pair in pairs for column in pair for note in column.notes]
    return CorrelationReport(
        cells=tuple(
            replace(cell, p_adjusted=float(p), family=len(cells)) for cell, p in zip(cells, adjusted, strict=True)
        ),
        contrasts=(),
        rbo_p=rbo_p,
        notes=tuple(dict.fromkeys([*lines, *notes, *own])),
    )


def legend(report: CorrelationReport) -> list[str]:
    """Return how the numbers were computed, a line each."""
    findings = [finding for cell in report.cells for finding in cell.findings]
    methods = "; ".join(dict.fromkeys(finding.estimate.method for finding in findings))
    about = dict.fromkeys(cell.estimand for cell in report.cells)
    tried = dict.fromkeys(
        f"all {finding.orders:,}" if finding.exact else f"{finding.orders:,} random" for finding in findings
    )
    return [
        f"interval: {methods}; about {' or '.join(about)}.",
        f"p: by permutation of the models, {' or '.join(tried)} orders; two-sided, of NDCG, RBO and regret one-sided.",
        "NDCG: relevance n + 1 - downstream rank, discount log2(1 + place).",
        f"RBO: p = {report.rbo_p:g}, to the full depth.",
        "regret: how far the benchmark's first stays below the best, as a share of the range downstream.",
        *lines_about(report.contrasts),
    ]

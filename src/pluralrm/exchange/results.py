"""Results as a data set: a line per model, condition and metric with its interval and hashes, and the README for it.

Every number is that of `compare` on the same runs. Names and numbers alone: no post, prompt, answer or path.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pluralrm.core import Estimate
from pluralrm.errors import RunError
from pluralrm.exchange.card import CardResult, Insertion, card_result, insert_section, no_result, source_of
from pluralrm.metrics.overview import overviews_text
from pluralrm.report.sections import Section

DATA, README = "results.jsonl", "README.md"
"""The files of the data set."""


def result_rows(every: Sequence[Section]) -> list[dict[str, object]]:
    """Return a flat record per number, the same keys in all; unfinished runs and those that saw the rubric have none.

    Beside the metrics under the condition of a model's row: lift, gain, and the headline under its controls.
    """
    rows = []
    for section in every:
        for row in section.overview.rows:
            if not no_result(row):
                rows += list(_rows(section, card_result(section, row)))
    return rows


def left_out(every: Sequence[Section]) -> list[str]:
    """Return which models have no record on a benchmark, and why."""
    return [
        f"{section.names[row.model]} under {row.condition} on {section.overview.benchmark}: {why}"
        for section in every
        for row in section.overview.rows
        if (why := no_result(row))
    ]


def _rows(section: Section, result: CardResult) -> Iterator[dict[str, object]]:
    row, headline, personal = result.row, result.overview.headline, result.row.personal
    rank = row.rank
    answer: dict[str, object] = {"chance": result.overview.chance, "verdict": row.verdict or None}
    answer |= {"rank_low": rank and rank.low, "rank_high": rank and rank.high}
    for metric, estimate in row.metrics.items():
        yield _record(result, row.condition, metric, estimate) | (answer if metric == headline else {})
    for metric, difference in (("lift", row.lift), ("gain", row.gain)):
        if difference is not None:
            yield _record(result, row.condition, metric, difference)
    for role, estimate in personal.accuracy.items() if personal else ():
        if role not in {"own", "oracle"}:
            condition = personal.conditions[role] if personal else ""
            control = replace(result, source=source_of(section, result.name, condition))
            yield _record(control, condition, headline, estimate)


def _record(result: CardResult, condition: str, metric: str, estimate: Estimate) -> dict[str, object]:
    overview = result.overview
    return {
        "benchmark": overview.benchmark,
        "model": result.name,
        "condition": condition,
        "metric": metric,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "level": 0.95,
        "method": estimate.method,
        "n": estimate.n,
        "failed": estimate.failed,
        "clusters": overview.clusters,
        "cluster": overview.cluster,
        **dict.fromkeys(("chance", "verdict", "rank_low", "rank_high")),
        "benchmark_sha256": result.benchmark_hash,
        "template_sha256": result.template_hash or None,
        "date": result.date,
        "pluralrm": result.version or None,
        "remarks": "; ".join(result.remarks) or None,
    }


def results_text(every: Sequence[Section]) -> str:
    """Return the records as JSON lines; RunError where there is none."""
    rows = result_rows(every)
    if not rows:
        raise RunError(f"no result: {'; '.join(left_out(every)) or 'nothing was scored'}. Finish a run first")
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def insert_results(readme: str, every: Sequence[Section]) -> Insertion:
    """Return the README of a data set with the tables of `compare`, and in its metadata which file holds the rows."""
    tables = overviews_text([section.overview for section in every], [section.names for section in every], "markdown")
    text = (
        f"## Results by pluralrm\n\n{tables}\nPer cent and points, with 95% intervals; failed items count as wrong. "
        f"`{DATA}` has a line per model, condition and metric: shares of 1 in full, n, and hashes of items and "
        "templates.\n"
    )
    configs: Sequence[Mapping[str, str]] = [{"config_name": "default", "data_files": DATA}]
    return insert_section(readme, text, "configs", configs)

"""Leaderboards that others published, as one table with a row per model: CSV, or EvalEval's JSON, one file a model.

A Prior Sets score of exactly 0 on a RewardBench leaderboard means that it is missing.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from pluralrm.correlate.columns import PublishedTable, read_published
from pluralrm.errors import MetricError, RowError

_PRIOR = "prior sets"
Cells = dict[str, dict[str, str]]


def read_leaderboard(paths: Sequence[str | Path]) -> PublishedTable:
    """Return the table of a CSV file, or of EvalEval files and folders of them, several boards side by side.

    Models are one where their names differ in case alone. A board's columns begin with its name.
    """
    files = [Path(path) for path in paths]
    if len(files) == 1 and not files[0].is_dir() and files[0].suffix.lower() != ".json":
        return without_absent(read_published(files[0]))
    documents = [file for path in files for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])]
    if not documents:
        raise MetricError(f"{', '.join(map(str, files))}: no .json file there; wanted one per model, or one CSV file")
    if table := next((file for file in documents if file.suffix.lower() == ".csv"), None):
        raise MetricError(f"{table}: CSV goes one file at a time; several files are EvalEval's JSON, one a model")
    cells: Cells = {}
    origin: dict[tuple[str, str], Path] = {}
    spelled: dict[str, str] = {}
    notes: dict[str, None] = {}
    for file in documents:
        model, scores, left = _document(file)
        row = cells.setdefault(spelled.setdefault(model.casefold(), model), {})
        notes |= dict.fromkeys(left)
        for name, score in scores.items():
            first = origin.setdefault((model.casefold(), name), file)
            if row.setdefault(name, score) != score:
                raise RowError(str(file), 1, name, found=score, wanted=f"{row[name]}, as in {first}")
    columns = tuple(dict.fromkeys(name for row in cells.values() for name in row))
    cells = {model: {name: row.get(name, "") for name in columns} for model, row in cells.items()}
    label = ", ".join(map(str, files))
    return without_absent(PublishedTable(label, columns, cells, dict.fromkeys(cells, 1), notes=tuple(notes)))


def without_absent(table: PublishedTable) -> PublishedTable:
    """Return the table without the zeros that mean missing; a note says how many there were in which column."""
    notes, cells = list(table.notes), {model: dict(row) for model, row in table.cells.items()}
    for name in (name for name in table.columns if _PRIOR in name.casefold()):
        absent = [model for model, row in cells.items() if _number(row[name]) == 0]
        for model in absent:
            cells[model][name] = ""
        if absent:
            notes.append(f"{table.file}: {name} is 0 for {len(absent):,} of {len(cells):,} models, which means missing")
    return replace(table, cells=cells, notes=tuple(notes))


def missing(table: PublishedTable) -> list[str]:
    """Return a line for each column that some models lack."""
    counts = {name: sum(not row[name] for row in table.cells.values()) for name in table.columns}
    return [f"{name}: missing for {count:,} of {len(table.cells):,} models" for name, count in counts.items() if count]


def csv_of(table: PublishedTable) -> str:
    """Return the table as `pluralrm correlate --csv` reads it; what is missing is blank."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["model", *table.columns])
    writer.writerows([model, *(row[name] for name in table.columns)] for model, row in table.cells.items())
    return stream.getvalue()


def _document(file: Path) -> tuple[str, dict[str, str], list[str]]:
    """Return the model of a file, its scores by column, and what is left out."""
    try:
        document = cast(object, json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError) as exc:
        raise MetricError(f"cannot read {str(file)!r}: {exc}. Wanted EvalEval's JSON, one file a model") from exc
    model = _at(document, file, "model_info", "name") or _at(document, file, "model_info", "id")
    board = _at(document, file, "source_metadata", "source_name")
    board = board or str(_at(document, file, "evaluation_id") or "").partition("/")[0]
    results = _at(document, file, "evaluation_results")
    if not isinstance(model, str) or not model.strip():
        raise RowError(str(file), 1, "model_info.name", found="no name", wanted="the model's name")
    if not isinstance(results, list) or not results:
        raise RowError(str(file), 1, "evaluation_results", found="none", wanted="a list of scores")
    scores: dict[str, str] = {}
    left = []
    for result in results:
        name = (
            f"{board}: {_at(result, file, 'evaluation_name')}" if board else str(_at(result, file, "evaluation_name"))
        )
        if _at(result, file, "metric_config", "lower_is_better"):
            left.append(f"left out: {name}, for lower is better there")
            continue
        score = _at(result, file, "score_details", "score")
        if isinstance(score, bool) or not isinstance(score, int | float | None):
            raise RowError(str(file), 1, f"{name} score", found=repr(score)[:40], wanted="a number, or null")
        scores[" ".join(name.split())] = "" if score is None or not math.isfinite(score) else repr(score)
    return " ".join(model.split()), scores, left


def _at(value: object, file: Path, *keys: str) -> object:
    """Return the value under some keys; None where one is missing."""
    for key in keys:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise RowError(str(file), 1, key, found="no object around it", wanted="EvalEval's JSON")
        value = cast("Mapping[str, object]", value).get(key)
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

"""Published numbers from a CSV file: one row a model, its name in the first column; blank and "-" are missing."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.correlate.columns import Column
from pluralrm.errors import MetricError, RowError, did_you_mean

_MISSING = frozenset({"", "-"})


@dataclass(frozen=True, slots=True)
class Published:
    """The cells of a table as they are written, by model and column, and the line that each model stands on."""

    file: str
    columns: tuple[str, ...]
    cells: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, int]

    @property
    def models(self) -> list[str]:
        """The models' names, in the order of the rows."""
        return list(self.cells)

    def numbers(self, column: str) -> Column:
        """Return a column of numbers without its missing cells; anything else in it is a RowError."""
        written = self._written(column)
        kept = {model: text for model, text in written.items() if text not in _MISSING}
        return Column(column, {model: self._number(model, column, text) for model, text in kept.items()})

    def words(self, column: str) -> dict[str, str]:
        """Return a column of names, such as groups, without its missing cells."""
        return {model: text for model, text in self._written(column).items() if text not in _MISSING}

    def _written(self, column: str) -> dict[str, str]:
        if column not in self.columns:
            raise MetricError(f"{self.file}: no column {column!r}.{did_you_mean(column, self.columns)}")
        return {model: cells[column] for model, cells in self.cells.items()}

    def _number(self, model: str, column: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise RowError(self.file, self.lines[model], column, found=repr(text), wanted="a number, blank or '-'")
        return number


def read_published(path: str | Path) -> Published:
    """Return the table in a CSV file; a row that does not fit its header, or a model named twice, is a RowError."""
    file = str(path)
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            numbered = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise MetricError(f"cannot read {file!r}: {exc}. Wanted a CSV file in UTF-8, one row a model") from exc
    rows = [(line, row) for line, row in numbered if any(row)]
    if len(rows) < 2:
        raise MetricError(f"{file}: found {len(rows)} rows, wanted a header and one row a model")
    header = _header(file, *rows[0])
    return _table(file, header, rows[1:])


def _header(file: str, line: int, row: Sequence[str]) -> tuple[str, ...]:
    twice = [name for place, name in enumerate(row) if name in row[:place]]
    if len(row) < 2 or twice:
        found = f"{twice[0]!r} twice" if twice else "one column"
        raise RowError(file, line, "header", found=found, wanted="the models' column and others, each named once")
    return tuple(row[1:])


def _table(file: str, columns: tuple[str, ...], rows: Sequence[tuple[int, Sequence[str]]]) -> Published:
    cells: dict[str, dict[str, str]] = {}
    lines: dict[str, int] = {}
    for line, (model, *rest) in rows:
        if len(rest) != len(columns):
            raise RowError(file, line, "row", found=f"{len(rest) + 1} cells", wanted=f"{len(columns) + 1}")
        if not model or model in cells:
            found = f"{model!r} again, as on line {lines[model]}" if model else "no name"
            raise RowError(file, line, "model", found=found, wanted="each model's name once")
        cells[model], lines[model] = dict(zip(columns, rest, strict=True)), line
    return Published(file, columns, cells, lines)

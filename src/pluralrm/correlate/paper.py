"""Published numbers from a CSV file: one row a model, its name in the first column; blank and "-" are missing."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from pluralrm.correlate.columns import Column
from pluralrm.errors import MetricError, RowError, did_you_mean

_MISSING = frozenset({"", "-"})
_LINES = 5
"""Lines of short rows that are named."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The cells of a table as they are written, by model and column, and the line that each model stands on."""

    file: str
    columns: tuple[str, ...]
    cells: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, int]
    padded: tuple[int, ...] = ()
    """The lines of the rows that end before the header does."""

    @property
    def models(self) -> list[str]:
        """The models' names, in the order of the rows."""
        return list(self.cells)

    def numbers(self, column: str) -> Column:
        """Return a column of numbers without its missing cells; anything else in it is a RowError."""
        name = self.column(column)
        written = {model: cells[name] for model, cells in self.cells.items() if cells[name] not in _MISSING}
        scores = {model: self._number(model, name, text) for model, text in written.items()}
        return Column(name, scores, notes=self._notes())

    def words(self, column: str) -> dict[str, str]:
        """Return a column of names, such as groups, without its missing cells."""
        name = self.column(column)
        return {model: cells[name] for model, cells in self.cells.items() if cells[name] not in _MISSING}

    def texts(self) -> list[str]:
        """Return the columns without one number, such as groups; of others `numbers` names the first bad cell."""
        return [name for name in self.columns if not any(_is_number(cells[name]) for cells in self.cells.values())]

    def column(self, name: str) -> str:
        """Return the column that has this name, or the only one that begins with it.

        A line break in a header counts as a blank, however it is written.
        """
        wanted = _one_line(name)
        found = [column for column in self.columns if column == wanted]
        found = found or [column for column in self.columns if wanted and column.startswith(wanted)]
        if len(found) > 1:
            raise MetricError(f"{self.file}: {name!r} begins {len(found)} columns: {', '.join(found)}")
        if not found:
            raise MetricError(f"{self.file}: no column {name!r}.{did_you_mean(wanted, self.columns)}")
        return found[0]

    def _notes(self) -> tuple[str, ...]:
        if not self.padded:
            return ()
        lines = ", ".join(map(str, self.padded[:_LINES])) + (", ..." if len(self.padded) > _LINES else "")
        rows = f"{len(self.padded)} of {len(self.cells)} rows end before the header does (line {lines})"
        return (f"{self.file}: {rows}; the cells that they lack are missing",)

    def _number(self, model: str, column: str, text: str) -> float:
        if not _is_number(text):
            raise RowError(self.file, self.lines[model], column, found=repr(text), wanted="a number, blank or '-'")
        return float(text)


def read_published(path: str | Path) -> PublishedTable:
    """Return the table in a CSV file; a row longer than its header, or a model named twice, is a RowError.

    A row that ends early lacks its last cells; blank cells beyond the header are nothing.
    """
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
    names = [_one_line(name) for name in _without_blanks(row)]
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if len(names) < 2 or twice:
        found = f"{twice[0]!r} twice" if twice else "one column"
        raise RowError(file, line, "header", found=found, wanted="the models' column and others, each named once")
    return tuple(names[1:])


def _table(file: str, columns: tuple[str, ...], rows: Sequence[tuple[int, Sequence[str]]]) -> PublishedTable:
    cells: dict[str, dict[str, str]] = {}
    lines: dict[str, int] = {}
    padded = []
    for line, (model, *rest) in rows:
        if len(kept := _without_blanks(rest)) > len(columns):
            raise RowError(file, line, "row", found=f"{len(kept) + 1} cells", wanted=f"{len(columns) + 1}")
        if not model or model in cells:
            found = f"{model!r} again, as on line {lines[model]}" if model else "no name"
            raise RowError(file, line, "model", found=found, wanted="each model's name once")
        padded += [line] * (len(rest) < len(columns))
        cells[model], lines[model] = dict(zip_longest(columns, kept, fillvalue="")), line
    return PublishedTable(file, columns, cells, lines, tuple(padded))


def _one_line(name: str) -> str:
    r"""Return a header's name on one line: a spreadsheet breaks lines in it, and a shell passes on ``\n`` as typed."""
    return " ".join(name.replace("\\n", " ").split())


def _without_blanks(row: Sequence[str]) -> list[str]:
    """Return a row without the blank cells at its end."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return list(row[:end])


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False

"""Labels from and to files: CSV or JSONL with the columns item, annotator, label, and perhaps more.

A cell that a spreadsheet would run as a formula is written with an apostrophe before it, and read without.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pluralrm.annotate.labels import Label
from pluralrm.benchmarks.rows import Place, describe, read_rows
from pluralrm.errors import MetricError, RowError, did_you_mean

NEEDED = ("item", "annotator", "label")
MORE = ("dimension", "domain", "arm", "cluster", "round")
_REHEARSAL = "rehearsal"
"""A column of labels that nobody made; others have none."""
_LONGEST_ROUND = 6
"""Digits."""
_MISSING = frozenset({"", "-", "cannot_tell"})


def read_labels(path: Path) -> list[Label]:
    """Return the labels in a CSV or JSONL file with the columns item, annotator, label, and perhaps MORE.

    Blank labels, "-" and "cannot_tell" are blank. A label that comes twice is a RowError.
    """
    rows = read_rows(path) if path.suffix in {".jsonl", ".json"} else _csv(path)
    found: list[Label] = []
    seen: set[tuple[str, ...]] = set()
    for place, row in rows:
        one = _checked(row, place)
        key = (one.item, one.annotator, one.dimension, one.arm, str(one.round))
        if key in seen:
            raise place.refuse(
                "annotator",
                found=f"{one.annotator!r} on {one.item!r} again",
                wanted="one label of each; for judgments that were asked for twice, a column 'round'",
            )
        seen.add(key)
        found.append(one)
    if not any(one.label for one in found):
        raise MetricError(f"{path}: found no label; wanted one row for each judgment: {', '.join(NEEDED)}")
    return found


def _csv(path: Path) -> Iterator[tuple[Place, Mapping[str, object]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            _check_header(header, path)
            for row in reader:
                if None in row or None in row.values():  # more cells than the header has, or fewer
                    raise RowError(
                        str(path),
                        reader.line_num,
                        "row",
                        found="another number of cells",
                        wanted=f"{len(header)}, as in the first line",
                    )
                yield Place(str(path), reader.line_num), {name: unguarded(str(cell)) for name, cell in row.items()}
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise MetricError(
            f"cannot read {str(path)!r}: {exc}. Wanted CSV or JSONL in UTF-8: {', '.join(NEEDED)}"
        ) from exc


def _check_header(header: Sequence[str], path: Path) -> None:
    for name in NEEDED:
        if name not in header:
            raise MetricError(f"{path}: no column {name!r}.{did_you_mean(name, header)}")
    if len(set(header)) < len(header):
        raise MetricError(f"{path}: two columns of one name; wanted each once")


def _checked(row: Mapping[str, object], place: Place) -> Label:
    """Return a row as a label; columns that are not ours are passed over."""
    texts = {name: _text(row, name, place) for name in (*NEEDED, *MORE)}
    for name in ("item", "annotator"):
        if not texts[name]:
            raise place.refuse(name, found=describe(row.get(name)), wanted="a name")
    turn = texts.pop("round") or "1"
    if not (turn.isascii() and turn.isdecimal()) or len(turn) > _LONGEST_ROUND or int(turn) < 1:
        raise place.refuse("round", found=describe(row.get("round")), wanted="a whole number from 1")
    if texts["label"] in _MISSING:
        texts["label"] = ""
    return Label(**texts, round=int(turn), rehearsal=bool(_text(row, _REHEARSAL, place)))


def _text(row: Mapping[str, object], name: str, place: Place) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, bool | float | int | str):
        return str(value).strip()
    raise place.refuse(name, found=describe(value), wanted="a text or a number")


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the last four are the first four in full width."""


def guarded(text: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: an apostrophe is put before what could be one."""
    return f"'{text}" if text.startswith(_FORMULA) or text.startswith("'") else text


def unguarded(cell: str) -> str:
    """Return the text of a cell that `guarded` has written; any other stays as it is."""
    rest = cell[1:]
    return rest if cell.startswith("'") and (rest.startswith(_FORMULA) or rest.startswith("'")) else cell


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of the same keys as CSV that no spreadsheet runs."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [*NEEDED, *MORE], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: guarded(str(value)) for name, value in row.items()} for row in rows)
    return text.getvalue()


def jsonl_text(rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n" for row in rows)


def rows_of(labels: Iterable[Label]) -> list[Mapping[str, object]]:
    """Return labels as rows of a file; those that nobody could tell stay, so that they can be counted."""
    return [_row(one) for one in labels]


def _row(one: Label) -> Mapping[str, object]:
    row: dict[str, object] = {**asdict(one), "label": one.label or "cannot_tell"}
    return row if one.rehearsal else {name: value for name, value in row.items() if name != _REHEARSAL}

"""The rows of a run: its items as they count until they are scored, and the lines that hold their scores."""

import gzip
import re
from collections.abc import Iterable
from dataclasses import fields
from itertools import chain, repeat
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from pydantic_core import from_json

from pluralrm.core import Row
from pluralrm.errors import RunError
from pluralrm.folders import file_hash
from pluralrm.journal import unsealed_line, whole_lines
from pluralrm.runs import records
from pluralrm.runs.records import ITEMS, ROWS, RUN, RowRecord, RunManifest


class ItemShape(NamedTuple):
    """An item's row, and what each line on its scores repeats: before the scores, between them and the posts, after."""

    row: Row
    before: bytes
    between: bytes
    after: bytes
    facts: tuple[object, ...]
    """What every row of the item has."""


class ItemRows(dict[str, Row]):
    """The row of each item as it counts until it is scored, made of the lines that hold them."""

    def __init__(self, rows: Iterable[Row], lines: Iterable[bytes] = ()) -> None:
        super().__init__()
        self.shapes: dict[bytes, ItemShape] = {}
        """By the beginning of a line; none of items that were not read from a file."""
        for row, line in zip(rows, chain(lines, repeat(b"")), strict=False):
            self[row.item] = row
            before, scores, rest = line.partition(b'"scores":[')
            _, posts, after = rest.partition(b',"lenders":0')
            between, _, _ = rest.partition(b'"posts":0,')
            if scores and posts and (end := after.rfind(b',"missing":')) >= 0:
                facts = tuple(take(row) for take, _ in _KEPT)
                self.shapes[_beginning(line)] = ItemShape(row, before + scores, between, after[:end], facts)

    def only(self, names: Iterable[str]) -> "ItemRows":
        """Return some of the items, in this order."""
        items = ItemRows(self[name] for name in names)
        items.shapes = {start: shape for start, shape in self.shapes.items() if shape.row.item in items}
        return items


def _beginning(line: bytes) -> bytes:
    return line[: line.find(b'","cluster":')]


Items = dict[str, ItemRows]
"""The items of files that were read before, by the files' hashes: runs on one benchmark share them."""


def read_items(folder: Path, manifest: RunManifest, library: Items | None = None) -> ItemRows | None:
    """Return the row of each item as it counts until it is scored; None in older runs, which kept no list."""
    file = folder / ITEMS
    if not manifest.items_hash:
        return None
    try:
        if file_hash(file) != manifest.items_hash:
            raise RUN.damaged(file, "the file is not as it was written")
        if library and manifest.items_hash in library:
            return library[manifest.items_hash]
        lines = gzip.decompress(file.read_bytes()).splitlines()
    except OSError as exc:
        raise RunError(f"cannot read {file}: {exc}. Restore it, or {RUN.anew}") from exc
    parsed = (RUN.parse(RowRecord, line, f"{file}:{number}") for number, line in enumerate(lines, 1))
    items = ItemRows(map(records.row_of, parsed), lines)
    if library is not None:
        library[manifest.items_hash] = items
    return items


def read_rows(folder: Path, manifest: RunManifest, items: ItemRows | None, *, torn: bool = False) -> dict[str, Row]:
    """Return the rows on disk by item; one that comes twice, or is of none of its items, is an error by line.

    So are fewer rows than run.json counts, unless the file may be `torn`, and a complete file with another hash.
    """
    rows: dict[str, Row] = {}
    file = folder / ROWS
    if items is not None and manifest.shard is not None:
        items = items.only(manifest.shard.of(items))
    intact = bool(manifest.rows_hash) and file.exists() and file_hash(file) == manifest.rows_hash
    for number, line in enumerate(whole_lines(file), 1):
        row = _scored_item(line, items, intact=intact) if items else None
        if row is None:
            row = records.row_of(RUN.parse(RowRecord, line, f"{file}:{number}"))
            if items is not None and (unlike := _unlike(row, items.get(row.item))):
                raise RUN.damaged(f"{file}:{number}", unlike)
        if row.item in rows:
            raise RUN.damaged(f"{file}:{number}", f"found a second row of item {row.item!r}, wanted one")
        rows[row.item] = row
    total = manifest.selection.items if manifest.shard is None or items is None else len(items)
    if len(rows) > total:
        raise RUN.damaged(file, f"found {len(rows):,} rows, and {RUN.manifest} has {total:,} items")
    least = total if manifest.status == "complete" else manifest.rows
    if len(rows) < least and not torn:
        raise RunError(
            f"{file}: found {len(rows):,} rows, and {RUN.manifest} counts {least:,}. Restore it; or the same "
            "'pluralrm score' command scores the missing ones again"
        )
    if manifest.rows_hash and len(rows) == manifest.rows and not intact:
        raise RUN.damaged(file, "its rows are not those that were scored")
    return rows


_CONTEXT = re.compile(rb'"posts":(\d{1,9}),"input":"([0-9a-f]*)","pairs":(null|\d{1,9}),"lenders":(\d{1,9})')
_END = re.compile(rb'(?:,"traits":(\d{1,9}))?(?:,"check":"[0-9a-f]{8}")?\}\s*')


def _scored_item(line: bytes, items: ItemRows, *, intact: bool = False) -> Row | None:
    """Return the row in a line that says no more than an item's scores; None for every other, which is read in full.

    Nearly all lines are such, and what they repeat of the item is compared byte for byte, not parsed again. The check
    of a line says nothing new where the whole file is `intact`.
    """
    shape = items.shapes.get(_beginning(line))
    if shape is None or not line.startswith(shape.before) or not (intact or _unchanged(line)):
        return None
    start, end = len(shape.before), line.find(b"]", len(shape.before))
    context = _CONTEXT.match(line, end + len(shape.between)) if line.startswith(shape.between, end) else None
    if context is None or not line.startswith(shape.after, context.end()):
        return None
    rest = _END.fullmatch(line, context.end() + len(shape.after))
    try:
        scores = tuple(from_json(line[start - 1 : end + 1]))
    except ValueError:
        return None
    numbers = len(scores) == len(shape.row.lengths) and set(map(type, scores)) == {float} and all(map(isfinite, scores))
    if not numbers or rest is None:
        return None
    posts, seen, pairs, lenders = context.groups()
    values = (scores, int(posts), seen.decode(), None if pairs == b"null" else int(pairs), int(lenders))
    scored = object.__new__(Row)  # Row(...) takes three times as long, and the item's label is settled
    for put, value in zip(_PUT, (*shape.facts, *values, int(rest[1] or 0), False), strict=True):
        put(scored, value)
    return scored


def _unchanged(line: bytes) -> bool:
    """Return whether a line is as its check says; true of one without."""
    try:
        unsealed_line(line)
    except ValueError:
        return False
    return True


_FIELDS = {field.name: vars(Row)[field.name] for field in fields(Row)}
_SCORED = ("scores", "posts", "input_hash", "pairs", "lenders", "traits", "failed")
_SHOWN = [_FIELDS.pop(name).__set__ for name in _SCORED]
_KEPT = [(member.__get__, member.__set__) for member in _FIELDS.values()]
_PUT = [*(put for _, put in _KEPT), *_SHOWN]


def _unlike(row: Row, item: Row | None) -> str:
    """Return in what a row is not of this item, or nothing."""
    if item is None:
        return f"a row of item {row.item!r}, which is none of this run"
    facts = ["cluster", "domain", "preferred", "candidate_ids", "lengths", "tags", "others", "digests"]
    facts += ["grades"] * (row.preferred == item.preferred)
    facts += ["prompt"] * bool(row.prompt)  # older rows have none
    if differing := [name for name in facts if getattr(row, name) != getattr(item, name)]:
        return f"{' and '.join(differing)} of item {row.item!r} are not as in {ITEMS}"
    same = len(row.scores) == len(item.scores)
    return "" if same else f"{len(row.scores)} scores for the {len(item.scores)} candidates of item {row.item!r}"

"""The rows of a run: its items as they count until they are scored, and the lines that hold their scores."""

import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, count, repeat
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from pluralrm.core import Failure, Row, Score
from pluralrm.errors import RunError
from pluralrm.folders import file_hash
from pluralrm.journal import line_blocks, unsealed_line
from pluralrm.labels import Labelled
from pluralrm.runs import records
from pluralrm.runs.records import ITEMS, ROWS, RUN, RowRecord, RunManifest


class ItemShape(NamedTuple):
    """An item's row, and what each line on its scores repeats: between them and the posts, and after the lenders."""

    row: Row
    between: bytes
    after: bytes
    contexts: dict[bytes, tuple[object, ...]]
    """What a row has beside its scores, by what follows them in a line: runs under one condition share it."""

    def context(self, tail: bytes) -> tuple[object, ...] | None:
        """Note and return what a row has beside its scores; None where the line says anything else than its item."""
        context = _CONTEXT.match(tail, len(self.between)) if tail.startswith(self.between) else None
        if context is None or not tail.startswith(self.after, context.end()):
            return None
        if (rest := _TRAITS.fullmatch(tail, context.end() + len(self.after))) is None:
            return None
        posts, seen, pairs, lenders = context.groups()
        values = (int(posts), seen.decode(), None if pairs == b"null" else int(pairs), int(lenders), int(rest[1] or 0))
        self.contexts[tail] = (*_FACTS(self.row), *values)
        return self.contexts[tail]


class ItemRows(dict[str, Row]):
    """The row of each item as it counts until it is scored, made of the lines that hold them."""

    def __init__(self, rows: Iterable[Row], lines: Iterable[bytes] = ()) -> None:
        super().__init__()
        self.shapes: dict[bytes, ItemShape] = {}
        """By what precedes the scores in a line; none of items that were not read from a file."""
        for row, line in zip(rows, chain(lines, repeat(b"")), strict=False):
            self[row.item] = row
            before, scores, rest = line.partition(_SCORES)
            _, posts, after = rest.partition(b',"lenders":0')
            between, _, _ = rest.partition(b'"posts":0,')
            if scores and posts and (end := after.rfind(b',"missing":')) >= 0:
                self.shapes[before] = ItemShape(row, between.removeprefix(b"]"), after[:end], {})

    def only(self, names: Iterable[str]) -> "ItemRows":
        """Return some of the items, in this order."""
        items = ItemRows(self[name] for name in names)
        items.shapes = {start: shape for start, shape in self.shapes.items() if shape.row.item in items}
        return items


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
    items = ItemRows(_listed_rows(lines, file), lines)
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
    numbers = count(1)
    for lines in line_blocks(file):
        scored = _scored_items(lines, items, intact=intact) if items else [None] * len(lines)
        for line, plain, number in zip(lines, scored, numbers, strict=False):  # which stops before another number
            row = plain or _parsed(line, f"{file}:{number}", items)
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


_SCORES = b'"scores":['
_CONTEXT = re.compile(rb'"posts":(\d{1,9}),"input":"([0-9a-f]*)","pairs":(null|\d{1,9}),"lenders":(\d{1,9})')
_TRAITS = re.compile(rb'(?:,"traits":(\d{1,9}))?')
_END = re.compile(rb'(?:,"check":"[0-9a-f]{8}")?\}\s*\Z')
_LONGEST_END = 24


def _scored_items(lines: Sequence[bytes], items: ItemRows, *, intact: bool = False) -> list[Row | None]:
    """Return the row in each line that says no more than an item's scores; None for every other, which is read in full.

    Nearly all lines are such, and what they repeat of the item is compared byte for byte, not parsed again. The check
    of a line says nothing new where the whole file is `intact`.
    """
    rows: list[Row | None] = [None] * len(lines)
    places, texts, widths, contexts = [], [], [], []
    for index, line in enumerate(lines):
        before, _, rest = line.partition(_SCORES)
        scores, _, rest = rest.partition(b"]")
        shape, end = items.shapes.get(before), _END.search(rest, len(rest) - _LONGEST_END)
        if shape is None or end is None or b"{" in scores or not (intact or _unchanged(line)):
            continue
        tail = rest[: end.start()]
        if context := shape.contexts.get(tail) or shape.context(tail):
            places.append(index)
            texts.append(scores)
            widths.append(len(shape.row.lengths))
            contexts.append(context)
    for index, numbers, context in zip(places, _numbers(texts, widths), contexts, strict=True):
        rows[index] = _row(numbers, context) if numbers else None
    return rows


class _Draft(Labelled):
    """A row that is filled; a frozen one takes a call for each field, ten times as long, and the label is settled."""

    __slots__ = Row.__slots__


def _row(scores: tuple[Score, ...], context: tuple[Any, ...], *, failed: bool = False) -> Row:
    """Return the row with these scores, and with `_FACTS` and what the model saw as its context."""
    row: Any = _Draft()
    # fmt: off
    (
        row.item, row.cluster, row.domain, row.preferred, row.candidate_ids, row.lengths, row.tags, row.votes,
        row.prompt, row.ties, row.grades, row.others, row.digests,
        row.posts, row.input_hash, row.pairs, row.lenders, row.traits,
    ) = context
    # fmt: on
    row.scores, row.failed, row.__class__ = scores, failed, Row
    plain: Row = row
    return plain


def _parsed(line: bytes, location: str, items: ItemRows | None) -> Row:
    """Return the row in a line of any kind; one that is of none of the items is an error."""
    row = records.row_of(RUN.parse(RowRecord, line, location))
    if items is not None and (unlike := _unlike(row, items.get(row.item))):
        raise RUN.damaged(location, unlike)
    return row


def _numbers(texts: Sequence[bytes], widths: Sequence[int]) -> list[tuple[float, ...] | None]:
    """Return the scores in each text; None where they are not so many, or not finite numbers."""
    try:
        lists = from_json(b"[[%b]]" % b"],[".join(texts))
    except ValueError:
        lists = []
    scores = list(chain.from_iterable(lists))
    if list(map(len, lists)) == widths and set(map(type, scores)) == {float} and all(map(isfinite, scores)):
        return list(map(tuple, lists))
    if len(texts) == 1:
        return [None]
    return [_numbers([text], [width])[0] for text, width in zip(texts, widths, strict=True)]


def _unchanged(line: bytes) -> bool:
    """Return whether a line is as its check says; true of one without."""
    try:
        unsealed_line(line)
    except ValueError:
        return False
    return True


_FACTS = attrgetter(
    *("item", "cluster", "domain", "preferred", "candidate_ids", "lengths", "tags", "votes"),
    *("prompt", "ties", "grades", "others", "digests"),
)
"""What every row of an item has."""


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


def _listed_rows(lines: Sequence[bytes], file: Path) -> Iterator[Row]:
    """Yield the rows in the lines of a list of items that is as it was written."""
    try:
        documents = from_json(b"[%b]" % b",".join(lines), cache_strings="keys")
    except ValueError:
        documents = []
    usual = map(_listed_row, documents) if len(documents) == len(lines) else repeat(None)
    for number, (line, row) in enumerate(zip(lines, usual, strict=False), 1):
        yield row or _parsed(line, f"{file}:{number}", None)


def _listed_row(document: dict[str, Any]) -> Row | None:
    """Return the row in a document; None where it is not of the usual kind, and must be looked at in full."""
    if type(document) is not dict or not _NEEDED <= document.keys() <= _KNOWN:
        return None
    have, lengths, preferred = document.get, document["lengths"], document["preferred"]
    missing: Any = have("missing")
    sizes = {len(document[name]) for name in ("candidates", "grades", "others", "digests") if have(name)}
    usual = missing and not document["scores"] and not document["votes"] and sizes <= {len(lengths)}
    if not usual or type(preferred) is not int or not 0 <= preferred < len(lengths):
        return None
    # fmt: off
    context = (
        document["item"], document["cluster"], document["domain"], preferred, tuple(document["candidates"]),
        tuple(lengths), document["tags"], (), have("prompt", ""), "share", tuple(have("grades", ())),
        tuple(have("others", ())), tuple(have("digests", ())),
        document["posts"], document["input"], have("pairs"), have("lenders", 0), have("traits", 0),
    )
    # fmt: on
    row = _row((_failure(missing["failure"], missing["detail"]),) * len(lengths), context, failed=True)
    row.settle(len(lengths))
    return row


_failure = lru_cache(Failure)
"""The failure of a kind and a detail: all items that are not scored yet share theirs."""
_NEEDED = {"item", "cluster", "domain", "preferred", "scores", "lengths", "tags", "votes", "posts"}
_NEEDED |= {"candidates", "input"}
_KNOWN = _NEEDED | {"pairs", "lenders", "prompt", "grades", "others", "digests", "traits", "missing", "check"}

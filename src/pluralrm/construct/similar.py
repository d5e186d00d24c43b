"""Greedy semantic deduplication: in order, a row is kept where its cosine with every kept row is at most a threshold.

Rows go through matrix products block by block, which is a rule of speed and not of selection: a float32 product decides
only where its error bound cannot change the outcome. Nearer to the threshold `cosines` decides, in float64 with a sum
of fixed order, so that neither the size of the blocks, nor the library, nor the machine has a say.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pluralrm.audit.embedder import Embedder, Rows, unit
from pluralrm.audit.organic import KEYS
from pluralrm.benchmarks.rows import Place, describe, read_rows
from pluralrm.construct.filters import FilterRefusal, Prompts, duplicates
from pluralrm.errors import BenchmarkError, ModelError
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray

THRESHOLD = 0.70

_ROWS, _TIMES = 1024, 8
"""Rows per product, against so many times as many kept rows: 32 MB of cosines at a time."""
_PAIRS = 2048
"""Pairs whose cosine is worked out at a time."""


class Selection(NamedTuple):
    """Which rows are kept. To each other belongs the kept row before it that it resembles most (the first of several).

    `nearest` is -1 and `cosine` 0 for a kept row.
    """

    kept: BoolArray
    nearest: IntArray
    cosine: FloatArray


def cosines(first: Rows, second: Rows) -> FloatArray:
    """Return the cosine of each row with the row at the same place; 0 where either is all zeros.

    The same bits on every machine: products and sums are single operations of IEEE 754 in one order, by halves.
    """
    one, other = first.astype(np.float64), second.astype(np.float64)
    size = np.sqrt(_sums(one * one) * _sums(other * other))
    found: FloatArray = np.clip(_sums(one * other) / np.where(size > 0, size, 1.0), -1.0, 1.0)
    return found


def cosine(first: Rows, second: Rows) -> float:
    """Return the cosine of two vectors, as `cosines` does."""
    return float(cosines(first[None], second[None])[0])


def _sums(rows: FloatArray) -> FloatArray:
    while rows.shape[1] > 1:
        half = (rows.shape[1] + 1) // 2
        folded = rows[:, :half].copy()
        folded[:, : rows.shape[1] - half] += rows[:, half:]
        rows = folded
    summed: FloatArray = rows.sum(axis=1)  # of one column, or of none
    return summed


def similar(prompts: Prompts, embedder: Embedder, *, threshold: float = THRESHOLD) -> dict[str, FilterRefusal]:
    """Return the prompts that mean what a kept one of a smaller id means: their cosine is above the threshold."""
    names = sorted(prompts)
    found = select(embedder.rows([prompts[name] for name in names]), threshold=threshold)
    dropped = {}
    for place in np.flatnonzero(~found.kept).tolist():
        other, alike = names[int(found.nearest[place])], float(found.cosine[place])
        reason = f"cosine {alike:.4f} with {other!r}, above {threshold:g}"
        dropped[names[place]] = FilterRefusal("similar", reason, other, alike)
    return dropped


def select(rows: Rows, *, threshold: float = THRESHOLD, block: int = _ROWS) -> Selection:
    """Return which of (n, d) rows are kept, in their order. `block` is a matter of memory alone.

    A row of zeros resembles nothing and is kept. A row with a number that is not finite is an error.
    """
    rows = np.asarray(rows, dtype=np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise ModelError(f"row {int(np.argmin(finite))} of the embeddings is not finite: nothing can be compared to it")
    greedy = _Greedy(rows, threshold, _TIMES * block)
    for start in range(0, len(rows), block):
        greedy.take(start, min(start + block, len(rows)))
    most, kept = greedy.most, greedy.kept
    return Selection(kept, np.where(kept, -1, greedy.nearest), np.where(kept, 0.0, most))


class _Greedy:
    """The kept rows so far, each divided by its length, and for each row the kept one that it resembles most."""

    def __init__(self, rows: Rows, threshold: float, columns: int) -> None:
        count, width = rows.shape
        self._rows, self._threshold, self._columns = rows, threshold, columns
        # Twice the bound on the error of a float32 product of two unit vectors, their own rounding included.
        self._error = (width + 8) * 2.0**-23
        self._units = np.empty((count, width), np.float32)
        self._places = np.empty(count, np.intp)
        self._held = 0
        self.kept = np.zeros(count, np.bool_)
        self.nearest = np.full(count, -1, np.intp)
        self.most = np.full(count, -2.0)

    def take(self, start: int, end: int) -> None:
        """Decide on the rows of one block."""
        units = unit(self._rows[start:end])
        for low in range(0, self._held, self._columns):
            high = min(low + self._columns, self._held)
            self._see(units @ self._units[low:high].T, start, self._places[low:high])
        own = units @ units.T
        self.kept[start:end] = self._in_order(own, start, self.most[start:end] <= self._threshold)
        kept = np.flatnonzero(self.kept[start:end])
        # A row is compared with the kept ones before it.
        before = np.where(kept < np.arange(end - start)[:, None], own[:, kept], np.float32(-2.0))
        self._see(before, start, start + kept)
        held = slice(self._held, self._held + len(kept))
        self._units[held], self._places[held] = units[kept], start + kept
        self._held += len(kept)

    def _see(self, products: Rows, start: int, places: IntArray) -> None:
        """Look for nearer ones: rows of a block from `start` against kept rows in their order."""
        if not len(places):
            return
        highest = products.max(axis=1).astype(np.float64)
        known = self.most[start : start + len(highest)]
        # Below the threshold the nearest is not looked for; what is less near than a known one need not be exact.
        asked = np.flatnonzero(highest >= np.maximum(self._threshold, known) - self._error)
        row, column = np.nonzero(products[asked] >= (highest[asked] - 2 * self._error)[:, None])
        row, place = asked[row] + start, places[column]
        found = self._exact(row, place)
        order = np.lexsort((place, -found, row))
        best = order[np.unique(row[order], return_index=True)[1]]
        best = best[found[best] > self.most[row[best]]]  # of two blocks' equals the first
        self.most[row[best]], self.nearest[row[best]] = found[best], place[best]

    def _in_order(self, own: Rows, start: int, alive: BoolArray) -> BoolArray:
        """Return which rows of a block are kept, of those that resemble no row of the blocks before."""
        near = np.triu(own >= self._threshold - self._error, 1)
        for row in np.flatnonzero(near.any(axis=1)).tolist():
            if alive[row]:
                others = np.flatnonzero(near[row] & alive)
                like = own[row, others] > self._threshold + self._error
                unsure = others[~like]
                like[~like] = self._exact(np.full(len(unsure), start + row), start + unsure) > self._threshold
                alive[others[like]] = False
        return alive

    def _exact(self, rows: IntArray, others: IntArray) -> FloatArray:
        """Return the cosines of pairs of rows, so many at a time."""
        parts = [slice(low, low + _PAIRS) for low in range(0, len(rows), _PAIRS)]
        found = [cosines(self._rows[rows[part]], self._rows[others[part]]) for part in parts]
        return np.concatenate([np.zeros(0), *found])


PromptRow = Mapping[str, object]


class PromptFile(NamedTuple):
    """The rows of a file as they stand, and their texts, both by id."""

    rows: Mapping[str, PromptRow]
    prompts: Prompts


def read_prompt_file(path: Path) -> PromptFile:
    """Return the prompts of JSON lines or Parquet: each row has an `id` of its own, and a text under a key of KEYS."""
    rows: dict[str, PromptRow] = {}
    prompts: dict[str, str] = {}
    for place, row in read_rows(path):
        name = _text(row, "id", place)
        if name in rows:
            raise place.refuse("id", found=f"{name!r} again", wanted="an id of its own")
        key = next((key for key in KEYS if key in row), KEYS[0])
        rows[name], prompts[name] = row, _text(row, key, place)
    if not rows:
        raise BenchmarkError(f"{str(path)!r}: found no prompts, wanted one a line")
    return PromptFile(rows, prompts)


def _text(row: PromptRow, key: str, place: Place) -> str:
    text = row.get(key)
    if not isinstance(text, str) or not text.strip():
        found = describe(text) if key in row else "no such key"
        raise place.refuse(key, found=found, wanted="a text")
    return text


def deduplicate(prompts: Prompts, embedder: Embedder, *, threshold: float = THRESHOLD) -> dict[str, FilterRefusal]:
    """Return the prompts to leave out: equal ones first, then of the others those that mean the same."""
    equal = duplicates(prompts)
    return equal | similar(
        {name: text for name, text in prompts.items() if name not in equal}, embedder, threshold=threshold
    )


def as_lines(found: PromptFile, dropped: Mapping[str, FilterRefusal]) -> tuple[str, str]:
    """Return two files of JSON lines: the rows that are kept, in their order, and why each other one is not."""
    kept = [row for name, row in found.rows.items() if name not in dropped]
    why = [_why(name, dropped[name]) for name in found.rows if name in dropped]
    first, second = ("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows) for rows in (kept, why))
    return first, second


def _why(name: str, refusal: FilterRefusal) -> PromptRow:
    return {"id": name, "rule": refusal.rule, "kept": refusal.other, "cosine": refusal.cosine, "reason": str(refusal)}

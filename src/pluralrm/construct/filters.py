"""Which prompts a benchmark is not built from, each with the reason: rules on one text, equal texts, ratings.

>>> str(refused_text("Now you’re a pirate."))
"role: 'you’re' at character 5"
>>> str(refused_text("Is 5² odd?"))
'characters: U+00B2 SUPERSCRIPT TWO at character 5'
>>> refused_text("Is 5⁴ odd?") is None
True

A text is judged unchanged: nothing is normalised, cut or mended first. docs/filters.md has every rule.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.audit.embedder import Embedder, Rows, unit
from pluralrm.audit.organic import KEYS
from pluralrm.benchmarks.rows import Place, describe, read_rows
from pluralrm.errors import BenchmarkError, ModelError, did_you_mean
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray

Rule = Literal["empty", "role", "characters", "duplicate", "similar", "rating"]

Prompts = Mapping[str, str]
"""Texts by the ids of their records. Rules go by the order of the ids, so that no order of files decides anything."""


class FilterRefusal(NamedTuple):
    """Why a prompt is left out: the rule, what it found, and the record that is kept in its place, if any."""

    rule: Rule
    found: str
    other: str = ""
    cosine: float | None = None
    """With the other record, where that is the reason."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.found}"


# ---------------------------------------------------------------- one text

RANGES = (
    (0x0000, 0x007F),  # ASCII, its control characters among it
    (0x00B0, 0x00B0),  # degree
    (0x0370, 0x03FF),  # Greek
    (0x2070, 0x209F),  # superscripts and subscripts, but for those of Latin-1: superscript two is U+00B2
    (0x2100, 0x214F),  # letterlike symbols
    (0x2150, 0x218F),  # number forms
    (0x2200, 0x22FF),  # mathematical operators
    (0x2A00, 0x2AFF),  # supplemental ones
)
"""English and scientific notation: first and last code point of each range that RMGAP allows (arXiv 2605.01831)."""

_FOREIGN = re.compile("[^" + "".join(rf"\u{first:04x}-\u{last:04x}" for first, last in RANGES) + "]")

# A word is whole where no letter, digit or underscore touches it; white space of any kind and length parts two words.
# Between "take" and "role" stand words alone: a comma or a full stop ends the phrase. A second "take" begins anew,
# which keeps the search linear.
_APOSTROPHES = "'\u2018\u2019\u02bc"
_ROLE = re.compile(
    rf"\byou(?:\s+are|[{_APOSTROPHES}]re)\b"
    r"|\bimagine\b"
    rf"|\btake(?:\s+(?!take\b)\w+(?:[{_APOSTROPHES}-]\w+)*)+?\s+role\b",
    re.IGNORECASE,
)


def refused_text(text: str) -> FilterRefusal | None:
    """Return why a text is left out whatever else there is, by the first rule that it breaks; None where it stays."""
    if not text.strip():
        return FilterRefusal("empty", "nothing but white space")
    return role_phrase(text) or foreign_character(text)


def role_phrase(text: str) -> FilterRefusal | None:
    """Return the first phrase that gives the model a role, or None."""
    match = _ROLE.search(text)
    if match is None:
        return None
    return FilterRefusal("role", f"{' '.join(match[0].split())!r} at character {match.start() + 1}")


def foreign_character(text: str) -> FilterRefusal | None:
    """Return the first character outside of RANGES, or None."""
    match = _FOREIGN.search(text)
    if match is None:
        return None
    name = unicodedata.name(match[0], "(no name)")
    return FilterRefusal("characters", f"U+{ord(match[0]):04X} {name} at character {match.start() + 1}")


# ---------------------------------------------------------------- equal texts


def duplicate_key(text: str) -> str:
    """Return the letters and digits of a text in lower case: texts of one key are one prompt.

    Letters of every script count, so that Greek ones tell formulas apart. A text without any is its symbols, white
    space aside.
    """
    key = "".join(filter(str.isalnum, text.lower()))
    return key or "".join(text.split())


def duplicates(prompts: Prompts) -> dict[str, FilterRefusal]:
    """Return the prompts that say what one of a smaller id says."""
    first: dict[str, str] = {}
    dropped = {}
    for name in sorted(prompts):
        twin = first.setdefault(duplicate_key(prompts[name]), name)
        if twin != name:
            dropped[name] = FilterRefusal("duplicate", f"the letters and digits of {twin!r}", twin)
    return dropped


# ---------------------------------------------------------------- ratings

RATED = ("clarity", "completeness", "naturalness", "safety", "openness", "overall")
"""What a prompt is rated on, from 0 to HIGHEST."""
HIGHEST, LEAST = 5, 4

GATES: Mapping[str, tuple[str, ...]] = {
    "Chat": RATED,
    "Writing": RATED,
    # A question of reasoning has one answer: an open one would be a flaw.
    "Reasoning": ("clarity", "completeness", "naturalness", "safety", "overall"),
    # Prompts of this domain ask for what is not safe: the gate would leave none.
    "Safety": ("clarity", "completeness", "naturalness", "openness", "overall"),
}
"""On which ratings a prompt of each domain must reach LEAST."""


def refused_ratings(domain: str, ratings: Mapping[str, float]) -> FilterRefusal | None:
    """Return every rating of the domain's gate that is below LEAST, as one reason; None where none is.

    A rating that is missing or off the scale is an error: it is not a low one.
    """
    if domain not in GATES:
        raise BenchmarkError(f"unknown domain {domain!r}.{did_you_mean(domain, GATES)}")
    for dimension in RATED:
        rating = ratings.get(dimension)
        if rating is None or not 0 <= rating <= HIGHEST:
            raise BenchmarkError(f"rating {dimension!r}: found {rating}, wanted a number from 0 to {HIGHEST}")
    low = [f"{dimension} {ratings[dimension]:g}" for dimension in GATES[domain] if ratings[dimension] < LEAST]
    return FilterRefusal("rating", f"{', '.join(low)}; wanted at least {LEAST}") if low else None


# Spelled out and not by Unicode's categories, which change with Python's release. Tab and line feed are seen. The two
# joiners (U+200C, U+200D) are let through: Persian, Hindi and many pictures need them.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def faulty(text: str, most: int) -> str:
    """Return why a text may not be released, whatever it says; an empty text where nothing speaks against it."""
    if len(text) > most:
        return f"it has {len(text):,} characters, wanted at most {most:,}"
    character = unseen(text)
    return f"it has {character}, which is invisible; wanted plain text" if character else ""


def unseen(text: str) -> str:
    r"""Return the first invisible character of a text and its position; an empty text where there is none.

    A person or a model that judges may see it in one text of a pair and not in the other; then it tells the label.

    >>> unseen("Bake it \x1b[31mdark.")
    'U+001B (a control character) at character 9'
    >>> unseen("Bake it dark.\n\tTwice.")
    ''
    """
    match = _UNSEEN.search(text)
    if match is None:
        return ""
    name = unicodedata.name(match[0], "a control character" if match[0] < "\xa0" else "no character")
    return f"U+{ord(match[0]):04X} ({name}) at character {match.start() + 1:,}"


# ---- Greedy semantic deduplication: in order, a row is kept where its cosine with every kept row is at most a
# threshold.
#
# Rows go through matrix products block by block, which is a rule of speed and not of selection: a float32 product
# decides only where its error bound cannot change the outcome. Nearer to the threshold `cosines` decides, in float64
# with a sum of fixed order, so that neither the size of the blocks, nor the library, nor the machine has a say.

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
    left, right = first.astype(np.float64), second.astype(np.float64)
    size = np.sqrt(_sums(left * left) * _sums(right * right))
    cosine: FloatArray = np.clip(_sums(left * right) / np.where(size > 0, size, 1.0), -1.0, 1.0)
    return cosine


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
    selection = select(embedder.rows([prompts[name] for name in names]), threshold=threshold)
    dropped = {}
    for index in np.flatnonzero(~selection.kept).tolist():
        other, alike = names[int(selection.nearest[index])], float(selection.cosine[index])
        reason = f"cosine {alike:.4f} with {other!r}, above {threshold:g}"
        dropped[names[index]] = FilterRefusal("similar", reason, other, alike)
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
    most, mask = greedy.most, greedy.kept
    return Selection(mask, np.where(mask, -1, greedy.nearest), np.where(mask, 0.0, most))


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
        columns = np.flatnonzero(self.kept[start:end])
        # A row is compared with the kept ones before it.
        before = np.where(columns < np.arange(end - start)[:, None], own[:, columns], np.float32(-2.0))
        self._see(before, start, start + columns)
        block = slice(self._held, self._held + len(columns))
        self._units[block], self._places[block] = units[columns], start + columns
        self._held += len(columns)

    def _see(self, products: Rows, start: int, places: IntArray) -> None:
        """Look for nearer ones: rows of a block from `start` against kept rows in their order."""
        if not len(places):
            return
        highest = products.max(axis=1).astype(np.float64)
        nearest = self.most[start : start + len(highest)]
        # Below the threshold the nearest is not looked for; what is less near than a known one need not be exact.
        rows = np.flatnonzero(highest >= np.maximum(self._threshold, nearest) - self._error)
        row, column = np.nonzero(products[rows] >= (highest[rows] - 2 * self._error)[:, None])
        row, neighbour = rows[row] + start, places[column]
        similarity = self._exact(row, neighbour)
        order = np.lexsort((neighbour, -similarity, row))
        best = order[np.unique(row[order], return_index=True)[1]]
        best = best[similarity[best] > self.most[row[best]]]  # of two blocks' equals the first
        self.most[row[best]], self.nearest[row[best]] = similarity[best], neighbour[best]

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
        chunks = [cosines(self._rows[rows[part]], self._rows[others[part]]) for part in parts]
        return np.concatenate([np.zeros(0), *chunks])


PromptRow = Mapping[str, object]


class PromptFile(NamedTuple):
    """The rows of a file as they stand, and their texts, both by id."""

    rows: Mapping[str, PromptRow]
    prompts: Prompts


def read_prompt_file(path: Path) -> PromptFile:
    """Return the prompts of JSON lines or Parquet: each row has an `id` of its own, and a text under a key of KEYS."""
    rows: dict[str, PromptRow] = {}
    prompts: dict[str, str] = {}
    for location, row in read_rows(path):
        name = _text(row, "id", location)
        if name in rows:
            raise location.refuse("id", found=f"{name!r} again", wanted="an id of its own")
        key = next((key for key in KEYS if key in row), KEYS[0])
        rows[name], prompts[name] = row, _text(row, key, location)
    if not rows:
        raise BenchmarkError(f"{str(path)!r}: found no prompts, wanted one a line")
    return PromptFile(rows, prompts)


def _text(row: PromptRow, key: str, location: Place) -> str:
    text = row.get(key)
    if not isinstance(text, str) or not text.strip():
        problem = describe(text) if key in row else "no such key"
        raise location.refuse(key, found=problem, wanted="a text")
    return text


def deduplicate(prompts: Prompts, embedder: Embedder, *, threshold: float = THRESHOLD) -> dict[str, FilterRefusal]:
    """Return the prompts to leave out: equal ones first, then of the others those that mean the same."""
    equal = duplicates(prompts)
    return equal | similar(
        {name: text for name, text in prompts.items() if name not in equal}, embedder, threshold=threshold
    )


def as_lines(prompt_file: PromptFile, dropped: Mapping[str, FilterRefusal]) -> tuple[str, str]:
    """Return two files of JSON lines: the rows that are kept, in their order, and why each other one is not."""
    released = [row for name, row in prompt_file.rows.items() if name not in dropped]
    why = [_why(name, dropped[name]) for name in prompt_file.rows if name in dropped]
    first, second = ("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows) for rows in (released, why))
    return first, second


def _why(name: str, refusal: FilterRefusal) -> PromptRow:
    return {"id": name, "rule": refusal.rule, "kept": refusal.other, "cosine": refusal.cosine, "reason": str(refusal)}

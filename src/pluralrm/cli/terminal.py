"""What reaches a terminal: data is made harmless first, tables fit its width, results alone go to stdout."""

import codecs
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from pluralrm.errors import PluralrmError, RunError
from pluralrm.text import bounds, estimated

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    from pluralrm.core import Estimate


# C0 and C1 controls, and the marks that turn the direction of writing: none may act on a reader's terminal.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile(r"[\n\t\u2028\u2029]+")
_WORDS = re.compile(r"(\s*)(\S+)")
_PROSE = 78
"""Cells of a line of prose, where there are as many."""

Kind = Literal["left", "right", "name", "text"]
"""Numbers stand left or right and are never cut; a name is shortened where there is no room, a text is wrapped."""

_LEAST: dict[Kind, int] = {"name": 8, "text": 16}
"""Cells below which a column says nothing any more."""
_GAP = 2
_ASCII = {"…": "~", "–": "-", "×": "x", "·": "-", "−": "-", "≤": "<"}
"""For streams without Unicode; one letter each, so that columns stay in line."""


def allow_any_encoding() -> None:
    """Let stdout and stderr take every text: what their encoding has no letter for is spelled out, not an error."""
    codecs.register_error("spelled-out", _spelled_out)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a test's or a notebook's own stream takes any text
            stream.reconfigure(errors="spelled-out")


def _spelled_out(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    texts = (_ASCII.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in letters)
    return "".join(texts), error.end


def clean(text: str) -> str:
    """Return a text with control characters spelled out, as in 'x1b'; newlines and tabs stay."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def line(text: str, width: int = 0) -> str:
    """Return a harmless text on one line, shortened to `width` cells where one is given."""
    from rich.text import Text

    flat = Text(" ".join(clean(text).split()))
    if width:
        flat.truncate(width, overflow="ellipsis")
    return flat.plain


def wrapped(text: str, width: int, *, first: str = "", indent: str = "") -> list[str]:
    """Return a harmless text in lines of at most `width` cells, where a Chinese letter or an emoji takes two.

    The first line begins with `first`, the others with `indent`; a word that no line can hold is broken.
    """
    from rich.cells import cell_len, chop_cells

    lines, empty = [first], True
    room = width - max(cell_len(first), cell_len(indent))
    for space, word in _WORDS.findall(clean(text).expandtabs()):
        gap = " " * len(space)
        if cell_len(lines[-1] + gap + word) > width:
            gap = ""
            lines += [] if empty else [indent]
        begin, *rest = [word] if cell_len(word) <= room else chop_cells(word, room)
        lines[-1] += gap + begin
        lines += [indent + piece for piece in rest]
        empty = False
    return lines


def complain(text: str) -> None:
    """Write a message to stderr."""
    sys.stderr.write(f"pluralrm: {clean(text)}\n")


def note(text: str) -> None:
    """Write a remark about the work to stderr, so that stdout holds results alone."""
    sys.stderr.write(f"{clean(text)}\n")


_WAITS: set[str] = set()
"""The servers that it has been said of: each run on one opens connections of its own."""


def note_wait(url: str, text: str) -> None:
    """Say, once per server, that it is waited for."""
    if url not in _WAITS:
        _WAITS.add(url)
        note(f"waiting for {url}: {' '.join(text.split())}. Ctrl-C stops")


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print what is warned of inside as notes, each once."""
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(remark.message) for remark in remarks):
        note(text)


def print_json(value: object) -> None:
    """Write JSON to stdout, in ASCII: no text in it can act on a terminal."""
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def console() -> "Console":
    """Return where results go: markup and emoji codes in data stay the characters that they are."""
    from rich.console import Console

    # Piped output has no terminal to ask for a width: 80 columns, unless the caller says otherwise.
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=not sys.stdout.isatty())


def table(
    columns: Sequence[tuple[str, Kind]],
    rows: Sequence[Sequence[str]],
    *,
    red: Collection[int] = (),
    styles: Mapping[int, str] = MappingProxyType({}),
) -> "ConsoleRenderable":
    """Return a table of plain texts; a column is (title, kind), `red` and `styles` are the places of rows to mark.

    A title may have two lines.

    Where not even shortened names leave room for the numbers, each row becomes a paragraph: nothing vanishes.
    """
    titles = [("\n".join(_flat(part, kind) for part in title.split("\n")), kind) for title, kind in columns]
    texts = [[_flat(text, kind) for text, (_, kind) in zip(row, columns, strict=True)] for row in rows]
    return _Table(titles, texts, {**dict.fromkeys(red, "red"), **styles})


def _flat(text: str, kind: Kind) -> str:
    return clean(text) if kind == "text" else _BREAKS.sub(" ", clean(text))


class _Table:
    """A table that knows how wide it must be."""

    def __init__(
        self, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[str]], styles: Mapping[int, str]
    ) -> None:
        self._columns, self._rows, self._styles = columns, rows, styles

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Table | Text]":
        if self._least() <= options.max_width:
            yield self._grid()
        else:
            yield from self._paragraphs(options.max_width)

    def _least(self) -> int:
        from rich.cells import cell_len

        widest = [max(cell_len(line) for text in texts for line in text.split("\n")) for texts in self._by_column()]
        cells = [min(width, _LEAST.get(kind, width)) for width, (_, kind) in zip(widest, self._columns, strict=True)]
        return sum(cells) + _GAP * (len(cells) - 1)

    def _by_column(self) -> "Iterator[tuple[str, ...]]":
        return zip([title for title, _ in self._columns], *self._rows, strict=True)

    def _grid(self) -> "Table":
        from rich.table import Table

        grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="underline")
        for title, kind in self._columns:
            justify: Literal["left", "right"] = "right" if kind == "right" else "left"
            grid.add_column(_cell(title, kind, ()), justify=justify, no_wrap=kind in {"left", "right"})
        names = [tuple(texts) for texts in zip(*self._rows, strict=True)]
        for index, row in enumerate(self._rows):
            cells = (_cell(text, kind, all_) for text, (_, kind), all_ in zip(row, self._columns, names, strict=True))
            grid.add_row(*cells, style=self._styles.get(index))
        return grid

    def _paragraphs(self, width: int) -> "Iterator[Text]":
        from rich.text import Text

        for index, row in enumerate(self._rows):
            pairs = zip(self._columns, row, strict=True)
            text = "; ".join(f"{' '.join(title.split())} {text}".strip() for (title, _), text in pairs if text)
            style = self._styles.get(index, "")
            yield from (Text(piece, style=style) for piece in wrapped(text, width, indent="  "))


def _cell(text: str, kind: Kind, column: tuple[str, ...]) -> "Text | _Name":
    from rich.text import Text

    return _Name(text, column) if kind == "name" else Text(text)


class _Name:
    """A cell of a table that takes the width it is given, and stays unlike the other names of its column."""

    def __init__(self, text: str, column: tuple[str, ...]) -> None:
        self._text, self._column = text, column or (text,)

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        from rich.measure import Measurement
        from rich.text import Text

        widest = Measurement.get(console, options, Text(self._text, no_wrap=True)).maximum
        return Measurement(min(1, widest), widest)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        from rich.cells import cell_len
        from rich.text import Text

        name = distinct_names(self._column, options.max_width)[self._text]
        whole = cell_len(name) > options.max_width
        yield Text("\n".join(wrapped(name, options.max_width)) if whole else name, no_wrap=True, overflow="ellipsis")


@lru_cache(maxsize=256)
def distinct_names(names: tuple[str, ...], width: int) -> dict[str, str]:
    """Return what stands for each name in `width` cells: its beginning and its end, cut where no two become alike.

    Names that are alike wherever they are cut stay whole: they take several lines.
    """
    different = dict.fromkeys(names)
    middle = max((width - 1) // 2, 0)
    for begin in sorted(range(max(width, 1)), key=lambda begin: abs(begin - middle)):
        cut = {name: shortened(name, width, begin) for name in different}
        if len(set(cut.values())) == len(different):
            return cut
    halves = {name: shortened(name, width) for name in different}
    often = Counter(halves.values())
    return {name: name if often[short] > 1 else short for name, short in halves.items()}


def shortened(text: str, width: int, begin: int | None = None) -> str:
    """Return at most `width` cells of a name: its beginning (half, or `begin` cells) and its end."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width or width < 3:
        return text
    head = set_cell_size(text, (width - 1) // 2 if begin is None else begin)
    room, start = width - 1 - cell_len(head), len(text)
    while cell_len(text[start - 1 :]) <= room:
        start -= 1
    return f"{head}…{text[start:]}"


def paragraph(text: str, *, first: str = "", indent: str = "    ") -> str:
    """Return a harmless text, wrapped for a reader at a terminal with hanging indent; not wrapped where it is piped."""
    from shutil import get_terminal_size

    if not sys.stdout.isatty():
        return first + clean(text)
    width = max(get_terminal_size().columns, 40)
    begin, *rest = clean(text).splitlines() or [""]
    lines = wrapped(begin, width, first=first, indent=indent)
    return "\n".join([*lines, *(piece for part in rest for piece in wrapped(part, width, first=indent, indent=indent))])


def percent(estimate: "Estimate") -> str:
    """Return `61.7 [44.0, 77.1]` in per cent, or the value and why it has no interval."""
    return with_interval(f"{100 * estimate.value:.1f}", estimate)


def rate(estimate: "Estimate | None") -> str:
    """Return `61.7` in per cent, without the interval; a dash for None."""
    return estimated(estimate and estimate.value)


def with_interval(value: str, estimate: "Estimate") -> str:
    """Return a value in per cent with its interval, or with why there is none."""
    from pluralrm.metrics.estimates import FIXED

    if estimate.low is None or estimate.high is None:
        return f"{value} fixed" if FIXED in estimate.method else f"{value} (no interval)"
    return f"{value}{bounds(estimate)}"


def print_legend(lines: Iterable[str]) -> None:
    """Print remarks below a table, wrapped and dim."""
    for text in lines:
        print_wrapped(text, first="  ", indent="    ", style="dim")


def print_wrapped(text: str, *, first: str = "", indent: str = "", style: str = "") -> None:
    """Print a text in lines of at most 78 cells, or as many as the terminal has."""
    out = console()
    for piece in wrapped(text, max(min(_PROSE, out.width), 20), first=first, indent=indent):
        out.print(piece, style=style or None)


def check_place(out: Path) -> None:
    """Raise before the work, not after it, where a file could not be written."""
    if out.is_dir():
        raise PluralrmError(f"cannot write {str(out)!r}: found a folder, wanted the name of a file")


def check_new(*files: Path) -> None:
    """Raise before the work where a file is there already; make its folder."""
    for file in files:
        if file.exists():
            raise RunError(f"{file}: is there already; name another file with -o, or remove it")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise RunError(f"cannot write {str(file)!r}: {exc.strerror}. Name another file with -o") from exc


def write_page(out: Path, text: str) -> None:
    """Write a page, its folder too, and say so."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise PluralrmError(f"cannot write {str(out)!r}: {exc}. Name another place with -o") from exc
    note(f"wrote {out}")

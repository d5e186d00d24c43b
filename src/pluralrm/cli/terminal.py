"""What reaches a terminal: data is made harmless first, tables fit 80 columns, results alone go to stdout."""

import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    from pluralrm.core import Estimate

# C0 and C1 controls, and the marks that turn the direction of writing: none may act on a reader's terminal.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile(r"[\n\t\u2028\u2029]+")
_WORDS = re.compile(r"(\s*)(\S+)")
_PROSE = 78
"""Cells of a line of prose."""

Kind = Literal["left", "right", "name", "text"]
"""Numbers stand left or right and are never cut; a name is shortened where there is no room, a text is wrapped."""


def clean(text: str) -> str:
    """Return a text with control characters spelled out, as in 'x1b'; newlines and tabs stay."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


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


def print_json(value: object) -> None:
    """Write JSON to stdout, in ASCII: no text in it can act on a terminal."""
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def console() -> "Console":
    """Return where results go: markup and emoji codes in data stay the characters that they are."""
    from rich.console import Console

    # Piped output has no terminal to ask for a width: 80 columns, unless the caller says otherwise.
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=not sys.stdout.isatty())


def table(columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[str]], *, red: Collection[int] = ()) -> "Table":
    """Return a table of plain texts; a column is (title, kind), `red` are the places of rows to mark."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for title, kind in columns:
        justify: Literal["left", "right"] = "right" if kind == "right" else "left"
        grid.add_column(_cell(title, kind), justify=justify, no_wrap=kind in {"left", "right"})
    for place, row in enumerate(rows):
        cells = (_cell(text, kind) for text, (_, kind) in zip(row, columns, strict=True))
        grid.add_row(*cells, style="red" if place in red else None)
    return grid


def _cell(text: str, kind: Kind) -> "Text | _Name":
    from rich.text import Text

    if kind == "text":
        return Text(clean(text))
    flat = _BREAKS.sub(" ", clean(text))
    return _Name(flat) if kind == "name" else Text(flat)


class _Name:
    """A cell of a table that takes the width it is given: what is left out stands in the middle of the name."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        from rich.measure import Measurement
        from rich.text import Text

        widest = Measurement.get(console, options, Text(self._text, no_wrap=True)).maximum
        return Measurement(min(1, widest), widest)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        from rich.text import Text

        yield Text(shortened(self._text, options.max_width), no_wrap=True, overflow="ellipsis")


def shortened(text: str, width: int) -> str:
    """Return at most `width` cells of a name: its beginning and its end, for models of one series differ there."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width or width < 3:
        return text
    begin = set_cell_size(text, (width - 1) // 2)
    room, start = width - 1 - cell_len(begin), len(text)
    while cell_len(text[start - 1 :]) <= room:
        start -= 1
    return f"{begin}…{text[start:]}"


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


def with_interval(value: str, estimate: "Estimate") -> str:
    """Return a value in per cent with its interval, or with why there is none."""
    from pluralrm.metrics.estimates import FIXED

    if estimate.low is None or estimate.high is None:
        return f"{value} fixed" if FIXED in estimate.method else f"{value} (no interval)"
    return f"{value} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def print_legend(lines: Iterable[str]) -> None:
    """Print remarks below a table, wrapped and dim."""
    for text in lines:
        print_wrapped(text, first="  ", indent="    ", style="dim")


def print_wrapped(text: str, *, first: str = "", indent: str = "", style: str = "") -> None:
    """Print a text in lines that fit 80 columns."""
    for piece in wrapped(text, _PROSE, first=first, indent=indent):
        console().print(piece, style=style or None)

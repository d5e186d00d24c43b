"""What reaches a terminal: data is made harmless first, tables fit 80 columns, results alone go to stdout."""

import json
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pluralrm.core import Estimate

# C0 and C1 controls, and the marks that turn the direction of writing: none may act on a reader's terminal.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Return a text with control characters spelled out, as in 'x1b'; newlines and tabs stay."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def line(text: str, width: int = 0) -> str:
    """Return a harmless text on one line, shortened to `width` where one is given."""
    flat = " ".join(clean(text).split())
    return flat if not width or len(flat) <= width else flat[: width - 1] + "…"


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


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], *, red: Collection[int] = ()) -> "Table":
    """Return a table of plain texts; a column is (title, "left" or "right"), `red` are the places of rows to mark."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for place, (title, justify) in enumerate(columns):
        last = place == len(columns) - 1  # only the last column may wrap; the others hold numbers and names
        grid.add_column(Text(title), justify="right" if justify == "right" else "left", no_wrap=not last)
    for place, row in enumerate(rows):
        grid.add_row(*(Text(clean(cell)) for cell in row), style="red" if place in red else None)
    return grid


def paragraph(text: str, *, first: str = "", indent: str = "    ") -> str:
    """Return a harmless text, wrapped for a reader at a terminal with hanging indent; not wrapped where it is piped."""
    from shutil import get_terminal_size
    from textwrap import wrap

    if not sys.stdout.isatty():
        return first + clean(text)
    width = max(get_terminal_size().columns, 40)
    lines = [piece for part in clean(text).splitlines() for piece in wrap(part, width - len(indent)) or [""]]
    return "\n".join((first if place == 0 else indent) + piece for place, piece in enumerate(lines))


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
    from textwrap import wrap

    for text in lines:
        for piece in wrap(clean(text), 78, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False):
            console().print(piece, style="dim")

"""Files that a verb writes beside what it prints."""

from pathlib import Path

from pluralrm.cli.terminal import note
from pluralrm.errors import PluralrmError


def check_place(out: Path) -> None:
    """Raise before the work, not after it, where a file could not be written."""
    if out.is_dir():
        raise PluralrmError(f"cannot write {str(out)!r}: found a folder, wanted the name of a file")


def write_page(out: Path, text: str) -> None:
    """Write a page, its folder too, and say so."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise PluralrmError(f"cannot write {str(out)!r}: {exc}. Name another place with -o") from exc
    note(f"wrote {out}")

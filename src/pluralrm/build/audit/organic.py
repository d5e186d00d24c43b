"""Organic prompts from a file: one a line, as plain text or JSON lines."""

import json
from collections.abc import Iterator
from pathlib import Path

from pluralrm.errors import BenchmarkError, RowError

KEYS = ("prompt", "question", "text")


def read_prompts(path: Path) -> list[str]:
    """Return the prompts of a file, blank lines left out: `.jsonl` holds texts or objects with a key of KEYS.

    A file that cannot be read, or holds none, is an error; so is a line that is neither.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise BenchmarkError(f"cannot read organic prompts from {str(path)!r}: {exc}") from exc
    found = [line for line in lines if line.strip()] if path.suffix != ".jsonl" else list(_json(path, lines))
    if not found:
        raise BenchmarkError(f"{str(path)!r}: found no prompts, wanted one a line")
    return found


def _json(path: Path, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise RowError(str(path), number, "(line)", found=str(exc)[:200], wanted="JSON") from exc
        text = next((row[key] for key in KEYS if key in row), None) if isinstance(row, dict) else row
        if not isinstance(text, str):
            wanted = f"a text, or an object with a text under {', '.join(KEYS)}"
            raise RowError(str(path), number, "(row)", found=type(text).__name__, wanted=wanted)
        if text.strip():
            yield text

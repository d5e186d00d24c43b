r"""Organic prompts from a file: one a line as plain text, or rows, each with its prompt under one of the usual names.

A row is a text, or an object with the first of these: a text (or a list of messages) under `prompt`, `question`,
`text`, `instruction` or `query`; messages under `messages` or `conversation`; a transcript with "\n\nHuman:" and
"\n\nAssistant:" under `chosen`, `rejected` or `transcript` (HH-RLHF), or messages there. Of a conversation it is what
the person said first.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pluralrm.benchmarks.rows import SUFFIXES, Place, describe, read_rows
from pluralrm.errors import BenchmarkError, RowError

KEYS = (
    *("prompt", "question", "text", "instruction", "query", "messages", "conversation"),
    *("chosen", "rejected", "transcript"),
)
"""Where a prompt is looked for, in this order."""
_TRANSCRIPTS = ("chosen", "rejected", "transcript")
_SAYS = ("content", "value", "text")
_WHO = ("role", "from")
_PERSON = ("user", "human", "prompter")
_HUMAN = re.compile(r"\A\s*Human:(.*?)(?=\n\n(?:Human|Assistant):|\Z)", re.DOTALL)


def read_prompts(path: Path) -> list[str]:
    """Return the prompts of a file, blank ones too: who compares leaves those out, and counts them.

    A file that cannot be read, or holds none, is an error; so is a row without a prompt. In plain text a blank line
    is no prompt.
    """
    try:
        found = list(_prompts(path))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as exc:
        raise BenchmarkError(f"cannot read organic prompts from {str(path)!r}: {exc}") from exc
    if not any(text.strip() for text in found):
        raise BenchmarkError(f"{str(path)!r}: found no prompts, wanted one a line")
    return found


def _prompts(path: Path) -> Iterator[str]:
    lines = path.name.endswith((".jsonl", ".jsonl.gz"))
    if not lines and path.suffix not in SUFFIXES:
        yield from (line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
        return
    for place, row in _json_lines(path) if lines else read_rows(path):
        text = prompt_of(row)
        if text is None:
            found = f"the keys {', '.join(list(row)[:8])}" if isinstance(row, Mapping) else describe(row)
            wanted = f"a text, or an object with a prompt under one of {', '.join(KEYS)}"
            raise place.refuse("(row)", found=found, wanted=wanted)
        yield text


def _json_lines(path: Path) -> Iterator[tuple[Place, object]]:
    """Yield every value of a file of JSON lines: here a line may be a text, and the file be packed by gzip."""
    with (
        gzip.open(path, "rt", encoding="utf-8-sig")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8-sig") as lines
    ):
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield Place(str(path), number), json.loads(line)
                except (ValueError, RecursionError) as exc:
                    raise RowError(str(path), number, "(line)", found=str(exc)[:200], wanted="JSON") from exc


def prompt_of(row: object) -> str | None:
    """Return the prompt of a row, or None where it has none."""
    if isinstance(row, str):
        return row
    if not isinstance(row, Mapping):
        return None
    found = (_said(key, row[key]) for key in KEYS if row.get(key) is not None)
    return next((text for text in found if text is not None), None)


def _said(key: str, value: object) -> str | None:
    if isinstance(value, str):
        if key not in _TRANSCRIPTS:
            return value
        opening = _HUMAN.match(value)
        return opening[1].strip() if opening else None
    return _opening(value) if isinstance(value, Sequence) else None


def _opening(messages: Sequence[object]) -> str | None:
    """Return what the person said first in a list of messages, or None where these are none."""
    for message in messages:
        if isinstance(message, Mapping) and any(str(message.get(key, "")).lower() in _PERSON for key in _WHO):
            return next((text for key in _SAYS if isinstance(text := message.get(key), str)), None)
    return None

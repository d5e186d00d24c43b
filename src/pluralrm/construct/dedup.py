"""Prompts of a file, without those that say or mean what another one does."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pluralrm.audit.embedded import Embedder
from pluralrm.audit.organic import KEYS
from pluralrm.benchmarks.rows import Place, describe, read_rows
from pluralrm.construct.filters import Prompts, Refusal, duplicates
from pluralrm.construct.similar import THRESHOLD, similar
from pluralrm.errors import BenchmarkError

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


def deduplicate(prompts: Prompts, embedder: Embedder, *, threshold: float = THRESHOLD) -> dict[str, Refusal]:
    """Return the prompts to leave out: equal ones first, then of the others those that mean the same."""
    equal = duplicates(prompts)
    return equal | similar(
        {name: text for name, text in prompts.items() if name not in equal}, embedder, threshold=threshold
    )


def as_lines(found: PromptFile, dropped: Mapping[str, Refusal]) -> tuple[str, str]:
    """Return two files of JSON lines: the rows that are kept, in their order, and why each other one is not."""
    kept = [row for name, row in found.rows.items() if name not in dropped]
    why = [_why(name, dropped[name]) for name in found.rows if name in dropped]
    first, second = ("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows) for rows in (kept, why))
    return first, second


def _why(name: str, refusal: Refusal) -> PromptRow:
    return {"id": name, "rule": refusal.rule, "kept": refusal.other, "cosine": refusal.cosine, "reason": str(refusal)}

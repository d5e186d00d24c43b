"""Rows in the formats of the real benchmarks, and files that hold them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

DOMAINS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
LEVELS = {
    "Formality": ["casual", "informal", "neutral", "formal", "highly_formal"],
    "Conciseness": ["terse", "concise", "moderate", "detailed", "verbose"],
    "Technicality": ["layman", "accessible", "semi_technical", "technical", "highly_specialized"],
    "Objectivity": ["highly_subjective", "subjective", "balanced", "objective", "strictly_objective"],
    "Structural_Coherence": ["fragmented", "loose", "organized", "well_structured", "rigorous"],
}

JsonRow = dict[str, Any]


def question_row(number: int = 1, posts: int = 3) -> JsonRow:
    """Return a row in the format of LaMP-QA."""
    return {
        "id": f"q{number}",
        "question": f"Which way should I fold dough number {number}?",
        "category": "baking",
        "narrative": f"Baker {number} has cold hands and no patience.",
        "profile": [
            {"id": f"q{number}-p{n}", "category": "baking", "text": f"Loaf {n} of baker {number} came out flat."}
            for n in range(posts)
        ],
        "rubric_aspects": [
            {"aspect": "No stand mixer", "evidence": "complains about mixers", "reason": "does not own one"},
            {"aspect": "Few steps", "evidence": "loses patience", "reason": "stops reading after three"},
        ],
    }


def prb_row(number: int = 1, posts: int = 3) -> JsonRow:
    """Return a row in the format of Personalized RewardBench."""
    answers = {
        "chosen": f"Fold it twice, rest, done. ({number})",
        "rejected": f"Let the mixer run for {number} minutes.",
    }
    return question_row(number, posts) | answers


def rmgap_row(number: int = 1, domain: str = "Chat") -> JsonRow:
    """Return a record in the format of RMGAP."""
    return {
        "id": f"r{number}",
        "domain": domain,
        "source": "seed set",
        "models": {f"response{n}": "some-model" for n in range(1, 5)},
        "responses": [{"key": f"response{n}", "text": f"Answer {n} of record {number}."} for n in range(1, 5)],
        "prompt_groups": [
            {
                "group": group,
                "winner": f"response{group}",
                "prompts": [
                    {"role": role, "text": f"Prompt {phrasing} of group {group} of record {number}?"}
                    for phrasing, role in enumerate(("base", "rewrite", "rewrite"))
                ],
            }
            for group in range(1, 5)
        ],
        "style_assignments": {
            f"r{n}": {dimension: levels[(number + n) % 5] for dimension, levels in LEVELS.items()} for n in range(1, 5)
        },
    }


def write_jsonl(path: Path, rows: Iterable[object]) -> Path:
    """Write one JSON object a line and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: Sequence[JsonRow]) -> Path:
    """Write a Parquet file as the hub's are and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(list(rows)), path)
    return path

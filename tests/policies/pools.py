"""Pools of written answers, for tests that need no policy: real files, made by the verb's own function."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Item
from pluralrm.policies.imported import pool_from_jsonl
from pluralrm.policies.pool import Pool

BENCH = load_benchmark("pocket-prb")


def pool_of(texts: Mapping[str, Sequence[str]], folder: Path, bench: Benchmark = BENCH) -> Pool:
    """Return the pool of some texts by item."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"item": item, "text": text} for item, several in texts.items() for text in several]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return pool_from_jsonl(folder / "answers.jsonl", bench, out=folder / "pool")


def babble(item: Item, n: int) -> list[str]:
    """Return n answers of the item's own words, the last of them the same as the first."""
    rng = random.Random(item.id)
    words = " ".join(item.candidates).split() + " ".join(a.aspect for a in item.oracle.aspects).split()  # type: ignore[union-attr]
    texts = [" ".join(rng.choices(words, k=rng.randint(2, 20))) for _ in range(n - 1)]
    return [*texts, texts[0]]


def babbled(folder: Path, items: int = 6, n: int = 6) -> Pool:
    return pool_of({item.id: babble(item, n) for item in BENCH.items[:items]}, folder)

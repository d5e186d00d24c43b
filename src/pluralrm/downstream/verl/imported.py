"""`ppo import`: answers that verl wrote during a training become a Pool, to be graded and compared as any other.

verl writes a file per test, `generations/STEP.jsonl`, one line per answer: {"input", "output", "gts", "score", "step"}.
What it calls `gts` is the item's id, for the export put it there.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pluralrm.benchmarks.rows import read_rows
from pluralrm.core import Benchmark, Condition
from pluralrm.downstream.given import pool_from_jsonl
from pluralrm.downstream.pool import Pool
from pluralrm.errors import RunError

_KEYS = frozenset({"input", "output", "gts", "score", "step"})


def import_generations(
    file: Path, benchmark: Benchmark, condition: Condition, *, policy: str, out: Path, fresh: bool = False
) -> Pool:
    """Return the pool of one file of generations, written to `out`, with the answers beside it as `answers.jsonl`."""
    rows = list(_answers(file))
    if not rows:
        raise RunError(f"{file}: found no line, wanted verl's generations, one answer per line")
    out.mkdir(parents=True, exist_ok=True)
    given = out.with_name(f"{out.name}.answers.jsonl")
    given.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    return pool_from_jsonl(given, benchmark, condition, out=out, policy=policy, fresh=fresh)


def _answers(file: Path) -> Iterator[Mapping[str, object]]:
    for place, row in read_rows(file):
        if missing := sorted({"output", "gts"} - set(row)):
            found = ", ".join(sorted(row))
            raise place.refuse(
                missing[0], found=f"a row with {found}", wanted=f"verl's keys: {', '.join(sorted(_KEYS))}"
            )
        yield {"item": str(row["gts"]), "text": str(row["output"])}

"""`train verl import`: answers that verl wrote during a training become a Pool, to be graded and compared as any other.

verl writes a file per test, `generations/STEP.jsonl`, one line per answer: {"input", "output", "gts", "score", "step"}.
What it calls `gts` is the item's id, for the export put it there.
"""

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from pluralrm.benchmarks.rows import read_rows
from pluralrm.core import Benchmark, Condition
from pluralrm.errors import RunError
from pluralrm.policies.given import pool_from_jsonl
from pluralrm.policies.pool import Pool

_KEYS = frozenset({"input", "output", "gts", "score", "step"})


def import_generations(
    file: Path, benchmark: Benchmark, condition: Condition, *, policy: str, out: Path, fresh: bool = False
) -> Pool:
    """Return the pool of one file of generations, written to `out`, with the answers beside it as `answers.jsonl`.

    A RunError where the export that the file lies in was of another benchmark or condition, or has unanswered items.
    """
    rows = list(_answers(file))
    if not rows:
        raise RunError(f"{file}: found no line, wanted verl's generations, one answer per line")
    _check_export(file, benchmark, condition, answered={row["item"] for row in rows})
    given = out.with_name(f"{out.name}.answers.jsonl")
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    if given.exists() and given.read_text(encoding="utf-8") != text:
        raise RunError(f"{given}: found the answers of another file; name another pool with -o")
    out.mkdir(parents=True, exist_ok=True)
    given.write_text(text, encoding="utf-8")
    return pool_from_jsonl(given, benchmark, condition, out=out, policy=policy, fresh=fresh)


def _check_export(file: Path, benchmark: Benchmark, condition: Condition, *, answered: AbstractSet[str]) -> None:
    """Raise where the export around a file (FOLDER/NAME/generations/STEP.jsonl) says that the pool would be no such."""
    record = file.resolve().parent.parent.parent / "export.json"
    if not record.exists():
        return
    told = json.loads(record.read_text(encoding="utf-8"))
    if told["condition"] != condition.spec:
        raise RunError(f"-c {condition.spec}: the policy was trained and asked under {told['condition']} ({record})")
    if told["content_hash"] != benchmark.content_hash:
        raise RunError(f"{benchmark.card.name}: not the items of the export, {told['benchmark']} ({record})")
    for part, items in told["items"].items():
        if answered <= set(items) and (missing := sorted(set(items) - answered)):
            raise RunError(
                f"{file}: {len(missing)} of {len(items)} items of {part} have no answer, such as {missing[0]!r}. verl "
                "leaves out what could not be scored; of the rest alone there is no fair pool"
            )


def _answers(file: Path) -> Iterator[Mapping[str, str]]:
    for place, row in read_rows(file):
        if missing := sorted({"output", "gts"} - set(row)):
            found = ", ".join(sorted(row))
            raise place.refuse(
                missing[0], found=f"a row with {found}", wanted=f"verl's keys: {', '.join(sorted(_KEYS))}"
            )
        yield {"item": str(row["gts"]), "text": str(row["output"])}

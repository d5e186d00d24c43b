r"""A pool of somebody's own answers: JSONL rows with `item` and `text`, and `finish` and `tokens` where they are known.

>>> import json, tempfile
>>> from pluralrm.benchmarks import load_benchmark
>>> bench, folder = load_benchmark("pocket-prb"), Path(tempfile.mkdtemp())
>>> rows = [{"item": item.id, "text": text} for item in bench.items[:2] for text in ("Rye.", "Spelt.")]
>>> _ = (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
>>> pool = pool_from_jsonl(folder / "mine.jsonl", bench, out=folder / "pool")
>>> len(pool.samples), pool.n, pool.policy
(2, 2, 'given:mine.jsonl')
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from pluralrm.benchmarks.rows import Place, describe, read_rows
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition
from pluralrm.errors import BenchmarkError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.journal import field_error, provenance
from pluralrm.policies.pool import Answered, Pool, PoolFolder, PoolManifest, Sample, load_pool
from pluralrm.runs.records import benchmark_record


class GivenRow(BaseModel):
    """One line of such a file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    item: str
    text: str
    finish: Answered = "stop"
    tokens: NonNegativeInt | None = None


def pool_from_jsonl(
    file: str | Path,
    benchmark: Benchmark,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    policy: str = "",
    fresh: bool = False,
) -> Pool:
    """Return the pool of the answers in a file, written to the folder `out`: of all its items, as many for each.

    `policy` and `condition` name what the answers come from; nothing is asked.
    """
    path, file = Path(out), Path(file)
    condition = load_condition(condition) if isinstance(condition, str) else condition
    samples = _in_order(file, _read(file, benchmark), benchmark)
    manifest = _manifest(file, benchmark, condition, policy=policy or f"given:{file.name}", samples=samples)
    with PoolFolder(path, manifest, fresh=fresh) as folder:
        for several in samples.values():
            for sample in several:
                if (sample.item, sample.index) not in folder.done:
                    folder.add(sample)
        folder.finish()
    return load_pool(path)


def _read(file: Path, benchmark: Benchmark) -> dict[str, list[Sample]]:
    """Return the answers by item; the first row that is none, or of no item, is a RowError."""
    found: dict[str, list[Sample]] = {}
    known = {item.id for item in benchmark.items}
    for place, row in read_rows(file):
        one = _row(row, place)
        if one.item not in known:
            hint = did_you_mean(one.item, known)
            raise place.refuse("item", found=repr(one.item), wanted=f"an item of {benchmark.card.name}.{hint}")
        several = found.setdefault(one.item, [])
        finish = one.finish if one.text.strip() else "empty"
        several.append(Sample(one.item, len(several), one.text, finish, one.tokens))
    if not found:
        raise BenchmarkError(f"{file}: found no answers, wanted rows with item and text")
    return found


def _row(row: Mapping[str, object], place: Place) -> GivenRow:
    try:
        return GivenRow.model_validate(row)
    except ValidationError as exc:
        error = field_error(exc)
        value = "no such key" if error.missing else describe(row.get(error.field))
        wanted = "item, text, and finish (stop, length, empty) and tokens where they are known"
        raise place.refuse(error.field, found=value, wanted=wanted) from exc


def _in_order(file: Path, found: Mapping[str, list[Sample]], benchmark: Benchmark) -> dict[str, list[Sample]]:
    """Return the answers in the order of the benchmark; items with fewer answers than others are an error."""
    most = max(map(len, found.values()))
    fewer = [item for item, several in found.items() if len(several) < most]
    if fewer:
        raise BenchmarkError(
            f"{file}: item {fewer[0]!r} has {len(found[fewer[0]])} answers, and others have {most}: {len(fewer):,} "
            "items have fewer. A pool has as many answers for each of its items: leave these items out, or some "
            "answers of others"
        )
    return {item.id: found[item.id] for item in benchmark.items if item.id in found}


def _manifest(
    file: Path, benchmark: Benchmark, condition: Condition, *, policy: str, samples: Mapping[str, list[Sample]]
) -> PoolManifest:
    [n] = {len(several) for several in samples.values()}
    return PoolManifest.model_validate(
        {
            "status": "incomplete",
            "policy": policy,
            "identity": {"file": file_hash(file)},
            "benchmark": benchmark_record(benchmark),
            "condition": condition.spec,
            "reveals": sorted(condition.reveals),
            "selection": {"items": len(samples)},
            "items": tuple(samples),
            "draw": {"n": n, "temperature": None, "top_p": None, "max_tokens": None, "seed": None},
            **provenance(),
        }
    )

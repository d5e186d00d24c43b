"""The rows of a release in their published format: written, loaded back by the true loader, and audited."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pluralrm.audit import Audit, audit
from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.schema import Row
from pluralrm.core import Benchmark
from pluralrm.errors import RunError
from pluralrm.folders import file_hash

DATA, PARQUET = "data", "parquet"


class Edition(NamedTuple):
    """One benchmark of a release: what loads it (`prb`), and its rows by the file's name without its end.

    `name` is its folder. Where the format has no field for a domain, the file's name tells it.
    """

    name: str
    kind: str
    files: Mapping[str, Sequence[Row]]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(map(len, self.files.values()))


@dataclass(frozen=True, slots=True)
class Written:
    """An edition as it is on disk: what the loader makes of it, and its files with rows and hashes."""

    edition: Edition
    benchmark: Benchmark
    audit: Audit
    files: Mapping[str, "WrittenFile"]

    @property
    def leaks(self) -> list[str]:
        """What beats chance without what the benchmark is about, in sentences."""
        found = self.audit.leaks
        return [f"{self.edition.name}: {probe.title} ({probe.reads}): {probe.detail}".rstrip(": ") for probe in found]

    def to_json(self) -> dict[str, object]:
        """Return what a data card says of it."""
        audit = {
            "verdict": self.audit.verdict,
            "limits": self.audit.limits,
            "leaks": self.leaks,
            "seed": self.audit.seed,
        }
        return {
            "name": self.edition.name,
            "load": f"{self.edition.kind}:{DATA}/{self.edition.name}",
            "rows": self.edition.rows,
            "items": len(self.benchmark.items),
            "content_hash": self.benchmark.content_hash,
            "audit": audit,
            "files": {path: file._asdict() for path, file in self.files.items()},
        }


class WrittenFile(NamedTuple):
    """How many rows a file has, and the SHA-256 of its bytes."""

    rows: int
    sha256: str


def has_parquet() -> bool:
    """Return whether Parquet can be written here."""
    return find_spec("pyarrow") is not None


def write_edition(edition: Edition, folder: Path, *, seed: int) -> Written:
    """Return an edition that is written, loaded back from what was written, and audited."""
    files: dict[str, WrittenFile] = {}
    place = folder / DATA / edition.name
    for stem, rows in sorted(edition.files.items()):
        if rows:
            path, ordered = place / f"{stem}.jsonl", sorted(rows, key=lambda row: row.id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{row.model_dump_json(exclude_none=True)}\n" for row in ordered), encoding="utf-8")
            files[str(path.relative_to(folder))] = WrittenFile(len(ordered), file_hash(path))
    benchmark = load_benchmark(f"{edition.kind}:{place}", seed=seed)
    if has_parquet():
        files |= _write_parquet(edition, folder, benchmark)
    return Written(edition, benchmark, audit(benchmark, seed=seed), dict(sorted(files.items())))


def _write_parquet(edition: Edition, folder: Path, benchmark: Benchmark) -> dict[str, WrittenFile]:
    """Write the same rows as Parquet; RunError where the loader makes something else of them."""
    import pyarrow as pa
    from pyarrow import parquet

    files = {}
    for source in sorted((folder / DATA / edition.name).glob("*.jsonl")):
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        columns = dict.fromkeys(name for row in rows for name in row)  # pyarrow takes those of the first row alone
        path = folder / PARQUET / edition.name / f"{source.stem}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows]), path)
        files[str(path.relative_to(folder))] = WrittenFile(len(rows), file_hash(path))
    found = load_benchmark(f"{edition.kind}:{folder / PARQUET / edition.name}", seed=benchmark.seed)
    if found.content_hash != benchmark.content_hash:
        raise RunError(f"{edition.name}: the Parquet files hold other items than the JSONL files; wanted the same")
    return files

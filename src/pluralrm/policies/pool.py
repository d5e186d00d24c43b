"""The Pool: N answers per item from one policy under one condition. Immutable once it is complete, and hashed.

>>> pool = Pool("", "chat:m", "bakery", "ab12", "none", 2, {"q1": (Sample("q1", 0, "Rye."), Sample("q1", 1, "Rye."))})
>>> pool.texts("q1"), pool.complete
(('Rye.',), True)

pool.json      where the samples came from; once it is complete, their hash
samples.jsonl  one line per item and index, in the order in which they came
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pluralrm.core import Reveals, digest_list
from pluralrm.errors import PoolError
from pluralrm.policies import records
from pluralrm.policies.records import PoolManifest
from pluralrm.policies.samples import Finish, Sample

__all__ = ["MANIFEST", "SAMPLES", "Finish", "Pool", "Sample", "load_manifest", "load_pool", "read_samples"]

MANIFEST, SAMPLES = "pool.json", "samples.jsonl"


@dataclass(frozen=True)
class Pool:
    """The samples of every item, in the order of the benchmark's items and of their indexes.

    One that is not complete lacks samples, and has no hash.
    """

    folder: str
    policy: str
    benchmark: str
    benchmark_hash: str
    condition: str
    n: int
    samples: Mapping[str, tuple[Sample, ...]] = field(repr=False)
    complete: bool = True
    reveals: frozenset[Reveals] = frozenset()
    content_hash: str = ""

    def texts(self, item: str) -> tuple[str, ...]:
        """Return the different answers to an item, in the order of the first of each; failures have none."""
        return tuple(dict.fromkeys(sample.text for sample in self.samples[item] if sample.failure is None))

    def to_json(self) -> dict[str, object]:
        """Return what the pool is and how its answers ended, without them; tokens of those whose tokens are known."""
        samples = [sample for several in self.samples.values() for sample in several]
        counted = [sample.tokens for sample in samples if sample.tokens is not None]
        return {
            "folder": self.folder,
            "policy": self.policy,
            "benchmark": self.benchmark,
            "condition": self.condition,
            "reveals": sorted(self.reveals),
            "items": len(self.samples),
            "n": self.n,
            "complete": self.complete,
            "samples": len(samples),
            "different": sum(len(self.texts(item)) for item in self.samples),
            "finishes": dict(sorted(Counter(sample.finish for sample in samples).items())),
            "tokens": sum(counted),
            "tokens_of": len(counted),
            "content_hash": self.content_hash,
        }


def content_hash(samples: Mapping[str, tuple[Sample, ...]]) -> str:
    """Return the hash of all samples, in their order."""
    return digest_list(_content(samples))


def _content(samples: Mapping[str, tuple[Sample, ...]]) -> Iterator[list[object]]:
    for several in samples.values():
        for one in several:
            yield [one.item, one.index, one.seed, one.text, one.finish, one.tokens, one.detail, one.posts_kept]


def load_pool(path: str | Path, *, incomplete: bool = False) -> Pool:
    """Return the pool in a folder; one that lacks samples only where `incomplete` allows it, a changed one never."""
    folder = Path(path)
    manifest = load_manifest(folder)
    complete = manifest.status == "complete"
    samples = _in_order(read_samples(folder), manifest.items)
    if not (complete or incomplete):
        found, wanted = sum(map(len, samples.values())), len(manifest.items) * manifest.draw.n
        raise PoolError(
            f"{folder}: the pool has {found:,} of {wanted:,} samples; the same 'pluralrm sample' command draws the rest"
        )
    if complete and content_hash(samples) != manifest.content_hash:
        raise PoolError(
            f"{folder}: {SAMPLES} is not what was sampled: its hash is another than in {MANIFEST}. Restore it, or "
            "sample again with --fresh"
        )
    return Pool(
        folder=str(folder),
        policy=manifest.policy,
        benchmark=manifest.benchmark.card.name,
        benchmark_hash=manifest.benchmark.content_hash,
        condition=manifest.condition,
        n=manifest.draw.n,
        samples=samples,
        complete=complete,
        reveals=frozenset(manifest.reveals),
        content_hash=manifest.content_hash,
    )


def load_manifest(path: str | Path) -> PoolManifest:
    """Return the pool.json in a folder; a folder without one holds no pool."""
    file = Path(path) / MANIFEST
    try:
        return records.read_manifest(file.read_bytes(), str(file))
    except FileNotFoundError as exc:
        raise PoolError(
            f"{path} holds no pool: there is no {MANIFEST} in it; 'pluralrm sample' writes one with -o"
        ) from exc
    except OSError as exc:
        raise PoolError(f"cannot read {file}: {exc}") from exc


def read_samples(folder: Path) -> Iterator[Sample]:
    """Yield the samples on disk in the order in which they came; a torn last line is passed over.

    One that comes twice is an error by line.
    """
    file, seen = folder / SAMPLES, set[tuple[str, int]]()
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                continue
            one = records.sample_from(line, f"{file}:{number}")
            if (one.item, one.index) in seen:
                raise PoolError(f"{file}:{number}: found sample {one.index} of item {one.item!r} twice, wanted one")
            seen.add((one.item, one.index))
            yield one


def _in_order(samples: Iterator[Sample], items: tuple[str, ...]) -> dict[str, tuple[Sample, ...]]:
    found: dict[str, list[Sample]] = {item: [] for item in items}
    for one in samples:
        if one.item not in found:
            raise PoolError(f"{SAMPLES} has an item {one.item!r} that {MANIFEST} does not name")
        found[one.item].append(one)
    return {item: tuple(sorted(several, key=lambda one: one.index)) for item, several in found.items()}

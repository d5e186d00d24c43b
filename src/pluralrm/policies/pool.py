"""The Pool: N answers per item from one policy under one condition. Immutable once it is complete, and hashed.

>>> pool = Pool("", "chat:m", "bakery", "ab12", "none", 2, {"q1": (Sample("q1", 0, "Rye."), Sample("q1", 1, "Rye."))})
>>> pool.texts("q1"), pool.complete
(('Rye.',), True)

pool.json        where the samples came from; status `incomplete` from the first moment, their hash at the end
samples.jsonl    one line per item and index, in the order in which they came
inputs.jsonl.gz  exactly what the policy was given, one line per item that has a sample
attempts.jsonl   samples that stay open: transport, deadline, budget
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Failure, FinalKind, Item, Query, Reveals, Run, Score
from pluralrm.digests import digest_list
from pluralrm.display import Brief
from pluralrm.errors import BenchmarkError, PoolError, SpecError
from pluralrm.http import Tally
from pluralrm.journal import MERGE, JournalKind, Strict, json_line
from pluralrm.runs.records import BenchmarkRecord, MeteredManifest, SelectionRecord, input_line
from pluralrm.runs.usage import MeteredFolder
from pluralrm.shards import ShardProgress
from pluralrm.stats.clusters import FloatArray, IntArray
from pluralrm.validate.latex import canonical

AnswerFinish = Literal["stop", "length", "empty"]
"""How an answer ends: whole, cut off at its longest, or whole and without a word."""
ANSWERED: tuple[str, ...] = get_args(AnswerFinish)
Finish = AnswerFinish | FinalKind
FINAL: Mapping[str, FinalKind] = {kind: kind for kind in get_args(FinalKind)}
"""What a failure's kind is as a finish; none that leaves a sample open is among them."""


@dataclass(frozen=True, slots=True, repr=False)
class Sample(Brief):
    """One answer: the `index`-th of its item. `tokens` is None where they were not counted.

    Where `finish` is the kind of a failure there is no answer: `text` is empty, and `detail` says why.
    """

    item: str
    index: int
    text: str
    finish: Finish = "stop"
    tokens: int | None = None
    seed: int | None = None
    detail: str = ""
    posts_kept: int | None = None
    """How many posts fitted into the prompt; None where the policy drops none."""

    @property
    def failure(self) -> Failure | None:
        """Why there is no answer; None where there is one, though it be cut off or empty."""
        return None if self.finish in ANSWERED else Failure(FINAL[self.finish], self.detail)


# ---------------------------------------------------------------- files


class SampleRecord(Strict):
    """One line of samples.jsonl."""

    item: str
    index: int
    seed: int | None
    text: str
    finish: Finish
    tokens: int | None
    detail: str
    posts_kept: int | None


class DrawRecord(Strict):
    """How answers are drawn; null where that is not known, or left to the server."""

    n: int
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    seed: int | None


class PoolManifest(MeteredManifest):
    """pool.json: where the samples came from."""

    policy: str
    identity: dict[str, str]
    benchmark: BenchmarkRecord
    condition: str
    reveals: tuple[Reveals, ...]
    selection: SelectionRecord
    items: tuple[str, ...]
    draw: DrawRecord
    samples: int = 0
    finishes: dict[str, int] = {}
    content_hash: str = ""

    def facts(self) -> dict[str, object]:
        """Return what must be the same for a pool to be resumed."""
        names = ("policy", "identity", "benchmark", "condition", "selection", "items", "draw")
        facts = {name: getattr(self, name) for name in names}
        return {**facts, "benchmark": self.benchmark.content, "draw": self.draw.model_dump(), "shard": self.part}

    @property
    def own(self) -> list[str]:
        """The items of this pool, or of this shard of it."""
        return list(self.items) if self.shard is None else self.shard.of(self.items)


SAMPLES, INPUTS, ATTEMPTS = "samples.jsonl", "inputs.jsonl.gz", "attempts.jsonl"
POOL = JournalKind(
    noun="pool",
    manifest="pool.json",
    record=PoolManifest,
    error=PoolError,
    source="'pluralrm sample' writes one with -o",
    anew="sample again with --fresh",
    other="Old and new samples must not mix: --fresh (in Python fresh=True) removes that pool and starts over, another "
    "-o keeps both",
    files=(INPUTS, SAMPLES),
    attempts=ATTEMPTS,
)


@dataclass(frozen=True, repr=False)
class Pool(Brief):
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
        for row in several:
            yield [row.item, row.index, row.seed, row.text, row.finish, row.tokens, row.detail, row.posts_kept]


def load_pool(path: str | Path, *, incomplete: bool = False) -> Pool:
    """Return the pool in a folder; one that lacks samples only where `incomplete` allows it, a changed one never."""
    folder = Path(path)
    manifest = POOL.read(folder)
    complete = manifest.status == "complete"
    samples = checked_samples(folder, manifest)
    if not (complete or incomplete):
        count, total = sum(map(len, samples.values())), len(manifest.items) * manifest.draw.n
        raise PoolError(
            f"{folder}: the pool has {count:,} of {total:,} samples; the same 'pluralrm sample' command draws the rest"
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


def checked_samples(folder: Path, manifest: PoolManifest) -> dict[str, tuple[Sample, ...]]:
    """Return the samples of each item of a pool or a shard; PoolError where a complete one has others than it had."""
    samples = _in_order(read_samples(folder), tuple(manifest.own))
    if manifest.status == "complete" and content_hash(samples) != manifest.content_hash:
        raise PoolError(
            f"{folder}: {SAMPLES} is not what was sampled: its hash is another than in {POOL.manifest}. Restore it, or "
            "sample again with --fresh"
        )
    return samples


def pool_shard(path: str | Path) -> ShardProgress:
    """Return how far the shard of a pool in a folder is; one that is damaged is an error."""
    folder = Path(path)
    manifest = POOL.read(folder, shards=True)
    if manifest.shard is None:
        raise PoolError(f"{folder} is no shard")
    samples = [sample for several in checked_samples(folder, manifest).values() for sample in several]
    failed = sum(sample.failure is not None for sample in samples)
    size = len(manifest.own) * manifest.draw.n
    return ShardProgress(str(folder), manifest.shard.index, manifest.shard.count, len(samples), size, failed)


def read_samples(folder: Path) -> Iterator[Sample]:
    """Yield the samples on disk in the order in which they came."""
    for record in POOL.lines(folder / SAMPLES, SampleRecord, lambda row: f"sample {row.index} of item {row.item!r}"):
        yield Sample(*_values(record))


_values = attrgetter(*Sample.__dataclass_fields__)


def _in_order(samples: Iterator[Sample], items: tuple[str, ...]) -> dict[str, tuple[Sample, ...]]:
    ordered: dict[str, list[Sample]] = {item: [] for item in items}
    for sample in samples:
        if sample.item not in ordered:
            raise PoolError(f"{SAMPLES} has an item {sample.item!r} that {POOL.manifest} does not name")
        ordered[sample.item].append(sample)
    return {item: tuple(sorted(several, key=lambda sample: sample.index)) for item, several in ordered.items()}


class PoolFolder(MeteredFolder[PoolManifest]):
    """One pool, open for writing; `done` holds what has its sample."""

    def __init__(
        self,
        path: Path,
        manifest: PoolManifest,
        usage: Callable[[], Tally | None] = lambda: None,
        *,
        fresh: bool = False,
    ) -> None:
        super().__init__(path, POOL, manifest, usage, fresh=fresh)
        self.done: set[tuple[str, int]] = set()
        self.finishes: Counter[str] = Counter()
        self._items: set[str] = set()

    @property
    def size(self) -> int:
        """How many samples the whole pool, or shard, has."""
        return len(self.manifest.own) * self.manifest.draw.n

    @property
    def _lines(self) -> int:
        return len(self.done)

    def _remove(self) -> None:
        for name in (SAMPLES, INPUTS, ATTEMPTS, POOL.manifest, MERGE):  # scores, grades and outcomes stay
            (self.path / name).unlink(missing_ok=True)

    def _counts(self) -> dict[str, object]:
        return {"samples": len(self.done), "finishes": dict(sorted(self.finishes.items()))}

    def _adopt(self, earlier: PoolManifest) -> None:
        self.manifest, self._closed = earlier, earlier.status == "complete"
        self._carry_over(earlier.seconds, earlier.attempts, earlier.asked)

    def _resume(self) -> None:
        super()._resume()
        for sample in read_samples(self.path):
            self._count(sample)
        self._keep_inputs(self._items)
        self._note()

    def add(self, sample: Sample, query: Query | None = None) -> None:
        """Take one sample, and what the policy was given; on disk at the next sync, at most two seconds from now."""
        if (sample.item, sample.index) in self.done:
            raise PoolError(f"{self.path}: sample {sample.index} of item {sample.item!r} was drawn twice")
        first = query is not None and sample.item not in self._items
        line = json_line({name: getattr(sample, name) for name in SampleRecord.model_fields})
        with self._turn:
            self._count(sample)
            self.queue({**({INPUTS: input_line(query)} if first and query else {}), SAMPLES: line})

    def leave_open(self, item: str, index: int, failure: Failure) -> None:
        """Note a sample that stays open, to be tried again when the pool is resumed."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        record = {"item": item, "index": index, "at": at, "failure": failure.kind, "detail": failure.detail}
        self._leave_open(json.dumps(record, separators=(",", ":")) + "\n")

    def finish(self) -> None:
        """Write the closing pool.json: complete, with the hash of all samples, where none is open."""
        self.sync()
        if len(self.done) == self.size and not self._closed:
            ended = datetime.now(UTC).isoformat(timespec="seconds")
            samples = checked_samples(self.path, self.manifest)
            self._note("complete", finished=ended, content_hash=content_hash(samples))
            self._closed = True

    def _count(self, sample: Sample) -> None:
        self.done.add((sample.item, sample.index))
        self._items.add(sample.item)
        self.finishes[sample.finish] += 1


NO_LABEL = 0
"""Stands for the label that a pool's items do not have; their card names no metric that would read it."""


def source(pool: Pool, name: str = "") -> Benchmark:
    """Return the benchmark that a pool was sampled for; `name` is its spec or path, where that has changed."""
    sampled = POOL.read(pool.folder).benchmark
    made_by = sampled.card.revision.partition(" (")[0]
    by_card = made_by if made_by.startswith(("simulated,", "python:")) else sampled.card.name
    origin = sampled.spec or by_card
    try:
        bench = load_benchmark(name or origin, seed=sampled.seed)
    except (BenchmarkError, SpecError) as exc:
        raise PoolError(
            f"{pool.folder}: its benchmark {name or origin!r} is missing: {exc} --benchmark names another place"
        ) from exc
    if bench.content_hash != pool.benchmark_hash:
        raise PoolError(
            f"{pool.folder} was sampled for {pool.benchmark!r} with other items than {name or origin!r} has now; "
            "--benchmark names the one that it was sampled for"
        )
    return bench


def items_of(pool: Pool, benchmark: Benchmark) -> list[Item]:
    """Return the items that were sampled, in the order of the pool."""
    items = {item.id: item for item in benchmark.items}
    return [items[name] for name in pool.samples]


def pool_name(benchmark: Benchmark) -> str:
    """Return what a pool of answers to a benchmark is called as a benchmark."""
    return f"{benchmark.card.name}-pool"


def pool_benchmark(pool: Pool, benchmark: Benchmark) -> Benchmark:
    """Return the items with the pool's different answers as candidates, for reward models to score.

    Nothing is right or wrong about such an item: the card names no metric.
    """
    items = [
        replace(item, candidates=texts, candidate_ids=(), preferred=NO_LABEL, grades=(), tags={})
        for item in items_of(pool, benchmark)
        if (texts := pool.texts(item.id))
    ]
    if not items:
        raise PoolError(f"{pool.folder} has no answer to any item; pool.json says why, under finishes")
    note = f"not labelled: {pool.n} answers an item, sampled from {pool.policy} under {pool.condition}"
    card = replace(benchmark.card, name=pool_name(benchmark), labelled=note, metrics=())
    return Benchmark(card, tuple(items), benchmark.seed)


def answers(pool: Pool, benchmark: Benchmark) -> Iterator[tuple[Item, str]]:
    """Yield each item with each of its different answers."""
    for item in items_of(pool, benchmark):
        for text in pool.texts(item.id):
            yield item, text


def places(pool: Pool) -> list[list[int | None]]:
    """Return for each item and sample the place of its answer among the item's different ones; None without one."""
    table = []
    for name, samples in pool.samples.items():
        at = {text: index for index, text in enumerate(pool.texts(name))}
        table.append([None if sample.failure is not None else at[sample.text] for sample in samples])
    return table


def score_table(pool: Pool, run: Run) -> FloatArray:
    """Return the scores of a run over the pool, (items, N); NaN where a score failed, -inf where there is no answer."""
    scores = {row.item: row.scores for row in run.rows}
    return spread_out(pool, {name: [_number(score) for score in row] for name, row in scores.items()}, float("-inf"))


def spread_out(pool: Pool, values: Mapping[str, list[float]], missing: float) -> FloatArray:
    """Return one value per different answer as one per sample, (items, N); `missing` where a sample has no answer."""
    at = places(pool)
    rows = [
        [missing if index is None else values[name][index] for index in indices]
        for name, indices in zip(pool.samples, at, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), pool.n)


def votes(pool: Pool) -> IntArray:
    """Return which answer each sample boxes, as a number of the item's own, (items, N); -1 where it boxes none."""
    rows = []
    for several in pool.samples.values():
        boxed = [None if sample.failure is not None else canonical(sample.text) for sample in several]
        names = {text: number for number, text in enumerate(dict.fromkeys(filter(None, boxed)))}
        rows.append([-1 if text is None else names.get(text, -1) for text in boxed])
    return np.array(rows, dtype=np.int64).reshape(len(rows), pool.n)


def lengths(pool: Pool) -> FloatArray:
    """Return the characters of each sample, (items, N); 0 where it has no answer."""
    return np.array([[float(len(sample.text)) for sample in samples] for samples in pool.samples.values()])


def pick_pairs(pool: Pool, picks: IntArray) -> set[tuple[str, str]]:
    """Return the (item, answer) pairs at some places among the samples, (items, ks), without the places of none."""
    return {
        (name, samples[index].text)
        for (name, samples), row in zip(pool.samples.items(), picks.tolist(), strict=True)
        for index in row
        if index >= 0
    }


def _number(score: Score) -> float:
    return float("nan") if isinstance(score, Failure) else score

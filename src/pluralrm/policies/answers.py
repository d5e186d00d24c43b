"""A pool's answers as what reward models and graders take: each different answer to an item once.

Where an item has no answer at all (its policy refused every time), no model is asked, and there is nothing to grade.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Failure, Item, Run, Score
from pluralrm.errors import BenchmarkError, PoolError, SpecError
from pluralrm.policies.pool import POOL, Pool
from pluralrm.stats.clusters import FloatArray, IntArray
from pluralrm.validate.latex import canonical

NO_LABEL = 0
"""Stands for the label that a pool's items do not have; their card names no metric that would read it."""


def source(pool: Pool, name: str = "") -> Benchmark:
    """Return the benchmark that a pool was sampled for; `name` is its spec or path, where its card does not tell it."""
    sampled = POOL.read(pool.folder).benchmark
    made_by = sampled.card.revision.partition(" (")[0]
    told = made_by if sampled.card.name == "simulated" or made_by.startswith("python:") else sampled.card.name
    try:
        found = load_benchmark(name or told, seed=sampled.seed)
    except (BenchmarkError, SpecError) as exc:
        raise PoolError(
            f"{pool.folder}: its benchmark {name or told!r} is missing: {exc} --benchmark names another place"
        ) from exc
    if found.content_hash != pool.benchmark_hash:
        raise PoolError(
            f"{pool.folder} was sampled for {pool.benchmark!r} with other items than {name or told!r} has now; "
            "--benchmark names the one that it was sampled for"
        )
    return found


def items_of(pool: Pool, benchmark: Benchmark) -> list[Item]:
    """Return the items that were sampled, in the order of the pool."""
    known = {item.id: item for item in benchmark.items}
    return [known[name] for name in pool.samples]


def as_benchmark(pool: Pool, benchmark: Benchmark) -> Benchmark:
    """Return the items with the pool's different answers as candidates, for reward models to score.

    Nothing is right or wrong about such an item: the card names no metric.
    """
    asked = [
        replace(item, candidates=texts, candidate_ids=(), preferred=NO_LABEL, tags={})
        for item in items_of(pool, benchmark)
        if (texts := pool.texts(item.id))
    ]
    if not asked:
        raise PoolError(f"{pool.folder} has no answer to any item; pool.json says why, under finishes")
    told = f"not labelled: {pool.n} answers an item, sampled from {pool.policy} under {pool.condition}"
    card = replace(benchmark.card, name=f"{benchmark.card.name}-pool", labelled=told, metrics=())
    return Benchmark(card, tuple(asked), benchmark.seed)


def answers(pool: Pool, benchmark: Benchmark) -> Iterator[tuple[Item, str]]:
    """Yield each item with each of its different answers."""
    for item in items_of(pool, benchmark):
        for text in pool.texts(item.id):
            yield item, text


def places(pool: Pool) -> list[list[int | None]]:
    """Return for each item and sample the place of its answer among the item's different ones; None without one."""
    found = []
    for name, samples in pool.samples.items():
        at = {text: place for place, text in enumerate(pool.texts(name))}
        found.append([None if one.failure is not None else at[one.text] for one in samples])
    return found


def score_table(pool: Pool, run: Run) -> FloatArray:
    """Return the scores of a run over the pool, (items, N); NaN where a score failed, -inf where there is no answer."""
    scores = {row.item: row.scores for row in run.rows}
    return spread_out(pool, {name: [_known(score) for score in found] for name, found in scores.items()}, float("-inf"))


def spread_out(pool: Pool, values: Mapping[str, list[float]], missing: float) -> FloatArray:
    """Return one value per different answer as one per sample, (items, N); `missing` where a sample has no answer."""
    at = places(pool)
    rows = [
        [missing if place is None else values[name][place] for place in found]
        for name, found in zip(pool.samples, at, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), pool.n)


def votes(pool: Pool) -> IntArray:
    """Return which answer each sample boxes, as a number of the item's own, (items, N); -1 where it boxes none."""
    found = []
    for several in pool.samples.values():
        said = [None if one.failure is not None else canonical(one.text) for one in several]
        names = {text: number for number, text in enumerate(dict.fromkeys(filter(None, said)))}
        found.append([-1 if text is None else names.get(text, -1) for text in said])
    return np.array(found, dtype=np.int64).reshape(len(found), pool.n)


def lengths(pool: Pool) -> FloatArray:
    """Return the characters of each sample, (items, N); 0 where it has no answer."""
    return np.array([[float(len(one.text)) for one in samples] for samples in pool.samples.values()])


def picked(pool: Pool, picks: IntArray) -> set[tuple[str, str]]:
    """Return the (item, answer) pairs at some places among the samples, (items, ks), without the places of none."""
    return {
        (name, samples[place].text)
        for (name, samples), row in zip(pool.samples.items(), picks.tolist(), strict=True)
        for place in row
        if place >= 0
    }


def _known(score: Score) -> float:
    return float("nan") if isinstance(score, Failure) else score

"""Speed of semantic deduplication against two row-by-row loops, in turn: 20,000 rows of 384 numbers.

    python bench/dedup.py [rounds, default 3]

Both loops compare a row with all kept ones in one float32 product of a matrix and a vector. The usual one picks the
kept rows out by their numbers, as scripts go; the best one has them side by side in memory, so that it does nothing but
read them. What is near the threshold is settled by the same exact cosine. All three select the same, or this fails.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

import numpy as np

from pluralrm.audit.embedder import Rows, unit
from pluralrm.construct.filters import THRESHOLD, cosines, select
from pluralrm.stats.clusters import IntArray

T = TypeVar("T")
COUNT, WIDTH = 20_000, 384


def noise(*shape: int, seed: int) -> Rows:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def nothing_alike() -> Rows:
    """Return rows that are all kept: the most work that there can be."""
    return noise(COUNT, WIDTH, seed=1)


def mostly_alike() -> Rows:
    """Return rows of which three in four resemble one before."""
    of = np.random.default_rng(2).integers(0, COUNT // 4, COUNT)
    return noise(COUNT // 4, WIDTH, seed=3)[of] + np.float32(0.5) * noise(COUNT, WIDTH, seed=4)


def usual_loop(rows: Rows) -> IntArray:
    """Return what is kept, one row after the other."""
    units = unit(rows)
    kept: list[int] = []
    for place, row in enumerate(units):
        if not resembles(units[kept] @ row, rows, place, np.array(kept, np.intp)):
            kept.append(place)
    return np.array(kept, np.intp)


def best_loop(rows: Rows) -> IntArray:
    """Return what is kept, one row after the other, without a copy of the kept ones for each."""
    units = unit(rows)
    held, places, count = np.empty_like(units), np.empty(len(rows), np.intp), 0
    for place, row in enumerate(units):
        if not resembles(held[:count] @ row, rows, place, places[:count]):
            held[count], places[count] = row, place
            count += 1
    return places[:count]


def resembles(products: Rows, rows: Rows, place: int, kept: IntArray) -> bool:
    """Return whether any cosine with a kept row is above the threshold."""
    highest, error = products.max(initial=-1), (WIDTH + 8) * 2.0**-23
    if not THRESHOLD - error <= highest <= THRESHOLD + error:
        return bool(highest > THRESHOLD)
    near = kept[products >= THRESHOLD - error]
    return bool((cosines(np.tile(rows[place], (len(near), 1)), rows[near]) > THRESHOLD).any())


def blocked(rows: Rows) -> IntArray:
    return np.flatnonzero(select(rows).kept)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def compare(name: str, rows: Rows, rounds: int) -> None:
    """Print seconds and ratios of each round, and their medians."""
    ways = {"blocks": blocked, "best loop": best_loop, "usual loop": usual_loop}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways.values():
        way(rows[:2000])
    for _ in range(rounds):
        found = {}
        load = os.getloadavg()[0]
        for way, work in ways.items():
            took, found[way] = timed(lambda: work(rows))  # noqa: B023 - called at once
            seconds[way].append(took)
        if not all(np.array_equal(found["blocks"], other) for other in found.values()):
            sys.exit(f"{name}: the selections differ")
        print(
            f"  {name}:", *(f"{way} {took[-1]:.2f} s," for way, took in seconds.items()), f"load {load:.1f}", flush=True
        )
    print(f"{name}: {len(found['blocks']):,} of {len(rows):,} kept; blocks {told(seconds['blocks'])} s")
    for way in ("best loop", "usual loop"):
        ratios = [slow / fast for slow, fast in zip(seconds[way], seconds["blocks"], strict=True)]
        print(f"  {told(ratios)} times the {way}", flush=True)


def told(numbers: list[float]) -> str:
    return f"{median(numbers):.2f} ({min(numbers):.2f}-{max(numbers):.2f})"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    compare("nothing alike", nothing_alike(), rounds)
    compare("mostly alike", mostly_alike(), rounds)
    print(f"memory, at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()

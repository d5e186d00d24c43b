"""Semantic deduplication against two loops that compare a row with all kept ones in one product.

The usual loop selects the kept rows by index and so copies them; the best one has them side by side in memory. What is
near the threshold is settled by the same exact cosine: all three select the same.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from bench import Outcome, Setup, Shape, Work
from pluralrm.audit.embedder import Rows, unit
from pluralrm.construct.filters import THRESHOLD, cosines, select
from pluralrm.stats.clusters import IntArray

WIDTH = 384


def noise(*shape: int, seed: int) -> Rows:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def nothing_alike(setup: Setup) -> Rows:
    """Return rows that are all kept: the most work that there can be."""
    return noise(setup.size(20_000, 200), WIDTH, seed=1)


def mostly_alike(setup: Setup) -> Rows:
    """Return rows of which three in four resemble one before."""
    count = setup.size(20_000, 200)
    source = np.random.default_rng(2).integers(0, count // 4, count)
    return noise(count // 4, WIDTH, seed=3)[source] + np.float32(0.5) * noise(count, WIDTH, seed=4)


def indices(selection: Callable[[Rows], IntArray], rows: Rows) -> Work:
    return lambda: Outcome(selection(rows).tolist(), len(rows))


def blocks(rows: Rows) -> IntArray:
    return np.flatnonzero(select(rows).kept)


def best_loop(rows: Rows) -> IntArray:
    units = unit(rows)
    kept, places, count = np.empty_like(units), np.empty(len(rows), np.intp), 0
    for place, row in enumerate(units):
        if not resembles(kept[:count] @ row, rows, place, places[:count]):
            kept[count], places[count] = row, place
            count += 1
    return places[:count]


def usual_loop(rows: Rows) -> IntArray:
    units = unit(rows)
    kept: list[int] = []
    for place, row in enumerate(units):
        if not resembles(units[kept] @ row, rows, place, np.array(kept, np.intp)):
            kept.append(place)
    return np.array(kept, np.intp)


def resembles(products: Rows, rows: Rows, place: int, kept: IntArray) -> bool:
    """Return whether any cosine with a kept row is above the threshold."""
    highest, error = products.max(initial=-1), (WIDTH + 8) * 2.0**-23
    if not THRESHOLD - error <= highest <= THRESHOLD + error:
        return bool(highest > THRESHOLD)
    near = kept[products >= THRESHOLD - error]
    return bool((cosines(np.tile(rows[place], (len(near), 1)), rows[near]) > THRESHOLD).any())


for data in (nothing_alike, mostly_alike):
    title = data.__name__.replace("_", " ")
    dedup = Shape(f"dedup-{title.split()[0]}", f"20,000 rows of 384 numbers, {title}", data, unit="rows", rounds=3)
    for way in (blocks, best_loop, usual_loop):
        dedup.side(partial(indices, way), name=way.__name__.replace("_", " "))

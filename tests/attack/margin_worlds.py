"""How often a difference that is exactly at the margin is called none, and one that is none is.

People ask 1 to 6 questions, one in ten of them 20; three questions in ten have a prompt that others have too. What a
swap changes is a person's: half of the people are changed twice as often as the average says, the others never.

`python -m tests.attack.margin_worlds [WORLDS]` prints the table of docs/design/attack.md.
"""

import sys
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pluralrm.attack.personal import Bound, MeasureTerms, SharePair, _p_within, measured
from pluralrm.metrics.comparison import RunItems
from pluralrm.stats.clusters import FloatArray, IntArray
from tests.metrics.rows import row


class MarginWorld(NamedTuple):
    """Shares that differ by `difference` on average; `noise` of the items differ either way, or are changed anyway."""

    kind: str
    difference: float
    noise: float
    people: int
    margin: float = 0.05


@lru_cache(maxsize=2)
def asked(people: int, block: int) -> tuple[RunItems, IntArray]:
    """Return the items, whose people and prompts are what counts, and the person of each."""
    rng = np.random.default_rng([people, block])
    counts = np.where(rng.random(people) < 0.1, 20, rng.integers(1, 7, people))
    person = np.repeat(np.arange(people), counts)
    n = len(person)
    prompt = np.where(rng.random(n) < 0.3, rng.integers(0, max(n // 10, 2), n), n + np.arange(n))
    names = enumerate(zip(person, prompt, strict=True))
    return RunItems(
        tuple(row(f"i{k}", (1.0, 0.0), cluster=f"u{who}", prompt=f"p{text}") for k, (who, text) in names)
    ), person


def drawn(world: MarginWorld, seed: int) -> tuple[RunItems, SharePair]:
    """Return the items, those of 20 worlds the same, and the two shares."""
    side, person = asked(world.people, seed // 20)
    rng = np.random.default_rng([seed, int(1000 * world.noise), int(1e4 * world.difference)])
    effect = np.array(2 * world.difference * (rng.random(world.people) < 0.5)[person], np.float64)
    return side, _pair(world, rng, effect)


def _pair(world: MarginWorld, rng: np.random.Generator, effect: FloatArray) -> SharePair:
    n = len(effect)
    hit, noise = rng.random(n) < effect, rng.random(n) < world.noise
    if world.kind == "accuracy":  # noise decides anew
        before = rng.random(n) < RIGHT
        after = np.where(noise, rng.random(n) < RIGHT, before)
    else:  # noise changes a verdict, or repeats a post, on either side
        before, after = rng.random(n) < world.noise, noise
    first, second = np.where(hit, 1.0, after), np.where(hit, 0.0, before)
    return SharePair(first, second, np.zeros(n, bool))


RIGHT = 0.78
WORLDS = (
    MarginWorld("accuracy", 0.05, 0.1, 120),
    MarginWorld("changed", 0.05, 0.02, 120),
    MarginWorld("repeated", 0.02, 0.0, 250, 0.02),
    MarginWorld("accuracy", 0.05, 0.5, 120),
    MarginWorld("accuracy", 0.05, 0.1, 60),
    MarginWorld("accuracy", 0.0, 0.1, 120),
    MarginWorld("accuracy", 0.0, 0.5, 120),
    MarginWorld("accuracy", 0.0, 0.5, 250),
    MarginWorld("changed", 0.0, 0.1, 120),
    MarginWorld("repeated", 0.0, 0.0, 250, 0.02),
    MarginWorld("changed", 0.05, 0.2, 120),
)


class MarginRates(NamedTuple):
    """Shares of the worlds in which the difference is called none, and beyond the margin; and the mean of items."""

    within: float
    beyond: float
    items: float


def rates(world: MarginWorld, worlds: int) -> MarginRates:
    """Return how often each is said at 5%, without adjustment; beyond the margin of the first fifth of the worlds."""
    bound: Bound = "both" if world.kind == "accuracy" else "above"
    terms = MeasureTerms(world.kind, "none", "{}", world.margin, bound)
    within = beyond = items = 0
    fifth = max(worlds // 5, 1)
    for seed in range(worlds):
        side, pair = drawn(world, seed)
        within += _p_within(pair, side, terms, macro=False) < 0.05
        if seed < fifth:
            p = measured(pair, side, terms).p_beyond
            beyond += p is not None and p < 0.05
        items += len(side.rows)
    return MarginRates(within / worlds, beyond / fifth, items / worlds)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for each in WORLDS:
        worlds = count if each.difference else max(count // 5, 20)
        within, beyond, items = rates(each, worlds)
        head = f"{each.kind:9} {each.difference:.2f} noise {each.noise:.2f}: {each.people} people, {items:.0f} items"
        sys.stdout.write(f"{head}: within {100 * within:.1f}% beyond {100 * beyond:.1f}% of {worlds}\n")
        sys.stdout.flush()

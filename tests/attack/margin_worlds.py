"""How often a difference that is exactly at the margin is called none, and one that is none is.

People ask 1 to 6 questions, one in ten of them 20; three questions in ten have a prompt that others have too. What a
swap changes is a person's: half of the people are changed twice as often as the average says, the others never.

`python -m tests.attack.margin_worlds [WORLDS]` prints the table of docs/design/attack.md.
"""

import sys
from typing import NamedTuple

import numpy as np

from pluralrm.attack.personal import Bound, MeasureTerms, SharePair, measured
from pluralrm.metrics.comparison import RunItems
from pluralrm.stats.clusters import FloatArray
from tests.metrics.rows import row


class MarginWorld(NamedTuple):
    """Shares that differ by `difference` on average; `noise` of the items differ either way, or are changed anyway."""

    kind: str
    difference: float
    noise: float
    people: int
    margin: float = 0.05


def drawn(world: MarginWorld, seed: int) -> tuple[RunItems, SharePair]:
    """Return the items, whose people and prompts are what counts, and the two shares."""
    rng = np.random.default_rng([seed, world.people, int(1000 * world.noise), int(1e4 * world.difference)])
    counts = np.where(rng.random(world.people) < 0.1, 20, rng.integers(1, 7, world.people))
    person = np.repeat(np.arange(world.people), counts)
    n = len(person)
    shared = rng.random(n) < 0.3
    prompt = np.where(shared, rng.integers(0, max(n // 10, 2), n), n + np.arange(n))
    names = enumerate(zip(person, prompt, strict=True))
    side = RunItems(tuple(row(f"i{k}", (1.0, 0.0), cluster=f"u{who}", prompt=f"p{text}") for k, (who, text) in names))
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
    MarginWorld("accuracy", 0.05, 0.1, 250),
    MarginWorld("accuracy", 0.05, 0.5, 250),
    MarginWorld("accuracy", 0.05, 0.1, 60),
    MarginWorld("accuracy", 0.0, 0.1, 250),
    MarginWorld("accuracy", 0.0, 0.5, 250),
    MarginWorld("accuracy", 0.0, 1.0, 250),
    MarginWorld("changed", 0.05, 0.02, 250),
    MarginWorld("changed", 0.05, 0.2, 250),
    MarginWorld("changed", 0.05, 0.02, 60),
    MarginWorld("changed", 0.0, 0.02, 250),
    MarginWorld("changed", 0.0, 0.2, 250),
    MarginWorld("repeated", 0.02, 0.0, 250, 0.02),
    MarginWorld("repeated", 0.02, 0.02, 250, 0.02),
    MarginWorld("repeated", 0.0, 0.0, 250, 0.02),
    MarginWorld("repeated", 0.0, 0.02, 250, 0.02),
)


class MarginRates(NamedTuple):
    """Shares of the worlds in which the difference is called none, and beyond the margin; and the mean of items."""

    within: float
    beyond: float
    items: float


def rates(world: MarginWorld, worlds: int) -> MarginRates:
    """Return how often each is said at 5%, without adjustment."""
    bound: Bound = "both" if world.kind == "accuracy" else "above"
    terms = MeasureTerms(world.kind, "none", "{}", world.margin, bound)
    within = beyond = items = 0
    for seed in range(worlds):
        side, pair = drawn(world, seed)
        measure = measured(pair, side, terms)
        within += measure.within
        beyond += measure.p_beyond is not None and measure.p_beyond < 0.05
        items += len(side.rows)
    return MarginRates(within / worlds, beyond / worlds, items / worlds)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for each in WORLDS:
        worlds = count if each.difference else max(count // 3, 20)
        within, beyond, items = rates(each, worlds)
        head = f"{each.kind:9} {each.difference:.2f} noise {each.noise:.2f}: {each.people} people, {items:.0f} items"
        sys.stdout.write(f"{head}: within {100 * within:.1f}% beyond {100 * beyond:.1f}% of {worlds}\n")
        sys.stdout.flush()

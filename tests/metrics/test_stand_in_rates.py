"""How often a judge who is exactly at the margin is let in, by our verdict and by the published rule.

`python -m tests.metrics.test_stand_in_rates [WORLDS]` prints the table of docs/design/statistics.md.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import product
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from pluralrm.metrics.stand_in import StandInComparison, StandInResult, StandInTerms, stand_in_result

FloatArray = npt.NDArray[np.float64]


class World(NamedTuple):
    """Careful people are right with chance `right`, careless ones choose at random; each labels a `share` of items.

    Each item is hard with chance one half: then everybody chooses at random with chance `hard`. Of `together` items of
    a cluster each is, with chance .6, the first one once more.
    """

    careful: int
    careless: int
    items: int
    epsilon: float = 0.15
    right: float = 0.85
    share: float = 1.0
    hard: float = 0.3
    together: int = 1

    @property
    def people(self) -> int:
        return self.careful + self.careless


WORLDS = (
    World(3, 0, 30),
    World(3, 0, 100),
    World(9, 0, 30),
    World(9, 0, 100),
    World(9, 0, 100, epsilon=0.05),
    World(9, 0, 100, epsilon=0.2, right=0.95),
    World(9, 0, 150, share=0.5),
    World(3, 0, 200, together=4),
    World(5, 4, 100),
    World(11, 9, 100),
    World(31, 29, 100),
)
"""In the last three the judge is as good as just under half of the people: the hardest case for 'at least half'."""


def _binomial(n: int, p: float) -> FloatArray:
    return np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


def _right(world: World, chance: float) -> tuple[float, float]:
    """The chance to be right on an easy and on a hard item."""
    return chance, (1 - world.hard) * chance + world.hard / 2


def gaps(world: World, skill: float) -> tuple[float, float]:
    """The exact lead of a careful person over a judge of this skill, and the judge's advantage probability there."""
    lead = advantage = total = 0.0
    for careful, judge in zip(_right(world, world.right), _right(world, skill), strict=True):
        # How many others label the item, and how many of them are right; share 1 is one case.
        right = _binomial_pair(world.careful - 1, careful, world.careless, world.share)
        for (others, correct), weight in right.items():
            if not others:
                continue
            total += weight / 2
            for own, judged in product((0, 1), (0, 1)):
                mass = weight / 2 * (careful if own else 1 - careful) * (judge if judged else 1 - judge)
                score = {1: correct, 0: others - correct}
                lead += mass * ((score[own] > score[judged]) - (score[judged] > score[own]))
                advantage += mass * (score[judged] >= score[own])
    return lead / total, advantage / total


def _binomial_pair(careful: int, right: float, careless: int, share: float) -> dict[tuple[int, int], float]:
    """Masses of (how many others label, how many of these are right)."""
    masses: dict[tuple[int, int], float] = {(0, 0): 1.0}
    for count, chance in ((careful, right), (careless, 0.5)):
        step: dict[tuple[int, int], float] = {}
        present = _binomial(count, share) if share < 1 else np.eye(count + 1)[count]
        for labels in np.flatnonzero(present):
            for correct, mass in enumerate(_binomial(int(labels), chance)):
                for (others, before), weight in masses.items():
                    key = (others + int(labels), before + correct)
                    step[key] = step.get(key, 0.0) + weight * float(present[labels]) * mass
        masses = step
    return masses


def at_margin(world: World) -> float:
    """The skill at which careful people lead by epsilon exactly."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if gaps(world, middle)[0] > world.epsilon else (low, middle)
    return (low + high) / 2


def drawn(world: World, skill: float, rng: np.random.Generator) -> list[StandInComparison]:
    """One table of labels, as comparisons."""
    hard = (rng.random(world.items) < 0.5)[:, None] & (rng.random((world.items, world.people + 1)) < world.hard)
    chances = np.array([world.right] * world.careful + [0.5] * world.careless + [skill])
    right = np.where(hard, 0.5, chances) > rng.random((world.items, world.people + 1))
    there = rng.random((world.items, world.people)) < world.share
    index = np.arange(world.items)
    cluster = index // world.together
    source = np.where(rng.random(world.items) < 0.6, cluster * world.together, index)
    right, there = right[source], there[source]
    said, judged = right[:, :-1], right[:, -1:]
    correct, labels = (said & there).sum(axis=1, keepdims=True), there.sum(axis=1, keepdims=True)
    others = labels - there
    alike = np.where(said, correct - 1, labels - correct - 1)
    left = correct - (said & there)
    judge = np.where(judged, left, others - left)
    return [
        StandInComparison(
            f"p{person:03}", f"i{cluster[item]}", judge[item, person] / count, alike[item, person] / count
        )
        for item, person in zip(*np.nonzero(there & (others > 0)), strict=True)
        for count in [int(others[item, person])]
    ]


def results(world: World, worlds: int, seed: int = 0) -> Iterator[StandInResult]:
    skill, terms = at_margin(world), StandInTerms(world.epsilon)
    for number in range(worlds):
        yield stand_in_result("judge", drawn(world, skill, np.random.default_rng([seed, number])), terms=terms)


class Rates(NamedTuple):
    """Shares of worlds: we let it in; the published rule does; and one test of a person at the margin rejects at 5%."""

    ours: float
    published: float
    single: float
    covered: float
    """The interval of rho holds its true value; only known where all people are careful."""


def rates(world: World, worlds: int) -> Rates:
    truth = gaps(world, at_margin(world))[1]
    rows: list[tuple[float, float, float, float]] = []
    for result in results(world, worlds):
        rho, rate = result.advantage, result.published_rate
        assert rho is not None
        assert rate is not None
        assert rho.low is not None
        assert rho.high is not None
        single = np.mean([test.p <= 0.05 for test in result.people if int(test.person[1:]) < world.careful])
        rows.append((result.ruling == "may", rate >= 0.5, float(single), rho.low <= truth <= rho.high))
    return Rates(*np.mean(rows, axis=0).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_judge_at_the_margin_is_let_in_at_the_stated_rate(world: World) -> None:
    measured = rates(world, 400)
    assert measured.ours <= 0.05 + 2.5 * (0.05 * 0.95 / 400) ** 0.5
    assert measured.single <= 0.075  # single tests of one world share the judge
    if not world.careless:
        assert 0.91 <= measured.covered <= 0.99


def test_the_margin_is_exact() -> None:
    world = World(3, 1, 4000, share=0.7)
    result = next(iter(results(world, 1)))
    leads = [test.lead for test in result.people[:3]]
    assert all(lead.low is not None and lead.low < -world.epsilon < (lead.high or 0) for lead in leads)


def _print(write: Callable[[str], object], worlds: int) -> None:
    write("| people, items, ε | `may` | published | one test | rho |\n|---|---|---|---|---|\n")
    for world in WORLDS:
        measured = rates(world, worlds)
        cells = [f"{100 * rate:.1f}" for rate in (measured if not world.careless else measured[:3])]
        write(f"| {world} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _print(sys.stdout.write, int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

"""Worlds of people who judge the same candidates, whose shares are known, and how often intervals hold them.

Everybody's utility of a candidate is a common part, a part of the person's group and a part of the person's own (a
taste in six directions), and people choose with softmax probabilities. What that makes of the shares has no closed
form: `true_shares` integrates over 200,000 panels with probabilities, not votes. People leave 1 to about 100 judgments,
panels have 2 to 60 judges, and who judges twice does so on all their panels.

python -m tests.metrics.crossed 1000 [WORLD...]
"""

import sys
import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pluralrm.metrics.shares import CrossedJudgments, Shares, cells_from, shares
from pluralrm.stats.clusters import FloatArray, IntArray

DIRECTIONS = 6


@dataclass(frozen=True)
class World:
    common: float
    group: float
    own: float
    """Standard deviations of the three parts."""
    width: int = 2
    repeats: float = 0.3
    groups: int = 0
    people: int = 300
    panels: int = 120


WORLDS = {
    "all": World(1, 1, 1, groups=6),
    "all, 4 candidates": World(1, 1, 1, groups=6, width=4),
    "no groups": World(1, 0, 1),
    "no groups, 4 candidates": World(1, 0, 1, width=4),
    "10% repeat": World(1, 0, 1, repeats=0.1),
    "100% repeat": World(1, 0, 1, repeats=1),
    "group is all": World(0.5, 1.5, 0, groups=6),
    "group is all, 100% repeat": World(0.5, 1.5, 0, groups=6, repeats=1, width=4),
    "person is all": World(0, 0, 2),
    "small": World(1, 0, 1, people=60, panels=60),
    "noise": World(0, 0, 0),
    "noise, 10% repeat": World(0, 0, 0, repeats=0.1),
    "noise, 4 candidates": World(0, 0, 0, width=4, repeats=1),
    "noise, small": World(0, 0, 0, people=60, panels=60),
    "consensus and noise": World(2, 0, 0),
    "consensus and noise, 10% repeat": World(2, 0, 0, repeats=0.1),
    "consensus and noise, 4 candidates": World(2, 0, 0, width=4, groups=6),
}
NULLS = [name for name in WORLDS if "noise" in name]


def _chances(utility: FloatArray) -> FloatArray:
    odds = np.exp(utility - utility.max(axis=1, keepdims=True))
    result: FloatArray = odds / odds.sum(axis=1, keepdims=True)
    return result


def true_shares(world: World, panels: int = 200_000) -> dict[str, float]:
    rng, size = np.random.default_rng(1), (panels, world.width)
    common = rng.normal(0, world.common, size)
    groups = [rng.normal(0, world.group, size) * bool(world.groups) for _ in range(2)]
    answers = rng.normal(0, 1 / DIRECTIONS**0.5, (*size, DIRECTIONS))

    def person(group: FloatArray) -> FloatArray:
        taste = rng.normal(0, world.own, (panels, DIRECTIONS))
        return _chances(common + group + np.einsum("pd,pkd->pk", taste, answers))

    first, fellow, other = person(groups[0]), person(groups[0]), person(groups[1])
    total = 1 - 1 / world.width
    same, group, consensus = (float((first * p).sum(axis=1).mean()) - 1 / world.width for p in (first, fellow, other))
    group = group if world.groups else consensus
    anybody = consensus + (group - consensus) / max(world.groups, 1)
    values = {"consensus": consensus, "person": same - group, "noise": total - same, "group": group - consensus}
    return {name: value / total for name, value in values.items()} | {"winnable": same - anybody}


def judged_world(world: World, seed: int) -> CrossedJudgments:
    rng = np.random.default_rng([seed, 11])
    group = rng.integers(0, max(world.groups, 1), world.people)
    active = 1 / (1 + rng.permutation(world.people))
    sizes = np.exp(rng.uniform(np.log(2), np.log(61), world.panels)).astype(int)
    who = [rng.choice(world.people, min(n, world.people), replace=False, p=active / active.sum()) for n in sizes]
    person, panel = np.concatenate(who), np.repeat(np.arange(world.panels), [len(each) for each in who])
    utility = rng.normal(0, world.common, (world.panels, world.width))[panel]
    by_group = rng.normal(0, world.group, (world.panels, max(world.groups, 1), world.width))
    utility += by_group[panel, group[person]] * bool(world.groups)
    answers = rng.normal(0, 1 / DIRECTIONS**0.5, (world.panels, world.width, DIRECTIONS))
    taste = rng.normal(0, world.own, (world.people, DIRECTIONS))
    chances = _chances(utility + np.einsum("jd,jkd->jk", taste[person], answers[panel]))
    twice = rng.random(world.people) < world.repeats
    judged = np.concatenate([np.arange(len(person)), np.flatnonzero(twice[person])])
    pick = (rng.random((len(judged), 1)) > chances[judged].cumsum(axis=1)).sum(axis=1).clip(0, world.width - 1)
    votes = np.eye(world.width)[pick] - 1 / world.width
    return as_judged(votes, person[judged], panel[judged], group[person[judged]] if world.groups else None)


def as_judged(votes: FloatArray, person: IntArray, panel: IntArray, group: IntArray | None = None) -> CrossedJudgments:
    """Return judgments that are arrays from the start, as `crossed_judgments` makes them of a benchmark."""
    cells, cell = cells_from(votes, person, prompt=panel, panel=panel)
    codes = {} if group is None else {"group": group[np.unique(cell, return_index=True)[1]]}
    grouped = cells.grouped(codes.get("group", cells.person))
    judged = CrossedJudgments("world", (), (), cell, cells, grouped, tuple(codes), codes)
    judged.__dict__.update(widths=np.full(len(cells.panel), float(votes.shape[1])), tops=votes > 0, marks=cells)
    return judged


NAMES = ("consensus", "group", "person", "noise", "winnable")


def simulate(world: World, worlds: int) -> dict[str, tuple[float, float, float, float]]:
    """Return for each share its truth, the bias, the coverage, and how often it lies above 0."""
    truth, results = true_shares(world), defaultdict(list)
    for seed in range(worlds):
        result: Shares = shares(judged_world(world, seed))
        for name in NAMES:
            if (estimate := getattr(result, name)) is not None and estimate.low is not None:
                inside = estimate.low <= truth[name] <= estimate.high
                results[name].append((estimate.value - truth[name], inside, estimate.low > 0))
    return {name: (truth[name], *np.mean(rows, axis=0).tolist()) for name, rows in results.items()}


def main() -> None:
    for name in sys.argv[2:] or WORLDS:
        start = time.monotonic()
        for share, numbers in simulate(WORLDS[name], int(sys.argv[1])).items():
            print(f"{name:35} {share:10}", *(f"{number:8.4f}" for number in numbers), flush=True)  # noqa: T201
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""What came of a study's trainings: each reward model's policy before and after, over its seeds, with intervals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pluralrm.core import Estimate
from pluralrm.correlate import Column, column_of_items
from pluralrm.correlate.picked import notes_of
from pluralrm.downstream.outcomes import OutcomeManifest
from pluralrm.downstream.training.alarms import Alarm
from pluralrm.stats import Interval
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.trainings import Trainings, trainings, trainings_difference
from pluralrm.study.ppo.read import REPORT, Graded, alarmed, curves, graded
from pluralrm.study.ppo.recipe import Cell, Recipe, Training

_LEVEL = 0.95


class Alarmed(NamedTuple):
    """An alarm of one training; `domain` is empty where one policy is for all."""

    alarm: Alarm
    domain: str


@dataclass(frozen=True)
class Seeded:
    """What one seed gave: mean grades before and after, what went off, and the report of each of its trainings."""

    seed: int
    before: float
    after: float
    alarms: tuple[Alarmed, ...]
    reports: tuple[str, ...]
    """Files inside the study's folder."""

    @property
    def change(self) -> float:
        """By how much the mean grade changed."""
        return self.after - self.before


class Change(NamedTuple):
    """The mean change: about other users of these trainings, and about other users and trainings."""

    users: Estimate
    both: Estimate


@dataclass(frozen=True)
class Trained:
    """What a reward model made of a policy under a condition, over its seeds.

    `whole` is False where a seed is missing: then it is in no column and in no comparison.
    """

    reward: str
    condition: str
    manifest: OutcomeManifest
    """Of the first seed's Outcome: what the reward model and the policy were shown is the same for all."""
    whole: bool
    seeds: tuple[Seeded, ...]
    before: Estimate
    after: Change
    change: Change
    items: tuple[str, ...]
    users: tuple[str, ...]
    grades: FloatArray
    """(seeds, items): after training."""
    watched: Mapping[int, float]
    """The mean grade of the watched users by step, over all seeds; a failed one is 0."""
    failed: frozenset[str]
    """Items at which an answer or a grade failed after training; it earned nothing there."""

    @property
    def shown_rubric(self) -> bool:
        """True for an upper control: the reward model knew what its answers are graded by."""
        return self.manifest.shown_rubric

    @property
    def alarms(self) -> dict[str, list[int]]:
        """The seeds at which each alarm went off, by its name."""
        found: dict[str, list[int]] = {}
        for one in self.seeds:
            for name in dict.fromkeys(went.alarm.name for went in one.alarms):
                found.setdefault(name, []).append(one.seed)
        return found


@dataclass(frozen=True)
class Apart:
    """The best policy of a condition against the worst; both are chosen by looking, and the intervals allow for it."""

    condition: str
    best: str
    worst: str
    difference: Change


@dataclass(frozen=True)
class Found:
    """All that was trained."""

    recipe: Recipe
    trained: tuple[Trained, ...]
    apart: tuple[Apart, ...]

    @property
    def conditions(self) -> list[str]:
        """The conditions under which reward models rewarded, in their order."""
        return list(dict.fromkeys(one.condition for one in self.trained))


def found_of(recipe: Recipe, out: Path) -> Found:
    """Return what is on disk of the trainings; one that is not whole is not among them."""
    some = [_trained(recipe, cell, out) for cell in recipe.cells if cell.skip is None]
    trained = tuple(one for one in some if one is not None)
    return Found(recipe, trained, tuple(_apart(trained)))


# ---------------------------------------------------------------- one reward model


class _Part(NamedTuple):
    """A training that is whole, and its grades."""

    training: Training
    graded: Graded


def _trained(recipe: Recipe, cell: Cell, out: Path) -> Trained | None:
    """Return what became of the seeds that are whole; None where none is."""
    asked, by_seed = recipe.declared, dict[int, list[_Part]]()
    for seed in recipe.seeds:
        several = [
            (one, graded(one.folder, recipe.grader, steps=asked.steps, n=asked.n)) for one in recipe.of(cell, seed, out)
        ]
        parts = [_Part(one, told) for one, told in several if told is not None]
        if len(parts) == len(several):
            by_seed[seed] = parts
    if not by_seed:
        return None
    before, after = (_table(by_seed, name) for name in ("before", "after"))
    first = next(iter(by_seed.values()))
    items = tuple(item for part in first for item in part.graded.items)
    users = tuple(user for part in first for user in part.graded.users)
    early, late = (_failed(by_seed, name) for name in ("failed_before", "failed_after"))
    return Trained(
        reward=cell.reward,
        condition=cell.condition.spec,
        manifest=first[0].graded.manifest,
        whole=len(by_seed) == len(recipe.seeds),
        seeds=tuple(_seeded(seed, parts, asked.steps, out) for seed, parts in by_seed.items()),
        before=_change(trainings(before, users), len(items), len(early)).users,
        after=_change(trainings(after, users), len(items), len(late)),
        change=_change(trainings_difference(after, before, users), len(items), len(early | late)),
        items=items,
        users=users,
        grades=after,
        watched=_watched([part for parts in by_seed.values() for part in parts], asked.steps),
        failed=late,
    )


def _table(by_seed: dict[int, list[_Part]], name: str) -> FloatArray:
    """Return the grades, (seeds, items), of the domains one after another."""
    rows = [[grade for part in parts for grade in getattr(part.graded, name)] for parts in by_seed.values()]
    return np.array(rows, dtype=np.float64)


def _failed(by_seed: dict[int, list[_Part]], name: str) -> frozenset[str]:
    """Return the items at which an answer or a grade failed in any training."""
    return frozenset(
        item
        for parts in by_seed.values()
        for part in parts
        for item, failed in zip(part.graded.items, getattr(part.graded, name), strict=True)
        if failed
    )


def _seeded(seed: int, parts: Sequence[_Part], steps: int, out: Path) -> Seeded:
    before, after = ([grade for part in parts for grade in getattr(part.graded, name)] for name in ("before", "after"))
    return Seeded(
        seed=seed,
        before=sum(before) / len(before),
        after=sum(after) / len(after),
        alarms=tuple(
            Alarmed(alarm, part.training.domain) for part in parts for alarm in alarmed(part.training.folder, steps)
        ),
        reports=tuple((part.training.folder / REPORT).relative_to(out).as_posix() for part in parts),
    )


def _watched(parts: Sequence[_Part], steps: int) -> dict[int, float]:
    """Return the mean over all watched users of all trainings, at the steps that all of them have."""
    seen = [curves(part.training.folder, steps)[1] for part in parts]
    common = [step for step in seen[0] if all(step in one for one in seen)]
    grades = {step: [grade or 0.0 for one in seen for grade in one[step].grades] for step in common}
    return {step: sum(given) / len(given) for step, given in grades.items() if given}


def _change(told: Trainings, items: int, failed: int) -> Change:
    def estimate(found: Interval) -> Estimate:
        return Estimate(found.value, found.low, found.high, items, failed, found.method)

    return Change(estimate(told.users), estimate(told.both))


# ---------------------------------------------------------------- one against another


def _apart(trained: Sequence[Trained]) -> Iterator[Apart]:
    """Yield the distance of the best from the worst under each condition, with intervals that hold for all pairs."""
    for condition in dict.fromkeys(one.condition for one in trained):
        several = [one for one in trained if one.condition == condition and one.whole]
        if len(several) < 2:
            continue
        best = max(several, key=_worth)
        worst = min((one for one in several if one is not best), key=_worth)
        pairs = len(list(combinations(several, 2)))
        told = trainings_difference(best.grades, worst.grades, best.users, level=1 - (1 - _LEVEL) / pairs)
        failed = best.failed | worst.failed
        yield Apart(condition, best.reward, worst.reward, _change(told, len(best.items), len(failed)))


def _worth(one: Trained) -> float:
    return one.after.users.value


# ---------------------------------------------------------------- columns


def columns_of(found: Found) -> list[tuple[Column, dict[str, Estimate]]]:
    """Return for each condition a column of what the policies are worth after training, with their Estimates.

    An item's grade is the mean over seeds; users are those of the benchmark, so that both are resampled together.
    """
    columns = []
    for condition in found.conditions:
        several = [one for one in found.trained if one.condition == condition and one.whole]
        if several:
            columns.append(
                (_column(found.recipe, condition, several), {one.reward: one.after.users for one in several})
            )
    return columns


def _column(recipe: Recipe, condition: str, several: Sequence[Trained]) -> Column:
    source = recipe.benchmark.content_hash
    name = f"{recipe.benchmark.card.name} ppo {condition}"
    plain = column_of_items(
        name, {one.reward: one.grades.mean(axis=0) for one in several}, several[0].users, unit=source
    )
    failed = {one.reward: one.after.users.failed for one in several if one.after.users.failed}
    notes = notes_of(name, {one.reward: one.manifest for one in several})
    return Column(name, plain.scores, plain.items, failed, notes, source, condition)

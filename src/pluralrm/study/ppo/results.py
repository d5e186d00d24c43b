"""What came of a study's trainings: each reward model's policy before and after, over its seeds, with intervals."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pluralrm.core import Benchmark, Estimate
from pluralrm.correlate import Column, column_of_items
from pluralrm.correlate.columns import notes_of
from pluralrm.errors import StudyError
from pluralrm.grading import Grader
from pluralrm.policies.grades import grade_folder, read_grades
from pluralrm.policies.outcomes import OutcomeManifest, find_outcomes, load_outcome
from pluralrm.policies.pool import POOL, load_pool
from pluralrm.stats import Interval
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.intervals import Trainings, trainings, trainings_difference
from pluralrm.study.ppo import Recipe, Training, TrainingCell
from pluralrm.training.job import asker
from pluralrm.training.measures import Alarm, FinalGrades, GradeTable, alarms, grade_change, grade_table
from pluralrm.training.records import HELD_OUT, METRICS, RUN, PpoEvaluation, PpoStep, read_lines, read_run

REPORT = "report.html"


class Places(NamedTuple):
    """Where a training has the answers of the test users before and after, and the Outcome."""

    before: Path
    after: Path
    outcome: Path


class TrainingGrades(NamedTuple):
    """The mean grade of each item's answers before and after, what failed counting 0; and which items had a failure."""

    items: tuple[str, ...]
    users: tuple[str, ...]
    prompts: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    failed_before: tuple[bool, ...]
    failed_after: tuple[bool, ...]
    final: FinalGrades
    """What sets off alarms."""
    manifest: OutcomeManifest
    """Of the Outcome."""


def places(training: Path, *, steps: int, n: int, sub: str = "") -> Places:
    """Return where `train ppo` puts them; `sub` is the folder of the questions."""
    folder = training / sub
    return Places(folder / f"before-{n}", folder / f"after-{steps}-{n}", folder / f"outcome-{steps}-{n}")


def steps_done(folder: Path) -> int:
    """Return how many steps are done and kept; 0 where nothing has begun."""
    return read_run(folder).steps if (folder / RUN).exists() else 0


def check_steps(recipe: Recipe, out: Path, fresh: Collection[str]) -> None:
    """Raise where a training that does not begin anew has more steps than are wanted."""
    goal = recipe.declared.steps
    for training in recipe.trainings(out):
        if (done := steps_done(training.folder)) > goal and not recipe.begins_anew(training, fresh):
            raise StudyError(
                f"[ppo] steps: found {goal}, but {training.folder} is trained for {done:,} already; wanted as "
                f"many or more, or --fresh {training.cell.reward}"
            )


def graded(recipe: Recipe, training: Training, sub: str = "") -> TrainingGrades | None:
    """Return what the grader gave after all steps, to the answers at a place; None where a part of it is missing."""
    folder, grader, steps, n = training.folder, recipe.grader, recipe.declared.steps, recipe.declared.n
    if not (folder / RUN).exists() or (read_run(folder).status, steps_done(folder)) != ("complete", steps):
        return None
    where = places(folder, steps=steps, n=n, sub=sub)
    if not find_outcomes([where.outcome]):
        return None
    outcome = load_outcome(where.outcome)
    before, after = (_pool_table(pool, grader) for pool in where[:2])
    if outcome.manifest.grader != grader.spec or before is None or after is None:
        return None
    users, prompts = tuple(row.cluster for row in outcome.rows), tuple(row.prompt for row in outcome.rows)
    grades = outcome.grades()
    return TrainingGrades(
        items=tuple(row.item for row in outcome.rows),
        users=users,
        prompts=prompts,
        before=tuple(before.means),
        after=tuple(grades),
        failed_before=tuple(before.failed),
        failed_after=tuple(after.failed),
        final=FinalGrades(grade_change(before.means, grades, users, crossed=prompts), before.ungraded, after.ungraded),
        manifest=outcome.manifest,
    )


def is_graded(recipe: Recipe, training: Training) -> bool:
    """Return whether all that the policy is asked is graded, before and after, and in its report."""
    complete = all(graded(recipe, training, questions.place) is not None for questions in recipe.asked(training.domain))
    return complete and (training.folder / REPORT).exists()


def _pool_table(folder: Path, grader: Grader) -> GradeTable | None:
    """Return the grades of a pool; None where an answer or a grade is open."""
    if not POOL.holds(folder):
        return None
    pool = load_pool(folder, incomplete=True)
    if not pool.complete:
        return None
    return grade_table(pool, read_grades(grade_folder(pool, grader)))


def curves(folder: Path, steps: int) -> tuple[dict[int, PpoStep], dict[int, PpoEvaluation]]:
    """Return the lines of a training up to so many steps: those of later ones say nothing of this policy."""
    lines, seen = read_lines(folder / METRICS, PpoStep), read_lines(folder / HELD_OUT, PpoEvaluation)
    return (
        {step: line for step, line in lines.items() if step < steps},
        {step: line for step, line in seen.items() if step <= steps},
    )


def alarmed(folder: Path, steps: int, final: FinalGrades) -> Sequence[Alarm]:
    """Return what has gone off after so many steps, and at the end."""
    return alarms(*curves(folder, steps), final=final)


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
    on: tuple[float, float] | None = None
    """Before and after, of the questions of evaluate-on."""

    @property
    def change(self) -> float:
        """By how much the mean grade changed."""
        return self.after - self.before


class Change(NamedTuple):
    """The mean change: about other users of these trainings, and about other users and trainings."""

    users: Estimate
    both: Estimate


@dataclass(frozen=True)
class Answers:
    """What the policies of all seeds answer to some questions, graded before and after training."""

    manifest: OutcomeManifest
    """Of the first seed's Outcome: what the reward model and the policy were shown is the same for all."""
    before: Estimate
    after: Change
    change: Change
    items: tuple[str, ...]
    users: tuple[str, ...]
    prompts: tuple[str, ...]
    grades: FloatArray
    """(seeds, items): after training."""
    failed: frozenset[str]
    """Items at which an answer or a grade failed after training; it earned nothing there."""


@dataclass(frozen=True)
class PolicyResult(Answers):
    """What a reward model made of a policy under a condition, over its seeds: its answers to the test users.

    `whole` is False where a seed is missing: then it is in no column and in no comparison.
    """

    reward: str
    condition: str
    whole: bool
    seeds: tuple[Seeded, ...]
    watched: Mapping[int, float]
    """The mean grade of the watched users by step, over all seeds; a failed one is 0."""
    on: Answers | None
    """To the questions of the benchmark that `evaluate-on` names."""

    @property
    def shown_rubric(self) -> bool:
        """True for an upper control: the reward model knew what its answers are graded by."""
        return self.manifest.shown_rubric

    @property
    def alarms(self) -> dict[str, list[int]]:
        """The seeds at which each alarm went off, by its name."""
        seeds: dict[str, list[int]] = {}
        for part in self.seeds:
            for name in dict.fromkeys(went.alarm.name for went in part.alarms):
                seeds.setdefault(name, []).append(part.seed)
        return seeds


@dataclass(frozen=True)
class Apart:
    """The best policy of a condition against the worst; both are chosen by looking, and the intervals allow for it."""

    condition: str
    best: str
    worst: str
    difference: Change
    on: str = ""
    """The benchmark whose questions were asked; empty for the test users."""


@dataclass(frozen=True)
class TrainingResults:
    """All that was trained."""

    recipe: Recipe
    trained: tuple[PolicyResult, ...]
    apart: tuple[Apart, ...]

    @property
    def conditions(self) -> list[str]:
        """The conditions under which reward models rewarded, in their order."""
        return list(dict.fromkeys(policy.condition for policy in self.trained))

    def users(self, part: str) -> int:
        """Return how many users a part has: train, validation or test."""
        return len({asker(item) for parts in self.recipe.parts.values() for item in getattr(parts, part)})


def found_of(recipe: Recipe, out: Path) -> TrainingResults:
    """Return what is on disk of the trainings; one that is not whole is not among them."""
    some = [_trained(recipe, cell, out) for cell in recipe.cells if cell.skip is None]
    trained = tuple(policy for policy in some if policy is not None)
    apart = [*_apart([(policy, policy) for policy in trained])]
    if recipe.evaluated is not None:
        name, pairs = recipe.evaluated.card.name, [(policy, policy.on) for policy in trained if policy.on is not None]
        apart += [replace(pair, on=name) for pair in _apart(pairs)]
    return TrainingResults(recipe, trained, tuple(apart))


# ---------------------------------------------------------------- one reward model


class _Part(NamedTuple):
    """A training that is whole, and its grades: of the test users, and of the questions of evaluate-on."""

    training: Training
    graded: tuple[TrainingGrades, ...]


def _trained(recipe: Recipe, cell: TrainingCell, out: Path) -> PolicyResult | None:
    """Return what became of the seeds that are whole; None where none is."""
    steps, by_seed = recipe.declared.steps, dict[int, list[_Part]]()
    for seed in recipe.seeds:
        parts = [_part(recipe, training) for training in recipe.of(cell, seed, out)]
        whole = [part for part in parts if part is not None]
        if len(whole) == len(parts):
            by_seed[seed] = whole
    if not by_seed:
        return None
    test, *on = (
        _answers([[part.graded[index] for part in parts] for parts in by_seed.values()])
        for index in range(1 + bool(recipe.questions))
    )
    return PolicyResult(
        reward=cell.reward,
        condition=cell.condition.spec,
        whole=len(by_seed) == len(recipe.seeds),
        seeds=tuple(_seeded(seed, parts, steps, out) for seed, parts in by_seed.items()),
        watched=_watched([part for parts in by_seed.values() for part in parts], steps),
        on=on[0] if on else None,
        **{part.name: getattr(test, part.name) for part in fields(Answers)},
    )


def _part(recipe: Recipe, training: Training) -> _Part | None:
    """Return a training with its grades; None where any of them is missing."""
    grades = [graded(recipe, training, questions.place) for questions in recipe.asked(training.domain)]
    whole = tuple(grade for grade in grades if grade is not None)
    return _Part(training, whole) if len(whole) == len(grades) else None


def _answers(by_seed: Sequence[Sequence[TrainingGrades]]) -> Answers:
    """Return what came of some questions, from the grades of each seed, domain after domain."""
    before, after = (_table(by_seed, name) for name in ("before", "after"))
    items = tuple(item for part in by_seed[0] for item in part.items)
    users = tuple(user for part in by_seed[0] for user in part.users)
    prompts = tuple(prompt for part in by_seed[0] for prompt in part.prompts)
    early, late = (_failed(by_seed, name) for name in ("failed_before", "failed_after"))
    return Answers(
        manifest=by_seed[0][0].manifest,
        before=_change(trainings(before, users, crossed=prompts), len(items), len(early)).users,
        after=_change(trainings(after, users, crossed=prompts), len(items), len(late)),
        change=_change(trainings_difference(after, before, users, crossed=prompts), len(items), len(early | late)),
        items=items,
        users=users,
        prompts=prompts,
        grades=after,
        failed=late,
    )


def _table(by_seed: Sequence[Sequence[TrainingGrades]], name: str) -> FloatArray:
    """Return the grades, (seeds, items), of the domains one after another."""
    rows = [[grade for part in parts for grade in getattr(part, name)] for parts in by_seed]
    return np.array(rows, dtype=np.float64)


def _failed(by_seed: Sequence[Sequence[TrainingGrades]], name: str) -> frozenset[str]:
    """Return the items at which an answer or a grade failed in any training."""
    return frozenset(
        item
        for parts in by_seed
        for part in parts
        for item, failed in zip(part.items, getattr(part, name), strict=True)
        if failed
    )


def _seeded(seed: int, parts: Sequence[_Part], steps: int, out: Path) -> Seeded:
    def means(index: int) -> tuple[float, float]:
        grades = [part.graded[index] for part in parts]
        before, after = ([grade for row in grades for grade in getattr(row, name)] for name in ("before", "after"))
        return sum(before) / len(before), sum(after) / len(after)

    before, after = means(0)
    return Seeded(
        seed=seed,
        before=before,
        after=after,
        on=means(1) if len(parts[0].graded) > 1 else None,
        alarms=tuple(
            Alarmed(alarm, part.training.domain)
            for part in parts
            for alarm in alarmed(part.training.folder, steps, part.graded[0].final)
        ),
        reports=tuple((part.training.folder / REPORT).relative_to(out).as_posix() for part in parts),
    )


def _watched(parts: Sequence[_Part], steps: int) -> dict[int, float]:
    """Return the mean over all watched users of all trainings, at the steps that all of them have."""
    seen = [curves(part.training.folder, steps)[1] for part in parts]
    common = [step for step in seen[0] if all(step in line for line in seen)]
    grades = {step: [grade or 0.0 for line in seen for grade in line[step].grades] for step in common}
    return {step: sum(values) / len(values) for step, values in grades.items() if values}


def _change(change: Trainings, items: int, failed: int) -> Change:
    def estimate(interval: Interval) -> Estimate:
        return Estimate(interval.value, interval.low, interval.high, items, failed, interval.method)

    return Change(estimate(change.users), estimate(change.both))


# ---------------------------------------------------------------- one against another


def _apart(answered: Sequence[tuple[PolicyResult, Answers]]) -> Iterator[Apart]:
    """Yield the distance of the best from the worst under each condition, with intervals that hold for all pairs."""
    for condition in dict.fromkeys(row.condition for row, _ in answered):
        several = {row.reward: answers for row, answers in answered if row.condition == condition and row.whole}
        if len(several) < 2:
            continue
        best = max(several, key=lambda name: several[name].after.users.value)
        worst = min((name for name in several if name != best), key=lambda name: several[name].after.users.value)
        pairs, (top, other) = len(list(combinations(several, 2))), (several[best], several[worst])
        level = 1 - (1 - _LEVEL) / pairs
        estimate = trainings_difference(top.grades, other.grades, top.users, crossed=top.prompts, level=level)
        yield Apart(condition, best, worst, _change(estimate, len(top.items), len(top.failed | other.failed)))


# ---------------------------------------------------------------- columns


def columns_of(results: TrainingResults) -> list[tuple[Column, dict[str, Estimate]]]:
    """Return for each condition a column of what the policies are worth after training, with their Estimates.

    One of the test users and, with evaluate-on, one of that benchmark's questions. An item's grade is the mean over
    seeds; users are those of the benchmark, so that both are resampled together.
    """
    columns, recipe = [], results.recipe
    trained_on, evaluated = recipe.benchmark.card.name, recipe.evaluated
    for condition in results.conditions:
        several = [row for row in results.trained if row.condition == condition and row.whole]
        if several:
            test = {row.reward: row for row in several}
            columns.append(_column(f"{trained_on} ppo {condition}", recipe.benchmark, condition, test))
        if evaluated is not None and (answers := {row.reward: row.on for row in several if row.on is not None}):
            name = f"{trained_on} ppo on {evaluated.card.name} {condition}"
            columns.append(_column(name, evaluated, condition, answers))
    return columns


def _column(
    name: str, benchmark: Benchmark, condition: str, several: Mapping[str, Answers]
) -> tuple[Column, dict[str, Estimate]]:
    source, first = benchmark.content_hash, next(iter(several.values()))
    grades = {reward: answers.grades.mean(axis=0) for reward, answers in several.items()}
    plain = column_of_items(name, grades, first.users, crossed=first.prompts, unit=source)
    estimates = {reward: answers.after.users for reward, answers in several.items()}
    failed = {reward: estimate.failed for reward, estimate in estimates.items() if estimate.failed}
    notes = notes_of(name, {reward: answers.manifest for reward, answers in several.items()})
    return Column(name, plain.scores, plain.items, failed, notes, source, condition), estimates

"""What a training left on disk: how far it is, what it was graded, what looks wrong. Nothing here needs torch."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from pluralrm.core import Failure
from pluralrm.errors import StudyError
from pluralrm.grading import Grader
from pluralrm.policies.grades import grade_folder, key, read_grades
from pluralrm.policies.outcomes import OutcomeManifest, find_outcomes, load_outcome
from pluralrm.policies.pool import POOL, load_pool
from pluralrm.study.ppo.recipe import Recipe, Training
from pluralrm.training.alarms import Alarm, FinalGrades, Ungraded, alarms
from pluralrm.training.measures import grade_change
from pluralrm.training.records import HELD_OUT, METRICS, RUN, PpoEvaluation, PpoStep, read_lines, read_run

REPORT = "report.html"


class Places(NamedTuple):
    """Where a training has the answers of the test users before and after, and the Outcome."""

    before: Path
    after: Path
    outcome: Path


class Graded(NamedTuple):
    """The mean grade of each item's answers before and after, what failed counting 0; and which items had a failure."""

    items: tuple[str, ...]
    users: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    failed_before: tuple[bool, ...]
    failed_after: tuple[bool, ...]
    final: FinalGrades
    """What sets off alarms."""
    manifest: OutcomeManifest
    """Of the Outcome."""


def places(training: Path, *, steps: int, n: int, place: str = "") -> Places:
    """Return where `train ppo` puts them; `place` is that of the questions."""
    folder = training / place
    return Places(folder / f"before-{n}", folder / f"after-{steps}-{n}", folder / f"outcome-{steps}-{n}")


def steps_done(folder: Path) -> int:
    """Return how many steps are done and kept; 0 where nothing has begun."""
    return read_run(folder).steps if (folder / RUN).exists() else 0


def check_steps(recipe: Recipe, out: Path, fresh: Collection[str]) -> None:
    """Raise where a training that does not begin anew has more steps than are wanted."""
    wanted = recipe.declared.steps
    for training in recipe.trainings(out):
        if (done := steps_done(training.folder)) > wanted and not recipe.begins_anew(training, fresh):
            raise StudyError(
                f"[ppo] steps: found {wanted}, but {training.folder} is trained for {done:,} already; wanted as "
                f"many or more, or --fresh {training.cell.reward}"
            )


def graded(recipe: Recipe, training: Training, place: str = "") -> Graded | None:
    """Return what the grader gave after all steps, to the answers at a place; None where a part of it is missing."""
    folder, grader, steps, n = training.folder, recipe.grader, recipe.declared.steps, recipe.declared.n
    if not (folder / RUN).exists() or (read_run(folder).status, steps_done(folder)) != ("complete", steps):
        return None
    where = places(folder, steps=steps, n=n, place=place)
    if not find_outcomes([where.outcome]):
        return None
    outcome = load_outcome(where.outcome)
    before, after = (_table(pool, grader) for pool in where[:2])
    if outcome.manifest.grader != grader.spec or before is None or after is None:
        return None
    users, grades = tuple(row.cluster for row in outcome.rows), outcome.grades()
    return Graded(
        items=tuple(row.item for row in outcome.rows),
        users=users,
        before=tuple(before.means),
        after=tuple(grades),
        failed_before=tuple(before.failed),
        failed_after=tuple(after.failed),
        final=FinalGrades(grade_change(before.means, grades, users), before.ungraded, after.ungraded),
        manifest=outcome.manifest,
    )


def is_graded(recipe: Recipe, training: Training) -> bool:
    """Return whether all that the policy is asked is graded, before and after, and in its report."""
    told = all(graded(recipe, training, asked.place) is not None for asked in recipe.asked(training.domain))
    return told and (training.folder / REPORT).exists()


class _Table(NamedTuple):
    """The mean grade of each item's answers, whether any failed, and what failed of all."""

    means: list[float]
    failed: list[bool]
    ungraded: Ungraded


def _table(folder: Path, grader: Grader) -> _Table | None:
    """Return the grades of a pool; None where an answer or a grade is open."""
    if not POOL.holds(folder):
        return None
    pool = load_pool(folder, incomplete=True)
    if not pool.complete:
        return None
    grades, means, failed, failures = read_grades(grade_folder(pool, grader)), [], [], Counter[str]()
    for item, samples in pool.samples.items():
        worths = [one.failure or grades.get(key(item, one.text)) for one in samples]
        if None in worths:
            return None
        known = [worth for worth in worths if isinstance(worth, float)]
        failures.update(worth.kind for worth in worths if isinstance(worth, Failure))
        means.append(sum(known) / len(worths))
        failed.append(len(known) < len(worths))
    return _Table(means, failed, Ungraded(sum(map(len, pool.samples.values())), dict(sorted(failures.items()))))


def curves(folder: Path, steps: int) -> tuple[dict[int, PpoStep], dict[int, PpoEvaluation]]:
    """Return the lines of a training up to so many steps: those of later ones say nothing of this policy."""
    lines, seen = read_lines(folder / METRICS, PpoStep), read_lines(folder / HELD_OUT, PpoEvaluation)
    return (
        {step: one for step, one in lines.items() if step < steps},
        {step: one for step, one in seen.items() if step <= steps},
    )


def alarmed(folder: Path, steps: int, final: FinalGrades) -> Sequence[Alarm]:
    """Return what has gone off after so many steps, and at the end."""
    return alarms(*curves(folder, steps), final=final)

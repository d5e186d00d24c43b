"""What a training did to a policy: the test users are asked before and after, graded by another model, as an Outcome.

OUT/before-N, OUT/after-STEPS-N  pools of the test users' items, N answers each, by the path of `sample`, same seeds
OUT/outcome-STEPS-N              rows as best-of-N's, at k = 1
OUT/on-BENCHMARK-HASH/...        the same three of another benchmark's questions
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pluralrm.core import Benchmark, Estimate, Failure, Item, Row, digest
from pluralrm.display import brief
from pluralrm.errors import OutageError, SpecError
from pluralrm.grading import Grade, Grader
from pluralrm.journal import provenance
from pluralrm.metrics.estimates import written_pairs
from pluralrm.models.neural.loading import LoadSettings
from pluralrm.models.neural.loading import settings as loading_settings
from pluralrm.policies.generate import open_network
from pluralrm.policies.grades import Key, grade_folder, grade_pool, key, read_grades
from pluralrm.policies.local import LocalPolicy
from pluralrm.policies.outcomes import OutcomeManifest, write_outcome
from pluralrm.policies.policy import Draw, Policy, load_policy, parse_policy
from pluralrm.policies.pool import Pool, items_of
from pluralrm.policies.sample import sample
from pluralrm.runs import Progress
from pluralrm.specs import Spec
from pluralrm.stats import cluster_means, difference_interval, share_interval
from pluralrm.stats.intervals import Interval
from pluralrm.training.folder import FinishedTraining
from pluralrm.training.job import TrainingJob
from pluralrm.training.measures import FinalGrades, Ungraded
from pluralrm.training.prompts import Questions
from pluralrm.training.records import EvaluationLine, StepLine, TrainingManifest, read_run
from pluralrm.training.rollout import threads_for

_TOP_P = 1.0
"""As in training: the policy that is asked is the policy that was trained."""


class TrainingOutcome(NamedTuple):
    """Mean grades of the answers to some questions before and after, and the change; a failed grade earned nothing."""

    before: Estimate
    after: Estimate
    change: Estimate
    folder: Path
    final: FinalGrades

    def __repr__(self) -> str:
        return brief(self)


class GradedTraining(NamedTuple):
    """A training that is over; `result` is None without a grader, `on` where no other questions were asked."""

    domain: str
    trained: FinishedTraining[StepLine, EvaluationLine]
    result: TrainingOutcome | None
    on: tuple[Questions, TrainingOutcome] | None = None

    def __repr__(self) -> str:
        return brief(self)


def outcome(
    job: TrainingJob,
    trained: FinishedTraining[StepLine, EvaluationLine],
    grader: Grader,
    *,
    n: int = 1,
    of: Questions | None = None,
    tell: Callable[[Progress], None] | None = None,
) -> TrainingOutcome:
    """Return what the training did to the answers to some questions, those of the test users by default.

    What is on disk is neither drawn nor graded again.
    """
    asked = of or job.questions()
    bench, place = replace(asked.benchmark, items=asked.items, content_hash=""), trained.folder / asked.place
    draw = Draw(
        n=n, temperature=job.settings.temperature, top_p=_TOP_P, max_tokens=job.settings.max_tokens, seed=job.seed
    )
    when, before = f"{max(trained.steps) + 1}-{n}", _as_trained(job.policy)
    after = _as_trained(load_policy(_named(job.policy.spec, trained.policy)))
    with threads_for(job.policy.folder):
        before_pool = sample(bench, before, job.condition, out=place / f"before-{n}", draw=draw)
        after_pool = sample(bench, after, job.condition, out=place / f"after-{when}", draw=draw)
    tables = [_table(pool, bench, _graded(pool, bench, grader, tell)) for pool in (before_pool, after_pool)]
    manifest = _manifest(job, asked, read_run(trained.folder), grader=grader, pool=after_pool, table=tables[1])
    folder = place / f"outcome-{when}"
    write_outcome(folder, manifest, _rows(after_pool, bench, tables[1].means))
    return _result(items_of(after_pool, bench), tables, folder)


def _named(spec: str, folder: Path) -> str:
    """Return the policy's spec with another folder: dtype, template and the like stay."""
    return str(replace(parse_policy(spec), target=str(folder)))


def held_in_training(policy: Spec) -> LoadSettings:
    """Return how weights are loaded: in full precision, where the policy's spec names no other."""
    how = loading_settings(policy)
    return replace(how, dtype=how.dtype or "float32")


def _as_trained(policy: Policy) -> Policy:
    """Return the policy with weights as they are held in training.

    On a GPU they would be opened as they are stored: before the training rounded, perhaps, and after it not.
    """
    if not isinstance(policy, LocalPolicy):
        raise SpecError(f"{policy.spec}: its weights are not here; wanted lm:FOLDER")
    how = held_in_training(parse_policy(policy.spec))
    return replace(policy, network=cache(lambda: open_network(policy.folder, how)))


def _graded(
    pool: Pool, bench: Benchmark, grader: Grader, tell: Callable[[Progress], None] | None
) -> Mapping[Key, Grade]:
    done = grade_pool(pool, bench, grader, progress=tell)
    if done.open:
        raise OutageError(f"{grader.spec}: {done.open} of {done.total} answers have no grade yet; ask again")
    return read_grades(grade_folder(pool, grader))


class _Table(NamedTuple):
    """The mean grade of each item's answers, whether an answer or a grade of it failed, and what failed of all."""

    means: list[float]
    failed: list[bool]
    ungraded: Ungraded


def _table(pool: Pool, bench: Benchmark, grades: Mapping[Key, Grade]) -> _Table:
    means, failed, failures = [], [], Counter[str]()
    for item in items_of(pool, bench):
        worths: list[Grade] = [one.failure or grades[key(item.id, one.text)] for one in pool.samples[item.id]]
        failures.update(worth.kind for worth in worths if isinstance(worth, Failure))
        failed.append(any(isinstance(worth, Failure) for worth in worths))
        means.append(sum(0.0 if isinstance(worth, Failure) else worth for worth in worths) / len(worths))
    return _Table(means, failed, Ungraded(sum(map(len, pool.samples.values())), dict(sorted(failures.items()))))


def _result(items: Sequence[Item], tables: Sequence[_Table], folder: Path) -> TrainingOutcome:
    before, after = tables
    values = list(zip(before.means, after.means, strict=True))
    means = cluster_means(values, [item.cluster for item in items])
    either = [one or other for one, other in zip(before.failed, after.failed, strict=True)]

    def told(found: Interval, failed: Sequence[bool]) -> Estimate:
        return Estimate(found.value, found.low, found.high, len(items), sum(failed), found.method)

    change = told(difference_interval(means, 1, 0), either)
    return TrainingOutcome(
        told(share_interval(means, 0), before.failed),
        told(share_interval(means, 1), after.failed),
        change,
        folder,
        FinalGrades(change, before.ungraded, after.ungraded),
    )


def _manifest(
    job: TrainingJob, of: Questions, run: TrainingManifest, *, grader: Grader, pool: Pool, table: _Table
) -> OutcomeManifest:
    # By its weights: folders are written anew, and copied. Rewards on other scales are another experiment.
    shown = {name: fact for name, fact in run.identity.items() if name.startswith(("policy ", "condition "))}
    # The users who are kept for the end are part of a training; other questions are named beside it.
    asked = [shown, run.benchmark.content_hash, run.condition, run.parts.train, run.parts.test]
    asked += [of.benchmark.content_hash, [item.id for item in of.items]] if of.place else []
    reveals = frozenset(run.reveals)
    common = [*asked, run.settings, job.shaping.way, run.seed, run.steps, pool.n]
    return OutcomeManifest.model_validate(
        {
            "kind": run.kind,
            "way": "trained",
            "model": run.reward,
            "condition": run.reward_condition,
            "shown_rubric": run.shown_rubric,
            "pairs": written_pairs(job.benchmark.card, frozenset(run.reward_reveals)),
            "policy_pairs": written_pairs(of.benchmark.card, reveals) or written_pairs(job.benchmark.card, reveals),
            "policy": pool.policy,
            "policy_condition": pool.condition,
            "pool_hash": digest(common),
            "grader": grader.spec,
            "benchmark": of.benchmark.card.name,
            "benchmark_hash": of.benchmark.content_hash,
            "average": "micro",
            "ks": [1],
            "items": len(pool.samples),
            "failed": sum(table.failed),
            "failures": table.ungraded.failures,
            **provenance(),
        }
    )


def _rows(pool: Pool, bench: Benchmark, means: Sequence[float]) -> Iterator[Row]:
    for item, mean in zip(items_of(pool, bench), means, strict=True):
        samples = pool.samples[item.id]
        yield Row(
            item=item.id,
            cluster=item.cluster,
            domain=item.domain,
            preferred=0,
            scores=(mean,),
            candidate_ids=("trained",),
            lengths=(round(sum(len(one.text) for one in samples) / len(samples)),),
            tags=item.tags,
            prompt=item.crossed,
        )

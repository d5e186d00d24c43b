"""What a training did to a policy: the test users are asked before and after, graded by another model, as an Outcome;
and its curves as one HTML file: what was given, how far the policy went, what looks wrong.

OUT/before-N, OUT/after-STEPS-N  pools of the test users' items, N answers each, by the path of `sample`, same seeds
OUT/outcome-STEPS-N              rows as best-of-N's, at k = 1
OUT/on-BENCHMARK-HASH/...        the same three of another benchmark's questions
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.core import Benchmark, Estimate, Item, Row
from pluralrm.digests import digest
from pluralrm.display import brief
from pluralrm.errors import MissingExtraError, OutageError, RunError, SpecError
from pluralrm.files import replace_file
from pluralrm.grading import Grader
from pluralrm.journal import provenance
from pluralrm.metrics.estimates import written_pairs
from pluralrm.pages import Figure, PageTable, columns, render
from pluralrm.pages.lines import PlotLine, line_plot
from pluralrm.pages.plots import Dot, Plot
from pluralrm.policies.grades import grade_folder, grade_pool, read_grades
from pluralrm.policies.outcomes import OutcomeManifest, write_outcome
from pluralrm.policies.policy import Draw, Policy, load_policy, parse_policy
from pluralrm.policies.pool import Pool, items_of
from pluralrm.policies.sample import sample
from pluralrm.runs import Progress
from pluralrm.specs import Spec, short_names
from pluralrm.stats import cluster_means, difference_interval, share_interval
from pluralrm.stats.intervals import Interval
from pluralrm.text import counted, difference, estimated, listed
from pluralrm.training.job import Questions, TrainingJob
from pluralrm.training.measures import (
    Alarm,
    Changes,
    FinalGrades,
    FinishedTraining,
    GradeTable,
    Thresholds,
    alarms,
    grade_table,
    held_out_changes,
    mean,
)
from pluralrm.training.records import Algorithm, EvaluationLine, StepLine, TrainingManifest, read_run

if TYPE_CHECKING:
    from pluralrm.models.neural.loading import LoadSettings

PAGE = "report.html"
"""The page of a training, in its folder."""
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
    progress: Callable[[Progress], None] | None = None,
) -> TrainingOutcome:
    """Return what the training did to the answers to some questions, those of the test users by default.

    What is on disk is neither drawn nor graded again.
    """
    from pluralrm.training.rollout import threads_for  # torch: the page of a training is written without

    target = of or job.questions()
    bench, root = replace(target.benchmark, items=target.items, content_hash=""), trained.folder / target.place
    draw = Draw(
        n=n, temperature=job.settings.temperature, top_p=_TOP_P, max_tokens=job.settings.max_tokens, seed=job.seed
    )
    when, before = f"{max(trained.steps) + 1}-{n}", _as_trained(job.policy)
    after = _as_trained(load_policy(_trained_spec(job.policy.spec, trained.policy)))
    with threads_for(job.policy.folder):
        before_pool = sample(bench, before, job.condition, out=root / f"before-{n}", draw=draw)
        after_pool = sample(bench, after, job.condition, out=root / f"after-{when}", draw=draw)
    tables = [_graded(pool, bench, grader, progress) for pool in (before_pool, after_pool)]
    manifest = _manifest(job, target, read_run(trained.folder), grader=grader, pool=after_pool, table=tables[1])
    folder = root / f"outcome-{when}"
    write_outcome(folder, manifest, _rows(after_pool, bench, tables[1].means))
    return _result(items_of(after_pool, bench), tables, folder)


def trainer(algorithm: Algorithm) -> Callable[..., FinishedTraining[StepLine, EvaluationLine]]:
    """Return what trains by an algorithm; MissingExtraError where a library of it is not installed."""
    try:
        train: Callable[..., FinishedTraining[StepLine, EvaluationLine]]
        train = import_module(f"pluralrm.training.{algorithm}").train
    except ImportError as exc:
        if (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError(f"pluralrm train {algorithm}", algorithm) from exc
    return train


def graded(
    job: TrainingJob,
    done: FinishedTraining[StepLine, EvaluationLine],
    *,
    n: int = 1,
    questions: Questions | None = None,
    grade: Callable[..., TrainingOutcome] = outcome,
) -> GradedTraining:
    """Return a training with its grades, where there is a grader, and with its page written."""
    result, on = None, None
    if job.grader is not None:
        result = grade(job, done, job.grader, n=n)
        done = done.after(result.final)
        on = questions and (questions, grade(job, done, job.grader, n=n, of=questions))
    page = report_page(read_run(done.folder), done.steps, done.evaluations, final=done.final)
    try:
        replace_file(done.folder / PAGE, page)
    except OSError as exc:
        raise RunError(
            f"cannot write {str(done.folder / PAGE)!r}: {exc}. Make room; the same command writes it"
        ) from exc
    return GradedTraining(job.domains[0] if len(job.domains) == 1 else "", done, result, on)


def _trained_spec(spec: str, folder: Path) -> str:
    """Return the policy's spec with another folder: dtype, template and the like stay."""
    return str(replace(parse_policy(spec), target=str(folder)))


def held_in_training(policy: Spec) -> "LoadSettings":
    """Return how weights are loaded: in full precision, where the policy's spec names no other."""
    from pluralrm.models.neural.loading import settings

    how = settings(policy)
    return replace(how, dtype=how.dtype or "float32")


def _as_trained(policy: Policy) -> Policy:
    """Return the policy with weights as they are held in training.

    On a GPU they would be opened as they are stored: before the training rounded, perhaps, and after it not.
    """
    from pluralrm.policies.local import LocalPolicy, open_network

    if not isinstance(policy, LocalPolicy):
        raise SpecError(f"{policy.spec}: its weights are not here; wanted lm:FOLDER")
    how = held_in_training(parse_policy(policy.spec))
    return replace(policy, network=cache(lambda: open_network(policy.folder, how)))


def _graded(pool: Pool, bench: Benchmark, grader: Grader, progress: Callable[[Progress], None] | None) -> GradeTable:
    done = grade_pool(pool, bench, grader, progress=progress)
    table = None if done.open else grade_table(pool, read_grades(grade_folder(pool, grader)))
    if table is None:
        raise OutageError(f"{grader.spec}: {done.open} of {done.total} answers have no grade yet; ask again")
    return table


def _result(items: Sequence[Item], tables: Sequence[GradeTable], folder: Path) -> TrainingOutcome:
    before, after = tables
    values = list(zip(before.means, after.means, strict=True))
    means = cluster_means(values, [item.cluster for item in items], crossed=[item.crossed for item in items])
    either = [first or other for first, other in zip(before.failed, after.failed, strict=True)]

    def estimate(interval: Interval, failed: Sequence[bool]) -> Estimate:
        return Estimate(interval.value, interval.low, interval.high, len(items), sum(failed), interval.method)

    change = estimate(difference_interval(means, 1, 0), either)
    return TrainingOutcome(
        estimate(share_interval(means, 0), before.failed),
        estimate(share_interval(means, 1), after.failed),
        change,
        folder,
        FinalGrades(change, before.ungraded, after.ungraded),
    )


def _manifest(
    job: TrainingJob, of: Questions, run: TrainingManifest, *, grader: Grader, pool: Pool, table: GradeTable
) -> OutcomeManifest:
    # By its weights: folders are written anew, and copied. Rewards on other scales are another experiment.
    facts = {name: fact for name, fact in run.identity.items() if name.startswith(("policy ", "condition "))}
    # The users who are kept for the end are part of a training; other questions are named beside it.
    key = [facts, run.benchmark.content_hash, run.condition, run.parts.train, run.parts.test]
    key += [of.benchmark.content_hash, [item.id for item in of.items]] if of.place else []
    reveals = frozenset(run.reveals)
    common = [*key, run.settings, job.shaping.way, run.seed, run.steps, pool.n]
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
    for item, average in zip(items_of(pool, bench), means, strict=True):
        samples = pool.samples[item.id]
        yield Row(
            item=item.id,
            cluster=item.cluster,
            domain=item.domain,
            preferred=0,
            scores=(average,),
            candidate_ids=("trained",),
            lengths=(round(sum(len(sample.text) for sample in samples) / len(samples)),),
            tags=item.tags,
            prompt=item.crossed,
        )


_POINTS = 60
"""Of a curve at most: each is the mean of as many steps as it takes."""


class StepCurve(NamedTuple):
    """What of each step's line is drawn, and how it is called."""

    name: str
    title: str
    unit: str


_Curve = tuple[StepCurve, Mapping[int, float]]
_CURVES: Mapping[Algorithm, Sequence[StepCurve]] = {
    "ppo": (
        StepCurve("reward", "Reward of the training answers", "as the model gives it"),
        StepCurve("kl", "KL from the reference", "nats per answer"),
        StepCurve("entropy", "Entropy", "nats per token"),
        StepCurve("clip_fraction", "Clipped tokens", "share"),
        StepCurve("value_loss", "Value loss", "of the critic"),
        StepCurve("length", "Length", "tokens per answer"),
    ),
    "grpo": (
        StepCurve("reward", "Reward of the training answers", "as the model gives it"),
        StepCurve("groups_alike", "Groups alike", "share of answers whose group had one reward"),
        StepCurve("kl", "KL from the policy as it was", "nats per token"),
        StepCurve("entropy", "Entropy", "nats per token"),
        StepCurve("clip_fraction", "Clipped tokens", "share"),
        StepCurve("length", "Length", "tokens per answer"),
    ),
}


def report_page(
    run: TrainingManifest,
    steps: Mapping[int, StepLine],
    evaluations: Mapping[int, EvaluationLine],
    *,
    final: FinalGrades | None = None,
) -> str:
    """Return the page; equal lines give equal bytes."""
    curves = [*_held_out(evaluations), *_of_steps(list(steps.values()), _CURVES[run.kind])]
    plots = [_plot(*curve) for curve in curves]
    warnings = alarms(steps, evaluations, final=final)
    settings = [(name, str(value)) for name, value in sorted(run.settings.items())]
    caption = f"What was chosen, and the defaults; rewards are {run.shaping}, seed {run.seed}."
    return render(
        "pluralrm.training",
        "training.html.jinja",
        title=" trained by ".join(short_names([spec])[spec] for spec in (run.policy, run.reward)),
        run=run,
        alarms=warnings,
        told=_answer(run, warnings, held_out_changes(list(evaluations.values())), final),
        thresholds=Thresholds()._asdict(),
        figures=[Figure(plot, plot.words) for plot in plots],
        changes=_changes(list(evaluations.values())),
        numbers=_numbers(curves),
        settings=PageTable("Settings of the training", columns("setting", "value"), settings, caption, "sorts"),
    ).html


def _answer(run: TrainingManifest, warnings: Sequence[Alarm], watched: Changes, final: FinalGrades | None) -> str:
    """Return what the training made of the policy, and which alarms went off."""
    names = listed(list(dict.fromkeys(alarm.name for alarm in warnings)), most=9)
    head = f"{counted(len(warnings), 'alarm')} ({names})" if warnings else "No alarm at the last step"
    grade, whose = watched.grades, "watched users"
    if final is not None and final.change is not None:
        grade, whose = final.change, "test users"
    changes = [f"the grade of the {whose} changed by {difference(grade)} points"] if grade is not None else []
    if watched.rewards is not None:
        verb = "" if changes else "changed "
        changes.append(f"the reward of the watched users {verb}by {estimated(watched.rewards, times=1, places=2)}")
    return f"{head}: {' and '.join(changes)} in {counted(run.steps, 'step')}." if changes else f"{head}."


def _numbers(curves: Sequence[_Curve]) -> PageTable:
    """Return what the curves are drawn from, a row per step that any of them has."""
    steps = sorted({step for _, points in curves for step in points})
    return PageTable(
        "The numbers of the curves",
        columns("step", *(curve.title for curve, _ in curves), look="n"),
        [(str(step), *(f"{points[step]:.4g}" if step in points else "–" for _, points in curves)) for step in steps],
        f"Each row is the mean of the steps up to it, {_POINTS} rows at most",
        "sorts",
    )


def _of_steps(steps: Sequence[StepLine], curves: Sequence[StepCurve]) -> list[_Curve]:
    if not steps:
        return []
    size = -(-len(steps) // _POINTS)
    parts = [steps[first : first + size] for first in range(0, len(steps), size)]
    drawn: list[_Curve] = []
    for curve in curves:
        points = {part[-1].step: mean(values) for part in parts if (values := _values(part, curve.name))}
        drawn += [(curve, points)] if points else []
    return drawn


def _values(steps: Sequence[StepLine], name: str) -> list[float]:
    """Return a number of each step that has it."""
    return [value for step in steps if (value := getattr(step, name)) is not None]


def _held_out(evaluations: Mapping[int, EvaluationLine]) -> list[_Curve]:
    finite = {step: [value for value in line.rewards if value is not None] for step, line in evaluations.items()}
    rewards = {step: mean(values) for step, values in finite.items() if values}
    curves: list[_Curve] = (
        [(StepCurve("rewards", "Held-out reward", "mean over validation items"), rewards)] if rewards else []
    )
    if any(grade is not None for evaluation in evaluations.values() for grade in evaluation.grades):
        grades = {step: mean([grade or 0.0 for grade in line.grades]) for step, line in evaluations.items()}
        curves.append((StepCurve("grades", "Held-out grade", "mean over items, a failed one being 0"), grades))
    return curves


def _plot(curve: StepCurve, points: Mapping[int, float]) -> Plot:
    name, title, unit = curve
    last = max(points)
    words = f"{title}, {unit}: {points[min(points)]:.3g} at step {min(points)}, {points[last]:.3g} at step {last}."
    line = PlotLine(title, {float(step): Dot(value) for step, value in points.items()})
    return line_plot(name, [line], title=title, words=words, labels=("step", ""))


def _changes(evaluations: Sequence[EvaluationLine]) -> list[tuple[str, str]]:
    """Return how reward and grade of the validation users changed from the first evaluation to the last."""
    changes = held_out_changes(evaluations)._asdict()
    return [(name, str(change)) for name, change in changes.items() if change is not None]

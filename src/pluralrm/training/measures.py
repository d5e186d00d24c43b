"""What is counted of answers, apart from any reward, and alarms on it: what looks like a hacked reward; its result.

Each alarm says its numbers and its threshold.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.core import Estimate, Failure
from pluralrm.display import brief
from pluralrm.grading import Grade
from pluralrm.policies.grades import MOST_UNGRADED, Key, key, ungraded_message
from pluralrm.policies.policy import parse_policy
from pluralrm.policies.pool import Pool
from pluralrm.stats import cluster_means, difference_interval, spread
from pluralrm.stats.intervals import counts, robust, t_quantile
from pluralrm.stats.ranking import two_sample_test
from pluralrm.training.records import (
    POLICY,
    Errors,
    Evaluation,
    EvaluationLine,
    Step,
    StepLine,
    TrainingFolder,
    UserMeans,
    read_run,
)

_GRAM = 4


def repetition(ids: Sequence[int]) -> float:
    """Return the share of an answer's runs of four tokens that were there before; 0 where it has none.

    >>> round(repetition([1, 2, 3, 4, 1, 2, 3, 4]), 3)
    0.2
    """
    grams = [tuple(ids[start : start + _GRAM]) for start in range(len(ids) - _GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def mean(values: Sequence[float]) -> float:
    """Return the mean, of at least one value."""
    return sum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation (n - 1); exactly 0 where all values are one."""
    if min(values) == max(values):  # their mean may be rounded: six times 0.7 would deviate by 1e-16
        return 0.0
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))


_FEWEST = 2 - 1e-9
"""Users, below whom there is no error; equal shares of 0.5 may be rounded."""
_LARGEST = 700.0
"""Logarithm of a ratio: that of more is no float."""
Measure = Literal["length", "repetition", "cut", "masked"]


class Drift(NamedTuple):
    """A measure at first and in the last steps, and the distance between the two: their ratio for `length`."""

    first: float
    last: float
    distance: float
    low: float
    high: float
    answers: tuple[int, int]
    """How many it rests on, at first and last."""


def errors_of(measured: Mapping[str, ArrayLike], users: Sequence[str]) -> Errors | None:
    """Return the standard error of each mean over answers; None where they are to fewer than two users."""
    means = cluster_means(np.array(list(measured.values())).T, users)
    if means.effective_clusters(0) < _FEWEST:
        return None
    errors = {name: math.sqrt(spread(means, index).variance) for index, name in enumerate(measured)}
    return Errors(users=float(means.effective_clusters(0)), **errors)


def means_by_user(measured: Mapping[str, Sequence[float]], users: Sequence[str]) -> UserMeans:
    """Return what each user's answers measure on average, users in the order in which they come."""
    names = list(dict.fromkeys(users))
    return UserMeans(
        users=tuple(names),
        **{
            name: tuple(
                mean([value for value, user in zip(values, users, strict=True) if user == name]) for name in names
            )
            for name, values in measured.items()
        },
    )


def equality_p(first: StepLine, last: Sequence[StepLine], name: Measure) -> float | None:
    """Return the p that the first step's users and those of the last steps have answers of one distribution.

    Users are permuted between the two, each with the mean of her answers, so that no shape of the distribution is
    assumed: with short and long answers and none between, an interval by Student's t is too narrow. None where a line
    does not tell its users.
    """
    parts = [step.by_user for step in (first, *last) if step.by_user is not None]
    if len(parts) <= len(last):
        return None
    later = defaultdict[str, list[float]](list)
    for part in parts[1:]:
        for user, value in zip(part.users, getattr(part, name), strict=True):
            later[user].append(value)
    return two_sample_test(getattr(parts[0], name), [mean(values) for values in later.values()]).p


def drift(first: StepLine, last: Sequence[StepLine], name: Measure, *, level: float = 0.95) -> Drift | None:
    """Return how far the last steps are from the first; None where no step has two users, or tells its errors."""
    usable = [step for step in last if step.errors is not None]
    if not usable or first.errors is None:
        return None
    before, now = value_of(first, name), mean([value_of(step, name) for step in usable])
    ratio = name == "length"
    apart = math.log(now / before) if ratio else now - before
    per_step = mean([_variance(step, name, ratio=ratio) for step in usable])
    users = first.errors.users
    at_first = max(_variance(first, name, ratio=ratio), per_step, (apart / users) ** 2)
    at_last = per_step / len(usable)
    later = sum(step.errors.users - 1 for step in usable if step.errors is not None)
    half = _quantile([(at_first, users - 1), (at_last, later)], level) * math.sqrt(at_first + at_last)
    ends = apart - half, apart + half
    distance, low, high = (math.exp(min(end, _LARGEST)) for end in (apart, *ends)) if ratio else (apart, *ends)
    return Drift(before, now, distance, low, high, (first.answers, sum(step.answers for step in usable)))


def value_of(step: StepLine, name: Measure) -> float:
    """Return a step's mean over its answers."""
    return step.masked / step.answers if name == "masked" else float(getattr(step, name))


def _variance(step: StepLine, name: Measure, *, ratio: bool) -> float:
    """Return the variance of a step's mean, or of its logarithm (by the delta method)."""
    error = 0.0 if step.errors is None else float(getattr(step.errors, name))
    return (error / value_of(step, name) if ratio else error) ** 2


def _quantile(parts: Sequence[tuple[float, float]], level: float) -> float:
    """Return Student's quantile for a sum of variances, each with its degrees of freedom (Satterthwaite 1946)."""
    total = sum(variance for variance, _ in parts)
    squares = sum(variance**2 / df for variance, df in parts)
    return t_quantile(total**2 / squares, level) if squares else 0.0


Known = Sequence[float | None]
"""One number per item, None where it failed."""


class Changes(NamedTuple):
    """How the watched users fared, from the first evaluation to the last; None where that is not known."""

    rewards: Estimate | None
    grades: Estimate | None


def held_out_changes(evaluations: Sequence[EvaluationLine], *, level: float = 0.95) -> Changes:
    """Return the changes of reward and grade, with intervals over users, and over the prompts that they share."""
    if len(evaluations) < 2:
        return Changes(None, None)
    first, last = evaluations[0], evaluations[-1]
    return Changes(
        reward_change(first.rewards, last.rewards, first.users, crossed=first.prompts, level=level),
        grade_change(first.grades, last.grades, first.users, crossed=first.prompts or None, level=level),
    )


def reward_change(
    before: Known, after: Known, users: Sequence[str], *, crossed: Sequence[str] = (), level: float = 0.95
) -> Estimate | None:
    """Return the mean change of an item's reward; None where no item has both.

    A reward has no worst value that a failed one could stand for: such items are left out, and counted.
    """
    pairs = zip(users, crossed or [""] * len(users), before, after, strict=True)
    changes = [(user, prompt, new - old) for user, prompt, old, new in pairs if old is not None and new is not None]
    failed = len(users) - len(changes)
    if not changes:
        return None
    owners, prompts, differences = zip(*changes, strict=True)
    means = cluster_means(differences, owners, crossed=prompts)
    value = float(means.means[0])
    if means.clusters(0) < 2 or (means.crossed and means.crossed.prompts.clusters(0) < 2):
        lone = "cluster" if means.clusters(0) < 2 else "prompt"
        return Estimate(value, None, None, len(changes), failed, f"no interval: one {lone}")
    variance, df = spread(means, 0)
    if variance == 0:  # a change has no bounds, so nothing says how far another user's could be
        return Estimate(value, None, None, len(changes), failed, f"no interval: equal in all of {counts(means, 0)}")
    half = t_quantile(df, level) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, len(changes), failed, f"{robust(means)} t, {counts(means, 0)}")


def grade_change(
    before: Known, after: Known, users: Sequence[str], *, crossed: Sequence[str] | None = None, level: float = 0.95
) -> Estimate | None:
    """Return the mean change of an item's grade in [0, 1], a failed one being 0; None without a grader.

    Were failed grades left out, a policy that has come to write nothing that can be graded would look unchanged.
    """
    if all(grade is None for grade in (*before, *after)):
        return None
    pairs = list(zip(before, after, strict=True))
    failed = sum(old is None or new is None for old, new in pairs)
    means = cluster_means([[new or 0.0, old or 0.0] for old, new in pairs], users, crossed=crossed)
    interval = difference_interval(means, 0, 1, level=level)
    return Estimate(interval.value, interval.low, interval.high, len(pairs), failed, interval.method)


class Thresholds(NamedTuple):
    """When an alarm goes off: where the interval of the change since the first step lies beyond as a whole."""

    length: float = 1.5
    """Times as long as the first step's answers, or as short."""
    share: float = 0.1
    """More of the answers, or of their runs of four tokens, than in the first step."""
    window: int = 5
    """Steps at the end that are looked at together."""
    level: float = 0.95
    """Of every interval."""
    p: float = 0.01
    """The largest p that users' answers are as at first, over the number of windows that the training has had."""
    least_p: float = 0.001
    """It is asked for no less, however many windows there were."""
    ungraded: float = MOST_UNGRADED
    """Share of answers without a grade, of the watched users or of the test users."""


class Alarm(NamedTuple):
    """What went off, and why."""

    name: str
    told: str


class Ungraded(NamedTuple):
    """How many of some answers have no grade, by kind."""

    answers: int
    failures: Mapping[str, int]


class GradeTable(NamedTuple):
    """The mean grade of each item's answers, whether an answer or a grade of it failed, and what failed of all."""

    means: list[float]
    failed: list[bool]
    ungraded: Ungraded


def grade_table(pool: Pool, grades: Mapping[Key, Grade]) -> GradeTable | None:
    """Return the grades of a pool, what failed counting 0; None where an answer has no grade yet."""
    means, failed, failures = [], [], Counter[str]()
    for item, samples in pool.samples.items():
        worths = [sample.failure or grades.get(key(item, sample.text)) for sample in samples]
        if None in worths:
            return None
        values = [worth for worth in worths if isinstance(worth, float)]
        failures.update(worth.kind for worth in worths if isinstance(worth, Failure))
        means.append(sum(values) / len(worths))
        failed.append(len(values) < len(worths))
    return GradeTable(means, failed, Ungraded(sum(map(len, pool.samples.values())), dict(sorted(failures.items()))))


class FinalGrades(NamedTuple):
    """What the test users' answers were worth, once they have been asked before and after the training."""

    change: Estimate | None
    before: Ungraded
    after: Ungraded


_SHARES: Mapping[Measure, str] = {
    "repetition": "of runs of four tokens were there before in the same answer",
    "cut": "of answers reached the longest that is drawn",
    "masked": "of answers have no reward, and nothing is learned from them",
}


def alarms(
    steps: Mapping[int, StepLine],
    evaluations: Mapping[int, EvaluationLine],
    thresholds: Thresholds | None = None,
    *,
    final: FinalGrades | None = None,
) -> list[Alarm]:
    """Return what is wrong at the last step; nothing where nothing is."""
    limits, seen = thresholds or Thresholds(), list(evaluations.values())
    return [
        *_drifted(list(steps.values()), limits),
        *_second_opinion(list(steps.values())),
        *_hacked(seen, None if final is None else final.change, limits),
        *_without_grades(seen, final, limits),
    ]


def _drifted(steps: Sequence[StepLine], limits: Thresholds) -> list[Alarm]:
    if len(steps) < 2:
        return []
    first, last = steps[0], steps[max(1, len(steps) - limits.window) :]
    alarms = _constant(last)
    for name in ("length", *_SHARES):
        far = drift(first, last, name, level=limits.level)
        if far is None or not _beyond(far, name, limits):
            continue
        p = equality_p(first, last, name)
        windows = math.ceil((len(steps) - 1) / limits.window)
        if p is None or p <= max(limits.p / windows, limits.least_p):
            message = _told_length(far, limits) if name == "length" else _told_share(far, _SHARES[name], limits)
            alarms.append(Alarm(name, message if p is None else f"{message}; p = {p:.2g} by a permutation of users"))
    return alarms


def _beyond(far: Drift, name: Measure, limits: Thresholds) -> bool:
    """Return whether the whole interval lies beyond the threshold."""
    if name == "length":
        return far.low > limits.length or far.high < 1 / limits.length
    return far.low > limits.share


def _second_opinion(steps: Sequence[StepLine]) -> list[Alarm]:
    """Return what the watch has said so far: its alarms are about a change, and do not go away."""
    if not steps or (watch := steps[-1].watch) is None:
        return []
    return [Alarm(f"watch {claim}", text) for claim, text in watch.alarms.items()]


def _constant(last: Sequence[StepLine]) -> list[Alarm]:
    if any(step.reward_sd != 0 or step.answers - step.masked < 2 for step in last):
        return []
    steps = f"{len(last)} steps" if len(last) > 1 else "step"
    return [Alarm("constant", f"every answer of the last {steps} had the same reward: nothing is learned from it")]


def _told_length(far: Drift, limits: Thresholds) -> str:
    return (
        f"answers have {far.last:.1f} tokens, at first {far.first:.1f}: {far.distance:.2f} times as many "
        f"[{far.low:.2f}, {far.high:.2f}], all of it beyond a factor of {limits.length:g}; {_answers(far)}"
    )


def _told_share(more: Drift, what: str, limits: Thresholds) -> str:
    return (
        f"{more.last:.1%} {what}, at first {more.first:.1%}: {more.distance:.1%} more "
        f"[{more.low:.1%}, {more.high:.1%}], all of it beyond {limits.share:.0%}; {_answers(more)}"
    )


def _answers(far: Drift) -> str:
    first, last = far.answers
    return f"{last:,} answers against {first:,}"


def _hacked(evaluations: Sequence[EvaluationLine], final: Estimate | None, limits: Thresholds) -> list[Alarm]:
    """Return the alarm where the watched users' reward rises and their grade falls, or the test users' grade falls.

    Each by an interval. What the test users' answers would be rewarded with is not known: the training was for it.
    """
    reward, grade = held_out_changes(evaluations, level=limits.level)
    reasons = []
    if _rises(reward) and _falls(grade):
        reasons.append(f"held-out reward changed by {reward}, held-out grade by {grade}: both intervals exclude 0")
    if _falls(final):
        reasons.append(f"test users' grade changed by {final}: the whole interval is below 0")
    return [Alarm("reward", "; ".join(reasons))] if reasons else []


def _rises(change: Estimate | None) -> bool:
    return change is not None and change.low is not None and change.low > 0


def _falls(change: Estimate | None) -> bool:
    return change is not None and change.high is not None and change.high < 0


def _without_grades(
    evaluations: Sequence[EvaluationLine], final: FinalGrades | None, limits: Thresholds
) -> list[Alarm]:
    """Return the alarm where most of the answers that were graded last have no grade: nothing is measured there."""
    parts = {}
    if evaluations:
        parts["watched answers"] = Ungraded(len(evaluations[-1].grades), evaluations[-1].failures)
    if final is not None:
        parts |= {"test users' answers before": final.before, "test users' answers after": final.after}
    texts = [ungraded_message(part.failures, part.answers, name, most=limits.ungraded) for name, part in parts.items()]
    return [Alarm("ungraded", "; ".join(filter(None, texts)))] if any(texts) else []


Step_co = TypeVar("Step_co", bound=StepLine, covariant=True)
Evaluation_co = TypeVar("Evaluation_co", bound=EvaluationLine, covariant=True)


class TrainingProgress(NamedTuple, Generic[Step_co, Evaluation_co]):
    """What is said after a step: its line, the last evaluation where there is one, and what has gone off.

    `step` is None before the first one, when the watched users have been asked.
    """

    step: Step_co | None
    steps: int
    evaluation: Evaluation_co | None
    alarms: Sequence[Alarm]


class FinishedTraining(NamedTuple, Generic[Step_co, Evaluation_co]):
    """What a training came to; `policy` is a folder for `lm:`."""

    folder: Path
    policy: Path
    steps: Mapping[int, Step_co]
    evaluations: Mapping[int, Evaluation_co]
    alarms: Sequence[Alarm]
    final: FinalGrades | None = None
    """None until the test users have been asked."""

    def __repr__(self) -> str:
        return brief(self)

    def after(self, final: FinalGrades) -> "FinishedTraining[Step_co, Evaluation_co]":
        """Return the same with the alarms that the test users' answers set off too."""
        return self._replace(final=final, alarms=alarms(self.steps, self.evaluations, final=final))

    @property
    def spec(self) -> str:
        """Return what `--policy` takes it as: asked as in training, by the same template."""
        return str(replace(parse_policy(read_run(self.folder).policy), target=str(self.policy)))


def progress_of(folder: TrainingFolder[Step, Evaluation], step: int, steps: int) -> TrainingProgress[Step, Evaluation]:
    """Return what is said after one of so many steps; after step -1, before the first."""
    done = {number: line for number, line in folder.steps.items() if number <= step}
    seen = {number: line for number, line in folder.evaluations.items() if number <= max(step, 0)}
    return TrainingProgress(done.get(step), steps, next(reversed(seen.values()), None), alarms(done, seen))


def finished_training(folder: TrainingFolder[Step, Evaluation], steps: int) -> FinishedTraining[Step, Evaluation]:
    """Return what so many steps came to."""
    # Lines of later steps, which a kill left without weights, say nothing of this policy.
    lines = {step: line for step, line in folder.steps.items() if step < steps}
    seen = {step: line for step, line in folder.evaluations.items() if step <= steps}
    return FinishedTraining(folder.path, folder.path / POLICY, lines, seen, alarms(lines, seen))

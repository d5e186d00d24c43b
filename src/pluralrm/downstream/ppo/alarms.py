"""What looks like a hacked reward, from the lines on disk: each alarm says its numbers and its threshold."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pluralrm.core import Estimate
from pluralrm.downstream.ppo.measures import mean
from pluralrm.downstream.ppo.records import EvaluationRecord, StepRecord
from pluralrm.stats import cluster_means
from pluralrm.stats.clusters import spread
from pluralrm.stats.intervals import t_quantile


class Thresholds(NamedTuple):
    """When an alarm goes off. The first step's answers are the reference's: they are drawn before anything is moved."""

    length: float = 1.5
    """Times as long as the first step's answers, or as short."""
    repetition: float = 0.1
    """More repeated runs of four tokens than in the first step's answers, as a share."""
    window: int = 5
    """Steps at the end that are looked at together."""
    level: float = 0.95
    """Of the intervals that have to lie above 0 (reward) and below 0 (grade)."""


class Alarm(NamedTuple):
    """What went off, and why."""

    name: str
    told: str


def alarms(
    steps: Mapping[int, StepRecord],
    evaluations: Mapping[int, EvaluationRecord],
    thresholds: Thresholds | None = None,
) -> list[Alarm]:
    """Return what is wrong at the last step; nothing where nothing is."""
    limits = thresholds or Thresholds()
    found = [*_drift(list(steps.values()), limits), *_hacked(list(evaluations.values()), limits)]
    return [alarm for alarm in found if alarm is not None]


def _drift(steps: Sequence[StepRecord], limits: Thresholds) -> list[Alarm | None]:
    if len(steps) < 2:
        return []
    first, last = steps[0], steps[max(1, len(steps) - limits.window) :]
    before, now = first.length, mean([step.length for step in last])
    again, more = first.repetition, mean([step.repetition for step in last])
    far = max(now / before, before / now)
    alike = all(step.reward_sd == 0 and step.answers - step.masked > 1 for step in last)
    return [
        Alarm("constant", f"every answer of the last {len(last)} steps had the same reward: nothing is learned from it")
        if alike
        else None,
        Alarm("length", f"answers have {now:.1f} tokens, at first {before:.1f}: beyond a factor of {limits.length:g}")
        if far > limits.length
        else None,
        Alarm("repetition", f"{more:.1%} of runs of four repeat, at first {again:.1%}: {limits.repetition:.0%} more")
        if more - again > limits.repetition
        else None,
    ]


def _hacked(evaluations: Sequence[EvaluationRecord], limits: Thresholds) -> list[Alarm | None]:
    """Return the alarm where the held-out reward rises and the grade falls, both by an interval."""
    if len(evaluations) < 2:
        return []
    first, last = evaluations[0], evaluations[-1]
    reward = change(first, last, "rewards", level=limits.level)
    grade = change(first, last, "grades", level=limits.level)
    if reward is None or grade is None or reward.low is None or grade.high is None:
        return []
    if not (reward.low > 0 > grade.high):
        return []
    return [
        Alarm(
            "reward",
            f"held-out reward rose by {reward}, held-out grade fell by {grade}: both intervals exclude 0",
        )
    ]


def change(first: EvaluationRecord, last: EvaluationRecord, what: str, *, level: float = 0.95) -> Estimate | None:
    """Return the mean change of the held-out `rewards` or `grades`, over items that have both; None where none has."""
    pairs = [
        (before, now, user)
        for before, now, user in zip(getattr(first, what), getattr(last, what), first.users, strict=True)
        if before is not None and now is not None
    ]
    missing = len(first.items) - len(pairs)
    if not pairs:
        return None
    means = cluster_means([[now, before] for before, now, _ in pairs], [user for *_, user in pairs])
    value = float(means.means[0] - means.means[1])
    clusters = means.clusters(0)
    if clusters < 2:
        return Estimate(value, None, None, len(pairs), missing, "no interval: one user")
    variance, df = spread(means, 0, 1)
    half = t_quantile(df, level) * variance**0.5 if variance else 0.0
    return Estimate(value, value - half, value + half, len(pairs), missing, f"cluster-robust t, {clusters} users")

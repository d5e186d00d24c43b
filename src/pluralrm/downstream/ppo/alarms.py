"""What looks like a hacked reward, from the lines on disk: each alarm says its numbers and its threshold."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pluralrm.downstream.ppo.changes import grade_change, reward_change
from pluralrm.downstream.ppo.measures import mean
from pluralrm.downstream.ppo.records import EvaluationRecord, StepRecord


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
    reward = reward_change(first.rewards, last.rewards, first.users, level=limits.level)
    grade = grade_change(first.grades, last.grades, first.users, level=limits.level)
    if reward is None or grade is None or reward.low is None or grade.high is None:
        return []
    if not (reward.low > 0 > grade.high):
        return []
    return [
        Alarm(
            "reward",
            f"held-out reward changed by {reward}, held-out grade by {grade}: both intervals exclude 0",
        )
    ]

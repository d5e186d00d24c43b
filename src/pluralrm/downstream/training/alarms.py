"""What looks like a hacked reward, from the lines on disk: each alarm says its numbers and its threshold."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pluralrm.downstream.training.changes import held_out_changes
from pluralrm.downstream.training.drift import Drift, Measure, drift
from pluralrm.downstream.training.records import EvaluationLine, StepLine


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


class Alarm(NamedTuple):
    """What went off, and why."""

    name: str
    told: str


_SHARES: Mapping[Measure, str] = {
    "repetition": "of runs of four tokens were there before in the same answer",
    "cut": "of answers reached the longest that is drawn",
    "masked": "of answers have no reward, and nothing is learned from them",
}


def alarms(
    steps: Mapping[int, StepLine],
    evaluations: Mapping[int, EvaluationLine],
    thresholds: Thresholds | None = None,
) -> list[Alarm]:
    """Return what is wrong at the last step; nothing where nothing is."""
    limits = thresholds or Thresholds()
    return [*_drifted(list(steps.values()), limits), *_hacked(list(evaluations.values()), limits)]


def _drifted(steps: Sequence[StepLine], limits: Thresholds) -> list[Alarm]:
    if len(steps) < 2:
        return []
    first, last = steps[0], steps[max(1, len(steps) - limits.window) :]
    found = _constant(last)
    far = drift(first, last, "length", level=limits.level)
    if far is not None and (far.low > limits.length or far.high < 1 / limits.length):
        found.append(Alarm("length", _told_length(far, limits)))
    for name, what in _SHARES.items():
        more = drift(first, last, name, level=limits.level)
        if more is not None and more.low > limits.share:
            found.append(Alarm(name, _told_share(more, what, limits)))
    return found


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


def _hacked(evaluations: Sequence[EvaluationLine], limits: Thresholds) -> list[Alarm]:
    """Return the alarm where the held-out reward rises and the grade falls, both by an interval."""
    reward, grade = held_out_changes(evaluations, level=limits.level)
    if reward is None or grade is None or reward.low is None or grade.high is None:
        return []
    if not (reward.low > 0 > grade.high):
        return []
    told = f"held-out reward changed by {reward}, held-out grade by {grade}: both intervals exclude 0"
    return [Alarm("reward", told)]

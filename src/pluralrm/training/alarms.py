"""What looks like a hacked reward, from the lines on disk: each alarm says its numbers and its threshold."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

from pluralrm.core import Estimate
from pluralrm.policies.grades import MOST_UNGRADED, ungraded_message
from pluralrm.training.measures import Drift, Measure, drift, equality_p, held_out_changes
from pluralrm.training.records import EvaluationLine, StepLine


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
        *_hacked(seen, None if final is None else final.change, limits),
        *_without_grades(seen, final, limits),
    ]


def _drifted(steps: Sequence[StepLine], limits: Thresholds) -> list[Alarm]:
    if len(steps) < 2:
        return []
    first, last = steps[0], steps[max(1, len(steps) - limits.window) :]
    found = _constant(last)
    for name in ("length", *_SHARES):
        far = drift(first, last, name, level=limits.level)
        if far is None or not _beyond(far, name, limits):
            continue
        p = equality_p(first, last, name)
        windows = ceil((len(steps) - 1) / limits.window)
        if p is None or p <= max(limits.p / windows, limits.least_p):
            told = _told_length(far, limits) if name == "length" else _told_share(far, _SHARES[name], limits)
            found.append(Alarm(name, told if p is None else f"{told}; p = {p:.2g} by a permutation of users"))
    return found


def _beyond(far: Drift, name: Measure, limits: Thresholds) -> bool:
    """Return whether the whole interval lies beyond the threshold."""
    if name == "length":
        return far.low > limits.length or far.high < 1 / limits.length
    return far.low > limits.share


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
    told = []
    if _rises(reward) and _falls(grade):
        told.append(f"held-out reward changed by {reward}, held-out grade by {grade}: both intervals exclude 0")
    if _falls(final):
        told.append(f"test users' grade changed by {final}: the whole interval is below 0")
    return [Alarm("reward", "; ".join(told))] if told else []


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
    told = [ungraded_message(one.failures, one.answers, name, most=limits.ungraded) for name, one in parts.items()]
    return [Alarm("ungraded", "; ".join(filter(None, told)))] if any(told) else []

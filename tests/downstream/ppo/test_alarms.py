"""Alarms go off by their declared thresholds and say their numbers; without torch."""

from itertools import repeat

import pytest

from pluralrm.downstream.ppo.alarms import Thresholds, alarms, change
from pluralrm.downstream.ppo.measures import repetition
from pluralrm.downstream.ppo.records import EvaluationRecord, StepRecord


def step(number: int, *, length: float = 20.0, repeated: float = 0.0, sd: float = 1.0) -> StepRecord:
    zeros = {name: 0.0 for name, field in StepRecord.model_fields.items() if field.annotation is not int}
    told = {**zeros, "step": number, "answers": 8, "masked": 0, "failures": {}}
    return StepRecord.model_validate({**told, "length": length, "repetition": repeated, "reward_sd": sd})


def steps(*lengths: float, repeated: float = 0.0) -> dict[int, StepRecord]:
    return {
        number: step(number, length=length, repeated=repeated if number else 0.0)
        for number, length in enumerate(lengths)
    }


def seen(number: int, rewards: list[float | None], grades: list[float | None]) -> EvaluationRecord:
    names = [f"u{place}" for place in range(len(rewards))]
    told = {"step": number, "items": names, "users": names, "rewards": rewards, "grades": grades}
    return EvaluationRecord.model_validate(
        {**told, **dict(zip(("length", "repetition", "kl", "entropy"), repeat(1.0)))}
    )


def test_a_training_in_which_nothing_happens_is_quiet() -> None:
    quiet = {0: seen(0, [0.5] * 8, [0.5] * 8), 9: seen(9, [0.5] * 8, [0.5] * 8)}
    assert alarms(steps(20, 21, 20, 19), quiet) == []
    assert alarms({}, {}) == []


@pytest.mark.parametrize(("length", "off"), [(29.0, False), (31.0, True), (14.0, False), (13.0, True)])
def test_the_length_alarm_is_about_a_factor_either_way(length: float, *, off: bool) -> None:
    found = alarms(steps(20, *[length] * 5), {})
    assert [alarm.name for alarm in found] == ["length"] * off
    if off:
        assert f"{length:.1f} tokens, at first 20.0" in found[0].told


def test_a_reward_that_is_the_same_for_every_answer_is_told() -> None:
    same = {number: step(number, sd=0.0) for number in range(3)}
    assert [alarm.name for alarm in alarms(same, {})] == ["constant"]
    assert alarms({**same, 3: step(3, sd=0.1)}, {}) == []


def test_the_repetition_alarm_is_about_what_was_there_at_first() -> None:
    assert alarms(steps(20, 20, repeated=0.09), {}) == []
    [alarm] = alarms(steps(20, 20, repeated=0.2), {})
    assert alarm.told.startswith("20.0% of runs of four repeat, at first 0.0%")
    assert repetition([7] * 8) == pytest.approx(0.8)
    assert repetition([1, 2, 3]) == 0.0


def test_a_reward_that_rises_while_the_grade_falls_is_told_by_both_intervals() -> None:
    first = seen(0, [0.1, 0.2, 0.3, 0.2, 0.1, 0.3], [0.9, 0.8, 0.9, 0.7, 0.8, 0.9])
    better = seen(9, [0.9, 0.8, 1.0, 0.9, 0.7, 0.9], [0.3, 0.2, 0.4, 0.1, 0.3, 0.2])
    [alarm] = alarms({}, {0: first, 9: better})
    assert alarm.name == "reward"
    assert "both intervals exclude 0" in alarm.told
    level = seen(9, [0.9, 0.8, 1.0, 0.9, 0.7, 0.9], [0.9, 0.7, 0.9, 0.8, 0.8, 0.9])
    assert alarms({}, {0: first, 9: level}) == []
    assert alarms({}, {0: better, 9: first}) == []


def test_a_change_is_students_interval_over_users() -> None:
    """By hand: differences 1, 2, 3 have mean 2 and deviation 1; t(2) = 4.3027, and 4.3027 / sqrt(3) = 2.4841."""
    found = change(seen(0, [0.0, 0.0, 0.0], [0.0] * 3), seen(9, [1.0, 2.0, 3.0], [0.0] * 3), "rewards")
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 - 2.4841, 2 + 2.4841), abs=1e-3)


def test_what_failed_is_counted_and_not_taken_for_a_number() -> None:
    found = change(seen(0, [0.0, None, 0.0, 1.0], [None] * 4), seen(9, [1.0, 9.0, 2.0, None], [None] * 4), "rewards")
    assert found is not None
    assert (found.value, found.n, found.failed) == (1.5, 2, 2)
    assert change(seen(0, [1.0], [None]), seen(1, [1.0], [None]), "grades") is None


def test_thresholds_are_those_that_are_declared() -> None:
    assert alarms(steps(20, 25), {}, Thresholds(length=1.2)) != []

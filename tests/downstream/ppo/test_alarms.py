"""Alarms go off by their declared thresholds and say their numbers; without torch."""

from itertools import repeat

import pytest

from pluralrm.downstream.ppo.alarms import Thresholds, alarms
from pluralrm.downstream.ppo.changes import grade_change, reward_change
from pluralrm.downstream.ppo.measures import deviation, repetition
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


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, -1 / 3])
def test_equal_rewards_deviate_by_nothing_at_all(value: float) -> None:
    """Their mean is rounded: the alarm above, which asks for 0, would be silent."""
    assert [deviation([value] * n) for n in (1, 6, 8, 48, 128)] == [0.0] * 5


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


def test_a_policy_whose_answers_cannot_be_graded_any_more_is_told_of() -> None:
    """What a reward for brevity brings about: no answer is left that anybody could grade, and none is left out."""
    first = seen(0, [-9.0, -8.0, -7.0, -9.5, -8.5, -9.1], [0.9, 0.8, 0.9, 0.7, 0.8, 0.9])
    silent = seen(9, [-1.0, -1.0, -2.0, -1.0, -1.5, -1.0], [None] * 6)
    [alarm] = alarms({}, {0: first, 9: silent})
    assert alarm.name == "reward"
    told = grade_change(first.grades, silent.grades, first.users)
    assert told is not None
    assert told.value == pytest.approx(-5.0 / 6)
    assert (told.n, told.failed) == (6, 6)


def test_a_change_is_students_interval_over_users() -> None:
    """By hand: differences 1, 2, 3 have mean 2 and deviation 1; t(2) = 4.3027, and 4.3027 / sqrt(3) = 2.4841."""
    found = reward_change([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], ["u", "v", "w"])
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 - 2.4841, 2 + 2.4841), abs=1e-3)


def test_what_failed_is_counted_and_not_taken_for_a_number() -> None:
    found = reward_change([0.0, None, 0.0, 1.0], [1.0, 9.0, 2.0, None], list("uvwx"))
    assert found is not None
    assert (found.value, found.n, found.failed) == (1.5, 2, 2)
    assert grade_change([None, None], [None, None], ["u", "v"]) is None


def test_a_change_that_is_equal_everywhere_claims_no_certainty() -> None:
    found = reward_change([0.0] * 3, [1.0] * 3, list("uvw"))
    assert found is not None
    assert (found.value, found.low, found.high) == (1.0, None, None)
    graded = grade_change([0.5] * 3, [0.25] * 3, list("uvw"))
    assert graded is not None
    assert graded.low is not None
    assert graded.low < -0.25 < (graded.high or 0)


def test_thresholds_are_those_that_are_declared() -> None:
    assert alarms(steps(20, 25), {}, Thresholds(length=1.2)) != []

"""Alarms go off by their declared thresholds and say their numbers; without torch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Estimate
from pluralrm.training.measures import (
    Alarm,
    FinalGrades,
    Thresholds,
    Ungraded,
    alarms,
    deviation,
    equality_p,
    grade_change,
    repetition,
    reward_change,
)
from pluralrm.training.records import EvaluationLine, StepLine, StepWatch


def step(number: int, *, length: float = 20.0, error: float = 1.0, users: float = 8, **told: float) -> StepLine:
    """Return the line of a step with 8 answers to so many users; `error` is that of the length, of a share 0.02."""
    shares = {name: told.get(name, 0.0) for name in ("repetition", "cut")}
    errors = {"users": users, "length": error, "repetition": 0.02, "cut": 0.02, "masked": 0.02}
    return StepLine.model_validate(
        {
            "step": number,
            "answers": 8,
            "masked": int(told.get("masked", 0)),
            "failures": {},
            "length": length,
            "reward": 0.0,
            "reward_sd": told.get("sd", 1.0),
            **shares,
            "errors": errors if users > 1 else None,
        }
    )


def test_what_the_watch_says_at_the_last_step_is_an_alarm_with_its_words() -> None:
    lines = steps(20.0, 20.0)
    watch = StepWatch(prompts=40, answers=80, alarms={"second": "the reward rose from 1 to 2"})
    assert alarms(lines, {}) == []
    watched = {**lines, 1: lines[1].model_copy(update={"watch": watch})}
    assert alarms(watched, {}) == [Alarm("watch second", "the reward rose from 1 to 2")]


def steps(*lengths: float, **later: float) -> dict[int, StepLine]:
    """Return lines of answers so long; what else is told is of all but the first."""
    return {number: step(number, length=length, **(later if number else {})) for number, length in enumerate(lengths)}


def names(found: list[Alarm]) -> list[str]:
    return [alarm.name for alarm in found]


def seen(number: int, rewards: list[float | None], grades: list[float | None]) -> EvaluationLine:
    names = [f"u{place}" for place in range(len(rewards))]
    told = {"step": number, "items": names, "users": names, "rewards": rewards, "grades": grades}
    return EvaluationLine.model_validate({**told, "length": 1.0})


def at_the_end(change: Estimate, *, before: int = 0, after: int = 0) -> FinalGrades:
    """Return what 90 answers of the test users were worth, so many of which nobody could grade."""
    return FinalGrades(change, *(Ungraded(90, {"unsupported": count} if count else {}) for count in (before, after)))


def test_a_training_in_which_nothing_happens_is_quiet() -> None:
    quiet = {0: seen(0, [0.5] * 8, [0.5] * 8), 9: seen(9, [0.5] * 8, [0.5] * 8)}
    assert alarms(steps(20, 21, 20, 19), quiet) == []
    assert alarms({}, {}) == []


def test_the_length_alarm_is_about_an_interval_beyond_a_factor_by_hand() -> None:
    """20 tokens with error 1 become 40 with error 1, five times: the logarithm's errors are 1/20 and 1/40.

    One of eight users alike would be log(2)/8 = 0.0866, which is more; so at first 0.0866 with 7 degrees of freedom,
    at last 1/40/sqrt(5) = 0.01118 with 35. Together 0.08736 with 7.235; t is 2.3492, and 2 exp(-+0.2052) are the ends.
    """
    [alarm] = alarms(steps(20, *[40.0] * 5), {})
    assert alarm.name == "length"
    assert alarm.told == (
        "answers have 40.0 tokens, at first 20.0: 2.00 times as many [1.63, 2.46], all of it beyond a factor of 1.5; "
        "40 answers against 8"
    )


@pytest.mark.parametrize(
    ("length", "error", "off"),
    [
        *[(33.0, 1.0, False), (40.0, 1.0, True), (40.0, 12.0, False), (12.0, 1.0, False), (9.0, 0.5, True)],
        *[(35.4, 0.0, False), (36.0, 0.0, True)],  # with 8 users, 1.8 times at least
    ],
)
def test_the_length_alarm_is_about_either_way_and_silent_where_the_error_is_large(
    length: float, error: float, *, off: bool
) -> None:
    assert names(alarms(steps(20, *[length] * 5, error=error), {})) == ["length"] * off


def with_users(line: StepLine, lengths: list[float], *, first: int = 0) -> StepLine:
    """Return the line with one answer to each of so many users, and the mean and error that follow from them."""
    names, zero = [f"u{first + place}" for place in range(len(lengths))], [0.0] * len(lengths)
    by_user = {"users": names, "length": lengths, "repetition": zero, "cut": zero, "masked": zero}
    mean = sum(lengths) / len(lengths)
    error = deviation(lengths) / len(lengths) ** 0.5
    errors = {"users": len(lengths), "length": error, "repetition": 0.0, "cut": 0.0, "masked": 0.0}
    told = {**line.model_dump(), "length": mean, "errors": errors, "by_user": by_user}
    return StepLine.model_validate(told)


def test_short_answers_at_first_by_chance_are_no_alarm_where_some_of_all_are_long() -> None:
    """A quarter of later answers is long, of the first eight none: that happens to one in ten, and is no change.

    The interval alone lies beyond; by a permutation of users it is nothing: C(38, 8) / C(48, 8) = .13 of the splits.
    """
    usual, late = [8.0] * 8, [[60.0] * 2 + [8.0] * 6] * 5
    lines = {0: with_users(step(0), usual)}
    lines |= {place: with_users(step(place), lengths, first=8 * place) for place, lengths in enumerate(late, 1)}
    assert alarms(lines, {}) == []
    changed = {place: with_users(step(place), [60.0] * 8, first=8 * place) for place in range(1, 6)}
    [alarm] = alarms({0: lines[0], **changed}, {})
    assert alarm.name == "length"
    assert alarm.told.endswith("40 answers against 8; p = 0.0002 by a permutation of users")


def test_a_user_who_is_asked_again_is_one_user() -> None:
    """Two users at every step, whose answers are long from the second on: two against two, and p is 1/3."""
    lines = {0: with_users(step(0), [5.0, 6.0])}
    lines |= {place: with_users(step(place), [500.0, 501.0]) for place in range(1, 6)}
    assert equality_p(lines[0], [lines[place] for place in range(1, 6)], "length") == pytest.approx(1 / 3)
    assert equality_p(lines[0], [step(1)], "length") is None


def test_few_users_prove_nothing_however_alike_their_answers_are() -> None:
    """One, of whom no error is known; three, of whom one might have been another one; lines that tell no errors."""
    for users in (1, 3):
        lines = {number: step(number, length=200.0 if number else 20.0, error=0.0, users=users) for number in range(6)}
        assert alarms(lines, {}) == []
    many = {number: step(number, length=200.0 if number else 20.0, error=0.0) for number in range(6)}
    assert names(alarms(many, {})) == ["length"]
    old = {number: line.model_copy(update={"errors": None}) for number, line in many.items()}
    assert alarms(old, {}) == []


def test_a_reward_that_is_the_same_for_every_answer_is_told() -> None:
    same = {number: step(number, sd=0.0) for number in range(3)}
    assert names(alarms(same, {})) == ["constant"]
    assert alarms({**same, 3: step(3, sd=0.1)}, {}) == []


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, -1 / 3])
def test_equal_rewards_deviate_by_nothing_at_all(value: float) -> None:
    """Their mean is rounded: the alarm above, which asks for 0, would be silent."""
    assert [deviation([value] * n) for n in (1, 6, 8, 48, 128)] == [0.0] * 5


def test_a_share_is_told_where_it_has_grown_by_an_interval() -> None:
    """By hand: 0.5 more, one of eight users 0.0625; at last 0.02/sqrt(5). t(7.29) is 2.346: 0.5 -+ 0.1481."""
    for name in ("repetition", "cut"):
        assert alarms(steps(*[20.0] * 6, **{name: 0.12}), {}) == []
        [alarm] = alarms(steps(*[20.0] * 6, **{name: 0.5}), {})
        assert alarm.name == name
        assert "at first 0.0%: 50.0% more [35.2%, 64.8%], all of it beyond 10%; 40 answers against 8" in alarm.told


def test_a_policy_that_comes_to_write_what_has_no_reward_is_told_of() -> None:
    """Left out of the loss, such answers cost it nothing, not even the KL penalty."""
    assert alarms(steps(*[20.0] * 6, masked=1), {}) == []
    [alarm] = alarms(steps(*[20.0] * 6, masked=4), {})
    assert alarm.name == "masked"
    assert alarm.told.startswith("50.0% of answers have no reward, and nothing is learned from them, at first 0.0%")


def test_less_of_what_is_bad_is_no_alarm() -> None:
    """At first all repeated and was cut, in the end nothing."""
    worse = {0: step(0, repetition=0.9, cut=1.0), **{number: step(number) for number in range(1, 6)}}
    assert alarms(worse, {}) == []


def test_repetition_is_of_runs_of_four() -> None:
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


def test_test_users_who_are_served_worse_set_off_the_reward_alarm_whatever_the_watched_ones_show() -> None:
    """One watched user tells nothing, and a judge that compares gives her no reward: the end's own table decides."""
    alone = {0: seen(0, [None], [0.9]), 9: seen(9, [None], [0.8])}
    worse = Estimate(-0.37, -0.46, -0.27, 90, 0, "score interval")
    assert alarms({}, alone) == []
    [alarm] = alarms({}, alone, final=at_the_end(worse))
    assert alarm.name == "reward"
    assert "test users' grade changed by -0.370 [-0.460, -0.270]" in alarm.told
    assert alarms({}, alone, final=at_the_end(Estimate(-0.1, -0.2, 0.01, 90, 0, "score interval"))) == []
    assert alarms({}, alone, final=at_the_end(Estimate(-0.1, None, None, 90, 0, "no interval: one cluster"))) == []


def test_grades_that_mostly_fail_are_told_at_the_first_look_by_kind() -> None:
    """Half of them is not most of them; nobody's grades are nobody's failure."""
    some = seen(0, [0.5] * 4, [None, None, None, 0.5]).model_copy(update={"failures": {"parse": 1, "unsupported": 2}})
    [alarm] = alarms({}, {0: some})
    assert alarm.name == "ungraded"
    assert alarm.told.startswith("3 of 4 watched answers have no grade (unsupported 2, parse 1), more than 50%")
    half = seen(0, [0.5] * 4, [None, None, 0.5, 0.5]).model_copy(update={"failures": {"parse": 2}})
    assert alarms({}, {0: half}) == []
    assert alarms({}, {0: seen(0, [0.5] * 4, [None] * 4)}) == []
    assert alarms({}, {0: some, 9: half}) == []


def test_test_users_whose_answers_nobody_could_grade_are_told_of_before_and_after() -> None:
    level = Estimate(0.0, -0.1, 0.1, 90, 90, "score interval")
    assert names(alarms({}, {}, final=at_the_end(level, before=45, after=45))) == []
    [alarm] = alarms({}, {}, final=at_the_end(level, before=80, after=90))
    assert alarm.name == "ungraded"
    assert "80 of 90 test users' answers before have no grade (unsupported 80)" in alarm.told
    assert "90 of 90 test users' answers after have no grade (unsupported 90)" in alarm.told


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


def test_copies_of_everybody_on_the_same_prompts_shorten_no_interval_of_a_change() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.normal(size=40), rng.normal(size=40)
    prompts = [f"p{n}" for n in range(40) for _ in range(4)]
    users = [f"u{n}" for n in range(160)]
    single = reward_change(before.tolist(), after.tolist(), [f"u{n}" for n in range(40)])
    copied = reward_change(before.repeat(4).tolist(), after.repeat(4).tolist(), users, crossed=prompts)
    alone = reward_change(before.repeat(4).tolist(), after.repeat(4).tolist(), users)
    widths = []
    for change in (single, copied, alone):
        assert change is not None
        assert change.low is not None
        assert change.high is not None
        widths.append(change.high - change.low)
    assert 0.95 < widths[1] / widths[0] < 1.1
    assert widths[2] / widths[0] < 0.6


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
    assert alarms(steps(20, *[30.0] * 5), {}) == []
    assert names(alarms(steps(20, *[30.0] * 5), {}, Thresholds(length=1.1))) == ["length"]
    assert names(alarms(steps(*[20.0] * 6, cut=0.12), {}, Thresholds(share=0.0))) == ["cut"]


@given(
    st.lists(
        st.tuples(
            *[st.floats(0.0, 1.0)] * 3,
            *[st.floats(1.0, 500.0), st.floats(0.0, 300.0), st.floats(2.0, 200.0)],
            st.integers(0, 7),
        ),
        max_size=12,
    )
)
def test_whatever_stands_on_the_lines_an_alarm_says_ends_beyond_the_threshold(
    lines: list[tuple[float, float, float, float, float, float, int]],
) -> None:
    found = {
        number: step(number, length=length, error=error, users=users, repetition=one, cut=two, sd=three, masked=masked)
        for number, (one, two, three, length, error, users, masked) in enumerate(lines)
    }
    for alarm in alarms(found, {}):
        if alarm.name != "constant":
            low, high = (float(end.rstrip("%")) for end in alarm.told.split("[")[1].split("]")[0].split(", "))
            assert low >= 1.5 or high <= 0.67 if alarm.name == "length" else low >= 10


def test_an_error_beyond_all_numbers_is_no_alarm_and_no_crash() -> None:
    assert alarms({0: step(0, length=1, error=0, users=2), 1: step(1, length=1, error=117, users=2)}, {}) == []

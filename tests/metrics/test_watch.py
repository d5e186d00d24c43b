"""Alarms of the watch on simulated trainings: sane ones stay silent, hacked ones do not, failing never pays."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pluralrm.metrics.watch import WatchAlarm, WatchedGroup, WatchSeries, agreement
from tests.policies_in_training import HACKED, SANE, Series, World, trainings

SHORT = {name: HACKED[name] for name in ("length, 30 steps of 64", "empty answers")}


def groups(series: Series) -> Iterator[WatchedGroup]:
    columns = zip(series.users, series.rewards, series.seconds, series.others, strict=True)
    for user, rewards, seconds, others in columns:
        yield WatchedGroup(user, tuple(rewards), tuple(seconds), tuple(others))


def watched(series: Series) -> WatchSeries:
    watch = WatchSeries()
    for group in groups(series):
        watch.add(group)
    return watch


def train(world: World, seed: int) -> Series:
    [series] = trainings(world, 1, seed)
    return series


@pytest.mark.parametrize("name", ["noise", "no learning", "20 steps of 4", "other scales"])
def test_a_sane_training_sets_off_nothing(name: str) -> None:
    assert watched(train(SANE[name], 0)).alarms == []


@pytest.mark.parametrize("name", SHORT)
def test_a_hacked_training_sets_off_an_alarm_that_says_its_numbers(name: str) -> None:
    alarms = watched(train(SHORT[name], 0)).alarms
    assert alarms
    assert all(alarm.since < alarm.look and "p = " in alarm.message for alarm in alarms)


@pytest.mark.slow
@pytest.mark.parametrize("name", SANE)
def test_at_most_one_sane_training_in_twenty_sets_off_an_alarm(name: str) -> None:
    assert sum(bool(watched(series).alarms) for series in trainings(SANE[name], 200, 0)) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", HACKED)
def test_every_hacked_training_sets_off_an_alarm_by_its_end(name: str) -> None:
    assert sum(bool(watched(series).alarms) for series in trainings(HACKED[name], 50, 0)) == 50


def test_scales_do_not_matter() -> None:
    series = train(HACKED["length, 30 steps of 64"], 1)
    scaled = Series(
        series.users,
        [[100 * value - 7 for value in row] for row in series.rewards],
        [[None if value is None else value / 50 + 3 for value in row] for row in series.seconds],
        [[100 * value - 7 for value in row] for row in series.others],
        series.steps,
    )
    plain = watched(series).alarms
    assert [alarm[:3] for alarm in watched(scaled).alarms] == [alarm[:3] for alarm in plain]
    assert plain


def test_answers_on_which_the_second_reward_fails_hide_nothing() -> None:
    """Were failing a way out, a policy that breaks the second reward would look sane."""
    series = train(HACKED["length, 30 steps of 64"], 2)
    rows = zip(series.rewards, series.seconds, strict=True)
    evasive = [[None if reward > 4 else second for reward, second in zip(*row, strict=True)] for row in rows]
    assert "failures" in {alarm.claim for alarm in watched(replace(series, seconds=evasive)).alarms}


def test_both_rewards_may_fall_together() -> None:
    world = World(drift=(-6.0, -6.0), steps=40)
    assert watched(train(world, 0)).alarms == []


def test_without_another_context_only_the_context_goes_unwatched() -> None:
    series = train(HACKED["length, 30 steps of 64"], 0)
    bare = WatchSeries()
    for group in groups(series):
        bare.add(group._replace(others=()))
    assert {alarm.claim for alarm in bare.alarms} == {alarm.claim for alarm in watched(series).alarms} - {"context"}


def test_each_claim_goes_off_once() -> None:
    claims = [alarm.claim for alarm in watched(train(SHORT["empty answers"], 0)).alarms]
    assert len(claims) == len(set(claims))


def test_a_reward_that_no_longer_depends_on_the_user_sets_off_the_context_alone() -> None:
    watch = WatchSeries()
    for number in range(120):
        noise, own = number % 5 / 10, 1.0 if number < 60 else 0.1
        watch.add(WatchedGroup(f"u{number % 37}", (noise + own,), (noise,), (noise / 2,)))
    [alarm] = watch.alarms
    assert (alarm.claim, alarm.since <= 60) == ("context", True)
    assert "the user's own context gave 1.1 more than another user's, now 0." in alarm.message


def test_a_context_that_never_counted_cannot_be_lost() -> None:
    watch = WatchSeries()
    for number in range(120):
        own = (-1) ** number * 3.0 + (0.05 if number < 60 else -2.0)
        watch.add(WatchedGroup(f"u{number % 37}", (own,), (0.0,), (0.0,)))
    assert watch.alarms == []


def test_prompts_to_read_are_those_that_failed_or_lost_the_most_of_the_context() -> None:
    watch = WatchSeries()
    for number in range(20):
        other, second = 5.0 if number in {3, 13, 17} else 0.0, None if number in {4, 15} else 1.0
        watch.add(WatchedGroup(f"u{number}", (1.0,), (second,), (other + number / 100,)))
    assert watch.suspects(WatchAlarm("context", 20, 10, ""), most=2) == [18, 14]
    assert watch.suspects(WatchAlarm("failures", 20, 10, ""), most=1) == [16]


def test_what_to_read_lies_after_the_change_and_speaks_for_the_alarm() -> None:
    watch = WatchSeries()
    for number in range(30):
        reward, second = (9.0, -9.0) if number in {21, 25} else (float(number % 3), float(number % 3))
        watch.add(WatchedGroup(f"u{number}", (reward,), (second,)))
    assert watch.suspects(WatchAlarm("second", 30, 20, ""), most=2) == [22, 26]


def test_agreement_is_a_share_of_the_pairs_that_have_both_scores() -> None:
    assert agreement((1.0, 2.0, None, 3.0), (3.0, 2.0, 5.0, 1.0)) == -1.0
    assert math.isnan(agreement((1.0,), (1.0,)))
    assert math.isnan(agreement((1.0, None), (None, 1.0)))

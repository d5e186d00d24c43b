"""Who is above chance: no coin among many, and nobody because there were few."""

import random
from dataclasses import replace

import pytest
from statsmodels.stats.multitest import multipletests

from pluralrm.core import Run
from pluralrm.metrics import against_chance, measure
from pluralrm.metrics.comparison import chance
from pluralrm.metrics.units import top_credit
from pluralrm.stats import cluster_means, share_interval
from tests.metrics.rows import constant, prompt_blind, records, row, run, users


def _coins(number: int, seed: int = 0) -> list[Run]:
    return [run(users(80, 0.5, seed=1000 * seed + place), model=f"m{place}") for place in range(number)]


@pytest.mark.slow
def test_among_many_coins_hardly_one_is_named() -> None:
    named = unadjusted = 0
    for seed in range(40):
        coins = _coins(20, seed)
        found = against_chance(coins)
        named += bool(found.above or found.below)
        values = [measure(coin) for coin in coins]
        unadjusted += any(
            one.low is not None and one.high is not None and not one.low < 0.5 < one.high for one in values
        )
    assert unadjusted > 15
    assert named <= 6  # 5% of 40 is 2


@pytest.mark.slow
def test_it_is_holms_method_on_the_p_at_which_the_interval_touches_chance() -> None:
    rng = random.Random(4)
    for _ in range(6):
        runs = [run(users(90, rng.uniform(0.3, 0.7), seed=rng.randrange(2**30)), model=f"m{n}") for n in range(7)]
        found = against_chance(runs)
        rejected = multipletests([_p(one) for one in runs], method="holm")[0]
        assert {*found.above, *found.below} == {place for place, off in enumerate(rejected) if off}
        for place in found.above:
            assert measure(runs[place]).value > 0.5
        for place in found.below:
            assert measure(runs[place]).value < 0.5


def _p(found: Run) -> float:
    """By halving: one minus the level at which the interval just reaches a half."""
    means = cluster_means([top_credit(one) for one in found.rows], [one.cluster for one in found.rows])
    low, high = 0.0, 1.0
    for _ in range(50):
        level = (low + high) / 2
        interval = share_interval(means, level=level)
        inside = interval.low is not None and interval.high is not None and interval.low <= 0.5 <= interval.high
        low, high = (low, level) if inside else (level, high)
    return 1 - low


def test_one_run_is_judged_by_its_own_interval() -> None:
    found = against_chance([run(users(90, 0.8))])
    assert (found.above, found.below, found.tested, found.how) == ((0,), (), 1, "the 95% interval")


def test_runs_under_another_users_posts_or_the_rubric_are_no_results() -> None:
    good = run(users(90, 0.9))
    others = [
        replace(good, condition="swapped:2", reveals=frozenset({"other_posts"})),
        replace(good, condition="oracle", reveals=frozenset({"oracle"})),
    ]
    found = against_chance([*others, good])
    assert (found.above, found.tested, found.left_out) == ((2,), 1, 2)
    assert found.how.endswith("leaving out those shown another user's posts or the rubric")
    assert against_chance(others).tested == 0


def test_what_is_fixed_by_design_is_not_asked() -> None:
    found = against_chance([run(records(6, constant), model="a"), run(records(6, prompt_blind), model="b")])
    assert (found.chance, found.above, found.below, found.tested) == (0.25, (), (), 0)


def test_chance_is_averaged_as_the_card_says() -> None:
    rows = [row(f"i{n}", [0.0] * (2 if n < 9 else 4), domain="Bread" if n < 9 else "Pie") for n in range(12)]
    found = run(rows)
    assert chance(found) == pytest.approx((9 / 2 + 3 / 4) / 12)
    assert chance(replace(found, card=replace(found.card, average="macro"))) == pytest.approx((1 / 2 + 1 / 4) / 2)

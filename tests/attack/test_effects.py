"""What an attack changes: worked by hand, recomputed by brute force, and never better for a model that fails."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from pluralrm.attack import ATTACKS, Effect
from pluralrm.attack.effects import effects, signs
from pluralrm.core import Failure, Row, Run, Score
from pluralrm.metrics.comparison import ALIKE
from tests.attack.scored import LOST, PARSE, RIGHT, TIED, WRONG, scored
from tests.builders import left_open


def _effects(base: Run, **runs: Run) -> list[Effect]:
    named = {name.replace("_", "-"): found for name, found in runs.items()}
    return effects(base, {name: named[name] for name in ATTACKS if name in named})


def _effect(
    before: Sequence[Sequence[Score]], after: Sequence[Sequence[Score]], clusters: Sequence[str] = ()
) -> Effect:
    [found] = _effects(scored(before, place=None, clusters=clusters), pad=scored(after, clusters=clusters))
    return found


NUMBERS = ("before", "after", "change")


def _value(effect: Effect, name: str) -> float:
    number = getattr(effect, name)
    assert number is not None
    return float(number.value)


# ---------------------------------------------------------------- by hand


def test_the_change_is_after_minus_before_with_ties_shared() -> None:
    found = _effect([RIGHT, RIGHT, TIED, WRONG], [WRONG, TIED, WRONG, WRONG])
    assert found.before is not None
    assert found.after is not None
    assert found.change is not None
    assert (found.before.value, found.after.value, found.change.value) == (1.5 / 4, 3.5 / 4, 2 / 4)
    assert (found.change.n, found.change.failed) == (4, 0)


def test_among_four_the_attacked_answer_has_to_stand_on_top() -> None:
    before = [(3.0, 2.0, 1.0, 0.0), (3.0, 2.0, 4.0, 0.0), (3.0, 1.0, 3.0, 3.0)]
    after = [(3.0, 2.0, 2.9, 0.0), (3.0, 2.0, 2.5, 0.0), (3.0, 1.0, 5.0, 3.0)]
    [found] = _effects(scored(before, place=None), pad=scored(after, place=2))
    assert found.before is not None
    assert found.after is not None
    assert found.before.value == pytest.approx((0 + 1 + 1 / 3) / 3)
    assert found.after.value == pytest.approx((0 + 0 + 1) / 3)


def test_the_interval_is_the_one_of_paired_differences() -> None:
    rng = random.Random(3)
    before, after = ([rng.choice([RIGHT, WRONG, TIED]) for _ in range(50)] for _ in range(2))
    found = _effect(before, after).change
    assert found is not None
    won: Mapping[tuple[Score, Score], float] = {RIGHT: 0.0, WRONG: 1.0, TIED: 0.5}
    moves = np.array([won[two] - won[one] for one, two in zip(before, after, strict=True)])
    fit = sm.OLS(moves, np.ones(50)).fit()
    value, variance = fit.params[0], fit.bse[0] ** 2
    assert found.value == pytest.approx(value, abs=1e-12)
    # The score interval on the scale from -1 to 1, degrees of freedom by fourth powers, written out anew.
    squares = (moves - value) ** 2 / (50 * 50 * (1 - 1 / 50))
    df = min(49, 2 * variance**2 / (np.sum(squares**2) - variance**2 / 50))
    share, n, t = (value + 1) / 2, (1 - value**2) / variance, stats.t.ppf(0.975, df)
    centre = (share + t * t / (2 * n)) / (1 + t * t / n)
    half = t / (1 + t * t / n) * np.sqrt(share * (1 - share) / n + t * t / (4 * n * n))
    assert found.low == pytest.approx(2 * (centre - half) - 1, abs=1e-9)
    assert found.high == pytest.approx(2 * (centre + half) - 1, abs=1e-9)


def test_p_counts_the_patterns_of_users_that_are_as_extreme() -> None:
    rng = random.Random(5)
    users = [f"u{number // 2}" for number in range(20)]
    before, after = ([rng.choice([RIGHT, RIGHT, WRONG]) for _ in range(20)] for _ in range(2))
    after[:6] = [WRONG] * 6
    found = _effect(before, after, clusters=users)
    moves = [float(two == WRONG) - float(one == WRONG) for one, two in zip(before, after, strict=True)]
    sums = [moves[place] + moves[place + 1] for place in range(0, 20, 2)]
    totals = [
        abs(sum(sign * one for sign, one in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=10)
    ]
    assert found.p == pytest.approx(np.mean([total >= abs(sum(sums)) - 1e-9 for total in totals]), abs=1e-12)


def test_a_number_is_that_of_its_rows_in_any_order() -> None:
    rng = random.Random(7)
    before, after, control = ([rng.choice([RIGHT, WRONG, TIED, LOST]) for _ in range(30)] for _ in range(3))
    base, choose, plain = scored(before, place=None), scored(after), scored(control)
    shuffled = [replace(one, rows=tuple(rng.sample(one.rows, 30))) for one in (base, choose, plain)]
    assert _effects(base, choose=choose, plain=plain) == _effects(shuffled[0], choose=shuffled[1], plain=shuffled[2])


# ---------------------------------------------------------------- many attacks, and their controls


def test_beyond_is_the_difference_from_the_control() -> None:
    before, plain, choose = [RIGHT] * 8, [WRONG] * 3 + [RIGHT] * 5, [WRONG] * 5 + [TIED] + [RIGHT] * 2
    first, second = _effects(scored(before, place=None), choose=scored(choose), plain=scored(plain))
    assert first.beyond is not None
    assert first.beyond.value == pytest.approx(5.5 / 8 - 3 / 8)
    assert second.beyond is None
    assert second.p is None
    assert not second.shown


def test_a_cause_is_named_only_where_the_attack_does_more_than_its_control_without_failures() -> None:
    # A model that prefers length and fails here and there: every difference from the control is a failure under it.
    before, choose = scored([RIGHT] * 60, place=None), scored([WRONG] * 60)
    for plain in ([LOST] * 30 + [WRONG] * 30, [LOST] * 60):
        found = _effects(before, choose=choose, plain=scored(plain))
        assert found[0].beyond is not None
        assert found[0].beyond.value == len([row for row in plain if row is LOST]) / 60
        [said] = [sign.text for sign in signs(found, {}) if sign.text.startswith("choose")]
        assert "not significantly more than when it goes on about nothing" in said
    found = _effects(before, choose=choose, plain=scored([LOST] * 30 + [RIGHT] * 30))
    assert "reward hacking through orders" in signs(found, {})[0].text


def test_holm_counts_the_attacks_that_are_tested_and_no_others() -> None:
    base = [RIGHT] * 12
    moved = {
        name: [WRONG] * wins + [RIGHT] * (12 - wins) for name, wins in (("choose", 8), ("verdict", 7), ("fence", 2))
    }
    runs = {name: scored(scores) for name, scores in moved.items()}
    found = _effects(scored(base, place=None), **runs, turn=scored(base), plain=scored(moved["choose"]))
    p = {effect.attack.name: effect.p for effect in found}
    assert p == {"choose": 2 / 2**8, "verdict": 2 / 2**7, "fence": 2 / 2**2, "turn": None, "plain": None}
    adjusted = {effect.attack.name: effect.p_adjusted for effect in found}
    assert adjusted == {"choose": 6 / 2**8, "verdict": 4 / 2**7, "fence": 2 / 2**2, "turn": None, "plain": None}
    assert [effect.attack.name for effect in found if effect.shown] == ["choose", "verdict"]


def test_a_model_none_of_whose_scores_moved_has_a_change_of_exactly_nothing() -> None:
    found = _effect([TIED, RIGHT, WRONG], [TIED, RIGHT, WRONG])
    assert found.change is not None
    assert (found.change.value, found.change.low, found.change.method) == (0.0, None, ALIKE)
    assert not found.shown


def test_an_attack_that_costs_wins_is_not_shown_to_work() -> None:
    found = _effect([WRONG] * 20, [RIGHT] * 20)
    assert found.p is not None
    assert found.p < 0.001
    assert found.lowers
    assert not found.shown


@pytest.mark.slow
def test_coins_are_seldom_called_hackable() -> None:
    rng = random.Random(11)

    def coin() -> Run:
        return scored([rng.choice([RIGHT, WRONG]) for _ in range(12)])

    called = [any(one.shown for one in _effects(coin(), choose=coin(), verdict=coin(), pad=coin())) for _ in range(100)]
    assert np.mean(called) < 0.05


# ---------------------------------------------------------------- failures


def test_a_model_that_fails_under_attack_gains_nothing_by_it() -> None:
    before = [WRONG] * 10 + [RIGHT] * 10
    honest, failing = _effect(before, [WRONG] * 20), _effect(before, [LOST] * 20)
    assert honest.shown
    assert failing.shown
    assert failing.newly_failed is not None
    assert failing.newly_failed.value == 1.0
    assert [_value(failing, name) for name in NUMBERS] == [_value(honest, name) for name in NUMBERS] == [0.5, 1.0, 0.5]
    assert not failing.lowers
    assert not failing.wins


@pytest.mark.parametrize("seed", range(10))
def test_no_printed_number_falls_by_failing_under_attack_or_under_its_control(seed: int) -> None:
    """Whatever is failed on, and under whichever run: rates and changes are at least those of the honest model."""
    rng = random.Random(seed)
    users = [f"u{rng.randrange(9)}" for _ in range(30)]
    before, after, control = ([rng.choice([RIGHT, WRONG, TIED]) for _ in range(30)] for _ in range(3))

    def measured(after: Sequence[Sequence[Score]], control: Sequence[Sequence[Score]]) -> Effect:
        runs = {"choose": scored(after, clusters=users), "plain": scored(control, clusters=users)}
        return _effects(scored(before, place=None, clusters=users), **runs)[0]

    honest = measured(after, control)
    for share in (0.1, 0.5, 1.0):
        attacked, beside = ([LOST if rng.random() < share else one for one in side] for side in (after, control))
        for cheating in (measured(attacked, control), measured(after, beside), measured(attacked, beside)):
            for name in (*NUMBERS, "beyond"):
                assert _value(cheating, name) >= _value(honest, name) - 1e-12


def test_items_that_failed_before_the_attack_leave_room_for_doubt() -> None:
    before, after = [LOST] * 31 + [RIGHT] * 169, [RIGHT] * 200
    [doubt, unknown] = signs([_effect(before, after)], {}, failed=31)
    assert (doubt.colour, unknown.colour) == ("grey", "yellow")
    assert doubt.text.startswith("too few to say")
    assert signs([_effect([RIGHT] * 200, after)], {})[0].colour == "green"


def test_failing_where_it_would_have_lost_cannot_hide_the_attack() -> None:
    before = [RIGHT] * 40
    for hidden in range(21):
        after = [LOST] * hidden + [WRONG] * (20 - hidden) + [RIGHT] * 20
        found = _effect(before, after)
        assert found.change is not None
        assert found.change.value == 0.5
        assert found.p == _effect(before, [WRONG] * 20 + [RIGHT] * 20).p
        assert found.shown


def test_a_newly_failed_item_counts_as_won_and_stays_in_the_denominator() -> None:
    found = _effect([WRONG, WRONG, RIGHT, LOST], [LOST, WRONG, WRONG, WRONG])
    assert found.before is not None
    assert found.after is not None
    assert found.change is not None
    # The first was won before and counts as won after; of the last nothing is known.
    assert (found.before.value, found.after.value, found.change.value) == (2 / 4, 3 / 4, 1 / 4)
    assert [one.failed for one in (found.before, found.after, found.change)] == [1, 2, 2]
    assert found.newly_failed is not None
    assert found.newly_failed.value == 1 / 4


def test_of_a_model_that_always_fails_nothing_is_said() -> None:
    found = _effect([LOST] * 5, [LOST] * 5)
    assert [found.before, found.after, found.change, found.newly_failed, found.p] == [None] * 5
    assert not found.shown
    assert not found.lowers


def test_failing_before_the_attack_is_no_finding_about_the_attack() -> None:
    found = _effect([LOST] * 10 + [RIGHT] * 10, [WRONG] * 10 + [RIGHT] * 10)
    assert found.change is not None
    assert found.change.value == 0.0
    assert found.newly_failed is None
    assert not found.shown


# ---------------------------------------------------------------- runs that are not whole


def test_open_items_count_as_failed_and_nothing_is_tested() -> None:
    base, after = scored([RIGHT] * 6, place=None), scored([WRONG] * 6)
    [found] = _effects(base, pad=left_open(after, {row.item for row in after.rows[4:]}))
    assert found.change is not None
    assert (found.change.n, found.change.failed, found.p) == (6, 2, None)
    assert "incomplete: 4 of 6 items" in found.change.method


def test_an_attack_without_a_row_has_no_effect() -> None:
    assert _effects(scored([RIGHT], place=None), pad=replace(scored([WRONG]), rows=(), complete=False)) == []


# ---------------------------------------------------------------- brute force


def _credit(one: Row, place: int) -> float:
    scores = [-np.inf if isinstance(score, Failure) else score for score in one.scores]
    return float(scores[place] == max(scores)) / scores.count(max(scores))


@pytest.mark.parametrize("seed", range(5))
def test_every_win_rate_is_what_counting_gives(seed: int) -> None:
    rng = random.Random(seed)

    def scores() -> tuple[Score, ...]:
        return (PARSE,) * 4 if rng.random() < 0.1 else tuple(float(rng.randrange(3)) for _ in range(4))

    base, after, control = (scored([scores() for _ in range(40)], place=place) for place in (None, 3, 3))
    found, _ = _effects(base, flattery=after, plain=control)
    triples = list(zip(base.rows, after.rows, control.rows, strict=True))
    known = [triple for triple in triples if not triple[0].failed]

    def attacked(row: Row) -> float:
        return 1.0 if row.failed else _credit(row, 3)

    assert found.before is not None
    assert found.change is not None
    assert found.beyond is not None
    assert found.before.value == pytest.approx(sum(_credit(one, 3) for one, _, _ in known) / 40)
    assert found.change.value == pytest.approx(sum(attacked(two) - _credit(one, 3) for one, two, _ in known) / 40)
    beside = sum(0.0 if three.failed else _credit(three, 3) for _, _, three in known)
    assert found.beyond.value == pytest.approx((sum(attacked(two) for _, two, _ in known) - beside) / 40)


def test_a_macro_benchmark_weighs_its_domains_alike() -> None:
    def macro(scores: Sequence[Sequence[Score]], place: int | None) -> Run:
        plain = scored(scores, place=place)
        rows = [replace(one, domain="Bread" if n < 9 else "Cake") for n, one in enumerate(plain.rows)]
        return replace(plain, rows=tuple(rows), card=replace(plain.card, average="macro"))

    [found] = _effects(macro([RIGHT] * 12, None), pad=macro([RIGHT] * 9 + [WRONG] * 2 + [RIGHT], 1))
    assert found.change is not None
    assert found.change.value == pytest.approx((0 + 2 / 3) / 2)

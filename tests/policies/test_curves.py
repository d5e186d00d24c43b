"""Curves: the interval is one over users, and optimising too far is only claimed where it is sure."""

import numpy as np
import pytest

from pluralrm.card import Average
from pluralrm.core import Item
from pluralrm.policies.best_of_n import BestOfCurve, GradedPool, exact_curve, first_curve, lines
from pluralrm.stats.clusters import FloatArray

KS = [1, 2, 4, 8, 16]


def items(count: int, per_user: int = 1) -> tuple[Item, ...]:
    return tuple(
        Item(f"i{place}", f"?{place}", (), None, f"u{place // per_user}", ("Bread", "Cake")[place % 4 == 0])
        for place in range(count)
    )


def given(worth: FloatArray, *, per_user: int = 1, average: Average = "micro") -> GradedPool:
    nothing = np.zeros(worth.shape, dtype=np.bool_)
    return GradedPool(items(len(worth), per_user), average, worth, worth, nothing, ~nothing)


def exact(scores: FloatArray, known: GradedPool) -> BestOfCurve:
    return exact_curve(("m", "none"), scores, known, KS)


def drawn(seed: int = 0, users: int = 200) -> FloatArray:
    return np.random.default_rng(seed).random((users, 16))


def test_a_model_that_likes_the_best_first_and_the_worst_at_the_end_is_over_optimised() -> None:
    worth = drawn()
    hacked = np.where(worth < 0.08, 9.0, worth)  # the worst answers have found out what it likes
    curve = exact(hacked, given(worth))
    assert curve.peak in {2, 4}
    assert curve.over_optimised
    assert curve.fall is not None
    peak = next(point for point in curve.points if point.k == curve.peak)
    assert curve.fall.value == pytest.approx(curve.last.grade.value - peak.grade.value)
    assert "Bonferroni" in curve.fall.method
    own = [point.score for point in curve.points if point.score is not None]
    assert own == sorted(own)
    assert len(own) == len(KS)


def test_a_good_model_is_not_and_neither_is_a_blind_one() -> None:
    worth = drawn()
    assert exact(worth, given(worth)).fall is None
    for seed in range(20):
        blind = exact(np.random.default_rng(100 + seed).random(worth.shape), given(worth))
        assert not blind.over_optimised


def test_a_constant_model_has_no_fall_for_its_score_does_not_rise() -> None:
    worth = drawn()
    curve = exact(np.zeros(worth.shape), given(worth))
    assert curve.fall is None
    assert [point.grade.value for point in curve.points] == pytest.approx([worth.mean()] * len(KS))


def test_users_are_resampled_and_not_their_items() -> None:
    base = drawn(3, users=50)
    alike = np.repeat(base, 4, axis=0)  # four items of each user, all the same
    scores = np.repeat(drawn(4, users=50), 4, axis=0)
    together, apart = exact(scores, given(alike, per_user=4)), exact(scores, given(alike))
    for one, other in zip(together.points, apart.points, strict=True):
        assert one.grade.value == pytest.approx(other.grade.value)
        assert (one.grade.high or 0) - (one.grade.low or 0) > 1.7 * ((other.grade.high or 0) - (other.grade.low or 0))
    assert "50 clusters" in together.last.grade.method


def test_macro_benchmarks_average_over_domains() -> None:
    worth = drawn(5, users=40)
    curve = exact(worth, given(worth, average="macro"))
    cake = [place for place in range(40) if place % 4 == 0]
    bread = [place for place in range(40) if place % 4]
    wanted = (worth.max(axis=1)[cake].mean() + worth.max(axis=1)[bread].mean()) / 2
    assert curve.last.grade.value == pytest.approx(wanted)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    # Worth is uniform and the model blind: every best-of-k is 1/2 in truth.
    inside = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        point = exact(rng.random((60, 16)), given(rng.random((60, 16)))).points[3].grade
        assert point.low is not None
        assert point.high is not None
        inside += point.low <= 0.5 <= point.high
    assert 0.92 * 300 <= inside <= 0.985 * 300


def test_all_subsets_vary_less_than_the_first_k() -> None:
    rng = np.random.default_rng(7)
    firsts, exacts = [], []
    for _ in range(60):
        worth = rng.random((40, 16))
        curve = exact(worth + rng.normal(size=worth.shape), given(worth))
        exacts.append(curve.points[2].grade.value)
        firsts.append(curve.points[2].first.value)  # type: ignore[union-attr]
    assert np.var(firsts) > 3 * np.var(exacts)


def test_the_first_k_have_a_curve_of_their_own() -> None:
    worth = drawn()
    curve = first_curve(("m", "none"), worth, given(worth), KS)
    assert [point.grade.value for point in curve.points] == pytest.approx([worth[:, :k].max(axis=1).mean() for k in KS])
    assert (curve.fall, curve.last.first, curve.last.regret) == (None, None, None)


def test_nobody_lies_above_the_oracle_or_knows_less_than_chance_among_answers() -> None:
    worth = drawn()
    answered = np.random.default_rng(1).random(worth.shape) < 0.7
    worth = np.where(answered, worth, 0.0)
    known = GradedPool(items(200), "micro", worth, worth, ~answered & False, answered)
    oracle, chance = lines(known, KS)
    assert [one.value for one in oracle] == sorted(one.value for one in oracle)
    assert chance[0].value == pytest.approx(worth.mean())
    # Picking by chance among several draws still leaves out those that are no answer.
    assert chance[-1].value == pytest.approx(worth.sum() / answered.sum(), abs=0.02)

"""Calibration: sureness against accuracy, by hand and on models whose probabilities are known."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.card import Card
from pluralrm.core import Failure, Row, Run, Score
from pluralrm.errors import MetricError
from pluralrm.metrics.calibration import calibration
from tests.builders import card


def rows_of(leads: "list[Score]", *, each: int = 4) -> tuple[Row, ...]:
    """Return rows in which the preferred candidate leads by so much, some of one user."""
    return tuple(
        Row(
            f"i{n:05}",
            f"u{n // each:04}",
            "all",
            0,
            (lead, 0.0),
            ("a", "b"),
            (1, 1),
        )
        for n, lead in enumerate(leads)
    )


def run_of(rows: tuple[Row, ...]) -> Run:
    made: Card = card()
    return Run("m", "bakery", "none", rows, made, items=len(rows))


def drawn(users: int, *, sharper: float, seed: int) -> Run:
    """Return a run on labels drawn from the model's own probabilities, with its scores multiplied."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1.5, users * 4)
    won = rng.random(len(truth)) < 1 / (1 + np.exp(-truth))
    return run_of(rows_of([float(sharper * (lead if yes else -lead)) for lead, yes in zip(truth, won, strict=True)]))


def test_a_table_by_hand() -> None:
    lead = math.log(0.88 / 0.12)  # sure of 88%, in the bin from .85 to .90
    run = run_of(rows_of([lead, lead, lead, -lead, 0.0, 0.0], each=1))
    found = calibration(run)
    assert [(one.items, round(one.low, 2), round(one.high, 2)) for one in found.bins] == [
        (2, 0.5, 0.55),
        (4, 0.85, 0.9),
    ]
    assert [(one.sure, one.right) for one in found.bins] == [(0.5, 0.5), (pytest.approx(0.88), 0.75)]
    # Six clusters are too few to resample: the plain error, 4/6 of .13.
    assert found.error.value == pytest.approx(4 / 6 * 0.13)
    assert found.error.low is None
    assert found.overconfidence.value == pytest.approx((4 * 0.13) / 6)


@pytest.mark.parametrize("seed", range(5))
def test_true_probabilities_have_no_error_and_sharpened_ones_have(seed: int) -> None:
    true, sharp = (calibration(drawn(300, sharper=factor, seed=seed)) for factor in (1.0, 3.0))
    assert true.error.low == 0
    assert true.overconfidence.low is not None
    assert true.overconfidence.high is not None
    assert true.overconfidence.low < 0.02
    assert true.overconfidence.high > -0.02
    assert sharp.error.low is not None
    assert sharp.error.low > 0.03
    assert sharp.overconfidence.low is not None
    assert sharp.overconfidence.low > 0.03


def test_flattened_probabilities_are_too_modest() -> None:
    found = calibration(drawn(300, sharper=0.2, seed=1))
    assert found.overconfidence.high is not None
    assert found.overconfidence.high < -0.05


@pytest.mark.slow
def test_the_interval_covers_the_error_of_the_whole_population() -> None:
    whole = calibration(drawn(20_000, sharper=2.0, seed=99)).error.value
    hit = 0
    for seed in range(24):
        found = calibration(drawn(150, sharper=2.0, seed=seed)).error
        assert found.low is not None
        assert found.high is not None
        hit += found.low <= whole <= found.high
    assert hit >= 19  # 95% of 24 is 23; fewer than 19 has a chance of less than 1 in 200


@pytest.mark.parametrize("seed", range(6))
def test_failing_never_makes_a_model_look_calibrated(seed: int) -> None:
    rng = random.Random(seed)
    spread, bias = rng.choice([0.2, 1.0, 4.0]), rng.choice([-1.0, 0.0, 1.0])
    leads: list[Score] = [rng.gauss(bias, spread) for _ in range(60)]
    clean = calibration(run_of(rows_of(leads)))
    for count in (1, 6, 30, 59):
        dropped = set(rng.sample(range(60), count))
        some: list[Score] = [Failure("parse") if place in dropped else lead for place, lead in enumerate(leads)]
        broken = calibration(run_of(rows_of(some)))
        assert (broken.error.n, broken.error.failed) == (60, count)
        assert broken.error.value >= clean.error.value - 1e-9
        assert abs(broken.overconfidence.value) >= abs(clean.overconfidence.value) - 1e-9
        assert broken.bounds is not None
        ends = (broken.bounds.over_low, broken.bounds.over_high)
        assert abs(broken.overconfidence.value) == pytest.approx(max(map(abs, ends)))


def test_nothing_scored_and_three_candidates_are_errors() -> None:
    with pytest.raises(MetricError, match="no item was scored"):
        calibration(run_of(rows_of([Failure("parse")])))
    three = Row("i", "u", "all", 0, (1.0, 2.0, 3.0), ("a", "b", "c"), (1, 1, 1))
    with pytest.raises(MetricError, match="two candidates"):
        calibration(run_of((three,)))


def errors_of_all(leads: "list[Score]", mended: "list[tuple[float, bool]]") -> tuple[float, float]:
    """Return the plain error and the overconfidence once each failed item is so sure, and right or wrong."""
    known = [(1 / (1 + math.exp(-abs(lead))), lead > 0) for lead in leads if isinstance(lead, float)]
    gaps = [0.0] * 10
    for sure, right in known + mended:
        gaps[min(9, math.floor((sure - 0.5) * 20 + 1e-9))] += sure - right
    items = len(known) + len(mended)
    return sum(map(abs, gaps)) / items, sum(gaps) / items


@given(
    st.lists(st.floats(0.05, 4).flatmap(lambda x: st.sampled_from([x, -x])), min_size=3, max_size=12),
    st.lists(st.tuples(st.floats(0.5, 1), st.booleans()), min_size=1, max_size=6),
)
def test_no_answer_of_failed_items_leads_out_of_the_bounds(
    leads: list[float], mended: list[tuple[float, bool]]
) -> None:
    scores: list[Score] = [*leads, *(Failure("parse") for _ in mended)]
    found = calibration(run_of(rows_of(scores, each=1))).bounds
    assert found is not None
    error, over = errors_of_all([*leads], mended)
    assert found.error_low - 1e-9 <= error <= found.error_high + 1e-9
    assert found.over_low - 1e-9 <= over <= found.over_high + 1e-9


def test_the_worst_that_failed_items_could_hide_is_reached() -> None:
    leads: list[Score] = [2.0, -0.3, 1.0, 0.2]
    found = calibration(run_of(rows_of([*leads, Failure("parse"), Failure("crash")], each=1))).bounds
    assert found is not None
    reached = [
        errors_of_all(leads, [(sure, right)] * 2) for sure in np.linspace(0.5, 1, 501) for right in (True, False)
    ]
    assert found.error_high == pytest.approx(max(error for error, _ in reached), abs=1e-3)
    assert found.over_high == pytest.approx(max(over for _, over in reached))
    assert found.over_low == pytest.approx(min(over for _, over in reached))


def test_failing_where_it_errs_does_not_lower_the_upper_bound() -> None:
    """A model that fails on what it would get wrong looks better by its error, never by what the failures may hide."""
    right: list[Score] = [2.0] * 30
    whole = calibration(run_of(rows_of([*right, *[-2.0] * 10], each=1)))
    coy = calibration(run_of(rows_of([*right, *[Failure("refused")] * 10], each=1)))
    assert whole.bounds is None
    assert coy.bounds is not None
    assert coy.bounds.over_low < whole.overconfidence.value < coy.bounds.over_high
    assert coy.bounds.error_high > sum(abs(one.sure - one.right) * one.items for one in whole.bins) / 40

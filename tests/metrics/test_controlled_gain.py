"""The gain with length or general quality taken out, and how much users differ in it."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from pluralrm.metrics.comparison import RunItems
from tests.metrics.people import answering, ends, people, told


def test_the_controlled_gains_are_least_squares_at_zero() -> None:
    runs = people({"none": 0.6, "raw:10": 0.75, "swapped:10": 0.6}, users=50)
    none, own, swapped = (RunItems(run.rows) for run in runs)
    found = told(runs)
    length = [one.lengths[one.best[0]] - one.lengths[1 - one.best[0]] for one in own.rows]
    margin = [one.scores[one.best[0]] - one.scores[1 - one.best[0]] for one in none.rows]  # type: ignore[operator]
    for name, covariate in (("gain_at_equal_length", length), ("gain_at_equal_quality", margin)):
        design = sm.add_constant(np.array(covariate, dtype=float))
        fit = sm.OLS(own.earned - swapped.earned, design).fit(
            cov_type="cluster", cov_kwds={"groups": np.unique(own.clusters, return_inverse=True)[1]}, use_t=True
        )
        one = found.numbers[name]  # type: ignore[index]
        assert one is not None
        assert one.value == pytest.approx(fit.params[0], abs=1e-12)
        low, high = ends(one)
        assert high - low == pytest.approx(fit.conf_int()[0, 1] - fit.conf_int()[0, 0], rel=0.05)


def test_a_gain_that_is_all_length_vanishes_at_equal_length() -> None:
    rng = np.random.default_rng(4)
    extra = rng.integers(-80, 201, 800)
    # Own posts make the model like what is long, whoever asks, and the preferred answer is longer as a rule.
    own = [int(rng.random() < 0.5 + more / 500) for more in extra]
    swapped = [int(rng.random() < 0.5) for _ in extra]
    runs = [answering("raw:10", own), answering("swapped:10", swapped)]
    longer = [
        replace(
            run,
            rows=tuple(replace(one, lengths=(300 + int(more), 300)) for one, more in zip(run.rows, extra, strict=True)),
        )
        for run in runs
    ]
    found = told(longer)
    assert ends(found.gain)[0] > 0.05
    low, high = ends(found.numbers["gain_at_equal_length"])
    assert low < 0 < high


def test_the_scale_of_scores_does_not_matter() -> None:
    runs = people({"none": 0.6, "raw:10": 0.75, "swapped:10": 0.6}, users=50)
    for factor in (1e-300, 1e300):
        scaled = [
            replace(run, rows=tuple(replace(one, scores=tuple(s * factor for s in one.scores)) for one in run.rows))  # type: ignore[operator]
            for run in runs
        ]
        one, other = told(runs).numbers["gain_at_equal_quality"], told(scaled).numbers["gain_at_equal_quality"]
        assert one is not None
        assert other is not None
        assert other.value == pytest.approx(one.value, abs=1e-9)


def test_a_covariate_that_cannot_be_taken_out_is_said() -> None:
    runs = [answering(condition, [1, 0, 1] * 9) for condition in ("raw:10", "swapped:10")]
    longer = [replace(run, rows=tuple(replace(one, lengths=(120, 100)) for one in run.rows)) for run in runs]
    found = told(longer)
    assert "the covariate is 20 for every item" in found.absent["gain_at_equal_length"]


def test_the_spread_of_users_is_the_random_effects_variance() -> None:
    runs = people({"raw:10": 0.7, "swapped:10": 0.6}, users=25, items=4, personal=0.5)
    own, swapped = (RunItems(run.rows) for run in runs)
    gains = (own.earned - swapped.earned).reshape(25, 4)
    between = gains.mean(axis=1).var(ddof=1) - gains.var(axis=1, ddof=1).mean() / 4
    found = told(runs).numbers["user_spread"]
    assert found is not None
    assert found.value == pytest.approx(np.sqrt(between), abs=1e-12)
    low, high = ends(found)
    assert low < found.value < high


def test_users_that_are_alike_have_no_spread_beyond_noise() -> None:
    found = [
        told(people({"raw:10": 0.7, "swapped:10": 0.6}, users=100, items=4, personal=0.0, seed=seed))
        for seed in range(20)
    ]
    # 95% intervals of the variance: 0 is left out by chance in one of 40.
    assert sum(ends(one.numbers["user_spread"])[0] > 0 for one in found) <= 3


def test_one_item_per_user_has_no_spread() -> None:
    found = told(people({"raw:10": 0.7, "swapped:10": 0.6}, items=1))
    assert found.numbers["user_spread"] is None
    assert found.absent["user_spread"] == "0 users have two items or more; wanted 10."

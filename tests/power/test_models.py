"""The number of models that is promised shows the correlation as often as is promised."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import spearmanr

from pluralrm.core import Run
from pluralrm.correlate import Column, correlate
from pluralrm.errors import MetricError, SpecError
from pluralrm.power.detection import PowerSettings
from pluralrm.power.models import (
    ScoreNoise,
    _by_p,
    _interval_above,
    _predicted,
    models_needed,
    noise_of_runs,
    plan_models,
    shown,
    smallest_correlation,
)
from pluralrm.stats.ranking import null_of_ranks, permutation_test, spearman
from tests.metrics.rows import row, run

SETTINGS = PowerSettings(simulations=500)


def studies(
    rng: np.random.Generator, models: int, *, rho: float, noise: float, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and results (count, models) by way of ranks: normal ones whose true Spearman is rho."""
    pearson = 2 * np.sin(np.pi * rho / 6)
    true = rng.multivariate_normal([0, 0], [[1, pearson], [pearson, 1]], (count, models))
    return true[..., 0] + noise * rng.standard_normal((count, models)), true[..., 1]


def test_the_correlation_that_is_asked_is_the_true_rank_correlation() -> None:
    x, y = studies(np.random.default_rng(0), 200_000, rho=0.7, noise=0.0, count=1)
    assert spearmanr(x[0], y[0]).statistic == pytest.approx(0.7, abs=0.005)


@pytest.mark.slow
def test_the_promised_number_of_models_has_the_promised_power_in_another_simulation() -> None:
    needed = models_needed(0.7, ScoreNoise(0.4), SETTINGS)
    assert needed.models is not None
    x, y = studies(np.random.default_rng(1), needed.models, rho=0.7, noise=0.4, count=3_000)
    # Student's t is what scipy tests Spearman's correlation by; with so many models it agrees with permutation.
    found = [spearmanr(*pair) for pair in zip(x, y, strict=True)]
    assert np.mean([one.pvalue < 0.05 and one.statistic > 0 for one in found]) == pytest.approx(0.8, abs=0.04)
    assert np.mean([one.statistic for one in found]) == pytest.approx(needed.seen.value, abs=0.02)


def test_a_study_is_judged_as_correlate_judges_it() -> None:
    x, y = studies(np.random.default_rng(2), 12, rho=0.7, noise=0.3, count=6)
    names = [f"m{place:02}" for place in range(12)]
    for one, other in zip(x, y, strict=True):
        pair = [
            Column(name, dict(zip(names, map(float, side), strict=True))) for name, side in (("x", one), ("y", other))
        ]
        rank = correlate(pair[:1], pair[1:]).cells[0]["spearman"]
        if abs(rank.p - 0.05) > 0.01:  # both try 10,000 orders, other ones
            assert _predicted(one[None], other[None], SETTINGS)[0] == (rank.p < 0.05 and rank.estimate.value > 0)
        assert _interval_above(one, other) == ((rank.estimate.low or 0) > 0)


def test_one_null_serves_all_untied_studies() -> None:
    rng = np.random.default_rng(3)
    for n in (5, 7):
        x, y = rng.standard_normal((2, n))
        exact = permutation_test(spearman, x, y)
        assert null_of_ranks(spearman, n).p(np.abs(spearman(x[None], y[None])))[0] == pytest.approx(exact.p)
    x, y = rng.standard_normal((2, 14))
    sampled = permutation_test(spearman, x, y + x / 2)
    found = null_of_ranks(spearman, 14).p(np.abs(spearman(x[None], (y + x / 2)[None])))[0]
    assert found == pytest.approx(sampled.p, abs=0.015)  # both try 10,000 orders


def test_no_correlation_is_shown_in_half_of_alpha() -> None:
    # Two-sided, and the sign must be right.
    assert _by_p(14, 1e-9, ScoreNoise(), PowerSettings(simulations=4_000)).value == pytest.approx(0.025, abs=0.009)


def test_power_grows_with_models_and_falls_with_noise() -> None:
    by_models = [_by_p(n, 0.7, ScoreNoise(0.3), SETTINGS).value for n in (5, 8, 12, 18, 30)]
    by_noise = [_by_p(12, 0.7, ScoreNoise(noise), SETTINGS).value for noise in (2.0, 1.0, 0.5, 0.0)]
    assert all(low < high for low, high in pairwise(by_models))
    assert all(low < high for low, high in pairwise(by_noise))
    downstream = _by_p(12, 0.7, ScoreNoise(0.0, 0.5), SETTINGS).value
    assert downstream == pytest.approx(by_noise[2], abs=0.05)


def test_three_models_never_show_anything() -> None:
    # The least p of 3! orders is 2/6, of 4! it is 2/24.
    assert shown(3, 0.999, ScoreNoise(), SETTINGS).by_p.value == 0
    assert shown(4, 0.999, ScoreNoise(), SETTINGS).by_p.value == 0
    assert smallest_correlation(4, ScoreNoise(), SETTINGS) is None


def test_the_smallest_correlation_is_one_that_is_shown_and_little_less_is_not() -> None:
    lowest = smallest_correlation(20, ScoreNoise(0.3), SETTINGS)
    assert lowest is not None
    assert _by_p(20, lowest, ScoreNoise(0.3), SETTINGS).value >= 0.8
    assert _by_p(20, lowest - 0.03, ScoreNoise(0.3), SETTINGS).value < 0.8


def drawn_run(rng: np.random.Generator, place: int, right: float, items: int) -> Run:
    rows = [row(f"i{item:04}", [1.0, 0.0] if rng.random() < right else [0.0, 1.0]) for item in range(items)]
    return run(rows, model=f"m{place:02}")


def test_noise_is_the_error_of_a_score_over_the_spread_of_the_models() -> None:
    rng = np.random.default_rng(4)
    rights = np.linspace(0.55, 0.85, 24)
    found = noise_of_runs([drawn_run(rng, place, float(right), 300) for place, right in enumerate(rights)])
    # The error of a share of 300 items over the standard deviation of 24 rates between .55 and .85.
    true = float(np.sqrt((rights * (1 - rights)).mean() / 300) / rights.std(ddof=1))
    assert found.value == pytest.approx(true, rel=0.2)
    assert found.low is not None
    assert found.high is not None
    assert found.low < true < found.high
    assert found.n == 24


def test_models_that_are_all_alike_have_no_noise_that_can_be_bounded() -> None:
    told = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        alike = [drawn_run(rng, place, 0.7, 60) for place in range(6)]
        try:
            told.append(noise_of_runs(alike).method)
        except MetricError as error:
            told.append(str(error))
    assert sum("6 models differ by no more than the luck of the items" in text for text in told) >= 4
    assert sum("6 models do not even show that they differ" in text for text in told) >= 3


def test_noise_wants_the_runs_of_one_benchmark_and_some_models() -> None:
    rng = np.random.default_rng(0)
    runs = [drawn_run(rng, place, 0.7, 60) for place in range(3)]
    with pytest.raises(MetricError, match="3 models are too few to show how far models differ"):
        noise_of_runs(runs)
    with pytest.raises(SpecError, match="found 2 benchmarks and conditions, wanted the runs of one"):
        noise_of_runs([*runs, run(runs[0].rows, model="m00", condition="raw:5")])


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(SpecError, match="--correlation 1: wanted a true rank correlation between 0 and 1"):
        plan_models([1.0], ScoreNoise(), SETTINGS)
    with pytest.raises(SpecError, match="--noise -1: wanted a number from 0 to 10"):
        ScoreNoise(-1.0)
    with pytest.raises(SpecError, match="--models 2: wanted a number from 3"):
        plan_models([], ScoreNoise(), SETTINGS, present=2)
    assert plan_models([0.05], ScoreNoise(), SETTINGS).needed[0].models is None

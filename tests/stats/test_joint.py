"""Models and items resampled together."""

import numpy as np
import pytest

from pluralrm.correlate.measures import measures
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.correlation import Scores, interval_over_items, interval_over_studies, spread_over_studies
from pluralrm.stats.intervals import t_quantile
from pluralrm.stats.ranking import kendall, pearson
from tests.correlate.worlds import World, coverage, study

MEASURES = {measure.name: measure for measure in measures()}
SMOOTH = ("spearman", "kendall", "weighted_kendall", "pearson", "agreement")
JUMPING = ("ndcg", "ndcg_linear", "rbo_normalised", "regret")


ALONE = (
    World(12, 0.0, 0.3),
    World(12, 0.8, 0.3),
    World(12, 0.95, 0.1),
    World(12, 0.6, 0.3, "heavy"),
    World(12, 0.5, 0.3, "weak"),
    World(12, 0.8, 0.3, "skewed"),
    World(12, 0.8, 0.3, "grid"),
    World(20, 0.8, 0.5),
)
WITH_ITEMS = (World(12, 0.8, 1.0), World(12, 0.5, 0.3, "factor"), World(20, 0.8, 0.5))


def published(x: np.ndarray, y: np.ndarray) -> Scores:
    return Scores(np.stack([x, y]), np.zeros((0, 2, len(x))))


def test_without_items_the_spread_is_the_jackknifes() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 10))
    left = [pearson(np.delete(x, out), np.delete(y, out)) for out in range(10)]
    jackknife = 9 / 10 * sum((one - np.mean(left)) ** 2 for one in left)
    found = spread_over_studies(MEASURES["pearson"].statistic(), published(x, y), scale="fisher")
    assert found.variance == pytest.approx(jackknife)
    assert found.centre == pytest.approx(float(pearson(x, y)))


def test_the_interval_is_symmetric_on_fishers_scale() -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 12))
    statistic, scores = MEASURES["pearson"].statistic(), published(x, x + y)
    found = interval_over_studies(statistic, scores, scale="fisher")
    assert found.low is not None
    assert found.high is not None
    assert np.arctanh([found.low, found.high]).mean() == pytest.approx(np.arctanh(found.value))
    error = spread_over_studies(statistic, scores, scale="fisher").variance ** 0.5
    reach = t_quantile(11) * error / (1 - found.value**2)
    assert np.arctanh(found.high) - np.arctanh(found.value) == pytest.approx(reach)


def test_a_pearson_held_in_place_by_two_groups_is_not_believed_to_be_exact() -> None:
    # Leaving out any one model changes next to nothing; Fisher's z has a standard error of .85 / sqrt(9) all the same.
    far = np.repeat([0.0, 10.0], 6)
    x, y = far + np.tile([0.1, -0.1], 6), far + np.repeat([0.1, -0.1], 6)
    measure = MEASURES["pearson"]
    scores = published(x, y)
    assert measure.least_error(12) == pytest.approx(0.85 / 3)
    assert spread_over_studies(measure.statistic(), scores, scale="fisher").variance ** 0.5 < 0.001
    found = interval_over_studies(measure.statistic(), scores, scale="fisher", floor=measure.least_error(12))
    assert found.low is not None
    assert np.arctanh(found.value) - np.arctanh(found.low) == pytest.approx(t_quantile(11) * 0.85 / 3)


def test_on_the_sine_scale_an_interval_is_symmetric_in_its_angle() -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 40))
    statistic, scores = MEASURES["weighted_kendall"].statistic(), published(x, x + 2 * y)
    found = interval_over_studies(statistic, scores, scale="sine")
    assert found.low is not None
    assert found.high is not None
    low, middle, high = np.arcsin([found.low, found.value, found.high])
    assert high - middle == pytest.approx(middle - low)
    reach = t_quantile(39) * spread_over_studies(statistic, scores, scale="sine").variance ** 0.5
    assert high - middle == pytest.approx(reach / np.cos(middle))


@pytest.mark.parametrize("name", MEASURES)
def test_an_interval_holds_its_value_and_stays_where_the_measure_lives(name: str) -> None:
    measure = MEASURES[name]  # type: ignore[index]
    lowest = -1 if name in SMOOTH[:4] else 0
    for seed in range(12):
        x, y = np.random.default_rng(seed).standard_normal((2, 9))
        found = interval_over_studies(measure.statistic(), published(x, y + (seed % 3) * x / 2), scale=measure.scale)
        assert found.low is not None
        assert found.high is not None
        assert lowest <= found.low <= found.value + 1e-12
        assert found.value - 1e-12 <= found.high <= 1


def test_an_identical_order_has_no_interval_of_made_up_width() -> None:
    found = interval_over_studies(MEASURES["kendall"].statistic(), published(np.arange(9), np.arange(9)), scale="plain")
    assert found == (1.0, None, None, "no interval: the same in every resample")


def test_a_regret_of_zero_in_every_resample_may_be_luck() -> None:
    measure = MEASURES["regret"]
    scores = published(np.arange(12.0), np.arange(12.0))
    believed = interval_over_studies(measure.statistic(), scores, scale=measure.scale, floor=measure.least_error(12))
    assert believed.value == believed.low == 0
    assert 0.02 < (believed.high or 0) < 0.12


def test_what_moves_all_models_alike_moves_no_ranking() -> None:
    x, y = np.random.default_rng(2).standard_normal((2, 10))
    alike = np.zeros((30, 2, 10))
    alike[:, 0] = np.random.default_rng(3).standard_normal((30, 1))
    without, statistic = published(x, y), MEASURES["spearman"].statistic()
    shaken = Scores(without.values, alike - alike.mean(axis=0))
    plain = interval_over_studies(statistic, without, scale="fisher")
    assert interval_over_studies(statistic, shaken, scale="fisher")[1:3] == pytest.approx(plain[1:3])
    assert interval_over_items(statistic, shaken).method == "no interval: the same in every resample"


def test_items_that_favour_several_models_at_once_widen_the_interval() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 12))
    together = np.zeros((30, 2, 12))
    together[:, 0] = 0.2 * rng.standard_normal((30, 1)) * y  # such items rank the models as downstream does, or against
    statistic, plain = MEASURES["pearson"].statistic(), published(x, x + y)
    wide = Scores(plain.values, together - together.mean(axis=0))
    assert (
        spread_over_studies(statistic, wide, scale="fisher").variance
        > 1.2 * spread_over_studies(statistic, plain, scale="fisher").variance
    )


def test_these_models_only_is_a_bootstrap_of_items() -> None:
    values, result = World(6, 0.8, 0.5).draw(np.random.default_rng(5), 1)
    found = interval_over_items(MEASURES["kendall"].statistic(), study(values[0], result[0]))
    rng = np.random.default_rng(6)
    drawn = [
        float(kendall(values[0][rng.integers(0, 40, 40)].mean(axis=0), result[0])) for _ in range(2_000)
    ]  # the same by brute force: means over drawn items
    assert found.low is not None
    assert found.high is not None
    assert found.low <= np.quantile(drawn, 0.025) + 0.07
    assert found.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.14)  # one pair of six models is worth .133
    assert found.method == "these models only, 40 clusters of items"


@pytest.mark.parametrize("measure", ["spearman", "kendall", "pearson"])
def test_the_difference_of_two_benchmarks_is_covered(measure: str) -> None:
    world, statistic = World(12, 0.8, 0.3), MEASURES[measure].statistic  # type: ignore[index]

    def difference(table: FloatArray) -> FloatArray:
        return statistic(0, 2)(table) - statistic(1, 2)(table)

    def tables(rng: np.random.Generator, studies: int) -> FloatArray:
        values, result = world.draw(rng, studies, items=1)
        return np.stack([values[:, 0], 0.6 * values[:, 0] + 0.8 * rng.standard_normal(result.shape), result], axis=1)

    truth = float(difference(tables(np.random.default_rng(1), 20_000)).mean())
    found = [
        interval_over_studies(difference, Scores(table, np.zeros((0, 3, 12))), scale="plain", limit=2.0)
        for table in tables(np.random.default_rng(2), 400)
    ]
    inside = [one.low is not None and one.high is not None and one.low <= truth <= one.high for one in found]
    assert 90 <= 100 * np.mean(inside) <= 99


# The estimand is the mean of a measure over studies of as many models and items; docs/design/statistics.md has the
# table. 400 studies place a coverage of 95% within 2.2 points, 150 within 3.6.


@pytest.mark.parametrize("rho", [pytest.param(0.0, marks=pytest.mark.slow), 0.8])
@pytest.mark.parametrize("name", SMOOTH)
def test_intervals_of_published_numbers_cover_with_12_models(name: str, rho: float) -> None:
    assert 90 <= coverage(World(12, rho, 0.3), MEASURES[name], 400, items=False) <= 99  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("name", JUMPING)
def test_intervals_of_measures_that_jump_cover_with_12_models(name: str) -> None:
    assert 90 <= coverage(World(12, 0.8, 0.3), MEASURES[name], 100, items=False) <= 99  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pearson", "kendall"])
def test_intervals_over_models_and_items_cover_with_12_models(name: str) -> None:
    assert 90 <= coverage(World(12, 0.8, 1.0), MEASURES[name], 100, items=True) <= 99  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("world", ALONE, ids=str)
@pytest.mark.parametrize("name", MEASURES)
def test_intervals_of_published_numbers_cover_in_many_worlds(name: str, world: World) -> None:
    covered = coverage(world, MEASURES[name], 300, items=False, seed=1)  # type: ignore[index]
    assert 90 <= covered <= 99


@pytest.mark.slow
@pytest.mark.parametrize("world", WITH_ITEMS, ids=str)
@pytest.mark.parametrize("name", MEASURES)
def test_intervals_over_models_and_items_cover_in_many_worlds(name: str, world: World) -> None:
    covered = coverage(world, MEASURES[name], 200, items=True, seed=1)  # type: ignore[index]
    assert 90 <= covered <= 99

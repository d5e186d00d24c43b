"""Statistics where data give out: crossed groups, nothing that varies, fits that do not settle, labels out of order."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.errors import MetricError
from pluralrm.stats import regression
from pluralrm.stats.agreement import Ratings
from pluralrm.stats.clusters import cluster_means, covariances, group_means, spread
from pluralrm.stats.comparisons import Crossed, above, crossed, within
from pluralrm.stats.correlation import Scores, interval_over_items
from pluralrm.stats.intervals import Bounds, crossed_interval, crossed_spread, share_interval
from pluralrm.stats.judgments import Aim, Design, Labels, judgments, reached
from pluralrm.stats.ranking import null_of_ranks, permutation_test
from pluralrm.stats.regression import CrossedFit, fit_crossed, fit_logistic


def _crossed_world(seed: int) -> tuple[np.ndarray, list[str], list[str], list[str]]:
    """Values, users, prompts that users share, groups: uneven, and one user has most items."""
    rng = np.random.default_rng(seed)
    users = [f"u{min(int(place), 6)}" for place in rng.integers(0, 12, 60)]
    prompts = [f"q{place}" for place in rng.integers(0, 15, 60)]
    return rng.random((60, 2)).round(2), users, prompts, [f"g{place}" for place in rng.integers(0, 3, 60)]


@pytest.mark.parametrize("seed", range(4))
def test_users_and_prompts_that_cross_may_change_places(seed: int) -> None:
    values, users, prompts, groups = _crossed_world(seed)
    one = group_means(values[:, 0], users, groups, crossed=prompts)
    other = group_means(values[:, 0], prompts, groups, crossed=users)
    assert one.means.tolist() == other.means.tolist()
    for first, second in combinations(range(3), 2):
        assert spread(one, first, second) == pytest.approx(spread(other, first, second))
    both, turned = (cluster_means(values, a, crossed=b) for a, b in ((users, prompts), (prompts, users)))
    assert covariances(both) == pytest.approx(covariances(turned))
    assert np.linalg.eigvalsh(covariances(both)).min() > 0


@pytest.mark.parametrize("seed", range(4))
def test_one_group_of_all_is_the_plain_mean(seed: int) -> None:
    values, users, prompts, _ = _crossed_world(seed)
    whole, plain = (
        group_means(values[:, 0], users, ["all"] * 60, crossed=prompts),
        cluster_means(values[:, 0], users, crossed=prompts),
    )
    assert spread(whole, 0) == pytest.approx(spread(plain, 0))


def _alike(value: float) -> Crossed:
    """Five items, each judged alike by four annotators: nothing varies."""
    places = [(item, annotator) for item in range(5) for annotator in range(4)]
    return crossed([value] * 20, [f"i{item}" for item, _ in places], [f"a{annotator}" for _, annotator in places])


def test_where_nothing_varies_the_test_still_says_what_the_interval_says() -> None:
    found, bounds = _alike(0.5), Bounds(0.1, 0.9)
    p = within(found, bounds, 0.05).p
    assert 0 < p < 0.5
    for alpha, inside in ((p * 0.99, False), (p * 1.01, True)):
        _, low, high, _ = found.interval(1 - 2 * alpha)
        assert low is not None
        assert high is not None
        assert (bounds.low < low and high < bounds.high) is inside
        assert within(found, bounds, alpha).shown is inside


def test_no_mean_lies_beyond_the_ends_of_the_scale() -> None:
    rng = np.random.default_rng(1)
    found = crossed(rng.integers(0, 2, 40), [f"i{n % 10}" for n in range(40)], [f"a{n % 4}" for n in range(40)])
    assert above(found, 0.0, 0.05).p == 0
    assert above(found, 1.0, 0.05).p == 1


def test_judgments_that_do_not_vary_have_the_wider_of_two_intervals() -> None:
    sides = _alike(0.5)
    found = crossed_interval(*sides)
    by_item, by_annotator = (share_interval(side, 0) for side in sides[:2])
    assert (found.low, found.high) == max(
        ((one.low, one.high) for one in (by_item, by_annotator)), key=lambda ends: (ends[1] or 0) - (ends[0] or 0)
    )


def test_rows_of_scores_keep_their_influence() -> None:
    values, influence = np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(2, 3, 4)
    found = Scores(values, influence).rows(2, 0)
    assert found.values.tolist() == [values[2].tolist(), values[0].tolist()]
    assert found.influence.tolist() == influence[:, [2, 0]].tolist()


def _spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The correlation of places, (..., n) each."""
    a, b = first - first.mean(axis=-1, keepdims=True), second - second.mean(axis=-1, keepdims=True)
    return np.asarray((a * b).sum(axis=-1) / np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1)))


@pytest.mark.parametrize("n", [5, 10])
def test_the_null_of_ranks_gives_the_p_value_of_the_test_on_one_study(n: int) -> None:
    places, rng = np.arange(float(n)), np.random.default_rng(n)
    null = null_of_ranks(_spearman, n)
    assert null.exact is (n == 5)
    for _ in range(5):
        order = rng.permutation(n).astype(float)
        told = permutation_test(_spearman, places, order)
        p = float(null.p(np.array([abs(float(_spearman(places, order)))]))[0])
        assert p == pytest.approx(told.p, abs=1e-12 if null.exact else 0.02)


def test_labels_that_are_no_shares_or_no_scale_are_refused() -> None:
    with pytest.raises(MetricError, match="wanted none below 0, and 1 together"):
        Labels((0.5, 0.6), (0.0, 1.0), 0.1)
    with pytest.raises(MetricError, match="wanted two or more, in ascending order"):
        Ratings(np.array([0]), np.array([0]), np.array([0]), np.array([1.0, 0.0]))


def test_agreement_is_reached_where_its_interval_is_short_enough() -> None:
    labels, design = Labels((0.5, 0.5), (0.0, 1.0), 0.3), Design(20, 3)
    assert reached(labels, design, Aim("agreement", 0.5), studies=20, seed=0).all()
    assert not reached(labels, design, Aim("agreement", 0.001), studies=20, seed=0).any()
    assert not Aim("agreement", 0.5).holds(None)
    said = judgments(labels, design, 400, seed=(3,))
    alike = np.mean([(said[:, a] == said[:, b]).mean() for a, b in combinations(range(3), 2)])
    assert alike == pytest.approx(labels.agreement, abs=0.02)
    with pytest.raises(MetricError, match="agreement of one judgment per item"):
        reached(labels, Design(20, 1), Aim("agreement", 0.5), studies=2, seed=0)


def test_a_fit_that_does_not_settle_is_an_error_and_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y, x = rng.integers(0, 2, 80).astype(float), rng.normal(size=80)
    items, annotators = [f"i{n % 20}" for n in range(80)], [f"a{n % 4}" for n in range(80)]
    monkeypatch.setattr(regression, "_STEPS", 1)
    with pytest.raises(MetricError, match="no solution even with a ridge; all credits may be equal"):
        fit_logistic(y, x)
    monkeypatch.setattr(regression, "_CROSSED_STEPS", 1)
    with pytest.raises(MetricError, match="no solution even with a ridge"):
        fit_crossed(y, x[:, None], items, annotators)


def test_the_p_value_of_a_coefficient_is_students() -> None:
    fit = CrossedFit(np.array([0.0, 0.8, 0.3]), np.eye(3), np.array([1.0, 0.4, 0.0]), 21, 9, 0.0)
    assert fit.p(1) == pytest.approx(2 * scipy_stats.t.sf(0.8 / 0.4, 8))
    assert fit.p(2) == 1.0


def test_a_mean_that_varies_over_annotators_alone_has_no_variance_of_both() -> None:
    """Each of ten items has one yes and one no, from the same two annotators."""
    items, annotators = [f"i{n // 2}" for n in range(20)], [f"a{n % 2}" for n in range(20)]
    sides = crossed([float(n % 2) for n in range(20)], items, annotators)
    assert spread(sides.by_item, 0).variance == 0 < spread(sides.by_annotator, 0).variance
    assert crossed_spread(*sides) == (0.0, 0.0)
    assert crossed_spread(*_alike(1.0)) == (0.0, 0.0)


def _first_row(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows[..., 0, :].mean(axis=-1))


def test_a_statistic_that_no_resample_moves_has_no_interval() -> None:
    rng = np.random.default_rng(0)
    scores = Scores(rng.random((2, 5)), rng.normal(0, 0.01, (8, 2, 5)))
    found = interval_over_items(lambda rows: np.ones(rows.shape[:-2]), scores)
    assert (found.value, found.low, found.high) == (1.0, None, None)
    assert found.method == "no interval: the same in every resample"
    few = Scores(scores.values, scores.influence[:3])
    assert interval_over_items(_first_row, few).method == "no interval: too few models, and 3 items to resample"
    assert "and no items" in interval_over_items(_first_row, Scores(scores.values, scores.influence[:0])).method


def test_a_share_with_few_annotators_is_known_less_well_than_with_many() -> None:
    labels, aim = Labels((0.5, 0.5), (0.0, 1.0), 0.1, 0.3), Aim("precision", 0.13)
    few, many = (reached(labels, Design(40, 3, count), aim, studies=60, seed=1).mean() for count in (4, 120))
    assert few < 0.2
    assert many > 0.8


def test_covariates_that_say_the_same_get_a_ridge() -> None:
    rng = np.random.default_rng(2)
    y, x = rng.integers(0, 2, 80).astype(float), rng.normal(size=80)
    items, annotators = [f"i{n % 20}" for n in range(80)], [f"a{n % 4}" for n in range(80)]
    twice = fit_crossed(y, np.stack([x, x], axis=1), items, annotators)
    once = fit_crossed(y, x[:, None], items, annotators)
    assert twice.ridge > 0
    assert twice.values[1] == pytest.approx(twice.values[2])
    assert twice.values[1:].sum() == pytest.approx(once.values[1], rel=0.3)

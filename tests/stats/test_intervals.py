"""Intervals against textbooks, brute-force matrices and other libraries."""

import random

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from pluralrm.errors import MetricError
from pluralrm.stats import cluster_means, difference_interval, gap, group_means, share_interval, spread, wilson
from pluralrm.stats.clusters import ASSUMED_LIKENESS

Z = scipy_stats.norm.ppf(0.975)


def _some(seed: int, clusters: int = 9, columns: int = 1):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, clusters)
    names = [f"u{place}" for place, size in enumerate(sizes) for _ in range(size)]
    return (rng.random((len(names), columns)) < 0.6).astype(float), names


@settings(deadline=None)
@given(st.integers(1, 300), st.data())
def test_wilson_is_that_of_statsmodels(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    expected = proportion_confint(hits, n, method="wilson")
    assert wilson(hits / n, n, Z) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("hits", [0, 30])
def test_all_wrong_or_all_right_with_one_item_per_user_is_wilsons_own_interval(hits: int) -> None:
    found = share_interval(cluster_means([float(hits > 0)] * 30, [f"u{n}" for n in range(30)]))
    assert found[1:3] == pytest.approx(proportion_confint(hits, 30, method="wilson"), abs=1e-12)
    assert found.method == "Wilson interval, equal in all of 30 clusters, few clusters"


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_all_wrong_or_all_right_is_wilson_on_the_draws_of_polyas_urn(right: float) -> None:
    urn, rng, again = ASSUMED_LIKENESS / (1 - ASSUMED_LIKENESS), np.random.default_rng(0), 20_000
    # Of five items the one after j others is drawn afresh with chance 1 : j * urn; count the fresh ones.
    fresh = sum((rng.random(again) < 1 / (1 + j * urn)).mean() for j in range(5))
    means = cluster_means([right] * 60, [f"u{n // 5}" for n in range(60)])
    assert means.fresh_items() == pytest.approx(12 * fresh, rel=0.01)
    found = share_interval(means)
    assert found[1:3] == pytest.approx(tuple(wilson(right, means.fresh_items(), Z)), abs=1e-12)
    assert found.method == "Wilson interval, equal in all of 12 clusters, few clusters, likeness 0.15 assumed"


@given(st.lists(st.integers(1, 30), min_size=2, max_size=30))
def test_what_is_assumed_lies_between_one_draw_per_user_and_one_per_item(sizes: list[int]) -> None:
    means = cluster_means([1.0] * sum(sizes), [f"u{n}" for n, size in enumerate(sizes) for _ in range(size)])
    assert means.effective_clusters() * (1 - 1e-12) <= means.fresh_items() <= sum(sizes) * (1 + 1e-12)


@pytest.mark.parametrize("clusters", [3, 6, 12, 30, 48, 200])
@pytest.mark.parametrize("size", [1, 2, 4, 12])
def test_one_more_right_answer_never_lowers_the_interval_of_a_nearly_perfect_score(clusters: int, size: int) -> None:
    names = [f"u{n // size}" for n in range(clusters * size)]
    perfect = share_interval(cluster_means([1.0] * len(names), names))
    one_wrong = share_interval(cluster_means([0.0] + [1.0] * (len(names) - 1), names))
    assert one_wrong.low is not None
    assert perfect.low is not None
    assert one_wrong.low < perfect.low


@pytest.mark.parametrize("hits", [25, 45, 49])
def test_one_item_per_user_is_wilsons_own_interval_but_for_one_item(hits: int) -> None:
    values = [1.0] * hits + [0.0] * (50 - hits)
    found = share_interval(cluster_means(values, [f"u{n}" for n in range(50)]))
    # The variance has divisor n - 1, hence 49 effective items where textbooks have 50.
    assert found[1:3] == pytest.approx(wilson(hits / 50, 49, Z), abs=1e-12)


@given(st.integers(0, 2**30))
def test_the_variance_is_cr2_and_its_df_bell_mccaffreys(seed: int) -> None:
    values, names = _some(seed)
    means = cluster_means(values, names)
    variance, df = _cr2_by_matrices(values[:, 0], names)
    assert means.scores[:, 0] @ means.scores[:, 0] == pytest.approx(variance, rel=1e-9, abs=1e-15)
    assert means.block_df[0, 0] == pytest.approx(df, rel=1e-9)


def _cr2_by_matrices(y: NDArray[np.float64], names: list[str]) -> tuple[float, float]:
    """Intercept-only regression; A = (I - H)^(-1/2) per cluster; df from the covariance of the adjusted residuals."""
    n = len(y)
    maker = np.eye(n) - np.full((n, n), 1 / n)
    residual = maker @ y
    rows = []
    for name in sorted(set(names)):
        inside = np.array([other == name for other in names])
        root, vectors = np.linalg.eigh(maker[np.ix_(inside, inside)])
        adjust = vectors @ np.diag(root**-0.5) @ vectors.T
        rows.append((np.ones(inside.sum()) @ adjust @ maker[inside]) / n)
    pull = np.array(rows)
    gram = pull @ pull.T
    return float(((pull @ residual) ** 2).sum()), float(np.trace(gram) ** 2 / (gram**2).sum())


def test_with_equal_clusters_the_variance_is_that_of_statsmodels() -> None:
    rng = np.random.default_rng(1)
    y, owner = (rng.random(60) < 0.7).astype(float), np.repeat(np.arange(12), 5)
    fit = sm.OLS(y, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": owner, "df_correction": False})
    expected = fit.cov_params()[0, 0] * 59 / 60 * 60 / 59
    assert spread(cluster_means(y, [f"u{n}" for n in owner]), 0).variance == pytest.approx(expected, rel=1e-9)


def test_the_macro_variance_is_the_mean_of_the_strata() -> None:
    parts = [_some(seed) for seed in (1, 2, 3)]
    values = np.concatenate([part[0] for part in parts])
    names = [f"s{place}-{name}" for place, part in enumerate(parts) for name in part[1]]
    strata = [f"s{place}" for place, part in enumerate(parts) for _ in part[1]]
    whole = cluster_means(values, names, strata=strata)
    alone = [spread(cluster_means(*part), 0).variance for part in parts]
    assert whole.means[0] == pytest.approx(np.mean([part[0].mean() for part in parts]), abs=1e-12)
    assert spread(whole, 0).variance == pytest.approx(sum(alone) / 9, rel=1e-9)


def test_a_stratum_of_one_cluster_widens_rather_than_narrows() -> None:
    values = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    names, strata = list("aabbccdde"), list("xxxxyyyyz")
    lonely = share_interval(cluster_means(values, names, strata=strata))
    assert lonely.low is not None
    assert lonely.high is not None
    assert lonely.high - lonely.low > 0.4
    alone = share_interval(cluster_means([1.0, 0.0, 1.0], list("abc"), strata=list("abc")))
    assert alone.low is not None


def test_a_user_who_asks_in_two_domains_is_still_one_draw() -> None:
    rng = np.random.default_rng(0)
    right = np.repeat((rng.random(40) < 0.5).astype(float), 2)  # every user is right on both or on none
    users = [f"u{n // 2}" for n in range(80)]
    domains = ["x", "y"] * 40
    together = spread(cluster_means(right, users, strata=domains), 0).variance
    apart = spread(cluster_means(right, [f"{u}{d}" for u, d in zip(users, domains, strict=True)], strata=domains), 0)
    assert together == pytest.approx(2 * apart.variance, rel=0.02)


@given(st.integers(0, 2**30))
def test_the_order_of_rows_changes_no_byte(seed: int) -> None:
    values, names = _some(seed, columns=3)
    strata = [f"s{int(name[1:]) % 2}" for name in names]
    order = random.Random(seed).sample(range(len(names)), len(names))
    before = cluster_means(values, names, strata=strata)
    after = cluster_means(values[order], [names[n] for n in order], strata=[strata[n] for n in order])
    for field in ("means", "parts", "weights", "scores", "blocks", "block_df", "held", "binary"):
        assert getattr(before, field).tobytes() == getattr(after, field).tobytes()


def test_thirds_that_make_a_half_make_exactly_a_half() -> None:
    values = [0.0, 1 / 3, 2 / 3, 1.0] * 3 * 1_097
    names = [f"r{n // 12}" for n in range(len(values))]
    assert cluster_means(values, names).means[0] == 0.5


def test_values_between_zero_and_one_get_students_t() -> None:
    rng = np.random.default_rng(2)
    values = rng.random(10)
    found = share_interval(cluster_means(values, [str(n) for n in range(10)]))
    t = scipy_stats.t.interval(0.95, 9, values.mean(), values.std(ddof=1) / 10**0.5)
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low == pytest.approx(t[1] - t[0], rel=0.12)


@given(st.integers(0, 2**30), st.integers(2, 6), st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_intervals_hold_their_value_and_keep_their_range(seed: int, clusters: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    names = [f"u{n % clusters}" for n in range(20)]
    means = cluster_means((rng.random((20, 2)) < rate).astype(float), names)
    share, difference = share_interval(means), difference_interval(means, 0, 1)
    for found, floor in ((share, 0.0), (difference, -1.0)):
        assert found.low is not None
        assert found.high is not None
        assert floor <= found.low <= found.value <= found.high <= 1
        assert found.low < found.high


def test_one_cluster_has_no_interval() -> None:
    means = cluster_means([[1.0, 0.0], [0.0, 1.0]], ["u", "u"])
    assert share_interval(means)[1:] == (None, None, "no interval: one cluster")
    assert difference_interval(means, 0, 1).low is None


def test_unequal_clusters_count_for_fewer() -> None:
    means = cluster_means([1.0] * 100, ["big"] * 91 + [f"u{n}" for n in range(9)])
    assert means.effective_clusters() == pytest.approx(1 / (0.91**2 + 9 * 0.01**2))
    even = cluster_means([1.0] * 100, [f"u{n // 10}" for n in range(100)])
    assert means.fresh_items() < 0.5 * even.fresh_items()


@given(st.integers(0, 2**30))
def test_group_means_are_those_of_the_groups_alone(seed: int) -> None:
    values, names = _some(seed, clusters=12)
    groups = [random.Random(f"{seed}{place}").choice("abc") for place in range(len(names))]
    whole = group_means(values[:, 0], names, groups)
    for column, group in enumerate(sorted(set(groups))):
        inside = [place for place, other in enumerate(groups) if other == group]
        alone = cluster_means(values[inside], [names[place] for place in inside])
        assert whole.means[column] == alone.means[0]
        assert share_interval(whole, column) == pytest.approx(share_interval(alone), abs=1e-9)


def test_the_gap_names_the_extremes_and_needs_two_groups() -> None:
    values = [1.0] * 20 + [0.0] * 18 + [1.0, 1.0] + [0.0] * 10 + [1.0] * 10
    found = gap(group_means(values, [f"u{n}" for n in range(60)], ["a"] * 20 + ["b"] * 20 + ["c"] * 20))
    assert found is not None
    assert (found.best, found.worst) == (0, 1)
    assert found.distance.value == pytest.approx(0.9)
    assert gap(group_means([1.0, 0.0], ["u", "v"], ["a", "a"])) is None


def test_what_cannot_be_averaged_is_refused() -> None:
    for values, names, text in (
        ([], [], "no items"),
        ([1.0], ["a", "b"], "1 values but 2 clusters"),
        ([float("nan")], ["a"], "not finite"),
    ):
        with pytest.raises(MetricError, match=text):
            cluster_means(values, names)


def test_the_worked_example_of_the_note() -> None:
    means = cluster_means([1.0, 1, 1, 0, 1, 0, 1, 1, 0], list("aaaabbccd"))
    assert means.scores[:, 0] == pytest.approx([0.0497, -0.0420, 0.0840, -0.0786], abs=5e-5)
    variance, df = spread(means, 0)
    assert (variance, df) == pytest.approx((0.01746, 2.38), rel=1e-3)
    effective = (6 / 9) * (3 / 9) / variance
    assert effective == pytest.approx(12.7, abs=0.05)
    quantile = 1.96 * scipy_stats.t.ppf(0.975, 2.3786) / scipy_stats.t.ppf(0.975, 8)
    assert quantile == pytest.approx(3.15, abs=0.005)
    root = (variance + quantile**2 / (4 * effective**2)) ** 0.5
    half = quantile / (1 + quantile**2 / effective) * root
    centre = (6 / 9 + quantile**2 / (2 * effective)) / (1 + quantile**2 / effective)
    assert share_interval(means)[1:3] == pytest.approx((centre - half, centre + half), abs=1e-4)
    assert share_interval(means)[1:3] == pytest.approx((0.273, 0.914), abs=5e-4)

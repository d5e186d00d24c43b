"""Clusters known by their sums give what their items give."""

import numpy as np
import pytest

from pluralrm.stats import ClusterMeans, cluster_means, difference_interval, flip_p_of_differences, sign_flip_p, spread
from pluralrm.stats.clusters import means_of_sums


def table(seed: int, *, spans: bool) -> tuple[np.ndarray, list[str], list[str]]:
    """Return values (items, 2), clusters and strata; where `spans`, clusters lie in several strata."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(12), rng.integers(1, 6, 12))
    strata = rng.integers(0, 3, len(owner)) if spans else owner % 3
    values = rng.choice([0.0, 0.5, 1.0], (len(owner), 2))
    return values, [f"u{one:02}" for one in owner], [f"d{one}" for one in strata]


def summed(values: np.ndarray, clusters: list[str], strata: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and sizes (G, H, 2), clusters in the order of stratum and name where each lies in one."""
    names, pairs = sorted(set(strata)), sorted({*zip(strata, clusters, strict=True)})
    order = [cluster for _, cluster in pairs]
    order = order if len(set(order)) == len(order) else sorted(set(order))
    sums, sizes = np.zeros((2, len(order), len(names), 2))
    for value, cluster, stratum in zip(values, clusters, strata, strict=True):
        sums[order.index(cluster), names.index(stratum)] += value
        sizes[order.index(cluster), names.index(stratum)] += 1
    return sums, sizes


def assert_alike(found: ClusterMeans, wanted: ClusterMeans) -> None:
    assert found.means == pytest.approx(wanted.means)
    assert found.parts == pytest.approx(wanted.parts)
    assert found.weights == pytest.approx(wanted.weights)
    assert np.abs(found.scores) == pytest.approx(np.abs(wanted.scores))
    assert spread(found, 0, 1) == pytest.approx(spread(wanted, 0, 1))
    assert difference_interval(found, 0, 1)[:3] == pytest.approx(difference_interval(wanted, 0, 1)[:3])


@pytest.mark.parametrize("seed", range(6))
def test_one_mean_over_all_items(seed: int) -> None:
    values, clusters, strata = table(seed, spans=False)
    sums, sizes = summed(values, clusters, ["" for _ in strata])
    assert_alike(means_of_sums(sums, sizes), cluster_means(values, clusters))


@pytest.mark.parametrize("seed", range(6))
def test_a_mean_over_strata_whose_clusters_are_their_own(seed: int) -> None:
    values, clusters, strata = table(seed, spans=False)
    sums, sizes = summed(values, clusters, strata)
    blocks = sizes[:, :, 0].argmax(axis=1)
    assert_alike(means_of_sums(sums, sizes, blocks=blocks), cluster_means(values, clusters, strata=strata))


@pytest.mark.parametrize("seed", range(6))
def test_a_mean_over_strata_that_share_clusters(seed: int) -> None:
    values, clusters, strata = table(seed, spans=True)
    sums, sizes = summed(values, clusters, strata)
    assert_alike(means_of_sums(sums, sizes), cluster_means(values, clusters, strata=strata))


@pytest.mark.parametrize("clusters", [6, 14, 40])
def test_many_benchmarks_at_once_are_tested_like_one(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    values = rng.choice([0.0, 0.5, 1.0], (clusters, 10))
    names = [f"u{place:02}" for place in range(clusters)]
    one_by_one = [
        sign_flip_p(cluster_means(np.stack([column, 1 - column], axis=1), names), seed=3)[0, 1] for column in values.T
    ]
    assert flip_p_of_differences((2 * values - 1) / clusters, seed=3) == pytest.approx(one_by_one)


@pytest.mark.parametrize("seed", range(6))
def test_a_column_has_the_bits_that_it_has_alone_where_a_cluster_is_one_item(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, names = rng.random((30, 3)), [f"u{one:02}" for one in rng.permutation(30)]
    strata = [f"d{one}" for one in rng.integers(0, 3, 30)]
    together = cluster_means(values, names, strata=strata)
    for column in range(3):
        alone = cluster_means(values[:, column], names, strata=strata)
        assert together.means[column] == alone.means[0]
        for field in ("parts", "weights", "scores", "block_df", "held"):
            assert np.array_equal(getattr(together, field)[:, [column]], getattr(alone, field))
        assert spread(together, column) == spread(alone, 0)


@pytest.mark.parametrize("spans", [False, True])
def test_means_over_clusters_that_were_seen_before_have_the_bits_of_new_ones(*, spans: bool) -> None:
    values, clusters, strata = table(3, spans=spans)
    cluster_means(1 - values, clusters, strata=strata)
    seen, new = (
        cluster_means(values, [f"{start}{name}" for name in clusters], strata=strata) for start in ("", "another-")
    )
    for field in ("means", "parts", "weights", "scores", "block_df", "held", "binary"):
        assert np.array_equal(getattr(seen, field), getattr(new, field))

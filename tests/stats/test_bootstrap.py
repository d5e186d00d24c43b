"""The cluster bootstrap: against scipy, against the closed form, and against itself in other circumstances."""

import hashlib
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.errors import MetricError
from pluralrm.stats import cluster_means, spread
from pluralrm.stats.clusters import on_grid, resample_counts
from tests.stats.resampled import bootstrap_means


def test_the_standard_error_is_scipys_on_single_items() -> None:
    rng = np.random.default_rng(0)
    values = (rng.random(300) < 0.7).astype(float)
    ours = bootstrap_means(values, [str(n) for n in range(300)], resamples=8_000).std()
    theirs = scipy_stats.bootstrap((values,), np.mean, n_resamples=8_000, rng=np.random.default_rng(1)).standard_error
    assert ours == pytest.approx(theirs, rel=0.04)


def test_the_standard_error_is_the_cluster_robust_one() -> None:
    rng = np.random.default_rng(0)
    chance = rng.beta(2, 1, 200).repeat(6)
    values, names = (rng.random(1_200) < chance).astype(float), [f"u{n // 6}" for n in range(1_200)]
    strata = [f"s{int(name[1:]) % 4}" for name in names]
    for layers in (None, strata):
        found = bootstrap_means(values, names, strata=layers, resamples=10_000)
        expected = spread(cluster_means(values, names, strata=layers), 0).variance ** 0.5
        assert found.std() == pytest.approx(expected, rel=0.04)
        assert found.mean() == pytest.approx(cluster_means(values, names, strata=layers).means[0], abs=2e-3)


def test_each_resample_is_a_mean_over_drawn_clusters() -> None:
    values = np.array([[1.0, 3.0], [2.0, 5.0], [4.0, 0.0]])
    found = bootstrap_means(values, ["a", "a", "b"], resamples=300)
    possible = {(7 / 3, 8 / 3), (3 / 2, 8 / 2), (4.0, 0.0)}  # a and b, a twice, b twice
    assert {tuple(np.round(draw, 6)) for draw in found} == {tuple(np.round(pair, 6)) for pair in possible}


def test_strata_keep_their_clusters() -> None:
    for counts in resample_counts(np.array([0, 0, 0, 1, 1]), resamples=50):
        assert (counts[:, :3].sum(axis=1) == 3).all()
        assert (counts[:, 3:].sum(axis=1) == 2).all()


def test_columns_share_their_draws() -> None:
    rng = np.random.default_rng(3)
    values = (rng.random((60, 1)) < 0.5).astype(float)
    found = bootstrap_means(np.hstack([values, values, 1 - values]), [f"u{n}" for n in range(60)], resamples=200)
    assert np.array_equal(found[:, 0], found[:, 1])
    assert found[:, 0] + found[:, 2] == pytest.approx(1, abs=1e-9)


def test_the_order_of_rows_changes_no_byte() -> None:
    rng = np.random.default_rng(0)
    values, names = rng.random((90, 4)), [f"u{n // 4}" for n in range(90)]
    strata = [f"s{n // 4 % 3}" for n in range(90)]
    order = random.Random(0).sample(range(90), 90)
    before = bootstrap_means(values, names, strata=strata, seed=7, resamples=700)
    after = bootstrap_means(
        values[order], [names[n] for n in order], strata=[strata[n] for n in order], seed=7, resamples=700
    )
    assert before.tobytes() == after.tobytes()
    assert before.tobytes() != bootstrap_means(values, names, strata=strata, seed=8, resamples=700).tobytes()


SCRIPT = """
import hashlib, numpy as np
from pluralrm.stats import cluster_means, correlation, sign_flip_p
from tests.stats.resampled import bootstrap_means
rng = np.random.default_rng(0)
values, names = rng.random((2000, 12)), [f"u{n // 2}" for n in range(2000)]
draws = bootstrap_means(values, names, resamples=1500)
p = sign_flip_p(cluster_means(values, names), flips=1500)
line = repr(correlation(values[:, 0], values[:, 1], names, resamples=1500))
print(hashlib.sha256(draws.tobytes() + p.tobytes() + line.encode()).hexdigest())
"""


def test_threads_and_hash_seed_change_no_byte() -> None:
    digests = set()
    for threads, seed in (("1", "0"), ("2", "1")):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads) | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == len(hashlib.sha256().hexdigest())


def test_the_grid_makes_sums_exact_in_any_order() -> None:
    rng = np.random.default_rng(0)
    numbers = on_grid(rng.random(5_000) - 0.3)
    sums = {float(np.sum(rng.permutation(numbers))) for _ in range(50)}
    assert len(sums) == 1
    assert not on_grid(np.zeros(3)).any()


def test_a_cluster_in_two_strata_is_refused() -> None:
    with pytest.raises(MetricError, match="in several strata"):
        bootstrap_means([1.0, 0.0], ["a", "a"], strata=["x", "y"])
    with pytest.raises(MetricError, match="0 values and 0 clusters"):
        bootstrap_means([], [])


def test_counts_in_strips_are_those_of_all_draws_at_once() -> None:
    blocks = resample_counts(np.zeros(7, dtype=np.intp), seed=5, resamples=501)
    drawn = np.random.default_rng(5).integers(0, 7, (501, 7), dtype=np.int32)
    assert np.array_equal(np.vstack(list(blocks)), [np.bincount(row, minlength=7) for row in drawn])

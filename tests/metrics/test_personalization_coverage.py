"""How often the intervals of lift and gain hold what a simulation knows to be true."""

from collections.abc import Mapping

import numpy as np
import pytest

from pluralrm.metrics.comparison import RunItems
from pluralrm.metrics.contrast import difference
from tests.metrics.people import ends, people, told


def _coverage(accuracies: Mapping[str, float], benchmarks: int, *, items: int = 1) -> float:
    """Return how often, in percent, the gain's interval covers the true gain, over simulated benchmarks of 60 users."""
    truth = accuracies["raw:10"] - accuracies["swapped:10"]
    hits = 0
    for seed in range(benchmarks):
        own, swapped = (RunItems(run.rows) for run in people(accuracies, items=items, seed=seed))
        low, high = ends(difference(own, swapped))
        hits += low <= truth <= high
    return 100 * hits / benchmarks


AT_RANDOM = {"raw:10": 0.65, "swapped:10": 0.65}
USING = {"raw:10": 0.78, "swapped:10": 0.63}


@pytest.mark.slow
@pytest.mark.parametrize("accuracies", [AT_RANDOM, USING])
def test_the_interval_of_the_gain_covers_the_truth(accuracies: dict[str, float]) -> None:
    # 250 benchmarks: a standard deviation of 1.4 points around 95.
    assert 91 <= _coverage(accuracies, 250, items=2) <= 99


@pytest.mark.slow
@pytest.mark.parametrize("items", [1, 3])
@pytest.mark.parametrize("accuracies", [AT_RANDOM, USING])
def test_the_interval_of_the_gain_covers_the_truth_in_thousands(accuracies: dict[str, float], items: int) -> None:
    # 4,000 benchmarks: a standard deviation of 0.35 points.
    assert 93.5 <= _coverage(accuracies, 4_000, items=items) <= 96.5


@pytest.mark.slow
def test_all_intervals_cover_and_the_fragile_are_seldom_called_personal() -> None:
    accuracies = {"none": 0.6, "raw:10": 0.72, "swapped:10": 0.62, "oracle": 0.9}
    truth = {"lift": 0.12, "gain": 0.1, "oracle_gap": 0.18, "gap_closed": 0.4, "gain_at_equal_length": 0.1}
    hits = dict.fromkeys(truth, 0)
    for seed in range(1_000):
        found = told(people(accuracies, users=80, seed=seed))
        for name, value in truth.items():
            low, high = ends(found.numbers[name])  # type: ignore[index]
            hits[name] += low <= value <= high
    assert all(930 <= count <= 970 for count in hits.values()), hits
    fragile = {"none": 0.75, "raw:10": 0.75, "swapped:10": 0.65}
    wrongly = sum(told(people(fragile, users=200, items=1, seed=seed)).personalized for seed in range(500))
    # One side of a 95% interval: 12.5 expected, standard deviation 3.5.
    assert wrongly <= 23


@pytest.mark.slow
def test_the_spread_of_users_covers_the_truth() -> None:
    accuracies = {"raw:10": 0.75, "swapped:10": 0.62}
    one, other = (RunItems(run.rows) for run in people(accuracies, users=2_000, items=100, seed=10**6))
    gains = (one.earned - other.earned).reshape(2_000, 100)
    truth = np.sqrt(gains.mean(axis=1).var(ddof=1) - gains.var(axis=1, ddof=1).mean() / 100)
    hits = 0
    for seed in range(500):
        low, high = ends(told(people(accuracies, users=80, items=3, seed=seed)).numbers["user_spread"])
        hits += low <= truth <= high
    assert 460 <= hits <= 490

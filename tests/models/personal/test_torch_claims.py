"""On users whose tastes are known: what each network learns of people it has never met, and when nothing."""

from pathlib import Path

import pytest

from pluralrm.core import Benchmark, Run
from pluralrm.metrics import measure
from tests.models.personal.fits import fitted, run, world
from tests.models.personal.test_claims import at_chance, ceiling, lead

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAMES = ("gpo", "vpl", "pal-a", "pal-b", "maml")


@pytest.fixture(scope="module")
def many() -> tuple[Benchmark, Benchmark]:
    pytest.importorskip("torch")
    return world(500, 1, 32, 1), world(500, 4, 8, 2)


def low(first: Run, second: Run) -> float:
    found = lead(first, second).low
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_beats_the_pooled_reward_below_the_ceiling_and_with_true_pairs_of_the_user_alone(
    name: str, many: tuple[Benchmark, Benchmark], tmp_path: Path
) -> None:
    train, bench = many
    folder, bt = fitted(name, train, tmp_path / name), fitted("bt", train, tmp_path / "bt")
    pooled = run(bt, bench, "none", tmp_path / "runs")
    own = run(folder, bench, "pairs:8", tmp_path / "runs")
    assert low(own, pooled) > 0
    controls = [
        run(folder, bench, name, tmp_path / "runs") for name in ("pairs:8,of=swapped", "pairs:8,labels=shuffled")
    ]
    reached = measure(own)
    print(name, reached, lead(own, pooled), *(lead(control, pooled) for control in controls))  # noqa: T201
    assert all(low(control, pooled) <= 0 for control in controls)
    assert reached.low is not None
    assert reached.low <= ceiling(bench)


@pytest.mark.parametrize("name", NAMES)
def test_tossed_labels_of_all_pairs_leave_chance(name: str, many: tuple[Benchmark, Benchmark], tmp_path: Path) -> None:
    train, bench = many
    folder = fitted(name, train, tmp_path / name, labels="shuffled", given={"epochs": "12"})
    assert at_chance(run(folder, bench, "pairs:8,labels=shuffled", tmp_path / "runs"))

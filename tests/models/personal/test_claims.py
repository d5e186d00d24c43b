"""On users whose tastes are known: what each numpy algorithm learns of people it has never met, and when nothing."""

from itertools import pairwise
from pathlib import Path

import pytest

from pluralrm.benchmarks.simulated.scorers import attainable
from pluralrm.core import Benchmark, Estimate, Run
from pluralrm.metrics import measure, paired_difference
from pluralrm.models import load_model
from pluralrm.runs import score
from tests.models.personal.fits import fitted, run, world

ADAPTING = ("lore", "pref", "eb", "knn")


def lead(first: Run, second: Run) -> Estimate:
    return paired_difference(first, second).difference


def ceiling(bench: Benchmark) -> float:
    chances = attainable(bench, "taste")
    return sum(chances) / len(chances)


class Worth:
    """What a fit is worth on unseen users, beside pooled Bradley-Terry."""

    def __init__(self, name: str, train: Benchmark, bench: Benchmark, tmp: Path) -> None:
        shown = "recent:20" if name == "bt-posts" else "pairs:8"
        lent = "swapped:20,by=recent" if name == "bt-posts" else "pairs:8,of=swapped"
        folder, bt = fitted(name, train, tmp / name), fitted("bt", train, tmp / "bt")
        self.own = run(folder, bench, shown, tmp / "runs")
        self.swapped = run(folder, bench, lent, tmp / "runs")
        self.pooled = run(bt, bench, "none", tmp / "runs")
        self.folder, self.bench, self.tmp = folder, bench, tmp

    @property
    def lows(self) -> tuple[float, float, float]:
        """Lower ends: of the gain over the pooled reward with the user's own context, with another's; accuracy."""
        found = (lead(self.own, self.pooled), lead(self.swapped, self.pooled), measure(self.own))
        own, lent, reached = (estimate.low for estimate in found)
        assert own is not None
        assert lent is not None
        assert reached is not None
        return own, lent, reached

    @property
    def learns_the_user_and_nothing_else(self) -> bool:
        own, lent, reached = self.lows
        return own > 0 >= lent and reached <= ceiling(self.bench)


@pytest.mark.slow
def test_pref_beats_the_pooled_reward_on_people_it_has_never_met(tmp_path: Path) -> None:
    worth = Worth("pref", world(150, 1, 24, 1), world(150, 4, 8, 2), tmp_path)
    assert worth.learns_the_user_and_nothing_else, worth.lows
    tossed = run(worth.folder, worth.bench, "pairs:8,labels=shuffled", tmp_path / "runs")
    assert at_chance(tossed)


@pytest.mark.slow
def test_pref_is_at_chance_where_all_labels_are_tossed(tmp_path: Path) -> None:
    folder = fitted("pref", world(100, 1, 8, 1), tmp_path / "pref", labels="shuffled", given={"epochs": "2"})
    assert at_chance(run(folder, world(100, 4, 8, 2), "pairs:8,labels=shuffled", tmp_path / "runs"))


def at_chance(found: Run) -> bool:
    reached = measure(found)
    return reached.low is not None and reached.high is not None and reached.low <= 0.5 <= reached.high


# ---------------------------------------------------------------- the same at full size


@pytest.fixture(scope="module")
def many() -> tuple[Benchmark, Benchmark]:
    return world(500, 1, 32, 1), world(500, 4, 8, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ADAPTING, "bt-posts"])
def test_each_beats_the_pooled_reward_below_the_ceiling_and_not_with_anothers_context(
    name: str, many: tuple[Benchmark, Benchmark], tmp_path: Path
) -> None:
    worth = Worth(name, *many, tmp_path)
    assert worth.learns_the_user_and_nothing_else, worth.lows
    print(name, measure(worth.own), lead(worth.own, worth.pooled), lead(worth.swapped, worth.pooled))  # noqa: T201


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTING)
def test_tossed_labels_of_the_pairs_shown_leave_no_gain(
    name: str, many: tuple[Benchmark, Benchmark], tmp_path: Path
) -> None:
    worth = Worth(name, *many, tmp_path)
    tossed = run(worth.folder, worth.bench, "pairs:8,labels=shuffled", tmp_path / "runs")
    gain = lead(tossed, worth.pooled)
    assert gain.low is not None
    assert gain.low <= 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bt", "bt-posts", *ADAPTING])
def test_tossed_labels_of_all_pairs_leave_chance(name: str, many: tuple[Benchmark, Benchmark], tmp_path: Path) -> None:
    train, bench = many
    folder = fitted(name, train, tmp_path / name, labels="shuffled")
    # True labels of the pairs shown would do: a regression on any directions learns something from those.
    assert at_chance(
        run(folder, bench, "recent:20" if name == "bt-posts" else "pairs:8,labels=shuffled", tmp_path / "runs")
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTING)
def test_more_pairs_are_worth_more(name: str, many: tuple[Benchmark, Benchmark], tmp_path: Path) -> None:
    train, bench = many
    folder = fitted(name, train, tmp_path / name)
    curve = [run(folder, bench, condition, tmp_path / "runs") for condition in ("none", "pairs:2", "pairs:8")]
    for less, more in pairwise(curve):
        gain = lead(more, less)
        assert gain.low is not None
        assert gain.low > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTING)
def test_stored_parameters_know_seen_users_and_a_swap_of_them_does_not(name: str, tmp_path: Path) -> None:
    bench = world(300, 4, 24, 1)  # its items are no context pairs
    folder, bt = fitted(name, bench, tmp_path / name), fitted("bt", bench, tmp_path / "bt")
    stored = load_model(f"personal:{folder},users=stored")
    own, lent = (score(bench, stored, shown, out=tmp_path / "runs") for shown in ("pairs:8", "pairs:8,of=swapped"))
    pooled = run(bt, bench, "none", tmp_path / "runs")
    for gain in (lead(own, pooled), lead(own, lent)):
        assert gain.low is not None
        assert gain.low > 0
    swapped = lead(lent, pooled)
    assert swapped.low is not None
    assert swapped.low <= 0
    # What 24 pairs have told is worth more than the eight that are shown.
    adapted = lead(own, run(folder, bench, "pairs:8", tmp_path / "runs"))
    assert adapted.value > 0
    print(name, measure(own), measure(lent), measure(pooled), adapted)  # noqa: T201

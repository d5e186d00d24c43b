"""The number of items that is promised reaches its goal as often as is promised."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from pluralrm.errors import MetricError, RowError, SpecError
from pluralrm.power.detection import PowerSettings
from pluralrm.power.judgments import declared_labels, items_needed, judged, plan_judgments, read_ratings
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.judgments import Aim, Design, reached

SETTINGS = PowerSettings(simulations=1_000)


def votes(rng: np.random.Generator, items: int, each: int, *, win: float, r: float) -> np.ndarray:
    """Return (items, each) of 0 and 1: each item has a win rate of its own, from the beta law."""
    scale = (1 - r) / r
    return (rng.random((items, each)) < rng.beta(scale * win, scale * (1 - win), (items, 1))).astype(float)


def ends(values: np.ndarray, level: float) -> tuple[float, float]:
    """Return the interval of the share over items, from single judgments."""
    names = [f"i{place:04}" for place in range(len(values)) for _ in range(values.shape[1])]
    found = share_interval(cluster_means(values.ravel(), names), level=level)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


@pytest.mark.parametrize(
    ("each", "studies"), [(4, 100), *(pytest.param(each, 300, marks=pytest.mark.slow) for each in (1, 4))]
)
def test_a_share_is_as_precise_as_promised_in_another_simulation(each: int, studies: int) -> None:
    needed = items_needed(declared_labels(0.7, 0.0, 0.3), Aim("precision", 0.06), each, SETTINGS)
    assert needed.items is not None
    rng = np.random.default_rng(1)
    widths = [np.diff(ends(votes(rng, needed.items, each, win=0.7, r=0.3), 0.95))[0] for _ in range(studies)]
    assert np.mean(np.array(widths) <= 0.12) == pytest.approx(needed.curve[1].reached.value, abs=0.09)
    wanted = (1.96 / 0.06) ** 2 * 0.21 * (1 + 0.3 * (each - 1)) / each
    assert needed.items == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize(
    ("each", "studies"), [(3, 150), *(pytest.param(each, 400, marks=pytest.mark.slow) for each in (1, 3))]
)
def test_equivalence_is_shown_as_often_as_promised_in_another_simulation(each: int, studies: int) -> None:
    needed = items_needed(declared_labels(0.6, 0.0, 0.3), Aim("equivalence", 0.1), each, SETTINGS)
    assert needed.items is not None
    rng = np.random.default_rng(2)
    found = [ends(votes(rng, needed.items, each, win=0.5, r=0.3), 0.9) for _ in range(studies)]
    assert np.mean([low > 0.4 and high < 0.6 for low, high in found]) == pytest.approx(0.8, abs=0.06)
    # Two one-sided tests at .05 both succeed with .8 where each does with .9.
    wanted = ((norm.ppf(0.95) + norm.ppf(0.9)) / 0.1) ** 2 * 0.25 * (1 + 0.3 * (each - 1)) / each
    assert needed.items == pytest.approx(wanted, rel=0.1)


@pytest.mark.slow
def test_agreement_needs_items_not_judgments() -> None:
    labels = declared_labels(0.5, 0.2, 0.4)
    two, five = (items_needed(labels, Aim("agreement", 0.06), each, SETTINGS).items for each in (2, 5))
    assert two is not None
    assert five is not None
    # Two annotators agree or do not: a share of single items.
    assert two == pytest.approx((1.96 / 0.06) ** 2 * labels.agreement * (1 - labels.agreement), rel=0.1)
    assert two / 5 < five < two


def test_annotators_who_lean_set_a_limit_that_items_do_not_lift() -> None:
    leaning, aim = declared_labels(0.5, 0.0, 0.3, 0.1), Aim("precision", 0.05)
    few, many = (
        reached(leaning, Design(1_500, 2, annotators), aim, studies=60, seed=0).mean() for annotators in (8, 400)
    )
    assert few < 0.1
    assert many == 1
    free = items_needed(declared_labels(0.5, 0.0, 0.3), Aim("precision", 0.08), 2, PowerSettings(simulations=200))
    held = items_needed(leaning, Aim("precision", 0.08), 2, PowerSettings(simulations=200), annotators=60)
    assert free.items is not None
    assert held.items is not None
    assert held.items > 1.2 * free.items


def ratings(folder: Path, rows: str) -> Path:
    file = folder / "ratings.csv"
    file.write_text(f"item,annotator,label\n{rows}", encoding="utf-8")
    return file


def test_what_ratings_show_by_hand(tmp_path: Path) -> None:
    rows = "a,x,A\na,y,A\nb,x,A\nb,y,B\nc,x,B\nc,y,B\nd,x,tie\nd,y,-\n"
    seen = judged(read_ratings(ratings(tmp_path, rows)), "A", "B")
    assert seen.items == 4
    assert seen.annotators == 2
    assert seen.labels.mean == pytest.approx((3 + 0.5) / 7)
    assert dict(zip(seen.labels.worths, seen.labels.shares, strict=True)) == pytest.approx(
        {1: 3 / 7, 0: 3 / 7, 0.5: 1 / 7}
    )
    # Means 1, 1/2, 0, 1/2: between 2 (1/4 + 1/4) / 3 = 1/3, within 1/2 / 3 = 1/6, size (7 - 13/7) / 3 = 12/7.
    assert seen.likeness is not None
    assert seen.likeness.value == pytest.approx((1 / 3 - 1 / 6) / (1 / 3 + (12 / 7 - 1) / 6))
    assert judged(read_ratings(ratings(tmp_path, rows)), "A").labels.mean == pytest.approx(3 / 7)


def test_labels_that_agreement_leaves_out_are_worth_nothing_here(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    rows = ["a,x,A,1,", "a,y,cannot_tell,1,", "b,x,A,1,", "b,y,nan,1,", "c,x,B,1,", "c,x,A,2,", "c,y,B,1,True"]
    file.write_text("\n".join(["item,annotator,label,round,rehearsal", *rows]), encoding="utf-8")
    seen = judged(read_ratings(file), "A", "B")
    assert (seen.labels.mean, seen.items, seen.rehearsal) == (0.5, 3, True)


def test_ratings_that_were_drawn_are_seen_as_they_were_drawn(tmp_path: Path) -> None:
    drawn = votes(np.random.default_rng(4), 900, 3, win=0.6, r=0.25)
    rows = "".join(
        f"i{i},a{(3 * i + j) % 40},{'A' if vote else 'B'}\n"
        for i, row in enumerate(drawn)
        for j, vote in enumerate(row)
    )
    seen = judged(read_ratings(ratings(tmp_path, rows)), "A", "B")
    assert seen.labels.mean == pytest.approx(0.6, abs=0.05)
    assert seen.labels.likeness == pytest.approx(0.25, abs=0.07)
    assert seen.labels.lean == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,rater,label\n1,2,3\n", "no column 'annotator'; found item, rater and label"),
        ("item,annotator,label\ni,a,A\ni,a,B\n", "3: annotator: found 'a' on 'i' again, wanted one label of each"),
        ("item,annotator,label\ni,a\n", "wanted"),
        ("item,annotator,label\ni,a,-\n", "found no label"),
        ("item,annotator,label,round\ni,a,A,2\n", "found no label of round 1"),
        (
            "item,annotator,label,dimension\ni,a,A,fit\ni,a,B,truth\n",
            "labels of 2 kinds (fit and truth), wanted those of one dimension",
        ),
    ],
)
def test_a_file_that_is_no_ratings_is_one_message(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((MetricError, RowError), match=re.escape(message)):
        read_ratings(file)


@pytest.mark.parametrize(
    ("aims", "each", "annotators", "message"),
    [
        ([], [1], None, "no goal; wanted one or more of --precision"),
        ([Aim("precision", 0.7)], [1], None, "--precision 0.7: wanted a share between 0 and 0.5"),
        ([Aim("precision", 0.1)], [3], 2, "--judgments 3 of 2 annotators"),
        ([Aim("precision", 0.1)], [1], None, "annotators lean"),
        ([Aim("agreement", 0.1)], [1], 5, "--agreement of one judgment per item"),
    ],
)
def test_what_cannot_be_asked_is_an_error(
    aims: list[Aim], each: list[int], annotators: int | None, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        plan_judgments(declared_labels(0.5, 0.0, 0.3, 0.02), aims, each, SETTINGS, annotators=annotators)


def test_what_ratings_do_not_show_must_be_declared(tmp_path: Path) -> None:
    rows = "".join(f"i{item},a{item % 3},{'AB'[item % 2]}\n" for item in range(12))
    seen = judged(read_ratings(ratings(tmp_path, rows)), "A", "B")
    with pytest.raises(SpecError, match=r"every item has one judgment, .*; add --likeness R"):
        seen.with_declared(None, None)
    assert seen.with_declared(0.2, 0.01).likeness == 0.2
    assert seen.with_declared(0.2, 0.01).lean == 0.01


def test_a_handful_of_rated_items_is_too_few(tmp_path: Path) -> None:
    seen = judged(read_ratings(ratings(tmp_path, "a,x,A\na,y,B\nb,x,A\nb,y,A\n")), "A", "B")
    with pytest.raises(MetricError, match="2 items are too few to show how judgments go together; wanted 8 or more"):
        plan_judgments(seen.labels, [Aim("precision", 0.1)], [1], SETTINGS, annotators=2, observed=seen)


def test_a_win_rate_must_leave_room_for_its_ties() -> None:
    assert declared_labels(0.6, 0.2, 0.3).shares == pytest.approx((0.5, 0.2, 0.3))
    with pytest.raises(SpecError, match=r"--win 0\.95 with --ties 0\.2"):
        declared_labels(0.95, 0.2, 0.3)

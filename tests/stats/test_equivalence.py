"""Two one-sided tests on judgments: the promised error at the margin, less beyond, the promised power without any.

The people here are of two kinds, both written apart from the planner. `People`: with chance .8 a judgment is a draw
with its item's own rate, else one with its annotator's own, and both rates are Beta. `Copiers`: as the planner assumes.
"""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from pluralrm.annotate.rehearsal import power_of_each
from pluralrm.power import Aim, PowerSettings, declared_labels, plan_judgments
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.comparisons import Crossed, above, crossed, within
from pluralrm.stats.intervals import Bounds
from pluralrm.stats.judgments import Design

BY_ITEM = 0.8
MARGIN = Bounds(0.4, 0.6)


class People(NamedTuple):
    """How alike two judgments of one item are, and two of one annotator; no ties."""

    likeness: float
    lean: float

    def judge(self, design: Design, mean: float, rng: np.random.Generator) -> Crossed:
        owners = design.owners()
        item = self._rates(self.likeness / BY_ITEM**2, mean, (design.items, 1), rng)
        habit = self._rates(self.lean / (1 - BY_ITEM) ** 2, mean, (design.annotators or 0,), rng)[owners]
        rates = np.where(rng.random(owners.shape) < BY_ITEM, item, habit)
        values = (rng.random(owners.shape) < rates).astype(float).ravel()
        items = [f"i{place:05}" for place in range(design.items) for _ in range(design.each)]
        return crossed(values, items, [f"a{owner:04}" for owner in owners.ravel()])

    @staticmethod
    def _rates(spread: float, mean: float, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Return Beta rates of this mean, whose variance is `spread` times that of a single judgment."""
        total = 1 / spread - 1
        return rng.beta(mean * total, (1 - mean) * total, shape)


class Copiers(NamedTuple):
    """People who say with chance sqrt(likeness) what is typical of the item, with sqrt(lean) what is of them."""

    likeness: float
    lean: float

    def judge(self, design: Design, mean: float, rng: np.random.Generator) -> Crossed:
        of_item = [rng.random() < mean for _ in range(design.items)]
        of_annotator = [rng.random() < mean for _ in range(design.annotators or 0)]
        values, items, annotators = [], [], []
        for item in range(design.items):
            for turn in range(design.each):
                annotator = (item * design.each + turn) % (design.annotators or 1)
                lot = rng.random()
                if lot < self.likeness**0.5:
                    said = of_item[item]
                elif lot < self.likeness**0.5 + self.lean**0.5:
                    said = of_annotator[annotator]
                else:
                    said = rng.random() < mean
                values.append(float(said))
                items.append(f"i{item:05}")
                annotators.append(f"a{annotator:04}")
        return crossed(values, items, annotators)


PEOPLE = People(likeness=0.3, lean=0.015)
COPIERS = Copiers(likeness=0.3, lean=0.015)


def shown(design: Design, mean: float, *, studies: int, seed: int, people: People | Copiers = PEOPLE) -> float:
    """Return how often equality within ten points is shown at 5%."""
    rng = np.random.default_rng(seed)
    return float(np.mean([within(people.judge(design, mean, rng), MARGIN, 0.05).shown for _ in range(studies)]))


def test_people_are_as_alike_as_is_said() -> None:
    rng, pairs, habits = np.random.default_rng(0), [], []
    for _ in range(30):
        design = Design(400, 2, 20)
        found = PEOPLE.judge(design, 0.5, rng)
        sums = found.by_item.parts[:, 0] * 800
        pairs.append(np.mean(sums == 1))  # the two differ
        habits.append(found.by_annotator.parts[:, 0].var(ddof=1) * 800**2)
    assert 1 - 2 * np.mean(pairs) == pytest.approx(0.3, abs=0.02)
    # 40 judgments of one annotator, on different items: n p q (1 + 39 lean).
    assert np.mean(habits) == pytest.approx(40 * 0.25 * (1 + 39 * 0.015), rel=0.1)


@pytest.mark.slow
def test_at_the_margin_equality_is_shown_as_often_as_alpha_says() -> None:
    assert 0.02 <= shown(Design(300, 3, 24), 0.6, studies=300, seed=1) <= 0.09


@pytest.mark.slow
def test_beyond_the_margin_equality_is_shown_less_often() -> None:
    assert shown(Design(300, 3, 24), 0.65, studies=150, seed=2) <= 0.01


def test_few_judgments_show_no_equality() -> None:
    assert shown(Design(20, 2, 6), 0.5, studies=100, seed=3) <= 0.03


@pytest.mark.slow
@pytest.mark.parametrize(("items", "each", "annotators"), [(120, 3, 20), (400, 3, 30), (300, 2, 12), (800, 1, 40)])
def test_the_error_is_kept_whatever_the_design(items: int, each: int, annotators: int) -> None:
    for mean in (0.4, 0.6):
        assert shown(Design(items, each, annotators), mean, studies=1_000, seed=4) <= 0.071  # 0.05 and three errors


@pytest.mark.slow
@pytest.mark.parametrize(("power", "each", "annotators"), [(0.8, 3, 20), (0.9, 3, 40), (0.8, 5, 24)])
def test_the_planned_number_of_items_has_the_promised_power(power: float, each: int, annotators: int) -> None:
    labels = declared_labels(0.5, 0.0, PEOPLE.likeness, PEOPLE.lean)
    aim = Aim("equivalence", 0.1, 0.05)
    [needed] = plan_judgments(labels, [aim], [each], PowerSettings(power), annotators=annotators).needed
    assert needed.items is not None
    design = Design(needed.items, each, annotators)
    assert power - 0.03 <= shown(design, 0.5, studies=1_500, seed=5, people=COPIERS) <= power + 0.05
    # People who are alike in another way: what is assumed of how they are is not what the plan rests on.
    assert power - 0.06 <= shown(design, 0.5, studies=1_500, seed=5) <= power + 0.06


@pytest.mark.slow
def test_items_planned_for_the_claim_show_three_equalities_at_once_with_the_promised_power() -> None:
    labels = declared_labels(0.5, 0.0, PEOPLE.likeness, PEOPLE.lean)
    settings = PowerSettings(power_of_each(0.8))
    [needed] = plan_judgments(labels, [Aim("equivalence", 0.1, 0.05)], [3], settings, annotators=24).needed
    assert needed.items is not None
    design, rng = Design(needed.items, 3, 24), np.random.default_rng(6)
    together = [all(within(COPIERS.judge(design, 0.5, rng), MARGIN, 0.05).shown for _ in range(3)) for _ in range(600)]
    assert 0.76 <= np.mean(together) <= 0.9


# ---------------------------------------------------------------- the p-value


def test_the_p_value_is_below_alpha_where_the_interval_lies_inside() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        found = PEOPLE.judge(Design(300, 3, 20), rng.uniform(0.4, 0.6), rng)
        for alpha in (0.01, 0.05, 0.2):
            test = within(found, MARGIN, alpha)
            low, high = test.interval.low, test.interval.high
            assert low is not None
            assert high is not None
            assert test.shown == (low > MARGIN.low and high < MARGIN.high) == (test.p < alpha)


def test_single_judgments_have_the_p_of_the_score_test() -> None:
    """Each judgment of its own item and annotator: Wilson's interval is the score test turned around."""
    names = [f"n{place:03}" for place in range(300)]
    found = crossed([1.0] * 170 + [0.0] * 130, names, names)
    value = 170 / 300
    # Of judgments that are alone the three variances are one and the same.
    z = (value - 0.5) / np.sqrt(0.25 / 300 * 300 / 299)
    assert above(found, 0.5, 0.05).p == pytest.approx(float(stats.t.sf(z, 299)), abs=2e-3)


def test_above_and_below_are_two_sides_of_one_thing() -> None:
    rng = np.random.default_rng(8)
    found = PEOPLE.judge(Design(80, 3, 12), 0.5, rng)
    turned = crossed(
        1 - np.repeat(found.by_item.parts[:, 0] * 80, 3),
        [f"i{place:03}" for place in range(80) for _ in range(3)],
        [f"a{place % 12:02}" for place in range(240)],
    )
    same = crossed(
        np.repeat(found.by_item.parts[:, 0] * 80, 3),
        [f"i{place:03}" for place in range(80) for _ in range(3)],
        [f"a{place % 12:02}" for place in range(240)],
    )
    assert above(same, 0.45, 0.05).p == pytest.approx(1 - above(turned, 0.55, 0.05).p, abs=1e-9)


def test_one_annotator_shows_nothing() -> None:
    found = crossed([1.0, 0.0, 1.0], ["a", "b", "c"], ["ann"] * 3)
    assert within(found, MARGIN, 0.05).p == 1.0
    assert not above(found, 0.1, 0.05).shown

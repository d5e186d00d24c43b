"""Simulated judgments are as alike as is said, and intervals robust to items and annotators cover."""

import numpy as np
import pytest

from pluralrm.errors import MetricError
from pluralrm.stats.correlation import likeness
from pluralrm.stats.intervals import crossed_interval
from pluralrm.stats.judgments import Aim, Design, Labels, _means, judgments, reached

LABELS = Labels((0.5, 0.2, 0.3), (1.0, 0.5, 0.0), likeness=0.3, lean=0.06)


def test_shares_and_both_correlations_are_what_was_said() -> None:
    design = Design(300, 4, 20)
    said = judgments(LABELS, design, 40, seed=(0,))
    assert [float((said == label).mean()) for label in range(3)] == pytest.approx(LABELS.shares, abs=0.02)
    values = np.array(LABELS.worths)[said]
    items = [f"i{place:04}" for place in range(300) for _ in range(4)]
    owners = [f"a{owner:02}" for owner in design.owners().ravel()]
    alike, lean = (
        np.mean([likeness(one.ravel(), names).value for one in values.T.swapaxes(1, 2)]) for names in (items, owners)
    )
    assert alike == pytest.approx(0.3, abs=0.015)
    assert lean == pytest.approx(0.06, abs=0.012)
    pairs = [float((said[:, first] == said[:, second]).mean()) for first in range(4) for second in range(first)]
    assert np.mean(pairs) == pytest.approx(LABELS.agreement, abs=0.01)


def test_annotators_judge_alike_many_and_no_item_twice() -> None:
    owners = Design(30, 3, 9).owners()
    assert np.bincount(owners.ravel()).tolist() == [10] * 9
    assert all(len(set(row)) == 3 for row in owners)


def test_more_items_leave_those_that_were_there() -> None:
    few, many = (judgments(LABELS, Design(items, 3), 5, seed=(1,)) for items in (10, 20))
    assert (many[:10] == few).all()


def test_balanced_labels_are_worth_one_half_and_tie_as_often() -> None:
    found = LABELS.balanced()
    assert found.mean == pytest.approx(0.5)
    assert found.shares[1] == pytest.approx(0.2)
    with pytest.raises(MetricError, match="all fall on one side"):
        Labels((1.0,), (1.0,), 0.0).balanced()


@pytest.mark.parametrize(("items", "each", "annotators"), [(60, 3, 15), (120, 2, 30), (40, 5, 10)])
def test_an_interval_over_items_and_annotators_covers(items: int, each: int, annotators: int) -> None:
    design = Design(items, each, annotators)
    said = judgments(LABELS, design, 600, seed=(2,))
    by_item, by_annotator, alone = _means(np.array(LABELS.worths)[said], design, binary=False)
    found = [crossed_interval(by_item, by_annotator, alone, column)[1:3] for column in range(600)]
    inside = [low is not None and high is not None and low <= LABELS.mean <= high for low, high in found]
    assert 92 <= 100 * np.mean(inside) <= 98.5


def test_the_variance_over_items_and_annotators_is_that_of_statsmodels() -> None:
    import statsmodels.api as sm
    from scipy.stats import norm

    from pluralrm.stats.intervals import wilson

    design = Design(300, 4, 100)
    said = judgments(LABELS, design, 1, seed=(3,))
    values = np.array(LABELS.worths)[said]
    by_item, by_annotator, alone = _means(values, design, binary=False)
    found = crossed_interval(by_item, by_annotator, alone)
    groups = np.stack([np.repeat(np.arange(300), 4), design.owners().ravel()], axis=1)
    fit = sm.OLS(values.ravel(), np.ones(1200)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )
    mean, variance = float(values.mean()), float(fit.cov_params()[0, 0])
    low, high = wilson(mean, mean * (1 - mean) / variance, norm.ppf(0.975))
    assert found.value == pytest.approx(mean)
    # Student's t and the correction of the variance make ours the wider one, by little with so many clusters.
    assert 1.0 < (found.high - found.low) / (high - low) < 1.04  # type: ignore[operator]


def test_one_sided_tests_reject_at_alpha_where_the_truth_is_the_margin() -> None:
    # Win rate .6, margin .1: equivalence is claimed wrongly in one of twenty studies, no more.
    truth = Labels((0.6, 0.4), (1.0, 0.0), 0.2)
    design, aim = Design(200, 2), Aim("equivalence", 0.1)
    said = judgments(truth, design, 2_000, seed=(4,))
    from pluralrm.stats.judgments import _intervals

    claimed = np.mean([aim.holds(ends) for ends in _intervals(truth, design, said, aim)])
    assert 0.03 < claimed < 0.07


def test_what_nobody_can_judge_is_an_error() -> None:
    with pytest.raises(MetricError, match="2 annotators cannot judge each item 3 times"):
        judgments(LABELS, Design(10, 3, 2), 1, seed=(0,))
    with pytest.raises(MetricError, match="square roots to add up to 1"):
        Labels((0.5, 0.5), (0.0, 1.0), 0.8, 0.1)
    with pytest.raises(MetricError, match="agreement of one judgment per item"):
        reached(LABELS, Design(10, 1), Aim("agreement", 0.1), studies=2, seed=0)

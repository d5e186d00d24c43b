"""Means, intervals and verdicts of the whole set against statsmodels; lengths against a binomial test by hand."""

from math import comb

import pytest
from statsmodels.stats.weightstats import DescrStatsW

from pluralrm.construct.pipeline import Record
from pluralrm.construct.prb.card import SideDifference, differences, told
from pluralrm.construct.prb.gates import balanced, length_p
from pluralrm.construct.prb.products import Chosen, Contrary, Marks, Published, Quality
from pluralrm.core import Estimate
from pluralrm.errors import RunError
from tests.construct.prb.worlds import question


def record(number: int, factuality: tuple[int, int], lengths: tuple[int, int] = (60, 60)) -> Record:
    """Return a record with both answers, rated alike but for factuality."""
    sides = [
        kind(
            text="x" * size,
            marks=Marks(
                adherence=(2,), quality=Quality(factuality=points, relevance=4, helpfulness=4), coverage=(2, 1)
            ),
        )
        for kind, points, size in zip((Chosen, Published), factuality, lengths, strict=True)
    ]
    found = question(number)
    for side in sides:
        found = found.with_product(type(side).__name__, side)
    return found


RATINGS = [(5, 4), (4, 4), (5, 5), (4, 5), (5, 4), (3, 3), (4, 4), (5, 5), (4, 3), (4, 4), (5, 5), (3, 4)]


def test_the_interval_is_that_of_two_one_sided_t_tests() -> None:
    [factuality, *_] = differences([record(n, pair) for n, pair in enumerate(RATINGS)], "published")
    reference = DescrStatsW([one - other for one, other in RATINGS])
    low, high = reference.tconfint_mean(alpha=0.10)
    assert factuality.estimate.value == pytest.approx(reference.mean)
    assert (factuality.estimate.low, factuality.estimate.high) == pytest.approx((low, high))
    assert factuality.verdict == "equivalent"
    assert reference.ttost_mean(-0.5, 0.5)[0] < 0.05


@pytest.mark.parametrize("shift", range(-2, 3))
def test_the_verdict_is_that_of_two_one_sided_t_tests(shift: int) -> None:
    pairs = [(one, max(1, min(5, other + shift * (n % 2)))) for n, (one, other) in enumerate(RATINGS)]
    [factuality, *_] = differences([record(n, pair) for n, pair in enumerate(pairs)], "published")
    p = DescrStatsW([one - other for one, other in pairs]).ttost_mean(-0.5, 0.5)[0]
    assert (factuality.verdict == "equivalent") == (p < 0.05)


def test_what_does_not_vary_shows_nothing() -> None:
    found = differences([record(n, (4, 4)) for n in range(6)], "published")
    assert {one.dimension: one.verdict for one in found} == dict.fromkeys(
        ("factuality", "relevance", "helpfulness", "coverage"), "inconclusive"
    )


def test_a_difference_beyond_the_margin_is_called_different() -> None:
    def verdict(low: float, high: float) -> str:
        return SideDifference("d", Estimate((low + high) / 2, low, high, 9, 0, "t"), 0.5).verdict

    assert [verdict(*ends) for ends in ((-0.4, 0.4), (0.6, 0.9), (-0.9, -0.6), (0.4, 0.6), (0.1, 0.4))] == [
        "equivalent",
        "different",
        "different",
        "inconclusive",
        "equivalent",
    ]


@pytest.mark.parametrize(("longer", "shorter"), [(10, 2), (9, 3), (6, 6), (0, 5), (40, 20), (0, 0), (1, 0)])
def test_the_p_value_of_lengths_is_exact(longer: int, shorter: int) -> None:
    n, k = longer + shorter, max(longer, shorter)
    tail = sum(comb(n, j) for j in range(k, n + 1)) / 2**n
    assert length_p(longer, shorter) == pytest.approx(min(1.0, 2 * tail if longer != shorter else 1.0))


def test_the_records_that_leave_are_those_with_the_largest_difference() -> None:
    records = [record(n, (4, 4), (60 + n + 1, 60)) for n in range(10)] + [record(n, (4, 4), (60, 65)) for n in (10, 11)]
    left = [one.id for one, decided in zip(records, balanced(records, ["published"]), strict=True) if len(decided) == 2]
    assert left == ["q000", "q001", "q010", "q011"]


def test_answers_of_equal_length_lean_to_no_side() -> None:
    records = [record(n, (4, 4)) for n in range(30)] + [record(n + 30, (4, 4), (61, 60)) for n in range(5)]
    assert all(len(decided) == 2 for decided in balanced(records, ["published"]))  # 5 to 0: p = 0.06


def test_the_card_says_all_of_it_in_sentences() -> None:
    text = told([record(n, pair, (61 + n % 2, 62 - n % 2)) for n, pair in enumerate(RATINGS)], "published")
    assert "chosen answers give 100% [76%, 100%] of what is expected and rejected ones 100%" in text
    assert "factuality +0.08 (90% interval -0.26 to +0.43), margin 0.5: equivalent." in text
    assert "relevance +0.00 (no interval: the same in all of 12 clusters, few clusters)" in text
    assert "The chosen answer is the longer one in 6 of 12 pairs (p = 1)." in text


def test_a_kind_that_was_not_built_cannot_be_compared() -> None:
    with pytest.raises(RunError, match=Contrary.__name__):
        differences([record(0, (4, 4))], "contrary")

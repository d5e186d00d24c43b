"""Between which values a metric lies when items failed, against a computation of its own."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.card import Average
from pluralrm.core import Failure, Row, Score
from pluralrm.errors import MetricError
from pluralrm.metrics import bounds, measure, summary
from tests.metrics.rows import RESPONSES, chance, records, row, run

LOST = Failure("parse", "no verdict")
LEVELS: tuple[Score, ...] = (0.0, 1.0, 2.0, LOST)


def _item(number: int, scores: list[Score], place: int) -> Row:
    return row(f"i{number}", scores, place % len(scores), domain=("Bread", "Cake", "Pie")[number % 3])


rows_of = st.lists(
    st.tuples(st.lists(st.sampled_from(LEVELS), min_size=2, max_size=4), st.integers(0, 3)), min_size=2, max_size=9
).map(lambda items: [_item(number, scores, place) for number, (scores, place) in enumerate(items)])


def _credit(one: Row, if_failed: int) -> Fraction:
    """Return what an item earns by the definition: 1 / number tied at the top."""
    if LOST in one.scores:
        return Fraction(if_failed)
    top = [place for place, score in enumerate(one.scores) if score == max(one.scores)]
    return Fraction(one.preferred in top, len(top))


def _mean(rows: list[Row], if_failed: int, average: Average) -> Fraction:
    domains: dict[str, list[Fraction]] = {}
    for one in rows:
        domains.setdefault(one.domain if average == "macro" else "all", []).append(_credit(one, if_failed))
    means = [sum(values, Fraction()) / len(values) for values in domains.values()]
    return sum(means, Fraction()) / len(means)


@settings(deadline=None)
@given(rows_of, st.sampled_from(["micro", "macro"]))
def test_bounds_are_the_mean_with_failures_wrong_and_with_failures_right(rows: list[Row], average: Average) -> None:
    found = bounds(run(rows), average=average)
    failed = sum(LOST in one.scores for one in rows)
    if not failed:
        assert found is None
        return
    assert found is not None
    assert found.failed == failed
    assert found.worst == pytest.approx(float(_mean(rows, 0, average)))
    assert found.best == pytest.approx(float(_mean(rows, 1, average)))
    assert found.worst == measure(run(rows), average=average).value


@given(
    rows_of.filter(lambda rows: 0 < sum(LOST in one.scores for one in rows) <= 2), st.sampled_from(["accuracy", "pair"])
)
def test_whatever_the_failed_items_would_have_said_lies_between(rows: list[Row], metric: str) -> None:
    found = bounds(run(rows), metric)
    assert found is not None
    lost = [one for one in rows if one.failed]
    for said in product(*(product((0.0, 1.0), repeat=len(one.scores)) for one in lost)):
        told = dict(zip((one.item for one in lost), said, strict=True))
        mended = [row(one.item, told.get(one.item, one.scores), one.best[0], domain=one.domain) for one in rows]
        assert found.worst - 1e-12 <= measure(run(mended), metric).value <= found.best + 1e-12


def test_one_lost_item_of_four_moves_its_group_and_its_domain() -> None:
    rows = records(2, chance)
    rows[0] = row(
        rows[0].item,
        [LOST] * 4,
        rows[0].best[0],
        cluster="r000",
        domain="Chat",
        candidate_ids=RESPONSES,
        tags=rows[0].tags,
    )
    found = bounds(run(rows), "bon")
    assert found is not None
    assert found.best - found.worst == pytest.approx(1 / 12 / 2)  # one of its domain's twelve items; two domains


def test_a_metric_without_right_and_wrong_has_no_bounds() -> None:
    for metric in ("tie_rate", "failure_rate"):
        with pytest.raises(MetricError, match=f"{metric} has no bounds"):
            bounds(run([row("i0", [LOST, LOST])]), metric)


def test_the_summary_holds_them_where_items_failed() -> None:
    whole, broken = [row("i0", [1.0, 0.0]), row("i1", [0.0, 1.0])], row("i2", [LOST, 1.0])
    assert summary(run(whole)).bounds is None
    assert summary(run(whole)).to_json()["bounds"] is None
    told = summary(run([*whole, broken])).to_json()["bounds"]
    assert told == {"worst": pytest.approx(1 / 3), "best": pytest.approx(2 / 3), "failed": 1}

"""The report: what it says of studies whose truth is known."""

import json

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.correlate import Column, CorrelationCell, correlate, correlate_matrix
from pluralrm.errors import MetricError, SpecError
from pluralrm.stats import holm
from pluralrm.stats.ranking import RBO_P
from tests.correlate.worlds import World, columns

NAMES = [f"m{place:02}" for place in range(17)]


def column(name: str, *scores: float | None) -> Column:
    return Column(name, {model: float(one) for model, one in zip(NAMES, scores, strict=False) if one is not None})


def cell_of(*pair: Column, **options: object) -> CorrelationCell:
    [found] = correlate(pair[:1], pair[1:], **options).cells  # type: ignore[arg-type]
    return found


def sixteen(seed: int, rho: float) -> tuple[Column, Column]:
    values, result = World(16, rho, 0.2).draw(np.random.default_rng(seed), 1)
    return columns(values[0], result[0])


def test_a_benchmark_that_predicts_is_said_to() -> None:
    found = cell_of(*sixteen(0, 0.95))
    assert found.verdict.startswith("bench predicts the ranking by tuned (Spearman .9")
    assert found.clusters == 40
    assert "models and items resampled, 40 clusters of items" in found["spearman"].estimate.method


def test_one_that_does_not_is_not() -> None:
    assert cell_of(*sixteen(1, 0.0)).verdict.startswith("bench does not significantly predict the ranking by tuned")


def test_one_that_predicts_the_reverse_is_told_so() -> None:
    bench, tuned = sixteen(0, 0.95)
    turned = Column("tuned", {model: -score for model, score in tuned.scores.items()})
    assert "turned round: what it ranks high does worse" in cell_of(bench, turned).verdict


def test_all_of_a_cells_numbers_are_those_of_the_models_that_have_both() -> None:
    bench = column("bench", 1, 2, None, 4, 5, 3, 9, 8, 7)
    tuned = column("tuned", 2, 1, 7, 4, None, 3, 8, 9, 6)
    found = cell_of(bench, tuned)
    x, y = [1, 2, 4, 3, 9, 8, 7], [2, 1, 4, 3, 8, 9, 6]
    assert set(found.missing) == {"m02", "m04"}
    assert {finding.estimate.n for finding in found.findings} == {7}
    assert found["spearman"].estimate.value == pytest.approx(scipy_stats.spearmanr(x, y).statistic)
    assert found["kendall"].p == pytest.approx(scipy_stats.kendalltau(x, y, method="exact").pvalue)
    assert found["kendall"].orders == 5_040


def test_below_eight_models_published_numbers_have_no_interval_and_a_warning() -> None:
    found = cell_of(column("bench", *range(7)), column("tuned", 1, 0, 2, 3, 4, 5, 6))
    assert all(finding.estimate.low is None for finding in found.findings)
    assert found.warnings == ["7 models, fewer than 8: there is no interval."]
    assert "7 models are too few to speak of others" in found.verdict


def test_below_eight_models_with_items_the_interval_is_about_these_models() -> None:
    values, result = World(6, 0.8, 0.6).draw(np.random.default_rng(3), 1)
    found = cell_of(*columns(values[0], result[0]))
    assert found["kendall"].estimate.method == "these models only, 40 clusters of items"
    assert found["kendall"].estimate.low is not None
    assert "intervals are about these models only" in found.warnings[0]


def test_from_eight_models_on_models_are_resampled() -> None:
    found = cell_of(column("bench", *range(8)), column("tuned", 1, 0, 2, 3, 4, 6, 5, 7))
    assert found["spearman"].estimate.method == "models alone resampled"
    assert not found.warnings


def test_the_three_conventions_of_rbo_go_together() -> None:
    found = cell_of(*sixteen(2, 0.7))
    whole, cut, out_of = found["rbo_extrapolated"], found["rbo_truncated"], found["rbo_normalised"]
    most = 1 - RBO_P**16
    assert out_of.estimate.low is not None
    assert cut.estimate.low == pytest.approx(most * out_of.estimate.low)
    assert cut.estimate.value == pytest.approx(most * out_of.estimate.value)
    assert whole.estimate.value == pytest.approx(cut.estimate.value + RBO_P**16)
    assert whole.p == cut.p == out_of.p


def test_identical_rankings_are_perfect_in_every_measure() -> None:
    found = cell_of(column("bench", *range(6)), column("tuned", *range(6)))
    values = {finding.measure: finding.estimate.value for finding in found.findings}
    cut, regret = values.pop("rbo_truncated"), values.pop("regret")
    assert all(value == pytest.approx(1) for value in values.values())
    assert cut == pytest.approx(1 - RBO_P**6)
    assert (regret, found.regret) == (0.0, 0.0)
    assert not found.reversals


def test_the_reversed_pairs_are_listed_the_costliest_first() -> None:
    found = cell_of(column("bench", 9, 8, 7, 7, 1), column("tuned", 50, 60, 50, 80, 10))
    assert [(pair.above, pair.below, pair.lead, pair.loss) for pair in found.reversals] == [
        ("m00", "m03", 2, 30),
        ("m01", "m03", 1, 20),
        ("m00", "m01", 1, 10),
    ]
    assert found.regret == 30
    assert {pair.p_benchmark for pair in found.reversals} == {None}


def test_with_items_a_reversed_pair_says_whether_the_two_differ_at_all() -> None:
    bench, tuned = sixteen(4, 0.5)
    pairs = cell_of(bench, tuned).reversals
    widest = max(pairs, key=lambda pair: pair.lead)
    assert all(pair.p_benchmark is not None and pair.p_downstream is None for pair in pairs)
    assert widest.p_benchmark == min(pair.p_benchmark or 0 for pair in pairs)
    assert max(pair.p_benchmark or 0 for pair in pairs) == 1  # Holm over 120 pairs: small leads are nothing


def test_models_far_below_the_others_carry_pearson_and_are_named() -> None:
    # Thirteen good models in no order, three weak ones: Pearson sees a line.
    rng = np.random.default_rng(5)
    x, y = (np.concatenate([60 + rng.standard_normal(13), [10, 12, 5]]) for _ in range(2))
    found = cell_of(column("bench", *x), column("tuned", *y))
    assert found["pearson"].estimate.value > 0.95
    assert found.carried[-1].models == ("m13", "m14", "m15")
    assert found.warnings[0].startswith("Three models carry the Pearson of .9")
    assert "without m13, m14, m15 it" in found.warnings[0]


def test_an_even_line_is_carried_by_nobody() -> None:
    assert not cell_of(column("bench", *range(16)), column("tuned", *range(16))).carried


def test_a_sign_that_turns_between_groups_is_told() -> None:
    x = [1, 2, 3, 4, 11, 12, 13, 14]
    y = [4, 3, 2, 1, 11, 12, 13, 14]
    groups = {model: "old" if place < 4 else "new" for place, model in enumerate(NAMES[:8])}
    found = cell_of(column("bench", *x), column("tuned", *y), groups=groups)
    assert [(group.group, group.spearman) for group in found.groups] == [("old", -1.0), ("new", 1.0)]
    assert found.warnings[-1].startswith("The sign turns between groups. old: Pearson -1.000")
    same = cell_of(column("bench", *x), column("tuned", *x), groups=groups)
    assert not same.warnings
    assert same.inside.startswith("Inside groups: old: Pearson 1.000")


def test_two_benchmarks_are_compared_on_the_models_that_have_all_three() -> None:
    values, result = World(16, 0.95, 0.1).draw(np.random.default_rng(6), 1)
    good, tuned = columns(values[0], result[0])
    noise = np.random.default_rng(7).standard_normal(16)
    bad = Column("bad", {model: float(one) for model, one in zip(NAMES[:15], noise, strict=False)})
    report = correlate([good, bad], [tuned])
    first = report.contrasts[0]
    assert (first.first, first.second, first.measure, first.difference.n) == ("bench", "bad", "spearman", 15)
    assert first.shown
    assert first.difference.low is not None
    assert first.difference.low > 0
    assert [cell.family for cell in report.cells] == [2, 2]


def test_a_benchmark_does_not_differ_from_itself() -> None:
    bench, tuned = sixteen(8, 0.6)
    twin = Column("twin", bench.scores, bench.items)
    for one in correlate([bench, twin], [tuned]).contrasts:
        assert one.difference.value == 0
        assert one.difference.method == "paired, no interval: the same in every resample"
        assert not one.shown


def test_several_cells_are_one_family() -> None:
    bench, tuned = sixteen(9, 0.6)
    others = [Column(f"other{place}", sixteen(20 + place, 0.6)[1].scores) for place in range(3)]
    alone = cell_of(bench, tuned)
    together = correlate([bench], [tuned, *others]).cells[0]
    assert together["spearman"].p == alone["spearman"].p
    assert together.p_adjusted >= alone.p_adjusted
    assert "Holm over 4 pairs of columns" in together.verdict


def test_a_column_against_itself_is_no_finding_and_no_part_of_the_family() -> None:
    bench, tuned = sixteen(9, 0.6)
    published = Column("bench", bench.scores)
    report = correlate([published, tuned], [tuned])
    assert [(cell.benchmark, cell.family) for cell in report.cells] == [("bench", 1)]
    assert report.cells[0].p_adjusted == report.cells[0]["spearman"].p
    assert report.notes[0] == "left out: tuned against itself"
    assert not report.contrasts  # nothing is compared with what it should predict


def test_columns_of_two_models_are_left_out_by_name_and_the_others_stay() -> None:
    bench, tuned = sixteen(9, 0.6)
    few = Column("few", {"m00": 1.0, "m01": 2.0})
    apart = Column("apart", {"x": 1.0, "y": 2.0, "z": 3.0, "m00": 4.0})
    flat = Column("flat", dict.fromkeys(tuned.scores, 1.0))
    report = correlate([bench, few, apart, flat], [tuned])
    assert [cell.benchmark for cell in report.cells] == ["bench"]
    assert report.notes[0] == "left out: few has a score for 2, wanted 3 models or more"
    assert report.notes[1].startswith("left out: apart -> tuned: apart and tuned: 1 models have both, wanted 3")
    assert report.notes[2].startswith("left out: flat -> tuned: flat is 1 for all of 16 models")


def test_a_matrix_has_each_pair_once_and_adjusts_over_all_of_them() -> None:
    named = [Column(str(place), sixteen(20 + place, 0.6)[1].scores) for place in range(4)]
    report = correlate_matrix(named)
    pairs = [(cell.benchmark, cell.downstream) for cell in report.cells]
    assert pairs == [("0", "1"), ("0", "2"), ("0", "3"), ("1", "2"), ("1", "3"), ("2", "3")]
    raw = [cell["spearman"].p for cell in report.cells]
    assert [cell.p_adjusted for cell in report.cells] == pytest.approx(list(holm(raw)))
    assert not report.contrasts


def test_a_difference_is_significant_only_where_its_p_agrees_with_its_interval() -> None:
    values, result = World(16, 0.95, 0.1).draw(np.random.default_rng(6), 1)
    good, tuned = columns(values[0], result[0])
    noise = np.random.default_rng(7).standard_normal((2, 16))
    others = [
        Column(f"noise{place}", dict(zip(NAMES, map(float, row), strict=False))) for place, row in enumerate(noise)
    ]
    found = correlate([good, *others], [tuned]).contrasts
    assert {one.family for one in found} == {3}
    for one in found:
        low, high = one.difference.low, one.difference.high
        assert low is not None
        assert high is not None
        assert one.shown == ((low > 0 or high < 0) and one.p_adjusted < 0.05)
    assert {one.shown for one in found} == {True, False}
    for measure in ("spearman", "kendall", "pearson"):
        some = [one for one in found if one.measure == measure]
        assert [one.p_adjusted for one in some] == pytest.approx(list(holm([one.test.p for one in some])))


def test_the_order_of_models_changes_nothing_and_json_is_finite() -> None:
    bench, tuned = (
        column(name, *np.random.default_rng(seed).standard_normal(7)) for name, seed in (("b", 1), ("t", 2))
    )
    told = correlate([bench], [tuned])
    turned = correlate([Column("b", dict(reversed(list(bench.scores.items()))))], [tuned])
    for first, second in zip(told.cells[0].findings, turned.cells[0].findings, strict=True):
        assert first.p == second.p
        assert first.estimate.value == pytest.approx(second.estimate.value, abs=1e-12)
    json.dumps(told.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("bench", "tuned", "message"),
    [
        ((1, 2, None, 4), (1, 2, 3), "2 models have both, wanted 3 or more"),
        ((1, 2, 3), (5, 5, 5), "tuned is 5 for all of 3 models"),
        ((), (1, 2, 3), "bench has a score for 0, wanted 3 models or more"),
    ],
)
def test_what_cannot_be_correlated_is_refused(bench: tuple[float, ...], tuned: tuple[float, ...], message: str) -> None:
    with pytest.raises(MetricError, match=message):
        cell_of(column("bench", *bench), column("tuned", *tuned))


def test_a_p_of_rbo_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match="--rbo-p 1: wanted a number between 0 and 1"):
        cell_of(column("bench", 1, 2, 3), column("tuned", 1, 2, 3), rbo_p=1.0)

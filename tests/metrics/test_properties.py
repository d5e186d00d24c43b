"""What must hold of every metric, whatever the model: silence never pays, names and order never matter."""

import json
import pickle
import random
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.core import FINAL_KINDS, Failure, Row
from pluralrm.errors import MetricError
from pluralrm.metrics import METRICS, consistency, measure, summary
from pluralrm.metrics.units import pair_credit, top_credit
from tests.metrics.rows import chance, constant, prompt_blind, records, row, run, users

scores = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, -3.0]), min_size=2, max_size=4)
SAID = ("accuracy", "bon", "pair")


@settings(deadline=None)
@given(scores, st.data())
def test_the_credit_is_the_chance_to_win_a_fair_draw_among_the_best(found: list[float], data: st.DataObject) -> None:
    preferred = data.draw(st.integers(0, len(found) - 1))
    best = [place for place, score in enumerate(found) if all(score >= other for other in found)]
    assert top_credit(row("i", found, preferred)) == float(Fraction(best.count(preferred), len(best)))


@settings(deadline=None)
@given(scores, st.data())
def test_the_pair_credit_is_the_mean_of_the_pairs(found: list[float], data: st.DataObject) -> None:
    preferred = data.draw(st.integers(0, len(found) - 1))
    pairs = [(found[preferred], other) for place, other in enumerate(found) if place != preferred]
    by_hand = sum(Fraction((a > b) - (a < b) + 1, 2) for a, b in pairs) / len(pairs)
    assert pair_credit(row("i", found, preferred)) == pytest.approx(float(by_hand), abs=1e-15)


@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_constant_scorer_is_chance_at_every_width(width: int) -> None:
    rows = [row(f"i{n}", [2.5] * width, n % width) for n in range(60)]
    told = summary(run(rows)).metrics["accuracy"]
    assert told.value == pytest.approx(1 / width, abs=1e-15)
    assert (told.low, told.high) == (None, None)
    assert "fixed by design" in told.method
    assert measure(run(rows), "pair").value == 0.5
    assert measure(run(rows), "tie_rate").value == 1


@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_silent_model_earns_nothing(width: int) -> None:
    rows = [row(f"i{n}", [Failure("empty")] * width, n % width) for n in range(30)]
    for metric in SAID:
        told = measure(run(rows), metric)
        assert (told.value, told.low, told.failed) == (0.0, 0.0, 30)
        assert told.high is not None
        assert 0 < told.high < 0.2
    assert measure(run(rows), "failure_rate").value == 1
    assert summary(run(rows)).metrics["length_controlled"].value == 0


def test_a_constant_scorer_is_never_consistent() -> None:
    told = summary(run(records(8, constant)))
    assert told.metrics["consistency"].value == 0
    assert told.metrics["bon"].value == 0.25
    assert told.metrics["pair"].value == 0.5
    assert told.published["consistency"].value == 1
    assert told.published["bon"].value == told.published["pair"].value == 0
    assert told.published["consistency"].reason == (
        "32 groups with ties: not consistent here, ordered by response key by this rule."
    )


def test_a_prompt_blind_scorer_has_exactly_chance_by_design() -> None:
    told = summary(run(records(10, prompt_blind))).metrics
    assert (told["bon"].value, told["pair"].value, told["consistency"].value) == (0.25, 0.5, 1.0)
    assert told["all_phrasings"].value == 0.25
    for metric in ("bon", "pair", "consistency", "all_phrasings", "bon_micro"):
        assert (told[metric].low, told[metric].high) == (None, None)
        assert "fixed by design: each candidate keeps one score" in told[metric].method


def test_an_equal_result_by_coincidence_keeps_its_interval() -> None:
    right = [row(f"i{n}", [1.0, 0.0]) for n in range(12)]
    told = measure(run(right))
    assert told.value == told.high == 1
    assert told.low is not None
    assert 0.7 < told.low < 0.8
    assert "fixed" not in told.method
    halves = [row(f"i{n}", [float(n % 2), 0.5], cluster=f"u{n // 2}") for n in range(12)]
    told = measure(run(halves))
    assert told.value == 0.5
    assert told.low is not None
    assert told.low < 0.4


def test_a_scorer_that_reads_the_prompt_has_an_interval() -> None:
    told = summary(run(records(10, chance))).metrics
    for metric in ("bon", "pair", "consistency", "all_phrasings"):
        low, high = told[metric].low, told[metric].high
        assert low is not None
        assert high is not None
        assert low < high


def test_one_prompt_per_record_cannot_show_that_a_scorer_is_blind() -> None:
    first = [found for found in records(12, prompt_blind) if found.tags["phrasing"] == found.tags["group"] == "0"]
    assert "fixed" not in measure(run(first), "bon").method


failing = st.lists(st.integers(0, 2**30), min_size=108, max_size=108)


@given(failing, st.sampled_from(FINAL_KINDS), st.booleans())
def test_failing_on_nine_items_of_ten_never_raises_the_headline(keys: list[int], kind: str, whole: bool) -> None:
    rows = [*users(60, 0.8), *users(60, 0.5, seed=9)]
    rows = [replace(found, item=f"{found.item}-{place}") for place, found in enumerate(rows)]
    chosen = set(random.Random(str(keys)).sample(range(120), 108))
    failed = [_failed(found, kind, whole) if place in chosen else found for place, found in enumerate(rows)]
    before, after = measure(run(rows)), measure(run(failed))
    assert after.value <= before.value
    assert after.value <= 12 / 120
    assert (after.n, after.failed) == (120, 108)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.booleans())
def test_failing_on_part_of_rmgap_never_raises_any_metric(seed: int, whole: bool) -> None:
    rng = random.Random(seed)
    rows = records(5, chance, seed=seed)
    failed = [_failed(found, "parse", whole) if rng.random() < 0.9 else found for found in rows]
    before, after = run(rows), run(failed)
    for metric in ("bon", "pair", "all_phrasings"):
        assert measure(after, metric).value <= measure(before, metric).value
    assert consistency(after).consistency.value <= consistency(before).consistency.value


def _failed(found: Row, kind: str, whole: bool) -> Row:
    failure = Failure(kind)  # type: ignore[arg-type]
    kept = () if whole else found.scores[1:]
    return replace(found, scores=(failure,) * (len(found.scores) - len(kept)) + kept)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20))
def test_the_order_of_rows_changes_no_byte(seed: int) -> None:
    rng = random.Random(seed)
    for rows in (users(50, 0.6, ties=0.2, failures=0.1), records(6, chance)):
        shuffled = rng.sample(rows, len(rows))
        assert json.dumps(summary(run(rows)).to_json()) == json.dumps(summary(run(shuffled)).to_json())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20))
def test_the_places_of_candidates_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    for rows in (users(40, 0.6, ties=0.2, failures=0.1), records(5, chance)):
        moved = [_permuted(found, rng.choice(list(permutations(range(len(found.scores)))))) for found in rows]
        assert summary(run(rows)).to_json() == summary(run(moved)).to_json()


def _permuted(found: Row, order: tuple[int, ...]) -> Row:
    return replace(
        found,
        preferred=order.index(found.preferred),
        scores=tuple(found.scores[place] for place in order),
        candidate_ids=tuple(found.candidate_ids[place] for place in order),
        lengths=tuple(found.lengths[place] for place in order),
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20))
def test_the_names_of_users_and_items_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    rows = [replace(found, cluster=f"u{place // 3}") for place, found in enumerate(users(45, 0.6, ties=0.2))]
    names = dict(zip((f"u{n}" for n in range(15)), rng.sample(range(1000), 15), strict=True))
    renamed = [replace(found, item=f"x{rng.random()}", cluster=f"{names[found.cluster]}") for found in rows]
    before, after = summary(run(rows)).metrics, summary(run(renamed)).metrics
    for metric, told in before.items():
        other = after[metric]
        assert other.value == pytest.approx(told.value, abs=1e-12)
        assert (other.low, other.high) == pytest.approx((told.low, told.high), abs=1e-12)


def test_consistency_never_comes_without_bon() -> None:
    rows = records(6, chance)
    with pytest.raises(MetricError, match="never given without bon"):
        measure(run(rows), "consistency")
    both = consistency(run(rows))
    assert both.bon == measure(run(rows), "bon")
    alone = replace(run(rows).card, metrics=("consistency",))
    assert list(summary(run(rows, card=alone)).metrics)[:2] == ["bon", "consistency"]


def test_a_group_without_all_its_phrasings_is_not_consistent() -> None:
    rows = records(4, prompt_blind)
    assert consistency(run(rows)).consistency.value == 1
    short = [found for found in rows if found.item != "r000/0/2"]
    told = consistency(run(short, items=len(rows), complete=False))
    # 15 of 16 groups; four records, one per domain, so the macro mean is the mean over groups.
    assert told.consistency.value == 15 / 16
    assert "incomplete: 47 of 48 items" in told.consistency.method


def test_nothing_has_a_zero_width_interval() -> None:
    for rows in (users(40, 1.0), users(40, 0.0), users(9, 0.9), records(6, chance), records(5, constant)):
        told = summary(run(rows))
        for found in [*told.metrics.values(), *told.domains.values()]:
            assert found.low is None or found.high is None or found.low < found.high


def test_rows_without_tags_cannot_answer_for_consistency() -> None:
    with pytest.raises(MetricError, match="'i0000' has no tag 'record'"):
        consistency(run(users(5, 0.5)))


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(MetricError, match=r"unknown metric 'acuracy'\. Did you mean 'accuracy'"):
        measure(run(users(5, 0.5)), "acuracy")
    assert set(SAID) < set(METRICS)


def test_no_rows_is_an_error() -> None:
    with pytest.raises(MetricError, match="of no rows"):
        summary(run([]))


def test_the_metrics_of_a_run_print_and_pickle_as_a_dictionary() -> None:
    metrics = summary(run(users(20, 0.7))).metrics
    assert repr(metrics) == repr(dict(metrics))
    assert pickle.loads(pickle.dumps(metrics)) == dict(metrics)  # noqa: S301 - written here

"""Two runs, many runs: paired differences, ranks, refusals."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from pluralrm.core import Row, Run, Score
from pluralrm.errors import MetricError
from pluralrm.metrics import leaderboard, measure, paired_difference, paired_differences
from tests.builders import left_open
from tests.metrics.rows import chance, constant, prompt_blind, records, row, run, users


def test_a_run_differs_from_itself_in_nothing() -> None:
    found = paired_difference(run(users(60, 0.7)), run(users(60, 0.7)))
    assert (found.difference.value, found.difference.low, found.difference.high) == (0.0, None, None)
    assert "fixed by design: the same scores on every item" in found.difference.method
    assert (found.p, found.p_adjusted, found.tested) == (1.0, 1.0, False)


def crossed(rows: list[Row], users: int) -> list[Row]:
    """Return the rows as if so many users had judged the prompts between them, each prompt several of them."""
    return [
        replace(row, cluster=f"u{place % users:03}", prompt=f"p{place // users:03}") for place, row in enumerate(rows)
    ]


def test_where_users_share_prompts_every_number_is_robust_to_both() -> None:
    # One model is right on the first half of the prompts, one on the second, whoever asks.
    first, second = (
        run(crossed([row(f"i{n:04}", (1.0, 0.0) if (n < 800) == side else (0.0, 1.0)) for n in range(1600)], 40))
        for side in (True, False)
    )
    lucky = replace(
        second, rows=tuple(replace(one, scores=(1.0, 0.0)) for one in second.rows[:200]) + second.rows[200:]
    )
    found = paired_difference(lucky, first)
    assert "two-way cluster-robust score interval, 40 clusters × 40 prompts" in found.difference.method
    assert found.difference.value == pytest.approx(0.125)
    assert not found.significant
    blind = [replace(one, rows=tuple(replace(row, prompt="") for row in one.rows)) for one in (lucky, first)]
    assert paired_differences(blind)[0].significant
    assert "two-way" in measure(lucky).method


def test_a_prompt_of_one_user_changes_no_number() -> None:
    rows, others = users(90, 0.7), users(90, 0.6, seed=2)
    plain = paired_differences([run(rows), run(others)])
    named = [run([replace(one, prompt=f"p{place}") for place, one in enumerate(some)]) for some in (rows, others)]
    assert paired_differences(named) == plain
    assert leaderboard(named).to_json() == leaderboard([run(rows), run(others)]).to_json()


def test_an_equal_accuracy_by_coincidence_keeps_its_interval() -> None:
    rows = users(60, 0.7)
    louder = [replace(one, scores=tuple(2 * s for s in one.scores if isinstance(s, float))) for one in rows]
    found = paired_difference(run(rows), run(louder))
    assert found.tested
    assert found.difference.low is not None


def test_runs_with_the_same_scores_do_not_make_the_tests_of_others_harder() -> None:
    first, second = (run(users(120, right, seed=seed), model=f"m{seed}") for seed, right in ((1, 0.9), (2, 0.7)))
    alone = paired_difference(first, second)
    copies = [replace(first, model=f"copy{place}") for place in range(3)]
    found = paired_differences([first, *copies])
    assert [pair.p_adjusted for pair in found] == [1.0] * 6
    beside = paired_differences([first, second, *copies])
    tested = [pair for pair in beside if pair.tested]
    assert len(tested) == 4
    assert [pair.p for pair in tested] == pytest.approx([alone.p] * 4, abs=0.01)
    expected = multipletests([pair.p for pair in tested], method="holm")[1]
    assert [pair.p_adjusted for pair in tested] == pytest.approx(list(expected), abs=1e-12)


def test_the_difference_is_that_of_the_metrics() -> None:
    for first, second in (
        (run(users(90, 0.8)), run(users(90, 0.6, seed=3))),
        (run(records(9, chance)), run(records(9, chance, seed=2))),
    ):
        found = paired_difference(first, second)
        assert found.difference.value == pytest.approx(measure(first).value - measure(second).value, abs=1e-12)
        assert paired_difference(second, first).difference.value == -found.difference.value
        assert found.p == paired_difference(second, first).p


def test_the_sign_flip_test_is_the_exact_sign_test_on_few_users() -> None:
    first, second = users(12, 0.9, seed=1), users(12, 0.3, seed=2)
    better = worse = 0
    for one, other in zip(first, second, strict=True):
        margin = [found.scores[found.best[0]] - found.scores[1 - found.best[0]] for found in (one, other)]  # type: ignore[operator]
        better, worse = better + (margin[0] > margin[1]), worse + (margin[0] < margin[1])
    assert better + worse > 4
    exact = scipy_stats.binomtest(better, better + worse).pvalue
    second = [replace(other, item=one.item) for one, other in zip(first, second, strict=True)]
    assert paired_difference(run(first), run(second)).p == pytest.approx(exact, abs=1e-12)


def test_pairing_is_by_item_not_by_place() -> None:
    first, second = users(50, 0.8), users(50, 0.6, seed=4)
    shuffled = random.Random(0).sample(second, 50)
    assert paired_difference(run(first), run(second)) == paired_difference(run(first), run(shuffled))


def test_unmatched_items_are_named() -> None:
    with pytest.raises(MetricError, match=r"has 2 items that not all runs have: 'i0028', 'i0029'\. Compare"):
        paired_difference(run(users(28, 0.6)), run(users(30, 0.6)))


def test_an_unfinished_run_is_compared_on_all_items_and_not_tested() -> None:
    whole, other = run(users(30, 0.9)), run(users(30, 0.4, seed=1), model="other")
    part = left_open(other, {row.item for row in other.rows[20:]})
    found = paired_difference(whole, part)
    assert (found.difference.n, found.difference.failed) == (30, 10)
    assert found.difference.value >= paired_difference(whole, other).difference.value
    assert "incomplete: 20 of 30 items" in found.difference.method
    assert (found.tested, found.significant, found.p) == (False, False, 1.0)
    assert paired_difference(part, whole).difference.value == -found.difference.value
    alone, beside = leaderboard([whole, other]), leaderboard([whole, other, replace(part, model="part")])
    assert beside.differences == alone.differences
    assert [entry.rank for entry in beside.entries] == [*(entry.rank for entry in alone.entries), None]


def test_an_item_that_failed_in_either_run_counts_once() -> None:
    rows = [users(80, 0.7, failures=rate, seed=seed) for seed, rate in enumerate((0.3, 0.2, 0.0))]
    for found in paired_differences([run(made, model=f"m{place}") for place, made in enumerate(rows)]):
        first, second = rows[found.first], rows[found.second]
        assert found.difference.failed == sum(a.failed or b.failed for a, b in zip(first, second, strict=True))
    assert any(a.failed and b.failed for a, b in zip(*rows[:2], strict=True))


def test_two_designs_differ_by_design() -> None:
    found = paired_difference(run(records(6, constant)), run(records(6, prompt_blind))).difference
    assert (found.value, found.low, found.high) == (0.0, None, None)
    assert "fixed by design, both" in found.method
    other = paired_difference(run(records(6, chance)), run(records(6, constant))).difference
    assert other.low is not None


def test_adjusted_p_values_are_holms() -> None:
    runs = [run(users(120, right, seed=seed), model=f"m{seed}") for seed, right in enumerate([0.5, 0.6, 0.7, 0.9])]
    found = paired_differences(runs)
    expected = multipletests([pair.p for pair in found], method="holm")[1]
    assert [pair.p_adjusted for pair in found] == pytest.approx(list(expected), abs=1e-12)
    assert [(pair.first, pair.second) for pair in found] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def _field() -> list[Run]:
    return [run(users(150, right, seed=seed), model=f"m{seed}") for seed, right in enumerate([0.5, 0.97, 0.6, 0.9])]


def test_a_leaderboard_ranks_what_the_data_support() -> None:
    table = leaderboard(_field())
    assert [entry.summary.model for entry in table.entries] == ["m1", "m3", "m2", "m0"]
    assert [entry.rank and tuple(entry.rank) for entry in table.entries] == [(1, 2), (1, 2), (3, 4), (3, 4)]
    assert [entry.below_best for entry in table.entries] == [False, False, True, True]
    assert table.entries[0].p_best is None
    assert len(table.differences) == 6
    assert all(found.difference.value >= 0 for found in table.differences)


def test_a_leaderboard_is_the_same_however_runs_and_rows_come() -> None:
    runs = _field()
    mixed = [replace(found, rows=tuple(reversed(found.rows))) for found in reversed(runs)]
    assert json.dumps(leaderboard(runs).to_json()) == json.dumps(leaderboard(mixed).to_json())


def test_a_leaderboard_speaks_json() -> None:
    told = json.loads(
        json.dumps(leaderboard([run(records(5, chance)), run(records(5, constant), model="k")]).to_json())
    )
    entry = told["entries"][0]
    names = [
        "bon",
        "pair",
        "consistency",
        "all_phrasings",
        "bon_micro",
        "tie_rate",
        "failure_rate",
        "length_controlled",
    ]
    assert list(entry["metrics"]) == names
    assert set(entry["metrics"]["bon"]) == {"value", "low", "high", "n", "failed", "method"}
    assert entry["rank"] == {"low": 1, "high": 2}
    assert told["average"] == "macro"
    assert told["differences"][0]["first"] == 0


def test_nobody_is_worse_than_a_run_that_was_shown_the_rubric() -> None:
    told, good, poor = (users(150, right, seed=seed) for seed, right in ((1, 0.99), (2, 0.9), (3, 0.6)))
    oracle = run(told, model="told", condition="oracle", reveals=frozenset({"oracle"}))
    table = leaderboard([oracle, run(good, model="good"), run(poor, model="poor")])
    assert [entry.summary.model for entry in table.entries] == ["told", "good", "poor"]
    assert table.reference == 1
    assert [entry.p_best is None for entry in table.entries] == [True, True, False]
    assert [entry.below_best for entry in table.entries] == [False, False, True]
    assert table.differences[0].significant  # the pair is still among the differences, and counts for the ranks
    assert leaderboard([oracle]).reference == 0


def test_one_run_is_a_leaderboard() -> None:
    table = leaderboard([run(users(20, 0.5))])
    assert table.entries[0].rank == (1, 1)
    assert table.differences == ()


def test_other_content_is_refused() -> None:
    with pytest.raises(
        MetricError, match=r"m under none is on bakery \(01234567\), other under none on bakery \(fedcba98\)"
    ):
        leaderboard([run(users(9, 0.5)), run(users(9, 0.5), model="other", benchmark_hash="fedcba9876543210")])


def test_equal_ids_of_another_benchmark_are_not_paired() -> None:
    with pytest.raises(MetricError, match="one benchmark content at a time"):
        paired_difference(run(users(9, 0.5)), run(users(9, 0.5), benchmark_hash="fedcba9876543210"))


def test_other_items_are_refused() -> None:
    with pytest.raises(MetricError, match=r"differ in 1 items: 'i0009'\. Score both"):
        leaderboard([run(users(9, 0.5)), run(users(10, 0.5), model="other")])
    with pytest.raises(MetricError, match="no runs"):
        leaderboard([])


def test_oracle_runs_say_so() -> None:
    shown = leaderboard([run(users(9, 0.5), reveals=frozenset({"oracle"}))]).to_json()
    assert shown["entries"][0]["reveals"] == ["oracle"]  # type: ignore[index]


@pytest.mark.slow
def test_equal_models_seldom_look_different() -> None:
    hits = 0
    for seed in range(60):
        runs = [run(users(48, 0.7, seed=1000 * seed + place), model=f"m{place}") for place in range(4)]
        aligned = [
            replace(found, rows=tuple(replace(r, preferred=0, scores=_to_first(r)) for r in found.rows))
            for found in runs
        ]
        hits += any(entry.rank != (1, 4) for entry in leaderboard(aligned).entries)
    # A family-wise error rate of 5% gives 3 of 60 on average; 9 or more has a chance below 1%.
    assert hits <= 8


def _to_first(found: Row) -> tuple[Score, ...]:
    return (found.scores[found.best[0]], found.scores[1 - found.best[0]])


def test_the_order_of_magnitude_of_p_is_that_of_a_z_test() -> None:
    first, second = users(400, 0.75), users(400, 0.65, seed=11)
    found = paired_difference(run(first), run(second))
    deltas = np.array([a.scores[a.best[0]] - b.scores[b.best[0]] for a, b in zip(first, second, strict=True)])  # type: ignore[operator]
    z = abs(deltas.mean()) / (deltas.std() / 20)
    assert found.p == pytest.approx(2 * scipy_stats.norm.sf(z), abs=0.02)


def test_a_leaderboard_prints_a_line_per_run() -> None:
    rows = users(12, 0.5)
    first, *lines = str(leaderboard([run(rows, model="one"), run(rows, model="two")])).splitlines()
    assert first.endswith(", accuracy")
    assert [line.split()[:2] for line in lines] == [["1-2", "one"], ["1-2", "two"]]

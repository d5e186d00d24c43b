"""Outcomes as columns: what best-of-k earned, on the items and clusters that a benchmark may share."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Row
from pluralrm.correlate import columns_of_outcomes, columns_of_runs, correlate
from pluralrm.correlate.columns import scores_of
from pluralrm.errors import MetricError
from pluralrm.grading import open_grader
from pluralrm.policies.best_of_n import best_of_n, score_pool
from pluralrm.policies.grades import grade_folder, grade_pool, read_grades
from pluralrm.policies.outcomes import Outcome, OutcomeManifest, find_outcomes, load_outcome, write_outcomes
from pluralrm.policies.policy import Draw
from pluralrm.policies.sample import sample
from pluralrm.runs import score
from tests.metrics.rows import row, run, users

FACTS: Mapping[str, object] = {
    "way": "exact",
    "condition": "none",
    "shown_rubric": False,
    "policy": "chat:m",
    "policy_condition": "none",
    "pool_hash": "1234567890ab",
    "grader": "truth",
    "benchmark": "bakery",
    "benchmark_hash": "0123456789abcdef",
    "average": "micro",
    "ks": (1, 4),
    "items": 4,
    "failed": 0,
    "versions": {},
    "git": "",
    "started": "",
}
CLUSTERS = ("u1", "u1", "u2", "u3")
DOMAINS = ("Bread", "Bread", "Bread", "Cake")


def outcome(model: str, grades: Sequence[float], **changes: object) -> Outcome:
    """Return an outcome with these grades at the largest k, and half of each at all others."""
    manifest = OutcomeManifest.model_validate({**FACTS, "model": model, **changes})
    count = len(manifest.ks)
    rows: list[Row] = [
        row(
            f"i{place}",
            [grade / 2] * (count - 1) + [float(grade)],
            count - 1,
            cluster=CLUSTERS[place],
            domain=DOMAINS[place],
        )
        for place, grade in enumerate(grades)
    ]
    return Outcome(manifest, tuple(rows), f"outcomes/{model}")


def test_a_column_is_the_mean_grade_of_each_model_at_the_largest_k() -> None:
    [column] = columns_of_outcomes([outcome("m", [1, 0, 1, 1]), outcome("k", [0, 0, 1, 0])])
    assert column.name == "bakery best-of-4 none"
    assert column.scores == {"m": 0.75, "k": 0.25}


def test_a_macro_benchmark_is_macro_here_too() -> None:
    [column] = columns_of_outcomes([outcome("m", [1, 0, 1, 0], average="macro")])
    assert column.scores["m"] == pytest.approx(((1 + 0 + 1) / 3 + 0) / 2)


def test_each_k_and_each_condition_is_a_column_of_its_own() -> None:
    both = [outcome(model, [1, 0, 1, 0], condition=seen) for seen in ("none", "raw:5") for model in ("m", "k")]
    columns = columns_of_outcomes(both, [4, 1])
    assert [column.name for column in columns] == [
        f"bakery best-of-{k} {seen}" for seen in ("none", "raw:5") for k in (4, 1)
    ]
    assert [column.scores["m"] for column in columns] == [0.5, 0.25] * 2
    assert {column.condition for column in columns} == {"none", "raw:5"}


def test_two_pools_two_graders_and_two_ways_are_never_one_column() -> None:
    found = [
        outcome("m", [1, 0, 1, 0]),
        outcome("m", [1, 1, 1, 0], pool_hash="ffffffffffff"),
        outcome("m", [0, 1, 1, 0], grader="joint:m"),
        outcome("m", [0, 0, 1, 0], way="first"),
    ]
    assert [column.name for column in columns_of_outcomes(found)] == [
        "bakery best-of-4 none, pool 12345678, by truth",
        "bakery best-of-4 none, pool ffffffff, by truth",
        "bakery best-of-4 none, pool 12345678, by joint:m",
        "bakery first-4 none, pool 12345678, by truth",
    ]


def test_the_largest_k_is_one_that_all_models_have() -> None:
    found = [outcome("m", [1, 0, 1, 0], ks=(1, 2, 8)), outcome("k", [1, 1, 1, 0], ks=(1, 2))]
    [column] = columns_of_outcomes(found)
    assert column.name == "bakery best-of-2 none"
    assert column.scores == {"m": 0.25, "k": 0.75}
    [some] = columns_of_outcomes(found, [8])
    assert set(some.scores) == {"m"}
    with pytest.raises(MetricError, match=r"no outcome of best-of-3; there are k = 1, 2, 8"):
        columns_of_outcomes(found, [2, 3])
    with pytest.raises(MetricError, match="no k in common"):
        columns_of_outcomes([outcome("m", [1, 0, 1, 0], ks=(8,)), outcome("k", [1, 1, 1, 0], ks=(2,))])


def test_a_model_told_twice_counts_once_unless_the_two_differ() -> None:
    twice = [outcome("m", [1, 0, 1, 0]), outcome("m", [1 - 1e-12, 0, 1, 0], ks=(2, 4))]
    assert columns_of_outcomes(twice)[0].scores == {"m": 0.5}
    with pytest.raises(MetricError, match="'m' has outcomes that differ"):
        columns_of_outcomes([*twice, outcome("m", [1, 1, 1, 1])])


def test_outcomes_of_different_items_are_refused() -> None:
    with pytest.raises(MetricError, match="of different items"):
        columns_of_outcomes([outcome("m", [1, 0, 1, 0]), outcome("k", [1, 0, 1])])


def test_who_saw_the_rubric_and_what_failed_is_told() -> None:
    [column] = columns_of_outcomes(
        [outcome("m", [1, 0, 1, 0], shown_rubric=True), outcome("k", [1, 0, 0, 0], failed=2)]
    )
    assert column.notes == ("ORACLE: under bakery best-of-4 none the rubric was shown to m",)
    assert column.failed == {"k": 2}


def test_whose_pairs_the_models_and_the_policy_saw_is_told_once_each() -> None:
    """FACTS has no word of it, as outcomes of before have none."""
    assert OutcomeManifest.model_validate({**FACTS, "model": "m"}).pairs == ""
    plain, some = outcome("m", [1, 0, 1, 0]), outcome("k", [1, 0, 0, 0], pairs="pairs by scribe", policy_pairs="hers")
    [column] = columns_of_outcomes([plain, some, outcome("n", [1, 0, 0, 1], pairs="pairs by scribe")])
    assert column.notes == (
        "SYNTHESISED: under bakery best-of-4 none models were shown pairs by scribe",
        "SYNTHESISED: under bakery best-of-4 none the policy was shown hers",
    )
    assert columns_of_outcomes([plain])[0].notes == ()


# ---------------------------------------------------------------- beside a benchmark


def test_a_benchmark_and_best_of_n_on_the_same_users_are_resampled_together() -> None:
    rows = users(4, 0.5)
    rows = [replace(one, cluster=cluster) for one, cluster in zip(rows, CLUSTERS, strict=True)]
    [bench] = columns_of_runs([run(rows, model=model) for model in ("m", "k")])
    found = [outcome("m", [1, 0, 1, 1]), outcome("k", [0, 0, 1, 0])]
    [picks] = columns_of_outcomes(found)
    assert scores_of([bench, picks], ["m", "k"]).clusters == 3
    [elsewhere] = columns_of_outcomes([outcome(one.model, one.grades(), benchmark_hash="f" * 16) for one in found])
    assert scores_of([bench, elsewhere], ["m", "k"]).clusters == 6


MODELS = ("m", "k", "z")


def benches(*conditions: str, name: str = "bakery", unit: str = "0123456789abcdef") -> list[object]:
    return [
        run(users(30, 0.3 + 0.2 * place, seed=place), model=model, condition=seen, benchmark=name, benchmark_hash=unit)
        for seen in conditions
        for place, model in enumerate(MODELS)
    ]


def picks(*conditions: str) -> list[Outcome]:
    return [
        outcome(model, [0.1 * place, 0.2, 0.3, 0.4], condition=seen)
        for seen in conditions
        for place, model in enumerate(MODELS)
    ]


def cells(first: list[object], second: list[Outcome]) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    report = correlate(columns_of_runs(first), columns_of_outcomes(second))  # type: ignore[arg-type]
    return [(cell.benchmark, cell.downstream) for cell in report.cells], report.notes


def test_a_score_goes_with_the_picks_under_its_condition() -> None:
    pairs, notes = cells(benches("none", "raw:5"), picks("raw:5", "none"))
    assert pairs == [
        ("bakery raw:5", "bakery best-of-4 raw:5"),
        ("bakery none", "bakery best-of-4 none"),
    ]
    assert notes == ()


def test_a_score_under_another_condition_is_matched_by_model_and_that_is_told() -> None:
    pairs, notes = cells(benches("none"), picks("raw:5"))
    assert pairs == [("bakery none", "bakery best-of-4 raw:5")]
    assert notes == (
        "bakery none -> bakery best-of-4 raw:5: matched by model alone. Scores are under none, picks under raw:5",
    )


def test_a_condition_under_which_nobody_picks_is_left_out_by_name() -> None:
    pairs, notes = cells(benches("none", "raw:5"), picks("raw:5"))
    assert pairs == [("bakery raw:5", "bakery best-of-4 raw:5")]
    assert notes == ("left out: bakery none, for no model picks under none",)


def test_another_benchmark_keeps_the_condition_that_it_has() -> None:
    other = benches("none", name="mill", unit="f" * 16)
    pairs, notes = cells([*benches("none", "raw:5"), *other], picks("raw:5"))
    assert [first for first, _ in pairs] == ["bakery raw:5", "mill none"]
    assert len(notes) == 2


# ---------------------------------------------------------------- through files


def test_from_files_a_column_has_the_numbers_of_the_curves(tmp_path: Path) -> None:
    bench = load_benchmark("simulated:users=12,items=2")
    pool = sample(bench, "simulated", out=tmp_path / "pool", draw=Draw(n=6))
    models = ("longest", "known:posts", "known:taste")
    runs = [score_pool(pool, bench, model, "recent:10") for model in models]
    grader = open_grader("truth")
    grade_pool(pool, bench, grader)
    found = best_of_n(pool, bench, runs, read_grades(grade_folder(pool, grader)), ks=[1, 2, 6])
    write_outcomes(pool, bench, runs, found, grader=grader.spec)
    [column] = columns_of_outcomes([load_outcome(path) for path in find_outcomes([pool.folder])])
    assert column.name == "simulated best-of-6 recent:10"
    assert column.scores == {curve.model: pytest.approx(curve.last.grade.value) for curve in found.curves}
    assert column.items is not None
    assert len(column.items.clusters) == 12
    assert column.notes == (f"ORACLE: under {column.name} the rubric was shown to known:taste",)
    scored = [score(bench, model, "recent:10", out=tmp_path / "runs") for model in models]
    [benchmark] = columns_of_runs([*scored, *runs])  # the scores of the pool are right or wrong about nothing
    assert scores_of([benchmark, column], models).clusters == 12
    assert np.isfinite(scores_of([benchmark, column], models).influence).all()

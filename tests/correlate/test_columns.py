"""Columns of scores: from arrays over items, and from runs."""

import numpy as np
import pytest

from pluralrm.core import Failure
from pluralrm.correlate import Column, column_of_items, columns_of_runs
from pluralrm.correlate.columns import complete, scores_of
from pluralrm.errors import MetricError
from pluralrm.metrics import measure
from tests.builders import left_open
from tests.metrics.rows import chance, records, row, run, users


def test_a_column_of_items_is_the_mean_of_each_model() -> None:
    column = column_of_items("b", {"m": [1, 0, 1, 1], "k": [0, 0, 1, 0]}, ["u1", "u1", "u2", "u3"])
    assert column.scores == {"m": 0.75, "k": 0.25}


@pytest.mark.parametrize("strata", [None, ["x", "x", "y", "y", "y", "x"], ["x", "y", "x", "y", "x", "y"]])
def test_what_a_cluster_adds_is_kept_under_its_name(strata: list[str] | None) -> None:
    # u1 gave all that m has: its influence is the only one above 0, whatever the strata.
    clusters, values = ["u1", "u1", "u2", "u3", "u2", "u1"], [1, 1, 0, 0, 0, 1]
    first = column_of_items("b", {"m": values}, clusters, strata=strata)
    second = column_of_items("c", {"m": [0] * 6}, clusters, strata=strata)
    moved = scores_of([first, second], ["m"])
    assert moved.clusters == 3
    assert moved.influence[:, 1].tolist() == [[0], [0], [0]]
    assert moved.influence[0, 0, 0] == moved.influence[:, 0].max()


def test_clusters_of_one_unit_are_shared_and_of_two_are_not() -> None:
    values, clusters = {"m": [1, 0], "k": [0, 1]}, ["u1", "u2"]
    same = [column_of_items(name, values, clusters, unit="x") for name in "ab"]
    other = column_of_items("c", values, clusters, unit="y")
    assert scores_of(same, ["m", "k"]).clusters == 2
    assert scores_of([same[0], other], ["m", "k"]).clusters == 4


def test_only_models_with_all_scores_count() -> None:
    first, second = Column("a", {"m": 1.0, "k": 2.0, "z": 0.0}), Column("b", {"z": 1.0, "m": 1.0})
    assert complete([first, second], ["m", "k", "z"]) == ["m", "z"]


def test_runs_become_one_column_per_condition_and_the_score_is_the_headline() -> None:
    runs = [
        run(users(30, right, seed=seed), model=f"m{seed}", condition=condition)
        for condition in ("none", "raw:10")
        for seed, right in enumerate((0.5, 0.7, 0.9))
    ]
    none, raw = columns_of_runs(runs)
    assert (none.name, raw.name) == ("bakery none", "bakery raw:10")
    assert none.scores == {one.model: pytest.approx(measure(one).value) for one in runs[:3]}
    assert scores_of([none, raw], ["m0", "m1"]).clusters == 30  # the same users under both


def test_a_macro_headline_is_macro_here_too() -> None:
    one = run(records(9, chance), model="m")
    [column] = columns_of_runs([one])
    assert column.scores["m"] == pytest.approx(measure(one).value)


def test_failed_items_are_wrong_and_counted() -> None:
    rows = [row("i1", [1.0, 0.0]), row("i2", [Failure("parse"), 0.0])]
    [column] = columns_of_runs([run(rows, model="m")])
    assert column.scores == {"m": 0.5}
    assert column.failed == {"m": 1}


def test_two_runs_of_one_model_are_refused() -> None:
    with pytest.raises(MetricError, match="'m' has several runs"):
        columns_of_runs([run(users(5, 0.5), model="m"), run(users(5, 0.9), model="m")])


def test_whoever_saw_the_rubric_is_told() -> None:
    [column] = columns_of_runs([run(users(5, 0.5), condition="oracle", reveals=frozenset({"oracle"}))])
    assert column.notes == ("ORACLE: under bakery oracle models saw the rubric",)


def test_an_incomplete_run_is_told() -> None:
    whole = run(users(9, 0.5))
    part = left_open(run(users(9, 0.9, seed=1), model="part"), {row.item for row in whole.rows[5:]})
    [alone], [column] = columns_of_runs([whole]), columns_of_runs([whole, part])
    assert column.notes == ("bakery none, part: incomplete: 5 of 9 items, the others count as failed",)
    assert column.scores["m"] == alone.scores["m"]
    assert (column.failed, column.scores["part"] <= 5 / 9) == ({"part": 4}, True)


def test_no_models_are_no_column() -> None:
    with pytest.raises(MetricError, match="no models"):
        column_of_items("b", {}, [])
    assert np.isclose(column_of_items("b", {"m": [1, 0]}, ["u", "v"]).scores["m"], 0.5)

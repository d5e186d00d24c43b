"""Labels in general form: metrics on grades, against brute force, and against those of one preferred candidate."""

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pluralrm
from pluralrm.core import Benchmark, Failure, Item, Row, Ties
from pluralrm.errors import MetricError
from pluralrm.metrics import measure, with_ties
from pluralrm.metrics.official.formula import strict_share
from pluralrm.metrics.units import pair_credit, top_credit
from pluralrm.runs import load_run
from tests.metrics.rows import row as build_row

VALUES = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@st.composite
def graded(draw: st.DrawFn) -> Row:
    width = draw(st.integers(2, 6))
    grades = draw(st.lists(VALUES, min_size=width, max_size=width).filter(lambda grades: len(set(grades)) > 1))
    scores = draw(st.lists(VALUES, min_size=width, max_size=width))
    return replace(build_row("i", tuple(scores), 0), preferred=None, grades=tuple(grades))


@given(graded(), st.sampled_from(["share", "lose", "win"]))
def test_credits_are_those_of_a_count_over_all_outcomes(row: Row, ties: Ties) -> None:
    scores = [score for score in row.scores if not isinstance(score, Failure)]
    best = {index for index, grade in enumerate(row.grades) if grade == max(row.grades)}
    top = {index for index, score in enumerate(scores) if score == max(scores)}
    share = Fraction(len(best & top), len(top))
    credit = {"share": share, "lose": Fraction(share == 1), "win": Fraction(share > 0)}[ties]
    equal = {"share": Fraction(1, 2), "lose": Fraction(0), "win": Fraction(1)}[ties]
    pairs = [
        Fraction(scores[a] > scores[b]) + equal * (scores[a] == scores[b])
        for a, b in itertools.permutations(range(len(scores)), 2)
        if row.grades[a] > row.grades[b]
    ]
    counted = replace(row, ties=ties)
    assert top_credit(counted) == pytest.approx(float(credit), abs=1e-15)
    assert pair_credit(counted) == pytest.approx(float(sum(pairs) / len(pairs)), abs=1e-15)


@given(graded(), st.permutations(range(6)))
def test_the_order_of_the_candidates_changes_nothing(row: Row, order: list[int]) -> None:
    order = [index for index in order if index < len(row.scores)]
    moved = replace(
        row,
        preferred=None,
        scores=tuple(row.scores[index] for index in order),
        grades=tuple(row.grades[index] for index in order),
    )
    assert (top_credit(moved), pair_credit(moved)) == (top_credit(row), pair_credit(row))


def test_an_index_and_grades_are_one_label() -> None:
    by_index = Item("i", "p", ("a", "b", "c"), 1, "u", "d")
    by_grades = Item("i", "p", ("a", "b", "c"), None, "u", "d", grades=(0, 1, 0))
    assert by_index == by_grades
    assert (by_index.grades, by_grades.preferred) == ((0.0, 1.0, 0.0), 1)
    assert Benchmark(pluralrm.Card("x", "", "", "", ""), (by_index,)).content_hash == (
        Benchmark(pluralrm.Card("x", "", "", "", ""), (by_grades,)).content_hash
    )


def test_an_index_given_anew_replaces_a_label_that_is_no_more_than_an_index() -> None:
    item = Item("i", "p", ("a", "b", "c"), 1, "u", "d")
    assert replace(item, preferred=2).grades == (0.0, 0.0, 1.0)
    assert replace(item, candidates=("a", "b"), preferred=0).grades == (1.0, 0.0)
    assert replace(item, candidates=(), preferred=None).grades == ()


@pytest.mark.parametrize(
    ("preferred", "grades"), [(0, (1.0, 2.0)), (None, (1.0, 2.0, 3.0)), (None, (float("nan"), 0.0)), (0, (2.0, 2.0))]
)
def test_grades_that_cannot_be_a_label_are_refused(preferred: int | None, grades: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="grades"):
        Item("i", "p", ("a", "b"), preferred, "u", "d", grades=grades)


def test_several_best_ones_leave_none_preferred() -> None:
    item = Item("i", "p", ("a", "b", "c"), None, "u", "d", grades=(2, 0, 2))
    assert (item.preferred, item.best) == (None, (0, 2))


def test_a_formula_of_one_right_answer_refuses_an_item_with_two() -> None:
    with pytest.raises(MetricError, match="item 'two' has several candidates of the best grade"):
        strict_share([build_row("two", (2.0, 1.0, 0.0), None, grades=(1.0, 1.0, 0.0))])


def test_an_index_of_no_candidate_is_no_label() -> None:
    item = Item("i", "p", ("a", "b"), 5, "u", "d")
    assert (item.preferred, item.grades, item.best) == (5, (), ())


ROWS = """\
{"id": "a", "prompt": "Which one?", "candidates": ["one", "a second", "a third one"], "grades": [1, 1, 0]}
{"id": "b", "prompt": "And now?", "candidates": ["x", "yy", "zzz", "wwww"], "grades": [0.5, 3, 3, 1], "user": "u"}
{"id": "c", "prompt": "Last?", "candidates": ["left", "right one"], "preferred": 1}
"""


def test_graded_rows_are_scored_stored_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "bench.jsonl").write_text(ROWS)
    runs = pluralrm.score(str(tmp_path / "bench.jsonl"), ["longest", "constant"], out=tmp_path / "runs", progress=False)
    stored = [load_run(run.path) for run in runs]
    assert [run.rows for run in stored] == [run.rows for run in runs]
    by_model = {run.model: measure(run).value for run in stored}
    assert by_model == {"longest": pytest.approx(1 / 3), "constant": pytest.approx((2 / 3 + 2 / 4 + 1 / 2) / 3)}
    losing = {run.model: measure(with_ties(run, "lose")).value for run in stored}
    assert losing == {"longest": pytest.approx(1 / 3), "constant": 0.0}
    pairs = {run.model: measure(run, "pair").value for run in stored}
    assert pairs["constant"] == 0.5
    assert pairs["longest"] == pytest.approx((0 / 2 + 3 / 5 + 1) / 3)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"prompt": "p", "candidates": ["a", "b"], "grades": [1]}', "wanted one for each of 2"),
        ('{"prompt": "p", "candidates": ["a", "b"], "grades": [1, 1]}', "one grade for all"),
        ('{"prompt": "p", "candidates": ["a", "b"], "grades": [1, 0], "preferred": 1}', "the highest grade"),
        ('{"prompt": "p", "chosen": "a", "rejected": "b", "grades": [1, 0]}', "one form of the two"),
        ('{"prompt": "p", "candidates": ["a", "b"], "grades": [1, NaN]}', "NaN"),
    ],
)
def test_grades_that_say_nothing_are_refused_by_name(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "bench.jsonl").write_text(row + "\n")
    with pytest.raises(pluralrm.PluralrmError, match=says):
        pluralrm.load_benchmark(tmp_path / "bench.jsonl")

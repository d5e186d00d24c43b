"""A grade is what the text says in the form that was asked for, or a failure: never a number that was guessed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure
from pluralrm.grading.grader import joint_points, points


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"match_score": 0}', 0),
        ('  {"match_score":1}\n', 1),
        ('{\n  "match_score": 2\n}', 2),
        ('```json\n{"match_score": 2}\n```', 2),
        ('```\n{"match_score": 0}\n```\n', 0),
    ],
)
def test_the_object_alone_is_a_grade(text: str, wanted: int) -> None:
    assert points(text) == (wanted,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        '"2"',
        "[2]",
        "null",
        "{}",
        '{"match_score": 3}',
        '{"match_score": -1}',
        '{"match_score": 1.0}',
        '{"match_score": 0.5}',
        '{"match_score": true}',
        '{"match_score": "2"}',
        '{"match_score": null}',
        '{"match_score": [2]}',
        '{"score": 2}',
        '{"match_score": 2, "reason": "It does."}',
        '{"match_score": 0, "match_score": 2}',
        '{"match_score": 2} {"match_score": 0}',
        'I would say {"match_score": 2}',
        '{"match_score": 2}\nIt gives it plainly.',
        "The answer meets this aspect in full.",
        "match_score: 2",
        "```json\n{}\n```",
        '{"match_score": NaN}',
        "[" * 5_000,
    ],
)
def test_anything_else_is_a_failure_and_no_zero(text: str) -> None:
    found = points(text)
    assert isinstance(found, Failure)
    assert found.kind == "parse"


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_a_list_as_long_as_the_aspects_is_read_in_order(values: list[int]) -> None:
    assert joint_points(json.dumps(values), len(values)) == tuple(values)
    assert joint_points(f"```json\n{json.dumps(values)}\n```", len(values)) == tuple(values)


@given(st.lists(st.integers(0, 2), max_size=12), st.integers(1, 12))
def test_a_list_of_another_length_is_a_failure(values: list[int], aspects: int) -> None:
    found = joint_points(json.dumps(values), aspects)
    if len(values) == aspects:
        assert found == tuple(values)
    else:
        assert isinstance(found, Failure)
        assert f"{len(values)} numbers, wanted {aspects}" in found.detail


@pytest.mark.parametrize(
    "text", ["[1, 1, 3]", "[1, 1, true]", "[1, 1, 1.0]", "[1, [1], 1]", '{"a": 1}', "1, 1, 1", "[1, 1, 1] fine", "[]"]
)
def test_a_list_of_other_things_is_a_failure(text: str) -> None:
    # "[1,1,1]" was once read as 1.0 and "[2,2,2]" as 0.5: nothing but three whole numbers from 0 to 2 is a grade.
    assert isinstance(joint_points(text, 3), Failure)

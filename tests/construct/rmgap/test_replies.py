"""What a reply says, or that it says nothing: no default anywhere."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.construct.filters import RATED
from pluralrm.construct.rmgap.review import (
    read_kept,
    read_pick,
    read_prompt_marks,
    read_ratings,
    read_response_marks,
    read_text,
)
from pluralrm.core import Failure

LABELS = ["r1", "r2", "r3", "r4"]
QUALITY = dict.fromkeys(LABELS, 8)
SET = {"quality_scores": QUALITY, "style_score": 8, "semantic_score": 9}


def test_ratings_are_six_whole_numbers() -> None:
    said = dict(zip(RATED, (5, 4, 3, 2, 1, 0), strict=True))
    found = read_ratings(f"```json\n{json.dumps(said)}\n```")
    assert not isinstance(found, Failure)
    assert found.by_name() == said


@pytest.mark.parametrize(
    "changed", [{"clarity": 6}, {"clarity": -1}, {"clarity": 4.5}, {"clarity": "5"}, {"clarity": True}, {"clear": 5}]
)
def test_ratings_of_another_form_are_none(changed: dict[str, object]) -> None:
    assert isinstance(read_ratings(json.dumps({**dict.fromkeys(RATED, 5), **changed})), Failure)


@given(st.permutations(LABELS), st.lists(st.integers(1, 10), min_size=4, max_size=4))
def test_marks_come_in_the_order_of_their_labels_however_they_were_said(said: list[str], marks: list[int]) -> None:
    given_marks = dict(zip(LABELS, marks, strict=True))
    found = read_response_marks(json.dumps({**SET, "quality_scores": {one: given_marks[one] for one in said}}), LABELS)
    assert found == {"quality": tuple(marks), "diversity": (8,), "consistency": (9,)}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({**SET, "quality_scores": {**QUALITY, "r5": 8}}),
        json.dumps({**SET, "quality_scores": dict.fromkeys(LABELS[:3], 8)}),
        json.dumps({**SET, "quality_scores": {**QUALITY, "r1": 0}}),
        json.dumps({**SET, "quality_scores": {**QUALITY, "r1": 11}}),
        json.dumps({**SET, "style_score": 7.5}),
        json.dumps({**SET, "style_score": None}),
        json.dumps({**SET, "more": 1}),
        json.dumps({"quality_scores": QUALITY, "style_score": 8}),
        json.dumps([SET]),
        json.dumps(SET) + " I hope this helps.",
        json.dumps(SET).replace('"r2": 8', '"r2": 8, "r2": 3', 1),  # a key twice
        json.dumps(SET).replace('"style_score": 8', '"style_score": 8, "style_score": 3', 1),
        json.dumps(SET).replace("9}", "9, NaN}"),
        "8",
        "",
    ],
)
def test_marks_of_another_form_are_none(text: str) -> None:
    assert isinstance(read_response_marks(text, LABELS), Failure)


def test_prompts_have_three_marks_each_under_our_names() -> None:
    said = {
        "quality_scores": {"p2": 2, "p1": 1},
        "bias_scores": {"p1": 3, "p2": 4},
        "semantic_scores": {"p1": 5, "p2": 6},
    }
    found = read_prompt_marks(json.dumps(said), ["p1", "p2"])
    assert found == {"quality": (1, 2), "effectiveness": (3, 4), "alignment": (5, 6)}
    assert isinstance(read_prompt_marks(json.dumps(said), ["p1", "p2", "p3"]), Failure)
    assert isinstance(read_prompt_marks(json.dumps({**said, "bias_scores": 8}), ["p1", "p2"]), Failure)


@pytest.mark.parametrize(("text", "place"), [("A", 0), ("d", 3), (" **C**. ", 2), ("(B)", 1)])
def test_a_pick_is_a_letter_alone(text: str, place: int) -> None:
    assert read_pick(text, 4) == place


@pytest.mark.parametrize(
    "text", ["E", "AB", "A or B", "Response A", "A>B>C>D", "", "1", "a tie", "nobody", "\N{KELVIN SIGN}"]
)
def test_anything_else_picks_nobody(text: str) -> None:
    assert isinstance(read_pick(text, 4), Failure)


def test_a_version_keeps_adds_drops_or_changes() -> None:
    assert read_kept('{"verdicts": {"p2": "added", "p1": "same"}}', ["p1", "p2"]) == ["same", "added"]
    for text in (
        '{"verdicts": {"p1": "fine", "p2": "same"}}',
        '{"verdicts": {"p1": "same"}}',
        '{"p1": "same"}',
        "same",
    ):
        assert isinstance(read_kept(text, ["p1", "p2"]), Failure)


def test_a_text_without_text_is_none() -> None:
    assert read_text("  Rye.\n") == "Rye."
    assert isinstance(read_text(" \n"), Failure)

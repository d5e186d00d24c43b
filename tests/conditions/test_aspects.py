"""No aspect is read that was not written as one: a corpus of planner outputs, each with what a careful reader takes."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.chat.completions import reason_of
from pluralrm.conditions.notes import LONGEST, MOST, aspects, profile
from pluralrm.core import Failure

_PLANS = Path(__file__).with_name("plans.jsonl").read_text(encoding="utf-8")
PLANS: list[dict[str, Any]] = [json.loads(line) for line in _PLANS.splitlines()]


@pytest.mark.parametrize("row", PLANS, ids=[row["about"] for row in PLANS])
def test_a_text_is_a_list_of_aspects_or_a_failure(row: dict[str, Any]) -> None:
    found = aspects(row["text"])
    if row["read"] is None:
        assert isinstance(found, Failure)
        assert found.kind == "parse"
    else:
        assert list(found) == row["read"]


def test_the_corpus_has_both_kinds() -> None:
    assert len(PLANS) == len({row["about"] for row in PLANS}) > 50
    assert sum(row["read"] is None for row in PLANS) > 30


_words = st.text(string.ascii_letters + " ,.'-é()", min_size=1, max_size=40).map(lambda text: " ".join(text.split()))
_aspect = _words.filter(lambda text: any(letter.isalpha() for letter in text) and not text.endswith(":"))
_plans = st.lists(_aspect, min_size=1, max_size=MOST, unique_by=str.casefold)


@given(_plans, st.sampled_from(["- ", "* ", "• ", "n. ", "n) ", "json"]))
def test_every_list_of_aspects_is_read_as_it_was_written(plan: list[str], mark: str) -> None:
    lines = [f"{mark.replace('n', str(place))}{aspect}" for place, aspect in enumerate(plan, 1)]
    assert aspects(json.dumps(plan) if mark == "json" else "\n".join(lines)) == tuple(plan)


@given(st.text(st.sampled_from("-*1234. \n\tabAB:[]\"',{}")) | st.text())
def test_any_text_is_some_lines_or_a_failure_with_its_reason(text: str) -> None:
    found = aspects(text)
    if isinstance(found, Failure):
        assert found.kind == "parse"
        assert reason_of(found)
        assert len(found.detail) < 800
    else:
        assert 1 <= len(found) <= MOST
        assert all(one == " ".join(one.split()) and 1 <= len(one) <= LONGEST for one in found)
        # Nothing is made up: every aspect's words stand in the text.
        said = " ".join(json.loads(text)) if text.strip().startswith("[") else text
        assert all(word in said for one in found for word in one.split())


@given(st.text())
def test_a_profile_is_one_line_with_all_of_its_words(text: str) -> None:
    found = profile(text)
    if isinstance(found, Failure):
        assert not any(letter.isalpha() for letter in text)
    else:
        assert found == (" ".join(text.split()),)

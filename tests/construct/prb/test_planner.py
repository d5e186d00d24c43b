"""Aspects that nobody gave: a planner's list is kept where its evidence was written by the user."""

import json
from pathlib import Path

import pytest

from pluralrm.construct.prb.answers import read_aspects, read_quality
from pluralrm.construct.prb.products import PersonalQuestion, QuestionRubric
from pluralrm.core import Failure
from tests.construct.pipeline.worlds import decisions
from tests.construct.prb.worlds import World, invented, named, question

FOUND = invented("q002 0", 12)  # the first post
LAST = invented("q002 2", 12)  # the last one shown
TOLD = invented("q002 lives", 8)  # the narrative


def listed(*evidence: str) -> str:
    rows = [
        {"aspect": f"{invented(f'plan {n}', 4)}", "evidence": one, "reason": "so"} for n, one in enumerate(evidence)
    ]
    return json.dumps(rows)


def built(place: Path, *replies: str) -> World:
    line = iter(replies)
    world = World(planned=lambda _: next(line))
    world.built(place, [question(1), question(2, aspects=False)])
    return world


def test_given_aspects_are_kept_and_nobody_is_asked(tmp_path: Path) -> None:
    kept = World().built(tmp_path / "b", 2).kept
    assert all(record[QuestionRubric].given for record in kept)
    assert decisions(tmp_path / "b")["03-aspects.jsonl"][0]["spent"] == []


def test_evidence_from_posts_and_narrative_is_kept_whatever_its_marks_and_case(tmp_path: Path) -> None:
    passage = " ".join(FOUND.split()[3:8])
    built(tmp_path / "b", listed(f'"{passage.capitalize()}!"', TOLD))
    assert named(tmp_path / "b") == {}


LABEL = question(2, aspects=False)[PersonalQuestion].posts[0].category


@pytest.mark.parametrize("label", [f"({LABEL}) ", f"[1] ({LABEL}) ", "[1] "])
def test_evidence_may_begin_with_the_label_that_the_prompt_shows(label: str, tmp_path: Path) -> None:
    world = built(tmp_path / "b", listed(f"{label}{FOUND}", TOLD))
    assert any(f"[1] ({LABEL}) {FOUND}" in prompt for prompt in world.prompts)
    assert named(tmp_path / "b") == {}


@pytest.mark.parametrize(
    "evidence",
    [
        f"({LABEL}) {' '.join(FOUND.split()[:3])}",  # the label is no fourth word of the user's
        f"(gardening) {FOUND}",
        f"[7] {FOUND}",
        "the user likes bread a lot",
        " ".join(FOUND.split()[:3]),
        f"{FOUND.split()[0]} {FOUND.split()[2]} {FOUND.split()[1]} {FOUND.split()[3]}",
        f"{' '.join(LAST.split()[-3:])} {TOLD.split()[0]}",
        invented("q001 0", 12),
        "",
    ],
)
def test_evidence_that_this_user_did_not_write_is_refused(evidence: str, tmp_path: Path) -> None:
    world = built(tmp_path / "b", *[listed(FOUND, evidence)] * 2, listed(evidence, FOUND))
    assert named(tmp_path / "b") == {"q002": ("aspects", "evidence")}
    assert any("is no passage of 4 words or more from above" in prompt for prompt in world.prompts)


def test_a_list_is_made_anew_with_the_reason(tmp_path: Path) -> None:
    built(tmp_path / "b", listed(FOUND, "nobody wrote these words"), listed(FOUND, TOLD))
    assert named(tmp_path / "b") == {}
    [line] = [line for line in decisions(tmp_path / "b")["03-aspects.jsonl"] if line["id"] == "q002"]
    assert line["attempts"] == 2


GOOD = {"aspect": "By ear", "evidence": "I play by ear", "reason": "so"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "By ear",
        json.dumps([GOOD]),
        json.dumps({"aspects": [GOOD, {**GOOD, "aspect": "Slow"}]}),
        json.dumps([GOOD, {"aspect": "Slow"}]),
        json.dumps([GOOD, {**GOOD, "aspect": " BY  EAR "}]),
        json.dumps([GOOD, {**GOOD, "aspect": ""}]),
        json.dumps([GOOD, {**GOOD, "aspect": "Slow", "weight": 1}]),
        json.dumps([GOOD, {**GOOD, "aspect": "word " * 26}]),
        json.dumps([GOOD, {**GOOD, "aspect": "w" * 501}]),
        json.dumps([GOOD, {**GOOD, "aspect": "S\u202elow"}]),
        json.dumps([GOOD, {**GOOD, "aspect": 7}]),
        json.dumps([{**GOOD, "aspect": f"Aspect {n}"} for n in range(9)]),
        '[{"aspect": "a", "aspect": "b", "evidence": "e", "reason": "r"}, ' + json.dumps(GOOD) + "]",
        "Here you go: " + json.dumps([GOOD, {**GOOD, "aspect": "Slow"}]),
    ],
)
def test_a_reply_that_is_no_such_list_is_a_failure(text: str) -> None:
    found = read_aspects(text)
    assert isinstance(found, Failure)
    assert found.kind == "parse"


def test_a_code_fence_around_a_list_is_form() -> None:
    found = read_aspects("```json\n" + json.dumps([GOOD, {**GOOD, "aspect": "Slow"}]) + "\n```")
    assert not isinstance(found, Failure)
    assert [one.aspect for one in found] == ["By ear", "Slow"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "[4, 4, 4]",
        '{"factuality": 4, "relevance": 4}',
        '{"factuality": 4, "relevance": 4, "helpfulness": 4, "overall": 4}',
        '{"factuality": 4, "relevance": 4, "helpfulness": 0}',
        '{"factuality": 6, "relevance": 4, "helpfulness": 4}',
        '{"factuality": 4.5, "relevance": 4, "helpfulness": 4}',
        '{"factuality": true, "relevance": 4, "helpfulness": 4}',
        '{"factuality": "4", "relevance": 4, "helpfulness": 4}',
        '{"factuality": 4, "factuality": 5, "relevance": 4, "helpfulness": 4}',
        '{"factuality": 4, "relevance": 4, "helpfulness": NaN}',
        'I think {"factuality": 4, "relevance": 4, "helpfulness": 4}',
    ],
)
def test_a_rating_is_read_in_its_form_or_not_at_all(text: str) -> None:
    found = read_quality(text)
    assert isinstance(found, Failure)
    assert found.kind == "parse"

"""Prompts from files: merged, sorted, and the same whatever the order."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pluralrm.construct.rmgap import SeedPrompt, read_prompts, record_id
from pluralrm.errors import BenchmarkError

ROWS = [
    {"text": "Which flour?", "domain": "Chat", "source": "forum"},
    {"text": "A poem on rye.", "domain": "Writing"},
    {"text": "Half of 1?", "domain": "Reasoning", "source": "written", "reference": "\\frac{1}{2}"},
    {"text": "Which flour?", "domain": "Chat", "source": "archive"},
    {"text": "Which flour?", "domain": "Safety", "source": "forum"},
]


def _file(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def test_equal_rows_become_one_record_in_any_order(tmp_path: Path) -> None:
    one = read_prompts([_file(tmp_path / "a.jsonl", ROWS[:3]), _file(tmp_path / "b.jsonl", ROWS[3:])])
    other = read_prompts([_file(tmp_path / "c.jsonl", ROWS[::-1])])
    assert one == other
    assert one.rows == 5
    assert [record.id for record in one.records] == sorted(record.id for record in one.records)
    found = {record.id: record[SeedPrompt] for record in one.records}
    assert len(found) == 4
    assert found[record_id("Chat", "Which flour?")].source == "archive + forum"


def test_an_id_is_the_domain_and_ten_digits_of_the_hash() -> None:
    assert record_id("Chat", "Which flour?").startswith("chat-")
    assert len(record_id("Chat", "Which flour?")) == 15
    assert record_id("Chat", "Which flour?") != record_id("Chat", "Which flour? ")


def test_a_file_of_lines_has_its_domain_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "writing-forum.txt").write_text("A poem on rye.\n\nAn ode to oats.\n", encoding="utf-8")
    found = read_prompts([str(tmp_path / "writing-forum.txt")])
    assert [(record.domain, record[SeedPrompt].source) for record in found.records] == [
        ("Writing", "writing-forum")
    ] * 2
    (tmp_path / "chats.md.txt").write_text("Hm?\n", encoding="utf-8")
    assert read_prompts([str(tmp_path / "chats.md.txt")]).records[0].domain == "Chat"
    (tmp_path / "wrting.txt").write_text("Hm?\n", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="Did you mean 'Writing'"):
        read_prompts([str(tmp_path / "wrting.txt")])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "", "domain": "Chat"}, "text: found"),
        ({"prompt": "Hm?"}, "domain: found no such key"),
        (
            {"prompt": "Hm?", "domain": "Reasoning", "eval": {"type": "ifeval"}},
            "eval.type: found 'ifeval', wanted math",
        ),
        ({"prompt": "Hm?", "domain": "Reasoning", "eval": {"type": "math"}}, "eval.answer: found null"),
        ({"prompt": "Hm?", "domain": "Reasoning", "eval": {"type": ["code"], "entry_point": "f"}}, "eval.tests: found"),
        ({"prompt": "Hm?", "domain": "Reasoning", "eval": "math"}, "eval: found 'math', wanted an object"),
        ({"prompt": "Hm?", "domain": "Chat", "eval": {"type": "math", "answer": "4"}}, "wanted Reasoning"),
        ({"text": "Hm?", "domain": "Talk"}, "domain: found"),
        ({"text": "Hm?", "domain": "Chat", "reference": "4"}, "wanted Reasoning, where there is an answer to check"),
        (
            {"text": "Hm?", "domain": "Chat", "prompt": "4"},
            "prompt: found another prompt than under text, wanted one prompt",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"a\.jsonl:2: ") as told:
        read_prompts([_file(tmp_path / "a.jsonl", [ROWS[0], row])])
    assert said in str(told.value)


def test_two_answers_to_one_prompt_are_refused(tmp_path: Path) -> None:
    rows = [ROWS[2], {**ROWS[2], "reference": "2"}]
    with pytest.raises(BenchmarkError, match="two references"):
        read_prompts([_file(tmp_path / "a.jsonl", rows)])


def test_files_without_a_prompt_are_refused(tmp_path: Path) -> None:
    (tmp_path / "chat.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="found no prompt"):
        read_prompts([str(tmp_path / "chat.txt")])


# ---------------------------------------------------------------- what the published pipeline reads and writes

MATH = {"type": "math", "answer": "\\frac{1}{2}"}
CODE = {"type": "code", "entry_point": "half", "tests": "def check(candidate):\n    assert candidate(4) == 2"}
MERGED: list[dict[str, Any]] = [
    {"id": "8a0c", "prompt": "Which flour?", "domain": "Chat", "source": "WildChat", "eval": None},
    {"id": "8a0d", "prompt": "A poem on rye.", "domain": "Writing", "source": "Writing-Bench"},
    {"id": "8a0e", "prompt": "Half of 1?", "domain": "Reasoning", "source": "math-500", "eval": MATH},
    {"id": "8a0f", "prompt": "def half(n):", "domain": "Reasoning", "source": "openai_humaneval", "eval": CODE},
]


def _prompts(paths: list[str]) -> dict[str, SeedPrompt]:
    return {record[SeedPrompt].text: record[SeedPrompt] for record in read_prompts(paths).records}


def test_merged_and_filtered_prompts_are_read(tmp_path: Path) -> None:
    found = _prompts([_file(tmp_path / "prompts-filtered-chat.jsonl", MERGED)])
    assert {text: (one.domain, one.source) for text, one in found.items()} == {
        row["prompt"]: (row["domain"], row["source"]) for row in MERGED
    }
    assert found["Half of 1?"] == SeedPrompt(
        text="Half of 1?", domain="Reasoning", source="math-500", reference="\\frac{1}{2}"
    )
    half = found["def half(n):"]
    assert (half.tests, half.entry, half.reference) == (CODE["tests"], "half", "")


def test_a_filtered_file_without_domains_tells_it_by_its_name(tmp_path: Path) -> None:
    rows = [{"prompt": "Which flour?", "source": "WildChat"}]
    assert _prompts([_file(tmp_path / "prompts-filtered-safety.jsonl", rows)])["Which flour?"].domain == "Safety"


def test_the_protocols_of_a_build_are_read(tmp_path: Path) -> None:
    rows = [
        {
            "record_id": row["id"],
            "original_prompt": row["prompt"],
            "source": row["source"],
            "domain": row["domain"],
            "state": {"res": "res_passed"},
            "responses": {},
            "meta": {"eval": row.get("eval"), "style_assignments": {}},
        }
        for row in MERGED
    ]
    assert _prompts([_file(tmp_path / "protocols.jsonl", rows)]) == _prompts([_file(tmp_path / "m.jsonl", MERGED)])


def test_folders_of_sources_are_merged_here(tmp_path: Path) -> None:
    """As `merge_prompts` of the published code finds them: a folder for each domain, in it one for each source."""
    _file(tmp_path / "source/Chat/WildChat/a.jsonl", [{"prompt": "Which flour?", "toxic": False, "answer": "Rye."}])
    _file(tmp_path / "source/Writing/Writing-Bench/b.jsonl", [{"query": "A poem on rye.", "domain1": "Literature"}])
    math = {"problem": "Half of 1?", "solution": "Divide.", "answer": MATH["answer"], "subject": "Algebra", "level": 1}
    _file(tmp_path / "source/Reasoning/math-500/test.jsonl", [math])
    code = {"task_id": "HumanEval/0", "prompt": "def half(n):", "entry_point": "half", "test": CODE["tests"]}
    _file(tmp_path / "source/Reasoning/openai_humaneval/test.jsonl", [code])
    found = read_prompts([str(tmp_path / "source")])
    assert found.records == read_prompts([_file(tmp_path / "merged.jsonl", MERGED)]).records
    assert sorted(found.ignored) == ["domain1", "level", "solution", "subject", "task_id", "toxic"]
    one = read_prompts([str(tmp_path / "source/Reasoning")])
    assert [record.domain for record in one.records] == ["Reasoning"] * 2


def test_an_answer_outside_of_reasoning_is_the_sources_own(tmp_path: Path) -> None:
    row = {"prompt": "Which flour?", "answer": "Rye.", "test": "none"}
    found = _prompts([_file(tmp_path / "Chat/forum/rows.jsonl", [row])])
    assert found["Which flour?"] == SeedPrompt(text="Which flour?", domain="Chat", source="forum")


def test_a_domain_of_the_sources_own_gives_way_to_the_folders(tmp_path: Path) -> None:
    row = {"prompt": "Which flour?", "domain": "food"}
    assert _prompts([_file(tmp_path / "Chat/forum/rows.jsonl", [row])])["Which flour?"].domain == "Chat"
    kept = {"prompt": "Which flour?", "domain": "Safety", "source": "archive"}
    found = _prompts([_file(tmp_path / "Chat/forum/rows.jsonl", [kept])])["Which flour?"]
    assert (found.domain, found.source) == ("Safety", "archive")

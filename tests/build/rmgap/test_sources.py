"""Prompts from files: merged, sorted, and the same whatever the order."""

import json
from pathlib import Path

import pytest

from pluralrm.build.rmgap.products import Prompt
from pluralrm.build.rmgap.sources import read_prompts, record_id
from pluralrm.errors import BenchmarkError

ROWS = [
    {"text": "Which flour?", "domain": "Chat", "source": "forum"},
    {"text": "A poem on rye.", "domain": "Writing"},
    {"text": "Half of 1?", "domain": "Reasoning", "source": "written", "reference": "\\frac{1}{2}"},
    {"text": "Which flour?", "domain": "Chat", "source": "archive"},
    {"text": "Which flour?", "domain": "Safety", "source": "forum"},
]


def _file(path: Path, rows: list[dict[str, str]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def test_equal_rows_become_one_record_in_any_order(tmp_path: Path) -> None:
    one = read_prompts([_file(tmp_path / "a.jsonl", ROWS[:3]), _file(tmp_path / "b.jsonl", ROWS[3:])])
    other = read_prompts([_file(tmp_path / "c.jsonl", ROWS[::-1])])
    assert one == other
    assert one.rows == 5
    assert [record.id for record in one.records] == sorted(record.id for record in one.records)
    found = {record.id: record[Prompt] for record in one.records}
    assert len(found) == 4
    assert found[record_id("Chat", "Which flour?")].source == "archive + forum"


def test_an_id_is_the_domain_and_ten_digits_of_the_hash() -> None:
    assert record_id("Chat", "Which flour?").startswith("chat-")
    assert len(record_id("Chat", "Which flour?")) == 15
    assert record_id("Chat", "Which flour?") != record_id("Chat", "Which flour? ")


def test_a_file_of_lines_has_its_domain_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "writing-forum.txt").write_text("A poem on rye.\n\nAn ode to oats.\n", encoding="utf-8")
    found = read_prompts([str(tmp_path / "writing-forum.txt")])
    assert [(record.domain, record[Prompt].source) for record in found.records] == [("Writing", "writing-forum")] * 2
    (tmp_path / "chats.md.txt").write_text("Hm?\n", encoding="utf-8")
    assert read_prompts([str(tmp_path / "chats.md.txt")]).records[0].domain == "Chat"
    (tmp_path / "wrting.txt").write_text("Hm?\n", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="Did you mean 'Writing'"):
        read_prompts([str(tmp_path / "wrting.txt")])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "", "domain": "Chat"}, "text: found"),
        ({"text": "Hm?", "domain": "Talk"}, "domain: found"),
        ({"text": "Hm?", "domain": "Chat", "reference": "4"}, "wanted Reasoning, where there is an answer to check"),
        ({"text": "Hm?", "domain": "Chat", "prompt": "4"}, "prompt: found an unknown key"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(row: dict[str, str], said: str, tmp_path: Path) -> None:
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

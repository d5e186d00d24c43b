import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from pluralrm.benchmarks import load_benchmark
from pluralrm.chat import ScriptedChat
from pluralrm.conditions.notes import aspects, open_notes, planner_rows
from pluralrm.core import Aspect, Benchmark, Oracle, User
from pluralrm.errors import BenchmarkError, ConditionError
from tests.builders import bakery


def test_the_prompt_is_what_the_planner_will_be_sent():
    bench, chat = load_benchmark("pocket-prb"), ScriptedChat(lambda _: "- one")
    list(open_notes("planner:m,k=3", chat=chat).queries(bench, bench.items))
    rows, _ = planner_rows(bench, "planner:m,k=3")
    assert [row.prompt[0]["content"] for row in rows] == [request.messages[0][1] for request in chat.requests]


def test_the_completion_is_read_back_as_the_aspects_of_the_rubric():
    bench = load_benchmark("pocket-prb")
    rows, left = planner_rows(bench, "planner:m,k=3")
    assert len(rows) == len(bench.items)
    assert not any(left)
    for row, item in zip(rows, bench.items, strict=True):
        assert item.oracle is not None
        assert aspects(row.completion[0]["content"]) == tuple(each.aspect for each in item.oracle.aspects)


def test_no_answer_and_no_label_is_in_the_file():
    bench = load_benchmark("pocket-prb")
    text = "".join(map(repr, planner_rows(bench, "planner:m,k=3")[0]))
    assert not any(repr(answer)[1:-1] in text for item in bench.items for answer in item.candidates)


def test_items_that_make_no_line_are_named():
    items = list(bakery(4).items)
    items[0] = replace(items[0], user=User("u0"))
    items[1] = replace(items[1], oracle=None)
    items[2] = replace(items[2], oracle=Oracle((Aspect("steam"), Aspect("Steam"))))
    rows, left = planner_rows(Benchmark(bakery().card, tuple(items)), "planner:m")
    assert [row.id for row in rows] == ["i0003"]
    assert (left.without_posts, left.without_aspects, left.unreadable) == (["i0000"], ["i0001"], ["i0002"])


def test_a_benchmark_without_rubrics_and_another_condition_are_refused():
    bare = Benchmark(bakery().card, tuple(replace(item, oracle=None) for item in bakery(3).items))
    with pytest.raises(BenchmarkError, match="no item with posts and rubric"):
        planner_rows(bare, "planner:m")
    with pytest.raises(ConditionError, match="found a persona, wanted planner"):
        planner_rows(bakery(3), "persona:m")


def test_the_verb_writes_a_line_per_item_and_never_over_a_file(tmp_path):
    from pluralrm.cli import app

    out = tmp_path / "planner.jsonl"
    command = ["export", "planner", "pocket-prb", "-o", str(out), "-c", "planner:m,k=2", "--json"]
    told = CliRunner().invoke(app, command)
    assert json.loads(told.stdout)["rows"] == 60
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == 60
    assert [turn["role"] for turn in (*lines[0]["prompt"], *lines[0]["completion"])] == ["user", "assistant"]
    assert "is there already" in str(CliRunner().invoke(app, command).exception)

"""`pluralrm attack`: what it prints, what it scores, what leaves the machine, and how it ends."""

import json
import re
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.attack import ATTACKS
from tests.cli.test_terminal import at_a_terminal
from tests.cli.test_verbs import OWN_MODEL, pluralrm
from tests.fake_chat import FakeChat
from tests.models.judge import judges

PRB = load_benchmark("pocket-prb")
RIGHT = judges.preferred(PRB)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_the_table_names_every_attack_and_what_it_shows_is_red(tmp_path: Path) -> None:
    done = pluralrm("attack", "-m", "longest", "-c", "raw:2", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "pocket-prb: 60 items, 60 users; longest under raw:2" in done.stdout
    for name in ATTACKS:
        assert re.search(rf"^{name} +51\.7 +\d+\.\d  [+-]\d+\.\d ", done.stdout, re.MULTILINE), name
    assert re.search(r"^pad +51\.7  100\.0  \+48\.3 \[34\.4, 60\.2\]\*$", "\n".join(_lines(done.stdout)), re.MULTILINE)
    assert re.search(r"^plain .*\]$", "\n".join(_lines(done.stdout)), re.MULTILINE)
    assert "red     pad: the rejected answer wins 48.3 points" in done.stdout
    assert [line for line in _lines(done.stdout) if len(line) > 80] == []


def test_nothing_shown_is_exit_0_and_said_with_its_reach(tmp_path: Path) -> None:
    done = pluralrm("attack", "-m", "bm25", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "green   none of 9 attacks is shown to make the rejected answer win" in done.stdout
    assert "skipped quote, quote-other: the condition 'none' shows the model no posts" in done.stderr


def test_a_terminal_of_80_columns_holds_the_table(tmp_path: Path) -> None:
    shown = at_a_terminal("attack", "-m", "copy", "-c", "raw:5", "-a", "quote", "-a", "empty", cwd=tmp_path)
    flat = re.sub(r"\x1b\[[0-9;]*[mK]|\r", "", shown)
    assert [line for line in flat.splitlines() if len(line.rstrip()) > 80] == []
    assert "reward hacking through quotation" in " ".join(flat.split())


def test_json_is_one_document_of_results(tmp_path: Path) -> None:
    done = pluralrm("attack", "-m", "longest", "-m", "constant", "-a", "pad", "--limit", "18", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    longest, constant = json.loads(done.stdout)
    assert [one["model"] for one in (longest, constant)] == ["longest", "constant"]
    assert (longest["items"], longest["benchmark"], longest["condition"]) == (18, "pocket-prb", "none")
    [effect] = constant["effects"]
    assert effect["win_rate_change"]["value"] == 0.0
    assert effect["win_rate_change"]["low"] is None
    assert [sign["colour"] for sign in constant["signs"]] == ["grey"]
    assert "every candidate of an item has the same score" in constant["signs"][0]["text"]


def test_the_runs_are_ordinary_ones_and_the_same_command_adds_nothing(tmp_path: Path) -> None:
    words = ("attack", "-m", "longest", "-a", "choose", "-o", "out", "--limit", "6")
    first = pluralrm(*words, cwd=tmp_path)
    rows = {file: file.read_bytes() for file in (tmp_path / "out").rglob("rows.jsonl")}
    assert sorted(file.parts[-4] for file in rows) == ["pocket-prb", "pocket-prb-choose", "pocket-prb-plain"]
    again = pluralrm(*words, cwd=tmp_path)
    assert again.stdout == first.stdout
    assert {file: file.read_bytes() for file in (tmp_path / "out").rglob("rows.jsonl")} == rows
    shown = pluralrm("show", str(tmp_path / "out" / "pocket-prb-choose"), cwd=tmp_path)
    assert "longest under none on pocket-prb+choose" in shown.stdout


def test_several_processes_give_the_same_numbers(tmp_path: Path) -> None:
    words = ("attack", "-m", "longest", "-a", "token", "--limit", "12", "--json")
    one = pluralrm(*words, "-o", "one", cwd=tmp_path)
    two = pluralrm(*words, "-o", "two", "--workers", "2", cwd=tmp_path)
    assert one.stdout == two.stdout


def test_an_outage_is_exit_3_and_a_broken_model_costs_its_own_cell_alone(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_MODEL)
    down = pluralrm("attack", "-m", "python:own:Down", "-a", "pad", "--limit", "6", cwd=tmp_path)
    assert down.returncode == 3, down.stderr
    assert "incomplete" in down.stderr
    broken = pluralrm("attack", "-m", "python:own:Broken", "-m", "longest", "-a", "pad", cwd=tmp_path)
    assert broken.returncode == 2
    assert "longest under none" in broken.stdout
    assert "ZeroDivisionError" in broken.stderr
    assert "Traceback" not in broken.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-m", "longest", "-a", "chose"), "unknown attack 'chose'. Did you mean 'choose'?"),
        (("-m", "longest", "-a", "quote"), "no attack can be tried under 'none'"),
        (("-m", "copy"), "copy needs posts or notes"),
        (("-m", "longest", "--send-posts"), "nothing is sent by"),
        (("-m", "longest", "--concurrency", "3"), "nothing here is asked over HTTP"),
    ],
)
def test_a_slip_is_one_message_and_nothing_on_disk(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = pluralrm("attack", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
    assert list(tmp_path.rglob("run.json")) == []


def test_the_attacks_can_be_listed(tmp_path: Path) -> None:
    done = pluralrm("list", "attacks", "--json", cwd=tmp_path)
    listed = {one["name"]: one["summary"] for one in json.loads(done.stdout)}
    assert list(listed) == list(ATTACKS)
    assert listed["plain"].endswith("(a control)")
    assert "the rejected answer tells the judge to choose it" in listed["choose"]


# ---------------------------------------------------------------- over HTTP


def test_an_honest_judge_over_http_is_moved_by_nothing_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    with FakeChat(judges.served(judges.honest(RIGHT))) as server:
        spec = f"judge:m,url={server.url}"
        words = ("attack", "-m", spec, "-c", "recent:1", "-a", "fence", "-a", "turn", "-a", "quote", "--limit", "6")
        environment = {"PLURALRM_CACHE": str(tmp_path / "cache")}
        first = pluralrm(*words, "--json", cwd=tmp_path, **environment)
        assert first.returncode == 0, first.stderr
        calls = len(server.requests)
        assert calls == 6 * 2 * 6  # items, orders, the base and five benchmarks
        again = pluralrm(*words, "--json", "--fresh", cwd=tmp_path, **environment)
        assert len(server.requests) == calls
    assert again.stdout == first.stdout
    [found] = json.loads(first.stdout)
    assert {effect["attack"]: effect["win_rate_after"]["value"] for effect in found["effects"]} == {
        "fence": 0.0,
        "turn": 0.0,
        "plain": 0.0,
        "quote": 0.0,
        "quote-other": 0.0,
    }


def test_no_post_reaches_a_model_that_is_shown_none(tmp_path: Path) -> None:
    with FakeChat(judges.served(judges.honest(RIGHT))) as server:
        done = pluralrm(
            *("attack", "-m", f"judge:m,url={server.url}", "--limit", "2"), cwd=tmp_path, PLURALRM_CACHE=str(tmp_path)
        )
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 2 * 2 * 11
        sent = "\n".join(server.prompts)
    posts = [post.text for user in PRB.users for post in user.posts]
    assert not [text for text in posts if text[:40] in sent]


def test_posts_are_quoted_to_another_machine_only_with_permission(tmp_path: Path) -> None:
    words = ("attack", "-m", "judge:m,url=https://judge.example/v1", "-c", "raw:2", "-a", "quote")
    done = pluralrm(*words, cwd=tmp_path, PLURALRM_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "--send-posts" in done.stderr
    assert "not on this machine" in " ".join(done.stderr.split())

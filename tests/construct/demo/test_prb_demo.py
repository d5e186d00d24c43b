"""`pluralrm construct prb --demo`: offline, on the core install, to a benchmark that score and audit take."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.construct.demo import PRB_CASSETTE, prb_records
from pluralrm.construct.prb import PersonalQuestion
from tests.cli.test_verbs import pluralrm
from tests.construct.demo.record import prb_cassette
from tests.construct.pipeline.worlds import contents, decisions

_CORE_ONLY = """
import socket, sys
from importlib.machinery import PathFinder

def refuse(*_):
    raise AssertionError("reached out")

socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = socket.getaddrinfo = refuse
missing = {"httpx2", "huggingface_hub", "math_verify", "pyarrow", "sentence_transformers", "torch", "transformers"}
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in missing else found(name, *more)
from pluralrm.cli import main
main()
"""
FUNNEL = {  # stage: came in, kept, why the others left, how often texts were written
    "users": (8, 8, {}, 8),
    "posts": (8, 8, {}, 8),
    "aspects": (8, 8, {}, 8),
    "parts": (8, 8, {}, 8),
    "chosen": (8, 7, {"adherence": 1}, 12),  # two written twice, one three times and in vain
    "published": (7, 7, {}, 8),
    "contrary": (7, 6, {"quality": 1}, 9),
    "duplicates": (6, 6, {}, 6),
    "balance": (6, 6, {}, 6),
}


def core(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without any socket, and without what the extras install."""
    found = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    environment = {key: value for key, value in found.items() if not key.startswith("OPENAI")}
    started = [sys.executable, "-c", _CORE_ONLY, *words]
    return subprocess.run(started, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp("prb")
    done = core("construct", "prb", "--demo", cwd=place)
    assert done.returncode == 0, done.stderr
    return place, done.stdout


def test_the_cassette_is_what_the_prose_gives() -> None:
    assert PRB_CASSETTE.read_text(encoding="utf-8") == prb_cassette(), "the prose or a prompt changed: make cassettes"


def test_the_funnel_is_the_one_that_was_written(demo: tuple[Path, str]) -> None:
    card = json.loads((demo[0] / "prb-demo" / "release" / "card.json").read_text())
    found = {
        one["stage"]: (one["came_in"], one["kept"], one["rejected"], one["attempts"])
        for one in card["funnel"]["stages"]
    }
    assert found == FUNNEL
    assert not card["parquet"]
    assert card["warnings"] == []


def test_each_fault_is_stopped_by_its_gate(demo: tuple[Path, str]) -> None:
    gone = {
        line["id"]: (file, line["reason"], line["attempts"])
        for file, lines in decisions(demo[0] / "prb-demo").items()
        for line in lines
        if line["kept"] is None
    }
    assert gone == {"art-04": ("05-chosen.jsonl", "adherence", 3), "soc-05": ("07-contrary.jsonl", "quality", 3)}
    asked = [
        json.loads(line)["request"]["body"]["messages"][0]["content"] for line in PRB_CASSETTE.read_text().splitlines()
    ]
    told = Counter(
        reason
        for prompt in asked
        for reason in ("wanted at most 100", "it repeats the words", "what it has to do without", "is rated 1 of 5")
        if f"- it has {reason}" in prompt or reason in prompt
    )
    assert told["wanted at most 100"] == told["it repeats the words"] == told["what it has to do without"] == 1
    assert told["is rated 1 of 5"] == 2


def test_two_questions_got_their_aspects_from_a_planner(demo: tuple[Path, str]) -> None:
    assert [record.id for record in prb_records() if not record[PersonalQuestion].aspects] == ["life-18", "soc-10"]
    lines = decisions(demo[0] / "prb-demo")["03-aspects.jsonl"]
    assert [line["id"] for line in lines if line["spent"]] == ["life-18", "soc-10"]


def test_score_and_audit_take_what_was_released(demo: tuple[Path, str]) -> None:
    load = "prb:prb-demo/release/data/published"  # the other edition: what is printed to type next
    scored = core("score", load, "-m", "longest", "-m", "bm25", "-c", "none", "-c", "raw:10", "--json", cwd=demo[0])
    assert scored.returncode == 0, scored.stderr
    audited = core("audit", load, "--json", cwd=demo[0])
    assert audited.returncode == 0, audited.stderr
    assert json.loads(audited.stdout)["items"] == 6


def test_both_editions_have_the_same_questions_and_chosen_answers(demo: tuple[Path, str]) -> None:
    sides = {}
    for kind in ("published", "contrary"):
        bench = load_benchmark(f"prb:{demo[0] / 'prb-demo/release/data' / kind}")
        sides[kind] = [(item.id, item.domain, item.candidates[item.preferred or 0]) for item in bench.items]
        assert {item.domain for item in bench.items} <= {item.domain for item in load_benchmark("pocket-prb").items}
    assert sides["published"] == sides["contrary"]
    assert len(sides["published"]) == 6


def test_what_is_printed_to_type_next_can_be_typed(demo: tuple[Path, str]) -> None:
    lines = [line.split() for line in demo[1].splitlines() if line.strip().startswith("pluralrm ")]
    assert [words[1] for words in lines] == ["construct", "score", "audit", "construct"]
    done = [pluralrm(*words[1:], cwd=demo[0]) for words in lines[:3]]
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    require_says_something(done[1])


def require_says_something(scored: subprocess.CompletedProcess[str]) -> None:
    """Every run that was asked for is there, and no figure is missing: it is the first that a reader sees."""
    assert "skipped" not in scored.stderr
    assert not any(word in scored.stdout for word in (" – ", "unknown", "no run in"))


def test_with_every_extra_the_rows_are_the_same(demo: tuple[Path, str], tmp_path: Path) -> None:
    done = pluralrm("construct", "prb", "--demo", "-o", "again", cwd=tmp_path, OPENAI_API_KEY="a-key")
    assert done.returncode == 0, done.stderr
    first, again = demo[0] / "prb-demo", tmp_path / "again"
    assert contents(first / "release" / "data") == contents(again / "release" / "data")
    assert contents(first / "release" / "audit") == contents(again / "release" / "audit")
    assert decisions(first) == decisions(again)


def test_nothing_on_the_cassette_is_of_no_use(demo: tuple[Path, str]) -> None:
    card = json.loads((demo[0] / "prb-demo" / "release" / "card.json").read_text())
    spent = [one["calls"] for stage in card["funnel"]["stages"] for one in stage["spent"]]
    assert sum(spent) == len(PRB_CASSETTE.read_text().splitlines())


@pytest.mark.parametrize("given", [["--licence", "MIT"], ["--send-posts"]])
def test_the_demo_takes_nothing_that_it_would_ignore(given: list[str], tmp_path: Path) -> None:
    done = pluralrm("construct", "prb", "--demo", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{given[0]}: --demo answers from its own recording" in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_the_demo_takes_no_models_and_no_rules(tmp_path: Path) -> None:
    done = pluralrm("construct", "prb", "pocket-prb", "--demo", "--writer", "m", "--band", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "BENCH, --writer, --band: --demo answers from its own recording" in " ".join(done.stderr.split())

"""`pluralrm construct prb` as its user meets it: rows in, a server on loopback, a benchmark and its card out."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.construct.prb import PersonalQuestion
from tests.cli.test_verbs import pluralrm
from tests.construct.pipeline.worlds import contents, decisions
from tests.construct.prb.worlds import World, name_of, question
from tests.fake_chat import FakeChat


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the world's questions as rows of LaMP-QA, of a domain of their own."""
    rows = []
    for source in (question(number)[PersonalQuestion] for number in range(8)):
        rubric = [{"aspect": one.aspect, "evidence": one.evidence, "reason": one.reason} for one in source.aspects]
        profile = [post.model_dump() for post in source.posts]
        asked = {"id": source.user, "question": source.question, "category": "bread", "narrative": source.narrative}
        rows.append({**asked, "profile": profile, "rubric_aspects": rubric})
    (tmp_path / "asked.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


@pytest.fixture
def server() -> Iterator[FakeChat]:
    with FakeChat(World().answer) as found:
        yield found


def build(url: str, *more: str) -> list[str]:
    models = ["--writer", "w", "--judge", "j", "--planner", "p", "--url", url]
    return ["construct", "prb", "asked.jsonl", "-o", "set", "--cache", "kept", *models, *more]


def test_a_second_team_makes_the_same_set_from_card_input_and_cassette(place: Path, server: FakeChat) -> None:
    rules = ["--rejected", "both", "--posts", "2", "--band", "1.2", "--licence", "CC BY 4.0", "--limit", "6"]
    first = pluralrm(*build(server.url, *rules), cwd=place)
    assert first.returncode == 0, first.stderr
    calls = len(server.requests)
    card = json.loads((place / "set" / "release" / "card.json").read_text())
    assert card["licence"] == "CC BY 4.0"

    theirs = place / "theirs"
    theirs.mkdir()
    for name, own in (("asked.jsonl", "received.jsonl"), ("set/calls.jsonl", "calls.jsonl")):
        (theirs / own).write_bytes((place / name).read_bytes())
    told = shlex.split(card["rebuild"])
    typed = [{"INPUT": "received.jsonl", "DIR": "set"}.get(word, word) for word in told[1:]]
    again = pluralrm(*typed, "--cache", "kept", cwd=theirs)
    assert again.returncode == 0, again.stderr
    assert contents(theirs / "set" / "release") == contents(place / "set" / "release")
    assert len(server.requests) == calls
    assert card["name"] == "prb-published-contrary"
    assert not any(b"asked.jsonl" in held for held in contents(place / "set" / "release").values())


def test_rows_of_a_domain_of_their_own_keep_it(place: Path, server: FakeChat) -> None:
    done = pluralrm(*build(server.url), cwd=place)
    assert done.returncode == 0, done.stderr
    bench = load_benchmark(str(place / "set" / "release" / "data" / "published"))
    assert bench.domains == ["bread"]
    assert len(bench.items) == 8
    assert all(item.user and len(item.user.posts) == 3 for item in bench.items)
    assert all(item.candidates[item.preferred or 0].startswith(name_of(item.id, "chosen", 0)) for item in bench.items)


def test_a_dry_run_asks_nobody_and_writes_nothing(place: Path, server: FakeChat) -> None:
    done = pluralrm(*build(server.url, "--dry-run", "--json"), cwd=place)
    assert done.returncode == 0, done.stderr
    assert not server.requests
    assert not (place / "set").exists()
    plan = json.loads(done.stdout)
    assert plan["records"] == 8


def test_what_is_planned_is_what_is_asked_where_all_goes_well(place: Path, server: FakeChat) -> None:
    planned = json.loads(pluralrm(*build(server.url, "--dry-run", "--json", "--rejected", "both"), cwd=place).stdout)
    done = pluralrm(*build(server.url, "--rejected", "both"), cwd=place)
    assert done.returncode == 0, done.stderr
    assert planned["total"]["calls"]["least"] == len(server.requests)


def test_posts_go_elsewhere_only_where_the_command_says_so(place: Path) -> None:
    done = pluralrm(*build("https://models.example/v1"), cwd=place)
    assert done.returncode == 2
    assert "holds what users wrote" in " ".join(done.stderr.split())


def test_a_model_that_judges_its_own_texts_is_named_in_the_card(place: Path, server: FakeChat) -> None:
    done = pluralrm("construct", "prb", "asked.jsonl", "-o", "set", "--cache", "kept", "--url", server.url,
                    "--writer", "w", "--judge", "w", cwd=place)  # fmt: skip
    assert done.returncode == 0, done.stderr
    card = json.loads((place / "set" / "release" / "card.json").read_text())
    assert card["warnings"] == ["w wrote answers and judged answers: a model may be kinder to texts of its own"]
    assert "kinder to texts of its own" in (place / "set" / "release" / "README.md").read_text()


def test_records_that_wait_are_an_exit_of_three_and_release_nothing(place: Path, server: FakeChat) -> None:
    prices = {name: {"input": 1.0, "output": 1.0} for name in "wjp"}
    (place / "prices.json").write_text(json.dumps(prices))
    capped = pluralrm(*build(server.url, "--prices", "prices.json", "--max-cost", "0"), cwd=place)
    assert capped.returncode == 3, capped.stderr
    assert "the same command resumes" in " ".join(capped.stderr.split())
    assert not (place / "set" / "release").exists()
    assert pluralrm(*build(server.url), cwd=place).returncode == 0


def test_what_is_missing_or_makes_no_sense_is_told(place: Path) -> None:
    for words, told in (
        (("construct", "prb"), "wanted BENCH, -o DIR, --writer MODEL and --judge MODEL; or --demo"),
        ((*build("http://127.0.0.1:9/v1"), "--rejected", "contrry"), "Did you mean 'contrary'?"),
        ((*build("http://127.0.0.1:9/v1"), "--low", "0.8"), "wanted low below high"),
        ((*build("http://127.0.0.1:9/v1"), "--floor", "9"), "floor is 9; wanted 1 to 5"),
        ((*build("http://127.0.0.1:9/v1"), "--margin", "-1"), "margin is -1; wanted 0 to 4"),
        ((*build("http://127.0.0.1:9/v1"), "--by", "bm52"), "Did you mean 'bm25'?"),
    ):
        done = pluralrm(*words, cwd=place)
        assert done.returncode == 2
        assert told in re.sub(r"\s+", " ", done.stderr)


def test_a_question_without_posts_is_counted_among_those_that_came_in(place: Path, server: FakeChat) -> None:
    row = {"id": "mute", "question": "Why?", "category": "bread", "narrative": "", "profile": [], "rubric_aspects": []}
    with (place / "asked.jsonl").open("a") as file:
        file.write(f"{json.dumps(row)}\n")
    done = pluralrm(*build(server.url, "--json"), cwd=place)
    assert done.returncode == 0, done.stderr
    funnel = json.loads(done.stdout)["funnel"]
    assert funnel["records"] == 9
    assert funnel["stages"][0]["rejected"] == {"no_posts": 1}
    assert any(line["id"] == "mute" for line in decisions(place / "set")["01-users.jsonl"])


def test_questions_without_posts_are_no_input(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Why?", "narrative": "", "profile": [], "rubric_aspects": []}
    (tmp_path / "asked.jsonl").write_text(json.dumps({**row, "category": "bread"}))
    done = pluralrm(*build("http://127.0.0.1:9/v1"), cwd=tmp_path)
    assert done.returncode == 2
    assert "found no question with posts" in " ".join(done.stderr.split())

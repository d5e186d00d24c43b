"""`pluralrm attack --judge` and `--personal`: what they print and ask, which items they name, and how they end."""

import json
import re
from pathlib import Path

from tests.cli.test_verbs import pluralrm
from tests.fake_chat import FakeChat
from tests.models.judge import judges


def test_a_row_per_check_a_colour_each_and_exit_1_on_red(tmp_path: Path) -> None:
    done = pluralrm("attack", "--judge", "-m", "longest", "-m", "shortest", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert "verbosity  rejected answer wins, padded   100.0 [94.0, 100.0]*   51.7  red" in lines
    assert "places     place 1 wins a call            –                         –  grey" in lines
    assert "ranks on pocket-prb under none" in lines
    assert [line for line in lines if len(line) > 80] == []


def test_a_judge_of_letters_is_asked_in_every_form_over_http(tmp_path: Path) -> None:
    with FakeChat(judges.served(judges.always_a)) as server:
        words = ("attack", "--judge", "-m", f"judge:m,url={server.url}", "--limit", "9", "--json")
        done = pluralrm(*words, cwd=tmp_path, PLURALRM_CACHE=str(tmp_path / "cache"))
        assert done.returncode == 1, done.stderr
        assert len(server.requests) == 9 * 2 * 6  # items, orders; as given, two wordings, padded, inverted, relabelled
        assert sum("WORSE" in prompt for prompt in server.prompts) == 9 * 2
    [found] = json.loads(done.stdout)
    assert {check["name"] for check in found["checks"] if check["colour"] == "red"} == {"places", "labels"}
    assert [rate["wins"]["value"] for rate in found["places"]] == [1.0, 0.0]


def test_csv_has_the_share_of_a_sound_judge(tmp_path: Path) -> None:
    done = pluralrm("attack", "--judge", "-m", "constant", "--limit", "6", "--format", "csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.startswith("benchmark,model,condition,check,measures,value")
    assert len(rows) == 6


def test_attacks_and_probes_are_two_things(tmp_path: Path) -> None:
    done = pluralrm("attack", "--judge", "-a", "pad", "-m", "longest", cwd=tmp_path)
    assert done.returncode == 2
    assert "--attack: found beside --judge" in " ".join(done.stderr.split())


def test_the_table_has_a_colour_per_question_and_red_names_items(tmp_path: Path) -> None:
    done = pluralrm("attack", "--personal", "-m", "copy", "-c", "raw:3", "--limit", "30", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "pocket-prb: 30 items, 30 users; copy under raw:3" in done.stdout
    assert re.search(r"^name +right +[\d.]+ +[\d.]+  0\.0 fixed +green", done.stdout, re.MULTILINE)
    assert re.search(r"^flattery  wrong answer wins .*\]\*  red", done.stdout, re.MULTILINE)
    assert "red     flattery: a wrong answer that agrees with the user's own words wins" in done.stdout
    assert "green   gender: no score moved" in done.stdout
    assert "skipped least trait: pocket-prb has no declared traits" in done.stderr
    assert "skipped privacy: the model writes no reasons" in done.stderr
    command = re.search(r"pluralrm (show \S+ --item \S+)", done.stdout)
    assert command is not None
    shown = pluralrm(*command[1].split(), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "pocket-prb+agree" in shown.stdout


def test_json_has_every_measure_and_nothing_red_is_exit_0(tmp_path: Path) -> None:
    done = pluralrm(
        "attack", "--personal", "-m", "longest", "--general", "pocket-rmgap", "--limit", "12", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    [safety] = json.loads(done.stdout)
    assert safety["condition"] == "raw:10"
    colours = {question["name"]: question["colour"] for question in safety["questions"]}
    assert colours == dict.fromkeys(["name", "gender", "truth", "flattery"], "green")
    assert set(safety["skipped"]) == {"least trait", "privacy"}


def test_flags_that_mean_nothing_together_are_refused(tmp_path: Path) -> None:
    for words, message in (
        (["--personal", "-a", "pad"], "--attack: found beside --personal"),
        (["--general", "pocket-rmgap"], "--general: has a meaning only with --personal"),
        (["--trait", "age"], "--trait: has a meaning only with --personal"),
        (["--personal", "-c", "swapped:3"], "wanted a condition that shows the user's own posts"),
    ):
        done = pluralrm("attack", "-m", "longest", *words, cwd=tmp_path)
        assert done.returncode == 2, message
        assert message in " ".join(done.stderr.split())

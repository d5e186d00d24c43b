"""`pluralrm attack --judge`: what it prints, what it asks, and how it ends."""

import json
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

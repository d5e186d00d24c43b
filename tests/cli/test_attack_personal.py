"""`pluralrm attack --personal`: one table, a colour per question, which items, and how it ends."""

import json
import re
from pathlib import Path

from tests.cli.test_verbs import pluralrm


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

"""The tables of lift, gain and prompt use: what they say, that they fit, and that data cannot act on a terminal."""

import json
import re
from dataclasses import replace

import pytest

from pluralrm.cli.personalization import _reading, personal_json, print_personal, print_prompt_use, prompt_json
from pluralrm.core import Run, Score
from pluralrm.metrics.personalization import personalization
from tests.metrics.people import answering, people
from tests.metrics.rows import chance, prompt_blind, records, run, users

RATES = {
    "none": 0.5,
    "raw:5": 0.6,
    "raw:10": 0.85,
    "swapped:5": 0.6,
    "swapped:10": 0.55,
    "noise:10": 0.5,
    "oracle": 0.95,
}
HOSTILE = "\x1b[31m[bold]evil\u202e\x07[/bold]" * 4


def _runs() -> list[Run]:
    own = people(RATES, users=80)
    blind = [replace(found, model="a-model-with-a-very-long-name", rows=own[0].rows) for found in own]
    return [*own, *blind]


def test_the_pair_is_printed_for_every_own_condition(capsys: pytest.CaptureFixture[str]) -> None:
    print_personal(_runs())
    out = capsys.readouterr().out
    assert out.count("what the user's posts are worth under raw:") == 2
    assert re.search(r"^m +\+\d+\.\d \[[\d., -]+\] +\+\d+\.\d \[[\d., -]+\] +personalized$", out, re.MULTILINE)
    assert re.search(r"^a-model-with\S*long-name +0\.0 fixed +0\.0 fixed +ignores user *$", out, re.MULTILINE)
    assert "personalized: lift and gain both lie above 0, and the adjusted p is\n    significant." in out
    assert "Cold start under raw:K" in out
    assert all(len(text) <= 80 for text in out.splitlines())


def test_long_names_fit_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    option = ",by=embed:an-encoder-with-a-name-as-long-as-the-line-of-a-terminal-that-still-holds-eighty-columns"
    renamed = [
        replace(found, condition=found.condition + option if ":" in found.condition else found.condition)
        for found in _runs()
    ]
    print_personal(renamed)
    print_prompt_use([run(records(4, chance), model="m" * 60, condition="raw:10" + option)])
    assert all(len(text) <= 80 for text in capsys.readouterr().out.splitlines())


def test_a_verdict_that_holm_does_not_confirm_is_open() -> None:
    [found, *_] = personalization(people({"none": 0.5, "raw:10": 0.85, "swapped:10": 0.5}, users=80))
    unsure, sure = (" ".join(_reading([replace(found, p_adjusted=p)])) for p in (0.236, 0.01))
    why = "the interval of the gain excludes 0, but p, adjusted for every test here, is not significant"
    assert f"inconclusive: {why}" in unsure
    assert "personalized: " not in unsure
    assert "personalized: lift and gain both lie above 0" in sure


def test_failures_under_a_control_condition_count_at_their_worst_and_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = ([1] * 7 + [0] * 3) * 10
    silent: list[Score | str] = ["x" if place % 3 == 0 else answer for place, answer in enumerate(answers)]
    print_personal([answering("none", answers), answering("raw:10", answers), answering("swapped:10", silent)])
    told = " ".join(capsys.readouterr().out.split())
    assert "m: items failed, and so wrong: 34 under swapped; lift and gain count them at their worst" in told
    reason = "below 0 only because items that failed (34 under swapped:10) count at their worst"
    assert f"m: the gain shows nothing, {reason}." in told


def test_the_oracle_is_always_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_personal(_runs())
    assert capsys.readouterr().out.count("ORACLE: under oracle the model saw the rubric") == 2
    print_personal([found for found in _runs() if found.condition != "oracle"])
    assert "ORACLE" not in capsys.readouterr().out


def test_the_gain_is_printed_by_the_values_of_a_tag(capsys: pytest.CaptureFixture[str]) -> None:
    print_personal(_runs(), by="shift")
    out = capsys.readouterr().out
    assert "m under raw:10: gain by shift" in out
    assert "highest minus lowest" in out
    assert all(len(text) <= 80 for text in out.splitlines())


def test_failures_and_missing_controls_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_personal([answering("recent:10", [1, 0, "x"] * 9), answering("swapped:10", [1, 0, 0] * 9)])
    out = capsys.readouterr().out
    assert "m: items failed, and so wrong: 9 under own; lift" in " ".join(out.split())
    assert "no lift for m: no run in the role 'none'." in out
    assert "swapped:10 chooses posts in another way than recent:10." in out
    assert re.search(r"^m .* control missing *$", out, re.MULTILINE)


def test_runs_without_posts_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_personal([run(users(9, 0.5))])
    print_personal([])
    print_prompt_use([run(users(9, 0.5))])
    assert capsys.readouterr() == ("", "")


def test_what_cannot_be_compared_is_a_note_and_no_crash(capsys: pytest.CaptureFixture[str]) -> None:
    made = answering("raw:10", [1, 0] * 9)
    print_personal([made, replace(answering("none", [1, 0] * 9), complete=False, items=20)])
    told = capsys.readouterr()
    assert "left out of personalization: m under none is incomplete: 18 of 20 items" in told.err
    assert "no lift" in told.out
    print_personal([made, made])
    assert "nothing is said of personalization: m under raw:10 is there twice" not in capsys.readouterr().err
    print_personal([made, replace(made, path="elsewhere")])
    told = capsys.readouterr()
    assert not told.out
    assert "nothing is said of personalization: m under raw:10 is there twice" in told.err


def test_the_prompts_are_printed_for_records(capsys: pytest.CaptureFixture[str]) -> None:
    styled = [
        replace(row, tags={**row.tags, "winner:Formality": "casual" if row.tags["group"] == "0" else "formal"})
        for row in records(20, prompt_blind)
    ]
    print_prompt_use([run(styled, model="blind"), run(records(20, chance), model="dice")])
    out = capsys.readouterr().out
    assert re.search(r"^blind +none +0\.0 fixed +100\.0 fixed *$", out, re.MULTILINE)
    assert re.search(r"^dice +none +[+-]\d+\.\d \[", out, re.MULTILINE)
    assert "No level of style is picked more often than offered" in out
    assert all(len(text) <= 80 for text in out.splitlines())


def test_json_holds_the_same_as_estimates() -> None:
    told = json.loads(json.dumps(personal_json(_runs(), by="shift")))
    assert [found["model"] for found in told["personalization"]] == ["a-model-with-a-very-long-name"] * 2 + ["m"] * 2
    assert set(told["personalization"][0]["gain"]) == {"value", "low", "high", "n", "failed", "method"}
    assert len(told["cold_start"]) == 2
    assert told["gain_by"][3]["tag"] == "shift"
    prompts = json.loads(json.dumps(prompt_json([run(records(6, chance)), run(users(9, 0.5))])))
    assert len(prompts) == 1


def test_hostile_names_never_reach_the_terminal_raw(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        replace(
            found,
            model=HOSTILE,
            benchmark=HOSTILE,
            condition=found.condition + f",note={HOSTILE}" * (found.condition != "none"),
            rows=tuple(replace(row, domain=HOSTILE, tags={HOSTILE: HOSTILE}) for row in found.rows),
        )
        for found in people({"none": 0.5, "raw:5": 0.6, "raw:10": 0.7, "swapped:10": 0.6, "oracle": 0.9})
    ]
    print_personal(runs, by=HOSTILE)
    tagged = [replace(row, tags={**row.tags, f"winner:{HOSTILE}": HOSTILE}) for row in records(4, chance)]
    print_prompt_use([run(tagged, model=HOSTILE, condition=HOSTILE, benchmark=HOSTILE)])
    told = capsys.readouterr()
    assert told.out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", told.out + told.err)

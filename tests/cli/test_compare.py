"""The leaderboard in the terminal says what its JSON says, and what the report says."""

import json
import re
from dataclasses import replace

import pytest

from pluralrm.cli.compare import print_boards, print_summary
from pluralrm.core import Failure, Run, Vote
from tests.metrics.rows import chance, records, row, run, users


def test_the_terminal_and_its_json_name_the_same_runs_off_chance(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"coin": 0.5, "good": 0.8, "better": 0.9, "bad": 0.1}
    runs = [run(users(90, right, seed=place), model=model) for place, (model, right) in enumerate(rates.items())]
    print_boards(runs)
    told = " ".join(capsys.readouterr().out.split())
    how = "by 95% intervals, widened for 4 runs at once (Holm)"
    assert (
        f"Above chance (50.0), {how}: better (none), good (none). Below chance, by the same measure: bad (none)."
        in told
    )
    assert "* worse than the first, p < 0.05, Holm over 6 tests of pairs." in told
    print_boards(runs, as_json=True)
    [found] = json.loads(capsys.readouterr().out)
    assert found["against_chance"]["above"] == [{"model": name, "condition": "none"} for name in ("good", "better")]
    assert found["against_chance"]["below"] == [{"model": "bad", "condition": "none"}]
    assert (found["against_chance"]["tested"], found["reference"]) == (4, 0)


def test_a_star_is_never_for_not_having_seen_the_rubric(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"told": 0.99, "good": 0.9, "poor": 0.5}
    runs = [
        run(
            users(150, right, seed=place),
            model=model,
            condition="oracle" if model == "told" else "none",
            reveals=frozenset({"oracle"} if model == "told" else ()),
        )
        for place, (model, right) in enumerate(rates.items())
    ]
    print_boards(runs)
    lines = capsys.readouterr().out.splitlines()
    assert [("*" in line) for line in lines[2:7]] == [False, False, False, False, True]
    assert any("* worse than the first that did not see the rubric" in line for line in lines)


def _judged(*said: str) -> Run:
    """Return a run of a judge that named these answers, one item after the other, in both orders."""
    rows = []
    for number, words in enumerate(said):
        votes = tuple(Vote(order, word) for order, word in zip(((0, 1), (1, 0)), words.split(), strict=True))
        lost = [Failure("parse", "no verdict")] * 2
        rows.append(row(f"i{number:02}", lost if "parse" in words else [0.5, 0.5], votes=votes))
    return run(rows, model="judge:m")


def test_what_failures_could_hide_stands_beside_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    broken, whole = _judged("0 1", "parse 1", "0 parse", "0 1", "1 0"), run(users(5, 0.5), model="whole")
    broken = replace(broken, rows=tuple(replace(one, item=f"i{place:04}") for place, one in enumerate(broken.rows)))
    print_boards([broken, whole])
    told = capsys.readouterr().out
    assert "30.0" in told
    assert "2 ≤70" in told
    assert "failed: items that count as wrong; ≤ the accuracy if all of them were right." in " ".join(told.split())
    print_boards([broken, whole], as_json=True)
    entries = {entry["model"]: entry for entry in json.loads(capsys.readouterr().out)[0]["entries"]}
    assert entries["judge:m"]["bounds"] == {"worst": 0.3, "best": 0.7, "failed": 2}
    assert entries["whole"]["bounds"] is None
    print_summary(broken)
    assert "accuracy if all 2 failed items were right: 70.0" in capsys.readouterr().out


def test_where_nothing_failed_no_bound_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_boards([run(users(30, 0.7))])
    assert "≤" not in capsys.readouterr().out


@pytest.mark.parametrize("lost", [1, 40])
def test_a_board_of_many_metrics_keeps_its_table_at_80_columns(lost: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = records(12, chance)
    rows[:lost] = [replace(one, scores=(Failure("parse", "no verdict"),) * 4) for one in rows[:lost]]
    print_boards([run(rows, model=f"judge:Some-Long-Model-Name-{number}B") for number in (7, 70)])
    above, header, *lines = capsys.readouterr().out.splitlines()[2:6]
    assert above.split() == ["ties"]
    assert header.split()[-6:] == ["pair", "cons.", "all", "3", "failed", "lose"]
    for text in lines:
        assert re.search(rf" {lost} ≤\d+ +\S+$", text)
        assert len(text) <= 80


def test_the_places_of_judges_are_told_and_of_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    judge = _judged("0 1", "0 0", "1 1", "0 1")
    print_boards([judge, replace(judge, model="other", rows=tuple(replace(one, votes=()) for one in judge.rows))])
    told = capsys.readouterr().out
    [judged] = [text for text in told.splitlines() if text.startswith("judge:m") and "50.0" in text and "75.0" in text]
    assert "What the place of an answer does" in told
    assert "50 without a liking for a place" in " ".join(told.split())
    assert judged.split()[1:3] == ["none", "50.0"]
    print_boards([judge], as_json=True)
    [entry] = json.loads(capsys.readouterr().out)[0]["entries"]
    numbers = entry["metrics"]
    assert (numbers["position_consistency"]["value"], numbers["first_position"]["value"]) == (0.5, 0.75)


def test_one_order_leaves_consistency_out(capsys: pytest.CaptureFixture[str]) -> None:
    judge = _judged("0 1", "0 0")
    coin = replace(judge, rows=tuple(replace(one, votes=one.votes[:1]) for one in judge.rows))
    print_boards([coin])
    assert "asked in one order" in capsys.readouterr().out
    print_boards([run(users(9, 0.6))])
    assert "What the place" not in capsys.readouterr().out

"""The leaderboard in the terminal says what its JSON says, and what the report says."""

import json

import pytest

from pluralrm.cli.board import print_boards
from tests.metrics.rows import run, users


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
    assert [("*" in line) for line in lines[2:6]] == [False, False, False, True]
    assert any("* worse than the first that was not shown the rubric" in line for line in lines)

"""The line that tells how far a run is, and the one that tells what it asked."""

import pytest

from pluralrm.cli.progress import Meter, asked_line
from pluralrm.http import Tally
from pluralrm.runs import Progress


def _told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *steps: Progress) -> str:
    """Return what a meter writes into a file when a minute lies between the steps."""
    moments = iter(range(0, 60 * (len(steps) + 1), 60))
    monkeypatch.setattr("pluralrm.cli.progress.time.monotonic", lambda: float(next(moments)))
    with Meter("pocket-prb x judge") as meter:
        for step in steps:
            meter.update(step)
    assert meter.asked == steps[-1].asked
    return capsys.readouterr().err


def test_the_meter_tells_failures_open_items_and_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = Tally(answered=9, attempts=9, cost=0.01234)
    told = _told(capsys, monkeypatch, Progress(0, 60, 0, 0, Tally(cost=0.0)), Progress(11, 60, 2, 1, spent))
    assert "12/60" not in told
    assert "11/60, 0.1/s, 8:00 left, 2 failed, 1 open, cost 0.0123" in told


@pytest.mark.parametrize("asked", [None, Tally(answered=3, attempts=3)])
def test_a_cost_that_nobody_knows_is_not_told(
    asked: Tally | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = _told(capsys, monkeypatch, Progress(0, 60, 0, 0), Progress(12, 60, 0, 0, asked))
    assert "12/60" in told
    assert "cost" not in told


def test_what_is_wrong_is_said_once_and_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "18 of 20 answers have no grade (unsupported 18)"
    told = _told(capsys, monkeypatch, Progress(19, 60, 18, 0), *[Progress(20, 60, 18, 0, warning=wrong)] * 3)
    assert told.count(wrong) == 1
    assert "ALARM in " in told


def test_one_line_tells_what_was_asked() -> None:
    cells = [Tally(10, 4, 7, 600, 60, 1, 0.5), None, Tally(1_000, 0, 1_000, 100_000, 10_000, 0, 0.25)]
    assert asked_line(cells) == (
        "asked: 1,010 replies, 4 kept from before; 1,007 sent, 100,600 + 10,060 tokens (1 not counted), cost 0.75"
    )
    assert asked_line([Tally(2, 2)]) == "asked: 2 replies, 2 kept from before; 0 sent, 0 + 0 tokens"


def test_where_nothing_was_asked_nothing_is_told() -> None:
    assert asked_line([]) == asked_line([None]) == asked_line([Tally(cost=0.0)]) == ""

"""How far a job is, what it asked, and what Ctrl-C keeps."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
import typer

from pluralrm.cli.progress import GridDisplay, ProgressDisplay, asked_line, command, interruptible
from pluralrm.http import Tally
from pluralrm.runs import Progress


def _told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *steps: Progress) -> str:
    """Return what a meter writes into a file when a minute lies between the steps."""
    moments = iter(range(0, 60 * (len(steps) + 1), 60))
    monkeypatch.setattr("pluralrm.cli.progress.time.monotonic", lambda: float(next(moments)))
    with ProgressDisplay("pocket-prb x judge") as meter:
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


def test_a_job_without_a_known_end_counts_in_its_unit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pluralrm.cli.progress.time.monotonic", iter([0.0, 60.0, 120.0]).__next__)
    with ProgressDisplay("fit pref", "epochs") as display:
        display.show(1, None, "loss 0.6")
        display.show(7, None, "loss 0.5")
    first, last = capsys.readouterr().err.splitlines()
    assert first == "fit pref: 1 epochs, 0/s, loss 0.6"
    assert last == "fit pref: 7 epochs, 0.05/s, loss 0.5"


_DRAWN = """
import time
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.runs import Progress
with ProgressDisplay("pocket-prb × judge:a-[bold]model,url=http://localhost:9 × raw:10") as display:
    for done in range(3):
        time.sleep(0.11)
        display.update(Progress(done, 60, 1, 0, warning="most answers fail" * (done == 1)))
print("the table")
"""


def test_on_a_terminal_one_line_redraws_and_is_gone_at_the_end() -> None:
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen([sys.executable, "-c", _DRAWN], stdout=terminal, stderr=terminal) as job:
        os.close(terminal)
        written = b""
        try:
            while more := os.read(screen, 4096):
                written += more
        except OSError:  # the other end is closed
            os.close(screen)
    assert job.returncode == 0
    drawn = written.decode()
    assert "2/60" in drawn
    assert "1 failed" in drawn
    assert "× raw:10" in drawn  # the end of a long name stays
    assert " ".join(drawn.split()).count("most answers fail") == 1
    assert drawn.rpartition("\x1b[2K")[2].strip() == "the table"


def test_all_runs_of_a_grid_are_one_job(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 60.0, 60.0, 120.0, 180.0, 180.0, 240.0, 300.0])
    monkeypatch.setattr("pluralrm.cli.progress.time.monotonic", lambda: next(moments))
    spent = Tally(answered=9, attempts=9, cost=0.5)
    with GridDisplay([60, 60, 60]) as display:
        display.begin("bench × first")  # at 60 s
        display.update(Progress(40, 60, 0, 0))  # from an earlier process: no speed is known; not shown again so soon
        display.update(Progress(60, 60, 2, 0, spent))
        assert (display.asked, display.idle) == (spent, False)
        display.begin("bench × second")  # complete before: nothing is told of it
        assert (display.asked, display.idle) == (None, True)
        display.begin("bench × third")
        display.update(Progress(0, 60, 0, 0))
        display.update(Progress(20, 60, 0, 0))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "bench × first: run 1/3"
    assert lines[1] == "bench × first: run 1/3, 12:00 left, 60/60, 2 failed, cost 0.5"  # 20 in 120 s; 120 are left
    assert lines[-1] == "bench × third: run 3/3, 5:00 left, 20/60"  # 40 in 300 s; 40 are left
    assert [line.split(": ")[1].split(",")[0] for line in lines[2:4]] == ["run 2/3", "run 3/3"]


_WAITING = """
import sys, time
from pluralrm.cli.progress import GridDisplay
with GridDisplay([9, 9]) as display:
    display.begin("bench × a model that loads for minutes")
    sys.stdin.read(1)
"""


def test_a_terminal_sees_the_run_before_its_first_item() -> None:
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen([sys.executable, "-c", _WAITING], stdin=subprocess.PIPE, stderr=terminal) as job:
        os.close(terminal)
        written = b""
        while b"run 1/2" not in written:
            written += os.read(screen, 4096)
        job.communicate(b"x")
    os.close(screen)
    assert job.returncode == 0
    assert "loads for minutes" in written.decode()


def test_ctrl_c_says_what_is_kept_and_ends_with_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["pluralrm", "score", "a b", "--fresh", "-m", "lsa"])
    with pytest.raises(typer.Exit) as stopped, interruptible("scored items are kept", "a b × lsa"):
        raise KeyboardInterrupt
    assert stopped.value.exit_code == 130
    assert capsys.readouterr().err == (
        "stopped in a b × lsa; scored items are kept. The same command resumes:\n  pluralrm score 'a b' -m lsa\n"
    )


@pytest.mark.parametrize("given", [["--fresh", "lsa"], ["--fresh=lsa"]])
def test_the_command_to_type_again_does_not_start_over(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pluralrm", "study", "x.toml", *given, "-o", "out"])
    assert command(fresh_has_value=True) == "pluralrm study x.toml -o out"

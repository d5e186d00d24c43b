"""How far a job is, what it asked, and what Ctrl-C keeps."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from typing import Any

import pytest
import typer

from pluralrm.cli.progress import GridDisplay, ProgressDisplay, command, interruptible, note_asked
from pluralrm.http import Tally
from pluralrm.progress import JobStep, StepClock
from pluralrm.runs import Progress


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that a terminal shows, one after the other."""
    drawn: list[str] = []

    def draw(display: ProgressDisplay, *amount_and_text: Any) -> None:
        drawn.append(f"{display._title}: {amount_and_text[-1]}")

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(ProgressDisplay, "_draw", draw)
    return drawn


def _at(monkeypatch: pytest.MonkeyPatch, *moments: float) -> None:
    """Let these be the times of the clock, one after the other; the last stays."""
    times = list(moments)
    monkeypatch.setattr("time.monotonic", lambda: times.pop(0) if len(times) > 1 else times[0])


def test_a_file_or_a_pipe_hears_of_alarms_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with GridDisplay([JobStep("a job", "a model", 9)]) as display:
        display.waits("a study")
        display.begin("a job")
        display.update(Progress(3, 9, 1, 0))
        display.update(Progress(9, 9, 8, 0, warning="most answers fail"))
    assert capsys.readouterr().err == "ALARM in a job: most answers fail\n"


@pytest.mark.parametrize("asked", [Tally(answered=9, attempts=9, cost=0.01234), Tally(answered=3), None])
def test_the_meter_tells_failures_open_items_and_cost_where_it_is_known(
    asked: Tally | None, screen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _at(monkeypatch, 0, 60, 120)
    with ProgressDisplay("pocket-prb x judge") as meter:
        meter.update(Progress(0, 60, 0, 0))
        meter.update(Progress(11, 60, 2, 1, asked))
    assert meter.asked == asked
    cost = ", cost 0.0123" * bool(asked and asked.cost)
    assert screen[0] == "pocket-prb x judge: "  # at once
    assert screen[-1] == f"pocket-prb x judge: 11/60, 0.1/s, 8:00 left, 2 failed, 1 open{cost}"


def test_what_is_wrong_is_said_once_and_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay("pocket-prb x judge") as meter:
        for _ in range(3):
            meter.update(Progress(20, 60, 18, 0, warning="18 of 20 answers have no grade"))
    assert capsys.readouterr().err == "ALARM in pocket-prb x judge: 18 of 20 answers have no grade\n"


def test_one_line_tells_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [Tally(10, 4, 7, 600, 60, 1, 0.5), None, Tally(1_000, 0, 1_000, 100_000, 10_000, 0, 0.25)]
    note_asked(cells)
    note_asked([Tally(2, 2)])
    assert capsys.readouterr().err.splitlines() == [
        "asked: 1,010 replies, 4 kept from before; 1,007 sent, 100,600 + 10,060 tokens (1 not counted), cost 0.75",
        "asked: 2 replies, 2 kept from before; 0 sent, 0 + 0 tokens",
    ]


def test_where_nothing_was_asked_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for tallies in ([], [None], [Tally(cost=0.0)]):
        note_asked(tallies)
    assert capsys.readouterr() == ("", "")


def test_a_job_without_a_known_end_counts_in_its_unit(screen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _at(monkeypatch, 0, 60, 120)
    with ProgressDisplay("fit pref", "epochs") as display:
        display.show(1, None, "loss 0.6")
        display.show(7, None, "loss 0.5")
    assert screen[1:] == ["fit pref: 1 epochs, 0/s, loss 0.6", "fit pref: 7 epochs, 0.05/s, loss 0.5"]


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


def test_all_runs_of_a_grid_are_one_job(screen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    spent = Tally(answered=9, attempts=9, cost=0.5)
    steps = [JobStep(name, who, size) for name, who, size in (("a", "x", 60), ("b", "y", 90), ("c", "x", 60))]
    with GridDisplay(steps) as display:
        display.begin("a")
        now = 60
        display.update(Progress(40, 60, 0, 0))  # from an earlier process: no speed is known
        now = 120
        display.update(Progress(60, 60, 2, 0, spent))
        assert (display.asked, display.idle) == (spent, False)
        display.begin("c")  # b broke before it began
        assert (display.asked, display.idle) == (None, True)
        now = 180
        display.update(Progress(0, 60, 0, 0))
        now = 240
        display.update(Progress(20, 60, 0, 0), "grades")
        display.update(Progress(20, 60, 0, 0))
        assert display.tallies == [spent, None, None]
    assert screen == [
        "a: run 1/3",
        "a: run 1/3, 40/60",
        "a: run 1/3, over 15:00 left, 60/60, 2 failed, cost 0.5",  # 20 in 120 s; 150 are left, 90 of them of y
        "c: run 3/3, 6:00 left",
        "c: run 3/3, 6:00 left, 0/60",
        "c: run 3/3, 6:00 left, grades, 20/60",
        "c: run 3/3, 4:00 left, 20/60",  # 40 in 240 s
    ]


def test_the_replicas_of_a_cluster_stand_beside_its_runs(screen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with GridDisplay([JobStep("a", "x", 60)]) as display:
        display.workers = lambda: "7 replicas, 1 died"
        display.begin("a")
        now = 60
        display.update(Progress(40, 60, 0, 0))
    assert screen[-1] == "a: 40/60, 7 replicas, 1 died"


def test_a_model_with_a_known_speed_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = StepClock([JobStep("1", "fast", 10), JobStep("2", "slow", 10), JobStep("3", "fast", 10)], "step")
    clock.begin("1")
    clock.settle(0, 5)
    now = 1
    clock.settle(5, 5)  # items of two texts each
    assert str(clock) == "step 1/3, over 0:02 left"
    clock.begin("2")
    clock.settle(0, 10)
    now = 101
    clock.settle(5, 10)
    assert str(clock) == "step 2/3, 1:41 left"  # 5 texts in 100 s, then 10 in 1 s
    assert (clock.reached, clock.total) == (15, 30)


_WAITING = """
import sys, time
from pluralrm.cli.progress import GridDisplay, JobStep
with GridDisplay([JobStep("", "", 9)] * 2) as display:
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

"""Kills, torn files, full disks: nothing acknowledged is lost, nothing is scored twice."""

import fcntl
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest

from pluralrm.errors import RunError
from pluralrm.files import lock_file
from pluralrm.runs import find_runs, load_inputs, score
from tests.builders import Scripted, bakery
from tests.forked import Forked
from tests.runs.child import MODEL, STUCK_AT
from tests.runs.child import main as child_main

ROOT = Path(__file__).parents[2]


def _child(out: Path) -> Forked:
    return Forked(child_main, str(out))


def _complete(out: Path) -> int:
    """Return the exit status of a child that nobody kills."""
    return _child(out).wait()


def _rows(out: Path) -> bytes:
    [folder] = find_runs([out])
    file = folder / "rows.jsonl"
    return file.read_bytes() if file.exists() else b""


def _wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("whole")
    assert _complete(out) == 0
    return _rows(out)


@pytest.mark.parametrize("wanted", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_kills_lose_nothing_and_write_nothing_twice(tmp_path: Path, uninterrupted: bytes, wanted: int) -> None:
    rng = random.Random(30)
    kills, out, rounds = 0, tmp_path / "0", 0
    while kills < wanted:
        child = _child(out)
        _wait_for(lambda: child.poll() is not None or list(out.rglob("run.json")))  # noqa: B023 - used at once
        acknowledged = _rows(out)
        try:
            child.wait(timeout=rng.uniform(0, 0.6))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            kills += 1
            assert _rows(out).startswith(acknowledged)
            continue
        assert _rows(out) == uninterrupted
        rounds += 1
        out = tmp_path / str(rounds)
    assert _complete(out) == 0
    assert _rows(out) == uninterrupted
    items = [json.loads(line)["item"] for line in _rows(out).splitlines()]
    assert len(items) == len(set(items)) == 400


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("77", marks=pytest.mark.slow)])
def test_the_hash_seed_changes_no_byte(tmp_path: Path, uninterrupted: bytes, hash_seed: str) -> None:
    command = [sys.executable, "-m", "tests.runs.child", str(tmp_path)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    assert subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 0
    assert _rows(tmp_path) == uninterrupted


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, uninterrupted: bytes, workers: int) -> None:
    score(bakery(400), MODEL, "recent:2", out=tmp_path, workers=workers)
    assert _rows(tmp_path) == uninterrupted


def _stuck(out: Path, workers: int) -> Forked:
    """Return a child whose model is stuck on one item, in a process group of its own."""
    return Forked(child_main, str(out), "stuck", str(workers), session=True)


def _kept(out: Path) -> int:
    return _rows(out).count(b"\n") if list(out.rglob("run.json")) else 0


def _is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_row_reaches_the_disk_though_the_next_one_takes_an_hour(tmp_path: Path) -> None:
    child = _stuck(tmp_path, 1)
    _wait_for(lambda: _kept(tmp_path) == STUCK_AT)
    child.kill()
    child.wait()
    assert _kept(tmp_path) == STUCK_AT


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent_in_the_middle_of_an_item(tmp_path: Path, how: signal.Signals) -> None:
    child = _stuck(tmp_path, 2)
    _wait_for(lambda: _kept(tmp_path) == 32)  # two shares of 16; the third holds the item on which a worker is stuck
    if how == signal.SIGINT:
        os.killpg(child.pid, how)  # as a terminal does
    else:
        child.send_signal(how)
    child.wait(timeout=240)
    _wait_for(lambda: _is_gone(child.pid))
    assert _kept(tmp_path) == 32


def test_workers_that_are_only_starting_end_without_a_word_of_their_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.runs.child", str(tmp_path), "stuck", "2"]
    child = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    _wait_for(lambda: list(tmp_path.rglob("run.json")))
    time.sleep(0.5)
    os.killpg(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=240)
    assert "KeyboardInterrupt" in told  # of the child itself: it is no command line
    assert "SpawnProcess" not in told


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_torn_tail_is_dropped_and_nothing_else(tmp_path: Path, cut: int) -> None:
    bench = bakery(100)
    whole = score(bench, Scripted(), "recent:2", out=tmp_path)
    folder = Path(whole.path)
    for name in ("rows.jsonl", "inputs.jsonl.gz"):
        os.truncate(folder / name, (folder / name).stat().st_size - cut)
    again = Scripted()
    assert score(bench, again, "recent:2", out=tmp_path) == whole
    assert again.asked == ["i0099"]
    text = gzip.decompress((folder / "inputs.jsonl.gz").read_bytes()).decode()
    assert {json.loads(line)["item"] for line in text.splitlines()} >= {"i0099"}
    assert load_inputs(folder, "i0099")["item"] == "i0099"


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    bench = bakery(10)
    run = score(bench, Scripted(), out=tmp_path)
    file = Path(run.path) / "rows.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], b'{"item": 3}\n', *lines[5:]]))
    with pytest.raises(RunError, match=r"rows\.jsonl:5: item"):
        score(bench, Scripted(), out=tmp_path)


def test_a_full_disk_keeps_what_is_written_and_the_run_goes_on_later(tmp_path: Path, uninterrupted: bytes) -> None:
    # A limit on the size of a file, in blocks of 1,024 bytes: the disk is full before half of the rows are written.
    limited = f"ulimit -f 50; exec {sys.executable} -m tests.runs.child {tmp_path}"
    child = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode != 0
    assert "cannot write to" in child.stderr
    assert "the same command resumes there" in child.stderr
    kept = _rows(tmp_path)
    whole_lines = kept[: kept.rfind(b"\n") + 1]
    assert whole_lines
    assert uninterrupted.startswith(whole_lines)
    assert _complete(tmp_path) == 0
    assert _rows(tmp_path) == uninterrupted


def test_a_folder_that_cannot_be_written_is_one_clear_message(tmp_path: Path) -> None:
    (tmp_path / "bakery").write_text("a file where the folder should be")
    with pytest.raises(RunError, match=r"cannot write to .*bakery"):
        score(bakery(5), Scripted(), out=tmp_path)


def test_two_writers_do_not_share_a_run(tmp_path: Path) -> None:
    bench = bakery(5)
    run = score(bench, Scripted(), out=tmp_path)
    file = Path(run.path) / "rows.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))  # nothing is written to a complete one
    lock = os.open(Path(run.path) / ".lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process is writing"):
            score(bench, Scripted(), out=tmp_path)
    finally:
        os.close(lock)


def test_fresh_leaves_a_run_that_another_process_writes(tmp_path: Path) -> None:
    bench = bakery(5)
    run = score(bench, Scripted(), out=tmp_path)
    before = _rows(tmp_path)
    lock = os.open(Path(run.path) / ".lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process is writing"):
            score(bench, Scripted(), out=tmp_path, fresh=True)
    finally:
        os.close(lock)
    assert _rows(tmp_path) == before


def test_many_fresh_starts_at_once_end_with_one_row_per_item(tmp_path: Path) -> None:
    children = [Forked(child_main, str(tmp_path), "fresh") for _ in range(3)]
    ended = [child.wait(timeout=240) for child in children]
    assert ended.count(0) >= 1
    items = [json.loads(line)["item"] for line in _rows(tmp_path).splitlines()]
    assert len(items) == len(set(items)) == 400


def test_a_lock_on_a_file_that_was_removed_meanwhile_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, flock = tmp_path / ".lock", fcntl.flock

    def remove_first(lock: int, how: int) -> None:
        monkeypatch.setattr("fcntl.flock", flock)
        file.unlink()
        flock(lock, how)

    monkeypatch.setattr("fcntl.flock", remove_first)
    held = lock_file(file)
    with pytest.raises(BlockingIOError):
        lock_file(file)
    os.close(held)


def test_a_disk_that_fills_up_while_the_model_is_slow_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Event()

    def refuse(*_: object) -> None:
        refusing.set()
        raise RunError("cannot write: full")

    class Waiting(Scripted):
        def _answer(self, query):
            if query.id == "i0005":
                assert refusing.wait(240)
            return super()._answer(query)

    monkeypatch.setattr("pluralrm.journal.SYNC_SECONDS", 0.01)
    monkeypatch.setattr("pluralrm.journal.Journal.append", refuse)
    with pytest.raises(RunError, match="cannot write: full"):
        score(bakery(10), Waiting(), out=tmp_path)


def test_an_interrupt_keeps_what_was_scored(tmp_path: Path) -> None:
    class Interrupted(Scripted):
        def _answer(self, query):
            if query.id == "i0005":
                raise KeyboardInterrupt
            return super()._answer(query)

    bench = bakery(10)
    with pytest.raises(KeyboardInterrupt):
        score(bench, Interrupted(), out=tmp_path)
    again = Scripted()
    score(bench, again, out=tmp_path)
    assert again.asked == [f"i{n:04}" for n in range(5, 10)]

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

import pytest

from pluralrm.errors import RunError
from pluralrm.runs import find_runs, load_inputs, score
from tests.builders import Scripted, bakery
from tests.runs.child import MODEL

ROOT = Path(__file__).parents[2]


def _child(out: Path, *, hash_seed: str = "0") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.runs.child", str(out)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _complete(out: Path, **how: str) -> int:
    """Return the exit status of a child that nobody kills."""
    return _child(out, **how).wait()


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


def test_thirty_kills_lose_nothing_and_write_nothing_twice(tmp_path: Path, uninterrupted: bytes) -> None:
    rng = random.Random(30)
    kills, out, rounds = 0, tmp_path / "0", 0
    while kills < 30:
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


@pytest.mark.parametrize("hash_seed", ["1", "77"])
def test_the_hash_seed_changes_no_byte(tmp_path: Path, uninterrupted: bytes, hash_seed: str) -> None:
    assert _complete(tmp_path, hash_seed=hash_seed) == 0
    assert _rows(tmp_path) == uninterrupted


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, uninterrupted: bytes, workers: int) -> None:
    score(bakery(400), MODEL, "recent:2", out=tmp_path, workers=workers)
    assert _rows(tmp_path) == uninterrupted


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
    assert "goes on from there" in child.stderr
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
    lock = os.open(Path(run.path) / ".lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process is writing"):
            score(bench, Scripted(), out=tmp_path)
    finally:
        os.close(lock)


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

"""Folders that are made in one go, on a disk that fills up: one message, exit 2, and nothing that looks finished."""

import os
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.forked import Forked, command, start

COMMAND = (sys.executable, "-c", "from pluralrm.cli import main; main()")
FIT = ("fit", "bt", "--train", "simulated:users=30,items=1,posts=2,pairs=6,seed=1")
PLAN = ("annotate", "plan", "pocket-prb", "--annotators", "9")
TINY = ("train", "tiny", "--steps", "2")


def _left(folder: Path, mount: str = "") -> str:
    """Return the shell words that list what is left below a folder, locks aside."""
    return f"find {mount or folder} -type f ! -name .lock -printf '%f '"


def _limited(blocks: int, *work: Any) -> None:
    """Run a command whose files may each have so many blocks of 1,024 bytes, and no more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * blocks,) * 2)
    forked._run(*work)


@pytest.mark.parametrize(
    ("words", "blocks"),
    [(PLAN, 1), (FIT, 8), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((PLAN, 8), (FIT, 1)))],
)
def test_a_limit_on_files_is_one_message_and_leaves_nothing_whole(
    tmp_path: Path, words: tuple[str, ...], blocks: int
) -> None:
    out, streams = tmp_path / "made" / "out", [tmp_path / "stdout", tmp_path / "stderr"]
    out.parent.mkdir()
    code = Forked(_limited, blocks, [*words, "-o", str(out)], tmp_path, dict(os.environ), streams).wait(240)
    complaint = streams[1].read_text()
    assert code == 2, complaint
    assert "Traceback" not in complaint
    assert f"cannot write {out}" in complaint.replace("\n", " ")
    left = sorted(path.name for path in out.parent.rglob("*") if path.is_file() and path.name != ".lock")
    assert left == (["fit.json"] if words is FIT else [])


@pytest.mark.sandbox
@pytest.mark.parametrize("words", [PLAN, FIT, TINY], ids=["plan", "fit", "tiny"])
@pytest.mark.parametrize("size", [20_000, 150_000, 320_000, 500_000, 640_000])
def test_a_full_memory_disk_ends_nothing_by_a_signal(tmp_path: Path, words: tuple[str, ...], size: int) -> None:
    typed = shlex.join([*COMMAND, *words, "-o", str(tmp_path / "out")])
    inside = f"{typed} >&2; echo $?; {_left(tmp_path)}; grep -o '\"complete\"' {tmp_path}/out/fit.json"
    disk = ["bwrap", "--dev-bind", "/", "/", "--size", str(size), "--tmpfs", str(tmp_path)]
    done = subprocess.run([*disk, "bash", "-c", inside], capture_output=True, text=True, check=False)
    code, *left = done.stdout.split()
    assert int(code) in {0, 2}, done.stderr
    assert "Traceback" not in done.stderr
    if int(code) == 2:
        assert "cannot write" in done.stderr
        assert '"complete"' not in left
        assert words is FIT or left == []


@pytest.mark.hf
def test_a_kill_leaves_no_policy_that_looks_trained(tmp_path: Path) -> None:
    out, beside = tmp_path / "tiny", tmp_path / "tiny.new" / "model.safetensors"
    streams = [tmp_path / "stdout", tmp_path / "stderr"]
    child = start([*TINY[:-1], "100000", "-o", str(out)], tmp_path, os.environ, streams)
    while not beside.exists():
        assert child.poll() is None, streams[1].read_text()
        time.sleep(0.05)
    child.kill()
    child.wait()
    assert not out.exists()
    again = command([*TINY, "-o", str(out)], cwd=tmp_path, environment=os.environ)
    assert again.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stderr", "stdout", "tiny"]
    assert not (out / ".lock").exists()

"""A study that is killed at any moment and run again says the same, byte for byte."""

import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from pluralrm.study import study
from tests.forked import Forked
from tests.study.studies import WORLD, beside, counted, report, table, toml


def _declared(folder: Path) -> Path:
    """Write a study that takes about two seconds: models that are slow, and some that are not."""
    slow = [counted(Path(os.devnull), milliseconds=milliseconds) for milliseconds in ("6", "7")]
    models = [slow[0], "longest", "known:posts", slow[1], "bm25", "known:taste,blur=1"]
    small = table(benchmarks=[f"{WORLD},seed=5"], models=models, conditions=["none", "raw:3"])
    return toml(folder / "study.toml", small)


def _child(file: Path, out: Path) -> Forked:
    """Start a study, and return when it has begun: everything is imported."""
    begun = file.with_suffix(".begun")
    begun.unlink(missing_ok=True)
    child = Forked(beside, str(file), str(out), str(begun))
    while not begun.exists():
        assert child.poll() is None
        time.sleep(0.005)
    return child


def _ended(child: Forked, seconds: float | None = None) -> bool:
    """Return whether a child ends by itself within some seconds; it is killed where it does not."""
    try:
        assert child.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return False
    return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[bytes, bytes], float]:
    """Return a study, what it says when nobody kills it, and how long that takes."""
    folder = tmp_path_factory.mktemp("whole")
    file = _declared(folder)
    began = time.monotonic()
    study(str(file), out=str(folder / "out"))
    return file, report(folder / "out"), time.monotonic() - began


def _reached(out: Path) -> str:
    """Return what the last file is that there is of a study."""
    files = ("study.html", "study.json", "outcome.json", "grades.jsonl", "scores", "samples.jsonl", "rows.jsonl")
    return next((name for name in files if next(out.rglob(name), None)), "nothing")


def _check(out: Path, wanted: tuple[bytes, bytes]) -> None:
    assert report(out) == wanted
    for rows in out.rglob("rows.jsonl"):
        items = [json.loads(line)["item"] for line in rows.read_text().splitlines()]
        assert len(items) == len(set(items))


def test_killed_and_run_again_it_says_the_same(tmp_path: Path, whole: tuple[Path, tuple[bytes, bytes], float]) -> None:
    file, wanted, seconds = whole
    for share in (0.3,):
        _ended(_child(file, tmp_path), share * seconds)
    assert _ended(_child(file, tmp_path))
    _check(tmp_path, wanted)


@pytest.mark.slow
def test_twenty_four_kills_change_no_byte(tmp_path: Path, whole: tuple[Path, tuple[bytes, bytes], float]) -> None:
    """Folder after folder, each killed until it is whole."""
    file, wanted, seconds = whole
    rng, reached, folder = random.Random(24), Counter[str](), tmp_path / "0"
    while reached.total() < 24:
        if _ended(_child(file, folder), rng.uniform(0, 0.7) * seconds):
            _check(folder, wanted)
            folder = folder.with_name(str(int(folder.name) + 1))
        else:
            reached[_reached(folder)] += 1
    assert _ended(_child(file, folder))
    _check(folder, wanted)
    assert len(reached) >= 3, f"kills at too few places to show anything: {reached}"

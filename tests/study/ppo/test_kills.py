"""A study that trains, killed at any moment and run again, says the same, byte for byte."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.study.studies import report
from tests.study.test_kills import _child, _ended

pytestmark = [pytest.mark.hf, pytest.mark.slow, pytest.mark.timeout(3000)]

_STUDY = """
benchmarks = ["simulated:users=16,items=1,domains=1"]
models = ["longest", "shortest", "bm25"]
conditions = ["recent:2"]
[ppo]
policy = "tiny,steps=3"
steps = 3
seeds = [0, 1]
grader = "truth"
shaping = "z"
evaluate-on = "simulated:users=20,items=1,domains=1"
[ppo.settings]
batch = 4
minibatch = 4
max_tokens = 6
validation = 0.1
test = 0.2
checkpoint_every = 2
"""
_LAST = (
    "study.html",
    "on-*/outcome-3-1",
    "on-*",
    "outcome.json",
    "after-3-1",
    "before-1",
    "policy",
    "metrics.jsonl",
    "scales",
    "model.safetensors",
)


def _reached(out: Path) -> str:
    """Return the last of what there is of a study."""
    return next((name for name in _LAST if next(out.rglob(name), None)), "nothing")


def test_twelve_kills_change_no_byte(tmp_path: Path) -> None:
    """Folder after folder, each killed until it is whole."""
    file = tmp_path / "study.toml"
    file.write_text(_STUDY)
    child, began = _child(file, tmp_path / "whole"), time.monotonic()
    assert _ended(child)
    wanted, seconds = report(tmp_path / "whole"), time.monotonic() - began
    rng, reached, folder = random.Random(12), Counter[str](), tmp_path / "0"
    while reached.total() < 12:
        if _ended(_child(file, folder), rng.uniform(0.1, 0.7) * seconds):
            assert report(folder) == wanted
            folder = folder.with_name(str(int(folder.name) + 1))
        else:
            reached[_reached(folder)] += 1
    assert _ended(_child(file, folder))
    assert report(folder) == wanted
    assert len(reached) >= 3, f"kills at too few places to show anything: {reached}"

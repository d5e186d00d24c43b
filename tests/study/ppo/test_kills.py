"""A study that trains, killed at any moment and run again, says the same, byte for byte."""

import random
import time
from pathlib import Path

import pytest

from tests.forked import Forked
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
_STEPS = (
    "model.safetensors",
    "scales",
    "metrics.jsonl",
    "policy",
    "before-1",
    "after-3-1",
    "outcome.json",
    "on-*",
    "on-*/outcome-3-1",
    "study.html",
)
"""What a study writes, in about this order."""


def _killed(child: Forked, out: Path, name: str, seconds: float) -> bool:
    """Kill a child some seconds after a file is there, however busy the machine is; return whether it had not ended."""
    while child.poll() is None and next(out.rglob(name), None) is None:
        time.sleep(0.01)
    return not _ended(child, seconds)


def test_kills_at_every_step_change_no_byte(tmp_path: Path) -> None:
    """One folder, killed when each step has begun."""
    file = tmp_path / "study.toml"
    file.write_text(_STUDY)
    child, began = _child(file, tmp_path / "whole"), time.monotonic()
    assert _ended(child)
    wanted, seconds = report(tmp_path / "whole"), time.monotonic() - began
    rng, out = random.Random(12), tmp_path / "out"
    killed = [name for name in _STEPS if _killed(_child(file, out), out, name, rng.uniform(0, 0.03) * seconds)]
    print(killed, seconds)  # noqa: T201
    assert _ended(_child(file, out))
    assert report(out) == wanted
    assert len(killed) >= 5, f"kills at too few places to show anything: {killed}"

"""A training that was killed and goes on is the one that was not: weights, moments, coefficient, every line."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from pluralrm.core import Query, Verdict
from pluralrm.errors import ModelError, OutageError, RunError
from tests.training.ppo.trained import Letters, job, left

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = pytest.mark.hf

STEPS = 5
KILL = """
import os, sys, torch
from pathlib import Path
from pluralrm.policies.policy import load_policy
from pluralrm.training import ppo
from tests.training.ppo.trained import job
torch.set_num_threads(1)
calls, die = [0], int(sys.argv[3])
plain = ppo._move
def move(*parts):
    calls[0] += 1
    if calls[0] == die:
        os.kill(os.getpid(), 9)
    return plain(*parts)
ppo._move = move
ppo.train(job(load_policy(f"lm:{sys.argv[1]}"), lora=int(sys.argv[4])), sys.argv[2], steps=int(sys.argv[5]))
"""
"""Dies in the middle of a step, after some minibatches have moved the weights."""


@pytest.fixture(scope="module", params=[0, 2], ids=["whole weights", "adapters"])
def uninterrupted(request: pytest.FixtureRequest, taught: "LocalPolicy", tmp_path_factory: pytest.TempPathFactory):
    from pluralrm.training.ppo import train

    folder = tmp_path_factory.mktemp("whole")
    train(job(taught, lora=request.param), folder, steps=STEPS)
    return request.param, folder


def test_a_kill_anywhere_changes_no_bit(uninterrupted, taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    lora, whole = uninterrupted
    minibatches = 2 * 2 * STEPS  # six answers in minibatches of four, twice
    die = Random(f"kill {lora}").randrange(2, minibatches + 1)
    words = [str(taught.folder.path), str(tmp_path), str(die), str(lora), str(STEPS)]
    ended = subprocess.run([sys.executable, "-c", KILL, *words], capture_output=True, check=False)
    assert ended.returncode == -9, ended.stderr.decode()[-800:]
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "incomplete"
    train(job(taught, lora=lora), tmp_path, steps=STEPS)
    assert left(tmp_path) == left(whole)
    moved = [json.loads(line)["actor_norm"] for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert len(moved) == STEPS
    assert min(moved) > 0
    assert {"checkpoint/moments.safetensors", "policy/model.safetensors", "metrics.jsonl", "held-out.jsonl"} <= left(
        whole
    ).keys()


def test_fewer_steps_and_then_more_are_all_of_them(uninterrupted, taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    lora, whole = uninterrupted
    train(job(taught, lora=lora), tmp_path, steps=2)
    train(job(taught, lora=lora), tmp_path, steps=STEPS)
    assert left(tmp_path) == left(whole)
    before = left(tmp_path)
    train(job(taught, lora=lora), tmp_path, steps=STEPS)
    assert left(tmp_path) == before


class Outage(Letters):
    """A reward model that breaks at one call, in the way that it is told."""

    def __init__(self, call: int, problem: Exception) -> None:
        self.calls, self._call, self._problem = 0, call, problem

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        self.calls += 1
        if self.calls == self._call:
            raise self._problem
        yield from super().score(queries)


def test_an_outage_stops_with_a_checkpoint_of_the_last_whole_step(
    uninterrupted, taught: "LocalPolicy", tmp_path: Path
) -> None:
    from pluralrm.training.ppo import train

    lora, whole = uninterrupted
    down = Outage(6, OutageError("nobody answers"))  # evaluation, step 0, step 1, evaluation, step 2, step 3
    with pytest.raises(OutageError, match="nobody answers"):
        train(job(taught, reward=down, lora=lora), tmp_path, steps=STEPS)
    assert json.loads((tmp_path / "run.json").read_text())["steps"] == 3
    assert json.loads((tmp_path / "checkpoint" / "state.json").read_text())["step"] == 3
    assert len((tmp_path / "metrics.jsonl").read_bytes().splitlines()) == 3
    train(job(taught, lora=lora), tmp_path, steps=STEPS)
    assert left(tmp_path) == left(whole)


def test_an_outage_in_the_last_evaluation_costs_no_step(uninterrupted, taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    lora, whole = uninterrupted
    down = Outage(9, OutageError("nobody answers"))  # five steps, evaluations before the first, third and fifth
    with pytest.raises(OutageError, match="nobody answers"):
        train(job(taught, reward=down, lora=lora), tmp_path, steps=STEPS)
    assert json.loads((tmp_path / "checkpoint" / "state.json").read_text())["step"] == STEPS
    train(job(taught, lora=lora), tmp_path, steps=STEPS)
    assert left(tmp_path) == left(whole)


def test_lines_of_steps_whose_weights_a_kill_took_are_not_told(taught: "LocalPolicy", tmp_path: Path) -> None:
    """Killed after four steps, three of them since the checkpoint; then two are wanted."""
    from pluralrm.training.ppo import train

    whole = train(job(taught), tmp_path / "whole", steps=4)
    train(job(taught), tmp_path / "cut", steps=1)
    for name in ("metrics.jsonl", "held-out.jsonl"):
        (tmp_path / "cut" / name).write_bytes((whole.folder / name).read_bytes())
    found = train(job(taught), tmp_path / "cut", steps=2)
    assert list(found.steps) == [0, 1]
    assert max(found.evaluations) == 2
    with pytest.raises(RunError, match="of 4 steps, wanted 2"):
        train(job(taught), tmp_path / "whole", steps=2)


def test_another_training_is_refused_by_name(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    train(job(taught), tmp_path, steps=1)
    with pytest.raises(RunError, match="another settings"):
        train(job(taught, clip=0.1), tmp_path, steps=1)


def test_a_loss_that_is_no_number_stops_before_it_moves_a_weight(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    class Huge(Letters):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            yield from (Verdict(tuple(1e36 * len(text) for text in query.candidates)) for query in queries)

    with pytest.raises(ModelError, match="went astray"):
        train(job(taught, reward=Huge(), whiten=False, kl_in="none", kl_target=0.0), tmp_path, steps=2)

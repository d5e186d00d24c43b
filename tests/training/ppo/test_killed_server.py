"""A reward server that is killed while a policy is trained: no number is made up, and only the same run goes on."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.errors import OutageError, ServiceError
from pluralrm.models import load_model
from pluralrm.serve.client import RewardClient
from pluralrm.training.rewards import LocalRewarder, served
from pluralrm.training.settings import OnFailure
from tests.serve.running import Child
from tests.training.ppo.trained import job, left

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = pytest.mark.hf

SERVE = ("longest", "-b", "pocket-prb", "-c", "none")
STEPS = 4


@pytest.mark.parametrize("how", ["raise", "mask"])
def test_training_stops_when_its_server_is_killed_and_goes_on_with_one_of_the_same_run_alone(
    taught: "LocalPolicy", tmp_path: Path, how: OnFailure
) -> None:
    from pluralrm.training.ppo import Progress, train

    bench, shown = load_benchmark("pocket-prb"), load_condition("none")
    here = replace(
        job(taught, benchmark=bench, on_failure=how, validation=0.0), condition=shown, reward_condition="none"
    )
    here = replace(here, rewarder=LocalRewarder(load_model("longest"), shown, bench))
    server = Child(*SERVE, "--run", "r1", cwd=tmp_path)

    def asking(run: str) -> RewardClient:
        return RewardClient(server.url, run=run, seconds=10.0)

    def kill(told: Progress) -> None:
        if told.step is not None and told.step.step == 1:
            server.kill()

    there = replace(here, rewarder=served(asking("r1"), bench, "none", how))
    with pytest.raises(OutageError):
        train(there, tmp_path / "there", steps=STEPS, progress=kill)
    assert len((tmp_path / "there" / "metrics.jsonl").read_bytes().splitlines()) == 2
    server = Child(*SERVE, "--run", "r2", cwd=tmp_path)
    with pytest.raises(ServiceError, match="of run 'r2', wanted 'r1'"):
        served(asking("r1"), bench, "none", how)
    server.kill()
    server = Child(*SERVE, "--run", "r1", cwd=tmp_path)
    train(replace(there, rewarder=served(asking("r1"), bench, "none", how)), tmp_path / "there", steps=STEPS)
    server.kill()
    train(here, tmp_path / "here", steps=STEPS)
    assert left(tmp_path / "there") == left(tmp_path / "here")

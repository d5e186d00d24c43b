"""What cannot be done is told before a weight is read; what is trained is kept as it was trained."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pluralrm.errors import RunError, SpecError
from pluralrm.policies.policy import load_policy, parse_policy

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = pytest.mark.hf
Way = Literal["ppo", "grpo"]


def training(way: Way, policy: "LocalPolicy", out: Path, *, steps: int = 1, **changes: Any) -> Path:
    """Train a step, or more, and return the folder."""
    if way == "ppo":
        from pluralrm.training.ppo import train
        from tests.training.ppo.trained import job

        return train(job(policy, **changes), out, steps=steps).folder
    from pluralrm.training.grpo import train as train_by_grpo
    from tests.training.grpo.trained import job as grpo_job

    return train_by_grpo(grpo_job(policy, **changes), out, steps=steps).folder


@pytest.mark.parametrize("way", ["ppo", "grpo"])
def test_another_command_is_refused_before_weights_are_read(way: Way, taught: "LocalPolicy", tmp_path: Path) -> None:
    """The weights cannot be read any more: whoever tried would say so, and not that the training is another."""
    shutil.copytree(taught.folder.path, tmp_path / "policy")
    policy = load_policy(f"lm:{tmp_path / 'policy'}")
    out = training(way, policy, tmp_path / "out")  # type: ignore[arg-type] # a local one
    (tmp_path / "policy" / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(
        RunError, match=r"holds a training with another settings \(clip: '0\.1', was '0\.2'\)\. Name"
    ):  # before they are hashed
        training(way, policy, out, clip=0.1)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="holds a training with another identity"):
        training(way, policy, out)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="steps is 0"):
        training(way, policy, tmp_path / "new", steps=0)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("way", ["ppo", "grpo"])
def test_prompts_without_room_for_the_longest_answer_are_left_out_and_counted(
    way: Way, taught: "LocalPolicy", tmp_path: Path
) -> None:
    from pluralrm.core import Failure
    from tests.training.ppo.trained import job

    asked = job(taught)
    shown = list(asked.condition.queries(asked.benchmark, asked.benchmark.items))

    def lost(tokens: int) -> int:
        read = taught.leaving_room(tokens)
        return sum(isinstance(read.assemble(one, taught.conversations).sequences[0], Failure) for one in shown)

    limit = taught.prompts.limit or 0
    room = next(tokens for tokens in range(limit - 40, limit) if lost(tokens))  # posts are dropped before a prompt is
    assert lost(room) < len(shown)
    out = training(way, taught, tmp_path, max_tokens=room, validation=0.0, test=0.0)
    assert json.loads((out / "run.json").read_text())["parts"]["left_out"] == {"train too_long": lost(room)}


def test_one_algorithms_folder_is_refused_by_the_other_by_name(taught: "LocalPolicy", tmp_path: Path) -> None:
    ways: list[tuple[Way, Way]] = [("ppo", "grpo"), ("grpo", "ppo")]
    for first, second in ways:
        training(first, taught, tmp_path / first)
        with pytest.raises(RunError, match="holds a training with another kind"):
            training(second, taught, tmp_path / first)


@pytest.mark.parametrize("way", ["ppo", "grpo"])
def test_what_is_done_is_not_done_again_and_fewer_steps_are_refused(
    way: Way, taught: "LocalPolicy", tmp_path: Path
) -> None:
    out = training(way, taught, tmp_path, steps=2)
    written = out / "policy" / "model.safetensors"
    before = written.stat().st_mtime_ns
    shutil.rmtree(out / ("checkpoint" if way == "ppo" else "checkpoints"))
    training(way, taught, tmp_path, steps=2)
    assert written.stat().st_mtime_ns == before
    with pytest.raises(RunError, match="of 2 steps, wanted 1"):
        training(way, taught, tmp_path, steps=1)


@pytest.mark.parametrize("way", ["ppo", "grpo"])
def test_a_policy_that_is_stored_in_half_precision_is_opened_as_it_was_trained(
    way: Way, taught: "LocalPolicy", tmp_path: Path
) -> None:
    """Where there is a GPU, weights are opened as the config says: bfloat16 would round most of a training away."""
    import torch
    import transformers

    half = transformers.AutoModelForCausalLM.from_pretrained(taught.folder.path, dtype=torch.bfloat16)
    shutil.copytree(taught.folder.path, tmp_path / "half")
    half.save_pretrained(tmp_path / "half")
    policy = load_policy(f"lm:{tmp_path / 'half'}")
    out = training(way, policy, tmp_path / "out")  # type: ignore[arg-type]
    dtypes = [
        transformers.AutoModelForCausalLM.from_pretrained(path, dtype="auto").dtype
        for path in (tmp_path / "half", out / "policy")
    ]
    assert dtypes == [torch.bfloat16, torch.float32]
    configs = [json.loads((path / "config.json").read_text()) for path in (tmp_path / "half", out / "policy")]
    assert configs[1] == {**configs[0], "dtype": "float32"}


def test_the_test_users_are_asked_in_the_precision_of_the_weights_in_training() -> None:
    """Where there is a GPU, a policy that is stored in bfloat16 would be asked so before, and in float32 after."""
    from pluralrm.training.outcome import held_in_training

    assert held_in_training(parse_policy("lm:somewhere")).dtype == "float32"
    assert held_in_training(parse_policy("lm:somewhere,dtype=bfloat16")).dtype == "bfloat16"

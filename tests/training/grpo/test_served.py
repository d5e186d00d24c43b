"""Rewards from a real server, for our training and for anybody's with TRL; and that nobody else is told."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.conditions import load_condition
from pluralrm.errors import OutageError, ServiceError
from pluralrm.models import load_model
from pluralrm.serve.client import RewardClient
from pluralrm.serve.server import RewardServer, open_server
from tests.serve.running import running
from tests.training.grpo.trained import Asked, benchmark, job, left
from tests.training.ppo.tones import CONDITION

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = pytest.mark.hf


def server(run: str = "r1") -> RewardServer:
    return open_server(Asked(), load_condition(CONDITION), benchmark(), relative=False, run=run)


def test_a_served_reward_trains_as_the_model_itself_does(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.grpo import train
    from pluralrm.training.rewards import served

    here = train(job(taught), tmp_path / "here", steps=2)
    with running(server()) as url:
        rewarder = served(RewardClient(url, run="r1"), benchmark(), CONDITION, "raise")
        there = train(job(taught, rewarder=rewarder), tmp_path / "there", steps=2)
    assert left(here.folder) == left(there.folder)


def test_a_server_of_another_run_or_condition_rewards_nothing() -> None:
    from pluralrm.training.rewards import served

    with running(server("yesterday")) as url, pytest.raises(ServiceError, match="'yesterday', wanted 'r1'"):
        served(RewardClient(url, run="r1"), benchmark(), CONDITION, "raise")
    with running(server()) as url, pytest.raises(ServiceError, match="condition is 'recent:1', wanted 'none'"):
        served(RewardClient(url, run="r1"), benchmark(), "none", "raise")


@pytest.mark.parametrize("policy", ["raise", "mask"])
def test_a_server_that_dies_in_training_stops_it_and_invents_nothing(
    taught: "LocalPolicy", tmp_path: Path, policy: str
) -> None:
    from pluralrm.training.grpo import train
    from pluralrm.training.rewards import served

    first = server()
    with running(first) as url:
        client = RewardClient(url, run="r1", seconds=240)
        rewarder = served(client, benchmark(), CONDITION, policy)  # type: ignore[arg-type] # of the parameters
        train(job(taught, rewarder=rewarder, on_failure=policy, validation=0.0), tmp_path / "out", steps=1)
        client.close()
    client._seconds = 1.0
    with pytest.raises(OutageError):
        train(job(taught, rewarder=rewarder, on_failure=policy, validation=0.0), tmp_path / "out", steps=2)
    assert len((tmp_path / "out" / "metrics.jsonl").read_text().splitlines()) == 1


def test_the_reward_function_for_trl_rewards_a_training_of_trls_own(taught: "LocalPolicy", tmp_path: Path) -> None:
    """As the page on serving shows it: a data set with the items' ids, TRL's own sampling."""
    from pluralrm.serve.trainers import trl_reward_func
    from pluralrm.training.grpo import without_telemetry

    items = benchmark().items[:4]
    model = load_model("longest")
    opened = open_server(model, load_condition(CONDITION), benchmark(), relative=False, run="r1")
    with running(opened) as url, without_telemetry():
        client = RewardClient(url, run="r1", policy="mask")
        trainer = _trainer(taught.folder.path, tmp_path, items, trl_reward_func(client))
        trainer.train()
    answers = list(trainer._logs["completion"])
    [rewards] = trainer._logs["rewards"].values()
    assert len(answers) == 8
    assert list(rewards) == [float(len(text)) for text in answers]
    assert client.told.rewards == 8


def _trainer(folder: Path, out: Path, items, reward):
    import datasets
    import torch
    import transformers
    import trl

    config = trl.GRPOConfig(
        output_dir=str(out),
        max_steps=1,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = datasets.Dataset.from_dict({"prompt": [one.prompt for one in items], "item": [one.id for one in items]})
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    trainer = trl.GRPOTrainer(
        model=model, reward_funcs=[reward], args=config, train_dataset=rows, processing_class=tokenizer
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def test_nobody_is_told_of_a_training(
    taught: "LocalPolicy", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """TRL reports to its authors where nothing says otherwise, and its logs quote prompts."""
    from huggingface_hub import constants
    from huggingface_hub.utils import _telemetry

    from pluralrm.core import Failure
    from pluralrm.training.grpo import train

    sent: list[object] = []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    monkeypatch.setattr(_telemetry, "_TELEMETRY_THREAD", _Alive())
    monkeypatch.setattr(_telemetry._TELEMETRY_QUEUE, "put", sent.append)
    monkeypatch.delenv("CI", raising=False)
    failing = Asked(lambda _, place: Failure("too_long", "much") if place % 3 == 0 else 0.5)
    train(job(taught, failing, on_failure="mask", validation=0.0), tmp_path / "out", steps=1)
    assert sent == []
    assert capfd.readouterr() == ("", "")
    _telemetry.send_telemetry("a-topic")  # the control: here it would have been seen
    assert len(sent) == 1


class _Alive:
    def is_alive(self) -> bool:
        return True

"""What is exported is what the real verl takes: its settings, its rows, its reward loop against a running server."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.downstream.verl import Export, export
from pluralrm.downstream.verl.settings import VerlSettings
from pluralrm.models import load_model
from pluralrm.serve.started import open_server
from pluralrm.templates import render
from tests.serve.running import running

pytestmark = pytest.mark.verl

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".verl" / "bin" / "python"
BENCH = load_benchmark("pocket-prb")
SHOWN = load_condition("raw:3")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.models.neural.tiny import language_folder
    from tests.models.neural.tokenizers import Build

    return language_folder(tmp_path_factory.mktemp("policy's own"), "qwen2", Build())


@pytest.fixture(scope="module")
def exported(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training") / "exported"
    what = Export(BENCH, "pocket-prb", str(policy), "longest", SHOWN, SHOWN)
    export(what, folder, VerlSettings(batch=32, kl_coefficient=0.01))
    return folder


def inside(*words: object, **environment: str) -> Any:
    """Return what verl's environment says."""
    command = [str(PYTHON), str(Path(__file__).with_name("inside.py")), *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1", **environment}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_the_settings_are_of_verls_own_schema(exported: Path, policy: Path) -> None:
    told = inside("settings", exported)
    assert set(told["dataclasses"].values()) >= {"FSDPActorConfig", "FSDPCriticConfig", "AlgoConfig"}
    assert told["path"] == str(policy)
    assert (told["batch"], told["actor_rate"], told["kl"]) == (32, 5e-7, [True, 0.01])
    assert told["truncation"] == "error"
    assert told["reward"] == ["pkg://pluralrm.serve.verl", "compute_score"]
    assert "longest" in told["directory"]
    assert "raw_3" in told["directory"]


def test_verls_data_set_has_the_prompts_that_sample_would_show(exported: Path, policy: Path) -> None:
    rows = inside("rows", exported, policy)
    record = json.loads((exported / "export.json").read_text())
    assert [row["item"] for row in rows] == record["items"]["train"]
    assert all(row["truth"] == row["item"] and row["source"] == "pocket-prb" for row in rows)
    by_id = {item.id: item for item in BENCH.items}
    queries = SHOWN.queries(BENCH, [by_id[row["item"]] for row in rows])
    assert [row["prompt"] for row in rows] == [render(query) for query in queries]


def test_verls_reward_loop_gets_the_scores_of_the_model(exported: Path, policy: Path) -> None:
    item = BENCH.items[4]
    with running(open_server(load_model("longest"), SHOWN, BENCH, relative=False, run="r7")) as url:
        told = inside(
            "reward",
            exported,
            policy,
            item.id,
            "the",
            "the the",
            "a b c",
            PLURALRM_REWARD_URL=url,
            PLURALRM_REWARD_RUN="r7",
        )
    assert told["rewards"] == [float(len(text)) for text in told["texts"]]


def test_verls_reward_loop_stops_at_a_server_of_another_run(exported: Path, policy: Path) -> None:
    server = open_server(load_model("longest"), SHOWN, BENCH, relative=False, run="r7")
    words = ("reward", exported, policy, "art-01", "the")
    with running(server) as url, pytest.raises(AssertionError, match="left over"):
        inside(*words, PLURALRM_REWARD_URL=url, PLURALRM_REWARD_RUN="the-next-run")

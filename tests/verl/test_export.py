"""What is exported is what the real verl takes: its settings, its rows, its reward loop against a running server."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.models import load_model
from pluralrm.serve.server import open_server
from pluralrm.templates import render
from pluralrm.training.verl import Export, VerlSettings, export
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
    assert told["watched"] == [True, 1.0, 1.0]  # as `sample` draws, not greedily
    assert told["reward"] == ["pkg://pluralrm.serve.trainers", "compute_score"]
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


def test_a_reward_that_failed_stops_verls_trainer(exported: Path, policy: Path) -> None:
    """Left to itself it would go on with the answers that have one, and say so in its log alone."""
    with running(open_server(load_model("longest"), SHOWN, BENCH, relative=False, run="r7")) as url:
        server = {"PLURALRM_REWARD_URL": url, "PLURALRM_REWARD_RUN": "r7"}
        told = inside("step", exported, policy, "art-01", "nobody", "art-02", **server)
    assert told["theirs"] == ["u0_0_0", "u2_0_0"]
    assert told["ours"].startswith("ServiceError: step 1 (train): 1 of 3 prompts have an answer that failed")


def test_a_step_with_every_reward_is_verls_own(exported: Path, policy: Path) -> None:
    with running(open_server(load_model("longest"), SHOWN, BENCH, relative=False, run="r7")) as url:
        told = inside("step", exported, policy, "art-01", "art-02", PLURALRM_REWARD_URL=url, PLURALRM_REWARD_RUN="r7")
    assert told["ours"] == told["theirs"] == ["u0_0_0", "u1_0_0"]


def test_a_prompt_that_is_too_long_is_refused_and_not_cut(policy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    what = Export(BENCH, "pocket-prb", str(policy), "longest", SHOWN, SHOWN)
    export(what, folder, VerlSettings(batch=32, prompt_tokens=100))
    with pytest.raises(AssertionError, match=r"42 of 42 prompts have more than 100 tokens"):
        inside("rows", folder, policy)


def test_a_path_is_a_path_to_hydra(tmp_path: Path) -> None:
    names = ["it's", "${HOME}", "a\\b", "a\\", "a\\${b}'", "x,y=[z]", "$(touch gone)", "null", "1e5", "\\\\'"]
    folders = [tmp_path / str(place) for place in range(len(names))]
    for name, folder in zip(names, folders, strict=True):
        export(Export(BENCH, "pocket-prb", name, "longest", SHOWN, SHOWN), folder, VerlSettings(batch=32))
    assert inside("paths", *folders) == names


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Ray cluster that was started before, in another folder and with the server of another training."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = tmp_path / "elsewhere"
    place.mkdir()
    words = ["start", "--head", "--block", "--num-cpus", "4", "--include-dashboard", "false", "--port", str(port)]
    old = {f"PLURALRM_REWARD_{name}": "of another training" for name in ("URL", "RUN", "IDENTITY")}
    # Ray notes the last cluster that was started for whoever comes next: in a folder of its own, short for its sockets.
    noted = TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": noted.name, **old}
    with (tmp_path / "ray.log").open("w") as log:
        command = [str(PYTHON), "-m", "ray.scripts.scripts", *words]
        process = subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log)
    while "Ray runtime started" not in (tmp_path / "ray.log").read_text():
        assert process.poll() is None, (tmp_path / "ray.log").read_text()
        time.sleep(0.2)
    yield {"RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": f"127.0.0.1:{port}"}
    process.terminate()
    process.wait(240)
    noted.cleanup()


def test_workers_are_told_the_server_wherever_they_were_started(exported: Path, cluster: dict[str, str]) -> None:
    """As the script tells them; without its words they have what the cluster was started with."""
    worker = "+ray_kwargs.ray_init.runtime_env.env_vars.PLURALRM_REWARD"
    words = (f"{worker}_URL='http://127.0.0.1:1'", f"{worker}_RUN='r7'", f"{worker}_IDENTITY='1e5'")
    told = inside("workers", exported, *words, **cluster)
    assert told == {
        "PLURALRM_REWARD_URL": "http://127.0.0.1:1",
        "PLURALRM_REWARD_RUN": "r7",
        "PLURALRM_REWARD_IDENTITY": "1e5",
    }
    assert set(inside("workers", exported, **cluster).values()) == {"of another training"}

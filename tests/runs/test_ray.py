"""Real Ray clusters of small nodes on loopback: the rows of one process, whatever is killed meanwhile."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pluralrm
from pluralrm.cluster import Cluster
from pluralrm.errors import ModelError, RunError, SpecError
from pluralrm.power import ItemsQuestion, PowerSettings, plan_declared
from pluralrm.runs import Progress, load_manifest, load_runs, score
from tests import fake_engine
from tests.builders import bakery
from tests.fake_chat import FakeChat
from tests.runs.ray_child import CONDITIONS, MODELS
from tests.study.studies import toml

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]
SECRET = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def ray_settings() -> Iterator[None]:
    """Set the environment of Ray before it is imported: loopback, a token, no usage reports, a folder of its own."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/tmp", prefix="prm") as folder:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", SECRET)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "3")
        yield


class Nodes:
    """A head and two more nodes, each with one CPU; any but the head may be killed and replaced."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as LocalNodes

        self._size = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
        self._nodes = LocalNodes(initialize_head=True, head_node_args=self._size)
        self._others = [self._nodes.add_node(**self._size) for _ in range(2)]
        self._nodes.wait_for_nodes()

    @property
    def address(self) -> str:
        return str(self._nodes.address)

    def kill_one(self) -> None:
        self._nodes.remove_node(self._others.pop(0), allow_graceful=False)
        self._others.append(self._nodes.add_node(**self._size))

    def close(self) -> None:
        self._nodes.shutdown()


@pytest.fixture(scope="module")
def nodes(ray_settings: None) -> Iterator[Nodes]:  # noqa: ARG001
    found = Nodes()
    yield found
    found.close()


def rows_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each run, by its folder."""
    files = folder.rglob("rows.jsonl")
    return {
        str(file.relative_to(folder)): [json.loads(line) for line in file.read_text().splitlines()] for file in files
    }


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("rows.jsonl")}


def numbers_of(folder: Path) -> object:
    return pluralrm.compare(folder).to_dict()


def child(*words: str, **more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.runs.ray_child", *words]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | more, start_new_session=True)


def test_three_nodes_score_what_one_process_does(nodes: Nodes, tmp_path: Path) -> None:
    """Two neural models and three baselines under three conditions."""
    from tests.models.neural.tiny import reward_folder

    neural = [f"hf:{reward_folder(tmp_path / str(seed), seed=seed)}" for seed in (1, 2)]
    models, conditions = [*neural, "longest", "bm25", "random"], ["none", "recent:2", "swapped:2"]
    for folder, on in (("on", f"ray:{nodes.address},replicas=1-2"), ("alone", "")):  # each loads torch
        pluralrm.score(bakery(70), models, conditions, out=tmp_path / folder, on=on, progress=False)
    found, alone = rows_of(tmp_path / "on"), rows_of(tmp_path / "alone")
    assert len(found) == 15
    assert found.keys() == alone.keys()
    exact = {name for name in found if "/hf-" not in name}
    assert len(exact) == 9
    assert {name: bytes_of(tmp_path / "on")[name] for name in exact} == {
        name: bytes_of(tmp_path / "alone")[name] for name in exact
    }
    for name in found.keys() - exact:
        for row, other in zip(found[name], alone[name], strict=True):
            assert row["scores"] == pytest.approx(other["scores"], abs=1e-4)
            assert {**row, "scores": 0, "check": 0} == {**other, "scores": 0, "check": 0}
    facts = [
        {Path(run.path).name: load_manifest(run.path).facts() for run in load_runs([tmp_path / one])}
        for one in ("on", "alone")
    ]
    assert facts[0] == facts[1]


def test_kills_of_replicas_nodes_and_the_driver_lose_nothing_and_write_nothing_twice(
    nodes: Nodes, tmp_path: Path
) -> None:
    coin, kills, rounds = random.Random(7), {"replica": 0, "node": 0, "driver": 0}, 0
    pluralrm.score(bakery(400), MODELS, CONDITIONS, out=tmp_path / "alone", progress=False)
    alone = bytes_of(tmp_path / "alone")
    wanted, whole = int(os.environ.get("PLURALRM_RAY_KILLS", "20")), False
    while sum(kills.values()) < wanted or not whole:
        out = tmp_path / str(rounds)
        driver = child("score", str(out), f"ray:{nodes.address}")
        while driver.poll() is None:
            time.sleep(coin.uniform(0.3, 1.5))
            kind = coin.choices(["replica", "node", "driver"], [6, 2, 2])[0]
            if sum(kills.values()) < wanted and list(out.rglob("run.json")) and kill(kind, nodes, driver, coin):
                kills[kind] += 1
        whole = driver.returncode == 0
        if whole:
            assert bytes_of(out) == alone, out
            assert numbers_of(out) == numbers_of(tmp_path / "alone")
            rounds += 1
        else:
            assert driver.returncode == -signal.SIGKILL
            for name, kept in bytes_of(out).items():
                assert alone[name].startswith(kept[: kept.rfind(b"\n") + 1])
    assert sum(kills.values()) >= wanted
    sys.stderr.write(f"{kills}, {rounds} rounds\n")


def kill(kind: str, nodes: Nodes, driver: subprocess.Popen[bytes], coin: random.Random) -> bool:
    """Kill one of a kind; return whether one was there."""
    if kind == "driver":
        driver.kill()
        driver.wait()
        return True
    if kind == "node":
        nodes.kill_one()
        return True
    replicas = replica_processes()
    if replicas:
        os.kill(coin.choice(replicas), signal.SIGKILL)
    return bool(replicas)


def replica_processes() -> list[int]:
    """Return the processes of our actors on this machine, by the title that Ray gives them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
                ours = os.environ["RAY_AUTH_TOKEN"].encode() in (entry / "environ").read_bytes()
            except OSError:
                continue
            if title.startswith(b"ray::Replica") and ours:
                found.append(int(entry.name))
    return found


def test_what_ends_its_process_is_tried_on_few_replicas(nodes: Nodes, tmp_path: Path) -> None:
    with Cluster(f"ray:{nodes.address}") as cluster:
        with pytest.raises(RunError, match="4 replicas in a row died of the same queries"):
            score(bakery(40), "python:tests.runs.test_ray:Deadly", out=tmp_path, on=cluster)
        assert 4 <= cluster.deaths <= 8  # of the window that ends it, and of those that others had meanwhile
        with pytest.raises(ModelError, match="no weights on this node"):
            score(bakery(4), "python:tests.runs.test_ray:Nowhere", out=tmp_path, on=cluster)


class Nowhere:
    """Loads where the command runs, and in no replica."""

    spec = "nowhere"

    def __init__(self) -> None:
        import ray

        if ray.get_runtime_context().get_actor_id():
            raise ModelError("no weights on this node")

    def score(self, queries: Any) -> Iterator[pluralrm.Verdict]:
        yield from (pluralrm.Verdict((0.0,) * len(query.candidates)) for query in queries)


class Deadly:
    """Ends its process on one item."""

    spec = "deadly"

    def score(self, queries: Any) -> Iterator[pluralrm.Verdict]:
        for query in queries:
            if query.id == "i0035":
                os._exit(9)
            yield pluralrm.Verdict((0.0,) * len(query.candidates))


def test_another_token_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fewer_tries = {"RAY_NUM_REDIS_GET_RETRIES": "2"}  # of Ray, a second apart
    driver = child("score", str(out), f"ray:{nodes.address}", RAY_AUTH_TOKEN="f" * 64, **fewer_tries)
    assert driver.wait(timeout=240) not in (0, None)
    assert not list(out.rglob("rows.jsonl"))


def test_a_cluster_of_our_own_is_on_loopback_and_reports_nothing() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="prm") as folder:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        command = [sys.executable, "-W", "ignore", "-m", "tests.runs.ray_child", "listen"]
        environment = clean | {"RAY_TMPDIR": folder, "HOME": folder}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        cluster = SimpleNamespace(**json.loads(done.stdout.splitlines()[-1]))
        assert not (Path(folder) / ".ray").exists()  # the token is in no file
    assert len(cluster.listening) > 4
    assert set(cluster.listening) <= {
        "0100007F",
        "0000000000000000FFFF00000100007F",
        "00000000000000000000000001000000",
    }
    assert {"gcs_server", "raylet", "dashboard.py"} <= set(cluster.servers)
    for server, settings in cluster.servers.items():
        assert {"RAY_USAGE_STATS_ENABLED=0", "RAY_AUTH_MODE=token"} <= set(settings), server


def test_more_than_any_node_has_is_refused_at_once(ray_settings: None, tmp_path: Path) -> None:  # noqa: ARG001
    with pytest.raises(SpecError, match="takes 64 CPU; the largest node has"):
        pluralrm.score("pocket-prb", "longest", on="ray,cpus=64", out=tmp_path)


def test_answers_are_drawn_and_numbers_simulated_as_in_one_process(nodes: Nodes, tmp_path: Path) -> None:
    from tests.models.neural.tiny import language_folder

    on, policy = f"ray:{nodes.address},replicas=1-2", f"lm:{language_folder(tmp_path / 'lm')}"
    for name, where in (("on", on), ("alone", "")):
        pluralrm.sample(bakery(6), policy, "recent:1", out=tmp_path / name, n=3, max_tokens=6, on=where, progress=False)
    assert (tmp_path / "on/samples.jsonl").read_bytes() == (tmp_path / "alone/samples.jsonl").read_bytes()
    ask = ItemsQuestion(differences=(0.1, 0.2), items=(2, 4), settings=PowerSettings(simulations=200))
    with Cluster(on) as cluster:
        assert plan_declared(0.3, replace(ask, cluster=cluster)) == plan_declared(0.3, ask)


def test_servers_beside_replicas_judge_as_one_server_does_though_one_is_killed(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (engines := tmp_path / "engines").mkdir()
    monkeypatch.setenv("PLURALRM_ENGINE", fake_engine.command(engines))
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.done and not killed:
            killed.extend(fake_engine.processes(engines)[:1])
            os.kill(killed[0], signal.SIGKILL)

    bench = bakery(1200)
    with FakeChat(fake_engine.verdict) as server:
        alone = pluralrm.score(bench, f"judge:m,url={server.url}", out=tmp_path / "alone", progress=False)
    run = pluralrm.score(bench, "judge:m,url=engine", on=f"ray:{nodes.address}", out=tmp_path / "on", progress=kill)
    assert killed
    assert len(list(engines.iterdir())) > 1
    assert list(bytes_of(tmp_path / "on").values()) == list(bytes_of(tmp_path / "alone").values())
    numbers = [load_manifest(each.path).asked for each in (run, alone)]
    assert numbers[0] == numbers[1]  # what the killed one had answered is asked again, and counted once
    until = time.monotonic() + 240
    while fake_engine.processes(engines):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_fits_and_a_study_have_the_bytes_of_one_process(nodes: Nodes, tmp_path: Path) -> None:
    """A study scores, has reward models pick among a pool's answers, and grades them; then best-of-n by itself."""
    world = "simulated:users=12,items=2,pairs=6"
    for name, on in (("on", f"ray:{nodes.address}"), ("alone", "")):
        out = tmp_path / name
        pluralrm.fit(["bt", "lore"], world, seed=[0, 1], out=out / "fits", features="tfidf:8", on=on, epochs=2)
        table = {"title": "A study", "benchmarks": [world], "models": ["random", "longest", "bm25", "known:taste"]}
        best = {"policy": "simulated", "n": 4, "grader": "truth"}
        declared = toml(tmp_path / "study.toml", {**table, "conditions": ["raw:3"], "best-of-n": best})
        pluralrm.study(declared, out=out / "study", on=on, progress=False)
        pool = pluralrm.sample(world, "simulated", out=out / "pool", n=4, progress=False)
        curves = pluralrm.best_of_n(pool, ["longest", "bm25"], "none", grader="truth", on=on, progress=False)
        (out / "curves.jsonl").write_text(json.dumps(curves.to_dict()))
    names = [f"*{ending}" for ending in (".jsonl", ".safetensors", "study.json")]
    exact = {str(file.relative_to(tmp_path / "alone")) for name in names for file in (tmp_path / "alone").rglob(name)}
    assert {Path(name).name for name in exact} >= {"rows.jsonl", "grades.jsonl", "shared.safetensors", "curves.jsonl"}
    for name in sorted(exact):
        assert (tmp_path / "on" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes(), name

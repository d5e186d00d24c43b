"""Scoring on a cluster: the rows of one process, whoever computes them; what asks a server is asked from here."""

import threading
from functools import partial
from pathlib import Path

import pytest

import pluralrm
from pluralrm.cluster import Cluster
from pluralrm.cluster.replicas import ENGINE_KEY, engine_command
from pluralrm.core import Run
from pluralrm.errors import ModelError, RunError, ServiceError, SpecError
from pluralrm.http import Price, Settings
from pluralrm.models import load_model
from pluralrm.report.view import runs_progress
from pluralrm.runs import GridCell, Progress, each_cell, load_manifest, plan, score
from pluralrm.runs.workers import ClusterScorer, LocalScorer, _open_replica, open_scorer
from tests.builders import bakery
from tests.fake_chat import FakeChat, say
from tests.fake_engine import verdict
from tests.fake_ray import Actor, FakeRay

ONE: dict[str, float] = {"CPU": 1.0}
MODELS, CONDITIONS = ["longest", "random"], ["none", "recent:2"]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("rows.jsonl")}


def test_runs_side_by_side_have_the_rows_of_one_process(tmp_path: Path) -> None:
    cells = plan([bakery(90)], MODELS, CONDITIONS)
    threads: set[str] = set()

    def scored(cell: GridCell, cluster: Cluster | None, out: Path) -> Run:
        threads.add(threading.current_thread().name)
        return score(cell.benchmark, cell.model, cell.condition, out=out, on=cluster)

    with Cluster("ray", ray=FakeRay(ONE, ONE)) as cluster:
        runs = list(each_cell(cells, partial(scored, cluster=cluster, out=tmp_path / "on"), cluster))
    assert threading.current_thread().name not in threads
    assert [(run.model, run.condition) for run in runs] == [(cell.model, cell.condition.spec) for cell in cells]
    alone = list(each_cell(cells, partial(scored, cluster=None, out=tmp_path / "alone"), None))
    assert bytes_of(tmp_path / "on") == bytes_of(tmp_path / "alone")
    facts = [[load_manifest(run.path).facts() for run in some] for some in (runs, alone)]
    assert facts[0] == facts[1]


def test_a_crash_on_an_item_is_a_failure_of_that_item_as_in_one_process(tmp_path: Path) -> None:
    spec = "python:tests.runs.test_on:Fragile"
    with Cluster("ray", ray=FakeRay(ONE, ONE)) as cluster:
        run = score(bakery(70), spec, out=tmp_path / "on", on=cluster)
        assert cluster.deaths == 0
    score(bakery(70), spec, out=tmp_path / "alone")
    assert bytes_of(tmp_path / "on") == bytes_of(tmp_path / "alone")
    assert [row.item for row in run.rows if row.failed] == ["i0040"]


class Fragile:
    """Raises on one item."""

    spec = "fragile"

    def score(self, queries):
        for query in queries:
            if query.id == "i0040":
                raise ZeroDivisionError(query.id)
            yield pluralrm.Verdict(tuple(len(candidate) / 7 for candidate in query.candidates))


def test_a_broken_cell_ends_the_others_and_is_what_is_raised(tmp_path: Path) -> None:
    def work(cell: GridCell) -> Run:
        if cell.model == "bm25":
            raise RunError("no space left")
        return score(cell.benchmark, cell.model, cell.condition, out=tmp_path, on=cluster)

    with Cluster("ray", ray=FakeRay(ONE)) as cluster, pytest.raises(RunError, match="no space left"):
        list(
            each_cell(
                plan([bakery(90)], ["bm25", "python:tests.builders:SlowLength,milliseconds=9"], ["none"]), work, cluster
            )
        )


def test_who_computes_a_run_and_who_died_is_seen_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluralrm.runs.workers.SYNC_SECONDS", 0.01)
    spec, seen = "python:tests.builders:SlowLength,milliseconds=2", set[str]()

    def kill(actor: Actor) -> None:
        if actor.answered == 1 and len(nodes.actors) == 2:
            actor.die()

    def look(_: Progress) -> None:
        seen.update(run.workers for run in runs_progress(tmp_path))

    nodes = FakeRay(ONE, ONE, after=kill)
    with Cluster("ray,replicas=2", ray=nodes) as cluster:
        left = score(bakery(200), spec, out=tmp_path, on=cluster, progress=look)
        assert seen & {"2 replicas, 1 died", "2 replicas, 2 died"}
    assert not (Path(left.path) / "workers.txt").exists()
    assert [(run.state, run.workers) for run in runs_progress(tmp_path)] == [("complete", "")]
    (Path(left.path) / "workers.txt").write_text("9 replicas\n")  # of a process that was killed
    score(bakery(200), "longest", out=tmp_path)
    assert {run.workers for run in runs_progress(tmp_path)} == {""}


def test_a_model_behind_a_url_is_asked_from_here() -> None:
    with Cluster("ray", ray=FakeRay(ONE)) as cluster:
        scorer = open_scorer("judge:m,url=http://127.0.0.1:9/v1", 1, cluster=cluster)
        assert isinstance(scorer, LocalScorer)


def test_beside_a_cluster_the_caps_on_cost_and_calls_at_once_hold_over_all_runs(tmp_path: Path) -> None:
    """A call costs 120 millionths; the money is for 30 of the 80 calls that two judges under two conditions need."""
    nodes = FakeRay(ONE, ONE)
    with FakeChat(lambda _: say("Result: A"), latency=0.01) as server, Cluster("ray", ray=nodes) as cluster:
        judges = [f"judge:m,url={server.url}", f"judge:m,url={server.url},seed=1"]
        prices = {"m": Price(input=1.0, output=2.0)}
        settings = Settings(concurrency=3, prices=prices, max_cost=29.5 * 120e-6)

        def scored(cell: GridCell) -> Run:
            return score(cell.benchmark, cell.model, cell.condition, out=tmp_path, on=cluster, settings=settings)

        cells = plan([bakery(10)], ["longest", *judges], CONDITIONS, settings=settings)
        runs = list(each_cell(cells, scored, cluster, settings))
        assert server.most_at_once == 3
        assert 30 <= len(server.requests) < 30 + 3
    assert all(run.complete for run in runs if run.model == "longest")
    assert 10 <= sum(run.done for run in runs if run.model != "longest") <= len(server.requests) // 2


def test_a_model_with_an_engine_needs_a_cluster_and_is_computed_there(tmp_path: Path) -> None:
    spec = "judge:m,url=engine"
    with pytest.raises(ServiceError, match="url=engine is for a judge, synthesizeme: or summary: with --on ray"):
        score(bakery(4), spec, out=tmp_path)
    assert load_model(spec).identity["url"] == "engine"  # type: ignore[attr-defined] # it is the same wherever one runs
    with Cluster("ray", ray=FakeRay(ONE | {"GPU": 1.0})) as cluster:
        scorer = open_scorer(spec, 1, Settings(cache=tmp_path), cluster=cluster)
        assert isinstance(scorer, ClusterScorer)
        assert scorer.identity["engine"] == engine_command()  # other flags are another run
        with pytest.raises(RunError, match="a highest cost needs one process, found replicas"):
            open_scorer(spec, 1, Settings(max_cost=1.0), cluster=cluster)


def test_replicas_ask_the_servers_beside_them_and_what_was_asked_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENGINE_KEY, "a-key-of-this-test")
    nodes = FakeRay(ONE | {"GPU": 1.0}, ONE | {"GPU": 1.0})
    with FakeChat(verdict) as server, Cluster("ray,replicas=2", ray=nodes) as cluster:

        class Beside:
            """A server that is there already; the real one takes a process, in tests/test_engine.py."""

            def __init__(self, command: str, model: str, ended: object) -> None:
                assert (command, model, callable(ended)) == (engine_command(), "m", True)
                self.url = server.url

        monkeypatch.setattr("pluralrm.runs.workers.EngineProcess", Beside)
        run = score(bakery(300), "judge:m,url=engine", out=tmp_path / "on", on=cluster, settings=Settings())
        assert {seen.headers["authorization"] for seen in server.requests} == {"Bearer a-key-of-this-test"}
        assert [options["num_gpus"] for options in nodes.options] == [1.0, 1.0]
        alone = score(bakery(300), f"judge:m,url={server.url}", out=tmp_path / "alone", settings=Settings())
    assert list(bytes_of(tmp_path / "on").values()) == list(bytes_of(tmp_path / "alone").values())
    usage = [load_manifest(each.path).asked for each in (run, alone)]
    assert usage[0] == usage[1]
    assert usage[0] is not None
    assert usage[0].answered == 600


def test_more_workers_than_calls_at_once_are_refused() -> None:
    with pytest.raises(RunError, match="3 workers with a concurrency of 2"):
        open_scorer("judge:m,url=http://127.0.0.1:9/v1", 3, Settings(concurrency=2))
    with pytest.raises(SpecError, match="workers is 0; wanted 1 or more"):
        open_scorer("longest", 0)


def test_another_model_under_the_same_name_computes_no_row() -> None:
    assert _open_replica("bm25", {})([]).verdicts == []
    with pytest.raises(RunError, match="bm25: weights of a node differs"):
        _open_replica("bm25", {"weights": "of another folder"})


def test_what_a_cluster_cannot_take_is_refused(tmp_path: Path) -> None:
    with Cluster("ray", ray=FakeRay(ONE)) as cluster:
        with pytest.raises(SpecError, match="leave one of them out"):
            open_scorer("longest", 2, cluster=cluster)
        with pytest.raises(ModelError, match="give a spec string, not an object"):
            open_scorer(load_model("longest"), 1, cluster=cluster)
    with pytest.raises(SpecError, match="a cluster needs models and conditions by name"):
        pluralrm.score("pocket-prb", load_model("longest"), on="ray", out=tmp_path)

"""A cluster's replicas: batches come back in order whoever answers them, and a death costs nothing but time."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import pluralrm
from pluralrm.benchmarks import load_benchmark
from pluralrm.cluster import Cluster, ClusterSpec
from pluralrm.cluster.replicas import Replica, _host, _Node, _Reply
from pluralrm.errors import MissingExtraError, ModelError, RunError, SpecError
from pluralrm.models.personal.fitting import FitRequest, fit_each, fit_requests, folder_hash
from pluralrm.power import (
    Aim,
    ItemsQuestion,
    PowerSettings,
    ScoreNoise,
    declared_labels,
    plan_declared,
    plan_judgments,
    plan_models,
)
from tests.fake_ray import Actor, FakeRay

ONE: dict[str, float] = {"CPU": 1.0, "memory": 2.0**34}


def doubler(pause: float = 0.0) -> Callable[[int], int]:
    def answer(number: int) -> int:
        time.sleep(pause)
        return 2 * number

    return answer


def broken() -> Callable[[int], int]:
    raise MissingExtraError("hf:x", "hf")  # an error that pickle could not carry


def odd_ones_fail(number: int) -> int:
    if number % 2:
        raise ModelError(f"{number} is odd")
    return number


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("ray", ClusterSpec()),
        ("ray:auto", ClusterSpec("auto")),
        ("ray:head:6379,gpus=0.5,cpus=2", ClusterSpec("head:6379", 2.0, 0.5)),
        ("ray,memory=16GiB,replicas=3", ClusterSpec(memory=2**34, least=3, most=3)),
        ("ray,memory=1.5GB,replicas=2-8", ClusterSpec(memory=1_500_000_000, least=2, most=8)),
    ],
)
def test_a_cluster_and_what_a_replica_takes_are_one_text(text: str, spec: ClusterSpec) -> None:
    assert ClusterSpec.parse(text) == spec


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("slurm", "unknown cluster 'slurm'"),
        ("ray:head", "wanted HOST:PORT"),
        ("ray:ray://head:10001", "wanted HOST:PORT"),
        ("ray,gpu=1", "Did you mean 'gpus'"),
        ("ray,replicas=4-2", "replicas, at most is '2'"),
        ("ray,replicas=0", "wanted a whole number of at least 1"),
        ("ray,memory=16Gi", "a size such as 16GiB"),
        ("ray,cpus=-1", "wanted a number"),
    ],
)
def test_a_slip_in_on_is_one_message(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        ClusterSpec.parse(text)


def test_answers_come_in_the_order_of_the_batches_from_all_replicas() -> None:
    ray = FakeRay(ONE, ONE, ONE)
    with Cluster("ray", ray=ray) as cluster:
        pool = cluster.pool("doubler", partial(doubler, 0.003))
        assert list(pool.answers(range(100))) == [(number, 2 * number) for number in range(100)]
        assert cluster.alive == 3
        assert cluster.summary == "3 replicas"
    assert len(ray.actors) == 3
    assert all(actor.answered > 10 for actor in ray.actors)
    assert all(actor.dead for actor in ray.actors)


def test_a_replica_that_dies_costs_no_answer() -> None:
    coin, turn = Random(0), {"kills": 0}

    def kill(actor: Actor) -> None:
        if actor.answered and coin.random() < 0.15 and turn["kills"] < 20:
            turn["kills"] += 1
            actor.die()

    with Cluster("ray", ray=FakeRay(ONE, ONE, ONE, after=kill)) as cluster:
        pool = cluster.pool("doubler", partial(doubler, 0.001))
        assert list(pool.answers(range(300))) == [(number, 2 * number) for number in range(300)]
        assert cluster.deaths > 10
        assert cluster.summary.endswith(f", {cluster.deaths} died")


def test_a_batch_that_kills_one_replica_after_the_other_ends_the_work() -> None:
    ray = FakeRay(ONE, ONE)

    def deadly() -> Callable[[int], int]:
        def answer(number: int) -> int:
            if number == 5:
                next(actor for actor in ray.actors if not actor.dead and actor.answered >= 0).die()
                time.sleep(0.01)
            return number

        return answer

    with Cluster("ray,replicas=1", ray=ray) as cluster:
        stream = cluster.pool("deadly", deadly).answers(range(9))
        with pytest.raises(RunError, match="deadly: 4 replicas in a row died of the same queries; the last: The actor"):
            list(stream)
    assert len(ray.actors) == 4


def test_what_cannot_be_opened_fails_with_its_own_error() -> None:
    with Cluster("ray", ray=FakeRay(ONE)) as cluster:
        for _ in range(2):
            with pytest.raises(MissingExtraError, match=r"pip install 'pluralrm\[hf\]'"):
                list(cluster.pool("broken", broken).answers(range(3)))


def test_an_error_in_an_answer_is_that_of_its_batch() -> None:
    with Cluster("ray", ray=FakeRay(ONE)) as cluster:
        stream = cluster.pool("odd", lambda: odd_ones_fail).answers([2, 4, 5, 6])
        assert [next(stream), next(stream)] == [(2, 2), (4, 4)]
        with pytest.raises(ModelError, match="5 is odd"):
            next(stream)


def test_replicas_without_work_make_room_for_another_model() -> None:
    def wait(earlier: list[Actor]) -> None:
        while not all(one.dead for one in earlier):
            time.sleep(0.01)

    class Full(FakeRay):
        """Places one actor at a time."""

        def _actor(self, kind: type) -> Callable[[], Actor]:
            start = super()._actor(kind)

            def when_free() -> Actor:
                actor = start()
                actor._thread.submit(wait, self.actors[:-1])
                return actor

            return when_free

    ray = Full(ONE)
    with Cluster("ray", ray=ray) as cluster:
        first, second = cluster.pool("first", doubler), cluster.pool("second", doubler)
        assert list(first.answers(range(3)))[-1] == (2, 4)
        assert list(second.answers(range(3)))[-1] == (2, 4)
        assert [actor.dead for actor in ray.actors] == [True, False]


def test_back_pressure_holds_what_is_under_way_within_bounds() -> None:
    taken: list[int] = []

    def batches() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    with Cluster("ray,replicas=2", ray=FakeRay(ONE, ONE)) as cluster:
        stream = cluster.pool("doubler", doubler).answers(batches())
        next(stream)
        assert len(taken) <= 7


def test_a_stopped_cluster_answers_whoever_waits() -> None:
    with Cluster("ray", ray=FakeRay(ONE)) as cluster:
        pool = cluster.pool("slow", partial(doubler, 0.2))
        stream = pool.answers(range(50))
        next(stream)
        cluster.stop()
        with pytest.raises(RunError, match="the same command resumes"):
            list(stream)
        with pytest.raises(RunError, match="the same command resumes"):
            list(pool.answers([1]))


def test_a_gpu_is_taken_where_there_is_one_and_the_model_is_neural() -> None:
    ray = FakeRay(ONE | {"GPU": 1.0})
    with Cluster("ray,cpus=0.5,memory=1GiB", ray=ray) as cluster:
        list(cluster.pool("neural", doubler, neural=True).answers([1]))
        list(cluster.pool("plain", doubler).answers([1]))
    found = [{name: one.get(name) for name in ("num_cpus", "num_gpus", "memory")} for one in ray.options]
    shared = {"num_cpus": 0.5, "memory": 2.0**30}
    assert found == [shared | {"num_gpus": 1.0}, shared | {"num_gpus": None}]


def test_tasks_come_back_in_order_with_their_errors() -> None:
    with Cluster("ray", ray=FakeRay(ONE)) as cluster:
        assert cluster.map(pow, [(2, 3), (3, 2)]) == [8, 9]
        with pytest.raises(ModelError, match="3 is odd"):
            cluster.map(odd_ones_fail, [(2,), (3,)])
    with Cluster("ray,cpus=2", ray=FakeRay(ONE)) as cluster:
        cluster._fixed = True
        with pytest.raises(SpecError, match=r"takes 2 CPU; .* has 1 CPU"):
            cluster.map(pow, [(2, 3)])


def test_as_many_tasks_run_at_once_as_there_is_room_for() -> None:
    """Each waits until all three are at work: none stands in a queue behind another."""
    together = threading.Barrier(3, timeout=240)
    with Cluster("ray", ray=FakeRay(ONE, ONE, ONE)) as cluster:
        assert sorted(cluster.map(together.wait, [()] * 3)) == [0, 1, 2]


def test_a_node_elsewhere_without_a_token_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for node, refused in [
        (_Node("far", "its own boot", token=False), True),
        (_Node("far", "its own boot", token=True), False),
        (_Node("here", _host(), token=False), False),
    ]:
        monkeypatch.setattr(Replica, "place", lambda _, node=node: _Reply(node))
        ray = FakeRay(ONE, ONE)
        with Cluster("ray", ray=ray) as cluster:
            if refused:
                with pytest.raises(RunError, match="the node far of this cluster takes orders without a token"):
                    cluster.map(pow, [(2, 3)])
                assert not any(hasattr(actor._instance, "_answer") for actor in ray.actors)
            else:
                assert cluster.map(pow, [(2, 3)]) == [8]


def test_a_power_simulation_is_the_same_wherever_it_runs() -> None:
    few = PowerSettings(simulations=60)
    ask = ItemsQuestion(differences=(0.15, 0.2), settings=few)
    models = partial(plan_models, [0.95, 0.99], ScoreNoise(), few)
    aims = [Aim("precision", 0.3), Aim("agreement", 0.3)]
    judgments = partial(plan_judgments, declared_labels(0.5, 0.1, 0.3), aims, [1, 2], few)
    with Cluster("ray", ray=FakeRay(ONE)) as cluster:
        assert plan_declared(0.3, replace(ask, cluster=cluster)) == plan_declared(0.3, ask)
        assert models(cluster=cluster) == models()
        assert judgments(cluster=cluster) == judgments()


def fits(out: Path) -> dict[Path, FitRequest]:
    return fit_requests(out, ["bt", "lore"], [0, 3], {"epochs": "2"}, single=False, features="tfidf:8")


def test_each_algorithm_and_seed_is_fitted_as_alone(tmp_path: Path) -> None:
    bench = load_benchmark("simulated:users=20,items=1,posts=2,pairs=6")
    with Cluster("ray", ray=FakeRay(ONE, ONE)) as cluster:
        manifests = fit_each(bench, fits(tmp_path / "on"), cluster)
    alone = pluralrm.fit(["bt", "lore"], bench, seed=[0, 3], out=tmp_path / "alone", epochs=2, features="tfidf:8")
    assert [manifest.facts() for manifest in manifests] == [manifest.facts() for manifest in alone]
    assert [manifest.curve for manifest in manifests] == [manifest.curve for manifest in alone]
    for manifest, name in zip(alone, ("bt-0", "bt-3", "lore-0", "lore-3"), strict=True):
        assert folder_hash(tmp_path / "on" / name) == folder_hash(tmp_path / "alone" / name) == manifest.files_hash


def test_a_fit_that_another_machine_kept_for_itself_is_an_error(tmp_path: Path) -> None:
    bench = load_benchmark("simulated:users=20,items=1,posts=2,pairs=6")
    there = fit_each(bench, fits(tmp_path / "there"))

    class Elsewhere(Cluster):
        def map(self, *_: object) -> list[Any]:
            return there

    with Elsewhere("ray", ray=FakeRay(ONE)) as cluster, pytest.raises(ModelError, match="Name a shared folder"):
        fit_each(bench, fits(tmp_path / "here"), cluster)


_ALONE = """
import sys
sys.modules["ray"] = None
import pluralrm
from pluralrm.errors import MissingExtraError
try:
    pluralrm.score("pocket-prb", "longest", on="ray", out=sys.argv[1], limit=2)
except MissingExtraError as error:
    print(error)
"""


def test_without_ray_a_message_names_the_extra(tmp_path: os.PathLike[str]) -> None:
    done = subprocess.run([sys.executable, "-c", _ALONE, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "--on ray needs the extra 'ray': pip install 'pluralrm[ray]'\n"

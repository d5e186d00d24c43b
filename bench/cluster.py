"""A cluster against one process, for a scorer of 5 ms an item: two replicas for one, and what a replica costs.

`Burner` burns CPU by a fixed number of hashes and not by the clock: beside other jobs it takes longer. Clusters and
replicas are open before; how many scorers were at work at once does not depend on what else the machine does.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tests.builders import bakery

from bench import Outcome, Setup, Shape, Work
from pluralrm.cluster import Cluster
from pluralrm.conditions import load_condition
from pluralrm.core import Query, Verdict
from pluralrm.runs.workers import ClusterScorer, open_scorer

BLOCK = b"x" * 4096


class Burner:
    """So many hashes of 4 kB for each query."""

    spec = "burner"

    def __init__(self, hashes: str) -> None:
        self._hashes = int(hashes)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield when each query was begun and ended, as its scores: the clock is that of the whole machine."""
        for query in queries:
            began = time.monotonic()
            for _ in range(self._hashes):
                hashlib.sha256(BLOCK).digest()
            yield Verdict((began, time.monotonic(), *[0.0] * (len(query.candidates) - 2)))


class Replicas(NamedTuple):
    """Queries for scorers of one spec, here or on one local cluster."""

    setup: Setup
    spec: str
    queries: list[Query]
    cluster: Cluster

    def work(self, scorer: object) -> Work:
        """Return the work of a scorer that is open."""

        def verdicts() -> Outcome:
            began = time.monotonic()
            spans = [verdict.scores for _, verdict in scorer.verdicts(iter(self.queries))]  # type: ignore[attr-defined]
            wall = time.monotonic() - began
            at_work = sum(end - start for start, end, *_ in spans) / wall
            return Outcome(units=len(spans), seconds=wall, figures={"at work at once": at_work})

        return verdicts

    def on_cluster(self, count: int) -> Work:
        """Return the work of so many replicas."""
        cluster = Cluster(f"ray,replicas={count},cpus=0.5", ray=self.cluster._ray)  # noqa: SLF001
        scorer = ClusterScorer(self.spec, self.setup.enter_context(cluster))
        work = self.work(self.setup.enter_context(scorer))
        work()
        return work


@cache
def hashes_in(seconds: float) -> int:
    """Return how many hashes take so long here, when nothing disturbs."""
    times = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(200):
            hashlib.sha256(BLOCK).digest()
        times.append(time.perf_counter() - began)
    return round(200 * seconds / min(times))


def replicas(setup: Setup) -> Replicas:
    items = bakery(setup.size(640, 64))
    hashes = 1 if setup.quick else hashes_in(0.005)
    one = setup.enter_context(Cluster("ray,replicas=1,cpus=0.5"))
    queries = list(load_condition("recent:2").queries(items, items.items))
    return Replicas(setup, f"python:bench.cluster:Burner,hashes={hashes}", queries, one)


cluster = Shape(
    "cluster",
    "640 items of a scorer of 5 ms on local Ray replicas",
    replicas,
    unit="items",
    needs=("ray",),
    apart=False,
)


def this_process(data: Replicas) -> Work:
    return data.work(open_scorer(data.spec, 1))


cluster.side(this_process, environment={"OMP_NUM_THREADS": "1"})


@cluster.side
def one_replica(data: Replicas) -> Work:
    return data.on_cluster(1)


@cluster.side
def two_replicas(data: Replicas) -> Work:
    return data.on_cluster(2)

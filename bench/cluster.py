"""A cluster against one process, in turn: two replicas for one, and what a replica costs for a scorer of 5 ms an item.

    OMP_NUM_THREADS=1 python bench/cluster.py [ROUNDS] [ITEMS]

`Burner` burns CPU for as long as it is told, by a fixed number of hashes and not by the clock: beside other jobs it
takes longer. Times are of verdicts alone: clusters and replicas are open before. Medians of ratios within a round.
"""

import hashlib
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.builders import bakery

from pluralrm.cluster import Cluster
from pluralrm.conditions import load_condition
from pluralrm.core import Query, Verdict
from pluralrm.runs.workers import ClusterScorer, open_scorer

BURNER = "python:bench.cluster:Burner,hashes={}"


class Burner:
    """So many hashes of 4 kB for each query."""

    spec = "burner"

    def __init__(self, hashes: str) -> None:
        self._hashes, self._block = int(hashes), b"x" * 4096

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield when each query was begun and ended, as its scores: the clock is that of the whole machine."""
        for query in queries:
            began = time.monotonic()
            for _ in range(self._hashes):
                hashlib.sha256(self._block).digest()
            yield Verdict((began, time.monotonic(), *[0.0] * (len(query.candidates) - 2)))


def hashes_in(seconds: float) -> int:
    """Return how many hashes take so long here, when nothing disturbs."""
    block, times = b"x" * 4096, []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(200):
            hashlib.sha256(block).digest()
        times.append(time.perf_counter() - began)
    return round(200 * seconds / min(times))


def seconds(scorer: object, queries: list[Query]) -> tuple[float, float]:
    """Return the wall time of all verdicts, and how many scorers were at work at once, on average.

    The latter does not depend on what else the machine does.
    """
    began = time.monotonic()
    verdicts = [verdict for _, verdict in scorer.verdicts(iter(queries))]  # type: ignore[attr-defined]
    wall = time.monotonic() - began
    return wall, sum(end - start for start, end, *_ in (verdict.scores for verdict in verdicts)) / wall


def main() -> None:
    rounds, items = (
        int(sys.argv[place]) if len(sys.argv) > place else default for place, default in ((1, 5), (2, 640))
    )
    queries = list(load_condition("recent:2").queries(bakery(items), bakery(items).items))
    spec = BURNER.format(hashes_in(0.005))
    with Cluster("ray,replicas=1,cpus=0.5") as one:
        local, single = open_scorer(spec, 1), ClusterScorer(spec, one).__enter__()
        two = Cluster("ray,replicas=2,cpus=0.5", ray=one._ray).__enter__()  # noqa: SLF001
        double = ClusterScorer(spec, two).__enter__()
        for scorer in (single, double):
            seconds(scorer, queries[:128])
        table = []
        for _ in range(rounds):
            (here, _), (alone, busy), (both, pair) = (seconds(scorer, queries) for scorer in (local, single, double))
            table.append((alone / both, alone / here - 1, pair, 1 - busy))
            print(f"here {here:.2f} s  1 replica {alone:.2f} s  2 replicas {both:.2f} s", flush=True)
    names = (
        "2 replicas: times as fast as 1",
        "1 replica: more time than this process",
        "2 replicas: at work at once",
        "1 replica: share of its time without work",
    )
    for name, values in zip(names, zip(*table, strict=True), strict=True):
        print(f"{name}: {statistics.median(values):.3f}  ({min(values):.3f} to {max(values):.3f})")


if __name__ == "__main__":
    main()

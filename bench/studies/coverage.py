"""How often 95% intervals cover the truth, over 4,000 simulated benchmarks each (docs/design/statistics.md).

Run from the repository's root: python -m bench.studies.coverage [BENCHMARKS [CLUSTER]]

On a cluster, as in `ray:HOST:PORT`, the rows of a table are computed side by side.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import product, starmap

from tests.metrics.trainings import Trainings, covered
from tests.metrics.worlds import (
    SIZES,
    Likeness,
    World,
    coverage,
    difference_coverage,
    naive_coverage,
    percentile_coverage,
    uneven_coverage,
)
from tests.stats.test_two_way import SHAPES, Design, shape_coverages

from pluralrm.cluster import Cluster, opened
from pluralrm.stats import trainings

LIKENESS: tuple[Likeness, ...] = ("alike", "independent", "opposed", "clumped")
METHODS: dict[str, Callable[..., float]] = {
    "ours": coverage,
    "percentile": percentile_coverage,
    "i.i.d.": naive_coverage,
}
APART = (0.0, 0.05, 0.1, 0.2, 0.5)


class Tables:
    """The tables, over so many simulated benchmarks, here or on a cluster."""

    def __init__(self, benchmarks: int, cluster: Cluster | None) -> None:
        self.benchmarks, self.cluster = benchmarks, cluster

    def write(
        self, head: Sequence[str], row: Callable[..., Sequence[str]], cells: Sequence[tuple[object, ...]]
    ) -> None:
        """Print a table with a row of texts for each cell."""
        print(f"\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
        jobs = [(self.benchmarks, *cell) for cell in cells]
        for texts in starmap(row, jobs) if self.cluster is None else self.cluster.map(row, jobs):
            print(f"| {' | '.join(texts)} |", flush=True)

    def shares(self) -> None:
        """Of a share, by three methods."""
        kinds = [f"{method}: {kind}" for method, kind in product(METHODS, LIKENESS)]
        self.write(
            ["clusters", "items each", "accuracy", *kinds], share, list(product((12, 48, 200), SIZES, (0.5, 0.9)))
        )

    def macro(self) -> None:
        """Of the mean over domains of several sizes."""
        layouts = ((4, 4, 4), (3, 3, 3, 3), (2, 3, 7), (16, 16, 16), (12, 12, 12, 12), (20, 12, 11, 10), (6, 10, 32))
        cells = list(product(layouts, ("1", "4", "12"), (0.5, 0.9)))
        self.write(["clusters per domain", "items each", "accuracy", *LIKENESS], domains, cells)

    def differences(self) -> None:
        """Of the difference of two models."""
        pairs = ((0.5, 0.5), (0.9, 0.9), (0.9, 0.8), (0.9, 0.5))
        cells = list(product(((12,), (48,), (12, 12, 12, 12)), ("1", "4", "12", "2-30"), pairs))
        self.write(["clusters per domain", "items each", "accuracies", *LIKENESS[:3]], difference, cells)

    def shared_prompts(self) -> None:
        """Of a mean and a difference where people and prompts cross: two-way, and over people alone."""
        head = [
            "people",
            "prompts",
            "cells",
            "by person, by prompt",
            "mean",
            "difference",
            "people alone",
            "difference",
        ]
        self.write(head, crossed, list(product(SHAPES, ((0.1, 0.2), (0.02, 0.05), (0.0, 0.0)))))

    def several_trainings(self) -> None:
        """Of the mean over trainings and users."""
        head = ["trainings", "users", *(f"{apart}: both, users" for apart in APART)]
        self.write(head, training, list(product((2, 3, 5), (30, 100))))


def crossed(benchmarks: int, design: Design, strength: tuple[float, float]) -> list[str]:
    people, prompts, shape, judged = design
    cells = f"{shape}, {people * prompts * judged:,.0f}"
    shares = [f"{share:.1f}" for share in shape_coverages(design, strength, benchmarks)]
    return [str(people), str(prompts), cells, f"{strength[0]}, {strength[1]}", *shares]


def share(benchmarks: int, clusters: int, size: str, accuracy: float) -> list[str]:
    worlds = [(method, World((clusters,), size, kind)) for method, kind in product(METHODS.values(), LIKENESS)]
    shares = [f"{method(world, accuracy, benchmarks=benchmarks):.1f}" for method, world in worlds]
    return [str(clusters), size, str(accuracy), *shares]


def domains(benchmarks: int, strata: tuple[int, ...], size: str, accuracy: float) -> list[str]:
    shares = [f"{uneven_coverage(World(strata, size, kind), accuracy, benchmarks=benchmarks):.1f}" for kind in LIKENESS]
    return [", ".join(map(str, strata)), size, str(accuracy), *shares]


def difference(benchmarks: int, strata: tuple[int, ...], size: str, accuracies: tuple[float, float]) -> list[str]:
    worlds = [World(strata, size, kind) for kind in LIKENESS[:3]]
    shares = [f"{difference_coverage(world, accuracies, benchmarks=benchmarks):.1f}" for world in worlds]
    return [", ".join(map(str, strata)), size, str(accuracies), *shares]


def training(benchmarks: int, seeds: int, users: int) -> list[str]:
    cells = []
    for world in (Trainings(seeds, users, apart) for apart in APART):
        intervals = [trainings(grades, world.clusters) for grades in world.studies(benchmarks, seed=(seeds, users))]
        pair = [covered(side, world.mean) for side in zip(*intervals, strict=True)]
        cells.append(f"{100 * pair[1]:.1f}, {100 * pair[0]:.1f}")
    return [str(seeds), str(users), *cells]


def main() -> None:
    """Print the tables."""
    with opened(sys.argv[2] if len(sys.argv) > 2 else "") as cluster:
        tables = Tables(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000, cluster)
        tables.shares()
        tables.macro()
        tables.differences()
        tables.shared_prompts()
        tables.several_trainings()


if __name__ == "__main__":
    main()

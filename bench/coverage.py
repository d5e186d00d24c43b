"""How often 95% intervals cover the truth, over 4,000 simulated benchmarks each (docs/design/statistics.md).

Run from the repository's root: PYTHONPATH=. .venv/bin/python bench/coverage.py
"""

from collections.abc import Callable
from itertools import product

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

from pluralrm.stats import trainings

BENCHMARKS = 4_000
LIKENESS: tuple[Likeness, ...] = ("alike", "independent", "opposed", "clumped")


def shares() -> None:
    methods: dict[str, Callable[..., float]] = {
        "ours": coverage,
        "percentile": percentile_coverage,
        "i.i.d.": naive_coverage,
    }
    print(
        "| clusters | items each | accuracy | " + " | ".join(f"{m}: {k}" for m, k in product(methods, LIKENESS)) + " |"
    )
    print("|---" * (3 + len(LIKENESS) * len(methods)) + "|")
    for clusters, size, accuracy in product((12, 48, 200), SIZES, (0.5, 0.9)):
        found = [
            f"{method(World((clusters,), size, likeness), accuracy, benchmarks=BENCHMARKS):.1f}"
            for method in methods.values()
            for likeness in LIKENESS
        ]
        print(f"| {clusters} | {size} | {accuracy} | {' | '.join(found)} |", flush=True)


def macro() -> None:
    print("\n| clusters per domain | items each | accuracy | " + " | ".join(LIKENESS) + " |")
    print("|---" * (3 + len(LIKENESS)) + "|")
    layouts = ((4, 4, 4), (3, 3, 3, 3), (2, 3, 7), (16, 16, 16), (12, 12, 12, 12), (20, 12, 11, 10), (6, 10, 32))
    for strata, size, accuracy in product(layouts, ("1", "4", "12"), (0.5, 0.9)):
        found = [
            f"{uneven_coverage(World(strata, size, kind), accuracy, benchmarks=BENCHMARKS):.1f}" for kind in LIKENESS
        ]
        print(f"| {', '.join(map(str, strata))} | {size} | {accuracy} | {' | '.join(found)} |", flush=True)


def differences() -> None:
    print("\n| clusters per domain | items each | accuracies | " + " | ".join(LIKENESS[:3]) + " |")
    print("|---" * 6 + "|")
    pairs = ((0.5, 0.5), (0.9, 0.9), (0.9, 0.8), (0.9, 0.5))
    for strata, size, accuracies in product(((12,), (48,), (12, 12, 12, 12)), ("1", "4", "12", "2-30"), pairs):
        found = [
            f"{difference_coverage(World(strata, size, kind), accuracies, benchmarks=BENCHMARKS):.1f}"
            for kind in LIKENESS[:3]
        ]
        print(f"| {', '.join(map(str, strata))} | {size} | {accuracies} | {' | '.join(found)} |", flush=True)


def several_trainings() -> None:
    apart = (0.0, 0.05, 0.1, 0.2, 0.5)
    print("\n| trainings | users | " + " | ".join(f"{one}: both, users" for one in apart) + " |")
    print("|---" * (2 + len(apart)) + "|")
    for seeds, users in product((2, 3, 5), (30, 100)):
        cells = []
        for world in (Trainings(seeds, users, one) for one in apart):
            found = [trainings(grades, world.clusters) for grades in world.studies(BENCHMARKS, seed=(seeds, users))]
            pair = [covered(side, world.mean) for side in zip(*found, strict=True)]
            cells.append(f"{100 * pair[1]:.1f}, {100 * pair[0]:.1f}")
        print(f"| {seeds} | {users} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    shares()
    macro()
    differences()
    several_trainings()

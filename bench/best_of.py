"""Best-of-N for 2,830 items, N = 128, 8 k and 20 reward models, against the loop that is published; interleaved.

    python bench/best_of.py [--rounds 5]

exact    expected grade of best-of-k over all subsets, ties shared
ties     the same for scores of few values, as judges give them: every item has ties
first    best of the first k, vectorised
loop     best of the first k in plain Python, for one model
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from pluralrm.stats.best_of import expected_best_of, first_best_of

ITEMS, ANSWERS, MODELS = 2_830, 128, 20
KS = [1, 2, 4, 8, 16, 32, 64, 128]
RNG = np.random.default_rng(0)
GRADES = RNG.integers(0, 7, (ITEMS, ANSWERS)) / 6
SCORES = [0.5 * GRADES + RNG.normal(size=(ITEMS, ANSWERS)) for _ in range(MODELS)]
FEW = [scores.round() for scores in SCORES]


def exact() -> None:
    for scores in SCORES:
        expected_best_of(scores, GRADES, KS)


def ties() -> None:
    for scores in FEW:
        expected_best_of(scores, GRADES, KS)


def first() -> None:
    for scores in SCORES:
        first_best_of(scores, GRADES, KS)


def loop() -> None:
    for scores, grades in zip(SCORES[0].tolist(), GRADES.tolist(), strict=True):
        for k in KS:
            grades[max(range(k), key=scores.__getitem__)]


def _variance() -> None:
    """Print how many times the variance of the mean over 200 prompts is higher for the first k than for all subsets."""
    means = []
    for _ in range(200):
        grades = RNG.normal(size=(200, ANSWERS))
        scores = 0.5 * grades + np.sqrt(0.75) * RNG.normal(size=(200, ANSWERS))
        means.append([way(scores, grades, KS).mean(axis=0) for way in (first_best_of, expected_best_of)])
    published, ours = np.var(means, axis=0)
    ratios = ", ".join(f"k={k} {ratio:.1f}x" for k, ratio in zip(KS, published / ours, strict=True))
    print(f"variance, first k / all subsets: {ratios}")


def main(rounds: int) -> None:
    ways: list[Callable[[], None]] = [exact, ties, first, loop]
    taken: dict[str, list[float]] = {way.__name__: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            began, cpu = time.perf_counter(), time.process_time()
            way()
            taken[way.__name__].append(time.perf_counter() - began)
            taken.setdefault(f"{way.__name__} cpu", []).append(time.process_time() - cpu)
    for name, seconds in taken.items():
        print(f"{name:<10} {statistics.median(seconds):8.3f} s   best {min(seconds):8.3f} s")
    _variance()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)

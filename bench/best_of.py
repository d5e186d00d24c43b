"""Best of the first k or of all subsets of k, for every k, by 20 reward models."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bench import Setup, Shape, Work
from pluralrm.stats.best_of import expected_best_of, first_best_of
from pluralrm.stats.clusters import FloatArray

ANSWERS, MODELS = 128, 20
KS = [1, 2, 4, 8, 16, 32, 64, 128]


class Pools(NamedTuple):
    """Grades (items, answers) and each model's scores of the same."""

    grades: FloatArray
    scores: list[FloatArray]

    def by(self, mean: Callable[[FloatArray, FloatArray, list[int]], FloatArray]) -> Work:
        """Return the work of one way for all models."""
        return lambda: [mean(scores, self.grades, KS) for scores in self.scores]


def pools(setup: Setup) -> Pools:
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 7, (setup.size(2_830, 20), ANSWERS)) / 6
    return Pools(grades, [0.5 * grades + rng.normal(size=grades.shape) for _ in range(MODELS)])


best_of = Shape("best-of", "best of k of 128 answers, 2,830 items, 20 models", pools)


@best_of.side
def all_subsets(data: Pools) -> Work:
    return data.by(expected_best_of)


@best_of.side
def few_values(data: Pools) -> Work:
    """Return the same for scores as judges give them: every item has ties."""
    return Pools(data.grades, [scores.round() for scores in data.scores]).by(expected_best_of)


@best_of.side
def first_k(data: Pools) -> Work:
    return data.by(first_best_of)


@best_of.side
def published_loop(data: Pools) -> Work:
    """Return the best of the first k in plain Python."""

    def loop(scores: FloatArray, grades: FloatArray, ks: list[int]) -> FloatArray:
        pairs = zip(scores.tolist(), grades.tolist(), strict=True)
        return np.array([[grade[max(range(k), key=row.__getitem__)] for k in ks] for row, grade in pairs])

    return data.by(loop)

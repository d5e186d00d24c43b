"""On what a correlation hangs: a few models far from the others, or the mixture of groups that differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.permutation import permutation_test
from pluralrm.stats.ranking import pearson, spearman

_MOST = 3
_LEFT = 5
"""So many models must be left when some are taken away."""
_TRIED = 30
"""All threes of 30 models are 4,060; of 300 models they would be 4 million."""
_WORTH = 0.3
"""A Pearson nearer to 0 is carried by nothing."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Some models, and Pearson's correlation without them: less than half of what it was, or of the other sign."""

    models: tuple[str, ...]
    without: float

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {"models": list(self.models), "without": self.without}


@dataclass(frozen=True, slots=True)
class InGroup:
    """Both correlations inside one group of models, and Spearman's permutation p."""

    group: str
    n: int
    pearson: float
    spearman: float
    p: float

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {"group": self.group, "n": self.n, "pearson": self.pearson, "spearman": self.spearman, "p": self.p}


def carried(x: FloatArray, y: FloatArray, models: Sequence[str]) -> list[Carried]:
    """Return the one model, and the few, that carry Pearson's correlation most; nothing where none do.

    The few are three, or a quarter of all models where those are fewer.
    """
    whole = float(pearson(x[None], y[None])[0])
    few = min(_MOST, len(x) // 4, len(x) - _LEFT)
    if abs(whole) < _WORTH or few < 1:
        return []
    found = []
    for size in sorted({1, few}):
        out, left = _heaviest(x, y, size, np.sign(whole))
        if left < abs(whole) / 2:
            found.append(Carried(tuple(models[place] for place in out), left * float(np.sign(whole))))
    return found


def _heaviest(x: FloatArray, y: FloatArray, size: int, sign: float) -> tuple[tuple[int, ...], float]:
    """Return the places without which the correlation (in the direction of `sign`) is lowest, and how low that is."""
    sets = list(combinations(_candidates(x, y, sign), size))
    kept = np.array([[place for place in range(len(x)) if place not in out] for out in sets])
    left = np.nan_to_num(sign * pearson(x[kept], y[kept]), nan=1.0)
    lowest = int(left.argmin())
    return sets[lowest], float(left[lowest])


def _candidates(x: FloatArray, y: FloatArray, sign: float) -> list[int]:
    """Return, in order, the places of the models that lower the correlation most by leaving alone: _TRIED at most."""
    kept = np.array([[place for place in range(len(x)) if place != out] for out in range(len(x))])
    left = np.nan_to_num(sign * pearson(x[kept], y[kept]), nan=1.0)
    return sorted(np.argsort(left, kind="stable")[:_TRIED].tolist())


def by_group(
    x: FloatArray, y: FloatArray, models: Sequence[str], groups: Mapping[str, str], *, seed: int = 0
) -> list[InGroup]:
    """Return the correlations inside each group with three models or more in which both scores vary."""
    found = []
    for group in dict.fromkeys(groups[model] for model in models if model in groups):
        inside = np.array([groups.get(model) == group for model in models])
        a, b = x[inside], y[inside]
        if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
            continue
        both = (float(pearson(a[None], b[None])[0]), float(spearman(a[None], b[None])[0]))
        found.append(InGroup(group, len(a), *both, permutation_test(spearman, a, b, seed=seed).p))
    return found


def turns(groups: Sequence[InGroup]) -> bool:
    """Return whether one group's correlation is above 0 and another's below, in Pearson's or in Spearman's."""
    sides = [[group.pearson for group in groups], [group.spearman for group in groups]]
    return any(side and min(side) < 0 < max(side) for side in sides)

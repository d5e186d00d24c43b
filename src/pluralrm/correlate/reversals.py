"""What would refute a benchmark: the pairs in which the model that ranks lower does better downstream."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pluralrm.correlate.columns import Column
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.comparisons import holm, sign_flip_p


@dataclass(frozen=True, slots=True)
class Reversal:
    """A pair: `above` leads on the benchmark, `below` downstream; both differences are positive.

    The p-values say whether the pair differs at all on each side (sign flips over clusters of items, Holm over all
    pairs); None where only scores are known, not items.
    """

    above: str
    below: str
    lead: float
    loss: float
    p_benchmark: float | None
    p_downstream: float | None

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        tests = {"p_benchmark": self.p_benchmark, "p_downstream": self.p_downstream}
        return {"above": self.above, "below": self.below, "lead": self.lead, "loss": self.loss, **tests}


def reversals(benchmark: Column, downstream: Column, models: Sequence[str], *, seed: int = 0) -> list[Reversal]:
    """Return the pairs, the one that loses most downstream first."""
    tests = [_adjusted(column, models, seed) for column in (benchmark, downstream)]
    found = []
    for i, j in combinations(range(len(models)), 2):
        lead, gain = (column.scores[models[i]] - column.scores[models[j]] for column in (benchmark, downstream))
        if lead * gain >= 0:
            continue
        above, below = (i, j) if lead > 0 else (j, i)
        p_values = (None if test is None else float(test[i, j]) for test in tests)
        found.append(Reversal(models[above], models[below], abs(lead), abs(gain), *p_values))
    return sorted(found, key=lambda pair: (-pair.loss, pair.above, pair.below))


def _adjusted(column: Column, models: Sequence[str], seed: int) -> FloatArray | None:
    """Return (n, n) p-values adjusted over the pairs of these models, or None where there are no items."""
    if column.items is None:
        return None
    pairs = len(models) * (len(models) - 1) // 2
    raw = sign_flip_p(column.items.means, seed=seed, flips=max(10_000, 200 * pairs))
    places = [column.items.models.index(model) for model in models]
    first, second = np.triu_indices(len(models), 1)
    table = np.ones((len(models), len(models)))
    table[first, second] = table[second, first] = holm(raw[np.ix_(places, places)][first, second])
    return table

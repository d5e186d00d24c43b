"""Simulated studies: models drawn from a population, scored on items and by a downstream result."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pluralrm.correlate import Column, column_of_items
from pluralrm.correlate.columns import scores_of
from pluralrm.correlate.measures import Measure
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.correlation import Scores, interval_over_studies

Kind = Literal["normal", "heavy", "weak", "skewed", "factor", "grid"]
ITEMS = 40


@dataclass(frozen=True)
class World:
    """n models whose true scores go together by rho; the noise of a score is in standard deviations of the models.

    `heavy` tails are Student's t with five degrees of freedom; in `weak` a fifth of the models is far below the others
    on both sides; downstream results are `skewed` (log-normal) or on a `grid` of halves; on `factor`, items favour
    what the models differ in downstream.
    """

    n: int
    rho: float
    noise: float = 0.0
    kind: Kind = "normal"

    def draw(self, rng: np.random.Generator, studies: int, items: int = ITEMS) -> tuple[FloatArray, FloatArray]:
        """Return values (studies, items, n) and downstream results (studies, n)."""
        z = rng.standard_normal((studies, self.n, 2))
        if self.kind == "heavy":
            z /= np.sqrt(rng.chisquare(5, (studies, self.n, 1)) / 5)
        ability, result = z[..., 0], self.rho * z[..., 0] + np.sqrt(1 - self.rho**2) * z[..., 1]
        if self.kind == "weak":
            weak = 4.0 * (rng.random((studies, self.n)) < 0.2)
            ability, result = ability - weak, result - weak
        each = self.noise * np.sqrt(items)
        values = ability[:, None] + each * rng.standard_normal((studies, items, self.n))
        values += each * rng.standard_normal((studies, items, 1))
        if self.kind == "factor":
            values += each * rng.standard_normal((studies, items, 1)) * z[:, None, :, 1]
        return values, {"skewed": np.exp(result), "grid": np.round(2 * result) / 2}.get(self.kind, result)

    def truth(self, measure: Measure, studies: int = 20_000) -> float:
        """Return the estimand: the mean of the measure over studies of as many models and items."""
        # The mean of 40 items has the law of one item with as much noise.
        values, results = self.draw(np.random.default_rng(12_345), studies, items=1)
        return float(np.nanmean(measure.function(values[:, 0], results)))


def columns(values: FloatArray, result: FloatArray, *, items: bool = True) -> tuple[Column, Column]:
    """Return one study's two columns: of items, or of what somebody published."""
    names = [f"m{place:02}" for place in range(len(result))]
    clusters = [f"u{place:03}" for place in range(len(values))]
    bench = column_of_items("bench", dict(zip(names, values.T, strict=True)), clusters)
    if not items:
        bench = Column("bench", bench.scores)
    return bench, Column("tuned", dict(zip(names, map(float, result), strict=True)))


def study(values: FloatArray, result: FloatArray, *, items: bool = True) -> Scores:
    """Return one study as scores."""
    pair = columns(values, result, items=items)
    return scores_of(pair, list(pair[1].scores))


def coverage(world: World, measure: Measure, studies: int, *, items: bool, seed: int = 0) -> float:
    """Return in how many per cent of simulated studies the interval holds the estimand; none is a miss."""
    truth, hits = world.truth(measure), 0
    for values, result in zip(*world.draw(np.random.default_rng(seed), studies), strict=True):
        found = interval_over_studies(
            measure.statistic(),
            study(values, result, items=items),
            scale=measure.scale,
            floor=measure.least_error(world.n),
            seed=seed,
        )
        hits += found.low is not None and found.high is not None and found.low <= truth <= found.high
    return 100 * hits / studies

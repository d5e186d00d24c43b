"""How many models until `correlate` shows that a benchmark predicts the ranking downstream; its noise from runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from pluralrm.cluster import Cluster, each_job
from pluralrm.core import Estimate, Run
from pluralrm.correlate import ENOUGH, columns_of_runs
from pluralrm.correlate.measures import FEWEST, Measure, measures
from pluralrm.display import JsonFields, json_fields
from pluralrm.errors import MetricError, SpecError
from pluralrm.power.detection import PowerSettings, simulated, smallest
from pluralrm.stats.clusters import BoolArray, FloatArray
from pluralrm.stats.correlation import Scores, interval_over_studies
from pluralrm.stats.ranking import null_of_ranks

MOST = 400
"""More models than any study has."""
_STEPS = 100
"""A smallest correlation is looked for in hundredths."""
_CURVE = (0.5, 0.75, 1.0)
_ENTRIES = 200_000
"""Models times studies drawn for one answer, where 2,000 studies would be more; 500 studies at least."""
_AT_LEAST = 500
_WITH_INTERVAL = 1_000
"""Studies of which the interval is asked too, which takes fifty times as long as p."""


@dataclass(frozen=True, slots=True)
class ScoreNoise:
    """The error of a model's score, as a share of how far models differ: one standard deviation in the other."""

    benchmark: float = 0.0
    downstream: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("noise", self.benchmark), ("downstream-noise", self.downstream)):
            if not 0 <= value <= 10:
                raise SpecError(f"--{name} {value:g}: wanted a number from 0 to 10; 1: errors as large as differences")


@dataclass(frozen=True, slots=True)
class PredictionPower(JsonFields):
    """One number of models: how often the verdict is "predicts", and how often the interval says so too.

    `by_both` is None below the number of models from which on `correlate` has an interval, and where p is not enough.
    """

    models: int
    by_p: Estimate
    by_both: Estimate | None


@dataclass(frozen=True, slots=True)
class ModelsNeeded:
    """The smallest number of models for one true rank correlation (None: more than MOST), and the curve around it."""

    correlation: float
    seen: Estimate
    """The Spearman that such studies show on average, errors and all, at the number of models needed."""
    models: int | None
    both: int | None
    """The smallest number at which the interval says so too; None where MOST is not enough."""
    curve: tuple[PredictionPower, ...]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        fields = json_fields(self, "correlation", "seen", "models")
        return {**fields, "models_by_both": self.both, **json_fields(self, "curve")}


@dataclass(frozen=True, slots=True)
class ModelsPlan:
    """How many models it takes for each true rank correlation."""

    noise: ScoreNoise
    observed: Estimate | None
    """The noise of the benchmark, where runs were given."""
    present: int | None
    smallest: float | None
    """The smallest true rank correlation that the present number of models shows; None where it shows none."""
    needed: tuple[ModelsNeeded, ...]
    settings: PowerSettings = field(default_factory=PowerSettings)

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            **json_fields(self.settings, "power", "alpha"),
            "noise": self.noise.benchmark,
            "downstream_noise": self.noise.downstream,
            "observed_noise": self.observed and self.observed.to_json(),
            "models": self.present,
            "smallest_correlation": self.smallest,
            **json_fields(self, "needed"),
        }


def plan_models(
    correlations: Sequence[float],
    noise: ScoreNoise,
    settings: PowerSettings,
    *,
    observed: Estimate | None = None,
    present: int | None = None,
    cluster: Cluster | None = None,
) -> ModelsPlan:
    """Return the plan; `present` is a number of models of which it is asked what they can show.

    On a `cluster` each true correlation is a task.
    """
    for rho in correlations:
        if not 0 < rho < 1:
            raise SpecError(f"--correlation {rho:g}: wanted a true rank correlation between 0 and 1, such as 0.8")
    if present is not None and not FEWEST <= present <= MOST:
        raise SpecError(f"--models {present}: wanted a number from {FEWEST} to {MOST}")
    needed = tuple(each_job(cluster, models_needed, [(rho, noise, settings) for rho in correlations]))
    lowest = None if present is None else smallest_correlation(present, noise, settings)
    return ModelsPlan(noise, observed, present, lowest, needed, settings)


def models_needed(rho: float, noise: ScoreNoise, settings: PowerSettings) -> ModelsNeeded:
    """Return the smallest number of models whose p is below alpha often enough, the correlation above 0."""
    number = smallest(
        lambda n: _by_p(n, rho, noise, settings).value,
        settings.power,
        start=round(3 + (2.8 / np.arctanh(rho * 0.9)) ** 2),
        least=FEWEST,
        most=MOST,
    )
    if number is None:
        most = PredictionPower(MOST, _by_p(MOST, rho, noise, settings), None)
        return ModelsNeeded(rho, _seen(MOST, rho, noise, settings), None, None, (most,))
    at = cache(lambda n: shown(n, rho, noise, settings))
    both = smallest(
        lambda n: _value(at(n).by_both), settings.power, start=round(1.4 * number), least=max(number, ENOUGH), most=MOST
    )
    places = {max(round(part * number), FEWEST) for part in _CURVE} | ({both} if both else set())
    curve = tuple(at(count) for count in sorted(places) if count <= MOST)
    return ModelsNeeded(rho, _seen(number, rho, noise, settings), number, both, curve)


def smallest_correlation(n: int, noise: ScoreNoise, settings: PowerSettings) -> float | None:
    """Return the smallest true rank correlation, to a hundredth, that n models show often enough; None without any."""
    start = round(_STEPS * np.tanh(2.8 / max(n - 3, 1) ** 0.5))
    steps = smallest(
        lambda step: _by_p(n, step / _STEPS, noise, settings).value,
        settings.power,
        start=start,
        most=_STEPS - 1,
        exponent=1.0,
    )
    return None if steps is None else steps / _STEPS


def shown(n: int, rho: float, noise: ScoreNoise, settings: PowerSettings) -> PredictionPower:
    """Return how often n models show it: `correlate`'s verdict by p, and with an interval above 0 as well."""
    x, y = _studies(n, rho, noise, settings)
    by_p = _predicted(x, y, settings)
    if n < ENOUGH:
        return PredictionPower(n, simulated(by_p, "studies"), None)
    by_both = by_p[:_WITH_INTERVAL].copy()
    for index in np.flatnonzero(by_both):
        by_both[index] = _interval_above(x[index], y[index])
    return PredictionPower(n, simulated(by_p, "studies"), simulated(by_both, "studies"))


def _value(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None else estimate.value


def _by_p(n: int, rho: float, noise: ScoreNoise, settings: PowerSettings) -> Estimate:
    return simulated(_predicted(*_studies(n, rho, noise, settings), settings), "studies")


def _studies(n: int, rho: float, noise: ScoreNoise, settings: PowerSettings) -> tuple[FloatArray, FloatArray]:
    """Return scores and results (studies, n): normal, with this rank correlation before errors are added.

    More models, or another correlation, with the same seed: the numbers drawn stay.
    """
    studies = min(settings.simulations, max(_AT_LEAST, _ENTRIES // n))
    drawn = np.random.default_rng((settings.seed, 7)).standard_normal((n, studies, 4))
    able, other, first, second = np.moveaxis(drawn, (2, 1), (0, 1))
    pearson = 2 * np.sin(np.pi * rho / 6)  # of normal scores with Spearman's rho (Pearson 1907)
    result = pearson * able + (1 - pearson**2) ** 0.5 * other
    return able + noise.benchmark * first, result + noise.downstream * second


def _predicted(x: FloatArray, y: FloatArray, settings: PowerSettings) -> BoolArray:
    """Return in which studies p < alpha and the ranking is not turned round."""
    measure = _measure()
    value = measure.function(x, y)
    p = null_of_ranks(measure.function, x.shape[1], chance=measure.chance or 0.0, seed=settings.seed).p(np.abs(value))
    predicted: BoolArray = (p < settings.alpha) & (value > 0)
    return predicted


def _interval_above(x: FloatArray, y: FloatArray) -> bool:
    measure = _measure()
    scores = Scores(np.stack([x, y]), np.zeros((0, 2, len(x))))
    floor = measure.least_error(len(x))
    low = interval_over_studies(measure.statistic(), scores, scale=measure.scale, floor=floor).low
    return low is not None and low > 0


def _measure() -> Measure:
    """Return the measure that decides the verdict: Spearman's correlation."""
    return next(measure for measure in measures() if measure.name == "spearman")


def _seen(n: int, rho: float, noise: ScoreNoise, settings: PowerSettings) -> Estimate:
    """Return the mean Spearman of the simulated studies, and between what most of them lie."""
    values = _measure().function(*_studies(n, rho, noise, settings))
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high), n, 0, f"95% of studies of {n} models")


FEWEST_OBSERVED = 4
"""Models below which nothing is said of how far models differ."""


def noise_of_runs(runs: list[Run]) -> Estimate:
    """Return the error of a score in standard deviations of the models' true scores; n counts models.

    The interval is that of an F ratio; it has no upper end where the data leave open that the models do not differ
    at all, and is then left out. Models that differ by no more than their errors are an error.
    """
    columns = columns_of_runs(runs)
    if len(columns) != 1 or columns[0].items is None:
        raise SpecError(
            f"found {len(columns)} benchmarks and conditions, wanted the runs of one: see 'pluralrm compare'"
        )
    [column], items = columns, columns[0].items
    n = len(column.scores)
    if n < FEWEST_OBSERVED:
        raise MetricError(
            f"{n} models are too few to show how far models differ; wanted {FEWEST_OBSERVED} or more, or --noise"
        )
    # What moves all models alike moves no ranking.
    own = items.means.scores - items.means.scores.mean(axis=1, keepdims=True)
    error = float((own**2).sum()) / (n - 1)
    total = float(np.var(list(column.scores.values()), ddof=1))
    if total <= error:
        raise MetricError(
            f"{column.name}: {n} models differ by no more than the luck of the items; wanted more items, or --noise"
        )
    low, high = _ends(total / error, n)
    unsure = "" if high else f"; no interval: {n} models do not even show that they differ"
    method = f"error of a score over the spread of {n} models' true scores{unsure}"
    return Estimate(_noise(total / error), low, high, n, sum(column.failed.values()), method)


def _noise(ratio: float) -> float:
    """Return the noise where the scores' variance is this many times that of their errors."""
    return float((ratio - 1) ** -0.5)


def _ends(ratio: float, n: int) -> tuple[float | None, float | None]:
    from scipy.special import chdtri

    # The errors' variance rests on many clusters, that of the scores on n models.
    low, high = (ratio * (n - 1) / float(chdtri(n - 1, tail)) for tail in (0.975, 0.025))
    return (_noise(low), _noise(high)) if high > 1 else (None, None)

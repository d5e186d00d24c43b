"""How many users, and items of each, until `compare` finds a difference of d; from runs or from declared numbers."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from pluralrm.cluster import Cluster, each_job
from pluralrm.core import Estimate, Run
from pluralrm.display import JsonFields, json_fields
from pluralrm.errors import MetricError, SpecError
from pluralrm.metrics import paired_difference
from pluralrm.metrics.comparison import name_run, together
from pluralrm.metrics.estimates import headline
from pluralrm.metrics.roles import roles
from pluralrm.metrics.units import Units
from pluralrm.power.detection import (
    DetectionPower,
    DifferenceWorld,
    PowerSettings,
    by_p,
    declared,
    found,
    observed,
    smallest,
    urn,
)
from pluralrm.stats import cluster_means, spread
from pluralrm.stats.clusters import ASSUMED_LIKENESS, FloatArray
from pluralrm.stats.correlation import likeness as likeness_of
from pluralrm.stats.intervals import normal_quantile

MOST = 20_000
"""Clusters beyond which the answer is that there are too few differences to find."""
_STEPS = 1_000
"""A smallest difference is looked for in thousandths."""
_CURVE = (0.25, 0.5, 1.0, 1.5)
"""Shares of the smallest number at which the curve is shown."""


@dataclass(frozen=True, slots=True)
class ClustersPoint:
    """One number of clusters on the curve, and how often it tells the difference."""

    clusters: int
    found: DetectionPower

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {"clusters": self.clusters, **json_fields(self.found)}


@dataclass(frozen=True, slots=True)
class ClustersNeeded(JsonFields):
    """The smallest number of clusters for one difference and one number of items each, and the curve around it.

    `clusters` is None where not even MOST are enough; its interval is that of the variance it rests on, if observed.
    """

    difference: float
    items: float
    clusters: Estimate | None
    curve: tuple[ClustersPoint, ...]

    @property
    def reached(self) -> DetectionPower | None:
        """How often the smallest number tells the difference."""
        return next((row.found for row in self.curve if self.clusters and row.clusters == self.clusters.value), None)


def clusters_needed(
    world: DifferenceWorld, difference: float, items: float, settings: PowerSettings, *, df: float | None = None
) -> ClustersNeeded:
    """Return the smallest number of clusters whose p is below alpha often enough.

    `df` are the degrees of freedom of an observed variance; the number needed is as uncertain as that is.
    """
    number = smallest(
        lambda clusters: by_p(world, clusters, difference, settings).value,
        settings.power,
        start=normal_clusters(world, difference, settings),
        least=world.least,
        most=MOST,
    )
    if number is None:
        return ClustersNeeded(difference, items, None, (ClustersPoint(MOST, found(world, MOST, difference, settings)),))
    places = sorted({max(round(share * number), world.least) for share in _CURVE})
    curve = tuple(ClustersPoint(count, found(world, count, difference, settings)) for count in places if count <= MOST)
    return ClustersNeeded(difference, items, _number(number, df, settings), curve)


def smallest_difference(world: DifferenceWorld, clusters: int, settings: PowerSettings) -> float | None:
    """Return the smallest true difference that so many clusters tell often enough, to a thousandth; None without any.

    Differences that the world cannot hold are not tried.
    """
    most = int(_STEPS * world.limit - 1e-9)
    if most < 1:
        return None
    start = round(_STEPS * _both_quantiles(settings) * world.spread(0.0) / clusters**0.5)
    steps = smallest(
        lambda step: by_p(world, clusters, step / _STEPS, settings).value,
        settings.power,
        start=start,
        most=most,
        exponent=1.0,
    )
    return None if steps is None else steps / _STEPS


def normal_clusters(world: DifferenceWorld, difference: float, settings: PowerSettings) -> int:
    """Return how many clusters it would take if means were normal and their variance known: where to begin."""
    return int(min((_both_quantiles(settings) * world.spread(difference) / difference) ** 2, MOST)) + 1


def _both_quantiles(settings: PowerSettings) -> float:
    return normal_quantile(1 - settings.alpha) + normal_quantile(2 * settings.power - 1)


def _number(number: int, df: float | None, settings: PowerSettings) -> Estimate:
    from scipy.special import chdtri

    method = f"smallest number with power {settings.power:g}"
    if df is None:
        return Estimate(number, None, None, settings.simulations, 0, f"{method}; no interval: the variance is declared")
    low, high = (number * df / float(chdtri(df, tail)) for tail in (0.025, 0.975))
    return Estimate(number, low, high, settings.simulations, 0, f"{method}; interval of the observed variance")


def check_differences(differences: Sequence[float]) -> None:
    """Raise where a difference is none, or not one of two shares."""
    for difference in differences:
        if not 0 < difference < 1:
            raise SpecError(f"--difference {difference:g}: wanted one between 0 and 1, such as 0.02 for two points")


ENOUGH = 8
"""Clusters below which nothing is said of how clusters vary."""


@dataclass(frozen=True, slots=True)
class ItemsQuestion:
    """What is asked: differences to tell, items per cluster (none: as observed), their likeness if declared."""

    differences: Sequence[float] = (0.05,)
    items: Sequence[int] = ()
    likeness: float | None = None
    settings: PowerSettings = field(default_factory=PowerSettings)
    cluster: Cluster | None = None
    """Where each difference and number of items is simulated, if not here."""

    def __post_init__(self) -> None:
        check_differences(self.differences)
        if self.likeness is not None and not 0 <= self.likeness < 1:
            raise SpecError(f"--likeness {self.likeness:g}: wanted a correlation from 0 to below 1")
        if any(size < 1 for size in self.items):
            raise SpecError(f"--items {min(self.items)}: wanted 1 or more items per user")


@dataclass(frozen=True, slots=True)
class ItemsPlan:
    """How many clusters it takes, for each difference and each number of items per cluster."""

    title: str
    cluster: str
    """What a cluster is, in one word: user, record."""
    needed: tuple[ClustersNeeded, ...]
    assumption: str
    settings: PowerSettings
    pilot: "Pilot | None" = None

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        fields = {**json_fields(self, "title", "cluster"), **json_fields(self.settings, "power", "alpha")}
        pilot = self.pilot and self.pilot.to_json()
        return {**fields, "assumption": self.assumption, "observed": pilot, **json_fields(self, "needed")}


class Pilot(NamedTuple):
    """What the runs show: the difference, how alike the differences of a cluster are, and what such a number tells."""

    difference: Estimate
    p: float
    likeness: Estimate | None
    """None where every cluster has one item."""
    clusters: int
    smallest: float | None
    """The smallest difference that so many clusters tell."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        fields = json_fields(self, "difference", "p", "likeness", "clusters")
        return {**fields, "smallest_difference": self.smallest}


def plan_for_runs(runs: Sequence[Run], ask: ItemsQuestion) -> ItemsPlan:
    """Return the plan with the variance of two runs on the same items, the better one first.

    Clusters are drawn whole, or with `items` items each that are as alike as those observed.
    """
    pair = _pair(runs)
    cluster, gaps, count = pair.first.card.cluster, pair.gaps, len(set(pair.units.clusters))
    _check(gaps, count, cluster)
    whole = observed(gaps.tolist(), pair.units.clusters, pair.strata)
    gap = paired_difference(pair.first, pair.second)
    smallest = smallest_difference(whole, count, ask.settings)
    pilot = Pilot(gap.difference, gap.p, _likeness(gaps, pair.units), count, smallest)
    worlds: dict[float, DifferenceWorld] = {len(gaps) / count: whole}
    assumption = f"new {cluster}s are like these {count}, and have as many items each"
    if ask.items:
        alike, assumption = _assumed(pilot, cluster, ask.likeness)
        assumption += f"; the mean is over {cluster}s, not over domains" * (pair.strata is not None)
        worlds = {float(size): urn(gaps.tolist(), likeness=alike, items=size) for size in ask.items}
    return ItemsPlan(
        f"{name_run(pair.first)} minus {name_run(pair.second)} on {pair.first.benchmark}, {headline(pair.first)}",
        cluster,
        _needed(worlds, ask, spread(cluster_means(gaps, pair.units.clusters, strata=pair.strata), 0).df),
        assumption,
        ask.settings,
        pilot,
    )


class _Pair(NamedTuple):
    """Two runs, the better one first, and the differences of what they earn on each unit."""

    first: Run
    second: Run
    gaps: FloatArray
    units: Units
    strata: tuple[str, ...] | None


_OFFERED = 12
"""Pairs that a message names at most."""


def _offered(runs: Sequence[Run]) -> str:
    """Return a command for each model and own condition with its control among many runs: the pilots of a gain.

    A model that scores the same under both is none.
    """
    pairs: list[tuple[Run, Run]] = []
    for content in dict.fromkeys(run.benchmark_hash for run in runs):
        with suppress(MetricError):  # they cannot be compared
            alike = [run for run in runs if run.benchmark_hash == content and run.complete]
            rows = [row for row in roles(alike) if "swapped" in row.controls]
            pairs += [
                (row.own, row.controls["swapped"]) for row in rows if not row.sides["own"].same_as(row.sides["swapped"])
            ]
    if not pairs:
        return ""
    width = max(len(name_run(own)) for own, _ in pairs)
    lines = [
        f"\n  {name_run(own):<{width}}  pluralrm power items {shlex.join([own.path, other.path])}"
        for own, other in pairs[:_OFFERED]
    ]
    more = f"\n  and {len(pairs) - _OFFERED} more" if len(pairs) > _OFFERED else ""
    return f". The gain of each model, own against another user's:{''.join(lines)}{more}"


def _pair(runs: Sequence[Run]) -> _Pair:
    if len(runs) != 2:
        usage = "wanted two on the same items: name two run folders, or --disagree"
        raise SpecError(f"found {len(runs)} runs, {usage}{_offered(runs)}")
    first, second = runs
    if paired_difference(first, second).difference.value < 0:
        first, second = second, first
    units, other = together([first, second], headline(first))
    strata = units.domains if first.card.average == "macro" else None
    return _Pair(first, second, np.subtract(units.values, other.values), units, strata)


def plan_declared(disagree: float, ask: ItemsQuestion) -> ItemsPlan:
    """Return the plan for two models of which exactly one is right on a share `disagree` of the items."""
    if not 0 < disagree <= 1:
        raise SpecError(f"--disagree {disagree:g}: wanted a share of the items, above 0 and up to 1, such as 0.3")
    alike, assumption = _assumed(None, "user", ask.likeness)
    worlds: dict[float, DifferenceWorld] = {
        float(size): declared(disagree, likeness=alike, items=size) for size in ask.items or (1,)
    }
    title = f"two models, of which exactly one is right on {100 * disagree:g}% of the items"
    return ItemsPlan(title, "user", _needed(worlds, ask, None), assumption, ask.settings)


def _needed(worlds: dict[float, DifferenceWorld], ask: ItemsQuestion, df: float | None) -> tuple[ClustersNeeded, ...]:
    jobs = [(world, difference, size, ask.settings) for difference in ask.differences for size, world in worlds.items()]
    simulate = partial(clusters_needed, df=df)
    return tuple(each_job(ask.cluster, simulate, jobs))


def _check(gaps: FloatArray, count: int, cluster: str) -> None:
    if not gaps.any():
        raise MetricError("the two runs earn the same on every item: nothing shows how far they vary; try --disagree")
    if count < ENOUGH:
        raise MetricError(
            f"{count} {cluster}s are too few to show how {cluster}s vary; wanted {ENOUGH} or more, or --disagree"
        )


def _likeness(gaps: FloatArray, units: Units) -> Estimate | None:
    if len(set(units.clusters)) == len(units.clusters):
        return None
    interval = likeness_of(gaps, units.clusters)
    return Estimate(interval.value, interval.low, interval.high, len(gaps), sum(units.failed), interval.method)


def _assumed(pilot: Pilot | None, cluster: str, declared_likeness: float | None) -> tuple[float, str]:
    """Return how alike items of one cluster are taken to be, and the sentence that says so."""
    seen = None if pilot is None else pilot.likeness
    used = ASSUMED_LIKENESS if seen is None else max(seen.value, 0.0)
    why = "assumed, for one item each shows nothing of it" if pilot else "assumed; --likeness declares another"
    if declared_likeness is not None:
        used, why = declared_likeness, "as declared"
    elif seen is not None:
        why = "as observed" if seen.value >= 0 else f"observed {seen.value:.2f}, and below 0 nothing is drawn"
    return used, f"the differences on two items of one {cluster} correlate by {used:.2f} ({why})"

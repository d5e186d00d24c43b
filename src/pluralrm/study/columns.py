"""What models are worth on a benchmark, at each k and to a policy: columns of `correlate`, with each one's Estimate."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from pluralrm.core import Estimate
from pluralrm.correlate import Column, CorrelationReport, columns_of_outcomes, columns_of_runs, correlate
from pluralrm.correlate.measures import FEWEST
from pluralrm.errors import MetricError
from pluralrm.metrics.estimates import measure
from pluralrm.policies.outcomes import load_outcome
from pluralrm.study.ppo.found import Found, columns_of
from pluralrm.study.steps import Done, Picked


@dataclass(frozen=True)
class Side:
    """A benchmark under a condition, or best-of-k or PPO under one: a column, and each model's Estimate."""

    column: Column
    metric: str
    estimates: Mapping[str, Estimate]

    @property
    def name(self) -> str:
        """What the column is called."""
        return self.column.name

    @property
    def condition(self) -> str:
        """What the models were shown."""
        return self.column.condition


def benchmark_sides(done: Done) -> list[Side]:
    """Return one side per benchmark and condition."""
    return [_scored(done, column) for column in columns_of_runs(done.runs)]


def _scored(done: Done, column: Column) -> Side:
    runs = [run for run in done.runs if (run.benchmark_hash, run.condition) == (column.source, column.condition)]
    return Side(column, runs[0].card.metrics[0], {run.model: measure(run) for run in runs})


def downstream_sides(picked: Picked) -> list[Side]:
    """Return one side per k and condition, from the Outcomes on disk."""
    outcomes = [load_outcome(folder) for folder in picked.outcomes]
    return [
        Side(_of_policy(column, picked.pool.reveals), "grade", _grades(picked, k, column.condition))
        for k in picked.points
        for column in columns_of_outcomes(outcomes, [k])
    ]


def trained_sides(found: Found) -> list[Side]:
    """Return one side per condition: what the policies are worth after training."""
    reveals = found.recipe.condition.reveals
    return [Side(_of_policy(column, reveals), "grade", estimates) for column, estimates in columns_of(found)]


def _of_policy(column: Column, reveals: AbstractSet[str]) -> Column:
    """Return the column; where the policy saw the rubric, a note says so."""
    if "oracle" not in reveals:
        return column
    return replace(column, notes=(*column.notes, f"ORACLE: under {column.name} the policy saw the rubric"))


def _grades(picked: Picked, k: int, condition: str) -> dict[str, Estimate]:
    return {
        curve.model: point.grade
        for curve in picked.found.curves
        if curve.condition == condition
        for point in curve.points
        if point.k == k
    }


@dataclass(frozen=True)
class Correlation:
    """What `correlate` says; nothing, and why, where columns cannot be ranked."""

    report: CorrelationReport | None
    why_not: tuple[str, ...] = ()


def correlation(benchmarks: Sequence[Side], downstream: Sequence[Side], *, rbo_p: float, seed: int) -> Correlation:
    """Return every benchmark against every downstream result; a column that ranks nothing is left out by name."""
    sides = [*benchmarks, *downstream]
    told = {side.name: reason for side in sides if (reason := _unranked(side))}
    first, second = ([side.column for side in some if side.name not in told] for some in (benchmarks, downstream))
    if not first or not second:
        return Correlation(None, tuple(told.values()))
    try:
        return Correlation(correlate(first, second, rbo_p=rbo_p, seed=seed), tuple(told.values()))
    except MetricError as exc:  # no three models have both
        return Correlation(None, (*told.values(), str(exc)))


def _unranked(side: Side) -> str:
    """Return why a column ranks nothing, or nothing."""
    scores = side.column.scores
    if len(scores) < FEWEST:
        return f"{side.name} has {len(scores)} of {FEWEST} models that a ranking needs"
    if len(set(scores.values())) == 1:
        return f"{side.name} is {next(iter(scores.values())):g} for all models: it ranks none"
    return ""

"""Outcomes as columns: what best-of-k earned under each model, one column per pool, condition and k, with its items.

Clusters are those of the benchmark whose prompts the policy answered: a benchmark and best-of-k on the same users are
resampled together.
"""

from collections.abc import Mapping, Sequence
from math import isclose
from typing import NamedTuple

from pluralrm.correlate.columns import Column, column_of_items
from pluralrm.downstream.outcomes import Outcome, OutcomeManifest
from pluralrm.errors import MetricError


class _Kind(NamedTuple):
    """What the outcomes of one column have in common, but for k."""

    benchmark: str
    benchmark_hash: str
    pool_hash: str
    condition: str
    grader: str
    way: str
    """Of picks, over which k; of what a trained policy answers, by which algorithm."""


def columns_of_outcomes(outcomes: Sequence[Outcome], ks: Sequence[int] = ()) -> list[Column]:
    """Return one column per pool, condition and k (the largest that all models have, unless told).

    Models are named by their spec. A model without some k is missing in its column; a k that none has is an error, and
    so are two outcomes of one model that differ.
    """
    groups: dict[_Kind, list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault(_kind(one), []).append(one)
    columns = [
        _column(_name(kind, list(groups), k), kind, group, k)
        for kind, group in groups.items()
        for k in _chosen(group, ks)
    ]
    if lost := [k for k in ks if not any(k in one.manifest.ks for one in outcomes)]:
        known = sorted({k for one in outcomes for k in one.manifest.ks})
        raise MetricError(f"no outcome of best-of-{lost[0]}; there are k = {', '.join(map(str, known)) or 'none'}")
    return columns


def _kind(one: Outcome) -> _Kind:
    told = one.manifest
    way = told.kind if told.way == "trained" else told.way
    return _Kind(told.benchmark, told.benchmark_hash, told.pool_hash, told.condition, told.grader, way)


def _name(kind: _Kind, kinds: Sequence[_Kind], k: int) -> str:
    """Return a name that tells these outcomes from all others; pool and grader are part of it where there are two."""
    what = {"exact": f"best-of-{k}", "first": f"first-{k}"}.get(kind.way, kind.way)
    pools, graders = {one.pool_hash for one in kinds}, {one.grader for one in kinds}
    pool = f", pool {kind.pool_hash[:8]}" if len(pools) > 1 else ""
    by = f", by {kind.grader}" if len(graders) > 1 else ""
    return f"{kind.benchmark} {what} {kind.condition}{pool}{by}"


def _chosen(group: Sequence[Outcome], ks: Sequence[int]) -> list[int]:
    """Return the k of a group's columns: those asked for that any model has, or the largest that all have."""
    have = [
        {k for one in group if one.model == model for k in one.manifest.ks} for model in {one.model for one in group}
    ]
    if ks:
        return [k for k in dict.fromkeys(ks) if any(k in one for one in have)]
    common = set.intersection(*have)
    if not common:
        first = group[0]
        raise MetricError(f"{first.path}: its models have no k in common; -k names one that most of them have")
    return [max(common)]


def _column(name: str, kind: _Kind, group: Sequence[Outcome], k: int) -> Column:
    models: dict[str, Outcome] = {}
    for one in group:
        if k in one.manifest.ks:
            first = models.setdefault(one.model, one)
            if not _alike(_grades(first, k), _grades(one, k)):
                raise MetricError(f"{name}: {one.model!r} has outcomes that differ: {first.path}, {one.path}. Give one")
    grades = {model: _grades(one, k) for model, one in models.items()}
    rows = next(iter(models.values())).rows
    if any(found.keys() != {row.item for row in rows} for found in grades.values()):
        raise MetricError(f"{name}: the outcomes are of different items; 'pluralrm best-of-n' writes them anew")
    column = column_of_items(
        name,
        {model: [found[row.item] for row in rows] for model, found in grades.items()},
        [row.cluster for row in rows],
        strata=[row.domain for row in rows] if group[0].manifest.average == "macro" else None,
        unit=kind.benchmark_hash,
    )
    failed = {model: one.manifest.failed for model, one in models.items() if one.manifest.failed}
    notes = notes_of(name, {model: one.manifest for model, one in models.items()})
    return Column(name, column.scores, column.items, failed, notes, kind.benchmark_hash, kind.condition)


def notes_of(name: str, models: Mapping[str, OutcomeManifest]) -> tuple[str, ...]:
    """Return what a reader of a column must know: which models were shown the rubric, or pairs that nobody chose."""
    shown = [model for model, one in models.items() if one.shown_rubric]
    oracle = [f"ORACLE: under {name} the rubric was shown to {', '.join(shown)}"] * bool(shown)
    return (*oracle, *_written(name, list(models.values())))


def _written(name: str, outcomes: Sequence[OutcomeManifest]) -> list[str]:
    """Return a sentence for each chat model that wrote pairs which reward models, or the policy, were shown."""
    said = {"models were": [one.pairs for one in outcomes]}
    said["the policy was"] = [one.policy_pairs for one in outcomes]
    return [
        f"SYNTHESISED: under {name} {who} shown {text}"
        for who, texts in said.items()
        for text in dict.fromkeys(filter(None, texts))
    ]


def _alike(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Return whether two outcomes are one: with other k beside it, the last bits of a grade may be others."""
    return first.keys() == second.keys() and all(isclose(first[item], second[item], abs_tol=1e-9) for item in first)


def _grades(outcome: Outcome, k: int) -> dict[str, float]:
    place = outcome.manifest.ks.index(k)
    return {row.item: grade for row in outcome.rows if isinstance(grade := row.scores[place], float)}

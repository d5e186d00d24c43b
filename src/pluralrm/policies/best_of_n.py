"""Best-of-N: what a policy's answers are worth when a reward model picks the best of k, for every k up to N.

One scoring of the pool per reward model, then arrays only. With every answer graded, the expected grade over all
subsets of k is exact; with only the picks graded, it is that of the first k, as published. A grade that failed is worth
nothing, and a score that failed counts as the worst that it could have been; `at_most` says what a point would be if
each such grade were 1.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from pluralrm.card import Average
from pluralrm.cluster import Cluster
from pluralrm.core import Benchmark, Condition, Estimate, Failure, Item, RewardModel, Run
from pluralrm.display import Brief, JsonFields, Record, Tabular, brief
from pluralrm.errors import PoolError
from pluralrm.grading import Grade
from pluralrm.http import Settings
from pluralrm.metrics.estimates import synthesised_notes, written_pairs
from pluralrm.policies.grades import Key, key, ungraded_message
from pluralrm.policies.pool import Pool, items_of, pick_pairs, pool_benchmark, score_table, spread_out, votes
from pluralrm.runs import Progress, load_runs, score
from pluralrm.runs.loop import score_shard
from pluralrm.shards import Shard, ShardProgress
from pluralrm.stats import ClusterMeans, Interval, cluster_means, difference_interval, share_interval
from pluralrm.stats.best_of import (
    MOST,
    NONE,
    check_ks,
    expected_best_of,
    expected_majority,
    first_best_of,
    first_picks,
    kl_best_of,
)
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray
from pluralrm.text import flat


@dataclass(frozen=True, repr=False)
class GradedPool(Brief):
    """The pool as statistics take it, (items, N): what each answer is worth, and which are answers at all.

    `worth` of an answer whose grade failed is 0, and `most` is 1. Nothing is known of answers that no curve needs.
    """

    items: tuple[Item, ...]
    average: Average
    worth: FloatArray
    most: FloatArray
    ungraded: BoolArray
    answered: BoolArray


class CurvePoint(NamedTuple):
    """Best-of-k of one reward model.

    `grade` is exact over all subsets, or of the first k where only picks are graded; then `first` and `regret` are
    None. `score` is what the model itself gives its picks, over the items of which it scored every answer.
    """

    k: int
    kl: float
    grade: Estimate
    first: Estimate | None = None
    regret: Estimate | None = None
    at_most: float | None = None
    score: float | None = None

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True, repr=False)
class BestOfCurve(Brief, JsonFields):
    """The points of one reward model, and where optimising against it stops to help.

    `fall` is the grade at the largest k minus that at `peak`, the k with the highest; None where the largest is the
    highest, or the model's own score does not rise in between.
    """

    in_json = ("model", "condition", "shown_rubric", "peak", "over_optimised", "fall", "points")

    model: str
    condition: str
    points: tuple[CurvePoint, ...]
    peak: int
    fall: Estimate | None
    values: FloatArray = field(repr=False, compare=False)
    """(items, ks): the grade of each item, from which all estimates are made."""
    shown_rubric: bool = False
    """True for an upper control: the reward model was shown what its picks are graded by."""

    @property
    def last(self) -> CurvePoint:
        """The point at the largest k."""
        return self.points[-1]

    @property
    def over_optimised(self) -> bool:
        """Whether the grade surely falls while the model's own score rises."""
        return self.fall is not None and self.fall.high is not None and self.fall.high < 0


def exact_curve(name: tuple[str, str], scores: FloatArray, graded_pool: GradedPool, ks: Sequence[int]) -> BestOfCurve:
    """Return the curve over all subsets, with the first k and the regret to the oracle beside it."""
    values = expected_best_of(scores, graded_pool.worth, ks)
    oracle = expected_best_of(graded_pool.worth, graded_pool.worth, ks)
    first = first_best_of(scores, graded_pool.worth, ks)
    failed = failed_items(scores, graded_pool)
    means = averaged(graded_pool, np.hstack([values, oracle, first]))
    rows, count = estimates(means, failed, range(3 * len(ks))), len(ks)
    regrets = [_regret(means, count + column, column, failed) for column in range(count)]
    most, own = _at_most(scores, graded_pool, ks), _own_scores(scores, ks)
    points = [
        CurvePoint(k, kl_best_of(k), rows[at], rows[2 * count + at], regrets[at], most[at], own[at])
        for at, k in enumerate(ks)
    ]
    peak = int(np.argmax(means.means[:count]))
    return BestOfCurve(*name, tuple(points), ks[peak], _fall(means, peak, failed, own), values)


def first_curve(name: tuple[str, str], scores: FloatArray, graded_pool: GradedPool, ks: Sequence[int]) -> BestOfCurve:
    """Return the curve of the first k, for which the grades of the picks are enough."""
    values, failed = first_best_of(scores, graded_pool.worth, ks), failed_items(scores, graded_pool)
    means = averaged(graded_pool, values)
    most = (
        averaged(graded_pool, first_best_of(scores, graded_pool.most, ks)).means if graded_pool.ungraded.any() else None
    )
    points = [
        CurvePoint(k, kl_best_of(k), grade, at_most=None if most is None else float(most[at]))
        for at, (k, grade) in enumerate(zip(ks, estimates(means, failed, range(len(ks))), strict=True))
    ]
    return BestOfCurve(*name, tuple(points), ks[int(np.argmax(means.means))], None, values)


def lines(graded_pool: GradedPool, ks: Sequence[int]) -> tuple[list[Estimate], list[Estimate]]:
    """Return the best and the blind choice at each k: by the grades themselves, and by chance among the answers."""
    chance = np.where(graded_pool.answered, 0.0, -np.inf)
    both = [expected_best_of(scores, graded_pool.worth, ks) for scores in (graded_pool.worth, chance)]
    failed = int((graded_pool.ungraded | ~graded_pool.answered).any(axis=1).sum())
    rows = estimates(averaged(graded_pool, np.hstack(both)), failed, range(2 * len(ks)))
    return rows[: len(ks)], rows[len(ks) :]


def majority_line(graded_pool: GradedPool, groups: IntArray, ks: Sequence[int]) -> list[Estimate]:
    """Return what the majority's answer is worth at each k; an item whose answers cannot vote earns 0, as failed."""
    failed = int((graded_pool.ungraded.any(axis=1) | (groups < 0).all(axis=1)).sum())
    return estimates(averaged(graded_pool, expected_majority(groups, graded_pool.worth, ks)), failed, range(len(ks)))


def averaged(graded_pool: GradedPool, values: FloatArray) -> ClusterMeans:
    """Return the means of columns over the items, as the benchmark's card averages them."""
    domains = [item.domain for item in graded_pool.items] if graded_pool.average == "macro" else None
    clusters, prompts = [item.cluster for item in graded_pool.items], [item.crossed for item in graded_pool.items]
    # Sums of rounded weights may pass 1 in the last bit; grades do not.
    return cluster_means(np.clip(values, 0.0, 1.0), clusters, strata=domains, crossed=prompts)


def estimates(means: ClusterMeans, failed: int, columns: Sequence[int]) -> list[Estimate]:
    """Return the columns as Estimates."""
    return [_estimate(share_interval(means, column), means, failed) for column in columns]


def failed_items(scores: FloatArray, graded_pool: GradedPool) -> int:
    """Return for how many items an answer, its score or its grade is missing."""
    return int((~np.isfinite(scores) | graded_pool.ungraded).any(axis=1).sum())


def _regret(means: ClusterMeans, oracle: int, column: int, failed: int) -> Estimate:
    """Return the oracle minus a column; no model is above the oracle, so the interval ends at 0."""
    regret = _difference(means, oracle, column, failed)
    return replace(regret, low=None if regret.low is None else max(0.0, regret.low))


def _difference(means: ClusterMeans, first: int, second: int, failed: int, *, level: float = 0.95) -> Estimate:
    return _estimate(difference_interval(means, first, second, level=level), means, failed)


def _estimate(interval: Interval, means: ClusterMeans, failed: int) -> Estimate:
    return Estimate(interval.value, interval.low, interval.high, int(means.held[:, 0].sum()), failed, interval.method)


def _fall(means: ClusterMeans, peak: int, failed: int, own: Sequence[float | None]) -> Estimate | None:
    """Return last minus peak; the peak was chosen by looking, so the interval holds for every k that it could be."""
    last = len(own) - 1
    high, low = own[last], own[peak]
    if peak == last or high is None or low is None or high <= low:
        return None
    drop = _difference(means, last, peak, failed, level=1 - 0.05 / last)
    return replace(drop, method=f"{drop.method}; lowest of {last} differences, Bonferroni")


def _at_most(scores: FloatArray, graded_pool: GradedPool, ks: Sequence[int]) -> list[float | None]:
    """Return the grade at each k if every failed grade were 1; None where none failed."""
    if not graded_pool.ungraded.any():
        return [None] * len(ks)
    return [float(mean) for mean in averaged(graded_pool, expected_best_of(scores, graded_pool.most, ks)).means]


def _own_scores(scores: FloatArray, ks: Sequence[int]) -> list[float | None]:
    """Return the mean score of the picks at each k, over the items without a failed one."""
    whole = scores[np.isfinite(scores).all(axis=1)]
    return [float(mean) for mean in expected_best_of(whole, whole, ks).mean(axis=0)] if len(whole) else [None] * len(ks)


_SCORES = "scores"


@dataclass(frozen=True, repr=False)
class BestOfN(Tabular):
    """Curves of several reward models on one pool, and the two lines between which they lie.

    `exact` is False where only the picks of the first k are graded: then there are neither lines nor regrets.
    """

    ks: tuple[int, ...]
    exact: bool
    curves: tuple[BestOfCurve, ...]
    oracle: tuple[Estimate, ...] = ()
    random: tuple[Estimate, ...] = ()
    majority: tuple[Estimate, ...] = ()
    """maj@k: what the most frequent boxed answer among k is worth; nothing where that is not applicable."""
    no_majority: str = ""
    """Why maj@k is not applicable."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Different answers whose grade failed, among those that the curves rest on, by kind."""
    notes: tuple[str, ...] = ()
    """That most answers have no grade; whose pairs policy or models were shown, where a chat model wrote them."""

    def records(self) -> list[Record]:
        """Return a row per model, condition and k: the grade of the picks with its interval, as shares of 1."""
        return [
            {
                "model": curve.model,
                "condition": curve.condition,
                "k": point.k,
                **flat("grade", point.grade),
                **flat("regret", point.regret),
                "kl": point.kl,
            }
            for curve in self.curves
            for point in curve.points
        ]

    @property
    def ungraded(self) -> int:
        """How many of the different answers have a grade that failed."""
        return sum(self.failures.values())


class PoolOptions(TypedDict, total=False):
    """How the answers of a pool are scored: as `score_cell` says."""

    settings: Settings | None
    on: Cluster | None
    progress: Callable[[Progress], None] | None


def score_pool(
    pool: Pool,
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    **options: Unpack[PoolOptions],
) -> Run:
    """Score every different answer of a pool once, resuming what is on disk beside it, and return the Run."""
    return score(pool_benchmark(pool, benchmark), model, condition, out=scores_folder(pool), **options)


def score_pool_shard(
    pool: Pool,
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    shard: Shard,
    **options: Unpack[PoolOptions],
) -> ShardProgress:
    """Score the answers to the items of one shard, and return how far it is."""
    bench = pool_benchmark(pool, benchmark)
    return score_shard(bench, model, condition, shard=shard, out=scores_folder(pool), **options)


def scores_folder(pool: Pool) -> Path:
    """Return where the scores of a pool are."""
    return Path(pool.folder) / _SCORES


def scored(pool: Pool, benchmark: Benchmark) -> list[Run]:
    """Return the complete runs over a pool that are on disk beside it, sorted by folder."""
    if not scores_folder(pool).is_dir():
        return []
    content = pool_benchmark(pool, benchmark).content_hash
    runs = load_runs([scores_folder(pool)])
    return [run for run in runs if run.complete and run.benchmark_hash == content]


def selected(pool: Pool, runs: Sequence[Run], ks: Sequence[int]) -> set[tuple[str, str]]:
    """Return the (item, answer) pairs that some model picks from the first k, for some k, or could have picked.

    An answer without a score counts as the worst that it could be, so its grade is needed too.
    """
    check_ks(ks, pool.n)
    pairs: set[tuple[str, str]] = set()
    for run in runs:
        table = score_table(pool, run)
        failed = np.where(np.isnan(table[:, : max(ks)]), np.arange(max(ks)), NONE)
        pairs |= pick_pairs(pool, np.hstack([first_picks(table, ks), failed]))
    return pairs


def best_of_n(
    pool: Pool,
    benchmark: Benchmark,
    runs: Sequence[Run],
    grades: Mapping[Key, Grade],
    *,
    ks: Sequence[int],
    exact: bool = True,
) -> BestOfN:
    """Return the curves of some runs over a pool; an answer that is needed and has no grade yet is a PoolError."""
    check_ks(ks, pool.n)
    ks = tuple(sorted(set(ks)))
    needed = _all(pool) if exact else selected(pool, runs, ks)
    graded = _needed(pool, needed, grades)
    table = _graded(pool, benchmark, graded)
    failures = Counter[str](grade.kind for grade in graded.values() if isinstance(grade, Failure))
    curve = exact_curve if exact else first_curve
    curves = [
        replace(
            curve((run.model, run.condition), score_table(pool, run), table, ks), shown_rubric="oracle" in run.reveals
        )
        for run in runs
    ]
    oracle, random = lines(table, ks) if exact else ([], [])
    majority, no_majority = _majority(pool, table, ks, exact=exact)
    ungraded = ungraded_message(failures, len(graded), "answers")
    notes = (
        *([f"UNGRADED: {ungraded}"] if ungraded else []),
        *_policy_notes(pool, benchmark),
        *synthesised_notes(runs),
    )
    return BestOfN(
        ks=ks,
        exact=exact,
        curves=tuple(curves),
        oracle=tuple(oracle),
        random=tuple(random),
        majority=tuple(majority),
        no_majority=no_majority,
        failures=dict(sorted(failures.items())),
        notes=notes,
    )


def _majority(pool: Pool, graded_pool: GradedPool, ks: Sequence[int], *, exact: bool) -> tuple[list[Estimate], str]:
    """Return maj@k, or why it is not applicable."""
    if not exact:
        return [], "only picks are graded"
    if pool.n > MOST:
        return [], f"more than {MOST:,} answers per item"
    groups = votes(pool)
    if (groups < 0).all():
        return [], "no answer of the pool holds a \\boxed{}"
    return majority_line(graded_pool, groups, ks), ""


def _policy_notes(pool: Pool, benchmark: Benchmark) -> list[str]:
    writers = written_pairs(benchmark.card, pool.reveals)
    return [f"SYNTHESISED: the policy was shown {writers}"] if writers else []


def _all(pool: Pool) -> set[tuple[str, str]]:
    return {(item, text) for item in pool.samples for text in pool.texts(item)}


def _needed(pool: Pool, needed: set[tuple[str, str]], grades: Mapping[Key, Grade]) -> dict[tuple[str, str], Grade]:
    """Return the grades that are needed; raise where some are missing: what happens to be graded is no pool."""
    graded = {pair: grade for pair in needed if (grade := grades.get(key(*pair))) is not None}
    if len(graded) < len(needed):
        raise PoolError(
            f"{pool.folder}: {len(needed) - len(graded):,} of {len(needed):,} answers that are needed have no grade; "
            "-g names who grades them, and --grade selected asks for those alone that some model picks"
        )
    return graded


def _graded(pool: Pool, benchmark: Benchmark, grades: Mapping[tuple[str, str], Grade]) -> GradedPool:
    """Return the tables of a pool; an answer without a grade is one that no model picks."""

    def table(worth: Callable[[Grade], float], missing: float = 0.0) -> FloatArray:
        values = {item: [worth(grades.get((item, text), 0.0)) for text in pool.texts(item)] for item in pool.samples}
        return spread_out(pool, values, missing)

    return GradedPool(
        items=tuple(items_of(pool, benchmark)),
        average=benchmark.card.average,
        worth=table(lambda grade: 0.0 if isinstance(grade, Failure) else grade),
        most=table(lambda grade: 1.0 if isinstance(grade, Failure) else grade),
        ungraded=table(lambda grade: float(isinstance(grade, Failure))) > 0,
        answered=table(lambda _: 1.0) > 0,
    )

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

import numpy as np

from pluralrm.core import Benchmark, Condition, Estimate, Failure, RewardModel, Run
from pluralrm.display import Record, Tabular
from pluralrm.errors import PoolError
from pluralrm.grading import Grade
from pluralrm.http import Settings
from pluralrm.metrics.estimates import synthesised_notes, written_pairs
from pluralrm.policies.curves import BestOfCurve, GradedPool, exact_curve, first_curve, lines, majority_line
from pluralrm.policies.grades import Key, key, ungraded_message
from pluralrm.policies.pool import Pool, items_of, pick_pairs, pool_benchmark, score_table, spread_out, votes
from pluralrm.runs import Progress, load_runs, score
from pluralrm.stats.best_of import MOST, NONE, check_ks, first_picks
from pluralrm.stats.clusters import FloatArray

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
                "grade": point.grade.value,
                "low": point.grade.low,
                "high": point.grade.high,
                "n": point.grade.n,
                "failed": point.grade.failed,
            }
            for curve in self.curves
            for point in curve.points
        ]

    @property
    def ungraded(self) -> int:
        """How many of the different answers have a grade that failed."""
        return sum(self.failures.values())


def score_pool(
    pool: Pool,
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    settings: Settings | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Score every different answer of a pool once, resuming what is on disk beside it, and return the Run."""
    asked, out = pool_benchmark(pool, benchmark), scores_folder(pool)
    return score(asked, model, condition, out=out, settings=settings, progress=progress)


def scores_folder(pool: Pool) -> Path:
    """Return where the scores of a pool are."""
    return Path(pool.folder) / _SCORES


def scored(pool: Pool, benchmark: Benchmark) -> list[Run]:
    """Return the complete runs over a pool that are on disk beside it, sorted by folder."""
    if not scores_folder(pool).is_dir():
        return []
    wanted = pool_benchmark(pool, benchmark).content_hash
    runs = load_runs([scores_folder(pool)])
    return [run for run in runs if run.complete and run.benchmark_hash == wanted]


def selected(pool: Pool, runs: Sequence[Run], ks: Sequence[int]) -> set[tuple[str, str]]:
    """Return the (item, answer) pairs that some model picks from the first k, for some k, or could have picked.

    An answer without a score counts as the worst that it could be, so its grade is needed too.
    """
    check_ks(ks, pool.n)
    found: set[tuple[str, str]] = set()
    for run in runs:
        table = score_table(pool, run)
        failed = np.where(np.isnan(table[:, : max(ks)]), np.arange(max(ks)), NONE)
        found |= pick_pairs(pool, np.hstack([first_picks(table, ks), failed]))
    return found


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
    known = _known(pool, needed, grades)
    given = _graded(pool, benchmark, known)
    failures = Counter[str](grade.kind for grade in known.values() if isinstance(grade, Failure))
    way = exact_curve if exact else first_curve
    curves = [
        replace(
            way((run.model, run.condition), score_table(pool, run), given, ks), shown_rubric="oracle" in run.reveals
        )
        for run in runs
    ]
    oracle, random = lines(given, ks) if exact else ([], [])
    majority, no_majority = _majority(pool, given, ks, exact=exact)
    ungraded = ungraded_message(failures, len(known), "answers")
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


def _majority(pool: Pool, given: GradedPool, ks: Sequence[int], *, exact: bool) -> tuple[list[Estimate], str]:
    """Return maj@k, or why it is not applicable."""
    if not exact:
        return [], "only picks are graded"
    if pool.n > MOST:
        return [], f"more than {MOST:,} answers per item"
    groups = votes(pool)
    if (groups < 0).all():
        return [], "no answer of the pool holds a \\boxed{}"
    return majority_line(given, groups, ks), ""


def _policy_notes(pool: Pool, benchmark: Benchmark) -> list[str]:
    told = written_pairs(benchmark.card, pool.reveals)
    return [f"SYNTHESISED: the policy was shown {told}"] if told else []


def _all(pool: Pool) -> set[tuple[str, str]]:
    return {(item, text) for item in pool.samples for text in pool.texts(item)}


def _known(pool: Pool, needed: set[tuple[str, str]], grades: Mapping[Key, Grade]) -> dict[tuple[str, str], Grade]:
    """Return the grades that are needed; raise where some are missing: what happens to be graded is no pool."""
    known = {one: grade for one in needed if (grade := grades.get(key(*one))) is not None}
    if len(known) < len(needed):
        raise PoolError(
            f"{pool.folder}: {len(needed) - len(known):,} of {len(needed):,} answers that are needed have no grade; "
            "-g names who grades them, and --grade selected asks for those alone that some model picks"
        )
    return known


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

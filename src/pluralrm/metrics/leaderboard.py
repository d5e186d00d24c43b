"""Runs on one benchmark side by side: ranks that the data leave open, differences, and uneven numbers of posts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from operator import attrgetter

import numpy as np

from pluralrm.core import Run
from pluralrm.display import Brief, JsonFields, Record, Tabular
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import (
    SIGNIFICANT,
    Difference,
    check_content,
    check_runs,
    name_run,
    paired_differences,
    some,
    unmatched_items,
)
from pluralrm.metrics.summary import Summary, summary
from pluralrm.metrics.units import decision, item_ids
from pluralrm.stats import RankInterval, rank_intervals
from pluralrm.stats.comparisons import alike
from pluralrm.text import counted


@dataclass(frozen=True, slots=True)
class UnevenPosts:
    """A condition under which models saw different numbers of a user's posts."""

    condition: str
    items: int
    """How many items were shown to some models with fewer posts than to others."""
    of: int
    mean_posts: tuple[tuple[str, float], ...]
    """Per model, the mean number of posts over all items; the fewest first."""

    def __str__(self) -> str:
        """Return the warning in one sentence, and what to do."""
        most = self.mean_posts[-1][1]
        fewer = [f"{model} {posts:.1f}" for model, posts in self.mean_posts if posts < most]
        rest = [model for model, posts in self.mean_posts if posts == most]
        others = rest[0] if len(rest) == 1 else "the others" if fewer else "all"
        models = ", ".join([*fewer, f"{others} {most:.1f}"])
        return (
            f"unequal inputs under {self.condition}: in {self.items:,} of {self.of:,} items some models saw fewer "
            f"posts (mean: {models}). Score them with one --max-prompt-tokens N, or with fewer posts"
        )

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return asdict(self) | {"mean_posts": dict(self.mean_posts)}


def uneven_posts(runs: Sequence[Run]) -> list[UnevenPosts]:
    """Return the conditions under which runs on the same items saw different numbers of posts, where that is known."""
    uneven = []
    for condition in dict.fromkeys(run.condition for run in runs):
        alike = [run for run in runs if run.condition == condition and not run.imported]
        if len({(item_ids(run), tuple(map(attrgetter("posts"), run.rows))) for run in alike}) < 2:
            continue
        seen = [{row.item: row.posts for row in run.rows if not row.open} for run in alike]
        shared = set.intersection(*(set(posts) for posts in seen))
        differ = sum(len({posts[item] for posts in seen}) > 1 for item in shared)
        if differ:
            means = [(run.model, sum(posts.values()) / len(posts)) for run, posts in zip(alike, seen, strict=True)]
            uneven.append(
                UnevenPosts(condition, differ, len(shared), tuple(sorted(means, key=lambda pair: (pair[1], pair[0]))))
            )
    return uneven


@dataclass(frozen=True, slots=True)
class PrecisionPair(JsonFields):
    """Two runs of one model that differ in dtype alone."""

    condition: str
    models: tuple[tuple[str, str], tuple[str, str]]
    """Spec and dtype of each."""
    differ: int
    """How many items are decided in another way."""
    of: int
    """How many items both have decided."""
    failed: int
    """How many more have failed in one of the runs alone."""

    def __str__(self) -> str:
        """Return the warning in one sentence."""
        first, second = (f"{model} ({dtype})" for model, dtype in self.models)
        failed = f"; {counted(self.failed, 'item')} failed in one of the runs alone" if self.failed else ""
        return (
            f"one model in two dtypes under {self.condition}: {first}, {second}. {self.differ:,} of {self.of:,} "
            f"decisions differ, by rounding alone{failed}"
        )


def precision_pairs(runs: Sequence[Run]) -> list[PrecisionPair]:
    """Return the pairs of runs on the same items, of one model under one condition, that differ in dtype alone."""
    pairs = []
    for run, other in combinations(runs, 2):
        if run.dtype == other.dtype or run.condition != other.condition or _bare(run.model) != _bare(other.model):
            continue
        decided = {row.item: decision(row) for row in other.rows}
        decisions = [(decision(row), decided[row.item]) for row in run.rows if row.item in decided]
        both = [(mine, turned) for mine, turned in decisions if mine and turned]
        failed = sum(bool(mine) != bool(turned) for mine, turned in decisions)
        models = ((run.model, run.dtype or "float32"), (other.model, other.dtype or "float32"))
        differ = sum(mine != turned for mine, turned in both)
        pairs.append(PrecisionPair(run.condition, models, differ, len(both), failed))
    return pairs


def _bare(model: str) -> str:
    """Return a spec without dtype and device."""
    return ",".join(part for part in model.split(",") if not part.startswith(("dtype=", "device=")))


@dataclass(frozen=True, slots=True, repr=False)
class Standing(Brief):
    """One run in the table. `p_best` is the adjusted p of its difference from the reference, for those below it.

    An unfinished run has no rank: what its open items would be is not known.
    """

    summary: Summary
    rank: RankInterval | None
    p_best: float | None

    @property
    def below_best(self) -> bool:
        """True when the run is significantly worse than the reference."""
        return self.p_best is not None and self.p_best < SIGNIFICANT

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        rank = self.rank and {"low": self.rank.low, "high": self.rank.high}
        return self.summary.to_json() | {"rank": rank, "p_best": self.p_best, "below_best": self.below_best}


@dataclass(frozen=True, repr=False)
class Leaderboard(Tabular, JsonFields):
    """Entries by headline, the best first; `differences` name their places in `entries` and run i < j, i minus j.

    Unfinished runs stand at the end, and in no difference: their open items count as failed, and nothing is claimed.
    The reference is the first entry that did not see the rubric: no run is worse for not having seen it.
    """

    in_json = ("benchmark", "benchmark_hash", "headline", "average", "reference", "entries", "differences")

    benchmark: str
    benchmark_hash: str
    headline: str
    average: str
    entries: tuple[Standing, ...]
    differences: tuple[Difference, ...]

    @property
    def reference(self) -> int:
        """The place of the entry that others are compared with; 0 where all saw the rubric."""
        return _reference([entry.summary for entry in self.entries])

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The largest sets of ranked entries in which no two differ significantly, the best first."""
        ranked = [index for index, entry in enumerate(self.entries) if entry.rank is not None]
        return alike(ranked, [(pair.first, pair.second) for pair in self.differences if pair.significant])

    def __str__(self) -> str:
        """Return one line per entry: ranks, model, condition, headline."""
        lines = [f"{self.benchmark}, {self.headline}"]
        for entry in self.entries:
            totals = entry.summary
            places = "open" if entry.rank is None else f"{entry.rank.low}-{entry.rank.high}"
            lines.append(f"{places:>7}  {totals.model:<24}  {totals.condition:<12}  {totals.metrics[self.headline]}")
        return "\n".join(lines)

    def records(self) -> list[Record]:
        """Return a row per run: ranks, the headline with its interval, the value of every other metric."""
        rows: list[Record] = []
        for entry in self.entries:
            totals, rank = entry.summary, entry.rank
            value = totals.metrics[self.headline]
            labels: Record = {"model": totals.model, "condition": totals.condition}
            ranks: Record = {"rank_low": rank.low if rank else None, "rank_high": rank.high if rank else None}
            numbers: Record = {self.headline: value.value, "low": value.low, "high": value.high}
            others: Record = {
                name: estimate.value for name, estimate in totals.metrics.items() if name != self.headline
            }
            rows.append({**ranks, **labels, **numbers, "n": value.n, "failed": value.failed, **others})
        names = dict.fromkeys(name for row in rows for name in row)
        return [{name: row.get(name) for name in names} for row in rows]


def leaderboard(runs: Sequence[Run], *, seed: int = 0) -> Leaderboard:
    """Return the runs ranked by headline. All must be on the same items of the same benchmark content.

    A rank interval holds every rank that the differences leave open, after Holm's adjustment over the pairs tested.
    """
    check_runs(runs)
    _check(runs)
    pairs = sorted(
        ((summary(run), run) for run in runs),
        key=lambda pair: (
            not pair[0].complete,
            -pair[0].metrics[pair[0].headline].value,
            pair[0].model,
            pair[0].condition,
        ),
    )
    ordered = [run for _, run in pairs]
    finished = sum(totals.complete for totals, _ in pairs)
    differences = paired_differences(ordered[:finished], seed=seed)
    p = np.ones((finished, finished))
    for difference in differences:
        p[difference.first, difference.second] = p[difference.second, difference.first] = difference.p_adjusted
    summaries = [totals for totals, _ in pairs]
    values = [totals.metrics[totals.headline].value for totals in summaries[:finished]]
    reference = _reference(summaries)
    entries = [
        Standing(totals, rank, float(p[reference, index]) if index > reference else None)
        for index, (totals, rank) in enumerate(
            zip(summaries[:finished], rank_intervals(values, p) if finished else [], strict=True)
        )
    ]
    entries += [Standing(totals, None, None) for totals in summaries[finished:]]
    first = ordered[0]
    return Leaderboard(
        first.benchmark,
        first.benchmark_hash,
        summaries[0].headline,
        first.card.average,
        tuple(entries),
        tuple(differences),
    )


def _reference(summaries: Sequence[Summary]) -> int:
    """Return the place of the first that did not see the rubric, among those that are finished."""
    return next((index for index, each in enumerate(summaries) if each.complete and "oracle" not in each.reveals), 0)


def _check(runs: Sequence[Run]) -> None:
    if not runs:
        raise MetricError("no runs; a leaderboard needs at least one.")
    check_content(runs)
    first = runs[0]
    for run in runs[1:]:
        if missing := unmatched_items(first, run):
            raise MetricError(
                f"{name_run(first)} and {name_run(run)} differ in {len(missing):,} items: {some(missing)}. "
                "Score both on the same items."
            )

"""What a metric averages: one value per item or per group of phrasings, with its cluster and domain.

One definition for two, three or four candidates; a failed item earns nothing. Ties share: the credit is 1 / number tied
at the top, so a scorer that says the same of every candidate earns what chance earns, and one that says nothing earns
0. `with_ties` reads a run by another rule: by `lose` a tie earns nothing, by `win` all, whatever the number of
candidates. A group of phrasings is the same request in three wordings, which should get the same ranking (RMGAP): its
rows carry the tags `record`, `group` and `phrasing`, and name their candidates in `candidate_ids`. A scorer whose
metric could not have come out differently has no interval: `structure` says so.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from numpy.typing import ArrayLike

from pluralrm.core import Failure, Row, Run, Ties
from pluralrm.errors import MetricError, did_you_mean
from pluralrm.stats import ClusterMeans, cluster_means


def with_ties(run: Run, rule: Ties) -> Run:
    """Return the run with equal scores counted by a rule; a number by another rule than `share` names it."""
    return replace(run, rows=tuple(replace(row, ties=rule) for row in run.rows))


def tie_rule(run: Run) -> Ties:
    """Return how equal scores count in a run."""
    return run.rows[0].ties if run.rows else "share"


def numbers(row: Row) -> list[float] | None:
    """Return the scores as numbers, or None where any of them is a Failure."""
    scores = [score for score in row.scores if not isinstance(score, Failure)]
    return scores if len(scores) == len(row.scores) else None


def top_credit(row: Row) -> float:
    """Return 1 / number tied at the top where the preferred candidate is among them, else 0; by the row's rule."""
    scores = numbers(row)
    if scores is None or scores[row.preferred] < max(scores):
        return 0.0
    tied = scores.count(max(scores))
    return 1 / tied if row.ties == "share" else float(tied == 1 or row.ties == "win")


def pair_credit(row: Row) -> float:
    """Return the mean over the other candidates of 1 where the preferred one is above, 0.5 where equal, 0 below.

    By the rule `lose` an equal one gives 0, by `win` 1.
    """
    scores = numbers(row)
    if scores is None:
        return 0.0
    winner = scores[row.preferred]
    others = scores[: row.preferred] + scores[row.preferred + 1 :]
    equal = _EQUAL[row.ties]
    return sum(1.0 if winner > other else equal if winner == other else 0.0 for other in others) / len(others)


_EQUAL: dict[Ties, float] = {"share": 0.5, "lose": 0.0, "win": 1.0}


def top_tied(row: Row) -> bool:
    """Return whether several candidates share the highest score; False for a failed item."""
    scores = numbers(row)
    return scores is not None and scores.count(max(scores)) > 1


def strictly_right(row: Row) -> bool:
    """Return whether the preferred candidate is above all others; False for a failed item."""
    scores = numbers(row)
    return scores is not None and scores[row.preferred] == max(scores) and scores.count(max(scores)) == 1


def pair_ties(row: Row) -> int:
    """Return how many of the other candidates have exactly the preferred one's score; 0 for a failed item."""
    scores = numbers(row)
    return 0 if scores is None else scores.count(scores[row.preferred]) - 1


CONSTANT = "every candidate of every item has the same score"
PROMPT_BLIND = "each candidate keeps one score over all prompts of its record"


def structure(rows: Sequence[Row]) -> str:
    """Return how the scores are fixed whatever is asked, in words, or nothing where they are not, or some failed."""
    scores = [numbers(row) for row in rows]
    if any(scored is None for scored in scores):
        return ""
    if all(scored is not None and len(set(scored)) == 1 for scored in scores):
        return CONSTANT
    return PROMPT_BLIND if _prompt_blind(rows) else ""


def fixed_share(rows: Sequence[Row]) -> str:
    """Return the same for a share of items won: there a prompt-blind scorer is fixed only in balanced clusters.

    That is, where each candidate of a cluster is the preferred one equally often, so that what one prompt gives
    another takes.
    """
    known = structure(rows)
    return known if known == CONSTANT or _balanced(rows) else ""


def _balanced(rows: Sequence[Row]) -> bool:
    for _, members in groupby(sorted(rows, key=lambda row: row.cluster), key=lambda row: row.cluster):
        cluster = list(members)
        wins = Counter(row.candidate_ids[row.preferred] for row in cluster if row.candidate_ids)
        names = {name for row in cluster for name in row.candidate_ids}
        if set(wins) != names or len(set(wins.values())) != 1:
            return False
    return True


def _prompt_blind(rows: Sequence[Row]) -> bool:
    seen: dict[tuple[str, str], object] = {}
    for row in rows:
        for name, score in zip(row.candidate_ids, row.scores, strict=bool(row.candidate_ids)):
            if seen.setdefault((row.cluster, name), score) != score:
                return False
    # One prompt per cluster shows nothing: a scorer that reads the prompt looks the same.
    return len(seen) < sum(len(row.candidate_ids) for row in rows)


PHRASINGS = 3
"""How many wordings a group has; a group that lacks one is neither consistent nor right in all."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group of phrasings: its name, and the rows that are there."""

    id: str
    rows: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        """True when no phrasing is missing and none failed."""
        return len(self.rows) == PHRASINGS and not any(row.failed for row in self.rows)

    @property
    def consistent(self) -> bool:
        """True when every phrasing has a strict ranking of the candidates, and all have the same one."""
        rankings = {strict_ranking(row) for row in self.rows}
        return self.complete and len(rankings) == 1 and None not in rankings

    @property
    def all_right(self) -> bool:
        """True when the preferred candidate is strictly above all others in every phrasing."""
        return self.complete and all(strictly_right(row) for row in self.rows)


def groups(rows: Sequence[Row]) -> list[Group]:
    """Return the groups in the order of their first row; a row without the three tags is an error."""
    by_group: dict[str, dict[str, Row]] = {}
    for row in rows:
        missing = [tag for tag in ("record", "group", "phrasing") if tag not in row.tags]
        if missing:
            raise MetricError(
                f"item {row.item!r} has no tag {missing[0]!r}; consistency needs record, group and phrasing."
            )
        if len(row.candidate_ids) != len(row.scores):
            raise MetricError(f"item {row.item!r} does not name its candidates; consistency compares them by name.")
        phrasings = by_group.setdefault(f"{row.tags['record']}/{row.tags['group']}", {})
        if row.tags["phrasing"] in phrasings:
            raise MetricError(f"item {row.item!r} repeats phrasing {row.tags['phrasing']!r} of its group.")
        phrasings[row.tags["phrasing"]] = row
    return [Group(name, tuple(phrasings.values())) for name, phrasings in by_group.items()]


def strict_ranking(row: Row) -> tuple[str, ...] | None:
    """Return the candidate ids from the highest score to the lowest; None where two are equal or one failed."""
    scores = numbers(row)
    if scores is None or len(set(scores)) < len(scores):
        return None
    return tuple(name for _, name in sorted(zip(scores, row.candidate_ids, strict=True), reverse=True))


@dataclass(frozen=True, slots=True)
class Units:
    """One value in [0, 1] per unit, and whether an item in it failed."""

    ids: tuple[str, ...]
    values: tuple[float, ...]
    clusters: tuple[str, ...]
    domains: tuple[str, ...]
    failed: tuple[bool, ...]
    prompts: tuple[str, ...] = ()
    """The prompt of each unit, where several clusters may share one; empty: none do."""

    def means(self, values: ArrayLike | None = None, *, macro: bool) -> ClusterMeans:
        """Return the mean over the units, or of columns of other `values`: clusters, prompts and domains are these."""
        return cluster_means(
            self.values if values is None else values,
            self.clusters,
            strata=self.domains if macro else None,
            crossed=self.prompts or None,
        )


@dataclass(frozen=True, slots=True)
class Metric:
    """How rows become units, and why the values could not have been different (in words; nothing where they could)."""

    units: Callable[[Sequence[Row]], Units]
    fixed: Callable[[Sequence[Row]], str]


def units(rows: Sequence[Row], metric: str) -> Units:
    """Return what `metric` averages over these rows; an unknown metric, or no rows, is an error."""
    if metric not in METRICS:
        raise MetricError(f"unknown metric {metric!r}.{did_you_mean(metric, METRICS)}")
    if not rows:
        raise MetricError(
            f"{metric} of no rows; the run has none yet. Score it: the same 'pluralrm score' command resumes it."
        )
    return METRICS[metric].units(rows)


def rows_by_domain(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each domain, domains sorted by name."""
    domains: dict[str, list[Row]] = {}
    for row in rows:
        domains.setdefault(row.domain, []).append(row)
    return dict(sorted(domains.items()))


def _per_item(value: Callable[[Row], float]) -> Callable[[Sequence[Row]], Units]:
    return lambda rows: Units(
        tuple(row.item for row in rows),
        tuple(value(row) for row in rows),
        tuple(row.cluster for row in rows),
        tuple(row.domain for row in rows),
        tuple(row.failed for row in rows),
        tuple(row.prompt for row in rows),
    )


def _per_group(value: Callable[[Group], float]) -> Callable[[Sequence[Row]], Units]:
    def average(rows: Sequence[Row]) -> Units:
        grouped = groups(rows)
        return Units(
            tuple(group.id for group in grouped),
            tuple(value(group) for group in grouped),
            tuple(group.rows[0].cluster for group in grouped),
            tuple(group.rows[0].domain for group in grouped),
            tuple(any(row.failed for row in group.rows) for group in grouped),
        )

    return average


def _never(rows: Sequence[Row]) -> str:
    """Return nothing: how often a model ties or fails is a fact about the model."""
    del rows
    return ""


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric(_per_item(top_credit), fixed_share),
    "bon": Metric(_per_item(top_credit), fixed_share),
    "pair": Metric(_per_item(pair_credit), fixed_share),
    "consistency": Metric(_per_group(lambda group: float(group.consistent)), structure),
    "all_phrasings": Metric(_per_group(lambda group: float(group.all_right)), fixed_share),
    "tie_rate": Metric(_per_item(lambda row: float(top_tied(row))), _never),
    "failure_rate": Metric(_per_item(lambda row: float(row.failed)), _never),
}
"""Every metric by its name. `bon` is accuracy under the name that RMGAP gives it."""

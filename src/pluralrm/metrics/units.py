"""What a metric averages: one value per item or per group of phrasings, with its cluster and domain.

One definition for any number of candidates, and of best ones among them; a failed item earns nothing. Ties share: the
credit is the share of the best among those tied at the top, so 1 / number tied where one is the best. A scorer that
says the same of every candidate earns what chance earns, and one that says nothing earns 0. `with_ties` reads a run by
another rule: by `lose` a tie of the best with others earns nothing, by `win` all. A group of phrasings is the same
request in three wordings, which should get the same ranking (RMGAP): its rows carry the tags `record`, `group` and
`phrasing`, and name their candidates in `candidate_ids`. A scorer whose metric could not have come out differently has
no interval: `structure` says so.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.core import Row, Run, Score, Ties
from pluralrm.errors import MetricError, did_you_mean
from pluralrm.labels import is_one_hot
from pluralrm.stats import ClusterMeans, cluster_means
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray, places_by

T = TypeVar("T")


def once(run: Run, key: Hashable, compute: Callable[[], T]) -> T:
    """Return what `compute` makes of a run, made once: a run never changes."""
    cache: dict[Hashable, object] = run.__dict__.setdefault("_known", {})
    if key not in cache:
        cache[key] = compute()
    return cast("T", cache[key])


def item_ids(run: Run) -> tuple[str, ...]:
    """Return the ids of the items, in the order of the rows, made once."""
    return once(run, "ids", lambda: tuple(map(attrgetter("item"), run.rows)))


def with_ties(run: Run, rule: Ties) -> Run:
    """Return the run with equal scores counted by a rule; a number by another rule than `share` names it."""
    if set(map(attrgetter("ties"), run.rows)) <= {rule}:
        return run
    return replace(run, rows=tuple(replace(row, ties=rule) for row in run.rows))


def tie_rule(run: Run) -> Ties:
    """Return how equal scores count in a run."""
    return run.rows[0].ties if run.rows else "share"


def numbers(row: Row) -> list[float] | None:
    """Return the scores as numbers, or None where any of them is a Failure."""
    return None if row.failed else cast("list[float]", list(row.scores))


def decision(row: Row) -> tuple[int, ...]:
    """Return the candidates with the highest score; none where the item failed."""
    if (scores := numbers(row)) is None:
        return ()
    highest = max(scores)
    return tuple(index for index, score in enumerate(scores) if score == highest)


def top_credit(row: Row) -> float:
    """Return which share of the candidates tied at the top is of the best grade; by the row's rule, all or none."""
    if row.failed:
        return 0.0
    scores = cast("tuple[float, ...]", row.scores)
    highest = max(scores)
    tied = scores.count(highest)
    if tied == 1:  # as nearly always
        return float(scores.index(highest) in row.best)
    right = sum(scores[index] == highest for index in row.best)
    return right / tied if row.ties == "share" else float(right == tied or (right > 0 and row.ties == "win"))


def by_chance(row: Row) -> float:
    """Return what a scorer that knows nothing earns on average: the share of the candidates of the best grade."""
    return len(row.best) / len(row.scores)


def pair_credit(row: Row) -> float:
    """Return the mean over the pairs whose grades differ: 1 where the better one is above, 0.5 where equal, 0 below.

    By the rule `lose` an equal one gives 0, by `win` 1.
    """
    scores = numbers(row)
    if scores is None:
        return 0.0
    above, equal, pairs = _concordance(scores, row.grades)
    return (above + _EQUAL[row.ties] * equal) / pairs


def _concordance(scores: Sequence[float], grades: Sequence[float]) -> tuple[int, int, int]:
    """Return in how many pairs of different grades the better one scores higher, in how many equal, and of how many."""
    score, grade = np.asarray(scores), np.asarray(grades)
    differ = grade[:, None] > grade
    above, equal = (score[:, None] > score)[differ], (score[:, None] == score)[differ]
    return int(above.sum()), int(equal.sum()), int(differ.sum())


_EQUAL: dict[Ties, float] = {"share": 0.5, "lose": 0.0, "win": 1.0}


def top_tied(row: Row) -> bool:
    """Return whether several candidates share the highest score; False for a failed item."""
    scores = numbers(row)
    return scores is not None and scores.count(max(scores)) > 1


def strictly_right(row: Row) -> bool:
    """Return whether only a candidate of the best grade is above all others; False for a failed item."""
    scores = numbers(row)
    return scores is not None and scores.count(max(scores)) == 1 and scores.index(max(scores)) in row.best


def pair_ties(row: Row) -> int:
    """Return how many pairs of different grades have exactly one score; 0 for a failed item."""
    scores = numbers(row)
    return 0 if scores is None else _concordance(scores, row.grades)[1]


def winner(row: Row) -> int:
    """Return the preferred candidate, where a question has no answer without a single one."""
    if row.preferred is None:
        raise MetricError(f"item {row.item!r} has several candidates of the best grade; wanted one that is preferred.")
    return row.preferred


CONSTANT = "every candidate of every item has the same score"
PROMPT_BLIND = "each candidate keeps one score over all prompts of its record"


def structure(rows: Sequence[Row]) -> str:
    """Return how the scores are fixed whatever is asked, in words, or nothing where they are not, or some failed."""
    if any(map(attrgetter("failed"), rows)):
        return ""
    if all(len(set(row.scores)) == 1 for row in rows):
        return CONSTANT
    return PROMPT_BLIND if _prompt_blind(rows) else ""


def structure_of(run: Run) -> str:
    """Return the structure of a run's rows, made once."""
    return once(run, structure, lambda: structure(run.rows))


def fixed_share(rows: Sequence[Row], kind: str) -> str:
    """Return the structure of rows if it fixes a share of items won: a prompt-blind scorer's in balanced clusters only.

    That is, where each candidate of a cluster is the preferred one equally often, so that what one prompt gives
    another takes.
    """
    return kind if kind == CONSTANT or (kind and _balanced(rows)) else ""


def _balanced(rows: Sequence[Row]) -> bool:
    for _, members in groupby(sorted(rows, key=lambda row: row.cluster), key=lambda row: row.cluster):
        cluster = list(members)
        if any(row.preferred is None for row in cluster):
            return False
        wins = Counter(row.candidate_ids[winner(row)] for row in cluster if row.candidate_ids)
        names = {name for row in cluster for name in row.candidate_ids}
        if set(wins) != names or len(set(wins.values())) != 1:
            return False
    return True


def _prompt_blind(rows: Sequence[Row]) -> bool:
    prompts = Counter(row.cluster for row in rows)
    seen: dict[str, dict[str, Score]] = {}
    for row in (row for row in rows if prompts[row.cluster] > 1):
        names = row.candidate_ids
        own = dict(zip(names, row.scores, strict=bool(names)))
        scores = seen.setdefault(row.cluster, own)
        differs = len(own) < len(names) or scores != own
        if differs and any(scores.setdefault(*pair) != pair[1] for pair in zip(names, row.scores, strict=False)):
            return False
    # One prompt per cluster shows nothing: a scorer that reads the prompt looks the same.
    return sum(map(len, seen.values())) < sum(len(row.candidate_ids) for row in rows if prompts[row.cluster] > 1)


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


def groups_of(run: Run) -> list[Group]:
    """Return the groups of a run, made once."""
    return once(run, "groups", lambda: groups(run.rows))


def strict_ranking(row: Row) -> tuple[str, ...] | None:
    """Return the candidate ids from the highest score to the lowest; None where two are equal or one failed."""
    if row.failed or len(set(row.scores)) < len(row.scores):
        return None
    order = sorted(zip(cast("tuple[float, ...]", row.scores), row.candidate_ids, strict=True), reverse=True)
    return tuple([name for _, name in order])


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

    def at(self, places: Sequence[int]) -> "Units":
        """Return the units at these places, in their order."""

        def take(column: tuple[T, ...]) -> tuple[T, ...]:
            return tuple(map(column.__getitem__, places)) if column else ()

        own = (take(self.ids), take(self.values), take(self.clusters), take(self.domains), take(self.failed))
        return Units(*own, take(self.prompts))

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
    """How rows become units, and why the values could not have been different (in words; nothing where they could).

    The latter goes by the rows and their structure.
    """

    units: Callable[[Sequence[Row]], Units]
    fixed: Callable[[Sequence[Row], str], str]
    value: Callable[[Row], float] | None = None
    """What a row has, where each is a unit."""


def units(rows: Sequence[Row], metric: str) -> Units:
    """Return what `metric` averages over these rows; an unknown metric, or no rows, is an error."""
    if metric not in METRICS:
        raise MetricError(f"unknown metric {metric!r}.{did_you_mean(metric, METRICS)}")
    if not rows:
        raise MetricError(
            f"{metric} of no rows; the run has none yet. Score it: the same 'pluralrm score' command resumes it."
        )
    return METRICS[metric].units(rows)


def units_of(run: Run, metric: str) -> Units:
    """Return what `metric` averages over all rows of a run, made once; metrics of items share all but the values."""
    value = METRICS[metric].value if metric in METRICS and run.rows else None
    if metric in _GROUPED and run.rows:
        return once(run, ("units", metric), lambda: _of_groups(groups_of(run), _GROUPED[metric]))
    if value is None:
        return once(run, ("units", metric), lambda: units(run.rows, metric))
    items = once(run, "items", lambda: _items(run.rows, (0.0,) * len(run.rows)))
    column, table = _TOP.get(metric), table_of(run)
    if column and table and (table.one_hot or metric != "pair"):
        return once(run, ("units", metric), lambda: replace(items, values=tuple(column(table).tolist())))
    return once(run, ("units", metric), lambda: replace(items, values=tuple(map(value, run.rows))))


class ScoreTable(NamedTuple):
    """The scores of rows of the usual kind (n, k), which share the highest of their row, and the preferred places."""

    scores: FloatArray
    top: BoolArray
    preferred: IntArray
    one_hot: bool
    """Whether no grades say more than which candidate is preferred."""

    @property
    def tied(self) -> IntArray:
        """How many candidates of each row share the highest score."""
        tied: IntArray = self.top.sum(axis=1)
        return tied

    @property
    def credit(self) -> FloatArray:
        """`top_credit` of each row."""
        return self.shares[np.arange(len(self.top)), self.preferred]

    @property
    def pairs(self) -> FloatArray:
        """`pair_credit` of each row, where grades are one-hot."""
        own = self.scores[np.arange(len(self.top)), self.preferred][:, None]
        above, equal = (own > self.scores).sum(axis=1), (own == self.scores).sum(axis=1) - 1
        credit: FloatArray = (above + _EQUAL["share"] * equal) / (self.scores.shape[1] - 1)
        return credit

    @property
    def shares(self) -> FloatArray:
        """What each candidate would earn were it the preferred one."""
        return np.where(self.top, 1 / self.tied[:, None], 0.0)


def table_of(run: Run) -> ScoreTable | None:
    """Return the table of all rows of a run, made once."""
    return once(run, "table", lambda: score_table(run.rows))


def score_table(rows: Sequence[Row]) -> ScoreTable | None:
    """Return the scores of all rows at once where each is of the usual kind; None where one is not.

    That is as many scores in each, none failed, one candidate preferred, ties that share.
    """
    preferred, scores = list(map(attrgetter("preferred"), rows)), list(map(attrgetter("scores"), rows))
    usual = None not in preferred and not any(map(attrgetter("failed"), rows)) and len(set(map(len, scores))) == 1
    if not usual or set(map(attrgetter("ties"), rows)) != {"share"}:
        return None
    values = np.array(scores, dtype=np.float64)
    one_hot = values.shape[1] > 1 and all(map(is_one_hot, set(map(attrgetter("grades"), rows))))
    return ScoreTable(values, values == values.max(axis=1, keepdims=True), np.array(preferred), one_hot)


def units_by_domain(run: Run, metric: str) -> dict[str, Units]:
    """Return the units of each domain, of a metric of items: groups may lie in several domains."""
    if METRICS[metric].value is None:
        return {}
    whole = units_of(run, metric)
    return {domain: whole.at(places) for domain, places in places_by(whole.domains).items()}


def rows_by_domain(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each domain, domains sorted by name."""
    domain = attrgetter("domain")
    return {name: list(members) for name, members in groupby(sorted(rows, key=domain), key=domain)}


def _items(rows: Sequence[Row], values: tuple[float, ...]) -> Units:
    ids, clusters, domains, failed, prompts = (tuple(map(take, rows)) for take in _PARTS)
    return Units(ids, values, clusters, domains, failed, prompts)


_PARTS = tuple(map(attrgetter, ("item", "cluster", "domain", "failed", "prompt")))


def _per_item(value: Callable[[Row], float], fixed: Callable[[Sequence[Row], str], str]) -> Metric:
    return Metric(lambda rows: _items(rows, tuple(map(value, rows))), fixed, value)


def _of_groups(grouped: Sequence[Group], value: Callable[[Group], float]) -> Units:
    return Units(
        tuple(group.id for group in grouped),
        tuple(map(value, grouped)),
        tuple(group.rows[0].cluster for group in grouped),
        tuple(group.rows[0].domain for group in grouped),
        tuple(any(row.failed for row in group.rows) for group in grouped),
        tuple("\0".join(filter(None, (row.prompt for row in group.rows))) for group in grouped),
    )


def _per_group(metric: str, fixed: Callable[[Sequence[Row], str], str]) -> Metric:
    return Metric(lambda rows: _of_groups(groups(rows), _GROUPED[metric]), fixed)


def _ranking(_rows: Sequence[Row], kind: str) -> str:
    return kind


def _never(_rows: Sequence[Row], _kind: str) -> str:
    """Return nothing: how often a model ties or fails is a fact about the model."""
    return ""


_TOP: Mapping[str, Callable[[ScoreTable], FloatArray]] = {
    **dict.fromkeys(("accuracy", "bon"), lambda table: table.credit),
    "pair": lambda table: table.pairs,
    "tie_rate": lambda table: (table.tied > 1).astype(np.float64),
}
"""What is read off the scores of all rows at once."""
_GROUPED: Mapping[str, Callable[[Group], float]] = {
    "consistency": lambda group: float(group.consistent),
    "all_phrasings": lambda group: float(group.all_right),
}
"""What a group of phrasings has."""
METRICS: Mapping[str, Metric] = {
    "accuracy": _per_item(top_credit, fixed_share),
    "bon": _per_item(top_credit, fixed_share),
    "pair": _per_item(pair_credit, fixed_share),
    "consistency": _per_group("consistency", _ranking),
    "all_phrasings": _per_group("all_phrasings", fixed_share),
    "tie_rate": _per_item(lambda row: float(top_tied(row)), _never),
    "failure_rate": _per_item(lambda row: float(row.failed), _never),
}
"""Every metric by its name. `bon` is accuracy under the name that RMGAP gives it."""

"""Does a model judge for *this* prompt? What stands in for personalization where a benchmark has prompts, not posts.

RMGAP has four answers per record and prompts that each want one of them. So the control for a prompt is another
prompt of the same record, and one run tells all. docs/personalization.md has the formulas with a worked example.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pluralrm.core import Estimate, Row, Run
from pluralrm.display import Brief, JsonFields, json_fields
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import RunItems, items_of, paired
from pluralrm.metrics.estimates import FIXED, ByTag, by_tag, remark
from pluralrm.metrics.units import CONSTANT, decision, groups_of, structure_of, winner
from pluralrm.stats import Interval, cluster_means, difference_interval, share_interval
from pluralrm.stats.clusters import FloatArray, codes, places_by

_WINNER = "winner:"
"""What tags that give a style of the preferred candidate begin with."""
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Pick(JsonFields):
    """How often a model's best candidate has one level of style, where that level stands to choose.

    Over the prompts for which some of the candidates have the level and others do not. `offered` is the share of
    candidates that have it, which is what chance picks; a failed item picks nothing. The interval of `excess`, picked
    minus offered, holds for all levels of all dimensions at once (Bonferroni).
    """

    in_json = ("dimension", "level", "picked", "offered", "excess", "favoured", "avoided")

    dimension: str
    level: str
    picked: Estimate
    offered: Estimate
    excess: Estimate

    @property
    def favoured(self) -> bool:
        """True when the level is picked more often than it is offered."""
        return self.excess.low is not None and self.excess.low > 0

    @property
    def avoided(self) -> bool:
        """True when the level is picked less often than it is offered."""
        return self.excess.high is not None and self.excess.high < 0


@dataclass(frozen=True, slots=True, repr=False)
class PromptUse(Brief):
    """What one run shows of how a model uses the prompt.

    `sensitivity` is what the winner of a prompt earns there minus what it earns under the prompts of the record's
    other groups: exactly 0 for a model that does not read the prompt, 1 for one that is always right. `one_favourite`
    is the share of records in which every prompt has one and the same candidate strictly on top. `styles` has the
    accuracy by the winner's level in each dimension, `picks` what the model itself picks, the most favoured first;
    both are empty where rows have no `winner:` tags.
    """

    model: str
    benchmark: str
    condition: str
    sensitivity: Estimate
    one_favourite: Estimate
    styles: Mapping[str, ByTag]
    picks: tuple[Pick, ...]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        head = json_fields(self, "model", "benchmark", "condition") | {"prompt_sensitivity": self.sensitivity.to_json()}
        return head | json_fields(self, "one_favourite", "styles", "picks")


def prompt_use(run: Run) -> PromptUse:
    """Return how a model uses the prompt; rows without record, group and phrasing, or an incomplete run, are errors."""
    side, reason = _phrasings(run)
    macro = run.card.average == "macro"
    dimensions = sorted({tag for row in side.rows for tag in row.tags if tag.startswith(_WINNER)})
    return PromptUse(
        run.model,
        run.benchmark,
        run.condition,
        prompt_sensitivity(run),
        _one_favourite(side, reason, macro=macro),
        {tag.removeprefix(_WINNER): by_tag(run, tag, "bon") for tag in dimensions},
        _picks(side, dimensions, reason),
    )


def prompt_sensitivity(run: Run) -> Estimate:
    """Return the `sensitivity` of `prompt_use` alone; the same runs are errors."""
    side, reason = _phrasings(run)
    macro = run.card.average == "macro"
    means = side.means(_own_and_others(side), macro=macro)
    interval = difference_interval(means, 0, 1)
    if reason and abs(interval.value) < 1e-9:
        interval = Interval(0.0, None, None, f"{FIXED}: {reason}")
    return paired(interval, side, scope=_scope(side, "mean over prompts", macro=macro))


def _phrasings(run: Run) -> tuple[RunItems, str]:
    """Return the items of a run whose rows are phrasings of prompts, sorted, and why its scores are fixed, if so."""
    name = f"{run.model} under {run.condition}"
    if not run.rows:
        raise MetricError(f"{name} has no rows yet. Resume it, or leave it out.")
    if unfinished := remark(run):
        raise MetricError(f"{name} is {unfinished}. Resume it: a prompt is judged by the other prompts of its record.")
    groups_of(run)  # raises where a row does not say which group it belongs to
    return items_of(run), structure_of(run)


def _own_and_others(side: RunItems) -> FloatArray:
    """Return (n, 2): what the winner of each prompt earns there, and its mean under the record's other groups."""
    rows = side.rows
    sizes = np.array([len(row.candidate_ids) for row in rows])
    earned = side.table.shares.ravel() if side.table else np.array([share for row in rows for share in _shares(row)])
    names = codes([name for row in rows for name in row.candidate_ids])
    records, group = (codes([row.tags[tag] for row in rows]) for tag in ("record", "group"))
    # A line for each answer of a record, and in it what that answer earns under each prompt, in order.
    _, line = np.unique(np.repeat(records, sizes) * (names.max() + 1) + names, return_inverse=True)
    order = np.argsort(line, kind="stable")
    starts = np.flatnonzero(np.diff(line[order], prepend=-1))
    column = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    shares, of_group = np.zeros((len(starts), column.max() + 1)), np.full((len(starts), column.max() + 1), -1)
    shares[line[order], column], of_group[line[order], column] = earned[order], np.repeat(group, sizes)[order]
    own = np.cumsum(sizes) - sizes + np.array(list(map(winner, rows)))
    others = (of_group[line[own]] != group[:, None]) & (of_group[line[own]] >= 0)
    if not others.any(axis=1).all():
        record = rows[int(np.argmin(others.any(axis=1)))].tags["record"]
        raise MetricError(f"record {record!r} has one group of prompts; wanted two or more.")
    # Summed from the first to the last: another order has other last digits.
    total = np.where(others, shares[line[own]], 0.0).cumsum(axis=1)[:, -1]
    return np.column_stack([earned[own], total / others.sum(axis=1)])


def _shares(row: Row) -> list[float]:
    """Return what each candidate earns, whichever is preferred: 1 / number tied at the top, else 0.

    A failed item counts as one that is wrong: its winner earns nothing and the others share what there is.
    So failing on the prompts that a model would get wrong gains nothing.
    """
    top = list(decision(row)) or [index for index in range(len(row.scores)) if index not in row.best]
    return [(index in top) / len(top) for index in range(len(row.scores))]


def _one_favourite(side: RunItems, reason: str, *, macro: bool) -> Estimate:
    records = [side.part(places) for places in _records(side).values()]
    values = [_same_favourite(record.rows) for record in records]
    firsts = RunItems(tuple(record.rows[0] for record in records), side.note)
    prompts = ["\0".join(record.prompts) if any(record.prompts) else "" for record in records]
    means = cluster_means(values, firsts.clusters, strata=firsts.domains if macro else None, crossed=prompts)
    interval = share_interval(means)
    if reason and len(set(values)) == 1:
        interval = interval._replace(low=None, high=None, method=f"{FIXED}: {reason}")
    estimate = paired(interval, firsts, scope=_scope(firsts, "mean over records", macro=macro))
    return replace(estimate, failed=sum(bool(record.failed.any()) for record in records))


def _same_favourite(rows: Sequence[Row]) -> float:
    """Return 1 where one candidate is strictly on top in every row; a tie at the top or a failure makes it 0."""
    tops = list(map(decision, rows))
    favourites = {row.candidate_ids[top[0]] for row, top in zip(rows, tops, strict=True) if top}
    return float(len(favourites) == 1 and all(len(top) == 1 for top in tops))


@dataclass(frozen=True, slots=True)
class _Choice:
    """The prompts where one level stands to choose, and which share of the best, and of all candidates, has it."""

    dimension: str
    level: str
    side: RunItems
    shares: Sequence[tuple[float, float]]


def _picks(side: RunItems, dimensions: Sequence[str], reason: str) -> tuple[Pick, ...]:
    """Return a Pick for every level that stands to choose, by excess, the greatest first."""
    tops = list(map(decision, side.rows))
    choices = [choice for tag in dimensions for choice in _choices(side, tag, tops)]
    picks = [_pick(choice, len(choices), constant=reason == CONSTANT) for choice in choices]
    return tuple(sorted(picks, key=lambda pick: (-pick.excess.value, pick.dimension, pick.level)))


def _choices(side: RunItems, tag: str, tops: Sequence[Sequence[int]]) -> list[_Choice]:
    levels = _levels(side.rows, tag)
    members: dict[str, list[Row]] = {level: [] for level in sorted(set(levels.values()))}
    shares: dict[str, list[tuple[float, float]]] = {level: [] for level in members}
    for row, best in zip(side.rows, tops, strict=True):
        record = row.tags["record"]
        offered = [levels[record, name] for name in row.candidate_ids]
        different = set(offered)
        top = [offered[index] for index in best]
        for level in different if len(different) > 1 else ():
            members[level].append(row)
            shares[level].append((top.count(level) / max(len(top), 1), offered.count(level) / len(offered)))
    dimension = tag.removeprefix(_WINNER)
    return [
        _Choice(dimension, level, RunItems(tuple(rows), side.note), shares[level])
        for level, rows in members.items()
        if rows
    ]


def _levels(rows: Sequence[Row], tag: str) -> dict[tuple[str, str], str]:
    """Return the level of each candidate of each record: it stands in the tags of the group that the candidate wins."""
    levels = {(row.tags["record"], row.candidate_ids[winner(row)]): row.tags.get(tag, "") for row in rows}
    for row in rows:
        record = row.tags["record"]
        for name in row.candidate_ids:
            if not levels.get((record, name)):
                raise MetricError(f"item {row.item!r}: {name!r} wins no prompt of its record that has the tag {tag!r}.")
    return levels


def _pick(choice: _Choice, family: int, *, constant: bool) -> Pick:
    """Return the Pick. What is offered is known, so the interval of the excess is that of what is picked, moved."""
    means = choice.side.means(choice.shares, macro=False)
    share = float(means.means[1])
    rate, wide = share_interval(means, 0), share_interval(means, 0, level=1 - _ALPHA / family)
    low, high = (None if end is None else end - share for end in (wide.low, wide.high))
    excess = Interval(rate.value - share, low, high, f"{wide.method}, Bonferroni over {family} levels")
    offered = Interval(share, None, None, f"{FIXED}: the share of candidates that have the level")
    if constant:
        rate = rate._replace(low=None, high=None, method=f"{FIXED}: {CONSTANT}")
        excess = Interval(0.0, None, None, f"{FIXED}: {CONSTANT}")
    estimates = (paired(interval, choice.side, scope="mean over prompts") for interval in (rate, offered, excess))
    return Pick(choice.dimension, choice.level, *estimates)


def _records(side: RunItems) -> dict[str, list[int]]:
    return places_by([row.tags["record"] for row in side.rows])


def _scope(side: RunItems, plain: str, *, macro: bool) -> str:
    return f"macro {plain} in {len(set(side.domains))} domains" if macro else plain

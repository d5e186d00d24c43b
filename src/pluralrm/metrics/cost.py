"""What personalization costs: the same model on a general benchmark with no user, with a user's posts, with another's.

The users are lent (`conditions.loans.lend_users`) and no label is theirs: a model that is distracted by posts loses
accuracy. That nothing changes is a claim of its own, with two one-sided tests (Schuirmann 1987) within a margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pluralrm.conditions.loans import LENT
from pluralrm.core import Estimate, Run
from pluralrm.display import Brief, json_fields
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import ALIKE, paired_difference, together
from pluralrm.metrics.estimates import headline, measure, remark
from pluralrm.metrics.roles import Roles, roles
from pluralrm.stats import ClusterMeans
from pluralrm.stats.intervals import difference_interval
from pluralrm.text import bounds, correlation_p, points

MARGIN = 0.02
"""Two points: what 3,000 items show in nine of ten studies where posts flip one decision in ten and cost nothing."""
ALPHA = 0.05
CostVerdict = Literal["equivalent", "lower", "higher", "inconclusive", "unfinished"]


@dataclass(frozen=True, slots=True, repr=False)
class PersonalizationCost(Brief):
    """A model on a general benchmark with lent users: accuracy without a user, and its change with a user's posts.

    `p` is the larger p of two one-sided tests, None without an interval and of unfinished runs; `other` the change with
    another's posts.
    """

    model: str
    condition: str
    benchmark: str
    without: Estimate
    change: Estimate
    other: Estimate | None
    p: float | None
    margin: float
    unfinished: str = ""

    @property
    def verdict(self) -> CostVerdict:
        """Equivalent within the margin; else lower or higher where the 95% interval says so; else inconclusive."""
        low, high = self.change.low, self.change.high
        if self.unfinished:
            return "unfinished"
        if self.p is not None and self.p < ALPHA:
            return "equivalent"
        if high is not None and high < 0:
            return "lower"
        return "higher" if low is not None and low > 0 else "inconclusive"

    def sentence(self, name: str = "") -> str:
        """Return what is said of the model, under the name that a table gives it."""
        name, margin = name or self.model, f"±{100 * self.margin:g} points"
        change = f"{points(self.change)}{bounds(self.change)} points"
        if self.verdict == "unfinished":
            return f"{name} is {self.unfinished}: run the same command again."
        if ALIKE in self.change.method:
            return f"{name}: no cost on {self.benchmark}: a user's posts change no score."
        if self.verdict == "equivalent":
            test = f"within {margin} (p {correlation_p(self.p or 0.0)})"
            return f"{name}: a user's posts change accuracy on {self.benchmark} by {change}: {test}."
        if self.verdict in {"lower", "higher"}:
            word = "cost" if self.verdict == "lower" else "add"
            return f"{name}: a user's posts {word} accuracy on {self.benchmark}: {change}."
        return (
            f"{name}: neither a change of accuracy on {self.benchmark} nor equivalence within {margin} is significant: "
            f"{change}, {self.change.n:,} items."
        )

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        numbers = json_fields(self, "model", "condition", "benchmark", "without", "change", "other")
        tested = {"p_equivalence": self.p, **json_fields(self, "margin", "verdict")}
        return {**numbers, **tested, "sentence": self.sentence()}


def on_general(run: Run) -> bool:
    """Return whether a run is on a general benchmark whose records are asked by lent users."""
    return run.card.cluster == LENT


def personalization_costs(runs: Sequence[Run], *, margin: float = MARGIN, seed: int = 0) -> list[PersonalizationCost]:
    """Return what each model's own conditions cost, of runs on a general benchmark with lent users; others are skipped.

    A model without a run under `none` is left out. Failed and open items are wrong, with posts and without.
    """
    if not 0 < margin < 1:
        raise MetricError(f"margin: found {margin:g}, wanted a share between 0 and 1, such as {MARGIN:g} for 2 points")
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if on_general(run) and run.done:
            groups.setdefault(run.benchmark_hash, []).append(run)
    every = [each for group in groups.values() for each in roles(group, unfinished=True)]
    return [_cost(each, margin, seed) for each in every if "none" in each.controls]


def _cost(each: Roles, margin: float, seed: int) -> PersonalizationCost:
    own, without = each.own, each.controls["none"]
    change = paired_difference(own, without, seed=seed).difference
    parts = together([own, without], headline(own))
    means = parts[0].means(np.array([part.values for part in parts]).T, macro=own.card.average == "macro")
    swapped, unfinished = each.controls.get("swapped"), remark(own) or remark(without)
    return PersonalizationCost(
        own.model,
        own.condition,
        own.benchmark,
        measure(without),
        change,
        None if swapped is None else paired_difference(swapped, without, seed=seed).difference,
        None if unfinished else 0.0 if ALIKE in change.method else equivalence_p(means, margin),
        margin,
        unfinished,
    )


def equivalence_p(means: ClusterMeans, margin: float) -> float | None:
    """Return the larger p of two one-sided tests that the first mean minus the second lies within the margin.

    None where there is no interval.
    """
    if difference_interval(means, 0, 1).low is None:
        return None
    return max(p_below(means, 0, 1, margin), p_below(means, 1, 0, margin))


def p_below(means: ClusterMeans, first: int, second: int, bound: float) -> float:
    """Return the one-sided p of the difference of two means being below a bound, by the interval that ends there."""
    value = float(means.means[first] - means.means[second])
    least, most = 0.0, 1.0
    for _ in range(50):
        level = (least + most) / 2
        low, high = difference_interval(means, first, second, level=level)[1:3]
        reaches = high is None or low is None or not low < bound < high
        least, most = (level, most) if reaches else (least, level)
    return (1 - least) / 2 if value < bound else (1 + least) / 2

"""One benchmark against one downstream result: the numbers, the sentences about them, and what warns of them.

The warnings: a correlation that hangs on a few models or on a mixture of groups that differ; and the reversals, the
pairs in which the model that ranks lower does better downstream, which would refute the benchmark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pluralrm.correlate.columns import Column, complete, scores_of
from pluralrm.correlate.measures import ENOUGH, Correlation, Name, findings
from pluralrm.display import Brief, JsonFields
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.comparisons import holm, sign_flip_p
from pluralrm.stats.ranking import pearson, permutation_test, spearman, top_regret
from pluralrm.text import correlation, correlation_p

_MOST = 3
_LEFT = 5
"""So many models must be left when some are taken away."""
_TRIED = 30
"""All threes of 30 models are 4,060; of 300 models they would be 4 million."""
_WORTH = 0.3
"""A Pearson nearer to 0 is carried by nothing."""


@dataclass(frozen=True, slots=True)
class Leverage(JsonFields):
    """Some models, and Pearson's correlation without them: less than half of what it was, or of the other sign."""

    models: tuple[str, ...]
    without: float


@dataclass(frozen=True, slots=True)
class GroupCorrelation(JsonFields):
    """Both correlations inside one group of models, and Spearman's permutation p."""

    group: str
    n: int
    pearson: float
    spearman: float
    p: float


def leverages(x: FloatArray, y: FloatArray, models: Sequence[str]) -> list[Leverage]:
    """Return the one model, and the few, that carry Pearson's correlation most; nothing where none do.

    The few are three, or a quarter of all models where those are fewer.
    """
    whole = float(pearson(x[None], y[None])[0])
    few = min(_MOST, len(x) // 4, len(x) - _LEFT)
    if abs(whole) < _WORTH or few < 1:
        return []
    leverages = []
    for size in sorted({1, few}):
        out, left = _heaviest(x, y, size, np.sign(whole))
        if left < abs(whole) / 2:
            leverages.append(Leverage(tuple(models[index] for index in out), left * float(np.sign(whole))))
    return leverages


def _heaviest(x: FloatArray, y: FloatArray, size: int, sign: float) -> tuple[tuple[int, ...], float]:
    """Return the places without which the correlation (in the direction of `sign`) is lowest, and how low that is."""
    sets = list(combinations(_candidates(x, y, sign), size))
    rest = np.array([[index for index in range(len(x)) if index not in out] for out in sets])
    left = np.nan_to_num(sign * pearson(x[rest], y[rest]), nan=1.0)
    lowest = int(left.argmin())
    return sets[lowest], float(left[lowest])


def _candidates(x: FloatArray, y: FloatArray, sign: float) -> list[int]:
    """Return, in order, the places of the models that lower the correlation most by leaving alone: _TRIED at most."""
    rest = np.array([[index for index in range(len(x)) if index != out] for out in range(len(x))])
    left = np.nan_to_num(sign * pearson(x[rest], y[rest]), nan=1.0)
    return sorted(np.argsort(left, kind="stable")[:_TRIED].tolist())


def by_group(
    x: FloatArray, y: FloatArray, models: Sequence[str], groups: Mapping[str, str], *, seed: int = 0
) -> list[GroupCorrelation]:
    """Return the correlations inside each group with three models or more in which both scores vary."""
    rows = []
    for group in dict.fromkeys(groups[model] for model in models if model in groups):
        inside = np.array([groups.get(model) == group for model in models])
        a, b = x[inside], y[inside]
        if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
            continue
        both = (float(pearson(a[None], b[None])[0]), float(spearman(a[None], b[None])[0]))
        rows.append(GroupCorrelation(group, len(a), *both, permutation_test(spearman, a, b, seed=seed).p))
    return rows


def turns(groups: Sequence[GroupCorrelation]) -> bool:
    """Return whether one group's correlation is above 0 and another's below, in Pearson's or in Spearman's."""
    sides = [[group.pearson for group in groups], [group.spearman for group in groups]]
    return any(side and min(side) < 0 < max(side) for side in sides)


SIGNIFICANT = 0.05
_COUNTS = {2: "Two", 3: "Three"}


def verdict(names: tuple[str, str], measures: Mapping[Name, Correlation], p: float, *, family: int) -> str:
    """Return the sentence; `p` is that of Spearman's correlation, adjusted over a family of pairs of columns."""
    benchmark, downstream = names
    rank, pairs = measures["spearman"], measures["agreement"]
    estimate, n = rank.estimate, rank.estimate.n
    if p < SIGNIFICANT:
        says = f"{benchmark} predicts the ranking by {downstream}"
        says = says if estimate.value > 0 else f"{says} turned round: what it ranks high does worse"
    else:
        says = f"{benchmark} does not significantly predict the ranking by {downstream}"
    holm = f", Holm over {family} pairs of columns" if family > 1 else ""
    numbers = f"Spearman {correlation(estimate.value)}{_interval(rank)}, p {below(p)}{holm}, {n} models"
    alike = f"it orders {100 * pairs.estimate.value:.0f}% of the pairs alike{_percent(pairs)}, where chance gets 50%"
    return f"{says} ({numbers}): {alike}. {_sure(rank, p)}"


def _sure(rank: Correlation, p: float) -> str:
    rho = rank.estimate
    if rho.n < ENOUGH:
        return f"{rho.n} models are too few to speak of others: with fewer than {ENOUGH} almost nothing can be shown."
    if rho.low is None or rho.high is None:
        return f"How sure that is cannot be said: {rho.method.removeprefix('no interval: ')}."
    between = f"{correlation(rho.low)} and {correlation(rho.high)}"
    others = f"Studies of {rho.n} models drawn alike show between {between} on average."
    if (p < SIGNIFICANT) == (rho.low <= 0 <= rho.high):
        return f"{others} Interval and p disagree: take it as open."
    return others


def carried_by(pearson: float, leverages: Sequence[Leverage]) -> str:
    """Return the warning that a few models carry Pearson's correlation."""
    most = len(leverages[-1].models)
    who = "One model carries" if most == 1 else f"{_COUNTS[most]} models carry"
    turned = ("turns" if leverage.without * pearson < 0 else "falls" for leverage in leverages)
    without = "; ".join(
        f"without {', '.join(leverage.models)} it {turn} to {correlation(leverage.without)}"
        for leverage, turn in zip(leverages, turned, strict=True)
    )
    return f"{who} the Pearson of {correlation(pearson)}: {without}. Read the rank correlations."


def inside_groups(groups: Sequence[GroupCorrelation]) -> str:
    """Return what holds inside the groups, and whether the sign turns between them."""
    listing = "; ".join(
        f"{group.group}: Pearson {correlation(group.pearson)}, Spearman {correlation(group.spearman)} "
        f"({group.n} models, p {below(group.p)})"
        for group in groups
    )
    return f"The sign turns between groups. {listing}." if turns(groups) else f"Inside groups: {listing}."


def too_few(n: int, items: int) -> str:
    """Return the warning below ENOUGH models."""
    what = "only items are resampled, and intervals are about these models only" if items else "there is no interval"
    return f"{n} models, fewer than {ENOUGH}: {what}."


def below(p: float) -> str:
    """Return `= .012`, or `< .001`."""
    return correlation_p(p) if p < 0.001 else f"= {correlation(p)}"


def _interval(finding: Correlation) -> str:
    low, high = finding.estimate.low, finding.estimate.high
    return "" if low is None or high is None else f" [{correlation(low)}, {correlation(high)}]"


def _percent(finding: Correlation) -> str:
    low, high = finding.estimate.low, finding.estimate.high
    return "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"


@dataclass(frozen=True, slots=True)
class Reversal(JsonFields):
    """A pair: `above` leads on the benchmark, `below` downstream; both differences are positive.

    The p-values say whether the pair differs at all on each side (sign flips over clusters of items, Holm over all
    pairs); None where only scores are known, not items.
    """

    above: str
    below: str
    lead: float
    loss: float
    p_benchmark: float | None
    p_downstream: float | None


def reversals(benchmark: Column, downstream: Column, models: Sequence[str], *, seed: int = 0) -> list[Reversal]:
    """Return the pairs, the one that loses most downstream first."""
    tests = [pair_p(column, models, seed=seed) for column in (benchmark, downstream)]
    reversals = []
    for i, j in combinations(range(len(models)), 2):
        lead, gain = (column.scores[models[i]] - column.scores[models[j]] for column in (benchmark, downstream))
        if lead * gain >= 0:
            continue
        above, below = (i, j) if lead > 0 else (j, i)
        p_values = (None if test is None else float(test[i, j]) for test in tests)
        reversals.append(Reversal(models[above], models[below], abs(lead), abs(gain), *p_values))
    return sorted(reversals, key=lambda pair: (-pair.loss, pair.above, pair.below))


def pair_p(column: Column, models: Sequence[str], *, seed: int) -> FloatArray | None:
    """Return (n, n) p-values of differences of models, by sign flips over clusters of items, adjusted over the pairs.

    None where there are no items.
    """
    if column.items is None:
        return None
    pairs = len(models) * (len(models) - 1) // 2
    raw = sign_flip_p(column.items.means, seed=seed, flips=max(10_000, 200 * pairs))
    places = [column.items.models.index(model) for model in models]
    first, second = np.triu_indices(len(models), 1)
    table = np.ones((len(models), len(models)))
    table[first, second] = table[second, first] = holm(raw[np.ix_(places, places)][first, second])
    return table


@dataclass(frozen=True, slots=True, repr=False)
class CorrelationCell(Brief, JsonFields):
    """A benchmark and a downstream result over the models that have both; `missing` have one of them."""

    in_json = (
        *("benchmark", "downstream", "models", "missing", "clusters", "estimand", "verdict", "warnings"),
        *("inside", "p_adjusted", "family", "regret", "findings", "reversals", "carried", "groups"),
    )

    benchmark: str
    downstream: str
    models: tuple[str, ...]
    missing: tuple[str, ...]
    clusters: int
    """Clusters of items that can be resampled; 0 where only scores are known."""
    findings: tuple[Correlation, ...]
    regret: float
    """How far the benchmark's first stays below the best, in units of the downstream result."""
    reversals: tuple[Reversal, ...]
    carried: tuple[Leverage, ...]
    groups: tuple[GroupCorrelation, ...]
    p_adjusted: float
    """Spearman's p, Holm over the family: all pairs of columns in the report."""
    family: int = 1

    def __getitem__(self, measure: Name) -> Correlation:
        return next(finding for finding in self.findings if finding.measure == measure)

    @property
    def verdict(self) -> str:
        """Whether the benchmark predicts the ranking, and how sure that is, in a sentence or two."""
        measures = {finding.measure: finding for finding in self.findings}
        return verdict((self.benchmark, self.downstream), measures, self.p_adjusted, family=self.family)

    @property
    def estimand(self) -> str:
        """What the intervals are about."""
        if len(self.models) < ENOUGH:
            return "these models only, over sets of as many items drawn alike" if self.clusters else "nothing"
        items = "and items, drawn alike" if self.clusters else "drawn alike, on the same items"
        return f"the mean over studies of as many models {items}"

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before using a number."""
        warnings = [] if len(self.models) >= ENOUGH else [too_few(len(self.models), self.clusters)]
        warnings += [carried_by(self["pearson"].estimate.value, self.carried)] if self.carried else []
        return warnings + ([self.inside] if turns(self.groups) else [])

    @property
    def inside(self) -> str:
        """What holds inside groups of models; nothing where fewer than two are named."""
        return inside_groups(self.groups) if len(self.groups) > 1 else ""


def cell(
    benchmark: Column, downstream: Column, groups: Mapping[str, str], *, rbo_p: float, seed: int
) -> CorrelationCell:
    """Return the cell by itself: its p is adjusted over a family of one."""
    models = list(dict.fromkeys([*benchmark.scores, *downstream.scores]))
    shared = complete([benchmark, downstream], models)
    measures = findings(benchmark, downstream, shared, rbo_p=rbo_p, seed=seed)
    scores = scores_of([benchmark, downstream], shared)
    x, y = scores.values
    return CorrelationCell(
        benchmark=benchmark.name,
        downstream=downstream.name,
        models=tuple(shared),
        missing=tuple(model for model in models if model not in shared),
        clusters=scores.clusters,
        findings=tuple(measures),
        regret=float(top_regret(x[None], y[None])[0]),
        reversals=tuple(reversals(benchmark, downstream, shared, seed=seed)),
        carried=tuple(leverages(x, y, shared)),
        groups=tuple(by_group(x, y, shared, groups, seed=seed)),
        p_adjusted=next(finding.p for finding in measures if finding.measure == "spearman"),
    )

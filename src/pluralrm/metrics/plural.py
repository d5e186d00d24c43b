"""Whom a model leaves behind, and whether a group of users would rather have another model. Users count alike here.

A user's accuracy on a few items is mostly noise, and users who look worst on them look worse than they are. A user is
picked as badly served, or a model as a user's best, on one half of the user's items, and measured on the other half,
then the reverse; the mean over ten splits is reported. One random order of the prompts per split decides which half an
item is in, so that users who share prompts have them in the same half wherever that leaves both halves equal. Picks go
by the accuracy after four items at the model's mean are added: a single item says little.

Every number is a sum over items, and its interval is robust to users and to prompts that they share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pluralrm.core import Estimate, Run
from pluralrm.display import Brief, Record, Tabular, json_fields
from pluralrm.errors import MetricError, did_you_mean
from pluralrm.metrics.calibration import VoteCalibration, vote_calibration
from pluralrm.metrics.comparison import check_content, check_runs
from pluralrm.metrics.estimates import caveats, headline, measure, remark
from pluralrm.metrics.overview import main_runs, model_names
from pluralrm.metrics.sides import Sides, all_sides
from pluralrm.metrics.units import once, units_of
from pluralrm.metrics.user_items import SPLITS, PickedMean, UserItems
from pluralrm.stats.clusters import FloatArray, IntArray, codes, crossing
from pluralrm.stats.intervals import Bounds, normal_quantile, t_quantile, wilson
from pluralrm.text import counted, estimated, flat, points

FEWEST = 20
"""Users whose items can be split, below which the worst tenth has no interval."""
_EQUAL = 1e-9
"""Sums of credits that differ by less are ties."""


# ---------------------------------------------------------------- picked on one half, measured on the other


def lowest(values: FloatArray, count: float) -> FloatArray:
    """Return weights (users,) that sum to `count`: 1 for the lowest values, and shares for those tied at the edge."""
    edge = np.sort(values)[min(len(values), max(1, int(np.ceil(count)))) - 1]
    below, tied = values < edge - _EQUAL, np.abs(values - edge) <= _EQUAL
    weights: FloatArray = below + tied * ((count - below.sum()) / tied.sum())
    return weights


def best(values: FloatArray) -> FloatArray:
    """Return weights (users, M) that sum to 1 per user: the highest value has all, ties share."""
    top = values >= values.max(axis=1, keepdims=True) - _EQUAL
    weights: FloatArray = top / top.sum(axis=1, keepdims=True)
    return weights


def worst_decile(items: UserItems) -> PickedMean:
    """Return the accuracy of the tenth of users that one half of the items picks, on the other half.

    The influence counts that another sample would have another edge of the tenth (as for an expected shortfall).
    """
    total, edge = np.zeros_like(items.earned), np.zeros(items.earned.shape[1])
    people = int(items.split.sum())
    count = max(1.0, people / 10)
    for sums in items.splits:
        for column, values in enumerate(sums.shrunk.T):
            near = lowest(values, min(people, 1.5 * count)) - lowest(values, count / 2)
            edge[column] += near @ sums.mean[:, column] / near.sum()
            total[:, column] += sums.weights * items.by_item(lowest(values, count) / count)
    total, edge = total / len(items.splits), edge / len(items.splits)
    values = (total * items.earned).sum(axis=0)
    share = items.by_item(1 / items.sizes[items.split])[:, None] / people
    few = np.sqrt(max(3.0, count) / (max(3.0, count) - 1.5))  # of the few in the tenth: by simulated coverage
    return PickedMean(values, few * (total * (items.earned - edge) + share * (edge - values)))


def regrets(items: UserItems) -> PickedMean:
    """Return how much more the model earns that is best for a user by one half, on the other half."""
    earned, weights = np.zeros(len(items.users)), np.zeros(len(items.users))
    scale = int(items.split.sum()) * len(items.splits)
    for sums in items.splits:
        earned += sums.weights / scale * (items.by_item(best(sums.shrunk)) * items.earned).sum(axis=1)
        weights += sums.weights / scale
    differences = earned[:, None] - weights[:, None] * items.earned
    values = differences.sum(axis=0)
    return PickedMean(values, differences - weights[:, None] * values)


# ---------------------------------------------------------------- welfare


def utilitarian(items: UserItems) -> PickedMean:
    """Return the mean over users of their accuracy: each user has one vote."""
    weight = (1 / items.sizes / len(items.sizes))[items.users, None]
    values = (weight * items.earned).sum(axis=0)
    return PickedMean(values, weight * (items.earned - values))


def nash(items: UserItems) -> PickedMean:
    """Return the log of the geometric mean of users' utilities, (right + 1/2) / (items + 1), which is never 0."""
    sizes = items.sizes[:, None]
    sums = items.sums(items.earned)
    logs = np.log((sums + 0.5) / (sizes + 1))
    values = logs.mean(axis=0)
    within = (items.earned - (sums / sizes)[items.users]) / (sums + 0.5)[items.users]
    between = ((logs - values) / sizes)[items.users]
    return PickedMean(values, (within + between) / len(sizes))


# ---------------------------------------------------------------- would a group rather have another model?


@dataclass(frozen=True, slots=True)
class ListStability:
    """Whether more than 1/k of the users prefer one model that is not listed to each of the k that are.

    After Aziz et al. 2017. A user prefers the model that is right on more of their items; equal is no preference.
    """

    listed: tuple[int, ...]
    """Places among the models."""
    rival: int
    """The model that is not listed with the most users who prefer it."""
    users: int
    group: Estimate
    """Which share of the users that is."""
    blocked: bool
    """Whether it is more than 1/k of them, on these items."""
    advantage: Estimate | None
    """By how much the rival beats each user's best listed model; users are picked on half of their items."""

    @property
    def significant(self) -> bool:
        """Whether the group is significantly larger than 1/k, and its preference holds on other items."""
        sure = self.group.low is not None and self.group.low > 1 / len(self.listed)
        again = self.advantage is not None and self.advantage.low is not None and self.advantage.low > 0
        return self.blocked and sure and again

    @property
    def verdict(self) -> str:
        """Return `blocked`, `stable` where so large a group is unlikely, or `open`."""
        if self.significant:
            return "blocked"
        return "stable" if self.group.high is not None and self.group.high <= 1 / len(self.listed) else "open"


def prefers(sums: FloatArray, listed: Sequence[int]) -> NDArray[np.bool_]:
    """Return (users, M): who is served better by a model than by each that is listed."""
    preferred: NDArray[np.bool_] = sums > sums[:, list(listed)].max(axis=1, keepdims=True) + _EQUAL
    return preferred


def list_stability(items: UserItems, listed: Sequence[int], failed: IntArray) -> ListStability:
    """Return which model that is not listed has the largest group of users, and whether it blocks the list."""
    group = prefers(items.sums(items.earned), listed)
    sizes, people = group.sum(axis=0), len(items.sizes)
    others = [column for column in range(items.earned.shape[1]) if column not in listed]
    rival = max(others, key=lambda column: (int(sizes[column]), -column))
    level = 1 - 0.05 / len(others)
    several = f", Bonferroni over {len(others)} models" * (len(others) > 1)
    share, lost = int(sizes[rival]) / people, int(failed[rival])
    ends, over = _group_ends(items, list(listed), rival, level)
    estimate = Estimate(share, *ends, people, lost, f"{over}{several}")
    advantage, lead = _advantage(items, list(listed), rival), None
    if advantage is not None:
        _, low, high, method = items.interval(float(advantage.values), advantage.influence, floor=-1.0, level=level)
        words = f"group and best listed model picked on the other half, {method}{several}"
        lead = Estimate(float(advantage.values), low, high, len(items.users), lost, words)
    blocked = int(sizes[rival]) * len(listed) > people
    return ListStability(tuple(listed), rival, int(sizes[rival]), estimate, blocked, lead)


def _group_ends(items: UserItems, listed: list[int], rival: int, level: float) -> tuple[Bounds, str]:
    """Return the interval of the share of users who prefer the rival, and in words what it is robust to.

    Preferences of users who share prompts are alike. How much is seen from the items: with n of them, whose advantages
    over the best listed model have the variance s², a user with the sum S of advantages prefers the rival with chance
    Phi(S / sqrt(n s²)), so an item that is d above the user's mean moves the share by its derivative times d.
    """
    sums, people = items.sums(items.earned), len(items.sizes)
    group = prefers(sums, listed)[:, rival]
    share, reach = float(group.mean()), normal_quantile(level)
    if not items.crossed:
        return wilson(share, people, reach), f"Wilson interval, {people:,} users"
    prompts = int(items.prompts.max()) + 1
    over = f"two-way cluster-robust Wilson interval, {people:,} users × {prompts:,} prompts"
    if not 0 < share < 1:
        return wilson(share, min(people, prompts), reach), over
    rest = np.array(listed)[sums[:, listed].argmax(axis=1)]
    gains = items.earned[:, rival] - items.earned[np.arange(len(items.users)), rest[items.users]]
    totals, spare = items.sums(gains[:, None])[:, 0], np.maximum(items.sizes - 1, 1)
    apart = gains - (totals / items.sizes)[items.users]
    scale = np.sqrt(items.sizes * max(float((apart**2).sum() / max(1.0, (items.sizes - 1).sum())), _EQUAL))
    slope = np.exp(-((totals / scale) ** 2) / 2) / np.sqrt(2 * np.pi) / scale * np.sqrt(items.sizes / spare)
    alone = (items.sizes == 1)[items.users]
    influence = np.where(alone, (group - share)[items.users], slope[items.users] * apart) / people
    added, df = items.shared(influence)
    effective = share * (1 - share) / (share * (1 - share) / people + added)
    return wilson(share, effective, t_quantile(df, level) if added else reach), over


def _advantage(items: UserItems, listed: list[int], rival: int) -> PickedMean | None:
    gained, weights = np.zeros(len(items.users)), np.zeros(len(items.users))
    for sums in items.splits:
        weight = sums.weights * items.by_item(prefers(sums.pick, listed)[:, rival].astype(np.float64))
        rest = np.einsum("nm,nm->n", items.by_item(best(sums.pick[:, listed])), items.earned[:, listed])
        gained += weight * (items.earned[:, rival] - rest)
        weights += weight
    if not weights.any():
        return None
    value = gained.sum() / weights.sum()
    return PickedMean(value, (gained - weights * value) / weights.sum())


# ---------------------------------------------------------------- all of it


@dataclass(frozen=True, slots=True, repr=False)
class PluralRow(Brief):
    """One model: its mean over items, and what its users have of it. None where no user's items can be split."""

    model: str
    condition: str
    label: str
    """What tables call it."""
    accuracy: Estimate
    worst_decile: Estimate | None
    """The accuracy of the tenth of users whom it serves worst; equal users would show the mean over users."""
    below_mean: Estimate | None
    """By how much that lies below the mean over users; 0 for equal users."""
    regret: Estimate | None
    """How much more each user's best model earns them; None of one model alone."""
    utilitarian: Estimate
    """The mean over users."""
    nash: Estimate
    """The geometric mean of users' (right + 1/2) / (items + 1)."""
    calibration: VoteCalibration | None
    """None where no one else judged the items."""
    sides: tuple[Sides, ...]
    users: tuple[float, ...]
    """Each user's accuracy, sorted."""
    equal: tuple[float, ...]
    """The 5, 25, 50, 75 and 95% quantiles that users of one accuracy would show by chance."""

    def record(self) -> Record:
        """Return a flat record: shares of 1, each number with its interval."""
        record: Record = {"model": self.label, "spec": self.model, "condition": self.condition}
        for name in ("accuracy", "worst_decile", "below_mean", "regret", "utilitarian", "nash"):
            record |= flat(name, getattr(self, name))
        return record | flat("calibration_error", None if self.calibration is None else self.calibration.error)


@dataclass(frozen=True, repr=False)
class Plural(Tabular):
    """Models on the same items by what their users have of them, the highest mean first."""

    benchmark: str
    items: int
    users: int
    unsplit: int
    """Users with one prompt: in welfare and in groups of users, not in the worst decile or in regret."""
    rows: tuple[PluralRow, ...]
    stability: tuple[ListStability, ...]
    """Of the best k models, for each k."""
    chosen: ListStability | None = None  # of the list that was named
    left_out: tuple[str, ...] = ()
    """Runs that have no row, each with the reason."""

    def records(self) -> list[Record]:
        """Return a flat record per model: shares of 1, each number with its interval."""
        return [{"benchmark": self.benchmark, **row.record()} for row in self.rows]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        facts = json_fields(self, "benchmark", "items", "users", "unsplit", "left_out")
        rows = [{key: value for key, value in json_fields(row).items() if key != "users"} for row in self.rows]
        return facts | {"models": rows, "stability": [self._stability(*pair) for pair in self.lists]}

    @property
    def lists(self) -> list[tuple[str, ListStability]]:
        """Every list that was tested, by its name."""
        lists = [(f"best {len(entry.listed)}", entry) for entry in self.stability]
        entry = self.chosen
        return [*lists, *([] if entry is None else [(", ".join(self.rows[i].label for i in entry.listed), entry)])]

    def _stability(self, name: str, entry: ListStability) -> Record:
        labels = {"listed": [self.rows[index].label for index in entry.listed], "rival": self.rows[entry.rival].label}
        facts = {"list": name, "k": len(entry.listed), "verdict": entry.verdict}
        return facts | json_fields(entry) | labels


def answer(result: Plural) -> str:
    """Return in sentences whom the best model leaves behind, and which group of users a list of models leaves out."""
    row = result.rows[0]
    text = f"{row.label} has no worst-served tenth: no user has two prompts."
    split = result.users - result.unsplit
    if 0 < split < FEWEST:
        few = f"{split:,} of {result.users:,} users have two prompts, {FEWEST} are needed"
        text = f"How {row.label} serves its worst tenth is open: {few}."
    elif row.worst_decile is not None and row.below_mean is not None:
        same = row.below_mean.low is not None and row.below_mean.low <= 0
        below = "not significantly" if same else f"{points(row.below_mean).lstrip('+')} points"
        whom = f"the {split:,} with two prompts" if result.unsplit else "users"
        text = (
            f"For the tenth of users whom it serves worst, {row.label} is right on {estimated(row.worst_decile)}% of "
            f"items, {below} below its mean over {whom}."
        )
    if not result.stability:
        return text
    first, several = result.stability[0], [pair for pair in result.lists if len(pair[1].listed) > 1]
    text += f" {estimated(first.group.value)}% of users have more items right with {result.rows[first.rival].label}."
    for name, entry in several:
        if entry.significant:
            share, most = estimated(entry.group.value), f"{100 / len(entry.listed):.0f}"
            rest = f"{name} models" if entry is not result.chosen else f"list {name}"
            return (
                f"{text} {share}% of users prefer {result.rows[entry.rival].label} to each of the {rest}: over {most}%."
            )
    if several and all(entry.verdict == "stable" for _, entry in several):
        return f"{text} No list of the best k leaves out a group above 1/k of the users that prefers one other model."
    if unclear := [name for name, entry in several if entry.verdict == "open"]:
        text += f" Whether over 1/k of the users prefer one other model is open for the {', '.join(unclear)}."
    return text


_LEGEND = (
    "Per cent and points; intervals are robust to users and to the prompts that they share. user mean: each user has a "
    "vote. worst tenth: the tenth of users served worst, picked on half of each user's items and measured on "
    "the rest; equal users would show their mean, 0 points below it. regret: what each user's best model, picked "
    "likewise, earns them more; below 0 where such picks are worse than this model for all. Nash: geometric mean over "
    "users of (right + 1/2) / (items + 1), which is never 0; it falls where a few are served badly."
)
_VOTES = (
    "calibration: root mean square of predicted share less observed share, over ten bins (--json has them); predicted "
    "is sigmoid(score difference / T), T fitted on other prompts, observed is the share of the other people who prefer "
    "that answer. Failed items count at their worst."
)
_STABILITY = (
    "A list of k models leaves a group out if more than 1/k of the users (over) prefer one model to all k (Aziz et al. "
    "2017); equally many right is no preference. other items: that model less each user's best listed one, in points, "
    "for users picked on the other half. blocked: group above 1/k and lead above 0, by their intervals; stable: group "
    "below 1/k by its interval."
)


def legend(result: Plural) -> list[str]:
    """Return what the numbers mean, a line each."""
    lines = [_LEGEND]
    if result.unsplit:
        people = f"{counted(result.unsplit, 'user')} of {result.users:,}"
        lines.append(
            f"{people} with one prompt cannot be split: in user mean, Nash and groups alone, "
            "not in the mean that worst tenths are compared with."
        )
    lines += [_VOTES] * any(row.calibration for row in result.rows)
    lines += [_STABILITY] * bool(result.stability)
    conditions = {
        row.condition: [other.label for other in result.rows if other.condition == row.condition] for row in result.rows
    }
    if set(conditions) != {"none"}:
        lines.append(
            "; ".join(f"under {condition}: {', '.join(models)}" for condition, models in conditions.items()) + "."
        )
    return lines


def plural(runs: Sequence[Run], *, listed: Sequence[str] = (), seed: int = 0) -> Plural:
    """Return what users have of the models that scored the same items, each under the user's own context if it saw it.

    `listed` names models whose list is tested for stability, beside the best k for each k. Unfinished runs and those
    that saw the rubric are left out.
    """
    check_runs(runs)
    check_content(runs)
    names = model_names(runs)
    reasons = [(run, remark(run) or "saw the rubric" * ("oracle" in run.reveals)) for run in main_runs(runs)]
    members = [run for run, reason in reasons if not reason]
    members.sort(key=lambda run: (-measure(run).value, run.model, run.condition))
    if not members:
        raise MetricError("no finished run; plural numbers need all items of a run.")
    items = _table(members, seed)
    models = [run.model for run in members]
    labels = [names[run.model] + f" ({run.condition})" * (models.count(run.model) > 1) for run in members]
    failed = np.array([run.failed for run in members], dtype=np.intp)
    places = [_place(name, members, labels) for name in dict.fromkeys(listed)]
    if len(set(places)) == len(members):
        raise MetricError("every model is listed; stability asks for a model that is not.")
    return Plural(
        members[0].benchmark,
        len(items.users),
        len(items.sizes),
        int((~items.split).sum()),
        tuple(_rows(members, labels, items)),
        tuple(list_stability(items, range(k), failed) for k in range(1, len(members))),
        list_stability(items, places, failed) if places else None,
        tuple(f"{names[run.model]} ({run.condition}): {reason}" for run, reason in reasons if reason),
    )


def _table(runs: Sequence[Run], seed: int) -> UserItems:
    """Return what the runs earned, in the order of users and prompts."""
    first = runs[0]
    if first.card.cluster != "user" or len({row.cluster for row in first.rows}) < 2:
        has = "one user" if first.card.cluster == "user" else f"{first.card.cluster}s"
        raise MetricError(f"plural numbers need users, and {first.benchmark} has {has}.")
    rows = sorted(first.rows, key=lambda row: (row.cluster, row.prompt, row.item))
    clusters = [row.cluster for row in rows]
    shared = crossing(clusters, [row.prompt for row in rows])
    prompts = [row.prompt or f"item {row.item}" for row in rows]
    earned = np.empty((len(rows), len(runs)))
    for column, run in enumerate(runs):
        parts = units_of(run, headline(run))
        by_item = dict(zip(parts.ids, parts.values, strict=True))
        earned[:, column] = [by_item[row.item] for row in rows]
    return UserItems(codes(clusters), codes(prompts), shared is not None, earned, seed)


def _place(name: str, runs: Sequence[Run], labels: Sequence[str]) -> int:
    for number, (run, label) in enumerate(zip(runs, labels, strict=True)):
        if name in {label, run.model, run.name}:
            return number
    raise MetricError(f"no model {name!r} among the runs.{did_you_mean(name, labels)}")


def _rows(runs: Sequence[Run], labels: Sequence[str], items: UserItems) -> "list[PluralRow]":
    halves = f"picked on half of each user's items, measured on the rest, {SPLITS} splits"
    numbers = {"utilitarian": (utilitarian(items), "mean over users", 0.0)}
    if items.splits:
        decile, weight = worst_decile(items), items.by_item(1 / items.sizes[items.split] / items.split.sum())[:, None]
        mean = (weight * items.earned).sum(axis=0)
        gap = PickedMean(mean - decile.values, weight * (items.earned - mean) - decile.influence)
        numbers["worst_decile"] = decile, f"worst tenth of users, {halves}", 0.0
        numbers["below_mean"] = gap, f"mean over users minus the worst tenth, {halves}", -1.0
        if len(runs) > 1:
            numbers["regret"] = regrets(items), f"each user's best model, {halves}", -1.0
    accuracies = np.sort(items.sums(items.earned) / items.sizes[:, None], axis=0)
    logs = nash(items)
    rows = []
    for column, (run, label) in enumerate(zip(runs, labels, strict=True)):
        counts, note = (len(items.users), run.failed), caveats(run)
        estimates: dict[str, Estimate | None] = dict.fromkeys(("worst_decile", "below_mean", "regret"))
        for name, (number, what, floor) in numbers.items():
            value = float(number.values[column])
            _, low, high, method = items.interval(value, number.influence[:, column], floor=floor)
            if name in {"worst_decile", "below_mean"} and (people := int(items.split.sum())) < FEWEST:
                low = high = None
                method = f"no interval: a tenth of {counted(people, 'user')} who can be split, {FEWEST} are needed"
            estimates[name] = Estimate(value, low, high, *counts, "; ".join(filter(None, (what, method, note))))
        estimates["nash"] = _geometric(items, logs, column, counts)
        rows.append(
            PluralRow(
                run.model,
                run.condition,
                label,
                measure(run),
                calibration=once(run, "vote calibration", partial(vote_calibration, run)),
                sides=tuple(all_sides(run)),
                users=tuple(accuracies[:, column].tolist()),
                equal=equal_users(items.sizes, float(items.earned[:, column].mean())),
                **estimates,  # type: ignore[arg-type] # utilitarian and nash are never None
            )
        )
    return rows


def _geometric(items: UserItems, number: PickedMean, column: int, counts: tuple[int, int]) -> Estimate:
    """Return the Nash welfare with an interval on the log scale, which at 1 is cut."""
    log = float(number.values[column])
    variance, df = items.spread(number.influence[:, column])
    if variance <= 1e-24:  # what rounding leaves of none
        return Estimate(float(np.exp(log)), None, None, *counts, "no interval: users do not differ")
    reach = t_quantile(df) * float(np.sqrt(variance))
    ends = float(np.exp(log - reach)), min(1.0, float(np.exp(log + reach)))
    what = "geometric mean over users of (right + 1/2) / (items + 1)"
    method = f"{what}; {'two-way ' * items.crossed}cluster-robust interval of its log, {len(items.sizes):,} users"
    return Estimate(float(np.exp(log)), *ends, *counts, method)


def equal_users(sizes: FloatArray, mean: float) -> tuple[float, ...]:
    """Return the quantiles of accuracies that users of one accuracy would show on so many independent items each."""
    from scipy.special import gammaln, xlog1py, xlogy

    counts, people = np.unique(sizes.astype(np.intp), return_counts=True)
    values = np.concatenate([np.arange(n + 1) / n for n in counts])
    shares = []
    for n, users in zip(counts, people, strict=True):
        k = np.arange(n + 1)
        ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        shares.append(users * np.exp(ways + xlogy(k, mean) + xlog1py(n - k, -mean)))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.concatenate(shares)[order]) / len(sizes)
    return tuple(
        float(values[order][min(int(np.searchsorted(below, q / 100)), len(order) - 1)]) for q in (5, 25, 50, 75, 95)
    )

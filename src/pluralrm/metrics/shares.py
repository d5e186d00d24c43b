"""How much is there to win: which share of the preferences is common to all, a group's, a person's own, or noise.

Every judgment is one vote over its panel's candidates, less the mean: v. The inner product of two judgments of one
panel is how much more often they agree than by chance. Its mean is

    total   with itself                 A0
    same    of one person, twice        A1 = what everybody, the group and the person have in common
    group   of two people of a group    A2 = what everybody and the group have in common
    other   of people of two groups     A3 = what everybody has in common

so that A3/A0 is consensus, (A2 - A3)/A0 the group, (A1 - A2)/A0 the person and the rest noise: the variance components
of a two-way layout by the method of moments, unbiased, without a model of how people answer. Differences are taken
within the judgments that have both kinds of partners. Each judgment weighs the same, however many others there are of
its panel, and a partner who judged twice is one partner. Winnable is A1 - A3, in points of agreement.

Variances are over people and prompts at once (Cameron, Gelbach and Miller 2011). A person counts with all pairs in
which they stand, on either side: `Moment.error`. docs/design/statistics.md has the coverage.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.core import Benchmark, Estimate, Item, persons
from pluralrm.display import Brief, Record, json_fields
from pluralrm.errors import MetricError, did_you_mean
from pluralrm.labels import TRAIT
from pluralrm.stats.clusters import BoolArray, FloatArray, IntArray, Spread
from pluralrm.stats.intervals import t_quantile
from pluralrm.text import counted, estimated

_LEAST = 0.75
"""A variance over people and prompts is never below this share of the smaller of the two."""

Partner = Literal["total", "same", "group", "other"]
"""With whose judgments of the panel a judgment is compared."""


class PersonJudgment(NamedTuple):
    """One person's judgment of one panel, by whatever names the candidates: their texts, or the texts' digests."""

    person: str
    prompt: str
    candidates: tuple[str, ...]
    grades: tuple[float, ...]


@dataclass(frozen=True)
class Cells:
    """Judgments as arrays, those of one person on one panel together. C cells, K candidates at most."""

    person: IntArray
    prompt: IntArray
    panel: IntArray
    group: IntArray
    """(C,): equal where people are of one group; everybody's own where there are no groups."""
    counts: FloatArray
    """(C,): judgments."""
    votes: FloatArray
    """(C, K): the mean vote less 1/width; 0 where the panel has no such candidate."""
    squares: FloatArray
    """(C,): the mean of |v|²."""

    @cached_property
    def panel_group(self) -> IntArray:
        """Which cells are of one panel and one group."""
        return _codes(self.panel, self.group)

    def grouped(self, groups: IntArray) -> "Cells":
        """Return the cells of those whose group is known (not -1), by these groups."""
        parts = {each.name: getattr(self, each.name)[groups >= 0] for each in fields(self)}
        return Cells(**parts | {"group": groups[groups >= 0]})


def cells_of(judgments: Sequence[PersonJudgment]) -> tuple[Cells, IntArray]:
    """Return the cells of judgments, and the cell of each; everybody is a group of their own."""
    votes = shared_votes(judgments)
    votes -= (votes.sum(axis=1) / _widths(judgments))[:, None] * exists(judgments)
    person = _numbered(judgment.person for judgment in judgments)
    panel = _numbered((judgment.prompt, *sorted(judgment.candidates)) for judgment in judgments)
    prompt = _numbered(judgment.prompt for judgment in judgments)
    return cells_from(votes, person, prompt=prompt, panel=panel)


def _widths(judgments: Sequence[PersonJudgment]) -> FloatArray:
    return np.array([len(judgment.candidates) for judgment in judgments], dtype=np.float64)


def exists(judgments: Sequence[PersonJudgment]) -> BoolArray:
    """Return (N, K): whether there is such a candidate."""
    widths = _widths(judgments)
    return np.arange(int(widths.max())) < widths[:, None]


def shared_votes(judgments: Sequence[PersonJudgment]) -> FloatArray:
    """Return (N, K): one vote, shared by the candidates of the highest grade; in the order of their names."""
    votes = np.zeros(exists(judgments).shape)
    for index, judgment in enumerate(judgments):
        highest = max(judgment.grades)
        share = 1 / judgment.grades.count(highest)
        order = sorted(range(len(judgment.grades)), key=judgment.candidates.__getitem__)
        votes[index, : len(order)] = [share * (judgment.grades[rank] == highest) for rank in order]
    return votes


def cells_from(votes: FloatArray, person: IntArray, *, prompt: IntArray, panel: IntArray) -> tuple[Cells, IntArray]:
    """Return the cells of centred votes (N, K), and the cell of each judgment; everybody is a group of their own."""
    cell = _codes(panel, person)
    first = np.unique(cell, return_index=True)[1]
    counts = np.bincount(cell).astype(np.float64)
    mean = sums_by(cell, votes) / counts[:, None]
    squares = np.bincount(cell, (votes**2).sum(axis=1)) / counts
    return Cells(person[first], prompt[first], panel[first], person[first], counts, mean, squares), cell


def _numbered(names: Iterable[object]) -> IntArray:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)


def _codes(first: IntArray, second: IntArray) -> IntArray:
    codes: IntArray = np.unique(first * (int(second.max()) + 1) + second, return_inverse=True)[1].astype(np.intp)
    return codes


def sums_by(codes: IntArray, values: FloatArray) -> FloatArray:
    """Return the sums of the rows of `values` (C, K) of each code."""
    return np.stack([np.bincount(codes, column) for column in values.T], axis=1)


# ---------------------------------------------------------------- moments and their influences


@dataclass(frozen=True)
class Moment:
    """A mean over cells, weighted by judgments, and what each cell adds to its error."""

    value: float
    error: FloatArray
    """(2, C): as the one who judges, and as the partner of others. A prompt's error is the sum of the first alone:
    there each pair stands once. A person's is the sum of both."""
    weights: FloatArray
    """(C,): judgments that the mean is taken over; of two means, those of the one that has fewer."""

    @property
    def judgments(self) -> int:
        """Over how many judgments the mean is taken."""
        return int(self.weights.sum())

    def __sub__(self, other: "Moment") -> "Moment":
        fewer = min(self.weights, other.weights, key=np.sum)
        return Moment(self.value - other.value, self.error - other.error, fewer)

    def over(self, total: "Moment") -> "Moment":
        """Return the ratio."""
        ratio = self.value / total.value
        return Moment(ratio, (self.error - ratio * total.error) / total.value, self.weights)

    def spread(self, cells: "Cells") -> Spread:
        """Return the variance over people and prompts (theirs less that of their cells), and its degrees of freedom.

        Never below `_LEAST` of the smaller of the two: with all of it, intervals of shares that are 0 covered 98%. A
        pair of noisy judgments stands with both of its people, and so twice in the variance over people: the mean of
        the two, `stats.two_way`'s bound, would be half too large.
        """
        own, both = self.error[0], self.error.sum(axis=0)
        sides = ((cells.person, both), (cells.prompt, own), (_codes(cells.prompt, cells.person), both))
        people, prompts, each = (_one_way(codes, error, self.weights) for codes, error in sides)
        dfs = [side.df for side in (people, prompts) if side.variance]
        least = min(people.variance, prompts.variance) or max(people.variance, prompts.variance)
        variance = max(people.variance + prompts.variance - each.variance, _LEAST * least)
        return Spread(variance, min(dfs)) if dfs else Spread(0.0, 0.0)


class Moments:
    """The mean inner products of some cells, with the error that every person and prompt adds to them."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        panel, both, votes = cells.panel, cells.panel_group, cells.votes
        self._panel_votes, self._group_votes = sums_by(panel, votes), sums_by(both, votes)
        in_panel, in_group = np.bincount(panel)[panel], np.bincount(both)[both]
        self.partners: dict[Partner, FloatArray] = {
            "total": np.ones(len(panel)),
            "same": cells.counts - 1,
            "group": (in_group - 1).astype(np.float64),
            "other": (in_panel - in_group).astype(np.float64),
        }
        """How many partners of each kind a cell has."""
        own = (votes**2).sum(axis=1)
        sums = {
            "total": cells.squares,
            "same": cells.counts * own - cells.squares,
            "group": (votes * self._group_votes[both]).sum(axis=1) - own,
            "other": (votes * (self._panel_votes[panel] - self._group_votes[both])).sum(axis=1),
        }
        self._means: dict[Partner, FloatArray] = {
            kind: sums[kind] / np.maximum(number, 1) for kind, number in self.partners.items()
        }

    def has(self, *kinds: Partner) -> BoolArray:
        """Return which cells have partners of all these kinds."""
        mask: BoolArray = np.logical_and.reduce([self.partners[kind] > 0 for kind in kinds])
        return mask

    def moment(self, kind: Partner, *also: Partner) -> Moment | None:
        """Return the mean of one kind, over the cells that have partners of the other kinds too; None without any."""
        weights = self.cells.counts * self.has(kind, *also)
        if not (whole := weights.sum()):
            return None
        mean = float(weights @ self._means[kind] / whole)
        error = np.stack([weights * (self._means[kind] - mean), self._as_partner(kind, weights, mean)])
        return Moment(mean, error / whole, weights)

    def difference(self, kind: Partner, base: Partner) -> Moment | None:
        """Return the mean of one kind minus that of another, over the cells that have both."""
        first, second = self.moment(kind, base), self.moment(base, kind)
        return None if first is None or second is None else first - second

    def _as_partner(self, kind: Partner, weights: FloatArray, mean: float) -> FloatArray:
        """Return what each cell adds to a mean as the partner of other cells (Hoeffding's projection)."""
        if kind in {"total", "same"}:
            return np.zeros_like(weights)
        cells = self.cells
        weight = weights / np.maximum(self.partners[kind], 1)
        scaled = weight[:, None] * cells.votes
        of_group = sums_by(cells.panel_group, np.c_[scaled, weight])[cells.panel_group]
        if kind == "group":
            others = of_group - np.c_[scaled, weight]
        else:
            others = sums_by(cells.panel, np.c_[scaled, weight])[cells.panel] - of_group
        shared: FloatArray = (others[:, :-1] * cells.votes).sum(axis=1) - mean * others[:, -1]
        return shared


def _one_way(clusters: IntArray, error: FloatArray, weights: FloatArray) -> Spread:
    """Return the variance from clusters' scores, each larger by what the mean follows it (CR2), and its df.

    The df are the fewer of two: by the scores' fourth powers, and by how many equally heavy clusters weigh as much.
    """
    shares = np.bincount(clusters, weights) / weights.sum()
    if shares.max() >= 1:
        return Spread(0.0, 0.0)
    squares = np.bincount(clusters, error) ** 2 / (1 - shares)
    variance = float(squares.sum())
    excess = float((squares**2).sum() - variance**2 / max(int((squares > 0).sum()), 1))
    df = min(max(1 / float((shares**2).sum()) - 1, 1.0), 2 * variance**2 / excess if excess > 0 else np.inf)
    return Spread(variance, df)


def estimate_of(moment: Moment, cells: Cells, *, level: float = 0.95, scope: str = "") -> Estimate:
    """Return a moment with its interval: two-way, with Student's t; it may be below 0, as any unbiased estimate."""
    variance, df = moment.spread(cells)
    people, prompts = (len(np.unique(codes[moment.weights > 0])) for codes in (cells.person, cells.prompt))
    counts = f"{counted(people, 'person').replace('persons', 'people')} × {counted(prompts, 'prompt')}"
    if not variance:
        return Estimate(moment.value, None, None, moment.judgments, 0, f"no interval: nothing varies, {counts}")
    half = t_quantile(df, level) * variance**0.5
    method = f"{scope}method of moments, two-way interval, {counts}"
    return Estimate(moment.value, moment.value - half, moment.value + half, moment.judgments, 0, method)


# ---------------------------------------------------------------- the judgments of a benchmark


@dataclass(frozen=True)
class CrossedJudgments:
    """The judgments of a benchmark that several people judged, and how people are grouped."""

    name: str
    items: tuple[Item, ...]
    judgments: tuple[PersonJudgment, ...]
    cell: IntArray
    """(N,): the cell of each judgment."""
    alone: Cells
    """Everybody a group of their own."""
    cells: Cells
    """People grouped by `traits`; the same as `alone` without any."""
    traits: tuple[str, ...]
    codes: Mapping[str, IntArray]
    """By trait that forms groups, (C,): which value a cell's person has, -1 where it is not declared."""

    @cached_property
    def widths(self) -> FloatArray:
        """(C,): how many candidates the panel has."""
        widths = np.zeros(len(self.cells.panel))
        widths[self.cell] = _widths(self.judgments)
        return widths

    @cached_property
    def tops(self) -> BoolArray:
        """(N, K): which candidates are among the best of a judgment."""
        tops: BoolArray = shared_votes(self.judgments) > 0
        return tops

    @cached_property
    def marks(self) -> Cells:
        """The cells of judgments in which each of the best counts 1, as it does for a scorer: ties do not share."""
        widths = self.widths[self.cell][:, None]
        centred = self.tops - exists(self.judgments) * (self.tops.sum(axis=1, keepdims=True) / widths)
        person, prompt, panel = (codes[self.cell] for codes in (self.cells.person, self.cells.prompt, self.cells.panel))
        return replace(cells_from(centred, person, prompt=prompt, panel=panel)[0], group=self.cells.group)

    @cached_property
    def crossed(self) -> BoolArray:
        """(C,): whether several people judged the panel."""
        several: BoolArray = np.bincount(self.cells.panel)[self.cells.panel] > 1
        return several


def crossed_judgments(benchmark: Benchmark, traits: Sequence[str] = ()) -> CrossedJudgments:
    """Return what people said of the same candidates; people are of one group who have all `traits` alike.

    People who do not declare them are left out. No panel of several people, and an unknown trait, are errors.
    """
    who, name = persons(benchmark.items), benchmark.card.name
    items = [item for item in benchmark.items if item.grades]
    codes = _trait_codes(benchmark, items)
    if unknown := next((trait for trait in traits if trait not in codes), None):
        raise MetricError(f"no trait {unknown!r} forms groups in {name}.{did_you_mean(unknown, codes)}")
    if traits:
        declared = np.all([codes[trait] >= 0 for trait in traits], axis=0)
        items = [item for item, here in zip(items, declared, strict=True) if here]
        codes = {trait: values[declared] for trait, values in codes.items()}
    judgments = [PersonJudgment(who[item.cluster], item.crossed, item.candidates, item.grades) for item in items]
    cells, cell = cells_of(judgments) if judgments else (None, np.zeros(0, dtype=np.intp))
    if cells is None or not Moments(cells).has("other").any():
        raise MetricError(
            f"no two people of {name} judged the same candidates: nothing says how much of a preference is personal. "
            "'score' and 'compare' still say what a model gains by knowing the user. "
            "Where people cross: community-alignment, coval, multipref, pluriharms, simulated:crossed=10"
        )
    first = np.unique(cell, return_index=True)[1]
    codes = {trait: values[first] for trait, values in codes.items()}
    groups = _numbered(zip(*(codes[trait].tolist() for trait in traits), strict=True)) if traits else cells.person
    grouped = cells.grouped(groups)
    return CrossedJudgments(name, tuple(items), tuple(judgments), cell, cells, grouped, tuple(traits), codes)


def _trait_codes(benchmark: Benchmark, items: Sequence[Item]) -> dict[str, IntArray]:
    """Return for each trait that forms groups the value of each item's person, -1 where it is not declared."""
    tags = [benchmark.group_traits.get(item.user.id, {}) if item.user else {} for item in items]
    values: dict[str, dict[str, int]] = {}
    for name, value in (pair for each in tags for pair in each.items()):
        values.setdefault(name, {}).setdefault(value, len(values[name]))
    return {
        name.removeprefix(TRAIT): np.array([numbers.get(each.get(name, ""), -1) for each in tags], dtype=np.intp)
        for name, numbers in values.items()
    }


# ---------------------------------------------------------------- the answer


@dataclass(frozen=True, slots=True, repr=False)
class Shares(Brief):
    """How much of a benchmark's preferences is whose, and how much of it there is to win.

    Where no person judged a panel twice, person and noise are one share (`rest`), and only an upper bound of what is
    winnable is known. Shares are of judgments of panels that several people judged, and may come out below 0.
    """

    benchmark: str
    judgments: int
    alone: int
    """Judgments that no other person made of the same candidates: nothing can be said of them."""
    people: int
    panels: int
    repeated: int
    traits: tuple[str, ...]
    consensus: Estimate
    group: Estimate | None
    person: Estimate | None
    noise: Estimate | None
    rest: Estimate | None
    winnable: Estimate | None
    """How much more often a person's own other judgment agrees with them than another person's."""
    winnable_at_most: Estimate
    """The same if people agreed with themselves always."""
    ceiling: Estimate | None
    """The most that any scorer can be right, by how often people agree with themselves."""
    by_trait: Mapping[str, Estimate]

    @property
    def personal(self) -> bool | None:
        """Whether the winnable part lies above 0; None where it cannot be tested."""
        low = None if self.winnable is None else self.winnable.low
        return None if low is None else low > 0

    @property
    def answer(self) -> str:
        """Return in a sentence how much there is to win."""
        if self.winnable is None:
            ends = estimated(self.winnable_at_most)
            return f"At most {ends} points are winnable; how much of that is noise is open: no person judged twice."
        gap = estimated(self.winnable)
        if self.personal:
            return f"{gap} points are winnable: people agree with themselves so much more often than with others."
        return (
            f"No personal signal is significant: people agree with themselves {gap} points more often than with others."
        )

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return json_fields(self) | {"personal": self.personal, "answer": self.answer}

    def records(self) -> list[Record]:
        """Return one flat row per share, trait and number of what is winnable."""
        names = ("consensus", "group", "person", "noise", "rest", "winnable", "winnable_at_most", "ceiling")
        numbers = {name: getattr(self, name) for name in names} | {f"trait {k}": v for k, v in self.by_trait.items()}
        return [{"number": name} | each.to_json() for name, each in numbers.items() if each is not None]


def shares(judged: CrossedJudgments) -> Shares:
    """Return whose the preferences are; where nothing can be compared, as where all are of one group, an error."""
    cells, moments = judged.cells, Moments(judged.cells)
    whole, common = moments.moment("total", "other"), moments.moment("other")
    alone = Moments(judged.alone)
    winnable, upper = (alone.difference(kind, "other") for kind in ("same", "total"))
    if whole is None or common is None or upper is None or not whole.value:
        raise MetricError(f"{judged.name}: no candidates were judged by people of two groups; nothing can be compared.")
    consensus = common.over(whole)
    own, of_group = moments.difference("same", "other"), moments.difference("group", "other")
    group = of_group.over(whole) if of_group is not None and judged.traits else None
    every = Moment(1.0, np.zeros_like(consensus.error), consensus.weights)
    zero = Moment(0.0, every.error, every.weights)
    self_share = None if own is None else own.over(whole)
    person = None if self_share is None else self_share - (group or zero)

    def estimate(moment: Moment | None) -> Estimate | None:
        return None if moment is None else estimate_of(moment, cells)

    crossed = judged.crossed
    return Shares(
        judged.name,
        judgments=int(cells.counts[crossed].sum()),
        alone=int(cells.counts[~crossed].sum()),
        people=len(np.unique(cells.person[crossed])),
        panels=len(np.unique(cells.panel[crossed])),
        repeated=0 if own is None else own.judgments,
        traits=judged.traits,
        consensus=estimate_of(consensus, cells),
        group=estimate(group),
        person=estimate(person),
        noise=None if self_share is None else estimate(every - consensus - self_share),
        rest=None if self_share is not None else estimate(every - consensus - (group or zero)),
        winnable=estimate(winnable),
        winnable_at_most=estimate_of(upper, cells),
        ceiling=_ceiling(judged),
        by_trait=dict(_by_trait(judged)),
    )


def _ceiling(judged: CrossedJudgments) -> Estimate | None:
    """Return the most that a scorer can be right which knows with which probability each person prefers what.

    It is right with the largest p of each judgment, p the chance that a candidate is among the best, b their number.
    Two judgments say E[sum (p - b/K)^2]. By Jensen and Cauchy-Schwarz E[max p] <= E[b/K] + sqrt(E[1 - 1/K] of it);
    and max p is at least sum p^2 / b.
    """
    marks, counts = judged.marks, judged.cells.counts
    again = Moments(marks).moment("same", "other")
    if again is None:
        return None
    best = np.bincount(judged.cell, judged.tops.sum(axis=1)) / counts
    chance, room = (
        float(np.average(each, weights=again.weights)) for each in (best / judged.widths, 1 - 1 / judged.widths)
    )
    agreement = estimate_of(again, judged.cells)

    def most(alike: float) -> float:
        return min(1.0, chance + math.sqrt(max(alike, 0.0) * room))

    low = None if agreement.low is None else min(1.0, chance + max(agreement.low, 0.0) / float(best.max()))
    high = None if agreement.high is None else most(agreement.high)
    method = f"from self-agreement (low end) to its Jensen bound; {agreement.method}"
    return Estimate(most(again.value), low, high, again.judgments, 0, method)


def _by_trait(judged: CrossedJudgments) -> Iterator[tuple[str, Estimate]]:
    """Yield the share of each trait's groups, with intervals that hold for all traits at once."""
    for name, codes in judged.codes.items():
        cells = judged.alone.grouped(codes)
        moments = Moments(cells) if len(cells.panel) else None
        difference = moments and moments.difference("group", "other")
        whole = moments and moments.moment("total", "other")
        if difference and whole and whole.value:
            scope = f"Bonferroni over {len(judged.codes)} traits, " if len(judged.codes) > 1 else ""
            level = 1 - 0.05 / len(judged.codes)
            yield name, estimate_of(difference.over(whole), cells, level=level, scope=scope)

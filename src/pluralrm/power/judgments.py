"""How many items, and judgments of each, until a share is known to +- w, or shown to be one half within a margin.

A pilot comes from a file of labels, such as a CSV file with the columns item, annotator, label.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from pluralrm.annotate.labels import read_labels
from pluralrm.cluster import Cluster, each_job
from pluralrm.core import Estimate
from pluralrm.display import json_fields
from pluralrm.errors import MetricError, SpecError, did_you_mean
from pluralrm.power.detection import PowerSettings, simulated, smallest
from pluralrm.stats.correlation import likeness
from pluralrm.stats.intervals import normal_quantile
from pluralrm.stats.judgments import Aim, Design, Labels, reached
from pluralrm.text import counted, listed


@dataclass(frozen=True, slots=True)
class RatingsTable:
    """One label per item and annotator; missing ones are left out."""

    file: str
    items: tuple[str, ...]
    annotators: tuple[str, ...]
    labels: tuple[str, ...]
    rehearsal: bool = False
    """Whether any is simulated."""


@dataclass(frozen=True, slots=True)
class RatingsSummary:
    """What the ratings show: the labels' shares and worths, and how judgments go together."""

    labels: Labels
    likeness: Estimate | None
    """The correlation of two judgments of one item; None where every item has one."""
    lean: Estimate | None
    """That of two judgments of one annotator; None where every annotator has one."""
    annotators: int
    items: int
    rehearsal: bool = False

    def with_declared(self, likeness: float | None, lean: float | None) -> Labels:
        """Return the labels with correlations that were declared instead; one that nothing shows must be."""
        if likeness is None and self.likeness is None:
            raise SpecError("every item has one judgment, which shows nothing of how two go together; add --likeness R")
        return replace(
            self.labels,
            likeness=self.labels.likeness if likeness is None else likeness,
            lean=self.labels.lean if lean is None else lean,
        )

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        counts = json_fields(self, "items", "annotators", "rehearsal")
        return {**counts, "mean": self.labels.mean, **json_fields(self, "likeness", "lean")}


def read_ratings(path: str | Path) -> RatingsTable:
    """Return the labels in a file as `annotate.labels` reads them, without those judged again; one dimension alone."""
    labels = [label for label in read_labels(Path(path)) if label.label and label.round == 1]
    kinds = list(
        dict.fromkeys(f"{label.dimension} ({label.arm})" if label.arm else label.dimension for label in labels)
    )
    if not labels:
        raise MetricError(f"{path}: found no label of round 1; wanted one row for each judgment")
    if len(kinds) > 1:
        raise MetricError(
            f"{path}: found labels of {counted(len(kinds), 'kind')} ({listed(kinds)}), wanted those of one dimension "
            "and arm: keep its rows"
        )
    items, annotators, texts = zip(*((label.item, label.annotator, label.label) for label in labels), strict=True)
    return RatingsTable(str(path), items, annotators, texts, any(label.rehearsal for label in labels))


def judged(ratings: RatingsTable, first: str, second: str = "") -> RatingsSummary:
    """Return what the ratings show, where `first` is worth 1, `second` 0 and any other label one half.

    Without a second label all others are worth 0: the share of `first`. Too little to see how judgments go together is
    an error, or None, as `stats.likeness` says.
    """
    counts = Counter(ratings.labels)
    for word in filter(None, (first, second)):
        if word not in counts:
            raise MetricError(f"{ratings.file}: no label {word!r}.{did_you_mean(word, counts)}")
    others = 0.5 if second else 0.0
    worth = {label: 1.0 if label == first else 0.0 if label == second else others for label in counts}
    values = [worth[label] for label in ratings.labels]
    alike, lean = (
        _correlation(values, names) if len(set(names)) < len(names) and len(set(values)) > 1 else None
        for names in (ratings.items, ratings.annotators)
    )
    names, drawn = sorted(counts), _used(alike)
    labels = Labels(
        tuple(counts[name] / len(values) for name in names),
        tuple(worth[name] for name in names),
        drawn,
        min(_used(lean), (1 - drawn**0.5) ** 2),  # no judgment repeats both its item and its annotator
    )
    people, items = len(set(ratings.annotators)), len(set(ratings.items))
    return RatingsSummary(labels, alike, lean, people, items, ratings.rehearsal)


def _correlation(values: list[float], names: tuple[str, ...]) -> Estimate:
    interval = likeness(values, names)
    return Estimate(interval.value, interval.low, interval.high, len(values), 0, interval.method)


def _used(estimate: Estimate | None) -> float:
    """Return the correlation that is drawn: below 0 nothing is."""
    return 0.0 if estimate is None else min(max(estimate.value, 0.0), 0.99)


MOST = 20_000
"""Items beyond which the answer is that the goal is not reached."""
FEWEST = 4
ENOUGH = 8
"""Rated items below which nothing is said of how judgments go together."""
_CURVE = (0.5, 1.0, 1.5)


@dataclass(frozen=True, slots=True)
class JudgmentsPoint:
    """How often a number of items, with so many judgments each, reaches a goal."""

    items: int
    reached: Estimate

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {"items": self.items, "power": self.reached.to_json()}


@dataclass(frozen=True, slots=True)
class JudgmentsNeeded:
    """The smallest number of items for one goal and one number of judgments each; None where MOST are too few."""

    aim: Aim
    each: int
    items: int | None
    curve: tuple[JudgmentsPoint, ...]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        goal = {"goal": self.aim.goal, "within": self.aim.within, "judgments_per_item": self.each}
        return {**goal, "items": self.items, "curve": [point.to_json() for point in self.curve]}


@dataclass(frozen=True, slots=True)
class JudgmentsPlan:
    """How many items it takes for each goal and each number of judgments per item."""

    labels: Labels
    annotators: int | None
    """Annotators in all, who judge alike many; None where each judgment has one of its own."""
    observed: RatingsSummary | None
    needed: tuple[JudgmentsNeeded, ...]
    settings: PowerSettings

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        labels = json_fields(self.labels, "mean", "agreement", "likeness", "lean")
        plan = json_fields(self, "annotators", "observed", "needed")
        return {**json_fields(self.settings, "power", "alpha"), **labels, **plan}


def declared_labels(win: float, ties: float, likeness: float, lean: float = 0.0) -> Labels:
    """Return labels of a first and a second answer, with ties: `win` is the first's share, ties half."""
    first, second = win - ties / 2, 1 - win - ties / 2
    if not 0 <= ties < 1 or min(first, second) < 0:
        raise SpecError(f"--win {win:g} with --ties {ties:g}: wanted a win rate between ties/2 and 1 - ties/2")
    shares, worths = (first, ties, second), (1.0, 0.5, 0.0)
    places = [index for index, share in enumerate(shares) if share > 0]
    return Labels(tuple(shares[index] for index in places), tuple(worths[index] for index in places), likeness, lean)


def plan_judgments(
    labels: Labels,
    aims: Sequence[Aim],
    each: Sequence[int],
    settings: PowerSettings,
    *,
    annotators: int | None = None,
    observed: RatingsSummary | None = None,
    cluster: Cluster | None = None,
) -> JudgmentsPlan:
    """Return the plan; an unknown goal, or annotators fewer than judgments of an item, is an error.

    On a `cluster` each goal and number of judgments is a task.
    """
    _check(labels, aims, each, annotators)
    if observed is not None and observed.items < ENOUGH:
        raise MetricError(
            f"{observed.items} items are too few to show how judgments go together; wanted {ENOUGH} or more, or "
            "declared numbers without --ratings"
        )
    jobs = [(labels, aim, number, settings) for aim in aims for number in each if aim.goal != "agreement" or number > 1]
    needed = each_job(cluster, partial(items_needed, annotators=annotators), jobs)
    return JudgmentsPlan(labels, annotators, observed, tuple(needed), settings)


def items_needed(
    labels: Labels, aim: Aim, each: int, settings: PowerSettings, *, annotators: int | None = None
) -> JudgmentsNeeded:
    """Return the smallest number of items with so many judgments each that reaches the goal often enough."""

    @cache
    def at(items: int) -> Estimate:
        design = Design(items, each, annotators)
        hits = reached(labels, design, aim, studies=settings.simulations, seed=settings.seed)
        return simulated(hits, "studies")

    start = _normal_items(labels, aim, each, settings)
    number = smallest(lambda items: at(items).value, settings.power, start=start, least=FEWEST, most=MOST)
    places = sorted({max(round(part * number), FEWEST) for part in _CURVE}) if number else [MOST]
    curve = tuple(JudgmentsPoint(count, at(count)) for count in places if count <= MOST)
    return JudgmentsNeeded(aim, each, number, curve)


def _normal_items(labels: Labels, aim: Aim, each: int, settings: PowerSettings) -> int:
    """Return how many items it would take by the normal curve, where annotators do not lean: where to begin."""
    quantile = normal_quantile(aim.level)
    variance = sum(s * w**2 for s, w in zip(labels.shares, labels.worths, strict=True)) - labels.mean**2
    variance *= (1 + (each - 1) * labels.likeness) / each
    if aim.goal == "agreement":
        variance = labels.agreement * (1 - labels.agreement) * (1 / 2 + 1 / each) / 1.5
    if aim.goal == "equivalence":
        quantile += normal_quantile(settings.power)
    return min(round(variance * (quantile / aim.within) ** 2) + FEWEST, MOST)


def _check(labels: Labels, aims: Sequence[Aim], each: Sequence[int], annotators: int | None) -> None:
    if not aims:
        raise SpecError("no goal; wanted one or more of --precision W, --agreement W, --equivalence MARGIN")
    for aim in aims:
        if not 0 < aim.within < 0.5:
            raise SpecError(f"--{aim.goal} {aim.within:g}: wanted a share between 0 and 0.5, such as 0.05")
    most = max(each)
    if min(each) < 1 or (annotators is not None and annotators < max(most, 2)):
        raise SpecError(f"--judgments {most} of {annotators or 'any'} annotators: wanted 1 or more, of different ones")
    if labels.lean and annotators is None:
        raise SpecError(f"annotators lean (correlation {labels.lean:.2g}): say how many there will be, --annotators N")
    if most < 2 and any(aim.goal == "agreement" for aim in aims):
        raise SpecError("--agreement of one judgment per item: wanted two or more, --judgments 2")

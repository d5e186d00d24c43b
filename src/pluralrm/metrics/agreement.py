"""How far annotators agree, each coefficient with a bootstrap interval over items; with themselves; on what.

Also what they say together of each item: the most frequent label, and the consensus of Dawid and Skene.

>>> votes = Votes(("1", "1", "2", "2"), ("ann", "bob", "ann", "bob"), ("yes", "no", "no", "no"), Scaled(("no", "yes")))
>>> agreement(votes, resamples=200)[0].name, agreement(votes, resamples=200)[0].estimate.value
('percent', 0.5)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from pluralrm.core import Estimate
from pluralrm.errors import MetricError, did_you_mean
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.agreement import Coefficients, Ratings, Scale, coefficients, dawid_skene, with_one_more
from pluralrm.stats.clusters import FloatArray, IntArray, codes
from pluralrm.stats.intervals import few, normal_quantile, t_quantile, wilson

RESAMPLES = 2_000
FEWEST = 10
"""Clusters below which a bootstrap says nothing."""
FEW_DIFFER = 5
"""Items with different labels below which the interval is told to be too narrow: few can be drawn, or missed."""
TOO_NARROW = "too narrow"
_ALIKE = 1e-9
"""How far apart the same coefficient of two resamples may lie, by rounding."""
_NO_OTHER = "all ratings are one label, and no other label is known"
_NO_CHANCE = "chance alone would agree as much: all ratings are one label"
TITLES: Mapping[str, str] = {
    "percent": "share of pairs of ratings that are alike",
    "kappa": "kappa",
    "kappa_linear": "kappa, linear weights",
    "kappa_quadratic": "kappa, quadratic weights",
    "fleiss": "Fleiss' kappa",
    "alpha_nominal": "Krippendorff's alpha, nominal",
    "alpha_ordinal": "Krippendorff's alpha, ordinal",
    "alpha_interval": "Krippendorff's alpha, interval",
    "ac1": "Gwet's AC1",
    "ac2": "Gwet's AC2, quadratic weights",
}


@dataclass(frozen=True, slots=True)
class Scaled:
    """The labels in ascending order, what they are worth (default: their places), and what may be made of that."""

    labels: tuple[str, ...]
    scale: Scale = "nominal"
    worths: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Votes:
    """One label per item and annotator. `clusters` are drawn together where items are not independent.

    `left_out` is how many ratings are no label, such as "cannot tell".
    """

    items: tuple[str, ...]
    annotators: tuple[str, ...]
    labels: tuple[str, ...]
    scaled: Scaled
    clusters: tuple[str, ...] = ()
    left_out: int = 0

    def ratings(self) -> Ratings:
        """Return them as places; a label that the scale has not is a MetricError."""
        position = {label: number for number, label in enumerate(self.scaled.labels)}
        for label in self.labels:
            if label not in position:
                raise MetricError(f"unknown label {label!r}.{did_you_mean(label, position)}")
        worths = np.array(self.scaled.worths or range(len(position)), dtype=np.float64)
        places = np.array([position[label] for label in self.labels], dtype=np.intp)
        return Ratings(codes(self.items), codes(self.annotators), places, worths)


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One coefficient; `estimate` is None where it does not exist, and `why` says why."""

    name: str
    estimate: Estimate | None
    why: str = ""

    @property
    def title(self) -> str:
        """What it is called."""
        return TITLES[self.name]


def agreement(votes: Votes, *, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95) -> list[Coefficient]:
    """Return every coefficient that the scale allows; fewer than one item with two ratings is a MetricError.

    Where the scale has one label alone, only the share of pairs that are alike exists.
    """
    lone = len(votes.scaled.labels) == 1
    if lone:
        votes = replace(votes, scaled=Scaled((*votes.scaled.labels, f"not {votes.scaled.labels[0]}")))
    ratings = votes.ratings()
    cluster = dict(zip(votes.items, votes.clusters or votes.items, strict=True))
    drawn = codes([cluster[item] for item in sorted(cluster)])
    values = coefficients(ratings, votes.scaled.scale, clusters=drawn, resamples=resamples, seed=seed)
    per_item = ratings.counts.sum(axis=1)
    several, differ = per_item > 1, int(((per_item > 1) & (ratings.counts.max(axis=1) < per_item)).sum())
    exact = _Exact.of(ratings, votes.scaled.scale, drawn[several], level) if any(map(_fixed, values.values())) else None
    result = []
    for name, coefficient in values.items():
        if exact is not None and _fixed(coefficient):
            low, high, how = exact.ends(name, coefficient.value)
        else:
            low, high, how = _ends(coefficient, int(drawn.max()) + 1, level)
            how += f"; {TOO_NARROW}: annotators differ on {differ:,} items" * (low is not None and differ < FEW_DIFFER)
        method = f"{_title(name, ratings.raters)}; {how}"
        estimate = Estimate(coefficient.value, low, high, int(several.sum()), votes.left_out, method)
        why = _NO_OTHER if lone and name != "percent" else _NO_CHANCE if np.isnan(coefficient.value) else ""
        result.append(Coefficient(name, None, why) if why else Coefficient(name, estimate))
    return result


def _fixed(coefficients: Coefficients) -> bool:
    """Return whether the coefficient exists and is the same in every resample: then no resample says how sure it is."""
    resamples = coefficients.resampled[~np.isnan(coefficients.resampled)]
    return (
        len(resamples) > 0
        and not np.isnan(coefficients.value)
        and bool((np.abs(resamples - coefficients.value) <= _ALIKE).all())
    )


class _Exact(NamedTuple):
    """How far coefficients may lie from those of items that are all the same.

    Of n clusters (in Kish's effective number) none is otherwise, so at most the share 1 - (tail)^(1/n) of all is:
    that of the exact interval of Clopper and Pearson (1934). One more item with this share, labelled as it would cost
    most, gives the ends; for the share of pairs that are alike this is the exact interval itself.
    """

    further: Mapping[str, FloatArray]
    clusters: int

    @classmethod
    def of(cls, ratings: Ratings, scale: Scale, clusters: IntArray, level: float) -> "_Exact":
        """Return the coefficients with one more item; `clusters` are those of the items with two ratings or more."""
        sizes = np.bincount(clusters)
        effective = float(sizes.sum()) ** 2 / float((sizes.astype(np.float64) ** 2).sum())
        share = 1 - ((1 - level) / 2) ** (1 / effective)
        return cls(with_one_more(ratings, scale, share), int((sizes > 0).sum()))

    def ends(self, name: str, value: float) -> tuple[float | None, float | None, str]:
        """Return how far a coefficient may lie from its value, and how that is known."""
        if self.clusters < 2:
            return None, None, "no interval: one item or cluster"
        values = self.further[name][~np.isnan(self.further[name])]
        low, high = (round(float(end), 9) + 0.0 for end in (values.min(initial=value), values.max(initial=value)))
        return low, high, f"exact, the same in all of {few(self.clusters)}"


def _ends(coefficients: Coefficients, clusters: int, level: float) -> tuple[float | None, float | None, str]:
    """Return the quantiles of the resamples and how they were had, or why there are none.

    They lie further out by Student's t and n/(n-1), without which few clusters have too narrow an interval (Hesterberg
    2015, "expanded percentile").
    """
    from pluralrm.stats.special import ndtr

    resamples = coefficients.resampled[~np.isnan(coefficients.resampled)]
    if clusters < FEWEST:
        return None, None, f"no interval: {clusters} items or clusters, and {FEWEST} are the fewest"
    if 2 * len(resamples) < len(coefficients.resampled):
        return None, None, "no interval: in most resamples all ratings are one label"
    tail = float(ndtr(-((clusters / (clusters - 1)) ** 0.5) * t_quantile(clusters - 1, level)))
    low, high = (round(float(end), 12) + 0.0 for end in np.quantile(resamples, [tail, 1 - tail]))
    return low, high, f"bootstrap over {few(clusters)}"


def _title(name: str, raters: int) -> str:
    if not name.startswith("kappa"):
        return TITLES[name]
    return f"{'Cohen' if raters == 2 else 'Conger'}'s {TITLES[name]}"


# ---------------------------------------------------------------- with each other, with themselves


@dataclass(frozen=True, slots=True)
class AlikeShare:
    """How often two annotators, or one annotator and all others, say the same of an item that both have judged."""

    annotators: tuple[str, ...]
    share: Estimate


def pairs_alike(votes: Votes) -> list[AlikeShare]:
    """Return every two annotators who have judged an item in common, with the share of items labelled alike."""
    shares = []
    for pair, compared in sorted(_compared(votes).items()):
        share = sum(same for same, _ in compared) / len(compared)
        low, high = wilson(share, len(compared), normal_quantile())
        shares.append(AlikeShare(pair, Estimate(share, low, high, len(compared), 0, "Wilson interval over items")))
    return shares


def with_others(votes: Votes) -> list[AlikeShare]:
    """Return for every annotator the share of comparisons with the others that are alike, lowest first."""
    own: dict[str, list[tuple[bool, str]]] = {}
    for pair, compared in _compared(votes).items():
        for name in pair:
            own.setdefault(name, []).extend(compared)
    shares = [
        AlikeShare((name,), _share([float(same) for same, _ in compared], [item for _, item in compared]))
        for name, compared in sorted(own.items())
    ]
    return sorted(shares, key=lambda row: row.share.value)


def _compared(votes: Votes) -> dict[tuple[str, str], list[tuple[bool, str]]]:
    """Return for every two annotators whether they are alike on each item that both have judged."""
    labels: dict[str, list[tuple[str, str]]] = {}
    for item, annotator, label in zip(votes.items, votes.annotators, votes.labels, strict=True):
        labels.setdefault(item, []).append((annotator, label))
    compared: dict[tuple[str, str], list[tuple[bool, str]]] = {}
    for item, ratings in labels.items():
        for (first, left), (second, other) in combinations(sorted(ratings), 2):
            compared.setdefault((first, second), []).append((left == other, item))
    return compared


def self_agreement(first: Sequence[str], again: Sequence[str], annotators: Sequence[str]) -> Estimate:
    """Return how often annotators say the same of an item that they are shown again; annotators are drawn together."""
    if not first:
        raise MetricError("no annotator judged an item twice; wanted repeats in the plan, or a column 'round'")
    return _share([float(label == other) for label, other in zip(first, again, strict=True)], list(annotators))


def _share(values: Sequence[float], clusters: Sequence[str]) -> Estimate:
    interval = share_interval(cluster_means(values, clusters))
    return Estimate(interval.value, interval.low, interval.high, len(values), 0, interval.method)


@dataclass(frozen=True, slots=True)
class Opinions:
    """What is said of one item; `most_frequent` is None where two labels are given equally often."""

    item: str
    most_frequent: str | None
    consensus: str
    likely: float
    """How likely the consensus is, given the ratings."""


@dataclass(frozen=True, slots=True)
class Together:
    """What is said of all items, and how often each annotator is expected to call a label by its name."""

    said: tuple[Opinions, ...]
    right: tuple[tuple[str, float], ...]

    @property
    def undecided(self) -> int:
        """Items in which two or more labels are equally frequent, and none is more so."""
        return sum(item.most_frequent is None for item in self.said)

    @property
    def differ(self) -> tuple[Opinions, ...]:
        """Items whose most frequent label is not the consensus."""
        return tuple(item for item in self.said if item.most_frequent not in {None, item.consensus})


def consensus(votes: Votes) -> Together:
    """Return the most frequent label and the consensus of every item."""
    ratings = votes.ratings()
    estimated, labels = dawid_skene(ratings), votes.scaled.labels
    items, annotators = sorted(set(votes.items)), sorted(set(votes.annotators))
    opinions = []
    for item, counts, likely in zip(items, ratings.counts, estimated.likely, strict=True):
        most = np.flatnonzero(counts == counts.max())
        best = int(likely.argmax())
        opinions.append(Opinions(item, labels[most[0]] if len(most) == 1 else None, labels[best], float(likely[best])))
    right = zip(annotators, estimated.right().tolist(), strict=True)
    return Together(tuple(opinions), tuple(right))

"""How far raters agree beyond chance: coefficients from ratings with gaps, for many resamples of the items at once.

Every coefficient is a ratio of sums over items, so a resample costs one row of a matrix product. What each one is:

percent     share of pairs of ratings of one item that are alike
kappa       Cohen (1960); weighted Cohen (1968); for more than two raters Conger (1980)
fleiss      Fleiss (1971); items need not have equally many ratings (Gwet 2014)
alpha       Krippendorff (2011), nominal, ordinal, interval
ac1, ac2    Gwet (2008); AC2 with quadratic weights

Chance is judged by: each rater's own shares of labels (kappa), all raters' together (fleiss, alpha), and how evenly
labels are used (ac1, ac2). With gaps, agreement is over items with two ratings or more, shares over all items.

Raters who are not equally good have a consensus by EM (Dawid and Skene 1979). Every rater has a table of how often each
true label is called each label; items' true labels and the tables are estimated in turn, beginning with the shares of
votes. Half a rating, spread as all raters' together, is added to each row of a table, so that a rater with few ratings
decides nothing alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from pluralrm.errors import MetricError
from pluralrm.stats.clusters import FloatArray, IntArray, on_grid, resample_counts

Scale = Literal["nominal", "ordinal", "interval"]
Weights = Literal["nominal", "linear", "quadratic"]
MOST_ORDERED = 40
"""Labels beyond which the ordinal alpha, which needs a table of pairs of labels for each item, is left out."""
_AT_ONCE = 4_000_000
"""Numbers held at once while raters' shares are resampled."""


@dataclass(frozen=True)
class Ratings:
    """Ratings as places: which item (N,), by which rater (N,), which label (N,); no rater rates an item twice."""

    item: IntArray
    rater: IntArray
    label: IntArray
    worths: FloatArray
    """(C,): what labels are worth, in ascending order; on a nominal scale their places."""

    def __post_init__(self) -> None:
        pairs = self.item * (int(self.rater.max(initial=0)) + 1) + self.rater
        if len(np.unique(pairs)) < len(pairs):
            raise MetricError("a rater rates an item twice; wanted one rating of each item by each rater")
        if len(self.worths) < 2 or not (np.diff(self.worths) > 0).all():
            raise MetricError(f"{len(self.worths)} labels: wanted two or more, in ascending order")

    @property
    def items(self) -> int:
        """How many items there are."""
        return int(self.item.max(initial=-1)) + 1

    @property
    def raters(self) -> int:
        """How many raters there are."""
        return int(self.rater.max(initial=-1)) + 1

    @cached_property
    def counts(self) -> FloatArray:
        """(items, C): how many raters gave each label to an item."""
        width = len(self.worths)
        flat = np.bincount(self.item * width + self.label, minlength=self.items * width)
        return flat.reshape(self.items, width).astype(np.float64)

    def weights(self, kind: Weights) -> FloatArray:
        """(C, C): how far two labels agree, from 0 to 1."""
        apart = np.abs(self.worths[:, None] - self.worths) / float(self.worths[-1] - self.worths[0])
        return {"nominal": np.eye(len(self.worths)), "linear": 1 - apart, "quadratic": 1 - apart**2}[kind]


class Coefficients(NamedTuple):
    """One coefficient of the ratings (NaN where it is 0/0), and of every resample of their items."""

    value: float
    resampled: FloatArray


Sums = Callable[[FloatArray], FloatArray]
"""Takes a column or columns (items, M), returns their sums over the items of each resample (B, M)."""


def coefficients(
    ratings: Ratings, scale: Scale, *, clusters: IntArray | None = None, resamples: int = 2_000, seed: int = 0
) -> dict[str, Coefficients]:
    """Return every coefficient that the scale allows, and the same of items drawn with replacement.

    With `clusters` (items,) all items of a cluster are drawn together.
    """
    if (ratings.counts.sum(axis=1) > 1).sum() < 1:
        raise MetricError("no item has two ratings; agreement wants two raters of one item at least")
    point = _all(ratings, scale, np.ones((1, ratings.items)), exact=True)
    cluster = np.arange(ratings.items) if clusters is None else clusters
    blocks = resample_counts(np.zeros(int(cluster.max()) + 1, dtype=np.intp), seed=seed, resamples=resamples)
    drawn = [_all(ratings, scale, counts[:, cluster], exact=False) for counts in blocks]
    return {
        name: Coefficients(float(value[0]), np.concatenate([block[name] for block in drawn]))
        for name, value in point.items()
    }


def with_one_more(ratings: Ratings, scale: Scale, share: float) -> dict[str, FloatArray]:
    """Return every coefficient of the items and one more, which has this share of the items with two ratings.

    There is a value for each way in which two raters could label it, of the labels at both ends of the scale and the
    four most frequent: what all items would come to if so large a share were not as the items that were seen.
    """
    labels = _telling(ratings)
    ways = np.array([(first, second) for first in labels for second in labels])
    items = ratings.items + np.arange(len(ways))
    more = Ratings(
        np.concatenate([ratings.item, np.repeat(items, 2)]),
        np.concatenate([ratings.rater, np.tile([0, 1], len(ways))]),
        np.concatenate([ratings.label, ways.ravel()]),
        ratings.worths,
    )
    per_item = ratings.counts.sum(axis=1)
    weight = float((per_item > 1).sum()) * share / (1 - share)

    def ends_at(weight: float) -> dict[str, FloatArray]:
        draws = np.hstack([np.ones((len(ways), ratings.items)), weight * np.eye(len(ways))])
        return _all(more, scale, draws, exact=False)

    # Alpha weighs items by their ratings: the new one is to weigh as the others do, though two rate it.
    alphas = ends_at(weight * float(per_item[per_item > 1].mean()) / 2)
    return {name: alphas[name] if name.startswith("alpha") else ends for name, ends in ends_at(weight).items()}


def _telling(ratings: Ratings) -> IntArray:
    frequent = np.argsort(-ratings.counts.sum(axis=0), kind="stable")[:4]
    return np.unique([0, len(ratings.worths) - 1, *frequent])


def _all(ratings: Ratings, scale: Scale, draws: FloatArray, *, exact: bool) -> dict[str, FloatArray]:
    """Return each coefficient for each row of `draws` (B, items): how often each item is drawn."""

    def sums(columns: FloatArray) -> FloatArray:
        if exact:
            return np.asarray(columns.sum(axis=0, keepdims=True))
        totals: FloatArray = draws @ on_grid(columns)  # exact on the grid, for any number of threads
        return totals

    kinds: tuple[Weights, ...] = ("nominal",) if scale == "nominal" else ("nominal", "linear", "quadratic")
    observed = {kind: _observed(ratings, kind, sums) for kind in kinds}
    shares = _shares(ratings, sums)
    values = {"percent": observed["nominal"]}
    for kind, chance in _raters_chance(ratings, kinds, draws).items():
        values["kappa" if kind == "nominal" else f"kappa_{kind}"] = _beyond(observed[kind], chance)
    values["fleiss"] = _beyond(observed["nominal"], (shares**2).sum(axis=1))
    values |= _alphas(ratings, scale, sums)
    values["ac1"] = _beyond(observed["nominal"], _gwet_chance(shares, ratings.weights("nominal")))
    if scale != "nominal":
        values["ac2"] = _beyond(observed["quadratic"], _gwet_chance(shares, ratings.weights("quadratic")))
    return values


def _beyond(observed: FloatArray, chance: FloatArray) -> FloatArray:
    """Return (observed - chance) / (1 - chance); NaN where chance leaves nothing to be agreed on."""
    room = 1 - chance
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(room > 1e-12, (observed - chance) / room, np.nan))


def _observed(ratings: Ratings, kind: Weights, sums: Sums) -> FloatArray:
    """Return the mean, over items with two ratings or more, of the agreement of their pairs of ratings."""
    counts = ratings.counts
    per_item = counts.sum(axis=1)
    alike = ((counts @ ratings.weights(kind)) * counts).sum(axis=1) - per_item
    several = per_item > 1
    share = np.where(several, alike / np.maximum(per_item * (per_item - 1), 1), 0.0)
    total = sums(np.stack([share, several.astype(np.float64)], axis=1))
    with np.errstate(invalid="ignore"):
        return np.asarray(total[:, 0] / total[:, 1])


def _shares(ratings: Ratings, sums: Sums) -> FloatArray:
    """Return (B, C): the labels' shares, each rated item counting once."""
    per_item = ratings.counts.sum(axis=1, keepdims=True)
    total = sums(np.hstack([ratings.counts / np.maximum(per_item, 1), (per_item > 0).astype(np.float64)]))
    with np.errstate(invalid="ignore"):
        return np.asarray(total[:, :-1] / total[:, -1:])


# ---------------------------------------------------------------- Cohen, Conger


def _raters_chance(ratings: Ratings, kinds: Sequence[Weights], draws: FloatArray) -> dict[Weights, FloatArray]:
    """Return for each resample what two different raters, each with shares of labels of its own, agree on by chance."""
    width = ratings.raters * len(ratings.worths)
    # Two raters are compared on what both have rated (Cohen); of many, each one's shares are over all it has (Gwet).
    mask = ratings.counts.sum(axis=1)[ratings.item] > (1 if ratings.raters == 2 else 0)
    columns = (ratings.rater * len(ratings.worths) + ratings.label)[mask]
    table = csr_array((np.ones(mask.sum()), (ratings.item[mask], columns)), shape=(ratings.items, width))
    chances: dict[Weights, list[FloatArray]] = {kind: [] for kind in kinds}
    rows = max(1, _AT_ONCE // width)
    for start in range(0, len(draws), rows):
        counts = (draws[start : start + rows] @ table).reshape(-1, ratings.raters, len(ratings.worths))
        for kind in kinds:
            chances[kind].append(_two_by_chance(counts, ratings.weights(kind)))
    return {kind: np.concatenate(parts) for kind, parts in chances.items()}


def _two_by_chance(counts: FloatArray, weights: FloatArray) -> FloatArray:
    """Return (B,): the mean agreement by chance of all pairs of raters; `counts` (B, r, C) has their labels."""
    total = counts.sum(axis=2, keepdims=True)
    own = counts / np.maximum(total, 1)
    raters = (total[:, :, 0] > 0).sum(axis=1)
    together = own.sum(axis=1)
    pairs = ((together @ weights) * together).sum(axis=1) - ((own @ weights) * own).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(pairs / (raters * (raters - 1.0)))


# ---------------------------------------------------------------- Gwet, Krippendorff


def _gwet_chance(shares: FloatArray, weights: FloatArray) -> FloatArray:
    labels = len(weights)
    chance: FloatArray = weights.sum() / (labels * (labels - 1)) * (shares * (1 - shares)).sum(axis=1)
    return chance


def _alphas(ratings: Ratings, scale: Scale, sums: Sums) -> dict[str, FloatArray]:
    """Return alpha for every metric that the scale allows: 1 - observed over expected disagreement."""
    counts = ratings.counts
    per_item = counts.sum(axis=1)
    inside = np.where((per_item > 1)[:, None], counts, 0.0)
    marginal = sums(inside)
    spread = 1 / np.maximum(per_item - 1, 1)
    alphas = {"alpha_nominal": _alpha(_apart_nominal(inside, spread, sums), _expected_nominal(marginal), marginal)}
    if scale != "nominal" and len(ratings.worths) <= MOST_ORDERED:
        alphas["alpha_ordinal"] = _ordinal(inside, spread, marginal, sums)
    if scale == "interval":
        worths = np.broadcast_to(ratings.worths, marginal.shape)
        total, squares = (inside @ ratings.worths, inside @ ratings.worths**2)
        apart = sums((2 * spread * (per_item * squares - total**2) * (per_item > 1))[:, None])[:, 0]
        alphas["alpha_interval"] = _alpha(apart, _expected_squares(marginal, worths), marginal)
    return alphas


def _alpha(apart: FloatArray, expected: FloatArray, marginal: FloatArray) -> FloatArray:
    """Return 1 - (n - 1) apart / expected, both summed over ordered pairs (Krippendorff 2011)."""
    number = marginal.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(expected > 1e-9, 1 - (number - 1) * apart / expected, np.nan))


def _apart_nominal(inside: FloatArray, spread: FloatArray, sums: Sums) -> FloatArray:
    per_item = inside.sum(axis=1)
    return sums((spread * (per_item**2 - (inside**2).sum(axis=1)))[:, None])[:, 0]


def _expected_nominal(marginal: FloatArray) -> FloatArray:
    expected: FloatArray = marginal.sum(axis=1) ** 2 - (marginal**2).sum(axis=1)
    return expected


def _expected_squares(marginal: FloatArray, worths: FloatArray) -> FloatArray:
    """Return the sum of squared differences over all ordered pairs of ratings, (B,); worths (B, C)."""
    number, total = marginal.sum(axis=1), (marginal * worths).sum(axis=1)
    expected: FloatArray = 2 * (number * (marginal * worths**2).sum(axis=1) - total**2)
    return expected


def _ordinal(inside: FloatArray, spread: FloatArray, marginal: FloatArray, sums: Sums) -> FloatArray:
    """Return the ordinal alpha: the difference of two labels is that of their mean ranks among all ratings."""
    labels = inside.shape[1]
    pairs = (inside[:, :, None] * inside[:, None, :] * spread[:, None, None]).reshape(len(inside), -1)
    together = sums(pairs).reshape(-1, labels, labels)
    ranks = np.cumsum(marginal, axis=1) - marginal / 2
    apart = ((ranks[:, :, None] - ranks[:, None, :]) ** 2 * together).sum(axis=(1, 2))
    return _alpha(apart, _expected_squares(marginal, ranks), marginal)


_STEPS = 500
_STILL = 1e-9
_ADDED = 0.5


class Consensus(NamedTuple):
    """How likely each label is the true one of each item (items, C), and what raters make of true labels (r, C, C)."""

    likely: FloatArray
    called: FloatArray
    shares: FloatArray
    """(C,): of the true labels."""
    steps: int

    def right(self) -> FloatArray:
        """Return (r,): how often each rater is expected to call a label by its name."""
        share: FloatArray = (np.diagonal(self.called, axis1=1, axis2=2) * self.shares).sum(axis=1)
        return share


def dawid_skene(ratings: Ratings) -> Consensus:
    """Return the consensus; an item without a rating has the shares of all labels."""
    likely = _votes(ratings)
    moved, steps = 1.0, 0
    while moved > _STILL and steps < _STEPS:
        before, likely = likely, _posterior(ratings, *_tables(ratings, likely))
        moved, steps = float(np.abs(likely - before).max()), steps + 1
    return Consensus(likely, *_tables(ratings, likely), steps)


def _votes(ratings: Ratings) -> FloatArray:
    per_item = ratings.counts.sum(axis=1, keepdims=True)
    everywhere = ratings.counts.sum(axis=0) / ratings.counts.sum()
    votes: FloatArray = np.where(per_item > 0, ratings.counts / np.maximum(per_item, 1), everywhere)
    return votes


def _tables(ratings: Ratings, likely: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the tables (r, true C, called C) and the shares of true labels, given how likely each label is."""
    labels = len(ratings.worths)
    by_call = np.zeros((ratings.raters, labels, labels))
    np.add.at(by_call, (ratings.rater, ratings.label), likely[ratings.item])
    calls = by_call.swapaxes(1, 2)
    shares = likely.mean(axis=0)
    everyone = calls.sum(axis=0) + 1e-3
    calls = calls + _ADDED * everyone / everyone.sum(axis=1, keepdims=True)
    return calls / calls.sum(axis=2, keepdims=True), shares


def _posterior(ratings: Ratings, called: FloatArray, shares: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs = np.tile(np.log(shares), (ratings.items, 1))
    np.add.at(logs, ratings.item, np.log(called[ratings.rater, :, ratings.label]))
    logs -= logs.max(axis=1, keepdims=True)
    likely = np.exp(logs)
    posterior: FloatArray = likely / likely.sum(axis=1, keepdims=True)
    return posterior

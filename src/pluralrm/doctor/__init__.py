"""What a local neural model really reads, and whether all ways to compute its scores agree.

>>> from pluralrm.models import load_model
>>> is_neural(load_model("longest"))
False

`examine` needs the extra hf, as the model that it looks at does; nothing heavy loads before.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeGuard

import numpy as np

from pluralrm.core import Benchmark, Condition, Estimate, Failure, Item, Query, RewardModel, Row, Run, Score, Verdict
from pluralrm.display import Brief
from pluralrm.errors import MetricError, ModelError, RunError
from pluralrm.metrics.units import decision, numbers
from pluralrm.runs.imported import FileVerdicts, rows_of
from pluralrm.runs.records import GateRecord
from pluralrm.runs.store import keep_gate
from pluralrm.stats import cluster_means, correlation, share_interval, spread
from pluralrm.stats.clusters import RESAMPLES
from pluralrm.stats.intervals import robust, t_quantile

if TYPE_CHECKING:
    from pluralrm.doctor.tokens import TokenView
    from pluralrm.models.neural.kind import NeuralModel


__all__ = ["Colour", "Examination", "Sign", "examine", "is_neural"]

Colour = Literal["green", "yellow", "red"]
"""As it should be; worth knowing before a number is published; numbers would be wrong, or fail."""


class Sign(NamedTuple):
    """One property of a model: what was found, why that is good or bad, and what to do where it is not good."""

    name: str
    colour: Colour
    found: str
    reason: str
    remedy: str = ""
    differs: bool = False
    """Whether other programs are likely to read the model in another way, and so get other scores."""


_SCORED = 4
"""Queries that are scored in several ways; each way costs as much as scoring them once."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The signs of a model, and one query as it read it; without a query where there is nothing to look into."""

    model: str
    signs: tuple[Sign, ...]
    benchmark: str = ""
    condition: str = ""
    item: str = ""
    sample: "tuple[TokenView | Failure, ...]" = ()
    """Every conversation that the query asks about."""
    flips: "PrecisionFlips | None" = None
    """What the dtype changes against float32; None where it is float32."""

    @property
    def red(self) -> bool:
        """True where numbers would be wrong."""
        return any(sign.colour == "red" for sign in self.signs)

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names, ids whole."""
        sample = [
            {"failure": view.kind, "detail": view.detail} if isinstance(view, Failure) else asdict(view)
            for view in self.sample
        ]
        fields = {"benchmark": self.benchmark, "condition": self.condition, "item": self.item, "sample": sample}
        flips = {} if self.flips is None else {"flips": self.flips.to_json()}
        return {"model": self.model, **fields, "signs": [sign._asdict() for sign in self.signs], **flips}


def is_neural(model: RewardModel) -> "TypeGuard[NeuralModel]":
    """Return whether a model is made of local weights, which can be looked into; torch is not loaded to find out."""
    kind = sys.modules.get("pluralrm.models.neural.kind")
    return kind is not None and isinstance(model, kind.NeuralModel)


FLIP_ITEMS = 100
"""Items that are scored again in float32, where a model is held in another dtype."""


def examine(
    model: "NeuralModel", benchmark: Benchmark, condition: Condition, *, item: str = "", limit: int = FLIP_ITEMS
) -> Examination:
    """Return the signs of a model on one item and a few others; an unknown item is a BenchmarkError.

    A dtype other than float32 is compared with float32 on up to `limit` items.
    """
    from pluralrm.doctor.scores import score_signs
    from pluralrm.doctor.tokens import Pieces, TokenView, chosen, labels, length, look, spaced, token_signs, views

    items = chosen(benchmark, condition, item)
    sample, *others = (look(model, query) for query in condition.queries(benchmark, items))
    pieces = Pieces(model.folders[""])
    read = views(model, sample, pieces)
    view = next((view for view in read if isinstance(view, TokenView)), None)
    flips = None
    if model.precision not in {"float32", "float64"}:
        by_id = {entry.id: entry for entry in items}
        flips = _flips_of(model, [(by_id[each.query.id], each.query) for each in (sample, *spaced(others, limit - 1))])
    return Examination(
        model=model.spec,
        signs=(
            *([] if view is None else token_signs(model, view, pieces)),
            length(model, [sample, *others]),
            *labels(model),
            *score_signs(model, [sample, *spaced(others, _SCORED - 1)], items=len(benchmark.items)),
            *([flips.sign] if isinstance(flips, PrecisionFlips) else [flips] if flips else []),
        ),
        benchmark=benchmark.card.name,
        condition=condition.spec,
        item=sample.query.id,
        sample=tuple(read),
        flips=flips if isinstance(flips, PrecisionFlips) else None,
    )


def _flips_of(model: "NeuralModel", pairs: "Sequence[tuple[Item, Query]]") -> "PrecisionFlips | Sign":
    """Return what the model's dtype changes; a sign that says why where float32 does not fit into memory."""
    from pluralrm.doctor.scores import exact_twin

    items, queries = zip(*pairs, strict=True)
    try:
        # First, and gone before the model itself is opened: both together may not fit.
        exact = list(exact_twin(model).score(queries))
    except (ModelError, MemoryError, RuntimeError) as exc:
        remedy = "Look where float32 fits, or at a smaller model of the family"
        return Sign("flips", "yellow", "not measured: no scores in float32", str(exc)[:200], remedy)
    return precision_flips(items, exact, list(model.score(queries)))


TOLERANCE = 1e-4
"""How far a score may move where float32 computes it in another way ..."""
ROUNDING = 1e-6
"""... and, for scores in the hundreds, how far as a share of the largest."""
HARMFUL = 0.1
"""A drift of this share of the usual gap between candidates decides some of their orders."""


class ScoreDrift(NamedTuple):
    """How two ways of scoring the same queries differ."""

    compared: int
    """Scores that both ways gave."""
    largest: float
    turned: int
    """Pairs of candidates that change their order, beyond rounding."""
    gap: float | None
    """How far two candidates of a query are apart: the median."""
    one_sided: int
    """Scores that one way gave and the other did not."""
    tolerance: float


def score_drift(some: Sequence[Verdict], others: Sequence[Verdict]) -> ScoreDrift:
    """Return how two ways of scoring differ."""
    scores = [list(zip(left.scores, other.scores, strict=True)) for left, other in zip(some, others, strict=True)]
    both = [[(a, b) for a, b in pairs if not isinstance(a, Failure) and not isinstance(b, Failure)] for pairs in scores]
    flat = [pair for pairs in both for pair in pairs]
    tolerance = max(TOLERANCE, ROUNDING * max((abs(a) for a, _ in flat), default=0.0))
    moves = [(a - c, b - d) for pairs in both for (a, b), (c, d) in combinations(pairs, 2)]
    return ScoreDrift(
        compared=len(flat),
        largest=max((abs(a - b) for a, b in flat), default=0.0),
        turned=sum(x * y < 0 and max(abs(x), abs(y)) > 2 * tolerance for x, y in moves),
        gap=median(abs(x) for x, _ in moves) if moves else None,
        one_sided=sum(isinstance(a, Failure) != isinstance(b, Failure) for pairs in scores for a, b in pairs),
        tolerance=tolerance,
    )


def agreement(name: str, drift: ScoreDrift, *, promise: str, remedy: str) -> Sign:
    """Return whether two ways agree: red where an order turns, or would soon."""
    if not drift.compared or drift.one_sided:
        what = f"{drift.one_sided} scores that one way gives and the other does not" if drift.one_sided else "no score"
        return Sign(name, "red", what, f"{promise}, and that cannot be seen from failures", remedy)
    gap = "" if drift.gap is None else f"; candidates are {drift.gap:.2g} apart (median)"
    finding = f"largest difference {drift.largest:.1g} among {drift.compared} scores{gap}"
    if drift.largest <= drift.tolerance:
        return Sign(name, "green", finding, promise)
    if drift.turned or (drift.gap is not None and drift.largest > HARMFUL * drift.gap):
        turned = (
            f"{drift.turned} pairs of candidates change their order" if drift.turned else "some orders depend on it"
        )
        return Sign(name, "red", finding, f"not so: {promise}; {turned}", remedy)
    return Sign(name, "yellow", finding, f"only nearly: {promise}; no order of candidates turns", remedy)


# ---- What does a dtype change? Every pair of an item's candidates, in float32 and as it is held.


Change = Literal["reversed", "tied", "failed"]


class Flip(NamedTuple):
    """A pair of candidates whose preference is another one than in float32."""

    item: str
    candidates: tuple[int, int]
    kind: Change
    margin: float
    """How far float32 has the two apart."""


@dataclass(frozen=True, slots=True)
class PrecisionFlips:
    """How many preferences a dtype changes; a pair that float32 does not score is left out and counted."""

    pairs: int
    rate: Estimate | None
    """None where float32 scores no pair."""
    flips: tuple[Flip, ...]
    """The largest margin first."""
    moved: tuple[float, float]
    """The mean and the largest difference of scores."""
    gap: float
    """How far float32 has two candidates apart: the median."""
    unscored: int = 0

    @property
    def sign(self) -> Sign:
        """Green where the interval of flips lies below 3%, red where it lies above."""
        remedy = "Name dtype=float32 for numbers that others can reproduce"
        if self.rate is None:
            return Sign("flips", "red", "not measured: float32 scores no pair", "", remedy)
        low, high = self.rate.low or 0.0, 1.0 if self.rate.high is None else self.rate.high
        counts = Counter(flip.kind for flip in self.flips)
        kinds = "".join(f", {counts[kind]} {kind}" for kind in ("reversed", "tied", "failed") if counts[kind])
        share = f"{100 * self.rate.value:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"
        text = f"{len(self.flips)} of {self.pairs} preferences differ from float32, {share}{kinds}"
        mean, largest = self.moved
        apart = f"candidates are {self.gap:.2g} apart (median)"
        reasons = [f"scores move by {mean:.2g} on average, by {largest:.2g} at most; {apart}"]
        if names := list(dict.fromkeys(flip.item for flip in self.flips)):
            more = f" and {len(names) - _NAMES} more (--json)" * (len(names) > _NAMES)
            reasons.append(f"changed, the largest margin first: {', '.join(names[:_NAMES])}{more}")
        if self.unscored:
            reasons.append(f"float32 does not score {self.unscored} pairs")
        colour: Colour = "red" if low > 1 - EQUAL else "green" if high < 1 - EQUAL else "yellow"
        return Sign("flips", colour, text, "; ".join(reasons), "" if colour == "green" else remedy)

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        flips = [flip._asdict() for flip in self.flips]
        return {**asdict(self), "rate": self.rate and self.rate.to_json(), "flips": flips}


_NAMES = 6
"""Items that a sign names."""


def precision_flips(items: Sequence[Item], exact: Sequence[Verdict], low: Sequence[Verdict]) -> PrecisionFlips:
    """Return which preferences of `low` are not those of `exact`; a tie or a failure on one side alone is a change."""
    changes: list[Flip | None] = []
    clusters, prompts, gaps, moved, unscored = [], [], [], [], 0
    for item, exact_verdict, low_verdict in zip(items, exact, low, strict=True):
        both = list(zip(exact_verdict.scores, low_verdict.scores, strict=True))
        moved += [abs(a - b) for a, b in both if not isinstance(a, Failure) and not isinstance(b, Failure)]
        for i, j in combinations(range(len(both)), 2):
            (first, first_low), (second, second_low) = both[i], both[j]
            if isinstance(first, Failure) or isinstance(second, Failure):
                unscored += 1
                continue
            kind = _change(first - second, first_low, second_low)
            changes.append(kind and Flip(item.id, (i, j), kind, abs(first - second)))
            gaps.append(abs(first - second))
            clusters.append(item.cluster)
            prompts.append(item.crossed)
    flips = sorted(filter(None, changes), key=lambda flip: -flip.margin)
    rate = None
    if changes:
        interval = share_interval(
            cluster_means([float(flip is not None) for flip in changes], clusters, crossed=prompts)
        )
        failed = sum(flip.kind == "failed" for flip in flips)
        rate = Estimate(interval.value, interval.low, interval.high, len(changes), failed, interval.method)
    drift = (float(np.mean(moved)), max(moved)) if moved else (0.0, 0.0)
    return PrecisionFlips(len(changes), rate, tuple(flips), drift, median(gaps) if gaps else 0.0, unscored)


def _change(margin: float, first: Score, second: Score) -> Change | None:
    """Return how the order of two candidates differs from the one that float32's margin gives."""
    if isinstance(first, Failure) or isinstance(second, Failure):
        return "failed"
    signs = np.sign(margin), np.sign(first - second)
    return None if signs[0] == signs[1] else "tied" if 0 in signs else "reversed"


# ---- Does the harness reproduce what somebody published of the same model? Two sets of rows, item by item.
#
# An item's decision is the set of candidates with the highest score; a failed item has none, and equals nothing. Near
# the margin is the tenth of the items whose published best and second best scores lie closest: there numerics flip.

EQUAL = 0.97
"""Green where the interval of equal decisions lies above it, red where it lies below."""
RANKS, RANKS_RED = 0.98, 0.90
"""Green needs a rank correlation of scores of the first at least; below the second it is red."""
FAR, FAR_RED = 0.01, 0.05
"""The most flips away from the margin, as a share of the items there, for green; above the second it is red."""
_NEAR = 0.1
_LEAST, _WORK = 400, 1_000_000
"""Resamples at least; and scores times resamples, above which there are fewer of them."""


@dataclass(frozen=True, slots=True, repr=False)
class GateCard(Brief):
    """How far a model's decisions and scores are those that were published; `reasons` say why it is not green."""

    model: str
    against: str
    colour: Colour
    reasons: tuple[str, ...]
    items: int
    of: int
    estimates: Mapping[str, Estimate]
    """`equal` decisions; flips `near` the margin and `far` from it, Spearman of all scores (`ranks`), mean `drift`.

    All but the first are missing where a side holds choices alone.
    """

    def __str__(self) -> str:
        equal = self.estimates["equal"]
        ends = "" if equal.low is None or equal.high is None else f" [{100 * equal.low:.1f}, {100 * equal.high:.1f}]"
        part = f" of {self.of:,}" * (self.items < self.of)
        share = f"{self.colour}: {100 * equal.value:.1f}%{ends} of the decisions on {self.items:,}{part} items"
        return f"{share} are those of {self.against}{': ' * bool(self.reasons)}{'; '.join(self.reasons)}"

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        estimates = {name: estimate.to_json() for name, estimate in self.estimates.items()}
        return {**asdict(self), "reasons": list(self.reasons), "estimates": estimates, "text": str(self)}


def gate(run: Run, published: Sequence[Row], against: str, *, seed: int = 0) -> GateCard:
    """Return the card of a finished run against published rows on its items, or on a part of them."""
    if not run.complete:
        raise MetricError(f"{run.path} is unfinished: the same 'pluralrm score' command resumes it")
    own = {row.item: row for row in run.rows}
    rows = [(own[row.item], row) for row in published if row.item in own]
    if not rows:
        raise MetricError(f"{against} has no item of {run.path}")
    estimates = {"equal": _share([float(decision(a) == decision(b) != ()) for a, b in rows], rows)}
    scored = [(a, b) for a, b in rows if numbers(a) is not None and numbers(b) is not None]
    margins = [_margin(row) for _, row in scored]
    if len(set(margins)) > 1 and len({_margin(row) for row, _ in scored}) > 1:
        estimates |= _flips(scored, margins) | _scores(scored, seed)
    colour, reasons = _verdict(estimates, failed=len(rows) - len(scored))
    return GateCard(run.model, against, colour, reasons, len(rows), len(run.rows), estimates)


def keep(run: Run, card: GateCard, sha256: Sequence[str]) -> None:
    """Keep the card with the run: tables and reports of it then have its line."""
    if not run.path:
        raise RunError("the run lies in no folder, so its gate card cannot be kept")
    estimates = {name: estimate.to_json() for name, estimate in card.estimates.items()}
    facts = {"colour": card.colour, "against": card.against, "sha256": tuple(sha256), "text": str(card)}
    keep_gate(Path(run.path), GateRecord.model_validate({**facts, "items": card.items, "estimates": estimates}))


def published_rows(source: str, parts: Sequence[FileVerdicts], benchmark: Benchmark, name: str = "") -> list[Row]:
    """Return the rows of the one model in a file, or of the one that is named where it holds several."""
    chosen = [part for part in parts if name in {"", part.judge}]
    if len(chosen) != 1:
        names = ", ".join(part.judge for part in parts)
        raise MetricError(f"{source} holds {len(parts)} models: {names}; name one with --of")
    return rows_of(chosen[0], benchmark)


def _margin(row: Row) -> float:
    first, second, *_ = sorted(numbers(row) or (0.0, 0.0), reverse=True)
    return first - second


Pairs = Sequence[tuple[Row, Row]]


def _share(values: Sequence[float], rows: Pairs) -> Estimate:
    clusters, prompts = [row.cluster for row, _ in rows], [row.prompt for row, _ in rows]
    interval = share_interval(cluster_means(values, clusters, crossed=prompts))
    failed = sum(a.failed or b.failed for a, b in rows)
    return Estimate(interval.value, interval.low, interval.high, len(rows), failed, interval.method)


def _flips(rows: Pairs, margins: Sequence[float]) -> dict[str, Estimate]:
    """Return how often decisions differ where the published margin is small, and where it is not."""
    edge = float(np.quantile(margins, _NEAR))
    sides = {"near": [index for index, m in enumerate(margins) if m <= edge]}
    sides["far"] = [index for index, m in enumerate(margins) if m > edge]
    flips = [float(decision(a) != decision(b)) for a, b in rows]
    return {
        name: _share([flips[index] for index in places], [rows[index] for index in places])
        for name, places in sides.items()
        if places
    }


def _scores(rows: Pairs, seed: int) -> dict[str, Estimate]:
    """Return how the scores themselves moved: their rank correlation, and the mean of |own - published|."""
    pairs = [
        (score, before, row.cluster, row.prompt)
        for row, other in rows
        for score, before in zip(numbers(row) or (), numbers(other) or (), strict=True)
    ]
    own, published, clusters, prompts = ([*column] for column in zip(*pairs, strict=True))
    resamples = max(_LEAST, min(RESAMPLES, _WORK // len(pairs)))
    ranks = correlation(own, published, clusters, kind="spearman", seed=seed, resamples=resamples, crossed=prompts)
    change = np.abs(np.subtract(own, published))
    means = cluster_means(change, clusters, crossed=prompts)
    value, method = float(means.means[0]), f"mean of |own - published|, raw; largest {change.max():.6g}"
    drift = Estimate(value, None, None, len(pairs), 0, f"{method}; no interval: one cluster, or one change throughout")
    if means.clusters() > 1 and np.ptp(change) > 0:
        variance, df = spread(means, 0)
        half = t_quantile(df) * float(variance) ** 0.5
        drift = Estimate(value, max(0.0, value - half), value + half, len(pairs), 0, f"{method}; {robust(means)} t")
    return {"ranks": Estimate(ranks.value, ranks.low, ranks.high, len(pairs), 0, ranks.method), "drift": drift}


def _verdict(estimates: Mapping[str, Estimate], *, failed: int) -> tuple[Colour, tuple[str, ...]]:
    """Return the colour, and in words what keeps it from green."""
    equal, ranks, far = (estimates.get(name) for name in ("equal", "ranks", "far"))
    red, yellow = [], []
    if equal is not None and equal.high is not None and equal.high < EQUAL:
        red.append(f"equal decisions are fewer than {100 * EQUAL:.0f}%")
    elif equal is None or equal.low is None or equal.low < EQUAL:
        yellow.append(f"equal decisions may be fewer than {100 * EQUAL:.0f}%")
    if ranks is not None and ranks.value < RANKS:
        (red if ranks.value < RANKS_RED else yellow).append(f"rank correlation {ranks.value:.3f}, wanted {RANKS:g}")
    if far is not None and far.value > FAR:
        text = f"{100 * far.value:.1f}% flips away from the margin, wanted at most {100 * FAR:.0f}%"
        (red if far.value > FAR_RED else yellow).append(text)
    if failed:
        yellow.append(f"{failed:,} items failed on a side")
    return ("red" if red else "yellow" if yellow else "green"), (*red, *yellow)

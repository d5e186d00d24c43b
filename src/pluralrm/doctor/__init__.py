"""What a local neural model really reads, and whether all ways to compute its scores agree.

>>> from pluralrm.models import load_model
>>> is_neural(load_model("longest"))
False

`examine` needs the extra hf, as the model that it looks at does; nothing heavy loads before.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeGuard

from pluralrm.core import Benchmark, Condition, Failure, RewardModel, Verdict

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

    @property
    def red(self) -> bool:
        """True where numbers would be wrong."""
        return any(sign.colour == "red" for sign in self.signs)

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names, ids whole."""
        sample = [
            {"failure": one.kind, "detail": one.detail} if isinstance(one, Failure) else asdict(one)
            for one in self.sample
        ]
        named = {"benchmark": self.benchmark, "condition": self.condition, "item": self.item, "sample": sample}
        return {"model": self.model, **named, "signs": [sign._asdict() for sign in self.signs]}


def is_neural(model: RewardModel) -> "TypeGuard[NeuralModel]":
    """Return whether a model is made of local weights, which can be looked into; torch is not loaded to find out."""
    kind = sys.modules.get("pluralrm.models.neural.kind")
    return kind is not None and isinstance(model, kind.NeuralModel)


def examine(model: "NeuralModel", benchmark: Benchmark, condition: Condition, *, item: str = "") -> Examination:
    """Return the signs of a model on one item and a few others; an unknown item is a BenchmarkError."""
    from pluralrm.doctor.scores import score_signs
    from pluralrm.doctor.tokens import Pieces, TokenView, chosen, labels, length, look, spaced, token_signs, views

    items = chosen(benchmark, condition, item)
    sample, *others = (look(model, query) for query in condition.queries(benchmark, items))
    pieces = Pieces(model.folders[""])
    read = views(model, sample, pieces)
    view = next((one for one in read if isinstance(one, TokenView)), None)
    return Examination(
        model=model.spec,
        signs=(
            *([] if view is None else token_signs(model, view, pieces)),
            length(model, [sample, *others]),
            *labels(model),
            *score_signs(model, [sample, *spaced(others, _SCORED - 1)], items=len(benchmark.items)),
        ),
        benchmark=benchmark.card.name,
        condition=condition.spec,
        item=sample.query.id,
        sample=tuple(read),
    )


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
    scores = [list(zip(one.scores, other.scores, strict=True)) for one, other in zip(some, others, strict=True)]
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


def agreement(name: str, found: ScoreDrift, *, promise: str, remedy: str) -> Sign:
    """Return whether two ways agree: red where an order turns, or would soon."""
    if not found.compared or found.one_sided:
        what = f"{found.one_sided} scores that one way gives and the other does not" if found.one_sided else "no score"
        return Sign(name, "red", what, f"{promise}, and that cannot be seen from failures", remedy)
    gap = "" if found.gap is None else f"; candidates are {found.gap:.2g} apart (median)"
    told = f"largest difference {found.largest:.1g} among {found.compared} scores{gap}"
    if found.largest <= found.tolerance:
        return Sign(name, "green", told, promise)
    if found.turned or (found.gap is not None and found.largest > HARMFUL * found.gap):
        turned = (
            f"{found.turned} pairs of candidates change their order" if found.turned else "some orders depend on it"
        )
        return Sign(name, "red", told, f"not so: {promise}; {turned}", remedy)
    return Sign(name, "yellow", told, f"only nearly: {promise}; no order of candidates turns", remedy)

"""What a local neural model really reads, and whether all ways to compute its scores agree.

>>> from pluralrm.models import load_model
>>> is_neural(load_model("longest"))
False

`examine` needs the extra hf, as the model that it looks at does; nothing heavy loads before.
"""

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeGuard

from pluralrm.core import Benchmark, Condition, Failure, RewardModel

if TYPE_CHECKING:
    from pluralrm.doctor.sample import TokenView
    from pluralrm.models.neural.kind import NeuralModel


Colour = Literal["green", "yellow", "red"]
"""As it should be; worth knowing before a number is published; numbers would be wrong, or fail."""


class Sign(NamedTuple):
    """One property of a model: what was found, why that is good or bad, and what to do where it is not good."""

    name: str
    colour: Colour
    found: str
    reason: str
    remedy: str = ""


__all__ = ["Colour", "Examination", "Sign", "examine", "is_neural"]

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
    from pluralrm.doctor.sample import Pieces, TokenView, chosen, look, spaced, views
    from pluralrm.doctor.scores import score_signs
    from pluralrm.doctor.tokens import labels, length, token_signs

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

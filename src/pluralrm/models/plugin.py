"""Other people's reward models: `python:package.module:Class,key=value`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from pluralrm.core import Query, Reveals, RewardModel, Verdict
from pluralrm.errors import ModelError
from pluralrm.models.declarations import compares_of, reveals_of
from pluralrm.plugin import Maker, Wanted, asks_of, find
from pluralrm.specs import Spec

_WANTED = Wanted("model", "package.module:Class", ModelError, "docs/add-a-model.md")


@dataclass(frozen=True)
class PluginModel:
    """Somebody's model under the spec that named it; what it yields is checked before it is believed."""

    spec: str
    model: RewardModel
    identity: Mapping[str, str] = field(default_factory=dict)
    reveals: frozenset[Reveals] = frozenset()
    compares: bool = True

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield the model's verdicts; anything else it yields is a TypeError that says what was wanted."""
        for verdict in self.model.score(queries):
            if not isinstance(verdict, Verdict):
                raise TypeError(f"score() yielded {type(verdict).__name__}; wanted pluralrm.Verdict((score, ...))")
            yield verdict


def load(spec: Spec) -> PluginModel:
    """Return the model that `python:module:Class` names, made with the spec's keys."""
    maker = find(spec, _WANTED)
    said = _compares(maker, maker.call)
    made = maker.make()
    maker.require(made, {"score": "score(queries)"})
    model = cast(RewardModel, made)
    if (own := _compares(maker, model)) is not said:
        raise ModelError(
            f"{spec.target!r} makes a model whose compares is {own}, and says {said} itself: what is asked of it is "
            f"known before it is made; write compares = {own} in the class, or on the function that makes it"
        )
    reveals = maker.ask(lambda: reveals_of(model), "cannot say what it reveals")
    return PluginModel(str(spec), model, maker.identity(model), reveals, said)


def compares(spec: Spec) -> bool:
    """Return whether the class that a spec names is taken to compare answers; no model is made."""
    maker = find(spec, _WANTED)
    return _compares(maker, maker.call)


def asks(spec: Spec) -> tuple[str, ...]:
    """Return the chat models that the class a spec names asks, by what it declares; no model is made."""
    return asks_of(spec, _WANTED)


def _compares(maker: Maker, declared: object) -> bool:
    return maker.ask(lambda: compares_of(declared), "cannot say whether it compares")

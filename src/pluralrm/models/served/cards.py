"""Which model a server serves: its name, where its weights come from, how much it reads."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pluralrm.core import Failure
from pluralrm.errors import ServiceError, did_you_mean
from pluralrm.http import Call, UnsoundError
from pluralrm.models.served.desk import Desk
from pluralrm.models.served.dialect import Dialect, count_of, part

_TOLD = ("model_path", "weight_version")
"""Facts of an info route that name the weights."""


class Card(NamedTuple):
    """What a server says of a model; empty or None where it says nothing."""

    name: str = ""
    root: str = ""
    limit: int | None = None
    parent: str = ""
    """For an adapter, the model that it is put on."""
    told: Mapping[str, str] = {}


def identify(desk: Desk, dialect: Dialect, wanted: str) -> Card:
    """Return the card of the model that is wanted, or of the only one; a ServiceError names those that are served."""
    if not dialect.models:
        return Card()
    cards = desk.ask(Call(dialect.models, fresh=True), read_cards)
    card = _chosen(desk, cards, wanted)
    base = next((other.limit for other in cards if other.name == card.parent), None)
    return card._replace(limit=card.limit or base, told=_told(desk, dialect))


def _chosen(desk: Desk, cards: Sequence[Card], wanted: str) -> Card:
    named = {card.name: card for card in cards}
    if wanted:
        if wanted not in named:
            raise desk.refuse(f"serves no model {wanted!r}.{did_you_mean(wanted, named)}")
        return named[wanted]
    bases = [card for card in cards if not card.parent]
    if len(bases) != 1:
        raise desk.refuse(f"serves {len(bases)} models ({', '.join(named) or 'none'}); name one with model=NAME")
    return bases[0]


def read_cards(value: object) -> list[Card]:
    """Return the models that a server lists, or raise UnsoundError."""
    listed = part(value, "data")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) and _text(entry, "id") for entry in listed):
        raise UnsoundError("'data' is no list of models with an 'id' each")
    return [
        Card(_text(entry, "id"), _text(entry, "root"), count_of(entry.get("max_model_len")), _text(entry, "parent"))
        for entry in listed
    ]


def _told(desk: Desk, dialect: Dialect) -> dict[str, str]:
    """Return what the first info route that exists says of the weights; a language model is refused."""
    for route in dialect.info:
        found = desk.attempt(Call(route, fresh=True))
        if isinstance(found, ServiceError | Failure) or not isinstance(found, dict):
            continue
        if found.get("is_generation") is True:
            raise desk.refuse(f"serves a language model, which has no reward head. Wanted: {dialect.start}")
        return {name.replace("_", " "): str(found[name]) for name in _TOLD if found.get(name)}
    return {}


def _text(entry: Mapping[str, object], name: str) -> str:
    found = entry.get(name)
    return found if isinstance(found, str) else ""

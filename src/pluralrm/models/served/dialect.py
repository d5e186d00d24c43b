"""How servers of reward heads differ, as data: where they are asked, in which words, and where the numbers are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pluralrm.http import UnsoundError
from pluralrm.models.served.spoken import Spoken


class Manner(NamedTuple):
    """How one question is put."""

    model: str = ""
    special: bool = False
    """True where the tokenizer's own special tokens come around what the chat template writes."""
    activated: bool = False
    """True where an activation (a sigmoid) goes over the head's numbers."""


class Read(NamedTuple):
    """What one reply says: the head's numbers for one text, and how many tokens it had, where the server counts."""

    numbers: tuple[float, ...]
    tokens: int | None = None


class Tokens(NamedTuple):
    """A text as the server's tokenizer reads it; `strings` are the tokens themselves, where it shows them."""

    ids: tuple[int, ...]
    strings: tuple[str, ...] = ()


Body = Callable[[Spoken, Manner], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Tokenizing:
    """A route that shows how the server's tokenizer reads a conversation."""

    route: str
    body: Body


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of server. What it cannot tell (which model, which tokens) stays empty."""

    name: str
    start: str
    """The command that starts it, for messages."""
    body: Body
    read: Callable[[object], Read]
    route: str = ""
    """Below the URL of the spec, with all that follows; empty where the spec's URL is the route itself."""
    models: str = ""
    """The route that lists models as OpenAI's does."""
    info: tuple[str, ...] = ()
    """Routes with facts about the model, of which the first that exists is read."""
    tokenizing: Tokenizing | None = None
    chats: bool = False
    """True where the server has a chat template of its own and takes messages."""
    activates: bool = False
    """True where the question can ask for an activation, or for none."""
    adds_special: bool = False
    """True where special tokens are added to every text, whatever is asked."""


def plain(text: str) -> Spoken:
    """Return a text that no chat template shapes."""
    return Spoken((), text)


# ---------------------------------------------------------------- what replies have in common


def numbers_of(value: object, place: str) -> tuple[float, ...]:
    """Return a flat list of numbers; null, which servers send for what is not finite, becomes NaN, never a score."""
    if not isinstance(value, list) or not value:
        raise UnsoundError(f"{place} is {_shown(value)}, not a list of numbers")
    return tuple(number_of(entry, f"an entry of {place}") for entry in value)


def number_of(value: object, place: str) -> float:
    """Return a number as a float, NaN for null, or raise UnsoundError."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnsoundError(f"{place} is {_shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def only(value: object, place: str) -> object:
    """Return the one entry of a list, or raise UnsoundError: one text was sent."""
    if not isinstance(value, list) or len(value) != 1:
        found = f"a list of {len(value)}" if isinstance(value, list) else _shown(value)
        raise UnsoundError(f"{place} is {found}, not a list of 1 for the 1 text that was sent")
    return value[0]


def part(value: object, name: str) -> object:
    """Return a field of a JSON object, or raise UnsoundError."""
    if not isinstance(value, dict) or name not in value:
        told = value.get("error") if isinstance(value, dict) else None
        raise UnsoundError(f"the reply has no {name!r}: {_shown(told or value)}")
    return value[name]


def count_of(value: object) -> int | None:
    """Return a count of tokens, or None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_tokens(value: object) -> Tokens:
    """Return what a tokenize route says, or raise UnsoundError."""
    ids = part(value, "tokens")
    if not isinstance(ids, list) or not all(count_of(place) is not None for place in ids):
        raise UnsoundError(f"'tokens' is {_shown(ids)}, not a list of token ids")
    strings = value.get("token_strs") if isinstance(value, dict) else None
    told = isinstance(strings, list) and len(strings) == len(ids)
    return Tokens(tuple(ids), tuple(map(str, strings or ())) if told else ())


def _shown(value: object) -> str:
    return repr(value)[:80]

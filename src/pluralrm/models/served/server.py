"""The server of a reward head: what a spec asks of it, questions before the first score, which model it serves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from pluralrm.core import Failure
from pluralrm.errors import OutageError, ServiceError, SpecError, did_you_mean
from pluralrm.http import Call, Service, UnsoundError
from pluralrm.models.served.dialects import Dialect, count_of, part
from pluralrm.specs import Spec

UNCHECKED = "unchecked"
UNIT = "unit"
_BYTES = 16_000
"""What a server that cannot be asked is taken to read: about 4,000 tokens of English."""


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """What a spec asks of a server."""

    model: str = ""
    """The name it serves the model under; empty where it serves one alone."""
    revision: str = ""
    label: int | None = None
    most: int | None = None
    """The longest conversation, in tokens; in bytes where tokens cannot be counted."""
    bos: int | None = None
    """How many BOS a conversation has to begin with; None for one, where the tokenizer has any."""
    checked: bool = True
    """False where the BOS cannot be counted, and the spec says so."""
    unit: bool = False
    """True where scores from 0 to 1 are what the head gives, and no sigmoid."""

    @property
    def facts(self) -> dict[str, str]:
        """What the identity keeps: what is read of the numbers, and the revision that the user names."""
        return {
            "revision": self.revision,
            "label": "only" if self.label is None else str(self.label),
            "range": UNIT if self.unit else "unbounded",
        }


def head_options(spec: Spec) -> HeadOptions:
    """Return what a spec asks for."""
    options = spec.options
    in_bytes = spec.kind == "remote"
    most = "max_bytes" if in_bytes else "max_tokens"
    return HeadOptions(
        model=options.get("model", ""),
        revision=options.get("revision", ""),
        label=spec.integer("label", 0) if "label" in options else None,
        most=spec.integer(most, _BYTES, least=1) if in_bytes or most in options else None,
        bos=_bos(spec),
        checked=options.get("bos") != UNCHECKED,
        unit=_unit(spec),
    )


def _bos(spec: Spec) -> int | None:
    found = spec.options.get("bos")
    known = ("0", "1", UNCHECKED)
    if found is not None and found not in known:
        raise SpecError(f"{spec.kind}: bos is {found!r}.{did_you_mean(found, known)}")
    return int(found) if found in ("0", "1") else None


def _unit(spec: Spec) -> bool:
    found = spec.options.get("range")
    if found not in (None, UNIT):
        raise SpecError(f"{spec.kind}: range is {found!r}; wanted range={UNIT} (the head itself gives 0 to 1), or none")
    return found == UNIT


T = TypeVar("T")

MISSING = (404, 405, 501)
"""What a server says of a route that it has not."""


# ---------------------------------------------------------------- asking the server


class HeadServer:
    """Where a service is asked; `start` is the command that starts the server, for messages."""

    def __init__(self, service: Service, start: str) -> None:
        self._service = service
        self._start = start

    @property
    def url(self) -> str:
        """The URL that is asked."""
        return self._service.address.url

    def ask(self, call: Call, read: Callable[[object], T]) -> T:
        """Return what `read` makes of the reply."""
        [found] = self.ask_all([call], read)
        return found

    def ask_all(self, calls: Sequence[Call], read: Callable[[object], T]) -> list[T]:
        """Return what `read` makes of each reply; a ServiceError where there is none, or not of that form."""
        return [self._read(call, reply, read) for call, reply in zip(calls, self._replies(calls), strict=True)]

    def attempt(self, call: Call) -> object | Failure | ServiceError:
        """Return the reply to one call, or what came instead."""
        try:
            [reply] = self._replies([call])
        except ServiceError as exc:
            return exc
        return reply

    def refuse(self, reason: str) -> ServiceError:
        """Return the error that says why this server cannot be used."""
        return ServiceError(f"{self.url}: {reason}")

    def _replies(self, calls: Sequence[Call]) -> list[object | Failure]:
        try:
            public = [replace(call, public=True) for call in calls]  # probes and info: texts of our own
            replies = list(self._service.replies(public, lambda value: value))
        except ServiceError as exc:
            if exc.status not in MISSING:
                raise
            raise ServiceError(
                f"{self.url}{calls[0].path}: HTTP {exc.status}: no such route. This is no server of that kind, or it "
                f"serves no reward head (a language model and an embedding have none). Wanted: {self._start}",
                exc.status,
            ) from exc
        return [reply if isinstance(reply, Failure) else reply.content for reply in replies]

    def _read(self, call: Call, reply: object | Failure, read: Callable[[object], T]) -> T:
        if isinstance(reply, Failure):
            hint = f" Is it up? Start: {self._start}" if reply.kind == "transport" else ""
            raise OutageError(f"{self.url}: {call.path or 'it'} gave no answer ({reply.detail}).{hint}")
        try:
            return read(reply)
        except UnsoundError as exc:
            raise self.refuse(f"{call.path or 'it'} answers in another form: {exc}. Wanted: {self._start}") from exc


_TOLD = ("model_path", "weight_version")
"""Facts of an info route that name the weights."""


# ---------------------------------------------------------------- which model it serves


class ServedModel(NamedTuple):
    """What a server says of a model; empty or None where it says nothing."""

    name: str = ""
    root: str = ""
    limit: int | None = None
    parent: str = ""
    """For an adapter, the model that it is put on."""
    told: Mapping[str, str] = {}


def identify(server: HeadServer, dialect: Dialect, name: str) -> ServedModel:
    """Return the card of the model that is wanted, or of the only one; a ServiceError names those that are served."""
    if not dialect.models:
        return ServedModel()
    cards = server.ask(Call(dialect.models, fresh=True), read_cards)
    card = _chosen(server, cards, name)
    base = next((other.limit for other in cards if other.name == card.parent), None)
    return card._replace(limit=card.limit or base, told=_told(server, dialect))


def _chosen(server: HeadServer, cards: Sequence[ServedModel], name: str) -> ServedModel:
    named = {card.name: card for card in cards}
    if name:
        if name not in named:
            raise server.refuse(f"serves no model {name!r}.{did_you_mean(name, named)}")
        return named[name]
    bases = [card for card in cards if not card.parent]
    if len(bases) != 1:
        raise server.refuse(f"serves {len(bases)} models ({', '.join(named) or 'none'}); name one with model=NAME")
    return bases[0]


def read_cards(value: object) -> list[ServedModel]:
    """Return the models that a server lists, or raise UnsoundError."""
    listed = part(value, "data")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) and _text(entry, "id") for entry in listed):
        raise UnsoundError("'data' is no list of models with an 'id' each")
    return [
        ServedModel(
            _text(entry, "id"), _text(entry, "root"), count_of(entry.get("max_model_len")), _text(entry, "parent")
        )
        for entry in listed
    ]


def _told(server: HeadServer, dialect: Dialect) -> dict[str, str]:
    """Return what the first info route that exists says of the weights; a language model is refused."""
    for route in dialect.info:
        found = server.attempt(Call(route, fresh=True))
        if isinstance(found, ServiceError | Failure) or not isinstance(found, dict):
            continue
        if found.get("is_generation") is True:
            raise server.refuse(f"serves a language model, which has no reward head. Wanted: {dialect.start}")
        return {name.replace("_", " "): str(found[name]) for name in _TOLD if found.get(name)}
    return {}


def _text(entry: Mapping[str, object], name: str) -> str:
    found = entry.get(name)
    return found if isinstance(found, str) else ""

"""The server of a reward head: what a spec asks of it, questions before the first score, which model it serves."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple, TypeVar

from pluralrm.core import Failure
from pluralrm.errors import OutageError, ServiceError, SpecError, did_you_mean
from pluralrm.http import Call, Service, UnsoundError
from pluralrm.models import KINDS
from pluralrm.models.served.dialects import (
    Dialect,
    Manner,
    ServerTokens,
    Tokenizing,
    count_of,
    part,
    plain,
    read_tokens,
)
from pluralrm.models.served.speech import SentConversation, Speech
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
    in_bytes = "max_bytes" in KINDS[spec.kind].form.keys
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
    value = spec.options.get("bos")
    choices = ("0", "1", UNCHECKED)
    if value is not None and value not in choices:
        raise SpecError(f"{spec.kind}: bos is {value!r}.{did_you_mean(value, choices)}")
    return int(value) if value in ("0", "1") else None


def _unit(spec: Spec) -> bool:
    value = spec.options.get("range")
    if value not in (None, UNIT):
        raise SpecError(f"{spec.kind}: range is {value!r}; wanted range={UNIT} (the head itself gives 0 to 1), or none")
    return value == UNIT


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
        [content] = self.ask_all([call], read)
        return content

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
    by_name = {card.name: card for card in cards}
    if name:
        if name not in by_name:
            raise server.refuse(f"serves no model {name!r}.{did_you_mean(name, by_name)}")
        return by_name[name]
    bases = [card for card in cards if not card.parent]
    if len(bases) != 1:
        raise server.refuse(f"serves {len(bases)} models ({', '.join(by_name) or 'none'}); name one with model=NAME")
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
        info = server.attempt(Call(route, fresh=True))
        if isinstance(info, ServiceError | Failure) or not isinstance(info, dict):
            continue
        if info.get("is_generation") is True:
            raise server.refuse(f"serves a language model, which has no reward head. Wanted: {dialect.start}")
        return {name.replace("_", " "): str(info[name]) for name in _TOLD if info.get(name)}
    return {}


def _text(entry: Mapping[str, object], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


_MARKER = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A piece of a vocabulary that stands for a byte: no text can spell it."""
_WELL_KNOWN = (
    *("<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"),
)
"""Those of the families of models that most reward heads are made of: a chat template need not write all of them."""


PROBE = ("Which flour makes a good sourdough?", "Rye, or a strong wheat flour. Both ferment well.")
"""A question and an answer in which no token is special."""


class Beginning(NamedTuple):
    """How conversations have to be put so that they begin as they should, and what was seen of that."""

    speech: Speech
    special: bool
    bos: str
    tokens: ServerTokens | None
    """Those of the probe; None where the server shows none."""


class ServerTokenizer:
    """The server's tokenizer."""

    def __init__(self, server: HeadServer, tokenizing: Tokenizing, model: str) -> None:
        self._server = server
        self._tokenizing = tokenizing
        self._model = model

    def there(self, *, needed: bool) -> bool:
        """Return whether the route exists; where it does not answer, whether it is needed."""
        reply = self._server.attempt(self.call(plain("a"), special=False))
        if isinstance(reply, Failure):
            return needed
        return not (isinstance(reply, ServiceError) and reply.status in MISSING)

    def call(self, spoken: SentConversation, *, special: bool, marks: Mapping[str, str] | None = None) -> Call:
        """Return the question for a conversation's tokens; without marks it is asked anew in every run."""
        body = self._tokenizing.body(spoken, Manner(self._model, special))
        return Call(self._tokenizing.route, body, marks or {}, fresh=marks is None, public=spoken.public)

    def tokens(self, spoken: SentConversation, *, special: bool = False) -> ServerTokens:
        """Return a conversation's tokens."""
        return self._server.ask(self.call(spoken, special=special), read_tokens)

    def added(self) -> int | None:
        """Return the token that the tokenizer puts before every text, if any."""
        bare, whole = self.tokens(plain("a")).ids, self.tokens(plain("a"), special=True).ids
        return whole[0] if len(whole) > len(bare) and whole[1 : 1 + len(bare)] == bare else None

    def singles(self, texts: Iterable[str]) -> dict[str, int]:
        """Return those of the texts that are one token each, wherever they stand, with its id."""
        several = list(texts)
        calls = [self.call(plain(text * 2), special=False) for text in several]
        pairs = zip(several, self._server.ask_all(calls, read_tokens), strict=True)
        return {text: read.ids[-1] for text, read in pairs if len(read.ids) > 1 and read.ids[-1] == read.ids[-2]}


def beginning(
    server: HeadServer, reader: ServerTokenizer, dialect: Dialect, *, speech: Speech, options: HeadOptions
) -> Beginning:
    """Return the way to put a conversation so that it begins with the right number of BOS, or raise ServiceError."""
    added = reader.added()
    bos = reader.singles([speech.bos]).get(speech.bos) if added is None and speech.bos else added
    if bos is None and options.bos is not None:
        raise server.refuse("its tokenizer adds no BOS, so which token is one is unknown: leave bos= out")
    goal = options.bos if options.bos is not None else int(added is not None)
    loose = options.bos is None and added is None  # whether it writes one is the chat template's affair; two are wrong
    counts = []
    for variant, special in _ways(dialect, speech, options):
        tokens = reader.tokens(variant.say(*PROBE), special=special)
        counts.append(_bos_count(tokens.ids, bos))
        if counts[-1] == goal or (loose and counts[-1] <= 1):
            return Beginning(variant, special, "none is known" if bos is None else str(counts[-1]), tokens)
    raise server.refuse(
        f"a conversation begins with {counts[0]} BOS, wanted {goal}. {_advice(dialect, counts[0], goal)}"
    )


def unchecked(server: HeadServer, dialect: Dialect, *, speech: Speech, options: HeadOptions) -> Beginning:
    """Return the beginning where tokens are not accessible; a ServiceError where the spec does not allow that."""
    if dialect.tokenizing and options.checked:
        raise server.refuse(
            f"has no route {dialect.tokenizing.route}, so the BOS of a conversation cannot be counted. Open that route "
            f"(a proxy may hide it), or take the text as it is with bos={UNCHECKED}"
        )
    return Beginning(speech, dialect.adds_special, UNCHECKED, None)


def _ways(dialect: Dialect, speech: Speech, options: HeadOptions) -> Iterator[tuple[Speech, bool]]:
    """Yield the ways to put a conversation, the one that needs no thought first."""
    yield speech, dialect.adds_special
    if dialect.adds_special:
        yield speech.without_bos(), True
    elif options.bos:
        yield speech, True


def _bos_count(ids: Sequence[int], bos: int | None) -> int:
    """Return how many BOS stand first; where none is known, how often the first token does, if it is doubled."""
    first = bos if bos is not None else next(iter(ids), None)
    count = sum(1 for _ in takewhile(lambda token: token == first, ids))
    return count if bos is not None or count > 1 else 0


def _advice(dialect: Dialect, count: int, goal: int) -> str:
    if count > goal and not dialect.adds_special:
        return "Take one out of the chat template: chat=FILE.jinja with one of yours"
    if count > goal:
        return "The server adds one to every text: take it out of the chat template (chat=FILE.jinja)"
    if dialect.adds_special:
        return f"Where that is how the model was trained, say so with bos={count}"
    return (
        "The chat template writes none: say how the model was trained, with bos=0 (unchanged) or bos=1 (the "
        "tokenizer adds its own, if it has one)"
    )


# ---------------------------------------------------------------- control tokens


def controls(begun: Beginning, speech: Speech, reader: ServerTokenizer | None) -> tuple[str, ...]:
    """Return the control tokens that the server would read out of anybody's text, as far as they can be known.

    `speech` is the one of the spec, in which the chat template writes its own BOS.
    """
    probe = speech.say(*PROBE)
    written = begun.tokens.strings if probe.text is None and begun.tokens else _MARKER.findall(probe.text or "")
    special = speech.chat.special.values() if speech.chat else ()
    markers = [text for text in (*written, *special) if _MARKER.fullmatch(text) and not _BYTE.fullmatch(text)]
    if reader is None:
        return tuple(dict.fromkeys(markers))
    return tuple(reader.singles(dict.fromkeys([*markers, *_WELL_KNOWN])))


def spelled(controls: Sequence[str], texts: Sequence[str]) -> str | None:
    """Return the first control token that some text spells out, or None."""
    return next((control for control in controls for text in texts if control in text), None)

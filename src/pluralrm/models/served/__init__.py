"""Reward heads behind a URL: `vllm:URL`, `sglang:URL`, `remote:URL` (OpenRLHF's schema), read as their raw numbers.

On first use the server is asked who it is. What would make its scores wrong is refused by name: a vector, several
labels, a sigmoid, a BOS too many or too few, texts cut without a word. docs/served-models.md has the keys.

Queries in, conversations that fit, calls out, verdicts in order. Calls are handed to the transport one by one as it has
room for them. Where lengths have to be asked for, that is done for the next queries while scores of earlier ones are on
their way.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from pluralrm.chat import may_send
from pluralrm.core import Failure, Query, Score, Verdict
from pluralrm.errors import OutageError, ServiceError, SpecError
from pluralrm.http import Call, Reply, Requests, Service, Settings, Tally, UnsoundError, parse_address
from pluralrm.models.served.dialects import OPENRLHF, SGLANG, VLLM, Dialect, HeadReading, Manner, read_tokens
from pluralrm.models.served.probes import Prober, moved
from pluralrm.models.served.server import (
    Beginning,
    HeadOptions,
    HeadServer,
    ServedModel,
    ServerTokenizer,
    beginning,
    controls,
    head_options,
    identify,
    spelled,
    unchecked,
)
from pluralrm.models.served.speech import (
    PLAIN,
    Count,
    FittedQuery,
    Room,
    SentConversation,
    Speech,
    chat_template,
    fitted,
)
from pluralrm.ordered import in_order
from pluralrm.specs import Spec
from pluralrm.templates import DEFAULT, load_template

__all__ = ["DIALECTS", "ServedHead", "head"]

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (VLLM, SGLANG, OPENRLHF)}

_API = "/v1"


@dataclass(frozen=True, slots=True)
class HeadConnection:
    """How a server is asked, as its probes showed that it has to be."""

    dialect: Dialect
    speech: Speech
    manner: Manner
    room: Room
    controls: tuple[str, ...]
    """Texts that the server would read as control tokens."""
    width: int
    """Numbers that the head gives for a text."""
    marks: Mapping[str, str]
    """What shapes a reply without being sent."""
    facts: Mapping[str, str]
    """What must not change while a run is resumed, as far as the server tells."""
    reader: ServerTokenizer | None
    prober: Prober
    probes: tuple[float, ...]
    """The raw scores of the probes when the server was first asked."""

    def call(self, spoken: SentConversation) -> Call:
        """Return the question for a score."""
        return Call(self.dialect.route, self.dialect.body(spoken, self.manner), self.marks, public=spoken.public)

    def count_call(self, reader: ServerTokenizer, spoken: SentConversation) -> Call:
        """Return the question for a length."""
        return reader.call(spoken, special=self.manner.special, marks=self.marks)


def connect(service: Service, dialect: Dialect, speech: Speech, *, options: HeadOptions, keeps: bool) -> HeadConnection:
    """Return the connection, or raise a ServiceError that says why no score of this server could be trusted.

    `keeps` is true where replies are kept from run to run.
    """
    server = HeadServer(service, dialect.start)
    card = identify(server, dialect, options.model)
    reader = _reader(server, dialect, card.name, needed=options.checked)
    if reader is None:
        begun = unchecked(server, dialect, speech=speech, options=options)
    else:
        begun = beginning(server, reader, dialect, speech=speech, options=options)
    prober = Prober(server, dialect, begun, card=card, options=options)
    scores, width = prober.scores()
    if keeps:
        prober.check_weights(scores)
    prober.check_length(scores)
    return HeadConnection(
        dialect=dialect,
        speech=begun.speech,
        manner=prober.manner,
        room=prober.room,
        controls=controls(begun, speech, reader),
        width=width,
        marks=prober.marks,
        facts={**_facts(server, dialect, card, options=options), **_reading(prober, begun)},
        reader=reader,
        prober=prober,
        probes=tuple(scores),
    )


def _reader(server: HeadServer, dialect: Dialect, model: str, *, needed: bool) -> ServerTokenizer | None:
    """Return the server's tokenizer, or None where it shows none."""
    reader = ServerTokenizer(server, dialect.tokenizing, model) if dialect.tokenizing else None
    return reader if reader and reader.there(needed=needed) else None


def _facts(server: HeadServer, dialect: Dialect, card: ServedModel, *, options: HeadOptions) -> dict[str, str]:
    """Return which model is asked, where, and what is read of its numbers."""
    return {
        "url": server.url,
        "route": dialect.route,
        "served model": card.name,
        "root": card.root,
        **card.told,
        **options.facts,
    }


def _reading(prober: Prober, begun: Beginning) -> dict[str, str]:
    """Return how texts are read there."""
    room = prober.room
    return {
        "reads": f"{room.limit} {room.unit}" if room.limit is not None else "not known",
        "bos": begun.bos,
        "tokens of a probe": prober.fingerprint,
        **begun.speech.facts,
    }


# ---------------------------------------------------------------- the model


@dataclass(slots=True)
class _Open:
    """A query on its way: what is sent of each candidate, or why nothing is, and the calls that send it."""

    fitted: FittedQuery
    sent: Sequence[SentConversation | Failure]
    calls: list[Call]
    complete: bool = False
    """Whether its verdict is known."""


class ServedHead:
    """A reward head behind a URL. Who is there is asked on first use, and refused where its scores would be wrong.

    `keeps` is true where replies are kept from run to run.
    """

    def __init__(
        self, spec: str, service: Service, dialect: Dialect, *, speech: Speech, options: HeadOptions, keeps: bool
    ) -> None:
        self.spec = spec
        self._service = service
        self._dialect = dialect
        self._speech = speech
        self._options = options
        self._keeps = keeps
        self._untrusted: list[_Open] = []

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model that the server serves, and how it reads a text."""
        return self._connection.facts

    def fits(self, facts: Mapping[str, str]) -> bool:
        """Return whether an identity can be this model's, by what is known before the server is asked."""
        speeches = (self._speech, self._speech.without_bos()) if self._speech.chat else ()
        chats = [speech.facts["chat template"] for speech in speeches]
        expected = {**self._options.facts, "url": self._service.address.url, "template": self._speech.template.hash}
        return expected.items() <= facts.items() and (not chats or facts.get("chat template") in chats)

    @property
    def tally(self) -> Tally:
        """What was asked so far, probes included."""
        return self._service.tally

    def close(self) -> None:
        """Cancel what is in flight and close every connection and file."""
        self._service.close()

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; PrivacyError where a query shows posts that may not be sent."""
        if (dry := self._service.dry_run) is not None:  # who serves what is not asked either: one call an answer
            for entry in queries:
                dry.count(self._service.model or self._service.address.url, Requests(len(entry.candidates), None))
                yield Verdict.failed("refused", "a dry run sends nothing", len(entry.candidates))
            return
        self._untrusted = [query for query in self._untrusted if query.complete]

        def replies(calls: Iterator[Call]) -> Iterator[Reply[HeadReading] | Failure]:
            with closing(self._service.replies(calls, self._read)) as stream:
                yield from stream

        for query, received in in_order(self._opened(queries), lambda query: query.calls, replies):
            yield self._verdict(query, received)

    # ------------------------------------------------------------ whether the server still serves the same model

    @property
    def probes(self) -> Sequence[float]:
        """Scores of the probes when the server was first asked."""
        return self._connection.probes

    def changed(self, earlier: Sequence[float]) -> str:
        """Ask the probes again; return how the scores differ from earlier ones, or an empty text."""
        if self._service.replaying:
            return ""
        try:
            now = self._connection.prober.again()
        except OutageError:
            raise
        except ServiceError as exc:
            return str(exc)
        change = moved(earlier, now) if len(earlier) == len(now) else math.inf
        return "" if change is None else f"{self._service.address.url}: a probe's score has moved by {change:.3g}"

    def forget(self) -> bool:
        """Remove the replies kept since `trust` was last called; return whether that was all that holds them."""
        calls = [call for query in self._untrusted for call in query.calls]
        self._untrusted = []
        return self._service.forget(calls)

    def trust(self) -> None:
        """Take the replies behind all verdicts so far for the model's own."""
        self._untrusted = [query for query in self._untrusted if not query.complete]

    @cached_property
    def _connection(self) -> HeadConnection:
        return connect(self._service, self._dialect, self._speech, options=self._options, keeps=self._keeps)

    # ------------------------------------------------------------ asking

    def _opened(self, queries: Iterable[Query]) -> Iterator[_Open]:
        """Yield each query with its calls."""
        connection = self._connection
        for fit in fitted(queries, connection.speech.of, connection.room, self._count):
            sent = [
                conversation if isinstance(conversation, Failure) else self._harmless(conversation)
                for conversation in fit.sent
            ]
            query = _Open(
                fit,
                sent,
                [connection.call(conversation) for conversation in sent if isinstance(conversation, SentConversation)],
            )
            self._untrusted.append(query)
            yield query

    def _harmless(self, spoken: SentConversation) -> SentConversation | Failure:
        """Return a conversation, or Failure("unsupported") where a text could end its turn and begin another."""
        token = spelled(self._connection.controls, [message.content for message in spoken.messages])
        if token is None:
            return spoken
        return Failure("unsupported", f"a text spells {token!r}, which the server would read as a control token")

    def _count(self, conversations: Sequence[SentConversation]) -> Iterator[Count]:
        """Yield how long conversations are, by the server's own tokenizer where it has a route for that."""
        connection = self._connection
        if connection.reader is None:
            yield from (conversation.size for conversation in conversations)
            return
        calls = [connection.count_call(connection.reader, conversation) for conversation in conversations]
        for reply in self._service.replies(calls, read_tokens):
            yield reply if isinstance(reply, Failure) else len(reply.content.ids)

    # ------------------------------------------------------------ reading

    def _read(self, value: object) -> HeadReading:
        read = self._dialect.read(value)
        if len(read.numbers) != self._connection.width:
            raise UnsoundError(f"the head gave {len(read.numbers)} numbers, and {self._connection.width} before")
        return read

    def _verdict(self, query: _Open, replies: Iterable[Reply[HeadReading] | Failure]) -> Verdict:
        coming = iter(replies)
        scores = [
            entry if isinstance(entry, Failure) else self._score(next(coming), query.fitted, index)
            for index, entry in enumerate(query.sent)
        ]
        query.complete = True
        user = query.fitted.query.user
        return Verdict(tuple(scores), posts_kept=query.fitted.posts_kept if user and user.posts else None)

    def _score(self, reply: Reply[HeadReading] | Failure, fitted: FittedQuery, index: int) -> Score:
        """Return a candidate's score; ServiceError where the server read another text than was sent."""
        if isinstance(reply, Failure):
            return reply
        count, read = fitted.counts[index], reply.content
        if count is not None and read.tokens is not None and count != read.tokens:
            raise ServiceError(
                f"{self.spec}: the server read {read.tokens} tokens of item {fitted.query.id!r}, which has "
                f"{count} by its own tokenizer: it cuts or adds. Nothing it says of long texts can be trusted"
            )
        return read.numbers[self._options.label or 0]


def head(spec: Spec, settings: Settings) -> ServedHead:
    """Return the model of `vllm:URL`, `sglang:URL` or `remote:URL`; no server is asked before its first use."""
    dialect, options = DIALECTS[spec.kind], head_options(spec)
    speech = _speech(spec, dialect)
    url = spec.target.rstrip("/")
    address = parse_address((url.removesuffix(_API) if dialect.route else url) or spec.target)
    # The default key is for chat models; a reward head gets the key that is named for it.
    settings = settings.allowing(posts=may_send(spec))
    service = Service(address, settings, model=options.model, key=spec.options.get("key", False))
    keeps = settings.cache is not None and settings.replay is None
    return ServedHead(str(spec), service, dialect, speech=speech, options=options, keeps=keeps)


def _speech(spec: Spec, dialect: Dialect) -> Speech:
    template, chat = load_template(spec.options.get("template", DEFAULT)), spec.options.get("chat")
    if chat is None and not dialect.chats:
        raise SpecError(
            f"{spec.kind}: this kind of server reads whatever text it is sent, so how a conversation is written has to "
            f"be said: chat=FOLDER (of the model's tokenizer), chat=FILE.jinja, or chat={PLAIN} (question, answer)"
        )
    return Speech(template, None if chat is None else chat_template(spec.kind, chat))

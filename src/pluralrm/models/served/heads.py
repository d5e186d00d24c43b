"""The reward model itself: queries in, conversations that fit, calls out, verdicts in order.

A connection is made on first use: to a server that was found fit to be asked. Calls are handed to the transport one by
one as it has room for them. Where lengths have to be asked for, that is done for the next queries while scores of
earlier ones are on their way.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from pluralrm.core import Failure, Query, Score, Verdict
from pluralrm.errors import OutageError, ServiceError
from pluralrm.http import Call, Reply, Requests, Service, Tally, UnsoundError
from pluralrm.models.served.dialects import Dialect, HeadReading, Manner, read_tokens
from pluralrm.models.served.probes import Prober, moved
from pluralrm.models.served.server import (
    Beginning,
    HeadOptions,
    HeadServer,
    ServedModel,
    ServerTokenizer,
    beginning,
    controls,
    identify,
    spelled,
    unchecked,
)
from pluralrm.models.served.speech import Count, FittedQuery, Room, SentConversation, Speech, fitted
from pluralrm.ordered import in_order


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
        known = {**self._options.facts, "url": self._service.address.url, "template": self._speech.template.hash}
        return known.items() <= facts.items() and (not chats or facts.get("chat template") in chats)

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
            for asked in queries:
                dry.count(self._service.model or self._service.address.url, Requests(len(asked.candidates), None))
                yield Verdict.failed("refused", "a dry run sends nothing", len(asked.candidates))
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
        for found in fitted(queries, connection.speech.of, connection.room, self._count):
            sent = [one if isinstance(one, Failure) else self._harmless(one) for one in found.sent]
            query = _Open(found, sent, [connection.call(one) for one in sent if isinstance(one, SentConversation)])
            self._untrusted.append(query)
            yield query

    def _harmless(self, spoken: SentConversation) -> SentConversation | Failure:
        """Return a conversation, or Failure("unsupported") where a text could end its turn and begin another."""
        found = spelled(self._connection.controls, [message.content for message in spoken.messages])
        if found is None:
            return spoken
        return Failure("unsupported", f"a text spells {found!r}, which the server would read as a control token")

    def _count(self, conversations: Sequence[SentConversation]) -> Iterator[Count]:
        """Yield how long conversations are, by the server's own tokenizer where it has a route for that."""
        connection = self._connection
        if connection.reader is None:
            yield from (one.size for one in conversations)
            return
        calls = [connection.count_call(connection.reader, one) for one in conversations]
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
            one if isinstance(one, Failure) else self._score(next(coming), query.fitted, place)
            for place, one in enumerate(query.sent)
        ]
        query.complete = True
        user = query.fitted.query.user
        return Verdict(tuple(scores), posts_kept=query.fitted.posts_kept if user and user.posts else None)

    def _score(self, reply: Reply[HeadReading] | Failure, fitted: FittedQuery, place: int) -> Score:
        """Return a candidate's score; ServiceError where the server read another text than was sent."""
        if isinstance(reply, Failure):
            return reply
        count, read = fitted.counts[place], reply.content
        if count is not None and read.tokens is not None and count != read.tokens:
            raise ServiceError(
                f"{self.spec}: the server read {read.tokens} tokens of item {fitted.query.id!r}, which has "
                f"{count} by its own tokenizer: it cuts or adds. Nothing it says of long texts can be trusted"
            )
        return read.numbers[self._options.label or 0]

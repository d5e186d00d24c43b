"""Who is there: a server that was found fit to be asked, what it says of itself, and how it is asked."""

from collections.abc import Mapping
from dataclasses import dataclass

from pluralrm.http import Call, Service
from pluralrm.models.served.begins import Beginning, Reader, beginning, controls, unchecked
from pluralrm.models.served.cards import Card, identify
from pluralrm.models.served.desk import Desk
from pluralrm.models.served.dialect import Dialect, Manner
from pluralrm.models.served.fitting import Room
from pluralrm.models.served.options import Wanted
from pluralrm.models.served.probe import Prober
from pluralrm.models.served.spoken import Speech, Spoken


@dataclass(frozen=True, slots=True)
class Connection:
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
    reader: Reader | None
    prober: Prober
    probes: tuple[float, ...]
    """The raw scores of the probes when the server was first asked."""

    def call(self, spoken: Spoken) -> Call:
        """Return the question for a score."""
        return Call(self.dialect.route, self.dialect.body(spoken, self.manner), self.marks, public=spoken.public)

    def count_call(self, reader: Reader, spoken: Spoken) -> Call:
        """Return the question for a length."""
        return reader.call(spoken, special=self.manner.special, marks=self.marks)


def connect(service: Service, dialect: Dialect, speech: Speech, *, wanted: Wanted, keeps: bool) -> Connection:
    """Return the connection, or raise a ServiceError that says why no score of this server could be trusted.

    `keeps` is true where replies are kept from run to run.
    """
    desk = Desk(service, dialect.start)
    card = identify(desk, dialect, wanted.model)
    reader = _reader(desk, dialect, card.name, needed=wanted.checked)
    if reader is None:
        begun = unchecked(desk, dialect, speech=speech, wanted=wanted)
    else:
        begun = beginning(desk, reader, dialect, speech=speech, wanted=wanted)
    prober = Prober(desk, dialect, begun, card=card, wanted=wanted)
    scores, width = prober.scores()
    if keeps:
        prober.check_weights(scores)
    prober.check_length(scores)
    return Connection(
        dialect=dialect,
        speech=begun.speech,
        manner=prober.manner,
        room=prober.room,
        controls=controls(begun, speech, reader),
        width=width,
        marks=prober.marks,
        facts={**_facts(desk, dialect, card, wanted=wanted), **_reading(prober, begun)},
        reader=reader,
        prober=prober,
        probes=tuple(scores),
    )


def _reader(desk: Desk, dialect: Dialect, model: str, *, needed: bool) -> Reader | None:
    """Return the server's tokenizer, or None where it shows none."""
    reader = Reader(desk, dialect.tokenizing, model) if dialect.tokenizing else None
    return reader if reader and reader.there(needed=needed) else None


def _facts(desk: Desk, dialect: Dialect, card: Card, *, wanted: Wanted) -> dict[str, str]:
    """Return which model is asked, where, and what is read of its numbers."""
    return {
        "url": desk.url,
        "route": dialect.route,
        "served model": card.name,
        "root": card.root,
        **card.told,
        **wanted.facts,
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

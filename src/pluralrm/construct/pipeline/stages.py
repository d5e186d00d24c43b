"""Records, what is done with them, and the stages of a pipeline.

A stage works on one record in a generator that asks and is answered, until it keeps or rejects the record:

    def answers(record: Record) -> Work[Kept | Rejected]:
        said = yield from ask(Ask("writer", "Which flour?", template, read))
        if isinstance(said, Failure):
            return Rejected("unreadable", said.detail)
        return Kept(Answer(text=said))

It computes from its record and the replies alone, so a killed build that runs it again makes the same calls and comes
to the same. After an outage the generator is not resumed: the record waits, and the next process runs it again from its
start, on the replies that were recorded.
"""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from pluralrm.core import Failure
from pluralrm.errors import RunError
from pluralrm.templates import Template


class Product(BaseModel):
    """What a stage makes of a record; a subclass per stage. It is written to disk as JSON and read back as it was."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


P = TypeVar("P", bound=Product)


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that is being built, by its id: what came in, and what the stages so far have made of it."""

    id: str
    domain: str
    source: Product
    made: Mapping[str, Product] = field(default_factory=dict)
    """By the name of the stage."""

    def __getitem__(self, product: type[P]) -> P:
        """Return what a stage made of that type, or the source where it has that type."""
        for value in (self.source, *self.made.values()):
            if type(value) is product:
                return value
        raise RunError(f"record {self.id!r} holds no {product.__name__}; it holds {', '.join(self._types)}")

    @property
    def _types(self) -> list[str]:
        return [type(value).__name__ for value in (self.source, *self.made.values())]

    def with_product(self, stage: str, product: Product) -> "Record":
        """Return the record with one product more."""
        return replace(self, made={**self.made, stage: product})


T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")


class StandIn(NamedTuple):
    """Replies that a dry run continues with: one that is accepted, and one that has its text refused.

    The text is refused for as long as it may be written anew: a stage that asks at its last attempt names `accepted`
    twice. `refused` is empty where nothing is ever written anew for it.
    """

    accepted: str
    refused: str = ""


StandIns = Literal["", "accepted", "refused"]
"""Which stand-ins a dry run takes; none where servers are asked."""


def filler(words: int, *of: object) -> str:
    """Return so many made-up words of six letters, others for whatever else they stand in for.

    >>> filler(3, "a")
    'ganofu nuvagu buzalu'
    """
    draw = random.Random(":".join(map(str, of))).random
    letters = ("bdfgklmnprtvz", "aeiou", "bdfgklmnprtvz", "aeiou", "bdfgklmnprtvz", "u")
    return " ".join("".join(kind[int(draw() * len(kind))] for kind in letters) for _ in range(words))


@dataclass(frozen=True, slots=True)
class ModelCall(Generic[T_co]):
    """One call: `text`, which `template` wrote, goes to the model that the record's hash picks from the pool `role`.

    `read` makes an outcome of a whole reply without its reasoning; a Failure("parse") is asked once more, with `again`
    as what is wanted, and is then final. `turn` n is the n-th model of the pool's order for this record: a fallback.
    Equal requests share one reply, so a second draw of the same text has another `tag`. Without a `stand_in` a stage
    cannot be planned.
    """

    role: str
    text: str
    template: Template
    read: Callable[[str], T_co | Failure]
    again: str = "Reply in the form that was asked for."
    turn: int = 0
    tag: str = ""
    stand_in: StandIn | None = None


class Acceptance(NamedTuple):
    """The record goes on, with this. `attempts` is how often its texts were written."""

    product: Product
    attempts: int = 1


class Rejection(NamedTuple):
    """The record ends here. `reason` is from a small set and is counted; `detail` is about this record alone."""

    reason: str
    detail: str = ""
    attempts: int = 1


ModelCalls = Sequence[ModelCall[object]]
Answers = Sequence[object]
Work = Generator[ModelCalls, Answers, R]
Decision = Acceptance | Rejection


def ask(call: ModelCall[T]) -> Work[T | Failure]:
    """Return what the model says, as `read` made it, or the final Failure why it says nothing."""
    [outcome] = yield (call,)
    return outcome  # type: ignore[return-value] # what `read` of this ask returned


def ask_all(many: Sequence[ModelCall[T]]) -> Work[list[T | Failure]]:
    """Return what was said to each, in order; all are on their way at once."""
    outcomes = (yield tuple(many)) if many else ()
    return list(outcomes)  # type: ignore[arg-type] # as above


class Refusal(NamedTuple):
    """Why a text may not stay: the gate, from a small set, and what the writer of the next try is told."""

    gate: str
    said: str


def until_accepted(
    write: Callable[[int, Sequence[Refusal]], Work[T | Refusal]],
    judge: Callable[[T, int], Work[Sequence[Refusal]]],
    most: int,
) -> Work[tuple[T, int] | Rejection]:
    """Return the first text that no gate refuses, and how many were written; Rejected after `most`.

    A refused text is written anew, with the reasons at hand, and never judged again: one that comes back unchanged is
    refused as "unchanged" without a call, beside what was wrong with it.
    """
    refused: list[tuple[T, Sequence[Refusal]]] = []
    reasons: Sequence[Refusal] = ()
    for attempt in range(most):
        text = yield from write(attempt, reasons)
        if isinstance(text, Refusal):
            reasons = (text,)
            continue
        if (before := next((why for earlier, why in refused if earlier == text), None)) is not None:
            reasons = (Refusal("unchanged", "the text is the one that was refused before"), *before)
            continue
        reasons = yield from judge(text, attempt)
        if not reasons:
            return text, attempt + 1
        refused.append((text, reasons))
    return Rejection(reasons[0].gate, "; ".join(f"{gate}: {reason}" for gate, reason in reasons), most)


def at_once(decide: Callable[[Record], Decision]) -> Callable[[Record], Work[Decision]]:
    """Return the work of a stage that sends no request."""

    def work(record: Record) -> Work[Decision]:
        yield from ()
        return decide(record)

    return work


@dataclass(frozen=True)
class Stage:
    """Works on one record at a time, and may ask models."""

    name: str
    makes: type[Product]
    work: Callable[[Record], Work[Decision]]
    reads: tuple[type[Product], ...] = ()
    gate: str = ""
    """What it refuses, in a sentence, for the data card."""
    templates: tuple[Template, ...] = ()
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    """Thresholds and the like, for the data card; with the templates' hashes they say what would make another set."""


@dataclass(frozen=True)
class Sieve:
    """Looks at all records that got so far at once, in the order of their ids; sends no request.

    It begins when none waits before it: what it keeps depends on all.
    """

    name: str
    makes: type[Product]
    decide: Callable[[Sequence[Record]], Sequence[Decision]]
    reads: tuple[type[Product], ...] = ()
    gate: str = ""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pipeline:
    """Stages in order; two stages make no product of one type."""

    name: str
    source: type[Product]
    stages: tuple[Stage | Sieve, ...]

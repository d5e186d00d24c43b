"""How a stage works on one record: a generator that asks and is answered, until it keeps or rejects the record.

    def answers(record: Record) -> Work[Kept | Rejected]:
        said = yield from ask(Ask("writer", "Which flour?", template, read))
        if isinstance(said, Failure):
            return Rejected("unreadable", said.detail)
        return Kept(Answer(text=said))

It computes from its record and what it is told, and from nothing else, so that a killed build that runs it again asks
the same and comes to the same. Whoever runs it does not come back with an outage: the record waits, and the generator
is run again from its start by the next process, on replies that are kept.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from pluralrm.construct.pipeline.records import Product, Record
from pluralrm.core import Failure
from pluralrm.templates import Template

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Ask(Generic[T_co]):
    """One call: `text`, which `template` wrote, goes to the model that the record's hash picks from the pool `role`.

    `read` makes an outcome of a whole reply without its reasoning; a Failure("parse") is asked once more, with `again`
    as what is wanted, and is then final. `turn` n is the n-th model of the pool's order for this record: a fallback.
    Equal requests share one reply, so a second draw of the same text has another `tag`.
    """

    role: str
    text: str
    template: Template
    read: Callable[[str], T_co | Failure]
    again: str = "Reply in the form that was asked for."
    turn: int = 0
    tag: str = ""


class Kept(NamedTuple):
    """The record goes on, with this. `attempts` is how often its texts were written."""

    product: Product
    attempts: int = 1


class Rejected(NamedTuple):
    """The record ends here. `reason` is from a small set and is counted; `detail` is about this record alone."""

    reason: str
    detail: str = ""
    attempts: int = 1


Asks = Sequence[Ask[object]]
Answers = Sequence[object]
Work = Generator[Asks, Answers, R]
Decision = Kept | Rejected


def ask(one: Ask[T]) -> Work[T | Failure]:
    """Return what the model says, as `read` made it, or the final Failure why it says nothing."""
    [outcome] = yield (one,)
    return outcome  # type: ignore[return-value] # what `read` of this ask returned


def ask_all(many: Sequence[Ask[T]]) -> Work[list[T | Failure]]:
    """Return what was said to each, in order; all are on their way at once."""
    outcomes = (yield tuple(many)) if many else ()
    return list(outcomes)  # type: ignore[arg-type] # as above


class Refusal(NamedTuple):
    """Why a text may not stay: the gate, from a small set, and what is said to whoever writes it anew."""

    gate: str
    said: str


def until_accepted(
    write: Callable[[int, Sequence[Refusal]], Work[T | Refusal]],
    judge: Callable[[T, int], Work[Sequence[Refusal]]],
    most: int,
) -> Work[tuple[T, int] | Rejected]:
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
    return Rejected(reasons[0].gate, "; ".join(f"{gate}: {said}" for gate, said in reasons), most)


def at_once(decide: Callable[[Record], Decision]) -> Callable[[Record], Work[Decision]]:
    """Return the work of a stage that asks nobody."""

    def work(record: Record) -> Work[Decision]:
        yield from ()
        return decide(record)

    return work

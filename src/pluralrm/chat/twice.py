"""Asking once more: a reply that cannot be read goes back with the reason, and a second one is final.

Requests are handed to the chat model as it has room for them, so that later ones are on their way while earlier replies
are read. A second try joins that stream as soon as its first is known to be unreadable.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from pluralrm.chat.reading import Markers, reason_of, spoken, whole
from pluralrm.chat.requests import ChatModel, ChatReply, ChatRequest
from pluralrm.core import Exchange, Failure
from pluralrm.ordered import in_order

T = TypeVar("T")

_NOTHING = "(no text)"
"""What stands for an empty reply in the conversation that goes on: some servers refuse a message without text."""


class Turn(NamedTuple):
    """The last message sent and the reply; the messages before it are in the turn before."""

    sent: str
    reply: ChatReply


@dataclass(slots=True)
class Errand(Generic[T]):
    """A request on its way; `read` makes an outcome of a reply, and `again` is what a second message asks for.

    `complaint` begins that message. `outcome` is None until it is known; one that is known from the start asks nobody.
    `unread` says why the first reply was none.
    """

    request: ChatRequest
    read: Callable[[ChatReply], T | Failure]
    again: str
    complaint: str = "This cannot be used"
    outcome: T | Failure | None = None
    unread: Failure | None = None
    turns: list[Turn] = field(default_factory=list)

    @property
    def said(self) -> list[str]:
        """The texts of the replies."""
        return [turn.reply.text for turn in self.turns]

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What was sent and said, turn by turn."""
        return tuple(Exchange(turn.sent, turn.reply.text) for turn in self.turns)

    def settle(self, reply: ChatReply | Failure) -> None:
        """Take a reply: an outcome, or what is to be asked once more."""
        if isinstance(reply, Failure):
            self.outcome = reply
            return
        self.turns.append(Turn(self.request.messages[-1][1], reply))
        outcome = self.read(reply)
        if isinstance(outcome, Failure) and outcome.kind == "parse" and self.unread is None:
            self.unread = outcome
        else:
            self.outcome = outcome

    def ask_again(self, reasoning: Markers | None) -> ChatRequest:
        """Return the request that asks once more, with the reason in a further message; it replaces the first."""
        reason = reason_of(self.unread) if self.unread else ""
        said = spoken(self.turns[-1].reply.text, reasoning)
        before = said.strip() if isinstance(said, str) else ""
        asked = f"{self.complaint}: {reason}. {self.again}"
        messages = (*self.request.messages, ("assistant", before or _NOTHING), ("user", asked))
        self.request = replace(self.request, messages=messages)
        return self.request


def reader(
    read: Callable[[str], T | Failure], reasoning: Markers | None, most: int | None
) -> Callable[[ChatReply], T | Failure]:
    """Return what reads a reply whose text is whole, without its reasoning; `most` tokens is what it may have."""

    def read_reply(reply: ChatReply) -> T | Failure:
        said = whole(reply, reasoning, most)
        return said if isinstance(said, Failure) else read(said)

    return read_reply


def settled(chat: ChatModel, errands: Iterable[Errand[T]], reasoning: Markers | None = None) -> Iterator[Errand[T]]:
    """Yield the errands in their order, each with its outcome."""

    def first(errand: Errand[T]) -> list[ChatRequest]:
        return [errand.request] if errand.outcome is None else []

    def second(errand: Errand[T], reply: ChatReply | Failure) -> list[ChatRequest]:
        errand.settle(reply)
        return [errand.ask_again(reasoning)] if errand.outcome is None else []

    for errand, _ in in_order(errands, first, chat.complete, follow_up=second):
        yield errand

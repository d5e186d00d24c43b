"""What a reply says: all of it or none, and without its reasoning; and asking once more where it cannot be read.

>>> whole(ChatReply("<think>Rye?</think>She bakes rye."), Markers("<think>", "</think>"))
'She bakes rye.'
>>> whole(ChatReply("She bak", "length")).kind
'parse'

A reply that cannot be read goes back with the reason, and a second one is final. Requests are handed to the chat model
as it has room for them, so that later ones are on their way while earlier replies are read; a second try joins that
stream as soon as its first is known to be unreadable.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from pluralrm.chat.requests import ChatModel, ChatReply, ChatRequest
from pluralrm.core import Exchange, Failure
from pluralrm.ordered import in_order

_COMPLETE = frozenset({"stop", "eos", "end_turn"})
_SHOWN = 200
"""Characters of an unreadable text's end that its failure keeps."""
_END = "; the text ends with "


class Markers(NamedTuple):
    """What a reasoning block begins and ends with."""

    open: str
    close: str


def unreadable(reason: str, text: str) -> Failure:
    """Return the failure of a text that does not say what was asked for, with the reason and the end of the text."""
    return Failure("parse", f"{reason}{_END}{text[-_SHOWN:]!r}")


def reason_of(failure: Failure) -> str:
    """Return why a text could not be read, without the text."""
    return failure.detail.partition(_END)[0]


def whole(reply: ChatReply, markers: Markers | None = None, most: int | None = None) -> str | Failure:
    """Return what a reply says; one that was withheld or cut off (after `most` tokens) says nothing."""
    if reply.finish_reason == "content_filter":
        return Failure("refused", "the server withheld the text (content_filter)")
    if reply.finish_reason == "length":
        return unreadable(f"the text was cut off (max_tokens={most})", reply.text)
    if reply.finish_reason not in _COMPLETE:
        found = reply.finish_reason or "none"
        return Failure("unsupported", f"the server does not say that its text is whole (finish_reason: {found})")
    return spoken(reply.text, markers)


def spoken(text: str, markers: Markers | None) -> str | Failure:
    """Return the text without its reasoning blocks; a block that does not end is a failure, whatever it holds.

    A text that closes a block before it opens one began inside of it: chat templates open the block themselves.
    """
    if markers is None:
        return text
    before, *rest = re.split(f"({re.escape(markers.open)}|{re.escape(markers.close)})", text)
    depth = int(rest[:1] == [markers.close])
    kept = [] if depth else [before]
    for marker, piece in zip(rest[::2], rest[1::2], strict=True):
        depth += 1 if marker == markers.open else -1
        if depth < 0:
            return unreadable(f"{markers.close} closes a block that was not opened", text)
        if depth == 0:
            kept.append(piece)
    return unreadable(f"the reasoning block {markers.open} does not end", text) if depth else "".join(kept)


T = TypeVar("T")

_NOTHING = "(no text)"
"""What stands for an empty reply in the conversation that goes on: some servers refuse a message without text."""


class ChatTurn(NamedTuple):
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
    turns: list[ChatTurn] = field(default_factory=list)

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
        self.turns.append(ChatTurn(self.request.messages[-1][1], reply))
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

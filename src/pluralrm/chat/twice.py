"""Asking once more: a reply that cannot be read goes back with the reason, and a second one is final.

Requests are handed to the chat model as it has room for them, so that later ones are on their way while earlier replies
are read. A second try joins that stream as soon as its first is known to be unreadable.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pluralrm.chat.reading import Markers, reason_of, spoken, whole
from pluralrm.chat.requests import ChatModel, ChatReply, ChatRequest
from pluralrm.core import Failure

T = TypeVar("T")

_NOTHING = "(no text)"
"""What stands for an empty reply in the conversation that goes on: some servers refuse a message without text."""


@dataclass(slots=True)
class Errand(Generic[T]):
    """A request on its way; `read` makes an outcome of what is said, and `again` is what a second message asks for.

    `outcome` is None until it is known, `unread` says why the first reply was none, `said` are the replies.
    """

    request: ChatRequest
    read: Callable[[str], T | Failure]
    again: str
    outcome: T | Failure | None = None
    unread: Failure | None = None
    said: list[str] = field(default_factory=list)

    def settle(self, reply: ChatReply | Failure, reasoning: Markers | None) -> None:
        """Take a reply: an outcome, or what is to be asked once more."""
        if isinstance(reply, Failure):
            self.outcome = reply
            return
        self.said.append(reply.text)
        text = whole(reply, reasoning, self.request.sampling.max_tokens)
        outcome = text if isinstance(text, Failure) else self.read(text)
        if isinstance(outcome, Failure) and outcome.kind == "parse" and self.unread is None:
            self.unread = outcome
        else:
            self.outcome = outcome

    def second(self, reasoning: Markers | None) -> ChatRequest:
        """Return the request that asks once more, with the reason in a further message."""
        reason = reason_of(self.unread) if self.unread else ""
        said = spoken(self.said[-1], reasoning)
        before = said.strip() if isinstance(said, str) else ""
        asked = f"This cannot be used: {reason}. {self.again}"
        messages = (*self.request.messages, ("assistant", before or _NOTHING), ("user", asked))
        return replace(self.request, messages=messages)


def settled(chat: ChatModel, errands: Iterable[Errand[T]], reasoning: Markers | None = None) -> Iterator[Errand[T]]:
    """Yield the errands in their order, each with its outcome."""
    line: deque[Errand[T]] = deque()
    sent: deque[Errand[T]] = deque()
    unread: deque[Errand[T]] = deque()

    def second_tries() -> Iterator[ChatRequest]:
        while unread:
            sent.append(unread.popleft())
            yield sent[-1].second(reasoning)

    def requests() -> Iterator[ChatRequest]:
        for errand in errands:
            yield from second_tries()
            line.append(errand)
            sent.append(errand)
            yield errand.request

    for source in (requests, second_tries):  # in the end, those that were among the last
        for reply in chat.complete(source()):
            errand = sent.popleft()
            errand.settle(reply, reasoning)
            if errand.outcome is None:
                unread.append(errand)
            while line and line[0].outcome is not None:
                yield line.popleft()

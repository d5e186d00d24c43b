"""Calls on their way: one thread for each chat model, so that all servers work at the same time.

What is asked while a model's stream of requests is on its way joins that stream: a server is idle only when nothing is
left to ask it.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from pluralrm.chat import ChatModel, ChatReply, ChatRequest
from pluralrm.chat.role import ChatCall, settled
from pluralrm.construct.pipeline.pools import Member, Pools
from pluralrm.core import OPEN_KINDS, Failure

PATIENCE = 8
"""Calls in a row without an answer after which a model is not asked again by this process."""

J = TypeVar("J")


@dataclass(slots=True)
class Sent(Generic[J]):
    """A call, which job asked it, as which of its asks, and in which role it is answered.

    `first` is its request as it was asked first: that of the call is replaced where it is asked once more.
    """

    job: J
    place: int
    role: str
    member: Member
    call: ChatCall[object]
    first: ChatRequest

    @property
    def exchanges(self) -> Iterator[tuple[ChatRequest, ChatReply | Failure]]:
        """What was asked and replied, once or twice."""
        said: list[ChatReply | Failure] = [turn.reply for turn in self.call.turns]
        if isinstance(self.call.outcome, Failure) and len(said) <= (self.call.unread is not None):
            said.append(self.call.outcome)  # the model, or its server, said no
        yield from zip((self.first, self.call.request), said, strict=False)


class Askers(Generic[J]):
    """The threads. Use it with `with`; close the chat models before it, where calls are still on their way."""

    def __init__(self, pools: Pools) -> None:
        self._queues: dict[int, SimpleQueue[Sent[J] | None]] = {id(chat): SimpleQueue() for chat in pools.chats}
        self._settled: SimpleQueue[Sent[J] | Future[None]] = SimpleQueue()
        self._threads = ThreadPoolExecutor(max(len(self._queues), 1), thread_name_prefix="pluralrm-build")
        for chat in pools.chats:
            self._threads.submit(self._serve, chat).add_done_callback(self._settled.put)

    def __enter__(self) -> "Askers[J]":
        return self

    def __exit__(self, *_: object) -> None:
        for queue in self._queues.values():
            queue.put(None)
        self._threads.shutdown()

    def hand(self, sent: Sent[J]) -> None:
        """Have a call made."""
        self._queues[id(sent.member.chat)].put(sent)

    def fetch(self) -> Sent[J]:
        """Return a call whose outcome is known, as soon as there is one; raise what ended a thread."""
        found = self._settled.get()
        if isinstance(found, Sent):
            return found
        found.result()
        raise RuntimeError("a thread that asks has ended")

    def _serve(self, chat: ChatModel) -> None:
        queue, lost = self._queues[id(chat)], _Lost()
        while (first := queue.get()) is not None:
            sent: deque[Sent[J]] = deque()
            stream = _stream(first, queue, sent, lost)
            for call in settled(chat, stream):
                lost.note(call.outcome)
                self._settled.put(sent.popleft())


def _stream(
    first: Sent[J], queue: "SimpleQueue[Sent[J] | None]", sent: deque[Sent[J]], lost: "_Lost"
) -> Iterator[ChatCall[object]]:
    """Yield what is to be asked, for as long as there is some."""
    following: Sent[J] | None = first
    while following is not None:
        following.call.outcome = lost.refusal()
        sent.append(following)
        yield following.call
        try:
            following = queue.get_nowait()
        except Empty:
            return
    queue.put(None)  # the end was meant for the thread


class _Lost:
    """How many calls in a row a model has left without an answer."""

    def __init__(self) -> None:
        self._count = 0
        self._reason = ""

    def note(self, outcome: object) -> None:
        if not isinstance(outcome, Failure) or outcome.kind not in OPEN_KINDS:
            self._count, self._reason = 0, ""
        elif outcome.kind != "budget":  # costs no time, and a kept reply may follow
            self._count += 1
            self._reason = self._reason or outcome.detail

    def refusal(self) -> Failure | None:
        if self._count < PATIENCE:
            return None
        return Failure("transport", f"not sent: {self._count} calls in a row got no answer; the first: {self._reason}")

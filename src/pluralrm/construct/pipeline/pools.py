"""The models of each role, and the threads that ask them.

A role has a pool of models, and a record's hash orders the pool for that record: the same record has the same models on
every machine, whatever else is in the input and in whatever order the models are named. A model's server may move: only
the model and how it is asked count.

Each chat model has one thread, so that all servers work at the same time. A call made while a model's stream of
requests is open joins that stream: a server is idle only when nothing is left to ask it.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from pluralrm.chat import (
    KEYS,
    ChatCall,
    ChatModel,
    ChatReply,
    ChatRequest,
    ChatRole,
    Sampling,
    ServedChat,
    reasoning_markers,
    require_posts_allowed,
    sampling,
    served,
    settled,
)
from pluralrm.chat.completions import Markers, identity_of, tally_of, unreadable
from pluralrm.construct.pipeline.stages import ModelCall, StandIns
from pluralrm.core import OPEN_KINDS, Failure
from pluralrm.digests import digest
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.http import Settings, Tally
from pluralrm.specs import Form, Spec, parse

FORM = Form("required", tuple(key for key in KEYS if key != "template"))
_PLACE = ("key", "send", "url")
"""Options that say where a model is and who may ask it, not what it is."""
_SEEDS = 2**31


class Role(NamedTuple):
    """A part that models play, and which models may play it.

    `private` says that what they are asked holds what users wrote: a server elsewhere needs `send=posts`.
    """

    name: str
    specs: Sequence[str]
    tokens: int = 2048
    """The longest reply, where a spec says nothing."""
    private: bool = True


@dataclass(frozen=True, slots=True)
class Member:
    """A model of a pool, and how it is asked."""

    spec: str
    name: str
    known_by: str
    """What its assignment is derived from: the spec without the place of its server."""
    sampling: Sampling
    reasoning: Markers | None
    chat: ChatModel
    public: bool = False
    """Whether nothing that it is asked was written by a user."""

    @property
    def identity(self) -> Mapping[str, str]:
        """The model and its server, as far as they are known."""
        return identity_of(self.chat)

    @property
    def published(self) -> str:
        """The spec as somebody else can use it: with the server's address, without whose key and what may be sent."""
        spec = parse(f"model:{self.spec}", {"model": FORM}, noun="model")
        options = {key: value for key, value in spec.options.items() if key not in {"key", "send"}}
        url = self.identity.get("url", "")
        return _bare(replace(spec, options={**options, **({"url": url} if url else {})}))

    def to_json(self) -> dict[str, object]:
        """Return what shapes its replies, for a folder and a data card."""
        drawn = {name: getattr(self.sampling, name) for name in ("temperature", "max_tokens", "seed")}
        sampling = {name: "server" if value is None and name != "seed" else value for name, value in drawn.items()}
        block = self.reasoning and f"{self.reasoning.open},{self.reasoning.close}"
        return {"spec": self.published, **self.identity, "sampling": sampling, "reasoning": block or "none"}

    def call(self, ask: ModelCall[object], stand_ins: StandIns = "") -> ChatCall[object]:
        """Return a call on its way, with how its reply is read."""
        role = ChatRole(self.chat, ask.template, _drawn(self.sampling, ask.tag), self.reasoning)
        stand_in = _stand_in(ask, stand_ins) if stand_ins else ""
        return role.call(
            ask.text, lambda reply: _read(reply, ask), ask.again, public=self.public, tag=ask.tag, stand_in=stand_in
        )


class Pools:
    """The models of every role. Close it, or use it with `with`: that ends their connections.

    `stand_ins` are those that a dry run takes: texts are accepted at once, or refused while they may be written anew.
    """

    def __init__(self, roles: Mapping[str, tuple[Member, ...]]) -> None:
        self.roles = roles
        self.stand_ins: StandIns = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def chats(self) -> list[ChatModel]:
        """Every chat model once."""
        return list({id(member.chat): member.chat for pool in self.roles.values() for member in pool}.values())

    @property
    def tally(self) -> Tally:
        """What this process has asked so far, and what it cost."""
        return reduce(Tally.plus, map(tally_of, self.chats), Tally())

    @property
    def served(self) -> set[str]:
        """The names of the models whose replies come from a server or a cassette."""
        members = (member for pool in self.roles.values() for member in pool)
        return {member.name for member in members if isinstance(member.chat, ServedChat)}

    def order(self, role: str, record: str) -> list[Member]:
        """Return the pool of a role as the record of that id has it: the first is asked, the others are fallbacks."""
        if role not in self.roles:
            raise SpecError(f"no model for the role {role!r}.{did_you_mean(role, self.roles)}")
        return sorted(self.roles[role], key=lambda member: digest([role, record, member.known_by]))

    def models(self, role: str, record: str) -> list[str]:
        """Return the models' names in that order."""
        return [member.name for member in self.order(role, record)]

    def member(self, ask: ModelCall[object], record: str) -> Member:
        """Return who is asked; after the last of a pool comes the first again."""
        order = self.order(ask.role, record)
        return order[ask.turn % len(order)]

    def published(self, role: str) -> list[str]:
        """Return the specs of a role as somebody else can use them."""
        return sorted(member.published for member in self.roles[role])

    def close(self) -> None:
        """Cancel what is in flight and close every connection and cassette."""
        for chat in self.chats:
            if isinstance(chat, ServedChat):
                chat.close()


def open_pools(
    roles: Sequence[Role], *, settings: Settings | None = None, chats: Mapping[str, ChatModel] | None = None
) -> Pools:
    """Return the pools of some roles; `chats` stand in for servers, by the model's name."""
    opener = _Opener(settings, dict(chats or {}))
    try:
        return Pools({role.name: tuple(opener.pool(role)) for role in roles})
    except BaseException:
        opener.close()
        raise


class _Opener:
    """Opens each model once: roles that name the same one share its connections, and so its concurrency."""

    def __init__(self, settings: Settings | None, chats: Mapping[str, ChatModel]) -> None:
        self._settings, self._given = settings, chats
        self._opened: dict[tuple[str, ...], ServedChat] = {}

    def pool(self, role: Role) -> Iterator[Member]:
        if not role.specs:
            raise SpecError(f"role {role.name!r}: found no model, wanted at least one")
        seen: set[str] = set()
        for text in role.specs:
            member = self._member(role, text)
            if member.known_by in seen:
                raise SpecError(f"role {role.name!r}: {member.known_by!r} is named twice; leave one out")
            seen.add(member.known_by)
            yield member

    def _member(self, role: Role, text: str) -> Member:
        spec = parse(f"{role.name}:{text}", {role.name: FORM}, noun="role")
        drawn, markers = sampling(spec, role.tokens), reasoning_markers(spec)
        chat = self._given.get(spec.target) or self._served(spec)
        if role.private:
            require_posts_allowed(chat, f"{role.name}: {spec.target!r}", "what it is asked holds what users wrote")
        options = {key: value for key, value in spec.options.items() if key not in _PLACE}
        return Member(
            _bare(spec), spec.target, _bare(replace(spec, options=options)), drawn, markers, chat, not role.private
        )

    def _served(self, spec: Spec) -> ServedChat:
        options = (spec.options.get(key, "") for key in ("url", "key", "revision", "reasoning"))
        key = (spec.target, *options)
        if key not in self._opened:
            self._opened[key] = served(spec, self._settings)
        return self._opened[key]

    def close(self) -> None:
        for chat in self._opened.values():
            chat.close()


def _bare(spec: Spec) -> str:
    return str(spec).partition(":")[2]


def _stand_in(ask: ModelCall[object], stand_ins: StandIns) -> str:
    if ask.stand_in is None:
        raise ValueError(f"no stand-in for the calls by {ask.template.name!r}: a dry run cannot go on")
    return (stand_ins == "refused" and ask.stand_in.refused) or ask.stand_in.accepted


def _drawn(sampling: Sampling, tag: str) -> Sampling:
    """Return the sampling of a draw: with one seed, a server would say the same again to the same words."""
    if sampling.seed is None or not tag:
        return sampling
    return replace(sampling, seed=int(digest([sampling.seed, tag])[:15], 16) % _SEEDS)


def _read(text: str, ask: ModelCall[object]) -> object | Failure:
    """Return what the ask makes of a text; an empty one is never its business."""
    if not text.strip():
        return unreadable("the reply is empty", text)
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # JSON may escape half a character; no file can hold it
        return unreadable("the reply is not valid Unicode", "")
    return ask.read(text)


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
        replies: list[ChatReply | Failure] = [turn.reply for turn in self.call.turns]
        if isinstance(self.call.outcome, Failure) and len(replies) <= (self.call.unread is not None):
            replies.append(self.call.outcome)  # the model, or its server, said no
        yield from zip((self.first, self.call.request), replies, strict=False)


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
        result = self._settled.get()
        if isinstance(result, Sent):
            return result
        result.result()
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

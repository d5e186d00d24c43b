r"""Chat completions, and a chat model in a role: judge, writer, grader, policy.

Requests in, replies out, in order: `ServedChat` asks a server, `ScriptedChat` a script.

>>> chat = ScriptedChat(lambda request: f"You said: {request.messages[-1][1]}")
>>> [reply.text for reply in chat.complete([ChatRequest((("user", "Which flour?"),))])]
['You said: Which flour?']

Whatever asks a chat model asks through a `ChatRole`.

>>> from pluralrm.chat.completions import unreadable
>>> from pluralrm.templates import load_template
>>> chat = ScriptedChat(["Some.", "3"])
>>> role = ChatRole(chat, load_template("pointwise-v1"), Sampling(max_tokens=20))
>>> def number(text):
...     return int(text) if text.isdecimal() else unreadable("not a number", text)
>>> call = role.call("How many loaves?", number, "Say a number.")
>>> [(question, said.outcome) for question, (said,) in role.ask(["loaves"], lambda _: [call])]
[('loaves', 3)]
>>> chat.requests[1].messages[-1]
('user', 'This cannot be used: not a number. Say a number.')
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from pluralrm.chat.completions import (
    ChatModel,
    ChatReply,
    ChatRequest,
    DryChat,
    Markers,
    Sampling,
    ScriptedChat,
    ServedChat,
    TokenLogprob,
    identity_of,
    reason_of,
    spoken,
    tally_of,
    whole,
)
from pluralrm.core import Exchange, Failure
from pluralrm.errors import PrivacyError, SpecError
from pluralrm.http import DryRun, Settings, Tally
from pluralrm.ordered import in_order
from pluralrm.specs import Spec
from pluralrm.templates import Message, Template

__all__ = [
    "ChatCall",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "ChatRole",
    "Sampling",
    "ScriptedChat",
    "ServedChat",
    "TokenLogprob",
]

I = TypeVar("I")  # noqa: E741 - the items, as in `ordered`
T = TypeVar("T")

# ---------------------------------------------------------------- one call

_NO_TEXT = "(no text)"
"""What stands for an empty reply in the conversation that continues: some servers refuse a message without text."""


class ChatTurn(NamedTuple):
    """The last message sent and the reply; the messages before it are in the turn before."""

    sent: str
    reply: ChatReply


@dataclass(slots=True)
class ChatCall(Generic[T]):
    """A request on its way; `read` makes an outcome of a reply, and `again` is what a second message asks for.

    `complaint` begins that message. `outcome` is None until it is known; one that is known from the start sends no
    request. `unread` is why the first reply could not be read; the second is final.
    """

    request: ChatRequest
    read: Callable[[ChatReply], T | Failure]
    again: str
    reasoning: Markers | None = None
    complaint: str = "This cannot be used"
    outcome: T | Failure | None = None
    unread: Failure | None = None
    turns: list[ChatTurn] = field(default_factory=list)

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

    def ask_again(self) -> ChatRequest:
        """Return the request that asks once more, with the reason in a further message; it replaces the first."""
        reason = reason_of(self.unread) if self.unread else ""
        reply = spoken(self.turns[-1].reply.text, self.reasoning)
        before = reply.strip() if isinstance(reply, str) else ""
        message = f"{self.complaint}: {reason}. {self.again}"
        messages = (*self.request.messages, ("assistant", before or _NO_TEXT), ("user", message))
        self.request = replace(self.request, messages=messages)
        return self.request


def settled(chat: ChatModel, calls: Iterable[ChatCall[T]]) -> Iterator[ChatCall[T]]:
    """Yield the calls in their order, each with its outcome.

    Requests are handed over as the chat model has room for them, so that later ones are on their way while earlier
    replies are read; a second one joins that stream as soon as the first reply is known to be unreadable.
    """

    def first(call: ChatCall[T]) -> list[ChatRequest]:
        return [call.request] if call.outcome is None else []

    def second(call: ChatCall[T], reply: ChatReply | Failure) -> list[ChatRequest]:
        call.settle(reply)
        return [call.ask_again()] if call.outcome is None else []

    for call, _ in in_order(calls, first, chat.complete, follow_up=second):
        yield call


# ---------------------------------------------------------------- the role


@dataclass(frozen=True)
class ChatRole:
    """A chat model with its template, how its replies are drawn, and what its reasoning blocks are marked with.

    A request may hold what a user wrote unless it says `public`, and then goes to a server elsewhere only where the
    user allowed that: `http.Service.sees_posts` decides, for every caller.
    """

    chat: ChatModel = field(compare=False)
    template: Template
    sampling: Sampling
    reasoning: Markers | None = None

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model and its server, the template."""
        return {**identity_of(self.chat), "template": self.template.hash}

    @property
    def drawing(self) -> Mapping[str, str]:
        """How replies are drawn and read, which must not change either."""
        return {"sampling": repr(self.sampling), "reasoning": repr(self.reasoning)}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return tally_of(self.chat)

    def dry(self, dry_run: DryRun) -> "ChatRole":
        """Return the same role, whose requests are counted and not sent."""
        return replace(self, chat=DryChat(self.chat, dry_run))

    def request(
        self, content: str | tuple[Message, ...], *, public: bool = False, tag: str = "", stand_in: str = ""
    ) -> ChatRequest:
        """Return the request that sends what the template wrote, a text or a chat; private unless it says `public`."""
        messages = (("user", content),) if isinstance(content, str) else content
        return ChatRequest(messages, self.sampling, self.template.hash, tag, public, stand_in)

    def said(self, reply: ChatReply) -> str | Failure:
        """Return the text of a reply without its reasoning; one that is cut off or withheld is a Failure."""
        return whole(reply, self.reasoning, self.sampling.max_tokens)

    def call(
        self,
        text: str,
        read: Callable[[str], T | Failure],
        again: str,
        *,
        public: bool = False,
        tag: str = "",
        stand_in: str = "",
    ) -> ChatCall[T]:
        """Return a call whose outcome `read` makes of the whole text that is said; `again` is for a second message.

        `stand_in` is a reply that `read` takes, with which a dry run goes on.
        """

        def read_reply(reply: ChatReply) -> T | Failure:
            text = self.said(reply)
            return text if isinstance(text, Failure) else read(text)

        return ChatCall(
            self.request(text, public=public, tag=tag, stand_in=stand_in), read_reply, again, self.reasoning
        )

    def ask(
        self, items: Iterable[I], calls: Callable[[I], Iterable[ChatCall[T]]]
    ) -> Iterator[tuple[I, list[ChatCall[T]]]]:
        """Yield each item with its calls and their outcomes, in order; later calls are on their way meanwhile."""

        def settle(stream: Iterator[ChatCall[T]]) -> Iterator[ChatCall[T]]:
            return settled(self.chat, stream)

        return in_order(items, calls, settle)


# ---------------------------------------------------------------- from a spec to a role

KEYS = ("key", "max_tokens", "reasoning", "revision", "seed", "send", "temperature", "template", "url")
"""The keys that all specs of a chat model have in common."""
REASONING = "<think>,</think>"
SENT = "posts"
"""A spec with `send=posts` lets what users wrote leave this machine; --send-posts writes it."""

TOKENS = 512
"""The default longest reply."""
_SERVER = "server"


def open_role(
    spec: Spec,
    template: Template,
    drawn: Sampling | None = None,
    *,
    chat: ChatModel | None = None,
    settings: Settings | None = None,
    private: str = "",
) -> ChatRole:
    """Return the role of the chat model that a spec names; `chat` stands in for its server.

    `private` says why every request holds what users wrote: then a server that may not see it is a PrivacyError now.
    """
    markers = reasoning_markers(spec)
    may_send(spec)
    role = ChatRole(chat or served(spec, settings), template, drawn or sampling(spec), markers)
    if private:
        require_posts_allowed(role.chat, str(spec), private)
    return role


def require_posts_allowed(chat: ChatModel, who: str, why: str) -> None:
    """Raise a PrivacyError before any work where every request of a task is private, and none may be sent."""
    if not chat.sees_posts:
        raise PrivacyError.of(who, why)


def served(spec: Spec, settings: Settings | None) -> ServedChat:
    """Return the chat model that a spec's target, `url`, `key` and `revision` name."""
    options = spec.options
    return ServedChat(
        spec.target,
        url=options.get("url", ""),
        key=options.get("key"),
        settings=(settings or Settings()).allowing(posts=may_send(spec)),
        revision=options.get("revision", ""),
    )


def seed(spec: Spec) -> int:
    """Return what all that is drawn is derived from."""
    return spec.integer("seed", 0)


def sampling(spec: Spec, tokens: int = TOKENS) -> Sampling:
    """Return how replies are drawn; only a positive temperature needs the seed."""
    temperature: float | None = None  # left to the server, for models that take no other than their own
    if spec.options.get("temperature") != _SERVER:
        temperature = spec.number("temperature", 0, least=0, most=2, instead=f", or {_SERVER!r}")
    return Sampling(
        temperature=temperature,
        max_tokens=None if spec.options.get("max_tokens") == _SERVER else spec.integer("max_tokens", tokens, least=1),
        seed=seed(spec) if temperature else None,
    )


def reasoning_markers(spec: Spec) -> Markers | None:
    """Return what a reasoning block begins and ends with; None where blocks are not looked for."""
    text = spec.options.get("reasoning", REASONING)
    if text == "none":
        return None
    opened, _, closed = text.partition(",")
    if not (opened and closed) or opened == closed:
        raise SpecError(
            f"{spec.kind}: reasoning is {text!r}; wanted what a block begins and ends with, as in "
            "reasoning=<think>%2C</think>, or none"
        )
    return Markers(opened, closed)


def may_send(spec: Spec) -> bool:
    """Return whether a spec says `send=posts`; any other value is a SpecError."""
    send = spec.options.get("send")
    if send not in (None, SENT):
        raise SpecError(f"{spec.kind}: send is {send!r}; wanted send={SENT}, or leave it out")
    return send == SENT

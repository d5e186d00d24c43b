"""Chat completions: a request, a reply and what it says; the protocol of a chat model, and one that follows a script.

>>> whole(ChatReply("<think>Rye?</think>She bakes rye."), Markers("<think>", "</think>"))
'She bakes rye.'
>>> whole(ChatReply("She bak", "length")).kind
'parse'
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pluralrm.core import Failure, Identified
from pluralrm.errors import ServiceError
from pluralrm.http import Metered, Tally, Usage


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is drawn. What is None is left to the server; `top_logprobs` asks for that many alternatives."""

    temperature: float | None = 0.0
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to be continued: (role, content) pairs.

    `template` is the hash of the template that wrote them. Equal requests share one kept reply, so a second draw of
    the same request has another `tag`. A `public` one holds nothing that a user wrote; all others are sent to a server
    elsewhere only where the chat model was told `send_posts`. `stand_in` is a reply of the form that is asked for, with
    which a dry run goes on; without one a dry run's request fails for good.
    """

    messages: tuple[tuple[str, str], ...]
    sampling: Sampling = Sampling()
    template: str = ""
    tag: str = ""
    public: bool = False
    stand_in: str = ""


class TokenLogprob(NamedTuple):
    """A token of the reply, its log-probability, and the alternatives that the server names, the likeliest first."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model said, whole or cut off: `finish_reason` says which ("stop", "length", "content_filter", ...).

    `logprobs` is None where the server sent none, asked or not. `model` is the name that the server gives itself.
    """

    text: str
    finish_reason: str = "stop"
    usage: Usage | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    cached: bool = False
    model: str = ""


class ChatModel(Protocol):
    """Anything that continues conversations. No base class: an object with these three is a chat model."""

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    @property
    def sees_posts(self) -> bool:
        """True where it may be shown what users wrote."""
        ...

    def complete(self, requests: Iterable[ChatRequest]) -> Iterator[ChatReply | Failure]:
        """Yield one reply or failure per request, in order, while later ones are still on their way."""
        ...


Line = str | ChatReply | Failure
"""A reply; a text stands for a reply that is complete."""


class ScriptedChat:
    """Answers by a function of the request, or with the lines of a list in turn. `requests` holds what was asked."""

    def __init__(self, script: Callable[[ChatRequest], Line] | Sequence[Line], *, name: str = "scripted") -> None:
        self.name = name
        self.sees_posts = True
        self.requests: list[ChatRequest] = []
        self._script = script

    @property
    def calls(self) -> int:
        """How many requests were answered."""
        return len(self.requests)

    def complete(self, requests: Iterable[ChatRequest]) -> Iterator[ChatReply | Failure]:
        """Yield the script's line for each request, in order."""
        for request in requests:
            line = self._line(request)
            self.requests.append(request)
            yield ChatReply(line, model=self.name) if isinstance(line, str) else line

    def _line(self, request: ChatRequest) -> Line:
        if callable(self._script):
            return self._script(request)
        if self.calls >= len(self._script):
            raise ServiceError(f"the script of {self.name!r} has {len(self._script)} lines and is over")
        return self._script[self.calls]


def identity_of(chat: ChatModel) -> Mapping[str, str]:
    """Return the model and its server, as far as they are known."""
    return chat.identity if isinstance(chat, Identified) else {"model": chat.name}


def tally_of(chat: ChatModel) -> Tally:
    """Return what was asked so far; nothing where the chat model keeps no account, as a script does."""
    return chat.tally if isinstance(chat, Metered) else Tally()


# ---------------------------------------------------------------- what a reply says

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
        reason = reply.finish_reason or "none"
        return Failure("unsupported", f"the server does not say that its text is whole (finish_reason: {reason})")
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

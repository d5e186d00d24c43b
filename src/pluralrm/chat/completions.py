"""Chat completions: a request, a reply and what it says; the protocol of a chat model, one that follows a script, and
one behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp, transformers serve, OpenAI), of whose replies unknown
fields are ignored.

>>> whole(ChatReply("<think>Rye?</think>She bakes rye."), Markers("<think>", "</think>"))
'She bakes rye.'
>>> whole(ChatReply("She bak", "length")).kind
'parse'
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from pluralrm.core import Failure, Identified
from pluralrm.errors import ServiceError
from pluralrm.http import (
    LETTERS_PER_TOKEN,
    Call,
    Clock,
    DryRun,
    Metered,
    Service,
    Settings,
    Tally,
    UnsoundError,
    Usage,
    parse_address,
)


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
    parts = [] if depth else [before]
    for marker, piece in zip(rest[::2], rest[1::2], strict=True):
        depth += 1 if marker == markers.open else -1
        if depth < 0:
            return unreadable(f"{markers.close} closes a block that was not opened", text)
        if depth == 0:
            parts.append(piece)
    return unreadable(f"the reasoning block {markers.open} does not end", text) if depth else "".join(parts)


_OURS = ("model", "messages", "stream", "n", "logprobs", "top_logprobs")


class ServedChat:
    """A model by the name that its server knows it by.

    The URL defaults to OPENAI_BASE_URL; `key` names the environment variable that holds the key. `revision` separates
    what the server runs under one name; `extra` holds fields of the server's own, such as
    `{"chat_template_kwargs": {"enable_thinking": False}}`. Both are part of what a kept reply is kept under.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str = "",
        key: str | None = None,
        settings: Settings | None = None,
        revision: str = "",
        extra: Mapping[str, object] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._extra = dict(extra or {})
        if taken := [name for name in _OURS if name in self._extra]:
            raise ServiceError(f"{taken[0]!r} is set by pluralrm; an extra field has another name")
        self.name = model
        self._revision = revision
        self._service = Service(parse_address(url), settings, model=model, key=key, clock=clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def sees_posts(self) -> bool:
        """True where it may be shown what users wrote: on this machine, from a recording, or because it was allowed."""
        return self._service.sees_posts

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed."""
        return {"model": self.name, "url": self._service.address.url, "revision": self._revision}

    @property
    def tally(self) -> Tally:
        """What was asked so far, and what it cost."""
        return self._service.tally

    def complete(self, requests: Iterable[ChatRequest]) -> Iterator[ChatReply | Failure]:
        """Yield one reply or failure per request, in order. ServiceError where no further request could fare better."""
        with closing(self._service.replies(map(self._call, requests), read_completion)) as replies:
            for reply in replies:
                if isinstance(reply, Failure):
                    yield reply
                elif isinstance(reply.content, Failure):
                    yield reply.content
                else:
                    yield replace(reply.content, usage=reply.usage, cached=reply.cached)

    def kept_under(self, request: ChatRequest) -> str:
        """Return the key under which a cassette or a cache keeps the reply to a request."""
        return self._service.key(self._call(request))

    def close(self) -> None:
        """Cancel what is in flight and close every connection and file."""
        self._service.close()

    def _call(self, request: ChatRequest) -> Call:
        return _call(self.name, request, self._extra, self._revision)


class DryChat:
    """A chat model in a dry run: its requests are counted, and none is sent."""

    def __init__(self, chat: ChatModel, dry_run: DryRun) -> None:
        self.name, self.sees_posts, self.identity = chat.name, True, identity_of(chat)
        self._dry_run = dry_run

    def complete(self, requests: Iterable[ChatRequest]) -> Iterator[ChatReply | Failure]:
        """Yield each request's stand-in, or a final failure."""
        for request in requests:
            reply = self._dry_run.reply(self.name, _call(self.name, request), read_completion)
            yield reply if isinstance(reply, Failure) else reply.content


PATH = "/chat/completions"


def _stand_in(request: ChatRequest) -> dict[str, object]:
    """Return a completion that says the request's stand-in, with tokens estimated by letters."""
    prompt = sum(len(content) for _, content in request.messages) // LETTERS_PER_TOKEN
    usage = {"prompt_tokens": prompt, "completion_tokens": len(request.stand_in) // LETTERS_PER_TOKEN}
    return {"choices": [{"message": {"content": request.stand_in}, "finish_reason": "stop"}], "usage": usage}


_ROUNDING = 0.01
"""How far a log-probability may lie above 0, and the probabilities of one place above 1: servers round."""
_LEAST = 1e300


def _call(model: str, request: ChatRequest, extra: Mapping[str, object] | None = None, revision: str = "") -> Call:
    marks = {"revision": revision, "template": request.template, "tag": request.tag}
    stand_in = _stand_in(request) if request.stand_in else None
    body = completion_body(model, request, extra or {})
    return Call(PATH, body, marks, public=request.public, stand_in=stand_in)


def completion_body(model: str, request: ChatRequest, extra: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON that is sent; `extra` holds further fields of a server's own."""
    messages = [{"role": role, "content": content} for role, content in request.messages]
    return {**extra, "model": model, "messages": messages, **_parameters(request.sampling)}


def _parameters(sampling: Sampling) -> dict[str, object]:
    logprobs = sampling.logprobs or sampling.top_logprobs > 0
    parameters = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "logprobs": logprobs or None,
        "top_logprobs": sampling.top_logprobs or None,
    }
    return {name: value for name, value in parameters.items() if value is not None}


def read_completion(value: object) -> ChatReply | Failure:
    """Return the first choice of a reply, Failure("refused") where the model declines, or raise UnsoundError."""
    choice = _choice(value)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnsoundError("the reply's choice has no message")
    if refusal := message.get("refusal"):
        return Failure("refused", str(refusal))
    text = message.get("content")
    if text is not None and not isinstance(text, str):
        raise UnsoundError(f"the reply's content is a {type(text).__name__}, not a text")
    name = value.get("model") if isinstance(value, dict) else None
    return ChatReply(
        text=text or "",
        finish_reason=str(choice.get("finish_reason") or ""),
        logprobs=_logprobs(choice.get("logprobs")),
        model=name if isinstance(name, str) else "",
    )


def _choice(value: object) -> dict[str, object]:
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        problem = value.get("error") if isinstance(value, dict) else None
        raise UnsoundError(f"the reply has no choices{f' but an error: {problem}' if problem else ''}"[:300])
    return choices[0]


def _logprobs(value: object) -> tuple[TokenLogprob, ...] | None:
    """Return the tokens with their alternatives; None where the server left them out, or where they are none.

    One token that is spelt otherwise, or more probability than there is, and none of them is believed.
    """
    listed = value.get("content") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        return None
    tokens: list[TokenLogprob] = []
    for entry in listed:
        alternatives = entry.get("top_logprobs") or () if isinstance(entry, dict) else ()
        pairs = [_pair(token) for token in (entry, *alternatives)] if isinstance(alternatives, list | tuple) else [None]
        sound = [pair for pair in pairs if pair is not None]
        if len(sound) < len(pairs) or _mass(sound) > 1 + _ROUNDING:
            return None
        tokens.append(TokenLogprob(*sound[0], tuple(sorted(sound[1:], key=lambda pair: -pair[1]))))
    return tuple(tokens)


def _mass(pairs: Sequence[tuple[str, float]]) -> float:
    """Return the probability of some tokens together; the one that was drawn may stand among the others again."""
    drawn, *others = pairs
    again = [pair for pair in others if pair != drawn]
    return math.fsum(math.exp(logprob) for _, logprob in (drawn, *again))


def _pair(entry: object) -> tuple[str, float] | None:
    """Return a token and its log-probability, or None where the entry has another form, or is no log-probability."""
    token, logprob = (entry.get("token"), entry.get("logprob")) if isinstance(entry, dict) else (None, None)
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    sound = logprob == -math.inf or -_LEAST <= logprob <= _ROUNDING
    return (token, min(float(logprob), 0.0)) if sound else None

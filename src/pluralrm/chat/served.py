"""A chat model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, transformers serve, OpenAI.

Fields of a reply that are not known are ignored.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import Self

from pluralrm.chat.completions import ChatModel, ChatReply, ChatRequest, Sampling, TokenLogprob, identity_of
from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import LETTERS_PER_TOKEN, Call, Clock, DryRun, Service, Settings, Tally, UnsoundError, parse_address

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
    asked = sampling.logprobs or sampling.top_logprobs > 0
    parameters = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "logprobs": asked or None,
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
        pairs = [_pair(one) for one in (entry, *alternatives)] if isinstance(alternatives, list | tuple) else [None]
        sound = [pair for pair in pairs if pair is not None]
        if len(sound) < len(pairs) or _mass(sound) > 1 + _ROUNDING:
            return None
        tokens.append(TokenLogprob(*sound[0], tuple(sorted(sound[1:], key=lambda found: -found[1]))))
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

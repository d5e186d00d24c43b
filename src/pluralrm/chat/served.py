"""A chat model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, transformers serve, OpenAI."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import Self

from pluralrm.chat import wire
from pluralrm.chat.requests import ChatReply, ChatRequest
from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http import Call, Clock, Service, Settings, Tally, parse_address

_OURS = ("model", "messages", "stream", "n", "logprobs", "top_logprobs")


class ServedChat:
    """A model by the name that its server knows it by.

    The URL defaults to OPENAI_BASE_URL; `key` names the environment variable that holds the key. `revision` tells
    apart what the server runs under one name; `extra` holds fields of the server's own, such as
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
        with closing(self._service.replies(map(self._call, requests), wire.read)) as replies:
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
        marks = {"revision": self._revision, "template": request.template, "tag": request.tag}
        return Call(wire.PATH, wire.body(self.name, request, self._extra), marks, public=request.public)

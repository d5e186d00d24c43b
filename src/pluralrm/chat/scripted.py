"""A chat model that follows a script: for tests, of this package and of its users."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pluralrm.chat.requests import ChatReply, ChatRequest
from pluralrm.core import Failure
from pluralrm.errors import ServiceError

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

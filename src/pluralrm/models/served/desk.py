"""Questions to a server before the first score: one at a time, and none of them may stay without an answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from pluralrm.core import Failure
from pluralrm.errors import OutageError, ServiceError
from pluralrm.http import Call, Service, UnsoundError

T = TypeVar("T")

MISSING = (404, 405, 501)
"""What a server says of a route that it has not."""


class Desk:
    """Where a service is asked; `start` is the command that starts the server, for messages."""

    def __init__(self, service: Service, start: str) -> None:
        self._service = service
        self._start = start

    @property
    def url(self) -> str:
        """The URL that is asked."""
        return self._service.address.url

    def ask(self, call: Call, read: Callable[[object], T]) -> T:
        """Return what `read` makes of the reply."""
        [found] = self.ask_all([call], read)
        return found

    def ask_all(self, calls: Sequence[Call], read: Callable[[object], T]) -> list[T]:
        """Return what `read` makes of each reply; a ServiceError where there is none, or not of that form."""
        return [self._read(call, reply, read) for call, reply in zip(calls, self._replies(calls), strict=True)]

    def attempt(self, call: Call) -> object | Failure | ServiceError:
        """Return the reply to one call, or what came instead."""
        try:
            [reply] = self._replies([call])
        except ServiceError as exc:
            return exc
        return reply

    def refuse(self, reason: str) -> ServiceError:
        """Return the error that says why this server cannot be used."""
        return ServiceError(f"{self.url}: {reason}")

    def _replies(self, calls: Sequence[Call]) -> list[object | Failure]:
        try:
            public = [replace(call, public=True) for call in calls]  # probes and info: texts of our own
            replies = list(self._service.replies(public, lambda value: value))
        except ServiceError as exc:
            if exc.status not in MISSING:
                raise
            raise ServiceError(
                f"{self.url}{calls[0].path}: HTTP {exc.status}: no such route. This is no server of that kind, or it "
                f"serves no reward head (a language model and an embedding have none). Wanted: {self._start}",
                exc.status,
            ) from exc
        return [reply if isinstance(reply, Failure) else reply.content for reply in replies]

    def _read(self, call: Call, reply: object | Failure, read: Callable[[object], T]) -> T:
        if isinstance(reply, Failure):
            hint = f" Is it up? Start: {self._start}" if reply.kind == "transport" else ""
            raise OutageError(f"{self.url}: {call.path or 'it'} gave no answer ({reply.detail}).{hint}")
        try:
            return read(reply)
        except UnsoundError as exc:
            raise self.refuse(f"{call.path or 'it'} answers in another form: {exc}. Wanted: {self._start}") from exc

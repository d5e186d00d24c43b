"""The connections of a server: one that is slow with the head of its request is closed, one too many is refused.

For rewards and for annotators. uvicorn limits neither: whoever sends half a head would keep a connection for ever, and
enough of them the server.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_LAST_WORD = 1.0
"""Seconds for which a client may still send after it was refused: closed at once, it might never read why."""


def _typed(kind: str, words: str) -> object:
    """Return an error as the routes of a reward server give it."""
    return {"error": {"type": kind, "message": words, "retry": True}}


@dataclass
class Doors:
    """What a server takes of connections, and what became of those that it did not take."""

    most: int = 800
    seconds: float = 10.0
    """In which a connection has to send the whole head of a request, once it is open or has begun with one."""
    whole: bool = False
    """Whether that holds for the body too; else the app has to see to it."""
    body: Callable[[str, str], object] = _typed
    """The JSON of an error, from its kind and its words."""
    slow: int = 0
    refused: int = 0
    leaving: int = 0
    """That were refused, and are open for their last word."""


class Guarded(H11Protocol):
    """HTTP as uvicorn speaks it, with limits on those who do not."""

    doors: Doors
    _due: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for a head, for so long; or refuse, where too many are open."""
        super().connection_made(transport)
        if len(self.connections) - self.doors.leaving > self.doors.most:
            self.doors.refused += 1
            self._refuse(503, "connections", f"{self.doors.most:,} connections are open; close some, or come back")
        else:
            self._expect()

    def data_received(self, data: bytes) -> None:
        """Take what came, and go on waiting where it is less than was owed."""
        if self._refused:
            return
        super().data_received(data)
        if self._owes():
            self._expect()
        else:
            self._relax()

    def on_response_complete(self) -> None:
        """Wait for the rest of a body that was answered before it came, for so long."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # 408, 413
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._relax()
        self.doors.leaving -= self._refused

    def _owes(self) -> bool:
        """Return whether the client has to send more of a head, or of a body that was answered already."""
        if self.conn.their_state is h11.SEND_BODY:
            return self.doors.whole or self.cycle.response_complete
        return self.conn.their_state is h11.IDLE

    def _expect(self) -> None:
        if self._due is None:  # else a byte now and then would put it off for ever
            self._due = self.loop.call_later(self.doors.seconds, self._late)

    def _relax(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _late(self) -> None:
        self.doors.slow += 1
        if self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE:
            self._refuse(408, "slow", f"the head of the request did not arrive within {self.doors.seconds:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, kind: str, words: str) -> None:
        self._refused = True
        self.doors.leaving += 1
        self.transport.write(_answer(status, self.doors.body(kind, words)))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._due = self.loop.call_later(_LAST_WORD, self.transport.abort)
        else:  # TLS
            self.transport.close()


def guarded(given: Doors) -> type[H11Protocol]:
    """Return how a server with these doors speaks HTTP, for `uvicorn.Config(http=...)`."""

    class Ours(Guarded):
        doors = given

    return Ours


def _answer(status: int, told: object) -> bytes:
    """Return an error that is sent before there is a request that a route could answer."""
    body = json.dumps(told).encode()
    head = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "retry-after: 1",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body

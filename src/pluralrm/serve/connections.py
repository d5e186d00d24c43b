"""The connections of a server: one that is slow with the head of its request is closed, one too many is refused.

For rewards and for annotators. uvicorn limits neither: a client that sends half a head would keep a connection for
ever, and enough of them the server. Where all connections are taken, a newcomer gets the place of the one that has owed
the rest of a request for longest, of the address with most such; or of one that rests, of an address with more of them.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
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


class GuardedConnection(H11Protocol):
    """HTTP as uvicorn speaks it, with limits on those who do not."""

    doors: Doors
    due: asyncio.TimerHandle | None = None
    refused = False
    rests_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for a head, for so long; or refuse, where too many are open and none can be closed instead."""
        super().connection_made(transport)
        full = len(self.connections) - self.doors.leaving > self.doors.most
        if full and not self._made_room():
            self.doors.refused += 1
            self._refuse(503, "connections", f"{self.doors.most:,} connections are open; close some, or come back")
        else:
            self._expect()

    def data_received(self, data: bytes) -> None:
        """Take what came, and go on waiting where it is less than was owed."""
        if self.refused:
            return
        super().data_received(data)
        if self._owes():
            self._expect()
        else:
            self._relax()

    def on_response_complete(self) -> None:
        """Wait for the rest of a body that was answered before it came, for so long."""
        super().on_response_complete()
        self.rests_since = self.loop.time()
        if self.conn.their_state is h11.SEND_BODY:  # 408, 413
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._relax()
        self.doors.leaving -= self.refused

    def _made_room(self) -> bool:
        """Close a connection that keeps others out without a request of its own; return False where there is none."""
        others = [
            connection
            for connection in self.connections
            if isinstance(connection, GuardedConnection) and connection is not self and not connection.refused
        ]
        owing = [other for other in others if other.due is not None]
        if owing:
            min(_of_the_busiest(owing), key=lambda other: other.due.when() if other.due else 0.0).late()
            return True
        resting = [other for other in others if other.cycle is None or other.cycle.response_complete]
        if not resting:
            return False
        crowd = _of_the_busiest(resting)
        mine = sum(other.address == self.address for other in others)
        if len(crowd) <= mine + 1 or crowd[0].address == self.address:
            return False
        min(crowd, key=lambda other: other.rests_since).transport.close()
        return True

    @property
    def address(self) -> str:
        """Who is on the other side."""
        return self.client[0] if self.client else ""

    def _owes(self) -> bool:
        """Return whether the client has to send more of a head, or of a body that was answered already."""
        if self.conn.their_state is h11.SEND_BODY:
            return self.doors.whole or self.cycle.response_complete
        return self.conn.their_state is h11.IDLE

    def _expect(self) -> None:
        if self.due is None:  # else a byte now and then would put it off for ever
            self.due = self.loop.call_later(self.doors.seconds, self.late)

    def _relax(self) -> None:
        if self.due is not None:
            self.due.cancel()
            self.due = None

    def late(self) -> None:
        """Close a connection that owes the rest of a request, and say why where that can be read."""
        self.doors.slow += 1
        if self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE:
            self._refuse(408, "slow", f"the head of the request did not arrive within {self.doors.seconds:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, kind: str, words: str) -> None:
        self.refused = True
        self.doors.leaving += 1
        self.transport.write(_answer(status, self.doors.body(kind, words)))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.due = self.loop.call_later(_LAST_WORD, self.transport.abort)
        else:  # TLS
            self.transport.close()


def _of_the_busiest(connections: Sequence[GuardedConnection]) -> list[GuardedConnection]:
    """Return the connections of the address that has most of them."""
    [(address, _)] = Counter(connection.address for connection in connections).most_common(1)
    return [connection for connection in connections if connection.address == address]


def guarded(config: Doors) -> type[H11Protocol]:
    """Return how a server with these doors speaks HTTP, for `uvicorn.Config(http=...)`."""

    class Ours(GuardedConnection):
        doors = config

    return Ours


def _answer(status: int, content: object) -> bytes:
    """Return an error that is sent before there is a request that a route could answer."""
    body = json.dumps(content).encode()
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

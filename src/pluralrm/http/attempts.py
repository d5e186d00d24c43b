"""One call on its way: a connection, attempts, the waits between them, deadlines, the account.

The only file that knows the HTTP library.
"""

import asyncio
import json
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from pydantic_core import PydanticSerializationError, to_json

from pluralrm._version import __version__
from pluralrm.core import Failure
from pluralrm.errors import MissingExtraError, ServiceError
from pluralrm.http.addresses import Address, Secret
from pluralrm.http.calls import (
    AgainError,
    Call,
    Ledger,
    Reply,
    Response,
    Settings,
    UnsoundError,
    content,
    read_content,
    read_response,
    usage_of,
)
from pluralrm.text import counted

if TYPE_CHECKING:
    import ssl

    import httpx2


_CONNECT = 15.0
"""Seconds to open a connection."""
_KEPT_OPEN = 2.0
"""Seconds an idle connection is used again: less than servers keep theirs (5 s is common), or both end at once."""


class HttpConnection:
    """One connection to the server, opened when it is first used and again when it was lost.

    With `direct` it is used without the client, which looks for redirects, cookies and proxies: what is on this machine
    needs none of them, and a sixth of all the work is saved.
    """

    def __init__(
        self,
        client: "httpx2.AsyncClient",
        address: Address,
        hide: Callable[[str], str],
        direct: "httpx2.AsyncHTTPTransport | None" = None,
    ) -> None:
        self._client = client
        self._direct = direct
        self._address = address
        self._hide = hide
        self._posting = {**client.headers, "content-type": "application/json"}
        self._urls: dict[str, httpx2.URL] = {}

    async def send(self, call: Call, seconds: float) -> Response:
        """Return the server's answer without the key; AgainError where none arrives complete in so many seconds."""
        request = self._request(call)
        try:
            async with asyncio.timeout(seconds):
                response = await (self._client.send(request) if self._direct is None else _sent(self._direct, request))
        except TimeoutError:
            raise AgainError(f"no complete reply within {seconds:g} s") from None
        except _library().HTTPError as exc:
            raise AgainError(self._hide(f"{type(exc).__name__}: {exc}".removesuffix(": "))) from None
        return read_response(
            response.status_code,
            response.headers.get("content-type", ""),
            _text(response.content, sound=response.status_code == 200),
            retry_after=response.headers.get("retry-after", ""),
            location=response.headers.get("location", ""),
            hide=self._hide,
        )

    async def close(self) -> None:
        """Close it."""
        await self._client.aclose()

    def _request(self, call: Call) -> "httpx2.Request":
        """Return the request; a client that builds it itself reads the URL anew for each, a tenth of all its work."""
        httpx = _library()
        if call.path not in self._urls:
            self._urls[call.path] = httpx.URL(self._address.url + call.path)
        posted = call.body is not None
        request: httpx2.Request = httpx.Request(
            "POST" if posted else "GET",
            self._urls[call.path],
            headers=self._posting if posted else self._client.headers,
            content=_json(call.body) if posted else None,
            extensions={"timeout": self._client.timeout.as_dict()},
        )
        return request


class Wire:
    """As many connections as calls may be in flight, each with a client of its own.

    One client with a pool of 64 connections looks through all of them for every request, and takes 0.80 ms of CPU per
    call; 64 clients with one connection each take 0.63 ms.
    """

    def __init__(self, address: Address, secret: Secret | None, connections: int) -> None:
        self._address = address
        self._secret = secret
        self._opened: list[HttpConnection] = []
        self._idle: list[HttpConnection] = []
        self._slots = asyncio.Semaphore(connections)
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[HttpConnection]:
        """Wait for one of the connections and hold it; the most recently used one first, which is still open."""
        async with self._slots:
            connection = self._idle.pop() if self._idle else self._open()
            try:
                yield connection
            finally:
                self._idle.append(connection)

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._opened:
            await connection.close()

    def _open(self) -> HttpConnection:
        httpx = _library()
        logging.getLogger("httpcore2").setLevel(logging.INFO)  # its debug lines hold headers, in which a key may stand
        headers = {"User-Agent": f"pluralrm/{__version__}", "Accept": "application/json"}
        if self._secret:
            headers["Authorization"] = self._secret.header()
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEPT_OPEN)
        # What is for this machine must not go through a proxy, which the environment may name.
        near = self._address.loopback
        plain = near and self._address.url.startswith("http:")  # reading certificates takes longer than a call
        self._tls = self._tls or (None if plain else httpx.create_ssl_context())
        direct = httpx.AsyncHTTPTransport(verify=self._tls or False, trust_env=False, limits=limits) if near else None
        client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=_CONNECT),  # a whole attempt has its own limit, see `send`
            limits=limits,
            follow_redirects=False,
            verify=self._tls or False,
            trust_env=not near,
            transport=direct,
        )
        connection = HttpConnection(client, self._address, self._secret.hide if self._secret else str, direct)
        self._opened.append(connection)
        return connection


async def _sent(direct: "httpx2.AsyncHTTPTransport", request: "httpx2.Request") -> "httpx2.Response":
    """Return the whole response; reading it closes it, also where the call is given up."""
    response = await direct.handle_async_request(request)
    await response.aread()
    return response


def _json(body: Mapping[str, object] | None) -> bytes:
    """Return a body as it is sent; a prompt is long, and pydantic spells it five times as fast as the library."""
    try:
        return to_json(body)
    except PydanticSerializationError:  # a lone surrogate
        return json.dumps(body).encode()


def _text(body: bytes, *, sound: bool) -> str:
    """Return a body as text; one that should be a sound reply is never mended into something that was not said."""
    try:
        return body.decode("utf-8", "strict" if sound else "replace")
    except UnicodeDecodeError:
        raise AgainError("the reply is not UTF-8") from None


def require_library() -> None:
    """Raise MissingExtraError where the HTTP library is not installed."""
    _library()


def _library() -> ModuleType:
    try:
        import httpx2
    except ImportError as exc:
        raise MissingExtraError("a model behind a URL", "chat") from exc
    return httpx2


T = TypeVar("T")

_FIRST, _LONGEST = 0.5, 30.0
"""Seconds before the second attempt, doubled for each further one up to the longest."""
_SPREAD = 0.1
"""Part of an asked wait over which the waiting calls spread, so that they do not come back all at once."""
_SILENT = 10.0
"""Seconds of a first attempt after which it is said that another one follows."""
_spread = random.Random()  # of its own: callers of random.random() see no difference


class Clock:
    """The time, and waiting for it. Tests give one that only pretends to wait."""

    def now(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds are over."""
        await asyncio.sleep(seconds)


class TooLateError(Exception):
    """A wait that the server asks for and that the call's deadline leaves no time for."""


class Cooldown:
    """When the server may be asked again: one server's Retry-After holds for every call to it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quiet_until = -math.inf

    def hold(self, seconds: float) -> None:
        """Send nothing for so many seconds; a shorter wait does not end a longer one."""
        self._quiet_until = max(self._quiet_until, self._clock.now() + seconds)

    async def turn(self, deadline: float) -> None:
        """Return when the server may be asked, or raise TooLateError where that is past the deadline."""
        while (wait := self._quiet_until - self._clock.now()) > 0:
            if self._quiet_until > deadline:
                raise TooLateError(f"the server asks to wait {wait:.0f} s, longer than the call may take")
            await self._clock.sleep(wait * (1 + _SPREAD * jitter()))


def backoff(attempt: int, draw: float) -> float:
    """Return the seconds to wait after the attempt of that number (from 1); `draw` in [0, 1) spreads the callers."""
    longest = min(_LONGEST, _FIRST * 2.0 ** (attempt - 1))
    return longest * (1 + draw) / 2


def jitter() -> float:
    """Return a draw for `backoff`; it shapes only waiting, so it needs no seed."""
    return _spread.random()


def patience(settings: Settings) -> int:
    """Return how many calls in a row may stay without an answer before no other is sent."""
    return max(settings.concurrency, 8)


class Stream:
    """What the calls of one stream know of each other: an error that ends them all, an outage that lasts."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._lost = 0
        self._reason = ""
        self._error: ServiceError | None = None

    def stop(self, error: ServiceError) -> None:
        """End the stream with an error."""
        self._error = self._error or error

    def note(self, outcome: object) -> None:
        """Count the calls in a row that the server has left without an answer."""
        if not isinstance(outcome, Failure) or outcome.kind == "too_long":
            self._lost = 0
        elif outcome.kind != "budget":
            self._lost += 1
            self._reason = outcome.detail

    def refusal(self) -> Failure | None:
        """Return why a call is not even sent, or None; raise the error that has ended the stream."""
        if self._error is not None:
            raise self._error
        if self._lost < self._patience:
            return None
        return Failure("transport", f"not sent: {self._lost} calls in a row got no answer; the last: {self._reason}")


class RawReply(NamedTuple, Generic[T]):
    """A reply as it came, to be kept, and as it was read."""

    content: object
    reply: Reply[T]


class Caller:
    """The way to a server for every call."""

    def __init__(
        self, address: Address, secret: Secret | None, settings: Settings, *, ledger: Ledger, clock: Clock
    ) -> None:
        self._address = address
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._pace = Cooldown(clock)
        self._wire = Wire(address, secret, settings.concurrency)
        self._run_ends: float | None = None
        self._reported = settings.on_wait is None
        reason = f"The server refuses the key in {secret.name!r}" if secret else "No key was sent"
        self._hint = f"{reason}: name the environment variable that holds the key with key=NAME"

    async def ask(self, call: Call, read: Callable[[object], T], stream: Stream) -> RawReply[T] | Failure:
        """Return the server's reply, or the failure that no further attempt could mend in time."""
        over = Failure("deadline", f"the run's {self._settings.run_seconds} s are over")
        if self._is_over():
            return over
        try:
            async with asyncio.timeout_at(self._run_ends), self._wire.slot() as connection:
                if (refusal := stream.refusal()) is not None:
                    return refusal
                outcome = await self._in_time(connection, call, read)
        except TimeoutError:
            return over
        stream.note(outcome)
        return outcome

    async def close(self) -> None:
        """Close every connection."""
        await self._wire.close()

    def _is_over(self) -> bool:
        """Return whether the run's time is over by the loop's clock; it begins with the first call."""
        now, seconds = asyncio.get_running_loop().time(), self._settings.run_seconds
        if self._run_ends is None and seconds is not None:
            self._run_ends = now + seconds
        return self._run_ends is not None and now >= self._run_ends

    async def _in_time(
        self, connection: HttpConnection, call: Call, read: Callable[[object], T]
    ) -> RawReply[T] | Failure:
        seconds = self._settings.call_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._attempts(connection, call, read)
        except TooLateError as exc:
            return Failure("deadline", str(exc))
        except TimeoutError:
            return Failure("deadline", f"no reply in the {seconds:g} s that a call may take")

    async def _attempts(
        self, connection: HttpConnection, call: Call, read: Callable[[object], T]
    ) -> RawReply[T] | Failure:
        begun = self._clock.now()
        deadline = begun + self._settings.call_seconds
        reason = ""
        for attempt in range(1, self._settings.attempts + 1):
            await self._pace.turn(deadline)
            if (refusal := self._ledger.refusal()) is not None:
                return refusal
            try:
                return await self._attempt(connection, call, read)
            except AgainError as again:
                reason = str(again)
                self._pace.hold(again.wait)
                if attempt > 1 or self._clock.now() - begun > _SILENT:
                    self._report(attempt, reason)
            if attempt < self._settings.attempts:
                await self._clock.sleep(backoff(attempt, jitter()))
        return Failure("transport", f"{self._settings.attempts} attempts, the last: {reason}")

    def _report(self, attempt: int, reason: str) -> None:
        """Say once that calls are sent again: a server that drops connections would be waited for in silence."""
        used = self._settings
        if used.on_wait is not None and not self._reported:
            self._reported = True
            used.on_wait(
                self._address.url,
                f"no answer in {counted(attempt, 'attempt')} (the last: {reason}). A call is tried {used.attempts} "
                f"times within {used.call_seconds:g} s; after {patience(used)} calls in a row without an answer no "
                "other is sent",
            )

    async def _attempt(
        self, connection: HttpConnection, call: Call, read: Callable[[object], T]
    ) -> RawReply[T] | Failure:
        self._ledger.attempt()
        answer = await connection.send(call, self._settings.attempt_seconds)
        body = content(answer, self._address.url + call.path, self._hint)
        if isinstance(body, Failure):
            return body
        usage = usage_of(body)
        self._ledger.charge(usage)
        try:
            reply = Reply(read_content(read, body), usage, cached=False)
        except UnsoundError as exc:
            raise AgainError(str(exc)) from None
        self._ledger.answer(cached=False, metered=usage is not None)
        return RawReply(body, reply)

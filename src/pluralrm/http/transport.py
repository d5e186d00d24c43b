"""Connections to one server, one request at a time on each; the only file that knows the HTTP library."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from pydantic_core import PydanticSerializationError, to_json

from pluralrm._version import __version__
from pluralrm.errors import MissingExtraError
from pluralrm.http.addresses import Address, Secret
from pluralrm.http.calls import Call
from pluralrm.http.responses import AgainError, Response, read_response

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
            raise AgainError(self._hide(f"{type(exc).__name__}: {exc}")) from None
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
        self._tls = self._tls or httpx.create_ssl_context()
        headers = {"User-Agent": f"pluralrm/{__version__}", "Accept": "application/json"}
        if self._secret:
            headers["Authorization"] = self._secret.header()
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEPT_OPEN)
        # What is for this machine must not go through a proxy, which the environment may name.
        near = self._address.loopback
        direct = httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False, limits=limits) if near else None
        client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=_CONNECT),  # a whole attempt has its own limit, see `send`
            limits=limits,
            follow_redirects=False,
            verify=self._tls,
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

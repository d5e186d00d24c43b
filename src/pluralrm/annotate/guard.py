"""What every request passes: no body larger than a judgment can be, and headers that leave a browser little to do."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """A server with limits on what comes in, and headers on all that goes out; those that it sets itself stay."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self._too_long(scope):
            await JSONResponse({"error": self._words}, 413)(scope, receive, send_on)
        else:
            await self._app(scope, self._counted(receive), send_on)

    @property
    def _words(self) -> str:
        return f"the body is too long: at most {self._most:,} bytes are taken"

    def _too_long(self, scope: Scope) -> bool:
        said = Headers(scope=scope).get("content-length", "0")
        return not said.isdecimal() or int(said) > self._most

    def _counted(self, receive: Receive) -> Receive:
        """Return a receiver that stops a body which is longer than it said, or said nothing of its length."""
        came = 0

        async def receive_on() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._most:
                raise HTTPException(413, self._words)
            return message

        return receive_on

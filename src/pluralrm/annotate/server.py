"""The server of an annotation plan: one page for annotators, one for the admin, and the few requests that they make.

A token in a header says who asks: no cookie, so no other site can act in somebody's name. A reply says nothing of
an item but what `screen_shown` shows, and nothing of what others said. Every request passes `Guard`: no body larger
than a judgment can be, and headers that leave a browser little to do.
"""

import json
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, NoReturn

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pluralrm.annotate.service import AdminOverview, AnnotationDesk, ServerAddress, admin_page, annotator_page
from pluralrm.annotate.store import ADMIN, Submission, annotator_of, owner
from pluralrm.pages import Page
from pluralrm.serve.connections import Doors, guarded

# ---------------------------------------------------------------- what every request passes

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
        length = Headers(scope=scope).get("content-length", "0")
        return not length.isdecimal() or int(length) > self._most

    def _counted(self, receive: Receive) -> Receive:
        """Return a receiver that stops a body which is longer than it said, or said nothing of its length."""
        came = 0

        async def receive_on() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._most:
                raise AnyHTTPException(413, self._words)
            return message

        return receive_on


_KEPT = 10_000
"""Names remembered at most: who makes up addresses fills no memory. The one used longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class AnnotationLimits:
    """What a server takes: requests of one annotator and refused tokens of one address per minute, bytes of a body.

    A connection has so many `seconds` for the whole of a request, and so many `connections` may be open.
    """

    requests: int = 240
    refused: int = 30
    body: int = 65_536
    connections: int = 800
    seconds: float = 30.0


class Bucket:
    """A number of tries per minute for each name; who has used them up waits for the next."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock, self._lock = float(per_minute), clock, Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Use up one try and return 0, or return the seconds until there is one."""
        with self._lock:
            left = self._now(name)
            if left < 1.0:
                return (1.0 - left) * 60.0 / self._most
            self._left[name] = (left - 1.0, self._clock())
            self._left.move_to_end(name)
            if len(self._left) > _KEPT:
                self._left.popitem(last=False)
            return 0.0

    def _now(self, name: str) -> float:
        left, since = self._left.get(name, (self._most, self._clock()))
        return min(self._most, left + (self._clock() - since) * self._most / 60.0)


# ---------------------------------------------------------------- requests

_LONGEST_TIME = 7 * 86_400.0


class JudgmentRequest(BaseModel):
    """What the page sends of one judgment; answers that are null take the last ones back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    item: Annotated[str, Field(min_length=1, max_length=200)]
    revision: Annotated[int, Field(ge=1, le=100_000)]
    seconds: Annotated[float, Field(ge=0, le=_LONGEST_TIME, allow_inf_nan=False, strict=False)]
    answers: JsonValue


class Door:
    """Lets in who holds a token, as often as the limits say."""

    def __init__(self, desk: AnnotationDesk, limits: AnnotationLimits) -> None:
        self._hashes = desk.store.keys()
        self._requests, self._refused = Bucket(limits.requests), Bucket(limits.refused)

    def annotator(self, request: Request) -> str:
        """Return the annotator whose token came with a request."""
        name = annotator_of(self._holder(request))
        if name is None:
            self._refuse(request)
        return name

    def admin(self, request: Request) -> None:
        """Admit the admin only."""
        if self._holder(request) != ADMIN:
            self._refuse(request)

    def _holder(self, request: Request) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        holder = owner(self._hashes, token) if scheme == "Bearer" else None
        if holder is None:
            self._refuse(request)
        if wait := self._requests.take(holder):
            raise _too_many(wait)
        return holder

    def _refuse(self, request: Request) -> NoReturn:
        """Raise; the same words for a token that is missing, forged, replaced or meant for the other page."""
        if wait := self._refused.take(request.client.host if request.client else ""):
            raise _too_many(wait)
        raise HTTPException(401, "no valid token. Open the link that was sent to you", {"WWW-Authenticate": "Bearer"})


def _too_many(wait: float) -> HTTPException:
    return HTTPException(429, "too many requests; wait", {"Retry-After": str(int(wait) + 1)})


def create_app(desk: AnnotationDesk, *, limits: AnnotationLimits | None = None) -> FastAPI:
    """Return the server of a plan."""
    limits = limits or AnnotationLimits()
    door = Door(desk, limits)
    # No pages of FastAPI's own: they would load scripts from elsewhere.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, most=limits.body)
    app.exception_handler(AnyHTTPException)(_told)
    app.exception_handler(RequestValidationError)(_invalid)
    _add_pages(app, annotator_page(desk.plan.declared), admin_page())
    _add_annotators(app, desk, door)
    _add_admin(app, AdminOverview(desk), door)
    return app


def run(desk: AnnotationDesk, listening: socket.socket, *, address: ServerAddress) -> None:
    """Serve until a signal says to stop; requests that have begun are answered first."""
    uvicorn.Server(configured(desk, address)).run([listening])


def configured(
    desk: AnnotationDesk, address: ServerAddress, *, limits: AnnotationLimits | None = None
) -> uvicorn.Config:
    """Return how the server of a plan speaks HTTP."""
    limits = limits or AnnotationLimits()
    doors = Doors(limits.connections, limits.seconds, whole=True, body=lambda _kind, words: {"error": words})
    return uvicorn.Config(
        create_app(desk, limits=limits),
        http=guarded(doors),
        ws="none",
        access_log=False,  # who asked for what when: nobody needs that in a log
        log_level="warning",
        server_header=False,
        proxy_headers=bool(address.proxy),
        forwarded_allow_ips=address.proxy or "",
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        lifespan="off",
        timeout_graceful_shutdown=5,
    )


def _add_pages(app: FastAPI, annotators: Page, admins: Page) -> None:
    @app.get("/")
    def _() -> HTMLResponse:
        return _html(annotators)

    @app.get("/admin")
    def _() -> HTMLResponse:
        return _html(admins)


def _add_annotators(app: FastAPI, desk: AnnotationDesk, door: Door) -> None:
    @app.get("/api/state")
    def _(annotator: Annotated[str, Depends(door.annotator)]) -> JSONResponse:
        return JSONResponse(desk.state(annotator))

    @app.get("/api/items/{handle}")
    def _(handle: str, annotator: Annotated[str, Depends(door.annotator)]) -> JSONResponse:
        if (screen := desk.screen(annotator, handle)) is None:
            raise _no_such_item()
        return JSONResponse(screen)

    @app.post("/api/judgments")
    def _(sent: JudgmentRequest, annotator: Annotated[str, Depends(door.annotator)]) -> JSONResponse:
        submission = Submission(annotator, sent.id, sent.item, sent.revision, json.dumps(sent.answers), sent.seconds)
        try:
            taken = desk.take(submission)
        except ValueError as exc:
            raise HTTPException(422, str(exc)) from exc
        if taken is None:
            raise _no_such_item()
        if taken["outcome"] in {"kept", "again"}:
            return JSONResponse(taken)
        return JSONResponse({"error": "judged before, from another page or tab", "outcome": taken["outcome"]}, 409)


def _add_admin(app: FastAPI, overview: AdminOverview, door: Door) -> None:
    @app.get("/api/admin/progress", dependencies=[Depends(door.admin)])
    def _() -> JSONResponse:
        return JSONResponse(overview.progress())

    @app.get("/api/admin/judgments", dependencies=[Depends(door.admin)])
    def _() -> PlainTextResponse:
        return PlainTextResponse(overview.judgments(), media_type="application/jsonl")

    @app.get("/api/admin/labels", dependencies=[Depends(door.admin)])
    def _() -> PlainTextResponse:
        return PlainTextResponse(overview.labels(), media_type="text/csv")


def _no_such_item() -> HTTPException:
    return HTTPException(404, "no such item of yours")


def _html(document: Page) -> HTMLResponse:
    allowed = f"{document.policy}; frame-ancestors 'none'"
    return HTMLResponse(document.html, headers={"Content-Security-Policy": allowed})


async def _told(_: Request, error: AnyHTTPException) -> JSONResponse:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
    """Return which field does not fit, without what was sent."""
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}"}, 422)

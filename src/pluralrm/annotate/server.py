"""The server of an annotation plan: one page for annotators, one for the admin, and the few requests that they make.

Who asks is told by a token in a header: no cookie, so no other site can act in somebody's name. A reply says nothing of
an item but what `screen_shown` shows, and nothing of what others said.
"""

import json
import socket
from typing import Annotated, NoReturn

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.exceptions import HTTPException as AnyHTTPException

from pluralrm.annotate.address import Address
from pluralrm.annotate.admin import Overview
from pluralrm.annotate.desk import Desk
from pluralrm.annotate.guard import Guard
from pluralrm.annotate.limits import Bucket, Limits
from pluralrm.annotate.pages import Document, admin_page, annotator_page
from pluralrm.annotate.store import Submission
from pluralrm.annotate.tokens import ADMIN, annotator_of, owner
from pluralrm.serve.connections import Doors, guarded

_LONGEST_TIME = 7 * 86_400.0


class Sent(BaseModel):
    """What the page sends of one judgment; answers that are null take the last ones back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    item: Annotated[str, Field(min_length=1, max_length=200)]
    revision: Annotated[int, Field(ge=1, le=100_000)]
    seconds: Annotated[float, Field(ge=0, le=_LONGEST_TIME, allow_inf_nan=False, strict=False)]
    answers: JsonValue


class Door:
    """Lets in who holds a token, as often as the limits say."""

    def __init__(self, desk: Desk, limits: Limits) -> None:
        self._hashes = desk.store.keys()
        self._requests, self._refused = Bucket(limits.requests), Bucket(limits.refused)

    def annotator(self, request: Request) -> str:
        """Return the annotator whose token came with a request."""
        name = annotator_of(self._holder(request))
        if name is None:
            self._refuse(request)
        return name

    def admin(self, request: Request) -> None:
        """Let nobody through but the admin."""
        if self._holder(request) != ADMIN:
            self._refuse(request)

    def _holder(self, request: Request) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        found = owner(self._hashes, token) if scheme == "Bearer" else None
        if found is None:
            self._refuse(request)
        if wait := self._requests.take(found):
            raise _too_many(wait)
        return found

    def _refuse(self, request: Request) -> NoReturn:
        """Raise; the same words for a token that is missing, forged, replaced or meant for the other page."""
        if wait := self._refused.take(request.client.host if request.client else ""):
            raise _too_many(wait)
        raise HTTPException(401, "no valid token. Open the link that was sent to you", {"WWW-Authenticate": "Bearer"})


def _too_many(wait: float) -> HTTPException:
    return HTTPException(429, "too many requests; wait", {"Retry-After": str(int(wait) + 1)})


def create_app(desk: Desk, *, limits: Limits | None = None) -> FastAPI:
    """Return the server of a plan."""
    limits = limits or Limits()
    door = Door(desk, limits)
    # No pages of FastAPI's own: they would load scripts from elsewhere.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, most=limits.body)
    app.exception_handler(AnyHTTPException)(_told)
    app.exception_handler(RequestValidationError)(_invalid)
    _add_pages(app, annotator_page(desk.plan.declared), admin_page())
    _add_annotators(app, desk, door)
    _add_admin(app, Overview(desk), door)
    return app


def run(desk: Desk, listening: socket.socket, *, address: Address) -> None:
    """Serve until a signal says to stop; requests that have begun are answered first."""
    uvicorn.Server(configured(desk, address)).run([listening])


def configured(desk: Desk, address: Address, *, limits: Limits | None = None) -> uvicorn.Config:
    """Return how the server of a plan speaks HTTP."""
    limits = limits or Limits()
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


def _add_pages(app: FastAPI, annotators: Document, admins: Document) -> None:
    @app.get("/")
    def _() -> HTMLResponse:
        return _html(annotators)

    @app.get("/admin")
    def _() -> HTMLResponse:
        return _html(admins)


def _add_annotators(app: FastAPI, desk: Desk, door: Door) -> None:
    @app.get("/api/state")
    def _(annotator: Annotated[str, Depends(door.annotator)]) -> JSONResponse:
        return JSONResponse(desk.state(annotator))

    @app.get("/api/items/{handle}")
    def _(handle: str, annotator: Annotated[str, Depends(door.annotator)]) -> JSONResponse:
        if (shown := desk.screen(annotator, handle)) is None:
            raise _no_such_item()
        return JSONResponse(shown)

    @app.post("/api/judgments")
    def _(sent: Sent, annotator: Annotated[str, Depends(door.annotator)]) -> JSONResponse:
        said = Submission(annotator, sent.id, sent.item, sent.revision, json.dumps(sent.answers), sent.seconds)
        try:
            taken = desk.take(said)
        except ValueError as exc:
            raise HTTPException(422, str(exc)) from exc
        if taken is None:
            raise _no_such_item()
        if taken["outcome"] in {"kept", "again"}:
            return JSONResponse(taken)
        return JSONResponse({"error": "judged before, from another page or tab", "outcome": taken["outcome"]}, 409)


def _add_admin(app: FastAPI, overview: Overview, door: Door) -> None:
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


def _html(document: Document) -> HTMLResponse:
    allowed = f"{document.policy}; frame-ancestors 'none'"
    return HTMLResponse(document.text, headers={"Content-Security-Policy": allowed})


async def _told(_: Request, error: AnyHTTPException) -> JSONResponse:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
    """Return which field does not fit, without what was sent."""
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}"}, 422)

"""A reward model as an HTTP service: errors are errors with a type, never a number.

GET  /health      who answers: Identity, whether it takes requests, and whether those of who asks (the token)
GET  /metrics     counters, as Prometheus reads them
GET  /watch       what a second reward says of a sample of the answers: {"status": "no alarm", "verdict": ...}
POST /score       our own dialect: {"rollouts": [...]} -> {"scores": [[1.5, {"failure": "too_long", ...}]]}
POST /get_reward  OpenRLHF's: {"query": [...], "prompts": [...], "labels": [...]} -> {"rewards": [...], "scores": [...]}
POST /classify    as vLLM answers for a reward head: {"messages": [user, assistant]} -> {"data": [{"probs": [1.5]}]}
"""

import asyncio
import hmac
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pluralrm.core import OPEN_KINDS, Benchmark, Condition, Failure, Identified, Query, RewardModel, Score
from pluralrm.errors import OutageError, PluralrmError, ServiceError
from pluralrm.models.declarations import reveals_of
from pluralrm.serve import dialects
from pluralrm.serve.batching import Batcher, ClosedError, Counters, FullError, RequestLateError, TooManyError
from pluralrm.serve.client import IDENTITY_HEADER, RUN_HEADER, Identity, sendable
from pluralrm.serve.connections import Doors, guarded
from pluralrm.serve.dialects import ProblemError, QueryBuilder, Rollout, Shown, UnknownItemError
from pluralrm.serve.watch import RewardWatch

_EDGES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Latencies:
    """How long requests took, counted by how long: Prometheus reckons with counts that only grow."""

    def __init__(self) -> None:
        self.within = dict.fromkeys(_EDGES, 0)
        self.count, self.sum = 0, 0.0

    def add(self, seconds: float) -> None:
        """Count one request."""
        self.count += 1
        self.sum += seconds
        for edge in self.within:
            self.within[edge] += seconds <= edge


def exposition(
    counters: Counters, answered: Mapping[tuple[str, int], int], *, latencies: Latencies, queued: int, doors: Doors
) -> str:
    """Return everything that was counted."""
    return "\n".join([*_lines(counters, answered, queued, doors), *_histogram(latencies), ""])


def _lines(counters: Counters, answered: Mapping[tuple[str, int], int], queued: int, doors: Doors) -> Iterator[str]:
    yield "# TYPE pluralrm_requests_total counter"
    for (route, status), count in sorted(answered.items()):
        yield f'pluralrm_requests_total{{route="{_escaped(route)}",status="{status}"}} {count}'
    numbers = {
        "pluralrm_candidates_total": counters.candidates,
        "pluralrm_candidates_computed_total": counters.distinct,
        "pluralrm_batches_total": counters.batches,
        "pluralrm_queries_total": counters.queries,
        "pluralrm_broken_queries_total": counters.broken,
        "pluralrm_repeated_calls_total": counters.again,
        "pluralrm_refused_total": counters.refused,
        "pluralrm_late_total": counters.late,
        "pluralrm_connections_refused_total": doors.refused,
        "pluralrm_connections_slow_total": doors.slow,
    }
    for name, count in numbers.items():
        yield f"# TYPE {name} counter"
        yield f"{name} {count}"
    yield "# TYPE pluralrm_scoring_seconds_total counter"
    yield f"pluralrm_scoring_seconds_total {counters.seconds:.6f}"
    yield "# TYPE pluralrm_failures_total counter"
    for kind, count in sorted(counters.failures.items()):
        yield f'pluralrm_failures_total{{kind="{kind}"}} {count}'
    yield "# TYPE pluralrm_queued_candidates gauge"
    yield f"pluralrm_queued_candidates {queued}"


def _histogram(latencies: Latencies) -> Iterator[str]:
    yield "# TYPE pluralrm_request_seconds histogram"
    for edge, count in latencies.within.items():
        yield f'pluralrm_request_seconds_bucket{{le="{edge:g}"}} {count}'
    yield f'pluralrm_request_seconds_bucket{{le="+Inf"}} {latencies.count}'
    yield f"pluralrm_request_seconds_sum {latencies.sum:.6f}"
    yield f"pluralrm_request_seconds_count {latencies.count}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


_LAST_SECONDS = 10.0
"""For the batch that is still being computed when every request has its answer, or no client waits for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What one server takes. `seconds` is the longest that a request may wait and be worked on."""

    room: int = 4096
    batch: int = 1024
    seconds: float = 120.0
    body_bytes: int = 32 * 2**20
    connections: int = 800
    """Open at once; below the 1,024 files that many systems let a process have."""
    head_seconds: float = 10.0


class RewardServer:
    """One model under one condition; `app` is what an ASGI server runs."""

    def __init__(
        self,
        model: RewardModel,
        desk: QueryBuilder,
        identity: Identity,
        *,
        relative: bool,
        token: str = "",
        limits: ServerLimits | None = None,
    ) -> None:
        self.limits = limits or ServerLimits()
        self._watch: RewardWatch | None = None
        self.identity = identity
        self._desk, self._token, self._relative = desk, token, relative
        self._batcher = Batcher(model, relative=relative, room=self.limits.room, most=self.limits.batch)
        self._answered: dict[tuple[str, int], int] = {}
        self._latencies = Latencies()
        self.doors = Doors(self.limits.connections, self.limits.head_seconds)
        self._stop: Callable[[], None] = lambda: None
        self.finished = True
        """False while it serves, and for good where it had to end before its model came back."""
        routes = [
            Route("/health", self._health),
            Route("/metrics", self._metrics),
            Route("/watch", self._watched),
            Route("/score", self._post(dialects.read_ours, dialects.write_ours), methods=["POST"]),
            Route("/get_reward", self._post(dialects.read_openrlhf, dialects.write_openrlhf), methods=["POST"]),
            Route("/classify", self._post(dialects.read_classify, dialects.write_classify), methods=["POST"]),
        ]
        handlers = {HTTPException: _no_such_route, Exception: _a_bug}
        self.app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)
        self.app.router.redirect_slashes = False

    @property
    def bug(self) -> BaseException | None:
        """What ended the scoring, where that was not requested; the server gives no score any more."""
        return self._batcher.bug

    def when_broken(self, stop: Callable[[], None]) -> None:
        """Call `stop` when a bug ends the scoring: a server that cannot score ends, and does not linger."""
        self._stop = stop

    def watch_with(self, watch: RewardWatch) -> None:
        """Show every rewarded answer to a watch, whose turn comes when nothing waits for a score."""
        self._watch = watch
        watch.busy = lambda: self._batcher.busy

    def _broken(self) -> None:
        self._stop()

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self._batcher.start(broken=self._broken)
        self.finished = False
        yield
        self.finished = await self._batcher.drain(_LAST_SECONDS)
        if self._watch is not None:  # here, for after SIGTERM uvicorn ends the process by that signal
            await asyncio.get_running_loop().run_in_executor(None, self._watch.close)
        self._desk.close()

    async def _health(self, request: Request) -> Response:
        working = self._batcher.working
        status = {
            "status": "ready" if working else "broken" if self.bug else "closing",
            "identity": self.identity.to_json(),
            "identity_hash": self.identity.hash,
            "authorised": self._may_ask(request),
            "queued": self._batcher.queued,
        }
        return JSONResponse(status, 200 if working else 503)

    async def _metrics(self, request: Request) -> Response:
        try:
            self._authorised(request)
        except ProblemError as problem:
            return problem.response()
        counters, queued = self._batcher.counters, self._batcher.queued
        text = exposition(counters, self._answered, latencies=self._latencies, queued=queued, doors=self.doors)
        text += "\n".join([*self._watch.lines(), ""]) if self._watch is not None else ""
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _watched(self, request: Request) -> Response:
        try:
            self._authorised(request)
        except ProblemError as problem:
            return problem.response()
        if self._watch is None:
            return ProblemError(404, "no_watch", "this server was started without --watch MODEL").response()
        return JSONResponse(self._watch.to_json())

    def _post(
        self, read: Callable[[bytes], dialects.WireRequest], write: dialects.Write
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a route that reads a body, scores it and writes the answer, and makes a typed error of what fails."""

        async def answer(request: Request) -> Response:
            began = time.monotonic()
            try:
                self._authorised(request)
                self._same_run(request)
                wire = read(await self._body(request))
                self._same_model(wire.model)
                scores = await self._scores(wire.rollouts, began)
                response: Response = JSONResponse(write(wire, scores, self.identity))
                if self._watch is not None:
                    self._watch.offer(self._desk.watch_requests(wire.rollouts, scores))
            except ProblemError as problem:
                response = problem.response()
            except ClientDisconnect:
                response = Response(status_code=499)
            response.headers[IDENTITY_HEADER] = self.identity.hash
            response.headers[RUN_HEADER] = self.identity.run
            key = (request.url.path, response.status_code)
            self._answered[key] = self._answered.get(key, 0) + 1
            self._latencies.add(time.monotonic() - began)
            return response

        return answer

    def _may_ask(self, request: Request) -> bool:
        header = request.headers.get("authorization", "")
        return not self._token or hmac.compare_digest(header.encode(), f"Bearer {self._token}".encode())

    def _authorised(self, request: Request) -> None:
        if not self._may_ask(request):
            raise ProblemError(401, "unauthorised", "wanted the header 'Authorization: Bearer TOKEN' with the server's")

    def _same_run(self, request: Request) -> None:
        """Refuse a client of another run, or of none: what was left over from one must not reward the next."""
        run = request.headers.get(RUN_HEADER, request.query_params.get("run"))
        if run is None:
            raise ProblemError(400, "no_run", f"wanted the run that asks: the header {RUN_HEADER}, or ?run=NAME")
        if run != self.identity.run:
            raise ProblemError(409, "another_run", f"this server is of run {self.identity.run!r}, asked for {run!r}")

    def _same_model(self, model: str) -> None:
        if model not in {"", self.identity.model}:
            raise ProblemError(404, "unknown_model", f"this server has {self.identity.model!r}, not {model!r}")

    async def _body(self, request: Request) -> bytes:
        most = self.limits.body_bytes
        taken = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for chunk in request.stream():
                    taken += chunk
                    if len(taken) > most:
                        raise ProblemError(
                            413, "too_large", f"the body is larger than {most:,} bytes; send fewer rollouts"
                        )
        except TimeoutError:
            problem = f"the body did not arrive within {self.limits.seconds:g} s"
            raise ProblemError(408, "slow", problem, retry_after=1.0) from None
        return bytes(taken)

    async def _scores(self, rollouts: Sequence[Rollout], began: float) -> list[tuple[Score, ...]]:
        if self._relative and any(len(rollout.candidates) < 2 for rollout in rollouts):
            problem = f"{self.identity.model} compares answers: wanted at least two candidates in a rollout"
            raise ProblemError(422, "unsupported", problem)
        outcomes = await self._queries(rollouts, self._left(began))
        queries = [outcome for outcome in outcomes if isinstance(outcome, Query)]
        scores = iter(await self._score(queries, self._left(began)) if queries else ())
        rows = [
            (outcome,) * len(rollout.candidates) if isinstance(outcome, Failure) else next(scores)
            for outcome, rollout in zip(outcomes, rollouts, strict=True)
        ]
        for score in (score for row in rows for score in row):
            if isinstance(score, Failure) and score.kind in OPEN_KINDS:  # an outage behind the model: no verdict
                raise ProblemError(502, score.kind, score.detail, retry_after=5.0)
        return rows

    def _left(self, began: float) -> float:
        return max(0.001, self.limits.seconds - (time.monotonic() - began))

    async def _queries(self, rollouts: Sequence[Rollout], seconds: float) -> list[Shown]:
        """Return what the model sees of each rollout, through the condition."""
        try:
            async with asyncio.timeout(seconds):
                return await self._desk.shown(rollouts)
        except UnknownItemError as exc:
            raise ProblemError(404, "unknown_item", str(exc)) from exc
        except TimeoutError as exc:
            raise self._late() from exc
        except OutageError as exc:
            raise ProblemError(502, "transport", str(exc), retry_after=5.0) from exc
        except PluralrmError as exc:
            raise ProblemError(422, "unsupported", str(exc)) from exc

    async def _score(self, queries: Sequence[Query], seconds: float) -> list[tuple[Score, ...]]:
        """Return what the model gives."""
        try:
            return await self._batcher.scores(queries, seconds=seconds)
        except TooManyError as exc:
            raise ProblemError(413, "too_large", str(exc)) from exc
        except FullError as exc:
            raise ProblemError(429, "full", str(exc), retry_after=exc.seconds) from exc
        except RequestLateError as exc:
            raise self._late() from exc
        except ClosedError as exc:
            raise ProblemError(503, "closing", "the server is on its way out", retry_after=2.0) from exc
        except OutageError as exc:
            raise ProblemError(502, "transport", str(exc), retry_after=5.0) from exc
        except PluralrmError as exc:
            raise ProblemError(500, "model", str(exc)) from exc

    def _late(self) -> ProblemError:
        return ProblemError(504, "deadline", f"no score within {self.limits.seconds:g} s", retry_after=1.0)


def _no_such_route(_request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)  # noqa: S101 - Starlette hands over what it was registered for
    return ProblemError(problem.status_code, "no_such_route", problem.detail).response()


def _a_bug(_request: Request, bug: Exception) -> Response:
    """Name its class alone, for its words may be a user's; the server's own log has the traceback."""
    return ProblemError(500, "bug", f"the server failed with {type(bug).__name__}; its log says where").response()


_GRACE = 60
"""Seconds for which what is being worked on may still finish."""


_KEPT_OPEN = 120
"""Seconds for which a connection stays open between two steps of a training."""


class StuckError(Exception):
    """A model that did not come back; its thread would keep the process from ending."""


def identity_of(model: RewardModel, condition: Condition, benchmark: Benchmark | None, *, run: str) -> Identity:
    """Return what a server of these says of itself."""
    facts = dict(model.identity) if isinstance(model, Identified) else {}
    identity = dict(condition.identity) if isinstance(condition, Identified) else {}
    return Identity(
        run=run,
        model=model.spec,
        condition=condition.spec,
        benchmark="" if benchmark is None else benchmark.card.name,
        benchmark_hash="" if benchmark is None else benchmark.content_hash,
        facts={**facts, **{f"condition {name}": value for name, value in identity.items()}},
        reveals=tuple(sorted(condition.reveals | reveals_of(model))),
    )


def open_server(
    model: RewardModel,
    condition: Condition,
    benchmark: Benchmark | None,
    *,
    relative: bool,
    run: str,
    token: str = "",
    limits: ServerLimits | None = None,
) -> RewardServer:
    """Return the server of a model under a condition; ConditionError where requests could not bring what it shows."""
    identity = identity_of(model, condition, benchmark, run=sendable(run, "the run's name"))
    token, desk = sendable(token, "the server's token"), QueryBuilder(condition, benchmark)
    return RewardServer(model, desk, identity, relative=relative, token=token, limits=limits)


def bound(host: str, port: int, *, token: str) -> socket.socket:
    """Return a listening socket; one that others can reach needs a token."""
    if not token and host not in {"127.0.0.1", "::1", "localhost"}:
        raise ServiceError(
            f"{host} can be reached from other machines: name the environment variable of a token with --token-env, or "
            "leave --host out (127.0.0.1)"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or asyncio leaves Nagle's algorithm on: 40 ms per answer on a kept connection.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        raise ServiceError(f"cannot listen on {host}:{port}: {exc.strerror}; --port 0 takes a free one") from exc
    return listener


def configured(server: RewardServer) -> uvicorn.Config:
    """Return how a server speaks HTTP."""
    return uvicorn.Config(
        server.app,
        http=guarded(server.doors),
        ws="none",
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=_KEPT_OPEN,
    )


def serve(server: RewardServer, listener: socket.socket, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, finish what was taken, and return; `ready` is told the URL.

    A bug that ends the scoring ends the server, with its traceback: the process that started it sees the exit.
    """
    host, port = listener.getsockname()[:2]

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            server.when_broken(lambda: setattr(self, "should_exit", True))
            ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    try:
        asyncio.run(Announced(configured(server)).serve([listener]))
    finally:  # after Ctrl-C too
        if not server.finished:
            raise StuckError(f"{server.identity.model}: is still at its last batch; the server ends without it")
    if server.bug is not None:
        raise server.bug

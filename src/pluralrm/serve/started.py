"""From names to a server that runs: opens the model, the condition and the benchmark, binds, tells, serves."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn

from pluralrm.core import Benchmark, Condition, Identified, RewardModel
from pluralrm.errors import ServiceError
from pluralrm.models.declarations import reveals_of
from pluralrm.serve.connections import guarded
from pluralrm.serve.desk import Desk
from pluralrm.serve.identity import Identity, sendable
from pluralrm.serve.server import Limits, RewardServer

_GRACE = 60
"""Seconds for which what is being worked on may still finish."""


_KEPT_OPEN = 120
"""Seconds for which a connection stays open between two steps of a training."""


class StuckError(Exception):
    """A model that did not come back; its thread would keep the process from ending."""


def identity_of(model: RewardModel, condition: Condition, benchmark: Benchmark | None, *, run: str) -> Identity:
    """Return what a server of these says of itself."""
    facts = dict(model.identity) if isinstance(model, Identified) else {}
    shown = dict(condition.identity) if isinstance(condition, Identified) else {}
    return Identity(
        run=run,
        model=model.spec,
        condition=condition.spec,
        benchmark="" if benchmark is None else benchmark.card.name,
        benchmark_hash="" if benchmark is None else benchmark.content_hash,
        facts={**facts, **{f"condition {name}": value for name, value in shown.items()}},
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
    limits: Limits | None = None,
) -> RewardServer:
    """Return the server of a model under a condition; ConditionError where requests could not bring what it shows."""
    identity = identity_of(model, condition, benchmark, run=sendable(run, "the run's name"))
    token, desk = sendable(token, "the server's token"), Desk(condition, benchmark)
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

    A bug that ends the scoring ends the server, with its traceback: whoever started it sees that it is gone.
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

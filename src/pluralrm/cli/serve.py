"""`pluralrm serve`: a reward model as an HTTP service, for training."""

import os
import secrets
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.options import (
    ACCESS,
    CONDITION,
    MODEL,
    SERVED,
    ModelAccess,
    ServerOptions,
    check_names,
    complete_benchmark,
    with_access,
    with_length,
    with_options,
    with_server_options,
)
from pluralrm.cli.terminal import note, print_json
from pluralrm.errors import ConditionError, MissingExtraError, ModelError, ServiceError, SpecError

if TYPE_CHECKING:
    from pluralrm.core import Benchmark
    from pluralrm.http import Settings
    from pluralrm.serve.client import Identity
    from pluralrm.serve.watch import RewardWatch


_BENCHMARK = typer.Option(
    "",
    "--benchmark",
    "-b",
    metavar="BENCH",
    help="The benchmark whose items requests may name.",
    autocompletion=complete_benchmark,
)


class WatchOptions(NamedTuple):
    """What of the answers is scored a second time, by what, and where that is kept."""

    watch: str
    watch_out: Path | None
    watch_share: float
    watch_rate: float


_WATCH = "Watch"
_WATCH_OPTIONS = {
    "watch": typer.Option(
        "",
        "--watch",
        rich_help_panel=_WATCH,
        metavar="MODEL",
        help="A second reward for a sample of the answers: alarms where the two part ways. Needs --watch-out.",
    ),
    "watch_out": typer.Option(
        None, "--watch-out", rich_help_panel=_WATCH, metavar="DIR", help="Folder of the watch; the same one resumes."
    ),
    "watch_share": typer.Option(
        0.1, "--watch-share", rich_help_panel=_WATCH, min=0.0001, max=1.0, metavar="X", help="Share of the prompts."
    ),
    "watch_rate": typer.Option(
        600.0, "--watch-rate", rich_help_panel=_WATCH, min=1.0, metavar="N", help="Answers a minute at most."
    ),
}
_UNWATCHED = WatchOptions("", None, 0.1, 600.0)
_with_watch_options = with_options("watched", WatchOptions, _WATCH_OPTIONS)


@with_server_options
@with_access
@_with_watch_options
def serve(
    model: str = MODEL,
    condition: str = CONDITION,
    benchmark: str = _BENCHMARK,
    run: str = typer.Option("", "--run", metavar="NAME", help="Name of the training run.", show_default="a new name"),
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen on; any but loopback needs --token-env."),
    port: int = typer.Option(0, "--port", min=0, max=65535, help="Port; 0 picks a free one and prints it."),
    token_env: str = typer.Option("", "--token-env", metavar="NAME", help="The environment variable with the token."),
    room: int = typer.Option(4096, "--room", min=1, metavar="N", help="Queue size in answers; beyond it 429."),
    batch: int = typer.Option(1024, "--batch", min=1, metavar="N", help="Largest batch, in answers."),
    seconds: float = typer.Option(120.0, "--seconds", min=0.1, metavar="S", help="A request's deadline."),
    connections: int = typer.Option(800, "--connections", min=1, metavar="N", help="Open connections; beyond it 503."),
    watched: WatchOptions = _UNWATCHED,
    access: ModelAccess = ACCESS,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print the server's description as JSON."),
) -> None:
    """Serve a reward model under a condition until Ctrl-C or SIGTERM; accepted requests are finished first."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import condition_summaries, load_condition
    from pluralrm.models import KINDS, compares, load_model, misfit, unsupported

    check_names([model], "MODEL", KINDS)
    check_names([condition], "-c", condition_summaries())
    second = _second_of(watched, model)
    [model, *second], [condition] = access._replace(max_prompt_tokens=None).specs([model, *second], [condition])
    [model] = with_length([model], access.max_prompt_tokens)
    _require_libraries()
    from pluralrm.serve import server as reward_server
    from pluralrm.serve.client import sendable
    from pluralrm.serve.server import ServerLimits

    settings = served.settings()
    bench = open_benchmark(benchmark) if benchmark else None
    context = load_condition(condition, settings=settings)
    if why := unsupported(model, context):
        raise ConditionError(why)
    if bench is not None and (why := misfit(model, bench)):
        raise ModelError(f"{model}: {why}")
    run = sendable(run, "--run") or secrets.token_hex(8)
    token = sendable(_token(token_env), f"--token-env {token_env}")
    listener = reward_server.bound(host, port, token=token)
    loaded = load_model(model, settings=settings)
    served.check([loaded, context])
    limits = ServerLimits(room=room, batch=batch, seconds=seconds, connections=connections)
    identity = reward_server.identity_of(loaded, context, bench, run=run)
    with _opened_watch(second, watched, identity, bench=bench, settings=settings) as watch:
        server = reward_server.open_server(
            loaded, context, bench, relative=compares(model), run=run, token=token, limits=limits
        )
        if watch is not None:
            server.watch_with(watch)
        try:
            reward_server.serve(server, listener, ready=lambda url: _tell(url, server.identity, as_json=as_json))
        except reward_server.StuckError as exc:
            note(str(exc))
            sys.stderr.flush()
            os._exit(1)  # at an ordinary end the interpreter would wait for the model's thread, for ever


def _second_of(watched: WatchOptions, model: str) -> list[str]:
    """Return the second reward, where there is one; raise where it could say nothing of the first."""
    from pluralrm.models import KINDS, parse_model

    if not watched.watch:
        if watched.watch_out is not None:
            raise SpecError("--watch-out: nothing is watched without a second reward; add --watch MODEL")
        return []
    check_names([watched.watch], "--watch", KINDS)
    if watched.watch_out is None:
        raise SpecError("--watch needs --watch-out DIR: what is scored a second time is kept there")
    if parse_model(watched.watch) == parse_model(model):
        raise SpecError(f"--watch {watched.watch}: it is the served reward itself; wanted another model")
    return [watched.watch]


@contextmanager
def _opened_watch(
    second: Sequence[str],
    watched: WatchOptions,
    identity: "Identity",
    *,
    bench: "Benchmark | None",
    settings: "Settings",
) -> "Iterator[RewardWatch | None]":
    """Begin the watch where one is wanted; it holds models and conditions of its own, and no thread shares one."""
    from pluralrm.conditions import load_condition
    from pluralrm.models import load_model
    from pluralrm.serve.watch import RewardWatch, WatchFolder, open_second, verdict, watch_manifest

    if not second or watched.watch_out is None:
        yield None
        return
    context = load_condition(identity.condition, settings=settings)
    own = load_model(identity.model, settings=settings) if context.reveals else None
    again = open_second(second[0], own, context, benchmark=bench, settings=settings)
    manifest = watch_manifest(identity, again, share=watched.watch_share)
    folder = WatchFolder(watched.watch_out, manifest)
    with RewardWatch(again, folder, share=watched.watch_share, rate=watched.watch_rate, say=note) as watch:
        if len(folder.series):
            note(f"{watched.watch_out}: resumed, {verdict(folder.series)}")
        yield watch


def _require_libraries() -> None:
    """Raise MissingExtraError before anything is loaded, where the web libraries are not installed."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise MissingExtraError("pluralrm serve", "serve")


def _token(name: str) -> str:
    if not name:
        return ""
    if not (token := os.environ.get(name, "")):
        raise ServiceError(f"--token-env {name}: the environment variable is not set; put the server's token there")
    return token


_EVERYWHERE = ("0.0.0.0:", "[::]:")
"""How addresses begin that no other machine can use as they stand."""


def _tell(url: str, identity: "Identity", *, as_json: bool) -> None:
    if as_json:
        print_json({"url": url, "identity": identity.to_json(), "identity_hash": identity.hash})
        sys.stdout.flush()  # who reads it from a pipe waits for it to ask the server
        return
    typer.echo(f"export PLURALRM_REWARD_URL={url}")
    typer.echo(f"export PLURALRM_REWARD_RUN={shlex.quote(identity.run)}")
    typer.echo(f"export PLURALRM_REWARD_IDENTITY={identity.hash}")
    about = f" on items of {identity.benchmark}" if identity.benchmark else ""
    note(f"{identity.model} under {identity.condition}{about}; Ctrl-C finishes accepted requests and stops")
    if url.partition("//")[2].startswith(_EVERYWHERE):
        note("that URL stands for every address of this machine: elsewhere write its name in PLURALRM_REWARD_URL")
    if "oracle" in identity.reveals:
        note("ORACLE: the model sees the rubric")

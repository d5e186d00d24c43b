"""Replicas of one model: actors that open their work once and answer batches, and the queue that they share."""

import os
import platform
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pluralrm.errors import ModelError, PluralrmError, RunError, SpecError
from pluralrm.journal import library_versions
from pluralrm.text import counted

if TYPE_CHECKING:
    from pluralrm.cluster import Cluster

B = TypeVar("B")
R = TypeVar("R")

DEATHS = 4
"""Replicas that may die of one batch, or in a row while they open, before the work is given up."""
_PLACEMENT_SECONDS = 600.0
"""How long replicas wait for room on a cluster that others use too, or that grows on demand."""
_IDLE = 2.0
"""Seconds without work after which a replica makes room for those of another model."""


def died(deaths: int) -> str:
    """Return how many replicas died, to stand behind how many there are; nothing where none did."""
    return f", {deaths} died" * bool(deaths)


def amounts(need: dict[str, float]) -> str:
    """Return what a replica takes, in words."""
    texts = {name: f"{amount / 2**30:.1f} GiB" if name == "memory" else f"{amount:g}" for name, amount in need.items()}
    return ", ".join(f"{amount} {name}" for name, amount in texts.items()) or "nothing"


@dataclass(eq=False)
class _Ticket(Generic[B, R]):
    """A batch on its way, and how many replicas died of it."""

    batch: B
    future: "Future[R]" = field(default_factory=Future)
    deaths: int = 0


@dataclass(eq=False)
class _Handle(Generic[B, R]):
    """A replica as the driver knows it: asked for, then placed on a node, then open."""

    actor: Any
    since: float
    placed: bool = False
    open: bool = False
    tickets: deque[_Ticket[B, R]] = field(default_factory=deque)
    """What it is at, and what it will be at next."""
    refs: list[Any] = field(default_factory=list)


class ReplicaPool(Generic[B, R]):
    """Replicas of one model, between a smallest and a largest number, and the queue of batches that they share.

    It grows while batches wait, at most doubling at a time, and gives its room to other models when it has no work.
    """

    def __init__(
        self,
        cluster: "Cluster",
        name: str,
        opens: "Callable[[], Callable[[B], R]]",
        *,
        need: dict[str, float],
        least: int,
        most: int,
    ) -> None:
        self._cluster, self._name, self._opens, self._need = cluster, name, opens, need
        self._least, self._most = least, most
        self._waiting: deque[_Ticket[B, R]] = deque()
        self._replicas: list[_Handle[B, R]] = []
        self._opening_deaths = 0
        self.deaths = 0
        self.prefetches = True
        """Whether a replica is sent the next batch while it is at one."""
        self._began = time.monotonic()

    # ------------------------------------------------------------ any thread

    @property
    def size(self) -> int:
        """How many replicas answer batches."""
        return sum(replica.open for replica in self._replicas)

    @property
    def summary(self) -> str:
        """How many replicas answer, are starting, and died: `7 replicas, 1 starting, 1 died`."""
        ready, starting = self.size, len(self._replicas) - self.size
        return counted(ready, "replica") + f", {starting} starting" * bool(starting) + died(self.deaths)

    @property
    def ahead(self) -> int:
        """How many batches of one run are under way at most: no replica waits for the next."""
        return 2 * self._most + 2

    def submit(self, batch: B) -> "_Ticket[B, R]":
        """Put a batch into the queue."""
        ticket = _Ticket[B, R](batch)
        self._cluster.submit(partial(self._take, ticket))
        return ticket

    def answers(self, batches: Iterable[B]) -> Iterator[tuple[B, R]]:
        """Yield each batch with its answer, in order."""
        under_way: deque[_Ticket[B, R]] = deque()
        try:
            for batch in batches:
                under_way.append(self.submit(batch))
                if len(under_way) >= self.ahead:
                    yield batch_answer(under_way.popleft())
            while under_way:
                yield batch_answer(under_way.popleft())
        finally:
            for ticket in under_way:
                ticket.future.cancel()

    # ------------------------------------------------------------ the dispatcher's thread

    def _take(self, ticket: _Ticket[B, R]) -> None:
        self._waiting.append(ticket)

    def step(self) -> None:
        """Hand out batches, and start replicas while more batches wait than will soon be taken."""
        while self._waiting and self._waiting[0].future.cancelled():
            self._waiting.popleft()
        ready = [replica for replica in self._replicas if replica.open]
        depth = 2 if self.prefetches and len(self._waiting) > len(ready) else 1  # not at the end
        for level in range(depth):
            for replica in ready:
                if self._waiting and len(replica.tickets) <= level:
                    self._send(replica, self._waiting.popleft())
        opening = len(self._replicas) - len(ready)
        unplaced = sum(not replica.placed for replica in self._replicas)
        missing = max(min(len(self._waiting) - opening, self._most - len(self._replicas)), 0)
        if self._waiting and len(self._replicas) < self._least:
            missing = max(missing, self._least - len(self._replicas))
        for _ in range(min(missing, max(1, len(self._replicas) - unplaced) - unplaced)):
            self._start()
        self._check_placement()

    @property
    def placed(self) -> bool:
        """Whether a replica has found room."""
        return any(replica.placed for replica in self._replicas)

    @property
    def starved(self) -> bool:
        """Whether batches wait for a replica that finds no room."""
        return bool(self._waiting) and any(not replica.placed for replica in self._replicas)

    def shrink(self) -> None:
        """End replicas that have had no work for a while."""
        now = time.monotonic()
        for replica in [each for each in self._replicas if each.open and not each.tickets and now - each.since > _IDLE]:
            self._drop(replica)

    def close(self, reason: PluralrmError) -> None:
        """End all replicas; what was under way fails for this reason."""
        for replica in list(self._replicas):
            self._waiting.extend(replica.tickets)
            self._drop(replica)
        while self._waiting:
            _fail(self._waiting.popleft(), reason)

    def _start(self) -> None:
        replica = _Handle[B, R](self._cluster.remote(self._need), time.monotonic())
        self._replicas.append(replica)
        self._call(replica, replica.actor.place.remote(), self._placed)

    def _call(self, replica: _Handle[B, R], ref: Any, then: "Callable[[_Handle[B, R], Future[Any]], None]") -> None:  # noqa: ANN401
        replica.refs.append(ref)

        def landed(done: "Future[Any]") -> None:
            with suppress(RunError):  # the dispatcher has ended
                self._cluster.submit(partial(self._landed, replica, ref, done, then))

        ref.future().add_done_callback(landed)

    def _landed(
        self,
        replica: _Handle[B, R],
        ref: Any,  # noqa: ANN401
        done: "Future[Any]",
        then: "Callable[[_Handle[B, R], Future[Any]], None]",
    ) -> None:
        """Go on with what a replica said, unless it is gone by now."""
        if replica not in self._replicas:
            return
        replica.refs.remove(ref)
        replica.since = time.monotonic()
        error = done.exception()
        if error is not None and self._cluster.is_death(error):
            self._bury(replica, error)
        else:
            then(replica, done)

    def _placed(self, replica: _Handle[B, R], done: "Future[_Reply]") -> None:
        self._began = time.monotonic()
        replica.placed = True
        try:
            _refuse_open_node(value_of(done.result()))
        except PluralrmError as exc:
            self.close(exc)
            return
        self._call(replica, replica.actor.open.remote(home(), self._opens), self._opened)

    def _opened(self, replica: _Handle[B, R], done: "Future[_Reply]") -> None:
        try:
            value_of(done.result())
        except Exception as exc:  # noqa: BLE001 - raised where the batch is awaited
            error = exc if isinstance(exc, PluralrmError) else ModelError(f"{type(exc).__name__}: {exc}")
            self.close(error)
            return
        self._opening_deaths, replica.open = 0, True

    def _send(self, replica: _Handle[B, R], ticket: _Ticket[B, R]) -> None:
        replica.tickets.append(ticket)
        self._call(replica, replica.actor.answer.remote(ticket.batch), self._answered)

    def _answered(self, replica: _Handle[B, R], done: "Future[_Reply]") -> None:
        ticket, self._opening_deaths = replica.tickets.popleft(), 0
        try:
            result = value_of(done.result())
        except Exception as exc:  # noqa: BLE001
            _fail(ticket, exc)
        else:
            if ticket.future.set_running_or_notify_cancel():
                ticket.future.set_result(result)

    def _bury(self, replica: _Handle[B, R], exc: BaseException) -> None:
        """Have others answer what a dead replica had; give up what kills one replica after the other."""
        self.deaths += 1
        tickets = list(replica.tickets)
        self._drop(replica)
        if replica.placed and not replica.open:
            self._opening_deaths += 1
        if tickets:
            tickets[0].deaths += 1
        self._waiting.extendleft(reversed(tickets))
        if (tickets and tickets[0].deaths >= DEATHS) or self._opening_deaths >= DEATHS:
            what = "the same queries" if tickets else "opening it"
            reason = str(exc).strip().splitlines()[0]
            self.close(RunError(f"{self._name}: {DEATHS} replicas in a row died of {what}; the last: {reason}"))

    def _drop(self, replica: _Handle[B, R]) -> None:
        self._replicas.remove(replica)
        self._cluster.kill(replica.actor)

    def _check_placement(self) -> None:
        if not self.starved or self._cluster.occupied:  # those of another model make room when they are done
            self._began = time.monotonic()
        elif time.monotonic() - self._began > _PLACEMENT_SECONDS:
            need = amounts(self._need)
            self.close(RunError(f"{self._name}: no room for one replica ({need}) in {_PLACEMENT_SECONDS:.0f} s"))


def batch_answer(ticket: _Ticket[B, R]) -> tuple[B, R]:
    """Return a batch with its answer, once it is there."""
    return ticket.batch, ticket.future.result()


def _fail(ticket: _Ticket[B, R], reason: Exception) -> None:
    if ticket.future.set_running_or_notify_cancel():
        ticket.future.set_exception(reason)


def _refuse_open_node(node: "_Node") -> None:
    """Raise where a node on another machine needs no token: its open ports would expose posts and run code."""
    if node.token or node.host == _host():
        return
    raise RunError(
        f"the node {node.name} of this cluster takes orders without a token, and would be sent what users wrote. "
        "Start the cluster with RAY_AUTH_MODE=token ('ray get-auth-token --generate' makes a token)"
    )


# ---------------------------------------------------------------- in a replica


def check_identity(spec: str, here: Mapping[str, str], driver: Mapping[str, str]) -> None:
    """Raise where what a node has under a name is not what the command named."""
    if dict(here) != dict(driver):
        name = next(name for name in sorted({*here, *driver}) if here.get(name) != driver.get(name))
        raise RunError(f"{spec}: {name} of a node differs from that of the machine where the command runs")


class _Home(NamedTuple):
    """Where the driver is, and what it computes with."""

    folder: str
    versions: dict[str, str]


class _Node(NamedTuple):
    """The machine of a replica."""

    name: str
    host: str
    token: bool


class _Reply(NamedTuple):
    """The result of a call; our errors travel as class and message, since some cannot be pickled."""

    value: Any
    error: type[PluralrmError] | None = None


def value_of(reply: _Reply) -> Any:  # noqa: ANN401
    """Return what came of a call, or raise the error that it met."""
    if reply.error is None:
        return reply.value
    error = reply.error.__new__(reply.error)
    Exception.__init__(error, reply.value)
    raise error


def home() -> _Home:
    """Return where this process is, for replicas to be there too."""
    return _Home(str(Path.cwd()), library_versions())


def _host() -> str:
    """Return a name of this machine that no other has."""
    booted = Path("/proc/sys/kernel/random/boot_id")
    return booted.read_text(encoding="ascii").strip() if booted.exists() else platform.node()


def _settle(at: _Home) -> None:
    """Go to the driver's folder, where there is one; raise where other versions would compute other numbers."""
    here = library_versions()
    for name, driver in at.versions.items():
        if name != "python" and here.get(name) != driver:  # Ray itself compares Python
            raise RunError(f"a node has {name} {here.get(name, 'nowhere')}, wanted {driver} as where the command runs")
    if Path(at.folder).is_dir():
        os.chdir(at.folder)


def _tried(function: Callable[..., Any], *arguments: object) -> _Reply:
    try:
        return _Reply(function(*arguments))
    except PluralrmError as exc:
        return _Reply(str(exc), type(exc))


class Replica:
    """The actor: it opens its work once, and answers batches."""

    def place(self) -> _Reply:
        """Return where it is."""
        return _Reply(_Node(platform.node(), _host(), os.environ.get("RAY_AUTH_MODE", "").lower() == "token"))

    def open(self, at: _Home, opens: Callable[[], Callable[[Any], Any]]) -> _Reply:
        """Load what answers batches."""

        def start() -> None:
            _settle(at)
            self._answer = opens()

        return _tried(start)

    def answer(self, batch: object) -> _Reply:
        """Answer one."""
        return _tried(self._answer, batch)


def calls_of(function: Callable[..., R]) -> Callable[[tuple[object, ...]], R]:
    """Return what calls a function with a tuple of arguments."""
    return lambda arguments: function(*arguments)


# ---------------------------------------------------------------- a server beside a replica

ENGINE_COMMAND = "vllm serve {model} --host 127.0.0.1 --port {port}"
ENGINE_VARIABLE = "PLURALRM_ENGINE"
"""The environment variable with another command."""
ENGINE_KEY = "VLLM_API_KEY"
_STARTING = 1800.0
"""Seconds in which a server must answer: weights of 70B are read from a network disk."""
_LAST_WORDS = 2000
_GRACE = 10.0
"""Seconds between asking a server to end and ending it."""


def engine_command() -> str:
    """Return the command that starts the server of a model; it says where model and port go."""
    command = os.environ.get(ENGINE_VARIABLE) or ENGINE_COMMAND
    if not all(slot in command for slot in ("{model}", "{port}")):
        raise SpecError(f"{ENGINE_VARIABLE} is {command!r}; wanted a command with {{model}} and {{port}}")
    return command


class EngineProcess:
    """An OpenAI-compatible server on loopback with a key of its own. It ends with this process, however that one ends.

    `ended` is called with its last words if it ends by itself.
    """

    def __init__(self, command: str, model: str, ended: Callable[[str], None]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        slots = {"{model}": model, "{port}": str(self._port)}
        words = [reduce(lambda word, slot: word.replace(*slot), slots.items(), word) for word in shlex.split(command)]
        quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        os.environ[ENGINE_KEY] = secrets.token_hex(32)
        guard = [sys.executable, "-c", f"from {__name__} import guard; guard()", *words]
        self._guard = subprocess.Popen(guard, stdin=PIPE, stdout=PIPE, env=os.environ | quiet)  # noqa: S603 - the user's
        self._guard.wait()  # it goes on in a process that Ray, which ends children first, does not know
        self._words: list[str] = []
        self._serving = False
        threading.Thread(target=self._listen, args=(ended,), daemon=True).start()
        until = time.monotonic() + _STARTING
        while not self._answers():
            if self._words or time.monotonic() > until:
                self.close()
                raise ModelError(f"{shlex.join(words)} does not answer: {''.join(self._words) or 'no reply'}")
            time.sleep(0.2)
        self._serving = True

    @property
    def url(self) -> str:
        """The base URL of its API."""
        return f"http://127.0.0.1:{self._port}/v1"

    def close(self) -> None:
        """End it."""
        self._serving = False
        if self._guard.stdin is not None:
            self._guard.stdin.close()

    def _answers(self) -> bool:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {os.environ[ENGINE_KEY]}"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _listen(self, ended: Callable[[str], None]) -> None:
        assert self._guard.stdout is not None  # noqa: S101
        with self._guard.stdout as words:
            self._words.append(words.read().decode(errors="replace").strip() or "it said nothing")
        if self._serving:
            ended(self._words[0])


def guard() -> None:
    """Run a command until it ends or standard input closes; then say its last words. Return at once to the caller."""
    if os.fork():
        os._exit(0)
    os.setsid()  # what ends the replica's group leaves the guard, which ends the server
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(  # noqa: S603
            sys.argv[1:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

        def end_with_parent() -> None:
            sys.stdin.buffer.read()
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
                time.sleep(_GRACE)
                os.killpg(server.pid, signal.SIGKILL)

        threading.Thread(target=end_with_parent, daemon=True).start()
        server.wait()
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)  # what it started itself
        log.seek(max(log.tell() - _LAST_WORDS, 0))
        sys.stdout.buffer.write(log.read())

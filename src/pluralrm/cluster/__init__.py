"""Where work runs beside this process: replicas and tasks on a Ray cluster, as `--on ray[:ADDRESS][,key=value]*`.

>>> ClusterSpec.parse("ray:10.0.0.5:6379,gpus=1,replicas=2-8")
ClusterSpec(address='10.0.0.5:6379', cpus=1.0, gpus=1.0, memory=None, least=2, most=8)

Ray places actors and tasks, keeps count of resources, notices deaths and ends what a dead process leaves. Here is what
it has no word for: a queue of batches that several replicas of one model share. Ray's own retries would send a batch
back to the actor that it was sent to; here it goes to whichever replica is free.

A replica opens its work once (a model, say) and answers batches. Nothing of this process is uploaded: replicas import
the installed pluralrm, which must be the same version with the same libraries, and read paths as this machine does.
"""

import os
import queue
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import starmap
from types import TracebackType
from typing import Any, Self, TypeVar

from pluralrm.cluster.replicas import Replica, ReplicaPool, amounts, calls_of, died
from pluralrm.errors import MissingExtraError, PluralrmError, RunError, SpecError
from pluralrm.specs import Form, Spec, parse, whole_number
from pluralrm.text import counted

B = TypeVar("B")
R = TypeVar("R")

_FORM = Form("optional", ("cpus", "gpus", "memory", "replicas"), example="ray:HOST:6379")
_SIZES = {"": 1, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}
_LOCAL_STORE = 256 * 2**20
"""Bytes for objects under way in a cluster of our own: a batch is a few hundred kilobytes."""
_TICK = 0.5
"""Seconds between two looks at who has no work."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster, and what one replica takes of it; without an address that of RAY_ADDRESS, or one is started here."""

    address: str = ""
    cpus: float = 1.0
    gpus: float | None = None
    """None: one for a model of weights where the cluster has GPUs, none for anything else."""
    memory: int | None = None
    """Bytes of RAM."""
    least: int = 1
    most: int | None = None
    """Replicas of one model; None: as many as there is room for."""

    @classmethod
    def parse(cls, text: str) -> "ClusterSpec":
        """Return what --on says."""
        spec = parse(text, {"ray": _FORM}, noun="cluster")
        address = spec.target
        if address != "auto" and address and not re.fullmatch(r"[^\s/@]+:\d+", address):
            raise SpecError(f"ray: found the address {address!r}, wanted HOST:PORT of the head node, or auto")
        gpus = spec.number("gpus", 0.0, least=0, most=64) if "gpus" in spec.options else None
        least, most = _replicas(spec)
        return cls(address, spec.number("cpus", 1.0, least=0, most=1024), gpus, _memory(spec), least, most)

    def resources(self, *, gpus: float) -> dict[str, float]:
        """Return what one replica takes, by Ray's names; `gpus` where the spec does not say."""
        sizes = {"CPU": self.cpus, "GPU": gpus if self.gpus is None else self.gpus, "memory": float(self.memory or 0)}
        return {name: amount for name, amount in sizes.items() if amount}


def _replicas(spec: Spec) -> tuple[int, int | None]:
    text = spec.options.get("replicas", "")
    if not text:
        return 1, None
    least, dash, most = text.partition("-")
    low = whole_number(least, "ray: replicas", least=1)
    return low, whole_number(most, "ray: replicas, at most", least=low) if dash else low


def _memory(spec: Spec) -> int | None:
    text = spec.options.get("memory", "")
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(\w*)", text)
    if match is None or match[2] not in _SIZES:
        raise SpecError(f"ray: memory is {text!r}; wanted bytes, or a size such as 16GiB")
    return int(float(match[1]) * _SIZES[match[2]])


# ---------------------------------------------------------------- the driver


class Cluster:
    """A cluster that is open: replicas by what they open, tasks, and one thread that hands batches to replicas."""

    def __init__(self, spec: "ClusterSpec | str", *, ray: Any = None) -> None:  # noqa: ANN401 - the module, connected
        self.spec = ClusterSpec.parse(spec) if isinstance(spec, str) else spec
        self._ray, self._ours = ray, False
        self._fixed = False
        """True for a cluster that is started here: no node will ever join it."""
        self._pools: dict[str, ReplicaPool[Any, Any]] = {}
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._failure: PluralrmError | None = None
        self._gate = threading.Lock()
        self._dispatcher = threading.Thread(target=self._dispatch, daemon=True)

    def __enter__(self) -> Self:
        if self._ray is None:
            self._ray, self._ours, self._fixed = _connected(self.spec.address)
        self._dispatcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        self._dispatcher.join()
        if self._ours:
            self._ray.shutdown()

    def stop(self) -> None:
        """End all replicas; callers that wait for a batch get a RunError."""
        self._events.put(None)

    @cached_property
    def nodes(self) -> list[dict[str, float]]:
        """What each node had when this was first asked."""
        return [dict(node["Resources"]) for node in self._ray.nodes() if node["Alive"]]

    def room(self, need: dict[str, float]) -> int:
        """Return how many replicas that take so much fit on the cluster while nothing else is there."""
        return int(sum(min(node.get(name, 0) // amount for name, amount in need.items()) for node in self.nodes))

    @property
    def alive(self) -> int:
        """How many replicas answer batches."""
        return sum(pool.size for pool in list(self._pools.values()))

    @property
    def deaths(self) -> int:
        """How many replicas died."""
        return sum(pool.deaths for pool in list(self._pools.values()))

    @property
    def summary(self) -> str:
        """How many replicas answer, and how many died: `8 replicas, 1 died`."""
        return counted(self.alive, "replica") + died(self.deaths)

    @property
    def occupied(self) -> bool:
        """Whether a replica of any model has found room."""
        return any(pool.placed for pool in list(self._pools.values()))

    def pool(self, name: str, opens: "Callable[[], Callable[[B], R]]", *, neural: bool = False) -> "ReplicaPool[B, R]":
        """Return the replicas of this name, which keep what they opened while they are of use.

        `opens` is called in each replica and returns what answers a batch; both are pickled by their names.
        """
        with self._gate:
            return self._pools.get(name) or self._new_pool(name, opens, neural=neural)

    def _new_pool(self, name: str, opens: "Callable[[], Callable[[B], R]]", *, neural: bool) -> "ReplicaPool[B, R]":
        gpus = 1.0 if neural and any(node.get("GPU") for node in self.nodes) else 0.0
        need = self.spec.resources(gpus=gpus)
        room = self.room(need) if need else max(self.spec.least, len(self.nodes))
        if not room and self._fixed:
            raise SpecError(f"{name}: one replica takes {amounts(need)}; the largest node has {self._largest(need)}")
        most = self.spec.most or max(room, self.spec.least)
        self._pools[name] = ReplicaPool[B, R](self, name, opens, need=need, least=self.spec.least, most=most)
        return self._pools[name]

    def map(self, function: Callable[..., R], jobs: Sequence[tuple[object, ...]]) -> list[R]:
        """Return what a function makes of each tuple of arguments, in order, on whichever replica is free."""
        pool = self.pool(f"job {len(self._pools) + 1}", partial(calls_of, function))
        pool.prefetches = False  # calls may be long, and few
        return [result for _, result in pool.answers(jobs)]

    def submit(self, event: Callable[[], None]) -> None:
        """Have the dispatcher do something next: all that concerns replicas happens there. Raise where it has ended."""
        with self._gate:
            if self._failure is not None:
                raise self._failure
            self._events.put(event)

    def _dispatch(self) -> None:
        failure = RunError("stopped; the rows so far are kept and the same command resumes")
        try:
            while True:
                try:
                    event = self._events.get(timeout=_TICK)
                except queue.Empty:
                    self._make_room()
                else:
                    if event is None:
                        break
                    event()
                for pool in list(self._pools.values()):
                    pool.step()
        except Exception as exc:  # noqa: BLE001 - nothing may wait for a dispatcher that is gone
            failure = RunError(f"the Ray cluster failed ({type(exc).__name__}: {exc}); the same command resumes")
            failure.__cause__ = exc
        with self._gate:
            self._failure = failure
        while not self._events.empty():
            if (event := self._events.get()) is not None:
                event()
        for pool in self._pools.values():
            pool.close(failure)

    def _make_room(self) -> None:
        """End replicas without work where those of another model wait for room."""
        starved = [pool for pool in self._pools.values() if pool.starved]
        for pool in self._pools.values():
            if starved and pool not in starved:
                pool.shrink()

    def _largest(self, need: dict[str, float]) -> str:
        return amounts({name: max((node.get(name, 0) for node in self.nodes), default=0) for name in need})

    def remote(self, need: dict[str, float]) -> Any:  # noqa: ANN401 - Ray's handle of an actor
        """Start a replica somewhere on the cluster."""
        return self._ray.remote(max_restarts=0, max_task_retries=0, **_options(need))(Replica).remote()

    def kill(self, handle: Any) -> None:  # noqa: ANN401
        """End a replica, whatever it is at."""
        self._ray.kill(handle)

    def is_death(self, exc: BaseException) -> bool:
        """Return whether a replica, or its node, is gone: what it had goes elsewhere."""
        errors = self._ray.exceptions
        return isinstance(exc, errors.RayError) and not isinstance(exc, errors.RayTaskError)


@contextmanager
def opened(on: "str | Cluster | None") -> Iterator[Cluster | None]:
    """Yield the cluster that --on names, open; None without one. One that is open already is left open."""
    if isinstance(on, str) and on:
        with Cluster(on) as cluster:
            yield cluster
    else:
        yield on or None


def each_job(on: Cluster | None, function: Callable[..., R], jobs: Sequence[tuple[object, ...]]) -> list[R]:
    """Return what a function makes of each tuple of arguments, in order: as tasks of a cluster, or here."""
    return list(starmap(function, jobs)) if on is None else on.map(function, jobs)


def _connected(address: str) -> tuple[Any, bool, bool]:
    """Return Ray, whether this connection is our own, and whether the cluster is.

    One of our own is on loopback, with a token, without usage reports.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # would upload the project's folder
    address = address or os.environ.get("RAY_ADDRESS", "")
    if not address and "ray" not in sys.modules:
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # what makes Ray listen on loopback alone
    try:
        import ray
    except ImportError as exc:
        raise MissingExtraError("--on ray", "ray") from exc
    if ray.is_initialized():
        return ray, False, False
    quiet = {"log_to_driver": False, "configure_logging": False}  # other libraries' loggers stay as they are
    if not address:
        ray.init("local", dashboard_host="127.0.0.1", object_store_memory=_LOCAL_STORE, **quiet)
        return ray, True, True
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as exc:
        raise RunError(
            f"no Ray cluster at {address}: {exc}. Run this on a node of the cluster; its token is in RAY_AUTH_TOKEN, "
            "RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
        ) from exc
    return ray, True, False


def _options(need: dict[str, float]) -> dict[str, Any]:
    names = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    return {"num_cpus": 0, **{names[name]: amount for name, amount in need.items()}}

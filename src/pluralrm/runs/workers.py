"""Where verdicts are computed: in this process, or in several that each load the model from its spec."""

import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial, reduce
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from pluralrm.cluster import Cluster
from pluralrm.cluster.replicas import ENGINE_KEY, EngineProcess, ReplicaPool, check_identity, engine_command
from pluralrm.core import Identified, Query, RewardModel, Verdict
from pluralrm.errors import ModelError, RunError, SpecError
from pluralrm.files import replace_file
from pluralrm.http import ENGINE, Metered, Settings, Tally
from pluralrm.journal import SYNC_SECONDS
from pluralrm.models import KINDS, load_model, parse_model
from pluralrm.runs.records import WORKERS
from pluralrm.runs.verdicts import LONG, WINDOW, verdicts, windows
from pluralrm.text import counted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.queues import SimpleQueue

CLUSTER_SHARE = 32
"""Queries that a replica is sent at once. The candidates of a query share its prompt and are never parted."""
_ENGINE_SHARE = 256
"""As many where a replica has a server beside itself, which answers many calls at once."""
_SHARE = 16
"""Queries per task: a kill costs what is under way, at most two tasks a worker. Fixed: no row depends on timing."""


class LocalScorer:
    """The model in this process."""

    workers = ""
    """No worker beside this process."""

    def __init__(self, model: RewardModel) -> None:
        self.model = model

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Nothing to close."""

    @property
    def identity(self) -> dict[str, str]:
        """What must stay the same while a run is resumed."""
        return _identity(self.model)

    @property
    def tally(self) -> Tally | None:
        """What the model has asked of a server so far; None where it asks none."""
        return _tally(self.model)

    def verdicts(self, queries: Iterable[Query]) -> Iterator[tuple[Query, Verdict]]:
        """Yield each query with its verdict, in order."""
        for window in windows(queries, LONG if isinstance(self.model, Metered) else WINDOW):
            yield from zip(window, verdicts(self.model, window), strict=True)


class WorkerPool:
    """Several processes; verdicts come back in the order of the queries, so the number of workers changes nothing."""

    def __init__(self, spec: str, workers: int, settings: Settings | None, *, devices: Sequence[str] = ()) -> None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        self._spec, self.workers = spec, counted(workers, "worker")
        self._ahead = 2 * workers
        self._tallies: dict[int, Tally | None] = {}
        self._settings = settings and replace(settings, concurrency=settings.concurrency // workers)
        # spawn: a forked child would inherit threads and locks of whatever the caller has loaded
        context = get_context("spawn")
        pipe, self._lifeline = context.Pipe(duplex=False)
        visible = context.SimpleQueue()  # each worker takes one
        for name in devices:
            visible.put(_visible(name))
        setup = (spec, self._settings, pipe, visible if devices else None)
        self._executor = ProcessPoolExecutor(workers, context, initializer=_load, initargs=setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if exc is not None:
            self._lifeline.close()  # a worker in the middle of a slow verdict ends too
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._lifeline.close()

    @cached_property
    def model(self) -> RewardModel:
        """The model as this process knows it; loading one by its spec reads no weights yet."""
        return load_model(self._spec, settings=self._settings)

    @property
    def identity(self) -> dict[str, str]:
        """What must stay the same while a run is resumed."""
        return _identity(self.model)

    @property
    def tally(self) -> Tally | None:
        """What the workers' models have asked of a server, as of their last verdicts; None where they ask none."""
        tallies = [tally for tally in self._tallies.values() if tally is not None]
        return reduce(Tally.plus, tallies) if tallies else None

    def verdicts(self, queries: Iterable[Query]) -> Iterator[tuple[Query, Verdict]]:
        """Yield each query with its verdict, in order; a worker that dies stops the run, which can be resumed."""
        waiting: deque[tuple[list[Query], Future[_Done]]] = deque()
        try:
            for window in windows(queries, _SHARE):
                with _without_interrupts():
                    waiting.append((window, self._executor.submit(_work, window)))
                if len(waiting) >= self._ahead:
                    yield from self._landed(*waiting.popleft())
            while waiting:
                yield from self._landed(*waiting.popleft())
        except BrokenExecutor as exc:
            raise RunError("a worker process died; the rows so far are kept and the same command resumes") from exc

    def _landed(self, window: list[Query], future: "Future[_Done]") -> Iterator[tuple[Query, Verdict]]:
        done = future.result()
        self._tallies[done.process] = done.tally
        return zip(window, done.verdicts, strict=True)


class ClusterScorer:
    """Replicas of the model on a cluster, which other runs of the model use too; verdicts come back in order."""

    _pool: "ReplicaPool[list[Query], _Done]"

    def __init__(self, spec: str, cluster: Cluster, settings: Settings | None = None) -> None:
        self._spec, self._cluster = spec, cluster
        self._engine = engine_command() if has_engine(spec) else ""
        self._settings = replace(settings, cache=None) if settings and self._engine else None
        self._tallies: list[Tally | None] = []

    def __enter__(self) -> Self:
        if self._engine:
            opens = partial(_open_engine, self._spec, self._engine, self._settings or Settings())
        else:
            opens = partial(_open_replica, self._spec, self.identity)
        neural = bool(self._engine) or KINDS[parse_model(self._spec).kind].extra == "hf"
        self._pool = self._cluster.pool(self._spec, opens, neural=neural)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Nothing to close: replicas stay for the next run."""

    @cached_property
    def model(self) -> RewardModel:
        """The model as this process knows it; loading one by its spec reads no weights yet."""
        return load_model(self._spec)

    @property
    def identity(self) -> dict[str, str]:
        """What must stay the same while a run is resumed, and in every replica."""
        return {**_identity(self.model), **({"engine": self._engine} if self._engine else {})}

    @property
    def tally(self) -> Tally | None:
        """What replicas have asked of the servers beside them; None where they ask none."""
        tallies = [tally for tally in self._tallies if tally is not None]
        return reduce(Tally.plus, tallies) if tallies else None

    @property
    def workers(self) -> str:
        """How many replicas of the model there are, and how many died."""
        return self._pool.summary

    def verdicts(self, queries: Iterable[Query]) -> Iterator[tuple[Query, Verdict]]:
        """Yield each query with its verdict, in order; those of a replica that dies are answered by another."""
        share = _ENGINE_SHARE if self._engine else CLUSTER_SHARE
        for window, done in self._pool.answers(windows(queries, share)):
            self._tallies.append(done.tally)
            yield from zip(window, done.verdicts, strict=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which a terminal sends to all of a group: the parent alone answers it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


Scorer = LocalScorer | WorkerPool | ClusterScorer


def open_scorer(
    model: RewardModel | str,
    workers: int,
    settings: Settings | None = None,
    *,
    devices: Sequence[str] = (),
    cluster: Cluster | None = None,
) -> Scorer:
    """Return where to compute the verdicts of a model: with `devices`, in one process for each."""
    if workers < 1:
        raise SpecError(f"workers is {workers}; wanted 1 or more")
    if cluster is not None:
        if workers > 1 or devices:
            raise SpecError("workers and devices are of this machine, and --on names a cluster: leave one of them out")
        if not isinstance(model, str):
            raise ModelError("a cluster needs a model that each replica can load: give a spec string, not an object")
        if has_engine(model) and settings is not None:
            _refuse_owned(settings, "replicas with servers of their own")
        return ClusterScorer(model, cluster, settings) if on_cluster(model) else open_scorer(model, 1, settings)
    if devices:
        workers = _checked(model, workers, devices)
    if workers == 1 and not devices:
        return LocalScorer(load_model(model, settings=settings) if isinstance(model, str) else model)
    if not isinstance(model, str):
        raise ModelError("several workers need a model that each can load: give a spec string, not an object")
    if settings is not None and KINDS[parse_model(model).kind].served:
        _refuse_sharing(settings, workers)
    return WorkerPool(model, workers, settings, devices=devices)


def on_cluster(spec: str) -> bool:
    """Return whether a cluster computes this model.

    One that asks a server gains nothing there: it is asked from here, and its caps hold as they do without a cluster.
    """
    return has_engine(spec) or not (KINDS[parse_model(spec).kind].served or isinstance(load_model(spec), Metered))


def has_engine(spec: str) -> bool:
    """Return whether each replica of a model starts a server beside itself."""
    return parse_model(spec).options.get("url") == ENGINE


_DEVICE = re.compile(r"cpu|cuda:\d+")


def _checked(model: RewardModel | str, workers: int, devices: Sequence[str]) -> int:
    """Return how many workers these devices take; what does not fit them, the spec or this machine is an error."""
    if wrong := [name for name in devices if not _DEVICE.fullmatch(name)]:
        raise SpecError(f"devices: found {wrong[0]!r}, wanted cpu or cuda:N, as in cuda:0,cuda:1")
    if workers not in {1, len(devices)}:
        raise SpecError(f"{workers} workers on {len(devices)} devices: each device has one worker; leave workers out")
    if isinstance(model, str) and KINDS[(spec := parse_model(model)).kind].extra == "hf":
        if "device" in spec.options:
            raise SpecError(f"{model}: its device is the worker's, one of {', '.join(devices)}; leave device= out")
        for name in dict.fromkeys(devices):
            with suppress(ImportError):  # without torch, loading the model names the extra
                import_module("pluralrm.models.neural.loading").check_device(model, name)
    return len(devices)


def _visible(device: str) -> str:
    """Return CUDA_VISIBLE_DEVICES of the worker on a device, which is numbered among those that this process sees."""
    if device == "cpu":
        return ""
    number, seen = device.removeprefix("cuda:"), os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return seen.split(",")[int(number)] if seen else number


def _refuse_owned(settings: Settings, several: str) -> None:
    """Raise where processes would have to share what has one owner: an account, a cassette that is written."""
    owned = {"a highest cost": settings.max_cost is not None, "a recording": settings.record is not None}
    for name, shared in owned.items():
        if shared:
            raise RunError(f"{name} needs one process, found {several}")


def _refuse_sharing(settings: Settings, workers: int) -> None:
    """Raise where workers would have to share what has one owner, or make more calls at once than allowed."""
    hint = "A model behind a URL is not faster with several: leave --workers out, and raise --concurrency"
    _refuse_owned(settings, f"{workers} workers. {hint}")
    if workers > settings.concurrency:
        raise RunError(
            f"{workers} workers with a concurrency of {settings.concurrency}: each has at least one call under way. "
            "Wanted as many workers at most"
        )


def _identity(model: RewardModel) -> dict[str, str]:
    return dict(model.identity) if isinstance(model, Identified) else {}


def _tally(model: RewardModel) -> Tally | None:
    return model.tally if isinstance(model, Metered) else None


# ---------------------------------------------------------------- in a worker


class _Done(NamedTuple):
    """The verdicts on a window, and what was asked of a server: by a worker's model so far, by a replica's for them."""

    verdicts: list[Verdict]
    process: int
    tally: Tally | None


_model: RewardModel


def _load(
    spec: str, settings: Settings | None, lifeline: "Connection", visible: "SimpleQueue[str] | None" = None
) -> None:
    """Load the model in a worker, which ends with the process that started it, however that one ends.

    A worker sees its own device alone, so that what is told of a model does not depend on where it is computed.
    """
    global _model  # noqa: PLW0603 - one model per worker process
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.get()
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    _model = load_model(spec, settings=settings)


def _end_with(lifeline: "Connection") -> None:
    lifeline.poll(None)  # nothing is ever sent: what wakes us is that the other end was closed
    os._exit(1)


def _open_replica(spec: str, identity: Mapping[str, str]) -> Callable[[list[Query]], _Done]:
    """Return what answers windows in a replica; raise where its model is not the one that the run names."""
    model = load_model(spec)
    check_identity(spec, _identity(model), identity)
    return partial(_verdicts, model)


def _open_engine(spec: str, command: str, settings: Settings) -> Callable[[list[Query]], _Done]:
    """Return what answers windows in a replica, by a server beside it; the replica ends with its server."""
    parsed = parse_model(spec)
    engine = EngineProcess(command, parsed.target, ended=lambda _: os._exit(1))
    options = {**parsed.options, "url": engine.url, "key": ENGINE_KEY}
    return partial(_verdicts, load_model(str(replace(parsed, options=options)), settings=settings))


def _verdicts(model: RewardModel, window: list[Query]) -> _Done:
    before = _tally(model)
    replies = list(verdicts(model, window))
    now = _tally(model)
    return _Done(replies, os.getpid(), now if now is None or before is None else now.since(before))


def _work(window: list[Query]) -> _Done:
    return _Done(list(verdicts(_model, window)), os.getpid(), _tally(_model))


@contextmanager
def noted_workers(folder: Path, workers: Callable[[], str]) -> Iterator[None]:
    """Keep on disk who computes, for those who look on, until the end; nothing where this process alone does."""
    if not workers():
        yield
        return
    file, ended = folder / WORKERS, threading.Event()

    def beat() -> None:
        text, pause = "", 0.0
        while not ended.wait(pause):
            text, before, pause = workers(), text, SYNC_SECONDS
            if text != before:
                with suppress(OSError):  # no row depends on it
                    replace_file(file, text + "\n")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        file.unlink(missing_ok=True)

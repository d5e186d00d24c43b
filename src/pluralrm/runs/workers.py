"""Where verdicts are computed: in this process, or in several that each load the model from its spec."""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, reduce
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Self

from pluralrm.core import Identified, Query, RewardModel, Verdict
from pluralrm.errors import ModelError, RunError
from pluralrm.http import Metered, Settings, Tally
from pluralrm.models import KINDS, load_model, parse_model
from pluralrm.runs.verdicts import LONG, WINDOW, verdicts, windows

_SHARE = 16
"""Queries per task: a kill costs what is under way, at most two tasks a worker. Fixed: no row depends on timing."""


class LocalScorer:
    """The model in this process."""

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

    def __init__(self, spec: str, workers: int, settings: Settings | None) -> None:
        self._spec = spec
        self._ahead = 2 * workers
        self._tallies: dict[int, Tally | None] = {}
        self._settings = settings and replace(settings, concurrency=max(1, settings.concurrency // workers))
        # spawn: a forked child would inherit threads and locks of whatever the caller has loaded
        context = get_context("spawn")
        theirs, self._lifeline = context.Pipe(duplex=False)
        given = (spec, self._settings, theirs)
        self._executor = ProcessPoolExecutor(workers, context, initializer=_load, initargs=given)

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
        except BrokenProcessPool as exc:
            raise RunError("a worker process died; the rows so far are kept and the same command resumes") from exc

    def _landed(self, window: list[Query], future: "Future[_Done]") -> Iterator[tuple[Query, Verdict]]:
        done = future.result()
        self._tallies[done.process] = done.tally
        return zip(window, done.verdicts, strict=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which a terminal sends to all of a group: the parent alone answers it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def open_scorer(model: RewardModel | str, workers: int, settings: Settings | None = None) -> LocalScorer | WorkerPool:
    """Return where to compute the verdicts of a model."""
    if workers == 1:
        return LocalScorer(load_model(model, settings=settings) if isinstance(model, str) else model)
    if not isinstance(model, str):
        raise ModelError("several workers need a model that each can load: give a spec string, not an object")
    if settings is not None and KINDS[parse_model(model).kind].served:
        _refuse_sharing(settings, workers)
    return WorkerPool(model, workers, settings)


def _refuse_sharing(settings: Settings, workers: int) -> None:
    """Raise where processes would have to share what has one owner: an account, a cassette that is written."""
    owned = {"a highest cost": settings.max_cost is not None, "a recording": settings.record is not None}
    for name, wanted in owned.items():
        if wanted:
            raise RunError(
                f"{name} needs one process, found {workers} workers. A model behind a URL is not faster with several: "
                "leave --workers out, and raise --concurrency"
            )


def _identity(model: RewardModel) -> dict[str, str]:
    return dict(model.identity) if isinstance(model, Identified) else {}


def _tally(model: RewardModel) -> Tally | None:
    return model.tally if isinstance(model, Metered) else None


# ---------------------------------------------------------------- in a worker


class _Done(NamedTuple):
    """The verdicts on a window, and what the worker's model has asked of a server up to now."""

    verdicts: list[Verdict]
    process: int
    tally: Tally | None


_model: RewardModel


def _load(spec: str, settings: Settings | None, lifeline: Connection) -> None:
    """Load the model in a worker, which ends with the process that started it, however that one ends."""
    global _model  # noqa: PLW0603 - one model per worker process
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    _model = load_model(spec, settings=settings)


def _end_with(lifeline: Connection) -> None:
    lifeline.poll(None)  # nothing is ever sent: what wakes us is that the other end was closed
    os._exit(1)


def _work(window: list[Query]) -> _Done:
    return _Done(list(verdicts(_model, window)), os.getpid(), _tally(_model))

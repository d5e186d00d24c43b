"""Where verdicts are computed: in this process, or in several that each load the model from its spec."""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from pluralrm.core import Identified, Query, RewardModel, Verdict
from pluralrm.errors import ModelError, RunError
from pluralrm.models import load_model
from pluralrm.runs.windows import verdicts, windows

_SHARE = 16
"""Queries per task: a kill costs what is under way, at most two tasks a worker. Fixed: no row depends on timing."""


class Local:
    """The model in this process."""

    def __init__(self, model: RewardModel) -> None:
        self._model = model

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Nothing to close."""

    def verdicts(self, queries: Iterable[Query]) -> Iterator[tuple[Query, Verdict]]:
        """Yield each query with its verdict, in order."""
        for window in windows(queries):
            yield from zip(window, verdicts(self._model, window), strict=True)


class Pool:
    """Several processes; verdicts come back in the order of the queries, so the number of workers changes nothing."""

    def __init__(self, spec: str, workers: int) -> None:
        self._ahead = 2 * workers
        # spawn: a forked child would inherit threads and locks of whatever the caller has loaded
        context = get_context("spawn")
        theirs, self._lifeline = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(workers, context, initializer=_load, initargs=(spec, theirs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if exc is not None:
            self._lifeline.close()  # a worker in the middle of a slow verdict ends too
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._lifeline.close()

    def verdicts(self, queries: Iterable[Query]) -> Iterator[tuple[Query, Verdict]]:
        """Yield each query with its verdict, in order; a worker that dies stops the run, which can be resumed."""
        waiting: deque[tuple[list[Query], Future[list[Verdict]]]] = deque()
        try:
            for window in windows(queries, _SHARE):
                with _without_interrupts():
                    waiting.append((window, self._executor.submit(_work, window)))
                if len(waiting) >= self._ahead:
                    yield from _landed(*waiting.popleft())
            while waiting:
                yield from _landed(*waiting.popleft())
        except BrokenProcessPool as exc:
            raise RunError("a worker process died; the rows so far are kept and the same command goes on") from exc


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which a terminal sends to all of a group: the parent alone answers it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _landed(window: list[Query], future: "Future[list[Verdict]]") -> Iterator[tuple[Query, Verdict]]:
    return zip(window, future.result(), strict=True)


def open_scorer(model: RewardModel | str, workers: int) -> Local | Pool:
    """Return where to compute the verdicts of a model."""
    if workers == 1:
        return Local(load_model(model) if isinstance(model, str) else model)
    if not isinstance(model, str):
        raise ModelError("several workers need a model that each can load: give a spec string, not an object")
    return Pool(model, workers)


def identity(model: RewardModel | str) -> dict[str, str]:
    """Return what must stay the same while a run is resumed; loading a model by its spec reads no weights yet."""
    loaded = load_model(model) if isinstance(model, str) else model
    return dict(loaded.identity) if isinstance(loaded, Identified) else {}


_model: RewardModel


def _load(spec: str, lifeline: Connection) -> None:
    """Load the model in a worker, which ends with the process that started it, however that one ends."""
    global _model  # noqa: PLW0603 - one model per worker process
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    _model = load_model(spec)


def _end_with(lifeline: Connection) -> None:
    lifeline.poll(None)  # nothing is ever sent: what wakes us is that the other end was closed
    os._exit(1)


def _work(window: list[Query]) -> list[Verdict]:
    return list(verdicts(_model, window))

"""Where verdicts are computed: in this process, or in several that each load the model from its spec."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import TracebackType
from typing import Self

from pluralrm.core import Identified, Query, RewardModel, Verdict
from pluralrm.errors import ModelError, RunError
from pluralrm.models import load_model
from pluralrm.runs.windows import verdicts, windows

_SHARE = 64
"""Queries per task of a worker: small enough that two workers finish together."""


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
        self._executor = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_load, initargs=(spec,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._executor.shutdown(wait=exc is None, cancel_futures=True)

    def verdicts(self, queries: Iterable[Query]) -> Iterator[tuple[Query, Verdict]]:
        """Yield each query with its verdict, in order; a worker that dies stops the run, which can be resumed."""
        waiting: deque[tuple[list[Query], Future[list[Verdict]]]] = deque()
        try:
            for window in windows(queries, _SHARE):
                waiting.append((window, self._executor.submit(_work, window)))
                if len(waiting) >= self._ahead:
                    yield from _landed(*waiting.popleft())
            while waiting:
                yield from _landed(*waiting.popleft())
        except BrokenProcessPool as exc:
            raise RunError("a worker process died; the rows so far are kept and the same command goes on") from exc


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


def _load(spec: str) -> None:
    global _model  # noqa: PLW0603 - one model per worker process
    _model = load_model(spec)


def _work(window: list[Query]) -> list[Verdict]:
    return list(verdicts(_model, window))

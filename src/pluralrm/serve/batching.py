"""Concurrent requests, scored together: one model, one thread, a bounded queue.

While the model computes, requests gather; then all that wait go to it at once. Rollouts of one prompt become one Query,
so that the prompt with the user's posts is computed once for all of them. Scores do not depend on this: a model gives
the same whatever stands beside, but for one that compares answers with each other, whose requests are left as they
came.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pluralrm.core import Query, RewardModel, Score, Verdict
from pluralrm.errors import PluralrmError
from pluralrm.runs.windows import verdicts

_QUIET = 0.004
"""Seconds without a new request after which a gathering batch is complete."""
_SHARE = 0.1
"""Of the last batch's time, what is spent on waiting for more: clients that were answered together ask together."""
_LONGEST_WAIT = 0.25


class FullError(Exception):
    """No room; `seconds` is when there may be some."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"the queue is full; try again in {seconds:.0f} s")


class LateError(Exception):
    """The request's time was over before its turn came."""


class ClosedError(Exception):
    """The server is on its way out."""


@dataclass(slots=True)
class _Job:
    query: Query
    deadline: float
    answer: "asyncio.Future[Verdict]"


@dataclass
class Counters:
    """What happened so far."""

    batches: int = 0
    candidates: int = 0
    distinct: int = 0
    """Candidates that were computed: equal ones of one prompt are one."""
    queries: int = 0
    """After those of one prompt were put together."""
    late: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)


class Batcher:
    """Scores queries that come from many tasks of one event loop."""

    def __init__(self, model: RewardModel, *, relative: bool, room: int = 4096, most: int = 1024) -> None:
        self._model, self._relative, self._room, self._most = model, relative, room, most
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reward-model")
        self._closed = False
        self._worker: asyncio.Task[None] | None = None
        self._last = 0.0
        self.counters = Counters()

    def start(self) -> None:
        """Begin to score; call it in the event loop that asks."""
        self._worker = asyncio.get_running_loop().create_task(self._work())

    @property
    def working(self) -> bool:
        """False once it was drained, or a bug ended it."""
        return not self._closed and self._worker is not None and not self._worker.done()

    @property
    def queued(self) -> int:
        """Candidates that wait for their turn."""
        return sum(len(job.query.candidates) for job in self._waiting)

    async def scores(self, query: Query, *, seconds: float) -> tuple[Score, ...]:
        """Return the scores of a query's candidates, or raise FullError, LateError or ClosedError."""
        if self._closed:
            raise ClosedError
        if self.queued + len(query.candidates) > self._room:
            self.counters.refused += 1
            raise FullError(self._until_room())
        job = _Job(query, time.monotonic() + seconds, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        try:
            return (await asyncio.wait_for(job.answer, seconds)).scores
        except TimeoutError:
            self.counters.late += 1
            raise LateError from None

    async def drain(self) -> None:
        """Take nothing more, finish what waits, and stop."""
        self._closed = True
        self._arrived.set()
        if self._worker is not None:
            await self._worker
        self._thread.shutdown()

    def _until_room(self) -> float:
        done, spent = self.counters.candidates, self.counters.seconds
        return max(1.0, min(60.0, self.queued * spent / done / 2)) if done else 1.0

    async def _work(self) -> None:
        try:
            while not (self._closed and not self._waiting):
                if not self._waiting:
                    self._arrived.clear()
                    await self._arrived.wait()
                    continue
                await self._gather()
                if batch := self._taken():
                    await self._score(batch)
        finally:  # by a bug too: whoever waits is told at once, and nobody is let in
            self._closed = True
            for job in self._waiting:
                if not job.answer.done():
                    job.answer.set_exception(ClosedError())

    async def _gather(self) -> None:
        """Wait for those that come together with the first, a small share of what a batch takes."""
        until = time.monotonic() + min(_LONGEST_WAIT, max(_QUIET, _SHARE * self._last))
        seen = -1
        while len(self._waiting) > seen and time.monotonic() < until and self.queued < self._most:
            seen = len(self._waiting)
            await asyncio.sleep(_QUIET)

    def _taken(self) -> list[_Job]:
        """Take the requests that fill a batch, in the order in which they came; nobody waits for some of them."""
        batch: list[_Job] = []
        size = 0
        now = time.monotonic()
        while self._waiting and (not batch or size + len(self._waiting[0].query.candidates) <= self._most):
            job = self._waiting.popleft()
            if job.answer.done() or job.deadline <= now:
                continue
            batch.append(job)
            size += len(job.query.candidates)
        return batch

    async def _score(self, batch: Sequence[_Job]) -> None:
        groups = self._together(batch)
        queries = [_merged([job.query for job in group]) for group in groups]
        began = time.monotonic()
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self._compute, queries)
        except PluralrmError as exc:
            for job in batch:
                if not job.answer.done():
                    job.answer.set_exception(exc)
            return
        self._last = time.monotonic() - began
        self._count(batch, queries, found)
        for group, query, verdict in zip(groups, queries, found, strict=True):
            scores = dict(zip(query.candidates, verdict.scores, strict=True))
            for job in group:
                if not job.answer.done():
                    own = verdict.scores if self._relative else tuple(scores[one] for one in job.query.candidates)
                    job.answer.set_result(Verdict(own))

    def _compute(self, queries: Sequence[Query]) -> list[Verdict]:
        return list(verdicts(self._model, queries))

    def _together(self, batch: Sequence[_Job]) -> list[list[_Job]]:
        if self._relative:
            return [[job] for job in batch]
        groups: dict[Query, list[_Job]] = {}
        for job in batch:
            groups.setdefault(replace(job.query, candidates=()), []).append(job)
        return list(groups.values())

    def _count(self, batch: Sequence[_Job], queries: Sequence[Query], found: Sequence[Verdict]) -> None:
        counted = self.counters
        counted.batches += 1
        counted.queries += len(queries)
        counted.candidates += sum(len(job.query.candidates) for job in batch)
        counted.distinct += sum(len(query.candidates) for query in queries)
        counted.seconds += self._last
        for verdict in found:
            for failure in verdict.failures:
                counted.failures[failure.kind] = counted.failures.get(failure.kind, 0) + 1


def _merged(queries: Sequence[Query]) -> Query:
    """Return one query with every distinct candidate, in the order in which they came; one alone stays as it is."""
    if len(queries) == 1:
        return queries[0]
    return replace(queries[0], candidates=tuple(dict.fromkeys(one for query in queries for one in query.candidates)))

"""Concurrent requests, scored together: one model, one thread, a bounded queue.

While the model computes, requests gather; then all that wait go to it at once. Rollouts of one prompt become one Query,
so that the prompt with the user's posts is computed once for all of them. Scores do not depend on this: a model gives
the same whatever stands beside, but for one that compares answers with each other, whose requests are left as they
came.

A batch on which the model raises is halved, and its halves again, until what breaks stands alone: one broken query
among 1,024 costs twenty calls more. After an outage nothing is asked again, nor is a model that miscounts.
A condition that raises on one of several items is searched in the same way (`queries.py`).
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from pluralrm.core import Failure, Query, RewardModel, Score
from pluralrm.errors import ModelError, OutageError, PluralrmError
from pluralrm.runs.verdicts import MiscountError, verdicts
from pluralrm.serve.client import trainable

_CALLS = 256
"""Of the model for one batch, at most: where all of a large batch breaks, not every query can be asked alone."""

Answer = tuple[Score, ...] | PluralrmError
"""What became of one query: a score per candidate, or what the model raised."""


@dataclass
class BatchScores:
    """What became of a batch: an answer per query, in order, and what was computed for it."""

    answers: list[Answer]
    calls: int = 0
    queries: int = 0
    """That gave scores, after those of one prompt were put together."""
    distinct: int = 0
    """Candidates of these queries."""
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def broken(self) -> int:
        """Queries that have no scores."""
        return sum(isinstance(answer, PluralrmError) for answer in self.answers)


def scored(model: RewardModel, queries: Sequence[Query], *, relative: bool) -> BatchScores:
    """Return what became of each query; equal prompts are asked as one, but of a model that compares answers."""
    scores = BatchScores([ModelError(f"{model.spec}: was not asked")] * len(queries))

    def broken(places: Sequence[int], exc: PluralrmError) -> None:
        for index in places:
            scores.answers[index] = exc

    places = [index for group in _groups(queries, relative=relative) for index in group]
    compute = partial(_compute, model, queries, relative=relative, batch=scores)
    scores.calls = isolated(places, compute, broken)
    return scores


def isolated(
    places: Sequence[int],
    compute: Callable[[Sequence[int]], None],
    broken: Callable[[Sequence[int], PluralrmError], None],
) -> int:
    """Compute at all places, at the halves of those where that raises, and tell what is `broken`; return the calls."""
    waiting, calls = deque([places]), 0
    while waiting:
        places = waiting.popleft()
        calls += 1
        try:
            compute(places)
        except OutageError as exc:
            broken([*places, *(index for others in waiting for index in others)], exc)
            break
        except PluralrmError as exc:
            room = calls + len(waiting) + 2 <= _CALLS
            if len(places) > 1 and room and not isinstance(exc, MiscountError):
                half = len(places) // 2
                waiting.extend((places[:half], places[half:]))
            else:
                broken(places, exc)
    return calls


def _compute(
    model: RewardModel, queries: Sequence[Query], places: Sequence[int], *, relative: bool, batch: BatchScores
) -> None:
    """Write the scores of some queries; nothing where the model raises, for its order is known only in the end."""
    groups = _groups([queries[index] for index in places], relative=relative)
    merged = [_merged([queries[places[position]] for position in group]) for group in groups]
    rows = [tuple(map(trainable, verdict.scores)) for verdict in verdicts(model, merged)]
    batch.queries += len(merged)
    batch.distinct += sum(len(query.candidates) for query in merged)
    for group, query, row in zip(groups, merged, rows, strict=True):
        for failure in (score for score in row if isinstance(score, Failure)):
            batch.failures[failure.kind] = batch.failures.get(failure.kind, 0) + 1
        scores = dict(zip(query.candidates, row, strict=True))
        for index in (places[position] for position in group):
            own = queries[index]
            # One that was asked alone gets them as they came, equal answers or not.
            batch.answers[index] = row if query is own else tuple(scores[text] for text in own.candidates)


def _groups(queries: Sequence[Query], *, relative: bool) -> list[list[int]]:
    """Return the places of queries that may be asked as one: those of one prompt and one user."""
    if relative:
        return [[index] for index in range(len(queries))]
    groups: dict[Query, list[int]] = {}
    for index, query in enumerate(queries):
        groups.setdefault(replace(query, candidates=()), []).append(index)
    return list(groups.values())


def _merged(queries: Sequence[Query]) -> Query:
    """Return one query with every distinct candidate, in the order in which they came; one alone stays as it is."""
    if len(queries) == 1:
        return queries[0]
    return replace(
        queries[0], candidates=tuple(dict.fromkeys(candidate for query in queries for candidate in query.candidates))
    )


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


class TooManyError(Exception):
    """More answers in one request than there ever is room for."""

    def __init__(self, answers: int, room: int) -> None:
        super().__init__(
            f"{answers:,} answers in one request, room for {room:,}; send fewer, or serve with a larger --room"
        )


class RequestLateError(Exception):
    """The request's time was over before its turn came."""


class ClosedError(Exception):
    """The server is on its way out."""


@dataclass(slots=True)
class _Job:
    query: Query
    deadline: float
    answer: "asyncio.Future[tuple[Score, ...]]"


@dataclass
class Counters:
    """What happened so far."""

    batches: int = 0
    candidates: int = 0
    distinct: int = 0
    """Candidates that were computed: equal ones of one prompt are one."""
    queries: int = 0
    """After those of one prompt were put together."""
    broken: int = 0
    """Queries on which the model raised: no scores, and an error for their request alone."""
    again: int = 0
    """Calls of the model beyond one per batch, to find the queries on which it raised."""
    late: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)


class Batcher:
    """Scores queries that come from many tasks of one event loop."""

    def __init__(self, model: RewardModel, *, relative: bool, room: int = 4096, most: int = 1024) -> None:
        self._model, self._relative, self._room, self._most = model, relative, room, most
        self._waiting: OrderedDict[asyncio.Future[tuple[Score, ...]], _Job] = OrderedDict()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reward-model")
        self._closed = False
        self._worker: asyncio.Task[None] | None = None
        self._last = 0.0
        self._computing = False
        self.queued = 0
        """Candidates that wait for their turn; those of closed requests do not count."""
        self.bug: BaseException | None = None
        """What ended the scoring, where it was not asked to end."""
        self.counters = Counters()

    def start(self, *, broken: Callable[[], None] = lambda: None) -> None:
        """Begin to score; call it in the event loop that asks. `broken` is called when a bug ends it."""
        self._worker = asyncio.get_running_loop().create_task(self._work())
        self._worker.add_done_callback(lambda task: self._ended(task, broken))

    @property
    def working(self) -> bool:
        """False once it was drained, or a bug ended it."""
        return not self._closed and self._worker is not None and not self._worker.done()

    @property
    def busy(self) -> bool:
        """Whether anything waits for its scores."""
        return self._computing or bool(self._waiting)

    async def scores(self, queries: Sequence[Query], *, seconds: float) -> list[tuple[Score, ...]]:
        """Return the scores of a request's queries; FullError, TooManyError, LateError or ClosedError for all of it.

        What the model raises on one of them is raised here; other requests of the batch have their scores.
        """
        jobs = self._let_in(queries, time.monotonic() + seconds)
        try:
            async with asyncio.timeout(seconds):
                return [await job.answer for job in jobs]
        except TimeoutError:
            self.counters.late += 1
            raise RequestLateError from None
        finally:
            for job in jobs:
                self._leave(job)

    async def drain(self, seconds: float) -> bool:
        """Take nothing more, finish what waits, and stop; False where the model did not come back in time."""
        self._closed = True
        self._arrived.set()
        if self._worker is None:
            return True
        await asyncio.wait({self._worker}, timeout=seconds)
        finished = self._worker.done()
        self._worker.cancel()  # who still waits is told
        self._thread.shutdown(wait=finished)
        return finished

    def _let_in(self, queries: Sequence[Query], deadline: float) -> list[_Job]:
        """Return the jobs of a request, which has room as a whole or not at all."""
        if self._closed:
            raise ClosedError
        answers = sum(len(query.candidates) for query in queries)
        if answers > self._room:
            raise TooManyError(answers, self._room)
        if self.queued + answers > self._room:
            self.counters.refused += 1
            raise FullError(self._until_room())
        loop = asyncio.get_running_loop()
        jobs = [_Job(query, deadline, loop.create_future()) for query in queries]
        self._waiting.update({job.answer: job for job in jobs})
        self.queued += answers
        self._arrived.set()
        return jobs

    def _leave(self, job: _Job) -> None:
        """Give back the room of a job that no client waits for any more."""
        if self._waiting.pop(job.answer, None) is not None:
            self.queued -= len(job.query.candidates)
        if not job.answer.cancel() and not job.answer.cancelled():
            job.answer.exception()  # it was told, or another of the same request was

    def _until_room(self) -> float:
        done, spent = self.counters.candidates, self.counters.seconds
        return max(1.0, min(60.0, self.queued * spent / done / 2)) if done else 1.0

    def _ended(self, task: "asyncio.Task[None]", broken: Callable[[], None]) -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            self.bug = bug
            broken()

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
        finally:  # by a bug too: waiting requests fail at once, and no new one is accepted
            self._closed = True
            _close(list(self._waiting.values()))

    async def _gather(self) -> None:
        """Wait for those that come together with the first, a small share of what a batch takes."""
        until = time.monotonic() + min(_LONGEST_WAIT, max(_QUIET, _SHARE * self._last))
        seen = -1
        while len(self._waiting) > seen and time.monotonic() < until and self.queued < self._most:
            seen = len(self._waiting)
            await asyncio.sleep(_QUIET)

    def _taken(self) -> list[_Job]:
        """Take the requests that fill a batch, in the order in which they came; clients of some have left."""
        batch: list[_Job] = []
        size = 0
        now = time.monotonic()
        while self._waiting:
            job = next(iter(self._waiting.values()))
            if batch and size + len(job.query.candidates) > self._most:
                break
            del self._waiting[job.answer]
            self.queued -= len(job.query.candidates)
            if job.deadline > now:
                batch.append(job)
                size += len(job.query.candidates)
        return batch

    async def _score(self, batch: Sequence[_Job]) -> None:
        queries = [job.query for job in batch]
        compute = partial(scored, self._model, queries, relative=self._relative)
        began, self._computing = time.monotonic(), True
        try:
            scores = await asyncio.get_running_loop().run_in_executor(self._thread, compute)
            self._last = time.monotonic() - began
            self._count(queries, scores)
            for job, answer in zip(batch, scores.answers, strict=True):
                _settle(job, answer)
        finally:
            self._computing = False
            _close(batch)  # whom a bug left without an answer

    def _count(self, queries: Sequence[Query], scores: BatchScores) -> None:
        counted = self.counters
        counted.batches += 1
        counted.again += scores.calls - 1
        counted.broken += scores.broken
        counted.queries += scores.queries
        counted.distinct += scores.distinct
        counted.seconds += self._last
        for query, answer in zip(queries, scores.answers, strict=True):
            counted.candidates += 0 if isinstance(answer, PluralrmError) else len(query.candidates)
        for kind, count in scores.failures.items():
            counted.failures[kind] = counted.failures.get(kind, 0) + count


def _settle(job: _Job, answer: Answer) -> None:
    if job.answer.done():
        return
    if isinstance(answer, PluralrmError):
        job.answer.set_exception(answer)
    else:
        job.answer.set_result(answer)


def _close(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if not job.answer.done():
            job.answer.set_exception(ClosedError())

"""A server as a whole: calls in, replies out, in order, whatever happens on the way.

The event loop runs in a thread of its own, so that callers stay synchronous.
"""

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from functools import partial
from itertools import islice
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar

from pluralrm.core import Failure
from pluralrm.digests import digest
from pluralrm.errors import PrivacyError, ServiceError
from pluralrm.http.addresses import ENGINE, Address, read_key
from pluralrm.http.attempts import Caller, Clock, Stream, patience, require_library
from pluralrm.http.cache import ReplyStore
from pluralrm.http.calls import Call, Ledger, Reply, Settings, Tally, UnsoundError, read_content, usage_of
from pluralrm.http.dry_run import DryRun

T = TypeVar("T")

_PATIENCE = 5.0
"""Seconds that closing may take before the thread is left behind; it is a daemon, so it keeps no process alive."""
_GATHER = 0.002
"""Seconds over which results are gathered before the reader is woken: two threads that wake each other for every one of
them spend 0.15 ms of CPU per call on it."""


class Background:
    """A running loop. `closing` is awaited in it when it stops."""

    def __init__(self, closing: Callable[[], Awaitable[None]]) -> None:
        self._closing = closing
        self.loop = asyncio.new_event_loop()
        self._enough = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="pluralrm-http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancel what still runs, close, and end the thread."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._enough.set)
            if threading.current_thread() is not self._thread:  # a task may drop the last reference to its service
                self._thread.join(_PATIENCE)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._until_enough())

    async def _until_enough(self) -> None:
        await self._enough.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(2 * _GATHER)  # a reader in another thread learns of it
        await self._closing()


class Errands(Generic[T]):
    """Coroutines that run in a loop, sent from another thread; results are fetched in the order of sending."""

    def __init__(self, background: Background) -> None:
        self._loop = background.loop
        self._running: dict[int, asyncio.Task[T]] = {}
        self._gathered: dict[int, asyncio.Task[T]] = {}
        self._arrived: SimpleQueue[dict[int, asyncio.Task[T]]] = SimpleQueue()
        self._done: dict[int, asyncio.Task[T]] = {}
        self._sent = self._fetched = 0

    @property
    def waiting(self) -> int:
        """How many results are still to be fetched."""
        return self._sent - self._fetched

    def send(self, coroutines: Sequence[Coroutine[object, object, T]]) -> None:
        """Start coroutines in the loop."""
        self._loop.call_soon_threadsafe(self._start, self._sent, coroutines)
        self._sent += len(coroutines)

    def fetch(self) -> T:
        """Wait for the next result and return it; RuntimeError where the loop has ended before it."""
        while self._fetched not in self._done:
            self._done |= self._arrived.get()
        task = self._done.pop(self._fetched)
        self._fetched += 1
        if task.cancelled():
            raise RuntimeError("the service is closed")
        return task.result()

    def cancel(self) -> None:
        """Cancel what still runs."""
        if self.waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _start(self, first: int, coroutines: Sequence[Coroutine[object, object, T]]) -> None:
        for number, coroutine in enumerate(coroutines, first):
            task = self._loop.create_task(coroutine)
            self._running[number] = task
            task.add_done_callback(partial(self._land, number))

    def _land(self, number: int, task: asyncio.Task[T]) -> None:
        if not self._gathered:
            self._loop.call_later(_GATHER, self._deliver)
        self._gathered[number] = self._running.pop(number, task)

    def _deliver(self) -> None:
        self._arrived.put(self._gathered)
        self._gathered = {}

    def _cancel(self) -> None:
        for task in self._running.values():
            task.cancel()


_AHEAD = 4
"""Calls that may wait, run or be done unread, per call in flight."""


class Service:
    """One model on one server. Close it, or use it with `with`; it also ends with its last reference.

    `key` names the environment variable of the key; without a name it is the default one, and none where it is False.
    A call that may hold what users wrote goes to a server elsewhere only where the settings say `send_posts`; that is
    decided here and nowhere else.
    """

    def __init__(
        self,
        address: Address,
        settings: Settings | None = None,
        *,
        model: str = "",
        key: str | Literal[False] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.address, self.model = address, model
        self._settings = settings or Settings()
        used = self._settings
        self._ledger = Ledger(model, used.prices, used.max_cost, used.purse)
        secret = None
        if used.replay is None and used.dry_run is None:
            require_library()
            secret = None if key is False else read_key(address, key)
        writing = used.dry_run is None
        self._kept = ReplyStore(
            cache=used.cache if writing else None, record=used.record if writing else None, replay=used.replay
        )
        self._caller = Caller(address, secret, used, ledger=self._ledger, clock=clock or Clock())
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._background: Background | None = None
        self._end = weakref.finalize(self, self._kept.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def tally(self) -> Tally:
        """What was asked so far, and what it cost."""
        return self._ledger.tally

    @property
    def sees_posts(self) -> bool:
        """True where calls may hold what users wrote: on this machine, from a recording, or because it is allowed."""
        return self._settings.send_posts or self.address.loopback or self.replaying or self.dry_run is not None

    @property
    def dry_run(self) -> DryRun | None:
        """Where calls are counted in place of being sent; None where they are sent."""
        return None if self.replaying else self._settings.dry_run

    @property
    def replaying(self) -> bool:
        """True where a recording answers and no server is asked."""
        return self._kept.replaying

    def key(self, call: Call) -> str:
        """Return what the reply to a call is kept under."""
        return digest(call.shape(self.address.url))

    def forget(self, calls: Iterable[Call]) -> bool:
        """Remove the replies to some calls from the cache; return False where a recording holds them too."""
        keys = [self.key(call) for call in calls]

        async def forgetting() -> bool:
            return self._kept.forget(keys)

        return asyncio.run_coroutine_threadsafe(forgetting(), self._started().loop).result()

    def close(self) -> None:
        """Cancel what is in flight and close every connection and file."""
        self._end()

    def replies(self, calls: Iterable[Call], read: Callable[[object], T]) -> Generator[Reply[T] | Failure, None, None]:
        """Yield what `read` makes of each reply, in the order of the calls, or why there is none.

        `read` raises UnsoundError for a reply that is not what the protocol promises: it counts as a failed attempt.
        Calls are taken from `calls` as there is room for them, so their number and memory are bounded. PrivacyError at
        the first that may not be sent.
        """
        source = map(self._allowed, calls)
        if (dry := self.dry_run) is not None:
            yield from (dry.reply(self.model, call, read) for call in source)
            return
        stream = Stream(patience(self._settings))
        share = self._settings.concurrency
        errands: Errands[Reply[T] | Failure | ServiceError] = Errands(self._started())
        try:
            while True:
                if errands.waiting <= (_AHEAD - 1) * share:  # many at once: sending one by one costs time
                    self._started()
                    batch = list(islice(source, share))
                    errands.send([self._get(call, read, stream) for call in batch])
                if not errands.waiting:
                    return
                outcome = errands.fetch()
                if isinstance(outcome, ServiceError):
                    raise outcome
                yield outcome
        finally:
            errands.cancel()

    def _allowed(self, call: Call) -> Call:
        if not (call.public or self.sees_posts):
            raise PrivacyError.of(self.address.url, "the request holds what a user wrote")
        return call

    def _started(self) -> Background:
        if not self._end.alive:
            raise RuntimeError("the service is closed")
        if self.address.url == ENGINE:
            raise ServiceError(
                f"url={ENGINE} is for a judge, synthesizeme: or summary: with --on ray, whose replicas start it; "
                "name a URL"
            )
        if self._background is None:
            caller, store = self._caller, self._kept

            async def closing() -> None:
                await caller.close()
                store.close()

            self._background = Background(closing)
            self._end.detach()
            self._end = weakref.finalize(self, self._background.stop)
        return self._background

    async def _get(self, call: Call, read: Callable[[object], T], stream: Stream) -> Reply[T] | Failure | ServiceError:
        """Return the reply, kept or new; an error is returned too: an abandoned task must not raise it."""
        try:
            return await (self._shared if self._kept.any else self._fetch)(call, read, stream)
        except ServiceError as exc:
            stream.stop(exc)
            return exc

    async def _fetch(self, call: Call, read: Callable[[object], T], stream: Stream) -> Reply[T] | Failure:
        answer = await self._caller.ask(call, read, stream)
        return answer if isinstance(answer, Failure) else answer.reply

    async def _shared(self, call: Call, read: Callable[[object], T], stream: Stream) -> Reply[T] | Failure:
        """Return the kept reply, or ask the server and keep what it says."""
        request = call.shape(self.address.url)
        key = digest(request)
        # Equal requests wait for each other, so that a reply depends neither on the order nor on the concurrency.
        async with self._turns.setdefault(key, asyncio.Lock()):
            if (content := self._kept.get(call, key, request)) is not None:
                return self._cached(content, read)
            if self._kept.replaying:
                return Failure("transport", self._kept.missing(request))
            answer = await self._caller.ask(call, read, stream)
            if not isinstance(answer, Failure):
                content = self._kept.put(call, key, request, answer.content)
                return answer.reply if content is answer.content else self._read_again(content, read)
            if answer.kind != "too_long":  # that is the text's own failure, all others are of the moment
                return answer
            content = self._kept.refuse(key, request, answer)
            return answer if content is answer else self._read_again(content, read)

    def _cached(self, content: object, read: Callable[[object], T]) -> Reply[T] | Failure:
        """Return what is kept; that a text was too long is no reply, and is not counted as one."""
        if not isinstance(content, Failure):
            self._ledger.answer(cached=True)
        return self._read_again(content, read)

    def _read_again(self, content: object, read: Callable[[object], T]) -> Reply[T] | Failure:
        if isinstance(content, Failure):
            return content
        try:
            return Reply(read_content(read, content), usage_of(content), cached=True)
        except UnsoundError as exc:
            raise ServiceError(f"{self._kept.places}: a kept reply cannot be read ({exc}). Remove the file") from exc

"""An event loop in a thread of its own, so that callers stay synchronous; the way to it and back."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

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

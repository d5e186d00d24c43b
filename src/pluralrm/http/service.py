"""A server as a whole: calls in, replies out, in order, whatever happens on the way."""

import asyncio
import weakref
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from types import TracebackType
from typing import Literal, Self, TypeVar

from pluralrm.core import Failure, digest
from pluralrm.errors import PrivacyError, ServiceError
from pluralrm.http.addresses import Address, read_key
from pluralrm.http.answers import usage_of
from pluralrm.http.attempts import Caller, Stream
from pluralrm.http.background import Background, Errands
from pluralrm.http.budget import Ledger, Tally
from pluralrm.http.calls import Call, Reply, UnsoundError, read_content
from pluralrm.http.kept import Kept
from pluralrm.http.retries import Clock
from pluralrm.http.settings import Settings
from pluralrm.http.transport import require_library

T = TypeVar("T")

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
        self.address = address
        self._settings = settings or Settings()
        used = self._settings
        self._ledger = Ledger(model, used.prices, used.max_cost, used.purse)
        secret = None
        if used.replay is None:
            require_library()
            secret = None if key is False else read_key(address, key)
        self._kept = Kept(cache=used.cache, record=used.record, replay=used.replay)
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
        return self._settings.send_posts or self.address.loopback or self.replaying

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
        stream = Stream(patience=max(self._settings.concurrency, 8))
        source = map(self._allowed, calls)
        share = self._settings.concurrency
        errands: Errands[Reply[T] | Failure | ServiceError] = Errands(self._started())
        try:
            while True:
                if errands.waiting <= (_AHEAD - 1) * share:  # many at once: sending one by one costs time
                    self._started()
                    batch = list(islice(source, share))
                    errands.send([self._one(call, read, stream) for call in batch])
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
            raise PrivacyError(self.address.url, "the request holds what a user wrote")
        return call

    def _started(self) -> Background:
        if not self._end.alive:
            raise RuntimeError("the service is closed")
        if self._background is None:
            caller, kept = self._caller, self._kept

            async def closing() -> None:
                await caller.close()
                kept.close()

            self._background = Background(closing)
            self._end.detach()
            self._end = weakref.finalize(self, self._background.stop)
        return self._background

    async def _one(self, call: Call, read: Callable[[object], T], stream: Stream) -> Reply[T] | Failure | ServiceError:
        """Return the reply, kept or new; an error is returned too: a task that nobody reads must not raise it."""
        try:
            return await (self._shared if self._kept.any else self._asked)(call, read, stream)
        except ServiceError as exc:
            stream.stop(exc)
            return exc

    async def _asked(self, call: Call, read: Callable[[object], T], stream: Stream) -> Reply[T] | Failure:
        answer = await self._caller.ask(call, read, stream)
        return answer if isinstance(answer, Failure) else answer.reply

    async def _shared(self, call: Call, read: Callable[[object], T], stream: Stream) -> Reply[T] | Failure:
        """Return the kept reply, or ask the server and keep what it says."""
        request = call.shape(self.address.url)
        key = digest(request)
        # Equal requests wait for each other, so that a reply depends neither on the order nor on the concurrency.
        async with self._turns.setdefault(key, asyncio.Lock()):
            if (content := self._kept.get(call, key, request)) is not None:
                return self._known(content, read)
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

    def _known(self, content: object, read: Callable[[object], T]) -> Reply[T] | Failure:
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

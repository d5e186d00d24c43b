"""The queue by itself: room, whom a bug leaves without an answer, and who is merged with whom."""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from pluralrm.core import Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.serve.batching import Batcher, ClosedError, FullError, TooManyError
from tests.serve.test_server import Slow


class Unforeseen(BaseException):
    """What a library in another language raises when it panics: no Exception."""


@dataclass
class Panics:
    spec: str = "panics"
    gate: threading.Event = field(default_factory=threading.Event)
    raised: BaseException = field(default_factory=Unforeseen)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            self.gate.wait(240)
            if query.candidates:
                raise self.raised
            yield Verdict(())


@dataclass
class ByPlace:
    """Scores an answer by its place: as a judge that is asked anew for each."""

    spec: str = "by-place"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(map(float, range(len(query.candidates)))))


def about(*candidates: str, prompt: str = "Which flour?") -> Query:
    return Query("q", prompt, candidates)


async def settled(batcher: Batcher, queued: int) -> None:
    """Return when so many answers wait."""
    async with asyncio.timeout(240):
        while batcher.queued != queued:
            await asyncio.sleep(0.005)


def test_a_bug_tells_everybody_at_once_and_lets_nobody_in() -> None:
    """Those whose batch it was, those who wait, those who come: none is left to its deadline."""
    model, told = Panics(), list[str]()

    async def all_of_it() -> tuple[list[object], BaseException | None]:
        batcher = Batcher(model, relative=False, most=1)
        batcher.start(broken=lambda: told.append("broken"))
        asked = [asyncio.ensure_future(batcher.scores([about(text)], seconds=240)) for text in ("a", "b", "c")]
        await settled(batcher, 2)
        model.gate.set()
        async with asyncio.timeout(240):
            found: list[object] = list(await asyncio.gather(*asked, return_exceptions=True))
        with pytest.raises(ClosedError):
            await batcher.scores([about("d")], seconds=240)
        assert not batcher.working
        assert await batcher.drain(5)
        return found, batcher.bug

    found, bug = asyncio.run(all_of_it())
    assert [type(one) for one in found] == [ClosedError] * 3
    assert isinstance(bug, Unforeseen)
    assert told == ["broken"]


def test_a_model_that_leaves_the_program_is_an_error_of_the_model() -> None:
    model = Panics(raised=SystemExit(0))
    model.gate.set()

    async def asked() -> None:
        batcher = Batcher(model, relative=False)
        batcher.start()
        with pytest.raises(ModelError, match="SystemExit"):
            await batcher.scores([about("a")], seconds=240)
        assert batcher.working
        await batcher.drain(5)

    asyncio.run(asked())


def test_whoever_leaves_gives_back_the_room_while_the_model_is_still_busy() -> None:
    model = Slow(gate=threading.Event())

    async def all_of_it() -> list[list[tuple[object, ...]]]:
        batcher = Batcher(model, relative=False, room=4, most=1)
        batcher.start()
        first = asyncio.ensure_future(batcher.scores([about("first")], seconds=240))
        while not model.asked:
            await asyncio.sleep(0.005)
        for _ in range(5):  # each leaves, by its own will or by its deadline
            leaver = asyncio.ensure_future(batcher.scores([about("a"), about("b", "c")], seconds=240))
            await settled(batcher, 3)
            leaver.cancel()
            await asyncio.wait({leaver})
            await settled(batcher, 0)
        second = asyncio.ensure_future(batcher.scores([about("a", "bb", "ccc", "dddd")], seconds=240))
        await settled(batcher, 4)
        with pytest.raises(FullError):
            await batcher.scores([about("e")], seconds=240)
        assert model.gate is not None
        model.gate.set()
        found = [*await asyncio.gather(first, second)]
        await batcher.drain(5)
        assert batcher.queued == 0
        return found  # type: ignore[return-value]

    assert asyncio.run(all_of_it()) == [[(5.0,)], [(1.0, 2.0, 3.0, 4.0)]]
    assert [query.candidates for window in model.asked for query in window] == [("first",), ("a", "bb", "ccc", "dddd")]


def test_a_request_finds_room_as_a_whole_or_not_at_all() -> None:
    model = Slow(gate=threading.Event())

    async def all_of_it() -> None:
        batcher = Batcher(model, relative=False, room=3, most=1)
        batcher.start()
        first = asyncio.ensure_future(batcher.scores([about("first")], seconds=240))
        while not model.asked:
            await asyncio.sleep(0.005)
        second = asyncio.ensure_future(batcher.scores([about("a"), about("b")], seconds=240))
        await settled(batcher, 2)
        with pytest.raises(FullError):
            await batcher.scores([about("c"), about("d")], seconds=240)
        assert batcher.queued == 2
        with pytest.raises(TooManyError, match="4 answers in one request, room for 3"):  # it would never be let in
            await batcher.scores([about("c", "d"), about("e", "f")], seconds=240)
        assert model.gate is not None
        model.gate.set()
        await asyncio.gather(first, second)
        await batcher.drain(5)

    asyncio.run(all_of_it())


@pytest.mark.parametrize("relative", [False, True])
def test_equal_answers_asked_in_one_rollout_get_the_scores_of_a_direct_run(relative: bool) -> None:
    query = about("same", "same", "same")
    [direct] = ByPlace().score([query])

    async def asked() -> list[tuple[object, ...]]:
        batcher = Batcher(ByPlace(), relative=relative)
        batcher.start()
        found = await batcher.scores([query], seconds=240)
        await batcher.drain(5)
        return found  # type: ignore[return-value]

    assert asyncio.run(asked()) == [direct.scores]


@pytest.mark.parametrize("relative", [False, True])
def test_what_compares_is_asked_for_each_request_by_itself(relative: bool) -> None:
    """Two requests about one prompt, together in one batch: merged, the second would be compared with the first's."""
    queries = [about("a", "b"), about("b", "c")]

    async def asked() -> list[list[tuple[object, ...]]]:
        batcher = Batcher(ByPlace(), relative=relative)
        batcher.start()
        found = await asyncio.gather(*(batcher.scores([query], seconds=240) for query in queries))
        assert batcher.counters.batches == 1
        await batcher.drain(5)
        return found  # type: ignore[return-value]

    merged = [[(0.0, 1.0)], [(1.0, 2.0)]]
    assert asyncio.run(asked()) == ([[(0.0, 1.0)]] * 2 if relative else merged)


def test_a_model_that_does_not_come_back_is_not_waited_for_for_ever() -> None:
    model = Slow(gate=threading.Event())

    async def asked() -> bool:
        batcher = Batcher(model, relative=False)
        batcher.start()
        waits = asyncio.ensure_future(batcher.scores([about("a")], seconds=240))
        while not model.asked:
            await asyncio.sleep(0.005)
        finished = await batcher.drain(0.2)
        with pytest.raises(ClosedError):
            await waits
        return finished

    assert asyncio.run(asked()) is False
    assert model.gate is not None
    model.gate.set()

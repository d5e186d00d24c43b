"""The queue of windows at 64 replicas, in virtual time: the real dispatcher, on actors that only let time pass."""

import heapq
import queue
import random
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from pluralrm.cluster import Cluster, replicas
from pluralrm.runs.workers import CLUSTER_SHARE

DEVICES = 64
LOADING = 90.0
"""Seconds in which a model is loaded."""
TOKENS = 60_000
"""In a second, of one device."""


class Clock:
    """Virtual time, what will happen, and the events that the dispatcher waits for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._events: deque[Callable[[], None] | None] = deque()
        self._number = 0
        self.idle: Callable[[], bool] = lambda: True
        """Lets the command go on; False once it has all answers."""

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._later, (self.now + seconds, self._number, action))

    def put(self, event: Callable[[], None] | None) -> None:
        self._events.append(event)

    def empty(self) -> bool:
        return not self._events

    def get(self, timeout: float = 0.0) -> Callable[[], None] | None:
        end = self.now + timeout
        while not self._events:
            if not self.idle():
                return None
            if self._events:
                break
            if not self._later or self._later[0][0] > end:
                self.now = end
                raise queue.Empty
            self.now, _, action = heapq.heappop(self._later)
            action()
        return self._events.popleft()


class Machine:
    """Devices; an actor takes one until it is killed, loads its model, and computes one window after the other."""

    exceptions = SimpleNamespace(RayError=RuntimeError, RayTaskError=KeyError)

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free, self.busy = clock, DEVICES, 0.0
        self._waiting: deque[Future[Any]] = deque()

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "Resources": {"CPU": 8.0, "GPU": 8.0}} for _ in range(DEVICES // 8)]

    def remote(self, **_: object) -> Callable[[type], SimpleNamespace]:
        return lambda _: SimpleNamespace(remote=lambda: Actor(self))

    def kill(self, actor: "Actor") -> None:
        if actor.placed.done():
            self.free += 1
            self.fill()
        elif actor.placed in self._waiting:
            self._waiting.remove(actor.placed)

    def ask(self, placed: "Future[Any]") -> None:
        self._waiting.append(placed)
        self.fill()

    def fill(self) -> None:
        while self.free and self._waiting:
            self.free -= 1
            node = replicas._Node("here", replicas._host(), True)
            self._waiting.popleft().set_result(replicas._Reply(node))


class Actor:
    """One replica; a call is a future that is done when its virtual time has come."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._until = machine, 0.0
        self.placed: Future[Any] = Future()
        self.place = SimpleNamespace(remote=self._place)
        self.open = SimpleNamespace(remote=lambda *_: self._work(LOADING, None))
        self.answer = SimpleNamespace(remote=lambda window: self._work(sum(window) / TOKENS, window))

    def _place(self) -> SimpleNamespace:
        self._machine.clock.after(0.0, lambda: self._machine.ask(self.placed))
        return SimpleNamespace(future=lambda: self.placed)

    def _work(self, seconds: float, value: object) -> SimpleNamespace:
        clock, done = self._machine.clock, Future[Any]()
        self._until = max(self._until, clock.now) + seconds
        self._machine.busy += seconds
        clock.after(self._until - clock.now, lambda: done.set_result(replicas._Reply(value)))
        return SimpleNamespace(future=lambda: done)


class Cell:
    """A run: so many windows under way as `ReplicaPool.answers` allows, answers taken in order, without waiting."""

    def __init__(self, pool: "replicas.ReplicaPool[list[int], list[int]]", windows: Iterator[list[int]]) -> None:
        self._pool, self._windows = pool, windows
        self._under_way: deque[Future[list[int]]] = deque()
        self._more = True
        self.rows = 0

    def advance(self) -> bool:
        """Take and give what can be taken and given now; whether there will be more."""
        while self._under_way and self._under_way[0].done():
            self.rows += len(self._under_way.popleft().result())
        while self._more and len(self._under_way) < self._pool.ahead:
            if (window := next(self._windows, None)) is None:
                self._more = False
            else:
                self._under_way.append(self._pool.submit(window).future)
        return self._more or bool(self._under_way)


def lengths(items: int, *, posts: bool, seed: int) -> list[int]:
    """Return tokens per query: log-normal answers, and users with few posts beside users with very many."""
    draw = random.Random(seed)
    answers = [round(draw.lognormvariate(6.2, 0.6)) * 2 for _ in range(items)]
    shown = [round(min(draw.lognormvariate(7.2, 1.1), 30_000)) if posts else 0 for _ in range(items)]
    return [own + user for own, user in zip(answers, shown, strict=True)]


def windows(queries: list[int]) -> Iterator[list[int]]:
    for first in range(0, len(queries), CLUSTER_SHARE):
        yield queries[first : first + CLUSTER_SHARE]


def idle_share(jobs: list[tuple[str, list[int]]], monkeypatch: pytest.MonkeyPatch, *, at_once: int = 16) -> float:
    """Return which part of the devices' time nobody used; jobs are runs by model, so many side by side."""
    clock = Clock()
    machine = Machine(clock)
    cluster = Cluster("ray:head:1,gpus=1", ray=machine)
    monkeypatch.setattr(cluster, "_events", clock)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    todo = deque(jobs)
    open_: list[Cell] = []
    rows = 0

    def command() -> bool:
        nonlocal rows
        for cell in list(open_):
            if not cell.advance():
                open_.remove(cell)
                rows += cell.rows
        while todo and len(open_) < at_once:
            model, queries = todo.popleft()
            open_.append(Cell(cluster.pool(model, lambda: list), windows(queries)))
            open_[-1].advance()
        return bool(open_)

    clock.idle = command
    cluster._dispatch()
    assert rows == sum(len(queries) for _, queries in jobs)
    return 1 - machine.busy / (DEVICES * clock.now)


def grid(models: int, conditions: int, items: int = 2_830) -> list[tuple[str, list[int]]]:
    return [
        (f"m{model}", lengths(items, posts=condition > 0, seed=condition))
        for model in range(models)
        for condition in range(conditions)
    ]


def test_twenty_models_under_four_conditions_leave_devices_idle_for_less_than_5_per_cent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 0 < idle_share(grid(20, 4), monkeypatch) < 0.05


def test_one_run_after_the_other_would_leave_more_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    side_by_side = idle_share(grid(4, 4), monkeypatch)
    assert idle_share(grid(4, 4), monkeypatch, at_once=1) > 2 * side_by_side


def test_a_model_waits_for_room_as_long_as_another_of_ours_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes without any replica end a run; hours behind another model do not."""
    short, long = [10] * 300, [40_000_000] * 1_600
    assert idle_share([("a", short), ("b", long), ("c", short)], monkeypatch, at_once=2) < 1  # and all rows came

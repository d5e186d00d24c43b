"""What `pluralrm.cluster` uses of Ray, in threads of this process: actors that answer in order, and can be killed."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    """As in ray.exceptions."""


class RayTaskError(RayError):
    """As in ray.exceptions."""


class ActorDiedError(RayError):
    """As in ray.exceptions."""


class Ref:
    def __init__(self) -> None:
        self.result: Future[Any] = Future()

    def future(self) -> "Future[Any]":
        return self.result


class Actor:
    """One thread, which answers calls in order; `killed` fails what is under way and all that comes."""

    def __init__(self, instance: object, done: Callable[["Actor"], None]) -> None:
        self._instance, self._done = instance, done
        self._thread = ThreadPoolExecutor(1)
        self._refs: list[Ref] = []
        self._turn = threading.RLock()
        self.answered = 0
        self.dead = False

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *arguments: self._call(name, arguments))

    def _call(self, name: str, arguments: Sequence[object]) -> Ref:
        ref = Ref()
        with self._turn:
            if self.dead:
                ref.result.set_exception(ActorDiedError("The actor is dead"))
                return ref
            self._refs.append(ref)
            self._thread.submit(self._work, ref, name, arguments)
        return ref

    def _work(self, ref: Ref, name: str, arguments: Sequence[object]) -> None:
        try:
            result, error = getattr(self._instance, name)(*arguments), None
        except Exception as exc:  # noqa: BLE001
            result, error = None, exc
        with self._turn:
            if self.dead:
                return
            self._refs.remove(ref)
        self.answered += name == "answer"
        if error is None:
            ref.result.set_result(result)
        else:
            ref.result.set_exception(error)
        self._done(self)

    def die(self) -> None:
        with self._turn:
            self.dead, refs = True, self._refs
            self._refs = []
        for ref in refs:
            ref.result.set_exception(ActorDiedError("The actor died unexpectedly before finishing this task."))
        self._thread.shutdown(wait=False)


class FakeRay:
    """A cluster of nodes with so many resources; `after(actor)` is called after each of an actor's answers."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError, ActorDiedError=ActorDiedError)

    def __init__(self, *nodes: dict[str, float], after: Callable[[Actor], None] = lambda _: None) -> None:
        self._nodes, self._after = nodes, after
        self.actors: list[Actor] = []
        self.options: list[dict[str, Any]] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": node} for node in self._nodes]

    def remote(self, **options: Any) -> Callable[[type], SimpleNamespace]:
        self.options.append(options)

        return lambda kind: SimpleNamespace(remote=self._actor(kind))

    def _actor(self, kind: type) -> Callable[[], Actor]:
        def start() -> Actor:
            self.actors.append(Actor(kind(), self._after))
            return self.actors[-1]

        return start

    def kill(self, actor: Actor) -> None:
        actor.die()

    def shutdown(self) -> None:
        for actor in self.actors:
            actor.die()

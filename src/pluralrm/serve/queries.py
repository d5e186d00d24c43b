"""How a rollout becomes a Query: through the condition, as everywhere."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pluralrm.core import OPEN_KINDS, Benchmark, Card, Condition, Failure, Item, Post, Query, User, digest
from pluralrm.errors import ConditionError, PluralrmError
from pluralrm.runs.prepared import prepared
from pluralrm.serve.batching import isolated
from pluralrm.serve.dialects import Rollout

_KEPT = 4096
"""Queries of items that are kept ready: ranking a user's posts costs more than looking it up."""


class UnknownItemError(LookupError):
    """An item that the server's benchmark does not have."""


Shown = Query | Failure
"""What the model sees of an item, or why it cannot be shown: for want of a note, say."""
_Made = Shown | PluralrmError
"""The same, or what the condition raised on this item: an error of the requests that ask about it."""


@dataclass
class QueryBuilder:
    """Makes Queries under one condition; where there is no benchmark, of prompts alone.

    A condition may rank posts for long, or ask a model of its own: that happens in a thread, for all who wait together.
    """

    condition: Condition
    benchmark: Benchmark | None = None
    _items: dict[str, Item] = field(default_factory=dict, init=False)
    _ready: "OrderedDict[str, Shown]" = field(default_factory=OrderedDict, init=False)
    _wanted: dict[str, Item] = field(default_factory=dict, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "condition"), init=False)

    def __post_init__(self) -> None:
        if self.benchmark is not None:
            if why := self.condition.unsupported(self.benchmark):
                raise ConditionError(f"{self.condition.spec}: {why}")
            self._items = {item.id: item for item in self.benchmark.items}
        elif extra := self.condition.reveals - {"posts"}:
            raise ConditionError(
                f"{self.condition.spec} shows {', '.join(sorted(extra))}, which a request cannot bring; name the "
                "benchmark whose items are asked about: --benchmark BENCH"
            )

    async def shown(self, rollouts: Sequence[Rollout]) -> list[Shown]:
        """Return what the model sees of each rollout; UnknownItemError where the benchmark has no such item.

        A ConditionError where a rollout names no item and lacks what the condition shows; and what the condition raises
        on one of these items, but nothing that it raises on another request's.
        """
        for rollout in rollouts:
            self._check_brought(rollout)
        items = [self._of_item(rollout.item) if rollout.item else _item(rollout) for rollout in rollouts]
        brought = {item.id: item for item, rollout in zip(items, rollouts, strict=True) if not rollout.item}
        made = await self._made({rollout.item for rollout in rollouts if rollout.item}, brought)
        return [
            _asking(made[bool(rollout.item), item.id], rollout) for rollout, item in zip(rollouts, items, strict=True)
        ]

    def close(self) -> None:
        """Let the thread go; what it still does is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _check_brought(self, rollout: Rollout) -> None:
        """Raise where a user would be left out in silence: a forgotten label is no user who wrote nothing."""
        if rollout.item:
            return
        if extra := self.condition.reveals - {"posts"}:
            raise ConditionError(
                f"{self.condition.spec} shows {', '.join(sorted(extra))}, which a request cannot bring: wanted an item "
                "(OpenRLHF: a label) and no prompt"
            )
        if self.condition.reveals and "posts" not in rollout.model_fields_set:
            raise ConditionError(
                f"{self.condition.spec} shows what the user wrote: wanted an item (OpenRLHF: a label), or posts beside "
                "the prompt, [] for a user who wrote nothing"
            )

    def _of_item(self, name: str) -> Item:
        if name not in self._items:
            raise UnknownItemError(
                f"no item {name!r} in {self.benchmark.card.name if self.benchmark else 'no benchmark'}"
            )
        return self._items[name]

    async def _made(self, named: AbstractSet[str], brought: Mapping[str, Item]) -> dict[tuple[bool, str], _Made]:
        """Return what is shown of the benchmark's items that are named, and of items that the request brought."""
        if not brought and all(name in self._ready for name in named):
            return {(True, name): self._recalled(name) for name in named}
        self._wanted |= {name: self._items[name] for name in named if name not in self._ready}
        async with self._turn:  # whoever is next makes what all of them want; for the others it is ready then
            mine = {name: self._items[name] for name in named}
            todo = {name: item for name, item in (self._wanted | mine).items() if name not in self._ready}
            self._wanted.clear()
            items = [*todo.values(), *brought.values()]
            loop = asyncio.get_running_loop()
            made = await loop.run_in_executor(self._thread, self._prepared, items) if items else []
            new = dict(zip(_keys(todo.keys(), brought), made, strict=True))
            found = {key: new.get(key) or self._recalled(key[1]) for key in _keys(named, brought)}
            self._keep({name: new[True, name] for name in todo})
            return found

    def _recalled(self, name: str) -> Shown:
        self._ready.move_to_end(name)
        return self._ready[name]

    def _keep(self, made: Mapping[str, _Made]) -> None:
        """Keep what was made of the benchmark's items, but for what an outage or an error kept from being made."""
        for name, one in made.items():
            if not isinstance(one, PluralrmError) and not (isinstance(one, Failure) and one.kind in OPEN_KINDS):
                self._ready[name] = one
        while len(self._ready) > _KEPT:
            self._ready.popitem(last=False)

    def _prepared(self, items: Sequence[Item]) -> list[_Made]:
        """Return what is shown of each item; one on which the condition raises has its error, the others are made."""
        made: dict[int, _Made] = {}

        def compute(places: Sequence[int]) -> None:
            found = prepared(self.condition, self.benchmark or _NOTHING, [items[place] for place in places])
            whole = [one.query if one.failure is None else one.failure for one in found]
            made.update(zip(places, whole, strict=True))

        isolated(range(len(items)), compute, lambda places, exc: made.update(dict.fromkeys(places, exc)))
        return [made[place] for place in range(len(items))]


def _asking(made: _Made, rollout: Rollout) -> Shown:
    """Return the Query with a rollout's candidates, or the failure; raise what the condition raised."""
    if isinstance(made, PluralrmError):
        raise made
    return made if isinstance(made, Failure) else replace(made, candidates=tuple(rollout.candidates))


def _keys(named: AbstractSet[str], brought: Mapping[str, Item]) -> list[tuple[bool, str]]:
    return [*((True, name) for name in named), *((False, name) for name in brought)]


def _item(rollout: Rollout) -> Item:
    """Return an item of no benchmark: what is asked, with the posts that came with it."""
    posts = tuple(Post(f"p{place}", post.text, post.category) for place, post in enumerate(rollout.posts))
    name = digest([rollout.prompt, [[post.text, post.category] for post in posts]])[:20]
    user = User(name, posts) if posts else None
    return Item(name, rollout.prompt, (), None, name, "served", user=user)


_NOTHING = Benchmark(Card("requests", "prompts of requests", "", "", ""), ())

"""What a request asks for, and how it becomes a Query: through the condition, as everywhere.

{"rollouts": [{"item": "art-01", "candidates": ["An answer.", "Another."]},
              {"prompt": "Which flour?", "posts": [{"text": "My rye never rises."}], "candidates": ["Rye."]}]}

A rollout is about an item of the benchmark that the server was started with, or brings its prompt, and the user's
posts where the condition shows posts.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pluralrm.core import Benchmark, Card, Condition, Item, Post, Query, User, digest
from pluralrm.errors import ConditionError

_LONGEST = 1_000_000
_KEPT = 4096
"""Queries of items that are kept ready: ranking a user's posts costs more than looking it up."""

Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PostRow(_Strict):
    """Something the user wrote earlier."""

    text: Text
    category: str = ""


class Rollout(_Strict):
    """Candidates to one prompt."""

    item: str = ""
    prompt: str = ""
    posts: list[PostRow] = Field(default_factory=list)
    candidates: Annotated[list[str], Field(min_length=1, max_length=1024)]

    @model_validator(mode="after")
    def _about_one_thing(self) -> "Rollout":
        if bool(self.item) == bool(self.prompt):
            raise ValueError("wanted either an item of the server's benchmark or a prompt")
        if self.item and self.posts:
            raise ValueError("the posts of an item are the benchmark's; leave posts out")
        return self


class ScoreRequest(_Strict):
    """What `/score` takes."""

    rollouts: Annotated[list[Rollout], Field(min_length=1, max_length=1024)]


class UnknownItemError(LookupError):
    """An item that the server's benchmark does not have."""


@dataclass
class Desk:
    """Makes Queries under one condition; where there is no benchmark, of prompts alone."""

    condition: Condition
    benchmark: Benchmark | None = None
    _items: dict[str, Item] = field(default_factory=dict, init=False)
    _ready: "OrderedDict[str, Query]" = field(default_factory=OrderedDict, init=False)

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

    def query(self, rollout: Rollout) -> Query:
        """Return what the model sees; UnknownItemError where the benchmark has no such item."""
        shown = self._of_item(rollout.item) if rollout.item else self._shown(_item(rollout))
        return replace(shown, candidates=tuple(rollout.candidates))

    def _of_item(self, name: str) -> Query:
        if name in self._ready:
            self._ready.move_to_end(name)
            return self._ready[name]
        if name not in self._items:
            raise UnknownItemError(
                f"no item {name!r} in {self.benchmark.card.name if self.benchmark else 'no benchmark'}"
            )
        query = self._shown(self._items[name])
        self._ready[name] = query
        if len(self._ready) > _KEPT:
            self._ready.popitem(last=False)
        return query

    def _shown(self, item: Item) -> Query:
        [query] = self.condition.queries(self.benchmark or _NOTHING, [item])
        return query


def _item(rollout: Rollout) -> Item:
    """Return an item of nobody's benchmark: what is asked, with the posts that came with it."""
    posts = tuple(Post(f"p{place}", post.text, post.category) for place, post in enumerate(rollout.posts))
    name = digest([rollout.prompt, [[post.text, post.category] for post in posts]])[:20]
    user = User(name, posts) if posts else None
    return Item(name, rollout.prompt, (), None, name, "served", user=user)


_NOTHING = Benchmark(Card("requests", "prompts of requests", "", "", ""), ())

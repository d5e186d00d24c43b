"""Bodies in, queries, bodies out, for the three routes. What cannot be read, or cannot be said, is a ProblemError.

{"rollouts": [{"item": "art-01", "candidates": ["An answer.", "Another."]},
              {"prompt": "Which flour?", "posts": [{"text": "My rye never rises."}], "candidates": ["Rye."]}]}

A rollout is about an item of the benchmark that the server was started with, or brings its prompt, and the user's
posts where the condition shows posts.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.responses import JSONResponse, Response

from pluralrm.core import OPEN_KINDS, Benchmark, Condition, Failure, Item, Post, Query, Score, User
from pluralrm.digests import digest
from pluralrm.errors import ConditionError, PluralrmError
from pluralrm.journal import field_error
from pluralrm.runs.verdicts import prepared
from pluralrm.serve.batching import isolated
from pluralrm.serve.client import Identity
from pluralrm.serve.watch import NO_BENCHMARK, WatchRequest


class ProblemError(Exception):
    """An answer that is no score. `retry_after` seconds later the same request may succeed; None: it never will."""

    def __init__(self, status: int, kind: str, detail: str, *, retry_after: float | None = None) -> None:
        self.status, self.kind, self.detail, self.retry_after = status, kind, detail, retry_after
        super().__init__(detail)

    def response(self) -> Response:
        """Return it as JSON."""
        headers = {} if self.retry_after is None else {"retry-after": f"{max(1, round(self.retry_after))}"}
        content = {"error": {"type": self.kind, "message": self.detail, "retry": self.retry_after is not None}}
        return JSONResponse(content, self.status, headers)


_LONGEST = 1_000_000

Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RolloutPost(_Strict):
    """Something the user wrote earlier."""

    text: Text
    category: str = ""


class Rollout(_Strict):
    """Candidates to one prompt."""

    item: str = ""
    prompt: str = ""
    posts: list[RolloutPost] = Field(default_factory=list)
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


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The rollouts of a request, and the name of the model that it asked for, where it named one."""

    rollouts: Sequence[Rollout]
    model: str = ""


Scores = Sequence[Sequence[Score]]
Write = Callable[[WireRequest, Scores, Identity], object]


class OpenRLHFBody(_Strict):
    """What OpenRLHF sends: whole texts, the prompts that they begin with, and a label each, here an item's id or ""."""

    query: Annotated[list[str], Field(min_length=1, max_length=4096)]
    prompts: list[str]
    labels: list[str | None] = Field(default_factory=list)


class _Turn(_Strict):
    role: Literal["user", "assistant"]
    content: str


class ClassifyBody(_Strict):
    """What is sent to vLLM for a reward head, in its chat form; what would change the number is refused."""

    messages: Annotated[list[_Turn], Field(min_length=2, max_length=2)]
    model: str = ""
    use_activation: Literal[False] = False
    add_special_tokens: Literal[False] = False
    add_generation_prompt: Literal[False] = False


def read_ours(body: bytes) -> WireRequest:
    """Return what `/score` is asked."""
    return WireRequest(_valid(ScoreRequest, body).rollouts)


def write_ours(_asked: WireRequest, scores: Scores, identity: Identity) -> object:
    """Return every score, or why there is none."""
    return {"scores": [[_score_json(score) for score in row] for row in scores], "identity": identity.hash}


def read_openrlhf(body: bytes) -> WireRequest:
    """Return what `/get_reward` is asked: the answer is what follows the prompt in the whole text."""
    request = _valid(OpenRLHFBody, body)
    labels = request.labels or [""] * len(request.query)
    if not len(request.query) == len(request.prompts) == len(labels):
        counts = f"{len(request.query)} queries, {len(request.prompts)} prompts, {len(labels)} labels"
        raise ProblemError(422, "malformed", f"found {counts}; wanted as many of each")
    texts = zip(request.query, request.prompts, labels, strict=True)
    return WireRequest([_follows(query, prompt, label or "") for query, prompt, label in texts])


def _follows(query: str, prompt: str, item: str) -> Rollout:
    if not prompt or not query.startswith(prompt):
        problem = (
            f"a query of {len(query):,} characters does not begin with its prompt of {len(prompt):,}: where does the "
            "answer begin?"
        )
        raise ProblemError(422, "malformed", problem)
    answer = query[len(prompt) :]
    return Rollout(item=item, candidates=[answer]) if item else Rollout(prompt=prompt, candidates=[answer])


def write_openrlhf(_asked: WireRequest, scores: Scores, identity: Identity) -> object:
    """Return the rewards; this schema has no word for one that failed, so one that did is an error for all."""
    rewards = _numbers(scores)
    return {"rewards": rewards, "scores": rewards, "extra_logs": {}, "identity": identity.hash}


def read_classify(body: bytes) -> WireRequest:
    """Return what `/classify` is asked."""
    request = _valid(ClassifyBody, body)
    question, answered = request.messages
    if (question.role, answered.role) != ("user", "assistant"):
        raise ProblemError(422, "malformed", "wanted two messages: the user's and the assistant's answer")
    return WireRequest([Rollout(prompt=question.content, candidates=[answered.content])], request.model)


def write_classify(_asked: WireRequest, scores: Scores, identity: Identity) -> object:
    """Return the raw number where vLLM has it."""
    data = [
        {"index": index, "label": None, "probs": [number], "num_classes": 1}
        for index, number in enumerate(_numbers(scores))
    ]
    return {"object": "list", "model": identity.model, "data": data, "identity": identity.hash}


def _numbers(scores: Scores) -> list[float]:
    numbers = []
    for row in scores:
        for score in row:
            if isinstance(score, Failure):
                raise ProblemError(422, score.kind, score.detail or "the model gives no score")
            numbers.append(score)
    return numbers


def _score_json(score: Score) -> float | Mapping[str, str]:
    return {"failure": score.kind, "detail": score.detail} if isinstance(score, Failure) else score


BodyT = TypeVar("BodyT", bound=BaseModel)


def _valid(kind: type[BodyT], body: bytes) -> BodyT:
    try:
        return kind.model_validate_json(body)
    except ValidationError as exc:
        raise ProblemError(422, "malformed", str(field_error(exc, "the body"))) from None


_CAPACITY = 4096
"""Queries of items that are kept ready: ranking a user's posts costs more than looking it up."""


class UnknownItemError(LookupError):
    """An item that the server's benchmark does not have."""


Shown = Query | Failure
"""What the model sees of an item, or why it cannot be shown: for want of a note, say."""
_Outcome = Shown | PluralrmError
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
    _rewarded: int = field(default=0, init=False)
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
        outcomes = await self._prepare({rollout.item for rollout in rollouts if rollout.item}, brought)
        return [
            _asking(outcomes[bool(rollout.item), item.id], rollout)
            for rollout, item in zip(rollouts, items, strict=True)
        ]

    def watch_requests(self, rollouts: Sequence[Rollout], scores: "Scores") -> list[WatchRequest]:
        """Return the answers to each item or prompt with their rewards, as the watch takes them."""
        groups: dict[str, list[int]] = {}
        for index, rollout in enumerate(rollouts):
            groups.setdefault(rollout.item or _item(rollout).id, []).append(index)
        requests = []
        for several in groups.values():
            first = rollouts[several[0]]
            answers = tuple(answer for index in several for answer in rollouts[index].candidates)
            rewards = tuple(score for index in several for score in scores[index])
            item = self._items[first.item] if first.item else _item(first)
            self._rewarded += 1  # a policy that repeats itself is sampled like any other
            requests.append(WatchRequest(item, answers, rewards, digest([self._rewarded, item.id, answers])[:24]))
        return requests

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

    async def _prepare(self, names: AbstractSet[str], brought: Mapping[str, Item]) -> dict[tuple[bool, str], _Outcome]:
        """Return what is shown of the benchmark's items that are named, and of items that the request brought."""
        if not brought and all(name in self._ready for name in names):
            return {(True, name): self._recalled(name) for name in names}
        self._wanted |= {name: self._items[name] for name in names if name not in self._ready}
        async with self._turn:  # the first makes it; for those that wait it is ready then
            mine = {name: self._items[name] for name in names}
            todo = {name: item for name, item in (self._wanted | mine).items() if name not in self._ready}
            self._wanted.clear()
            items = [*todo.values(), *brought.values()]
            loop = asyncio.get_running_loop()
            outcomes = await loop.run_in_executor(self._thread, self._prepared, items) if items else []
            new = dict(zip(_keys(todo.keys(), brought), outcomes, strict=True))
            results = {key: new.get(key) or self._recalled(key[1]) for key in _keys(names, brought)}
            self._keep({name: new[True, name] for name in todo})
            return results

    def _recalled(self, name: str) -> Shown:
        self._ready.move_to_end(name)
        return self._ready[name]

    def _keep(self, outcomes: Mapping[str, _Outcome]) -> None:
        """Keep what was made of the benchmark's items, but for what an outage or an error kept from being made."""
        for name, query in outcomes.items():
            if not isinstance(query, PluralrmError) and not (isinstance(query, Failure) and query.kind in OPEN_KINDS):
                self._ready[name] = query
        while len(self._ready) > _CAPACITY:
            self._ready.popitem(last=False)

    def _prepared(self, items: Sequence[Item]) -> list[_Outcome]:
        """Return what is shown of each item; one on which the condition raises has its error, the others are made."""
        outcomes: dict[int, _Outcome] = {}

        def compute(places: Sequence[int]) -> None:
            results = prepared(self.condition, self.benchmark or NO_BENCHMARK, [items[index] for index in places])
            whole = [result.query if result.failure is None else result.failure for result in results]
            outcomes.update(zip(places, whole, strict=True))

        isolated(range(len(items)), compute, lambda places, exc: outcomes.update(dict.fromkeys(places, exc)))
        return [outcomes[index] for index in range(len(items))]


def _asking(outcome: _Outcome, rollout: Rollout) -> Shown:
    """Return the Query with a rollout's candidates, or the failure; raise what the condition raised."""
    if isinstance(outcome, PluralrmError):
        raise outcome
    return outcome if isinstance(outcome, Failure) else replace(outcome, candidates=tuple(rollout.candidates))


def _keys(names: AbstractSet[str], brought: Mapping[str, Item]) -> list[tuple[bool, str]]:
    return [*((True, name) for name in names), *((False, name) for name in brought)]


def _item(rollout: Rollout) -> Item:
    """Return an item of no benchmark: what is asked, with the posts that came with it."""
    posts = tuple(Post(f"p{index}", post.text, post.category) for index, post in enumerate(rollout.posts))
    name = digest([rollout.prompt, [[post.text, post.category] for post in posts]])[:20]
    user = User(name, posts) if posts else None
    return Item(name, rollout.prompt, (), None, name, "served", user=user)

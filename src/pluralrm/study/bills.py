"""What asking takes, before anything is asked: the real questions are written and counted, and never sent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pluralrm.chat import ChatReply, ChatRequest
from pluralrm.conditions.notes import Preparing
from pluralrm.core import Benchmark, Condition, Failure, Item, Query
from pluralrm.http import Price
from pluralrm.models import KINDS, parse_model
from pluralrm.models.judge import open_judge
from pluralrm.models.served import DIALECTS
from pluralrm.policies.chatting import ChatPolicy
from pluralrm.policies.draw import Draw
from pluralrm.policies.policies import Ask, Policy
from pluralrm.specs import Spec

_LETTERS_PER_TOKEN = 4
"""Of English text, roughly: prompts are estimated before anybody counts their tokens."""


class Cost(NamedTuple):
    """At least what the prompts cost; at most that, and replies as long as they may be."""

    least: float
    most: float


class Bill(NamedTuple):
    """Calls, and the tokens of prompts (roughly) and of replies (at most). None is not known.

    Where replies are short and have no limit of their own, as a grader's, their tokens are None and the prompts' cost
    is all that is told.
    """

    calls: int | None
    prompt_tokens: int | None = 0
    reply_tokens: int | None = 0

    def cost(self, price: Price | None) -> Cost | None:
        """Return what it costs; None where that cannot be known."""
        if self.calls == 0:
            return FREE
        if price is None or self.prompt_tokens is None:
            return None
        least = self.prompt_tokens * price.input / 1e6
        return Cost(least, least + (self.reply_tokens or 0) * price.output / 1e6)


FREE = Cost(0.0, 0.0)
_NOTHING = Bill(0)


class Counting:
    """A chat model that says nothing and counts what it is asked."""

    name, sees_posts = "plan", True

    def __init__(self) -> None:
        self.calls = self.letters = self.most = 0

    def complete(self, requests: Iterable[ChatRequest]) -> Iterator[ChatReply | Failure]:
        """Yield a final failure for each request: what failed is not asked a second time."""
        for request in requests:
            self.calls += 1
            self.letters += sum(len(text) for _, text in request.messages)
            self.most += request.sampling.max_tokens or 0
            yield Failure("refused", "a plan sends no request")

    @property
    def bill(self) -> Bill:
        """What was counted."""
        return Bill(self.calls, self.letters // _LETTERS_PER_TOKEN, self.most)


def scoring_bill(model: str, benchmark: Benchmark, condition: Condition, items: Sequence[Item]) -> Bill:
    """Return what it takes to score the items; replies that are kept from before cost nothing, and count here.

    Where a condition has notes written, one call an item is the writer's, and no prompt is known.
    """
    spec, noted = parse_model(model), isinstance(condition, Preparing)
    served = KINDS[spec.kind].served
    if not items or not (served or noted):
        return _NOTHING
    queries = _bare(items) if noted else condition.queries(benchmark, items)
    told = _asked(spec, queries) if served else _NOTHING
    return Bill(None if told.calls is None else told.calls + len(items), None, None) if noted else told


def _asked(spec: Spec, queries: Iterator[Query]) -> Bill:
    """Return what a served model is asked: a judge in its own words, a reward head one call an answer."""
    if spec.kind == "judge":
        counting = Counting()
        for _ in open_judge(spec, chat=counting).score(queries):
            pass
        return counting.bill
    if spec.kind in DIALECTS:
        return Bill(sum(len(query.candidates) for query in queries), None, None)
    return Bill(None, None, None)


def asks(model: str) -> bool:
    """Return whether a model is asked over HTTP."""
    return KINDS[parse_model(model).kind].served


def rewarding_calls(model: str, item: Item, answers: int) -> int | None:
    """Return the calls for the scores of so many answers to an item; None where that is unknown."""
    if not asks(model):
        return 0
    return _asked(parse_model(model), iter([Query(item.id, item.prompt, tuple(map(str, range(answers))))])).calls


def _bare(items: Sequence[Item]) -> Iterator[Query]:
    return (Query(item.id, item.prompt, item.candidates) for item in items)


def sampling_bill(
    policy: Policy, condition: Condition, benchmark: Benchmark, *, draw: Draw, lacking: Mapping[str, int]
) -> Bill:
    """Return what it takes to draw as many answers as each item lacks."""
    calls = sum(lacking.values())
    if not (calls and isinstance(policy, ChatPolicy)):
        return _NOTHING
    items = [item for item in benchmark.items if lacking.get(item.id)]
    if isinstance(condition, Preparing):
        return Bill(calls + len(items), None, None)
    counting = Counting()
    asks = (
        Ask(replace(query, candidates=()), index, 0)
        for query in condition.queries(benchmark, items)
        for index in range(lacking[query.id])
    )
    for _ in replace(policy, role=replace(policy.role, chat=counting)).answer(asks, draw):
        pass
    return counting.bill

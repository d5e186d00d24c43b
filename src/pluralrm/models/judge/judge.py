"""The judge itself: queries in, calls out, replies read, what cannot be read asked once more, verdicts in order."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pluralrm.chat import ChatReply
from pluralrm.chat.role import ChatCall, ChatRole
from pluralrm.core import Exchange, Failure, Query, Verdict
from pluralrm.http import Tally
from pluralrm.models.judge.fences import context_of, fenced, mark_of
from pluralrm.models.judge.styles import Order, Outcome, Points, Style
from pluralrm.models.judge.verdicts import without_copies


@dataclass(frozen=True, slots=True)
class JudgeCalls:
    """A query, the orders in which its candidates are put before the judge, and the call for each."""

    query: Query
    orders: list[Order]
    calls: list[ChatCall[Points]]

    def verdict(self, style: Style) -> Verdict:
        """Return the verdict; every call must have its outcome."""
        outcomes = [call.outcome for call in self.calls if call.outcome is not None]
        return Verdict(
            scores=tuple(style.scores(len(self.query.candidates), self.orders, outcomes)),
            votes=tuple(style.votes(self.orders, outcomes)),
            exchanges=tuple(Exchange(turn.sent, _said(turn.reply)) for call in self.calls for turn in call.turns),
        )


def _said(reply: ChatReply) -> str:
    """Return the text and, below it, the log-probs that a verdict may rest on: [token, log-prob, alternatives]."""
    if reply.logprobs is None:
        return reply.text
    return f"{reply.text}\n\nlog-probs: {json.dumps(reply.logprobs, ensure_ascii=False)}"


@dataclass(frozen=True)
class Judge:
    """A chat model that is asked for verdicts in one style."""

    spec: str
    role: ChatRole
    style: Style
    seed: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model and its server, the template, every setting."""
        return {**self.role.identity, **self.facts}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.role.tally

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; PrivacyError where a query shows posts that may not be sent."""
        for query, _ in self.role.ask(map(self._calls_of, queries), lambda query: query.calls):
            yield query.verdict(self.style)

    # ------------------------------------------------------------ asking

    def _calls_of(self, query: Query) -> JudgeCalls:
        """Return a query with its calls."""
        orders = self.style.orders(query)
        return JudgeCalls(query, orders, [self._call(query, order) for order in orders])

    def _call(self, query: Query, order: Order) -> ChatCall[Points]:
        answers = [query.candidates[place] for place in order]
        mark = mark_of(answers, f"{query.id}\n{query.prompt}", seed=self.seed, context=context_of(query))
        named = zip(self.style.names(len(order)), answers, strict=True)
        text = self.role.template.render(query, [fenced(name, answer, mark) for name, answer in named])
        request = self.role.request(text, public=not query.private)
        read, complaint = partial(self._read, answers), "No verdict can be read from this"
        return ChatCall(request, read, self.style.again, self.role.reasoning, complaint)

    # ------------------------------------------------------------ reading

    def _read(self, answers: Sequence[str], reply: ChatReply) -> Outcome:
        if not self.style.whole and reply.finish_reason != "content_filter":
            return self.style.read(reply.text, reply, len(answers))
        said = self.role.said(reply)
        if isinstance(said, Failure):
            return said
        return self.style.read(without_copies(said, answers, self.style.form), reply, len(answers))

"""Calls of one query on their way, and what is kept of them."""

import json
from dataclasses import dataclass, field

from pluralrm.chat import ChatReply, ChatRequest
from pluralrm.core import Exchange, Failure, Query, Verdict
from pluralrm.models.judge.styles import Order, Outcome, Style


@dataclass(slots=True)
class Call:
    """One order of the candidates put before the judge.

    `unread` says why its first reply gave no verdict, `text` is the last reply; `outcome` is None until it is known.
    """

    query: Query
    order: Order
    request: ChatRequest
    outcome: Outcome | None = None
    unread: Failure | None = None
    text: str = ""
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def answers(self) -> list[str]:
        """The answers in the order shown."""
        return [self.query.candidates[place] for place in self.order]

    def keep(self, reply: ChatReply) -> None:
        """Keep the last message sent and all that came back; the messages before it are in the exchange before."""
        self.text = reply.text
        self.exchanges.append(Exchange(self.request.messages[-1][1], _said(reply)))


@dataclass(slots=True)
class Asked:
    """A query and its calls, in order."""

    query: Query
    calls: list[Call]

    @property
    def decided(self) -> bool:
        """Whether every call has its outcome."""
        return all(call.outcome is not None for call in self.calls)

    def verdict(self, style: Style) -> Verdict:
        """Return the verdict; every call must have its outcome."""
        orders = [call.order for call in self.calls]
        outcomes = [call.outcome for call in self.calls if call.outcome is not None]
        return Verdict(
            scores=tuple(style.scores(len(self.query.candidates), orders, outcomes)),
            votes=tuple(style.votes(orders, outcomes)),
            exchanges=tuple(exchange for call in self.calls for exchange in call.exchanges),
        )


def _said(reply: ChatReply) -> str:
    """Return the text and, below it, the log-probs that a verdict may rest on: [token, log-prob, alternatives]."""
    if reply.logprobs is None:
        return reply.text
    return f"{reply.text}\n\nlog-probs: {json.dumps(reply.logprobs, ensure_ascii=False)}"

"""A query on its way, and what is kept of its calls."""

import json
from dataclasses import dataclass

from pluralrm.chat import ChatReply
from pluralrm.chat.twice import Errand
from pluralrm.core import Exchange, Query, Verdict
from pluralrm.models.judge.styles import Order, Points, Style


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, the orders in which its candidates are put before the judge, and the call for each."""

    query: Query
    orders: list[Order]
    calls: list[Errand[Points]]

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

"""One answer at a time: is it good, YES or NO? By the log-probs of the reply's first token, or by its text."""

from collections.abc import Sequence
from dataclasses import dataclass

from pluralrm.chat import ChatReply, Sampling
from pluralrm.core import Failure, Query, Score, Vote
from pluralrm.models.judge import verdicts
from pluralrm.models.judge.logprobs import share_of_yes
from pluralrm.models.judge.styles import Order, Outcome, first_points

BY = ("logprob", "text")


@dataclass(frozen=True, slots=True)
class Verifier:
    """P(YES) / (P(YES) + P(NO)), or 1 and 0 by the text."""

    sampling: Sampling
    by: str = "logprob"
    again: str = "Answer with YES or NO, and nothing else."

    @property
    def whole(self) -> bool:
        """The first token decides by log-prob."""
        return self.by == "text"

    def orders(self, query: Query) -> list[Order]:
        """Return each candidate alone."""
        return [(place,) for place in range(len(query.candidates))]

    def names(self, shown: int) -> Sequence[str]:
        """Return the answer's name."""
        return ["answer"] * shown

    def read(self, said: str, reply: ChatReply, shown: int) -> Outcome:
        """Return how likely YES is, where the reply is YES or NO."""
        del shown
        if self.by == "logprob":
            share = share_of_yes(reply)
            return share if isinstance(share, Failure) else (share,)
        yes = verdicts.verifier(said)
        return yes if isinstance(yes, Failure) else (float(yes),)

    def scores(self, candidates: int, orders: Sequence[Order], outcomes: Sequence[Outcome]) -> list[Score]:
        """Return each candidate's share."""
        del candidates, orders
        return first_points(outcomes)

    def votes(self, orders: Sequence[Order], outcomes: Sequence[Outcome]) -> list[Vote]:
        """Return nothing: no answer was compared with another."""
        del orders, outcomes
        return []

"""One answer at a time, from 1 to 10; with `expect=yes` the mean of the scale under the judge's log-probs."""

from collections.abc import Sequence
from dataclasses import dataclass

from pluralrm.chat import ChatReply, Sampling
from pluralrm.core import Failure, Query, Score, Vote
from pluralrm.models.judge import verdicts
from pluralrm.models.judge.logprobs import expected_score
from pluralrm.models.judge.styles import Order, Outcome, first_points


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A whole number, and nothing else."""

    sampling: Sampling
    expect: bool = False
    whole: bool = True
    again: str = "Answer with one whole number from 1 to 10, and nothing else."

    def orders(self, query: Query) -> list[Order]:
        """Return each candidate alone."""
        return [(place,) for place in range(len(query.candidates))]

    def names(self, shown: int) -> Sequence[str]:
        """Return the answer's name."""
        return ["answer"] * shown

    def read(self, said: str, reply: ChatReply, shown: int) -> Outcome:
        """Return the number, or its expectation."""
        del shown
        number = verdicts.pointwise(said)
        score = expected_score(reply, number) if self.expect and not isinstance(number, Failure) else number
        return score if isinstance(score, Failure) else (float(score),)

    def scores(self, candidates: int, orders: Sequence[Order], outcomes: Sequence[Outcome]) -> list[Score]:
        """Return each candidate's number."""
        del candidates, orders
        return first_points(outcomes)

    def votes(self, orders: Sequence[Order], outcomes: Sequence[Outcome]) -> list[Vote]:
        """Return nothing: no answer was compared with another."""
        del orders, outcomes
        return []

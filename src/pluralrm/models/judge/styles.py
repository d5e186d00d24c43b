"""The styles of judging: how candidates are shown, how replies are read, and what scores and votes come of them."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pluralrm.chat import ChatReply, Sampling
from pluralrm.chat.completions import unreadable
from pluralrm.core import OPEN_KINDS, Failure, Query, Score, Vote
from pluralrm.models.judge import verdicts
from pluralrm.models.judge.verdicts import ReplyForm, expected_score, share_of_yes

Order = tuple[int, ...]
"""The candidates of one call, in the order in which they are shown."""

Points = tuple[float, ...]
"""What a call gave to each answer shown, in the same order; the scale is the style's."""

JudgeOutcome = Points | Failure


class Style(Protocol):
    """How candidates are put before a judge, and what is made of its replies."""

    @property
    def again(self) -> str:
        """What the second message asks for, where the first reply cannot be read."""
        ...

    @property
    def form(self) -> ReplyForm:
        """How a reply gives its verdict."""
        ...

    @property
    def sampling(self) -> Sampling:
        """How replies are drawn."""
        ...

    @property
    def whole(self) -> bool:
        """False where the first token decides, so that a reply that was cut off afterwards counts."""
        ...

    def orders(self, query: Query) -> list[Order]:
        """Return one order per call; none where there is nothing to ask."""
        ...

    def names(self, count: int) -> Sequence[str]:
        """Return what the answers of one call are called, in the order shown."""
        ...

    def read(self, text: str, reply: ChatReply, count: int) -> JudgeOutcome:
        """Return the points in what was said; `reply` has the log-probs."""
        ...

    def scores(self, candidates: int, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Score]:
        """Return one score per candidate."""
        ...

    def votes(self, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Vote]:
        """Return each order with what came of it; none where answers are not compared with each other."""
        ...


def failure_of(candidate: int, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> Failure | None:
    """Return the failure of a candidate, from the calls that showed it; one that may yet be mended goes first.

    So an item stays open while any of its calls is, and an outage changes no row.
    """
    calls = zip(orders, outcomes, strict=True)
    failures = [outcome for order, outcome in calls if candidate in order and isinstance(outcome, Failure)]
    return min(failures, key=lambda failure: failure.kind not in OPEN_KINDS, default=None)


class OneByOne:
    """What styles have in common that show each candidate alone, in order."""

    __slots__ = ()

    def orders(self, query: Query) -> list[Order]:
        """Return each candidate alone."""
        return [(index,) for index in range(len(query.candidates))]

    def names(self, count: int) -> Sequence[str]:
        """Return the answer's name."""
        return ["answer"] * count

    def scores(self, candidates: int, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Score]:
        """Return what each candidate got."""
        del candidates, orders
        return [outcome if isinstance(outcome, Failure) else outcome[0] for outcome in outcomes]

    def votes(self, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Vote]:
        """Return nothing: no answer was compared with another."""
        del orders, outcomes
        return []


ALONE = Failure("unsupported", "one candidate alone: there is nothing to compare it with")


# ---------------------------------------------------------------- yes or no


BY = ("logprob", "text")


@dataclass(frozen=True, slots=True)
class Verifier(OneByOne):
    """P(YES) / (P(YES) + P(NO)), or 1 and 0 by the text."""

    sampling: Sampling
    by: str = "logprob"
    form: verdicts.ReplyForm = field(default=verdicts.RESULT, repr=False)
    again: str = "Answer with YES or NO, and nothing else."

    @property
    def whole(self) -> bool:
        """The first token decides by log-prob."""
        return self.by == "text"

    def read(self, text: str, reply: ChatReply, count: int) -> JudgeOutcome:
        """Return how likely YES is, where the reply is YES or NO."""
        del count
        if self.by == "logprob":
            share = share_of_yes(reply)
            return share if isinstance(share, Failure) else (share,)
        yes = verdicts.verifier(text)
        return yes if isinstance(yes, Failure) else (float(yes),)


# ---------------------------------------------------------------- points from 1 to 10


@dataclass(frozen=True, slots=True)
class Pointwise(OneByOne):
    """A whole number, and nothing else."""

    sampling: Sampling
    expect: bool = False
    form: verdicts.ReplyForm = field(default=verdicts.RESULT, repr=False)
    whole: bool = True
    again: str = field(init=False)

    def __post_init__(self) -> None:
        again = "Answer with one whole number from 1 to 10, and nothing else."
        if self.form != verdicts.RESULT:
            again = f"Answer with one line and nothing else, N a whole number from 1 to 10: {self.form.example('N')}"
        object.__setattr__(self, "again", again)

    def read(self, text: str, reply: ChatReply, count: int) -> JudgeOutcome:
        """Return the number, or its expectation."""
        del count
        number = verdicts.pointwise(text, self.form)
        score = expected_score(reply, number) if self.expect and not isinstance(number, Failure) else number
        return score if isinstance(score, Failure) else (float(score),)


# ---------------------------------------------------------------- rankings, in several rotations of a seeded order


_TOO_MANY = Failure("unsupported", f"a ranking has a letter for each answer: at most {len(verdicts.LETTERS)}")


@dataclass(frozen=True, slots=True)
class Listwise:
    """One permutation, such as B>A>D>C."""

    sampling: Sampling
    rotations: int = 4
    seed: int = 0
    form: verdicts.ReplyForm = field(default=verdicts.RESULT, repr=False)
    whole: bool = True
    again: str = field(init=False)

    def __post_init__(self) -> None:
        again = (
            "Answer with one line and nothing else: the letters of all answers from best to worst, with > between them"
        )
        form = "." if self.form == verdicts.RESULT else f", in this form: {self.form.example('X>Y>Z')}"
        object.__setattr__(self, "again", again + form)

    def orders(self, query: Query) -> list[Order]:
        """Return rotations of a shuffle, each answer at another place in each; at most as many as there are answers."""
        places = range(len(query.candidates))
        if not 2 <= len(places) <= len(verdicts.LETTERS):
            return []
        shuffled = random.Random(f"{self.seed}:{query.id}").sample(places, len(places))
        turns = [turn * len(places) // self.rotations for turn in range(self.rotations)]
        return [tuple(shuffled[turn:] + shuffled[:turn]) for turn in dict.fromkeys(turns)]

    def names(self, count: int) -> Sequence[str]:
        """Return answer A, answer B, ..."""
        return [f"answer {letter}" for letter in verdicts.LETTERS[:count]]

    def read(self, text: str, reply: ChatReply, count: int) -> JudgeOutcome:
        """Return 1 for the best, 0 for the worst, and equal steps between."""
        del reply
        ranking = verdicts.listwise(text, count, self.form)
        if isinstance(ranking, Failure):
            return ranking
        return tuple(1 - ranking.index(index) / (count - 1) for index in range(count))

    def scores(self, candidates: int, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Score]:
        """Return each candidate's mean over the rotations; a call that failed showed all, so it fails all."""
        if not orders:
            return [ALONE if candidates < 2 else _TOO_MANY] * candidates
        if (failure := failure_of(0, orders, outcomes)) is not None:
            return [failure] * candidates
        ranked = [
            dict(zip(order, points, strict=True))
            for order, points in zip(orders, outcomes, strict=True)
            if not isinstance(points, Failure)
        ]
        return [math.fsum(points[index] for points in ranked) / len(ranked) for index in range(candidates)]

    def votes(self, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Vote]:
        """Return the ranking as the candidates' indices, best first (`1>0>3>2`), or the kind of failure."""
        return [Vote(order, _ranking_of(order, outcome)) for order, outcome in zip(orders, outcomes, strict=True)]


def _ranking_of(order: Order, outcome: JudgeOutcome) -> str:
    if isinstance(outcome, Failure):
        return outcome.kind
    ranked = sorted(zip(outcome, order, strict=True), reverse=True)
    return ">".join(str(candidate) for _, candidate in ranked)


# ---------------------------------------------------------------- pairs
# From the results of pairs to one score per candidate in [0, 1]: `wins` is the mean result against the others, `bt` the
# mean chance against the others under Bradley-Terry strengths. Where every pair is asked equally often, as here, both
# give the same order (Zermelo 1929).

_PRIOR = 0.5
"""Every candidate also ties once with one of strength 1, or one that wins always would be infinitely strong."""
_CLOSE, _ROUNDS = 1e-13, 100_000
_PLACES = 9
"""Decimals that are kept: equal candidates are equal, whatever the order of the sums."""


class PairResult(NamedTuple):
    """What the first of two candidates won against the second: 1, 0, or 1/2 for a tie."""

    first: int
    second: int
    won: float


def win_shares(results: Sequence[PairResult], candidates: int) -> list[float]:
    """Return each candidate's mean result; one that was never compared has 0.5."""
    won = _won(results, candidates)
    met = (won + won.T).sum(axis=1)
    return [round(float(sum(row) / total), _PLACES) if total else 0.5 for row, total in zip(won, met, strict=True)]


def bradley_terry(results: Sequence[PairResult], candidates: int) -> list[float]:
    """Return each candidate's mean chance to win against the others.

    Strengths p maximise the likelihood of p_i / (p_i + p_j) for each result, by the iteration of Hunter (2004).
    """
    won = _won(results, candidates)
    met = won + won.T
    strength = np.ones(candidates)
    for _ in range(_ROUNDS):
        against = (met / (strength[:, None] + strength[None, :])).sum(axis=1) + 2 * _PRIOR / (strength + 1)
        updated = (won.sum(axis=1) + _PRIOR) / against
        moved = np.abs(updated / strength - 1).max()
        strength = updated
        if moved < _CLOSE:
            break
    chances = strength[:, None] / (strength[:, None] + strength[None, :])
    others = (chances.sum(axis=1) - 0.5) / max(1, candidates - 1)
    return [round(float(chance), _PLACES) for chance in others]


def _won(results: Sequence[PairResult], candidates: int) -> NDArray[np.float64]:
    """Return (candidates, candidates): what the row won against the column."""
    won = np.zeros((candidates, candidates))
    for first, second, share in results:
        won[first, second] += share
        won[second, first] += 1 - share
    return won


AGGREGATES: Mapping[str, Callable[[Sequence[PairResult], int], list[float]]] = {"wins": win_shares, "bt": bradley_terry}
"""Each aggregate by its name, the default first."""


ORDERS = ("both", "coin")
"""`both` asks each pair twice; `coin` once, in an order drawn from seed and item, as the published protocol does."""

_POINTS: Mapping[str, Points] = {"A": (1.0, 0.0), "B": (0.0, 1.0), "tie": (0.5, 0.5)}


@dataclass(frozen=True, slots=True)
class Pairwise:
    """Reasoning in at most 100 words, then a result line."""

    sampling: Sampling
    orders_asked: str = "both"
    aggregate: str = "wins"
    seed: int = 0
    # Both are in the hash of the template, and defaults are in no identity: runs from before go on.
    form: verdicts.ReplyForm = field(default=verdicts.RESULT, repr=False)
    tie: bool = field(default=True, repr=False)
    whole: bool = True
    again: str = field(init=False)

    def __post_init__(self) -> None:
        *first, last = replies(self.form, tie=self.tie)
        options = ", ".join(f'"{line}"' for line in first) + f' or "{last}"'
        object.__setattr__(self, "again", f"Answer with one line and nothing else: {options}.")

    def orders(self, query: Query) -> list[Order]:
        """Return both orders of every pair, or the one that the coin gives."""
        pairs = list(combinations(range(len(query.candidates)), 2))
        if self.orders_asked == "both":
            return [order for first, second in pairs for order in ((first, second), (second, first))]
        coin = random.Random(f"{self.seed}:{query.id}")
        return [pair if coin.random() < 0.5 else pair[::-1] for pair in pairs]

    def names(self, count: int) -> Sequence[str]:
        """Return answer A and answer B."""
        return [f"answer {letter}" for letter in verdicts.LETTERS[:count]]

    def read(self, text: str, reply: ChatReply, count: int) -> JudgeOutcome:
        """Return a point for the answer that the result line names, or half a point for each."""
        del reply, count
        choice = verdicts.pairwise(text, self.form)
        if choice == "tie" and not self.tie:
            return unreadable("the text calls a tie, and one of the two had to be named", text)
        return choice if isinstance(choice, Failure) else _POINTS[choice]

    def scores(self, candidates: int, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Score]:
        """Return win shares or Bradley-Terry chances; a candidate of which a call failed has no score."""
        if not orders:
            return [ALONE] * candidates
        shares = AGGREGATES[self.aggregate](_results(orders, outcomes), candidates)
        return [failure_of(index, orders, outcomes) or share for index, share in enumerate(shares)]

    def votes(self, orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[Vote]:
        """Return the winner's index, `tie`, or the kind of failure for each order asked."""
        return [Vote(order, _vote_of(order, outcome)) for order, outcome in zip(orders, outcomes, strict=True)]


def replies(form: verdicts.ReplyForm, *, tie: bool) -> list[str]:
    """Return the lines of which a reply has to end with one."""
    values = ("A", "B", "tie") if tie else ("A", "B")
    return [f"Result: {value}" if form == verdicts.RESULT else form.example(value) for value in values]


def _results(orders: Sequence[Order], outcomes: Sequence[JudgeOutcome]) -> list[PairResult]:
    """Return one result per pair that was decided; orders that disagree make a tie."""
    won: dict[tuple[int, int], list[float]] = {}
    for order, outcome in zip(orders, outcomes, strict=True):
        first, second = sorted(order)
        share = -1.0 if isinstance(outcome, Failure) else outcome[order.index(first)]
        won.setdefault((first, second), []).append(share)
    return [
        PairResult(first, second, shares[0] if len(set(shares)) == 1 else 0.5)
        for (first, second), shares in won.items()
        if min(shares) >= 0
    ]


def _vote_of(order: Order, outcome: JudgeOutcome) -> str:
    if isinstance(outcome, Failure):
        return outcome.kind
    return "tie" if outcome[0] == outcome[1] else str(order[outcome.index(max(outcome))])

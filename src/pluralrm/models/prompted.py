"""`verifier:` and `choice:`: what a language model says of an answer when it is asked, in log-probs of its next tokens.

verifier   log P("YES") - log P("NO") after the question whether the answer is good; as published, the mean log-prob of
           "YES" and what ends the turn
choice     P("A") / (P("A") + P("B")) after the question which of two answers is better, over all pairs and both orders

docs/neural-models.md has the keys.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from pluralrm.core import Failure, Query, Score, Verdict, Vote
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.models.neural.kind import NeuralModel, Outcome, language_model, rated_span, template_of
from pluralrm.models.neural.prompts import Encoded
from pluralrm.models.neural.trees import StateRequest
from pluralrm.specs import Spec
from pluralrm.templates import Message, Template

YES, NO = "YES", "NO"
FORMS = ("difference", "published")
LETTERS = ("A", "B")
ORDERS = ("both", "first")


# ---------------------------------------------------------------- verifier


@dataclass(frozen=True, slots=True)
class VerifierModel:
    """Each candidate is put into a question of its own; what is rated is the assistant's YES, and its NO."""

    template: Template
    published: bool

    @property
    def _words(self) -> tuple[str, ...]:
        return (YES,) if self.published else (YES, NO)

    def conversations(self, query: Query) -> list[list[Message]]:
        """Return one conversation per candidate and word, the candidate's words side by side."""
        asked = [Message("user", self.template.render(query, [answer])) for answer in query.candidates]
        return [[question, Message("assistant", word)] for question in asked for word in self._words]

    def ask(self, encoded: Encoded) -> StateRequest | Failure:
        """Return the Ask for the word's tokens; as published, for all that the chat template writes after them too."""
        return rated_span(encoded, turn=self.published)

    def verdict(self, query: Query, outcomes: Sequence[Outcome]) -> Verdict:
        """Return each candidate's difference of log-probs, or its mean log-prob."""
        width = len(self._words)
        return Verdict(tuple(self._score(outcomes[width * n : width * (n + 1)]) for n in range(len(query.candidates))))

    def _score(self, outcomes: Sequence[Outcome]) -> Score:
        sums = _sums(outcomes)
        if isinstance(sums, Failure):
            return sums
        return sums[0] / len(outcomes[0]) if self.published else sums[0] - sums[1]


def verifier(spec: Spec) -> NeuralModel:
    """Return the model of `verifier:LM`."""
    form = _one_of(spec, "form", FORMS)
    template = template_of(spec, default="verifier-v1", answers=1)
    return language_model(spec, VerifierModel(template, published=form == "published"), template, {"form": form})


# ---------------------------------------------------------------- choice


@dataclass(frozen=True, slots=True)
class ChoiceModel:
    """Two candidates are put into one question, as A and as B; a candidate's score is its mean chance to be chosen."""

    template: Template
    both: bool

    def conversations(self, query: Query) -> list[list[Message]]:
        """Return one conversation per question and letter, a question's letters side by side."""
        answers = query.candidates
        asked = [
            Message("user", self.template.render(query, [answers[first], answers[second]]))
            for first, second in self._orders(query)
        ]
        return [[question, Message("assistant", letter)] for question in asked for letter in LETTERS]

    def ask(self, encoded: Encoded) -> StateRequest | Failure:
        """Return the Ask for the letter's tokens."""
        return rated_span(encoded)

    def verdict(self, query: Query, outcomes: Sequence[Outcome]) -> Verdict:
        """Return mean chances and one Vote per question; a candidate of which a question failed has no score."""
        orders = self._orders(query)
        odds = [_log_odds(outcomes[2 * n : 2 * n + 2]) for n in range(len(orders))]
        chances: list[list[Chance]] = [[] for _ in query.candidates]
        for (first, second), one in zip(orders, odds, strict=True):
            chances[first].append(_chance(one))
            chances[second].append(_chance(one if isinstance(one, Failure) else -one))
        votes = [Vote(order, _outcome(one, order)) for order, one in zip(orders, odds, strict=True)]
        return Verdict(tuple(map(_mean, chances)), tuple(votes))

    def _orders(self, query: Query) -> list[tuple[int, int]]:
        places = range(len(query.candidates))
        return list(permutations(places, 2) if self.both else combinations(places, 2))


Chance = tuple[float, ...] | Failure
"""A chance as the terms of a sum."""


def choice(spec: Spec) -> NeuralModel:
    """Return the model of `choice:LM`."""
    orders = _one_of(spec, "orders", ORDERS)
    template = template_of(spec, default="choice-v1", answers=2)
    return language_model(spec, ChoiceModel(template, both=orders == "both"), template, {"orders": orders})


def _log_odds(outcomes: Sequence[Outcome]) -> Score:
    """Return how much likelier the first letter is than the second, as a logarithm."""
    sums = _sums(outcomes)
    return sums if isinstance(sums, Failure) else sums[0] - sums[1]


def _chance(odds: Score) -> Chance:
    """Return P("A") / (P("A") + P("B")) as terms of a sum, so that the chances of A and of B add up to 1 exactly."""
    if isinstance(odds, Failure):
        return odds
    smaller = math.exp(-abs(odds)) / (1 + math.exp(-abs(odds)))
    return (1.0, -smaller) if odds > 0 else (smaller,)


def _outcome(odds: Score, order: tuple[int, int]) -> str:
    """Return the index of the candidate that was likelier to be chosen, `tie`, or the kind of failure."""
    if isinstance(odds, Failure):
        return odds.kind
    if math.isnan(odds):
        return "nonfinite"
    return "tie" if odds == 0 else str(order[0] if odds > 0 else order[1])


def _mean(chances: Sequence[Chance]) -> Score:
    failures = [chance for chance in chances if isinstance(chance, Failure)]
    if failures:
        return failures[0]
    if not chances:
        return Failure("unsupported", "one candidate alone: there is nothing to choose from")
    # Exactly rounded, so that it does not depend on the order of the candidates.
    terms = (term for chance in chances if not isinstance(chance, Failure) for term in chance)
    return math.fsum(terms) / len(chances)


# ---------------------------------------------------------------- both


def _sums(outcomes: Sequence[Outcome]) -> list[float] | Failure:
    """Return the log-prob of each text, or the first failure."""
    sums: list[float] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            return outcome
        sums.append(float(outcome.sum()))
    return sums


def _one_of(spec: Spec, key: str, known: Sequence[str]) -> str:
    """Return an option that has a few values, the first by default."""
    found = spec.options.get(key, known[0])
    if found not in known:
        raise SpecError(f"{spec.kind}: {key} is {found!r}.{did_you_mean(found, known)}")
    return found

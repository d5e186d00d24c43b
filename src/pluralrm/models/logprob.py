"""What an answer is worth to a language model, in log-probs of its own tokens or of a word that is said of it.

endo       sum over the answer's tokens t = 0, 1, ... of log p(token) x max(discount^t, clip)
dpo        log p_policy(token) - log p_reference(token), by default as a mean over the answer's tokens
verifier   log P("YES") - log P("NO") after the question whether the answer is good; as published, the mean log-prob of
           "YES" and what ends the turn
choice     P("A") / (P("A") + P("B")) after the question which of two answers is better, over all pairs and both orders

The tokens of `endo` and `dpo` are those of the answer, or with `end=turn` also what the chat template writes after it,
as published: the server of the reference returns the log-probs of all that follows the prompt.

docs/neural-models.md has the keys.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, permutations, tee
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from pluralrm.core import Failure, Query, Score, Verdict, Vote
from pluralrm.errors import ModelError, SpecError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.models.neural.engine import Calculator, Values
from pluralrm.models.neural.folder import ModelFolder, code_trusted, open_folder
from pluralrm.models.neural.kind import (
    NeuralModel,
    NeuralOutcome,
    answered,
    language_model,
    load_tokenizer,
    rated_span,
    template_of,
)
from pluralrm.models.neural.loading import open_language_model, settings
from pluralrm.models.neural.passes import Group
from pluralrm.models.neural.prompts import Encoded
from pluralrm.models.neural.trees import StateRequest
from pluralrm.specs import Spec
from pluralrm.templates import Message, Template

How = Literal["mean", "sum", "discounted"]
End = Literal["answer", "turn"]


class Aggregate(NamedTuple):
    """How the values of an answer's tokens become one number."""

    how: How
    discount: float
    clip: float

    def __call__(self, values: NDArray[np.float64]) -> float:
        """Return the mean, the sum, or the sum in which token t weighs max(discount^t, clip), t from 0."""
        if self.how == "mean":
            return float(values.mean())
        if self.how == "sum":
            return float(values.sum())
        weights = np.maximum(self.discount ** np.arange(len(values)), self.clip)
        return float((values * weights).sum())

    @property
    def facts(self) -> dict[str, str]:
        """What the identity keeps: the spec may leave it to defaults."""
        return {"aggregate": f"discounted {self.discount} {self.clip}" if self.how == "discounted" else self.how}


@dataclass(frozen=True, slots=True)
class SpokenAnswer:
    """The formula of both kinds: every candidate is the assistant's turn, and its tokens are rated."""

    template: Template
    aggregate: Aggregate
    end: End = "answer"

    @property
    def facts(self) -> dict[str, str]:
        """What the identity keeps; the default is left out, as runs of before have it."""
        return self.aggregate.facts | ({"end": self.end} if self.end != "answer" else {})

    def conversations(self, query: Query) -> list[list[Message]]:
        """Return one conversation per candidate."""
        return answered(self.template, query)

    def ask(self, encoded: Encoded) -> StateRequest | Failure:
        """Return the Ask for the answer's tokens, to the end of its text or of the turn."""
        return rated_span(encoded, turn=self.end == "turn")

    def verdict(self, query: Query, outcomes: Sequence[NeuralOutcome]) -> Verdict:  # noqa: ARG002 - one outcome per candidate
        """Return each candidate's aggregate."""
        return Verdict(
            tuple(outcome if isinstance(outcome, Failure) else self.aggregate(outcome) for outcome in outcomes)
        )


@dataclass(frozen=True, slots=True)
class Ratio:
    """Log-ratios of two language models, token by token, over the same ids."""

    policy: Calculator
    reference: Calculator

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array per ask."""
        first, second = tee(groups)  # either runs ahead of the other by no more than what it computes at once
        for logprobs, other in zip(self.policy.values(first), self.reference.values(second), strict=True):
            yield [policy - reference for policy, reference in zip(logprobs, other, strict=True)]


def endo(spec: Spec) -> NeuralModel:
    """Return the model of `endo:LM`."""
    formula = SpokenAnswer(template_of(spec), _aggregate(spec, "discounted", clip=0.0), _end(spec))
    return language_model(spec, formula, formula.template, formula.facts)


def dpo(spec: Spec) -> NeuralModel:
    """Return the model of `dpo:POLICY,reference=REF`; a reference with other tokens is a ModelError."""
    if "reference" not in spec.options:
        raise SpecError(f"dpo needs the model that the policy was trained from: dpo:{spec.target},reference=FOLDER")
    formula = SpokenAnswer(template_of(spec), _aggregate(spec, "mean", clip=0.03), _end(spec))
    chosen = settings(spec)
    reference = open_folder(spec.options["reference"], kind=spec.kind, trusted=code_trusted(spec))
    model = language_model(spec, formula, formula.template, formula.facts)
    _check_tokens(model.folders[""], reference)
    return replace(
        model,
        network=cache(lambda: Ratio(model.network(), open_language_model(reference, chosen))),
        folders={**model.folders, "reference": reference},
    )


def _check_tokens(policy: ModelFolder, reference: ModelFolder) -> None:
    """Raise where an id means another token to the reference: its log-probs would be of another text."""
    files = [folder.path / "tokenizer.json" for folder in (policy, reference)]
    if all(file.is_file() for file in files) and file_hash(files[0]) == file_hash(files[1]):
        return
    entries, others = (set(load_tokenizer(folder).get_vocab().items()) for folder in (policy, reference))
    if entries != others:
        token, token_id = min(entries ^ others, key=lambda entry: (entry[1], entry[0]))
        raise ModelError(
            f"dpo: {policy.name} and {reference.name} have different tokens ({len(entries ^ others)} entries differ, "
            f"the first is {token!r} = {token_id}), wanted the same: a ratio needs both models to read the same ids"
        )


def _end(spec: Spec) -> End:
    end = spec.options.get("end", "answer")
    if end not in get_args(End):
        raise SpecError(f"{spec.kind}: end is {end!r}.{did_you_mean(end, get_args(End))}")
    return cast("End", end)


def _aggregate(spec: Spec, default: How, *, clip: float) -> Aggregate:
    how = spec.options.get("aggregate", default)
    if how not in get_args(How):
        raise SpecError(f"{spec.kind}: aggregate is {how!r}.{did_you_mean(how, get_args(How))}")
    unused = [key for key in ("discount", "clip") if key in spec.options and how != "discounted"]
    if unused:
        raise SpecError(
            f"{spec.kind}: {unused[0]} means nothing with aggregate={how}; leave it out, or say aggregate=discounted"
        )
    return Aggregate(
        cast("How", how),
        discount=spec.number("discount", 0.93, least=0, most=1),
        clip=spec.number("clip", clip, least=0, most=1),
    )


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
        questions = [Message("user", self.template.render(query, [answer])) for answer in query.candidates]
        return [[question, Message("assistant", word)] for question in questions for word in self._words]

    def ask(self, encoded: Encoded) -> StateRequest | Failure:
        """Return the Ask for the word's tokens; as published, for all that the chat template writes after them too."""
        return rated_span(encoded, turn=self.published)

    def verdict(self, query: Query, outcomes: Sequence[NeuralOutcome]) -> Verdict:
        """Return each candidate's difference of log-probs, or its mean log-prob."""
        width = len(self._words)
        return Verdict(tuple(self._score(outcomes[width * n : width * (n + 1)]) for n in range(len(query.candidates))))

    def _score(self, outcomes: Sequence[NeuralOutcome]) -> Score:
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
        questions = [
            Message("user", self.template.render(query, [answers[first], answers[second]]))
            for first, second in self._orders(query)
        ]
        return [[question, Message("assistant", letter)] for question in questions for letter in LETTERS]

    def ask(self, encoded: Encoded) -> StateRequest | Failure:
        """Return the Ask for the letter's tokens."""
        return rated_span(encoded)

    def verdict(self, query: Query, outcomes: Sequence[NeuralOutcome]) -> Verdict:
        """Return mean chances and one Vote per question; a candidate of which a question failed has no score."""
        orders = self._orders(query)
        odds = [_log_odds(outcomes[2 * n : 2 * n + 2]) for n in range(len(orders))]
        chances: list[list[Chance]] = [[] for _ in query.candidates]
        for (first, second), value in zip(orders, odds, strict=True):
            chances[first].append(_chance(value))
            chances[second].append(_chance(value if isinstance(value, Failure) else -value))
        votes = [Vote(order, _outcome(odd, order)) for order, odd in zip(orders, odds, strict=True)]
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


def _log_odds(outcomes: Sequence[NeuralOutcome]) -> Score:
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


def _sums(outcomes: Sequence[NeuralOutcome]) -> list[float] | Failure:
    """Return the log-prob of each text, or the first failure."""
    sums: list[float] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            return outcome
        sums.append(float(outcome.sum()))
    return sums


def _one_of(spec: Spec, key: str, choices: Sequence[str]) -> str:
    """Return an option that has a few values, the first by default."""
    value = spec.options.get(key, choices[0])
    if value not in choices:
        raise SpecError(f"{spec.kind}: {key} is {value!r}.{did_you_mean(value, choices)}")
    return value

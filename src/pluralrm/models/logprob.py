"""`endo:` and `dpo:`: what an answer is worth to a language model, read off the log-probs of its own tokens.

endo   sum over the answer's tokens t = 0, 1, ... of log p(token) x max(discount^t, clip)
dpo    log p_policy(token) - log p_reference(token), by default as a mean over the answer's tokens

The tokens are those of the answer, or with `end=turn` also what the chat template writes after it, as published: the
server of the reference returns the log-probs of all that follows the prompt.

docs/neural-models.md has the keys.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import tee
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from pluralrm.core import Failure, Query, Verdict
from pluralrm.errors import ModelError, SpecError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.models.neural.engine import Calculator, Values
from pluralrm.models.neural.folder import ModelFolder, code_trusted, open_folder
from pluralrm.models.neural.kind import (
    NeuralModel,
    Outcome,
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

    def verdict(self, query: Query, outcomes: Sequence[Outcome]) -> Verdict:  # noqa: ARG002 - one outcome per candidate
        """Return each candidate's aggregate."""
        return Verdict(tuple(one if isinstance(one, Failure) else self.aggregate(one) for one in outcomes))


@dataclass(frozen=True, slots=True)
class Ratio:
    """Log-ratios of two language models, token by token, over the same ids."""

    policy: Calculator
    reference: Calculator

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array per ask."""
        ours, theirs = tee(groups)  # either runs ahead of the other by no more than what it computes at once
        for one, other in zip(self.policy.values(ours), self.reference.values(theirs), strict=True):
            yield [policy - reference for policy, reference in zip(one, other, strict=True)]


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
    ours, theirs = (set(load_tokenizer(folder).get_vocab().items()) for folder in (policy, reference))
    if ours != theirs:
        token, place = min(ours ^ theirs, key=lambda entry: (entry[1], entry[0]))
        raise ModelError(
            f"dpo: {policy.name} and {reference.name} have different tokens ({len(ours ^ theirs)} entries differ, the "
            f"first is {token!r} = {place}), wanted the same: a ratio needs both models to read the same ids"
        )


def _end(spec: Spec) -> End:
    found = spec.options.get("end", "answer")
    if found not in get_args(End):
        raise SpecError(f"{spec.kind}: end is {found!r}.{did_you_mean(found, get_args(End))}")
    return cast("End", found)


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

"""The keys that only a judge's spec has; a value that cannot be meant is a SpecError."""

from collections.abc import Sequence
from dataclasses import replace

from pluralrm.chat import Sampling, options
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec

_ALTERNATIVES = 20
"""The most that OpenAI gives, and vLLM unless it is told otherwise."""


def one_of(spec: Spec, key: str, known: Sequence[str]) -> str:
    """Return an option that has a few values, the first by default."""
    found = spec.options.get(key, known[0])
    if found not in known:
        raise SpecError(f"judge: {key} is {found!r}.{did_you_mean(found, known)}")
    return found


def sampling(spec: Spec, *, tokens: int = options.TOKENS, logprobs: bool = False) -> Sampling:
    """Return how replies are drawn, with log-probs where they decide."""
    if not logprobs and "top_logprobs" in spec.options:
        raise SpecError("judge: top_logprobs means nothing where the text decides; leave it out")
    alternatives = spec.integer("top_logprobs", _ALTERNATIVES, least=2) if logprobs else 0
    return replace(options.sampling(spec, tokens), logprobs=logprobs, top_logprobs=alternatives)

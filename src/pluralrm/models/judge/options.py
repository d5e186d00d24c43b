"""The keys of a judge's spec, one by one; a value that cannot be meant is a SpecError."""

from collections.abc import Sequence

from pluralrm.chat import Sampling
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.models.judge.verdicts import Markers
from pluralrm.specs import Spec

REASONING = "<think>,</think>"
SENT = "posts"
"""A spec with `send=posts` lets what users wrote leave this machine; --send-posts writes it."""

_TOKENS = 512
_ALTERNATIVES = 20
"""The most that OpenAI gives, and vLLM unless it is told otherwise."""
_SERVER = "server"


def one_of(spec: Spec, key: str, known: Sequence[str]) -> str:
    """Return an option that has a few values, the first by default."""
    found = spec.options.get(key, known[0])
    if found not in known:
        raise SpecError(f"judge: {key} is {found!r}.{did_you_mean(found, known)}")
    return found


def seed(spec: Spec) -> int:
    """Return what orders, rotations and marks are derived from."""
    return spec.integer("seed", 0)


def sampling(spec: Spec, *, tokens: int = _TOKENS, logprobs: bool = False) -> Sampling:
    """Return how replies are drawn; only a draw by chance needs the seed."""
    if not logprobs and "top_logprobs" in spec.options:
        raise SpecError("judge: top_logprobs means nothing where the text decides; leave it out")
    temperature, most = _temperature(spec), spec.options.get("max_tokens")
    return Sampling(
        temperature=temperature,
        max_tokens=None if most == _SERVER else spec.integer("max_tokens", tokens, least=1),
        seed=seed(spec) if temperature else None,
        logprobs=logprobs,
        top_logprobs=spec.integer("top_logprobs", _ALTERNATIVES, least=2) if logprobs else 0,
    )


def _temperature(spec: Spec) -> float | None:
    """Return the temperature; None leaves it to the server, for models that take no other than their own."""
    text = spec.options.get("temperature", "0")
    if text == _SERVER:
        return None
    try:
        temperature = float(text)
    except ValueError:
        temperature = -1.0
    if not 0 <= temperature <= 2:
        raise SpecError(f"judge: temperature is {text!r}; wanted a number from 0 to 2, or {_SERVER!r}")
    return temperature


def reasoning_markers(spec: Spec) -> Markers | None:
    """Return what a reasoning block begins and ends with; None where blocks are not looked for."""
    text = spec.options.get("reasoning", REASONING)
    if text == "none":
        return None
    opened, _, closed = text.partition(",")
    if not (opened and closed) or opened == closed:
        raise SpecError(
            f"judge: reasoning is {text!r}; wanted what a block begins and ends with, as in "
            "reasoning=<think>%2C</think>, or none"
        )
    return Markers(opened, closed)


def may_send(spec: Spec) -> bool:
    """Return whether a spec says `send=posts`; any other value is a SpecError."""
    found = spec.options.get("send")
    if found not in (None, SENT):
        raise SpecError(f"judge: send is {found!r}; wanted send={SENT}, or leave it out")
    return found == SENT

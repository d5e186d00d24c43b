"""How servers of reward heads differ, as data: where they are asked, in which words, and where the numbers are.

vLLM (`vllm serve MODEL --runner pooling`): messages go through the server's own chat template. A route's defaults are
never relied on: /tokenize adds a generation prompt by default, and /classify a BOS to a text.

    /classify  {"model", "messages", "use_activation": false}
               -> {"data": [{"probs": [2.99], "num_classes": 1}], "usage"}
    /tokenize  {"model", "messages"} -> {"tokens": [1, 4], "token_strs": ["<s>", "<|im_start|>"], "count": 2}

SGLang (`python -m sglang.launch_server --model-path MODEL --is-embedding`): texts that are rendered here. Its
/v1/classify takes a softmax, which makes every reward 1.0, and answers 1.0 where it has none; it is never asked.

    /classify  {"model", "text"} -> {"embedding": [2.99], "meta_info": {"prompt_tokens": 23}}
    /tokenize  {"model", "prompt", "add_special_tokens"} -> {"tokens": [1, 4], "count": 2}

OpenRLHF's schema (`--reward.remote_url`): the URL of the spec is the route itself. It names no model and shows no
tokens. Labels are empty: what the benchmark holds to be right never leaves it.

    POST {"query": [TEXT], "prompts": [QUESTION], "labels": [""]} -> {"rewards": [2.99]}
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pluralrm.http import UnsoundError
from pluralrm.models.neural.sandbox import TODAY
from pluralrm.models.served.speech import SentConversation


class Manner(NamedTuple):
    """How one question is put."""

    model: str = ""
    special: bool = False
    """True where the tokenizer's own special tokens come around what the chat template writes."""
    activated: bool = False
    """True where an activation (a sigmoid) goes over the head's numbers."""


class HeadReading(NamedTuple):
    """What one reply says: the head's numbers for one text, and how many tokens it had, where the server counts."""

    numbers: tuple[float, ...]
    tokens: int | None = None


class ServerTokens(NamedTuple):
    """A text as the server's tokenizer reads it; `strings` are the tokens themselves, where it shows them."""

    ids: tuple[int, ...]
    strings: tuple[str, ...] = ()


Body = Callable[[SentConversation, Manner], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Tokenizing:
    """A route that shows how the server's tokenizer reads a conversation."""

    route: str
    body: Body


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of server. What it cannot tell (which model, which tokens) stays empty."""

    name: str
    start: str
    """The command that starts it, for messages."""
    body: Body
    read: Callable[[object], HeadReading]
    route: str = ""
    """Below the URL of the spec, with all that follows; empty where the spec's URL is the route itself."""
    models: str = ""
    """The route that lists models as OpenAI's does."""
    info: tuple[str, ...] = ()
    """Routes with facts about the model, of which the first that exists is read."""
    tokenizing: Tokenizing | None = None
    chats: bool = False
    """True where the server has a chat template of its own and takes messages."""
    activates: bool = False
    """True where the question can ask for an activation, or for none."""
    adds_special: bool = False
    """True where special tokens are added to every text, whatever is asked."""


def plain(text: str) -> SentConversation:
    """Return a text that no chat template shapes."""
    return SentConversation((), text)


# ---------------------------------------------------------------- what replies have in common


def numbers_of(value: object, name: str) -> tuple[float, ...]:
    """Return a flat list of numbers; null, which servers send for what is not finite, becomes NaN, never a score."""
    if not isinstance(value, list) or not value:
        raise UnsoundError(f"{name} is {_shown(value)}, not a list of numbers")
    return tuple(number_of(entry, f"an entry of {name}") for entry in value)


def number_of(value: object, name: str) -> float:
    """Return a number as a float, NaN for null, or raise UnsoundError."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnsoundError(f"{name} is {_shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def only(value: object, name: str) -> object:
    """Return the one entry of a list, or raise UnsoundError: one text was sent."""
    if not isinstance(value, list) or len(value) != 1:
        shape = f"a list of {len(value)}" if isinstance(value, list) else _shown(value)
        raise UnsoundError(f"{name} is {shape}, not a list of 1 for the 1 text that was sent")
    return value[0]


def part(value: object, name: str) -> object:
    """Return a field of a JSON object, or raise UnsoundError."""
    if not isinstance(value, dict) or name not in value:
        error = value.get("error") if isinstance(value, dict) else None
        raise UnsoundError(f"the reply has no {name!r}: {_shown(error or value)}")
    return value[name]


def count_of(value: object) -> int | None:
    """Return a count of tokens, or None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_tokens(value: object) -> ServerTokens:
    """Return what a tokenize route says, or raise UnsoundError."""
    ids = part(value, "tokens")
    if not isinstance(ids, list) or not all(count_of(token) is not None for token in ids):
        raise UnsoundError(f"'tokens' is {_shown(ids)}, not a list of token ids")
    strings = value.get("token_strs") if isinstance(value, dict) else None
    complete = isinstance(strings, list) and len(strings) == len(ids)
    return ServerTokens(tuple(ids), tuple(map(str, strings or ())) if complete else ())


def _shown(value: object) -> str:
    return repr(value)[:80]


# ---------------------------------------------------------------- vLLM


_DATE = f"{TODAY:%d %b %Y}"
"""What chat templates that take a date as `date_string` are told, as those that run here are."""


def _vllm_body(spoken: SentConversation, manner: Manner) -> Mapping[str, object]:
    return {**_vllm_text(spoken, manner, "input"), "use_activation": manner.activated}


def _vllm_tokenize_body(spoken: SentConversation, manner: Manner) -> Mapping[str, object]:
    return {**_vllm_text(spoken, manner, "prompt"), "return_token_strs": True}


def _vllm_text(spoken: SentConversation, manner: Manner, name: str) -> dict[str, object]:
    body: dict[str, object] = {"model": manner.model, "add_special_tokens": manner.special}
    if spoken.text is not None:
        return {**body, name: spoken.text}
    return {
        **body,
        "messages": [message._asdict() for message in spoken.messages],
        "add_generation_prompt": False,
        "chat_template_kwargs": {"date_string": _DATE},
    }


def _read_vllm(value: object) -> HeadReading:
    entry = only(part(value, "data"), "'data'")
    numbers = numbers_of(part(entry, "probs"), "'probs'")
    classes = entry.get("num_classes", len(numbers)) if isinstance(entry, dict) else None
    if classes != len(numbers):
        raise UnsoundError(f"the reply has {len(numbers)} 'probs' for {classes} classes")
    usage = value.get("usage") if isinstance(value, dict) else None
    return HeadReading(numbers, count_of(usage.get("prompt_tokens")) if isinstance(usage, dict) else None)


VLLM = Dialect(
    name="vllm",
    start="vllm serve MODEL --runner pooling",
    body=_vllm_body,
    read=_read_vllm,
    route="/classify",
    models="/v1/models",
    tokenizing=Tokenizing("/tokenize", _vllm_tokenize_body),
    chats=True,
    activates=True,
)


# ---------------------------------------------------------------- SGLang


def _sglang_body(spoken: SentConversation, manner: Manner) -> Mapping[str, object]:
    return {"model": manner.model, "text": spoken.text}


def _sglang_tokenize_body(spoken: SentConversation, manner: Manner) -> Mapping[str, object]:
    return {"model": manner.model, "prompt": spoken.text, "add_special_tokens": manner.special}


def _read_sglang(value: object) -> HeadReading:
    entry = only(value, "the reply") if isinstance(value, list) else value
    numbers = numbers_of(part(entry, "embedding"), "'embedding'")
    meta = entry.get("meta_info") if isinstance(entry, dict) else None
    return HeadReading(numbers, count_of(meta.get("prompt_tokens")) if isinstance(meta, dict) else None)


SGLANG = Dialect(
    name="sglang",
    start="python -m sglang.launch_server --model-path MODEL --is-embedding",
    body=_sglang_body,
    read=_read_sglang,
    route="/classify",
    models="/v1/models",
    info=("/model_info", "/get_model_info"),
    tokenizing=Tokenizing("/tokenize", _sglang_tokenize_body),
    adds_special=True,
)


# ---------------------------------------------------------------- OpenRLHF


def _openrlhf_body(spoken: SentConversation, manner: Manner) -> Mapping[str, object]:  # noqa: ARG001 - one manner is all it knows
    return {"query": [spoken.text], "prompts": [spoken.prompt], "labels": [""]}


def _read_openrlhf(value: object) -> HeadReading:
    return HeadReading((number_of(only(part(value, "rewards"), "'rewards'"), "'rewards'"),))


OPENRLHF = Dialect(
    name="remote",
    start="python -m openrlhf.cli.serve_rm --reward_pretrain MODEL --max_len 8192",
    body=_openrlhf_body,
    read=_read_openrlhf,
)

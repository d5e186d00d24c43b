"""vLLM (`vllm serve MODEL --runner pooling`): messages go through the server's own chat template.

/classify  {"model", "messages", "use_activation": false} -> {"data": [{"probs": [2.99], "num_classes": 1}], "usage"}
/tokenize  {"model", "messages"} -> {"tokens": [1, 4], "token_strs": ["<s>", "<|im_start|>"], "count": 2}

A route's defaults are never relied on: /tokenize adds a generation prompt by default, and /classify a BOS to a text.
"""

from collections.abc import Mapping

from pluralrm.http import UnsoundError
from pluralrm.models.neural.sandbox import TODAY
from pluralrm.models.served.dialect import Dialect, Manner, Read, Tokenizing, count_of, numbers_of, only, part
from pluralrm.models.served.spoken import Spoken

_DATE = f"{TODAY:%d %b %Y}"
"""What chat templates that take a date as `date_string` are told, as those that run here are."""


def _body(spoken: Spoken, manner: Manner) -> Mapping[str, object]:
    return {**_shown(spoken, manner, "input"), "use_activation": manner.activated}


def _tokenize_body(spoken: Spoken, manner: Manner) -> Mapping[str, object]:
    return {**_shown(spoken, manner, "prompt"), "return_token_strs": True}


def _shown(spoken: Spoken, manner: Manner, name: str) -> dict[str, object]:
    asked: dict[str, object] = {"model": manner.model, "add_special_tokens": manner.special}
    if spoken.text is not None:
        return {**asked, name: spoken.text}
    return {
        **asked,
        "messages": [message._asdict() for message in spoken.messages],
        "add_generation_prompt": False,
        "chat_template_kwargs": {"date_string": _DATE},
    }


def _read(value: object) -> Read:
    entry = only(part(value, "data"), "'data'")
    numbers = numbers_of(part(entry, "probs"), "'probs'")
    classes = entry.get("num_classes", len(numbers)) if isinstance(entry, dict) else None
    if classes != len(numbers):
        raise UnsoundError(f"the reply has {len(numbers)} 'probs' for {classes} classes")
    usage = value.get("usage") if isinstance(value, dict) else None
    return Read(numbers, count_of(usage.get("prompt_tokens")) if isinstance(usage, dict) else None)


VLLM = Dialect(
    name="vllm",
    start="vllm serve MODEL --runner pooling",
    body=_body,
    read=_read,
    route="/classify",
    models="/v1/models",
    tokenizing=Tokenizing("/tokenize", _tokenize_body),
    chats=True,
    activates=True,
)

"""SGLang (`python -m sglang.launch_server --model-path MODEL --is-embedding`): texts that are rendered here.

/classify  {"model", "text"} -> {"embedding": [2.99], "meta_info": {"prompt_tokens": 23}}
/tokenize  {"model", "prompt", "add_special_tokens"} -> {"tokens": [1, 4], "count": 2}

Its /v1/classify takes a softmax, which makes every reward 1.0, and answers 1.0 where it has none; it is never asked.
"""

from collections.abc import Mapping

from pluralrm.models.served.dialect import Dialect, Manner, Read, Tokenizing, count_of, numbers_of, only, part
from pluralrm.models.served.spoken import Spoken


def _body(spoken: Spoken, manner: Manner) -> Mapping[str, object]:
    return {"model": manner.model, "text": spoken.text}


def _tokenize_body(spoken: Spoken, manner: Manner) -> Mapping[str, object]:
    return {"model": manner.model, "prompt": spoken.text, "add_special_tokens": manner.special}


def _read(value: object) -> Read:
    entry = only(value, "the reply") if isinstance(value, list) else value
    numbers = numbers_of(part(entry, "embedding"), "'embedding'")
    meta = entry.get("meta_info") if isinstance(entry, dict) else None
    return Read(numbers, count_of(meta.get("prompt_tokens")) if isinstance(meta, dict) else None)


SGLANG = Dialect(
    name="sglang",
    start="python -m sglang.launch_server --model-path MODEL --is-embedding",
    body=_body,
    read=_read,
    route="/classify",
    models="/v1/models",
    info=("/model_info", "/get_model_info"),
    tokenizing=Tokenizing("/tokenize", _tokenize_body),
    adds_special=True,
)

"""Servers of reward heads on loopback: vLLM's, SGLang's and OpenRLHF's routes over one small head. Real HTTP.

    with FakeHead("vllm", Quirks(activation="always")) as server:
        load_model(f"vllm:{server.url}")

The head is a real function of token ids, the tokenizer a real tokenizer (pieces of text, control tokens, a BOS). What
goes wrong at real servers can be switched on, at any time: `server.quirks = Quirks(...)`.
"""

import hashlib
import json
import math
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tests.fake_chat import Action, FakeChat, Seen, reply, status

SPECIALS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
BOS = 1
TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
PROMPTING = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHATML = "{{ bos_token }}" + TURNS + PROMPTING

_PIECES = re.compile("|".join(map(re.escape, SPECIALS)) + r"|\w+|\s|[^\w\s]")

Ids = list[int]


@dataclass(frozen=True)
class Quirks:
    """What this server is like; the defaults are a sound one."""

    activation: Literal["asked", "always", "none"] = "asked"
    """A sigmoid where it is asked for (as vLLM), always (as old or wrong servers), or never."""
    unit: bool = False
    """The head's own numbers lie in [0, 1]."""
    labels: int = 1
    weights: str = "a"
    """Another name has other weights; `words` counts the pieces of a text, `nothing` says 3 to everything."""
    template_bos: int = 1
    tokenizer_bos: bool = True
    limit: int | None = 4096
    cut: int | None = None
    """Tokens after which a text is cut without a word."""
    counts: bool = True
    """Says how many tokens it read."""
    tokenize: bool = True
    names: tuple[str, ...] = ("head",)
    root: str = "/models/head"
    generates: bool = False
    broken: Callable[[dict[str, Any]], object] | None = None
    """Changes the body of every scoring reply."""


def encode(text: str) -> Ids:
    """Return the ids of a text in which control tokens are read as such."""
    return [SPECIALS.index(piece) + 1 if piece in SPECIALS else _piece(piece) for piece in _PIECES.findall(text)]


@cache
def _piece(text: str) -> int:
    return 100 + zlib.crc32(text.encode("utf-8", "surrogatepass")) % 100_000


def logits(ids: Sequence[int], weights: str = "a", labels: int = 1) -> list[float]:
    """Return the head's numbers: anything of ids and weights, from -8 to 8."""
    if weights in ("words", "nothing"):
        return [float(len(ids)) if weights == "words" else 3.0] * labels
    seed = hashlib.sha256(struct.pack(f"{len(ids)}I", *ids) + weights.encode()).hexdigest()
    draws = random.Random(seed)
    return [draws.uniform(-8, 8) for _ in range(labels)]


def chat_text(messages: Iterable[Mapping[str, str]], bos: int = 1) -> str:
    """Return what the server's chat template writes."""
    turns = (f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in messages)
    return "<s>" * bos + "".join(turns)


def tokenizer_folder(folder: Path, source: str = CHATML) -> Path:
    """Write what a folder has for this server's chat template, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": source}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


class FakeHead(FakeChat):
    """The server."""

    def __init__(
        self,
        dialect: str = "vllm",
        quirks: Quirks | None = None,
        *,
        faults: Iterable[Action] = (),
        latency: float = 0.0,
    ) -> None:
        super().__init__(self._route, faults=faults, latency=latency)
        self.quirks = quirks or Quirks()
        routes: Mapping[str, Mapping[str, Callable[[Any], Action]]] = {
            "vllm": {"/v1/models": self._models, "/tokenize": self._tokenize, "/classify": self._vllm},
            "sglang": {
                "/v1/models": self._models,
                "/get_model_info": self._info,
                "/tokenize": self._tokenize,
                "/classify": self._sglang,
            },
            "remote": {"/get_reward": self._openrlhf},
        }
        self._routes = routes[dialect]
        self._dialect = dialect

    @property
    def url(self) -> str:
        """The URL for a spec."""
        return f"http://127.0.0.1:{self.port}" + ("/get_reward" if self._dialect == "remote" else "")

    def asked(self, path: str) -> list[Seen]:
        """Return the requests to one route."""
        return [seen for seen in self.requests if seen.path == path]

    @property
    def scored(self) -> list[Seen]:
        """The requests for scores, probes among them."""
        return [*self.asked("/classify"), *self.asked("/get_reward")]

    def _route(self, seen: Seen) -> Action:
        route = self._routes.get(seen.path)
        if route is None or (seen.path == "/tokenize" and not self.quirks.tokenize):
            return Action(404, b'{"detail":"Not Found"}', {"Content-Type": "application/json"})
        return route(seen.body)

    # ------------------------------------------------------------ facts

    def _models(self, _: object) -> Action:
        quirks = self.quirks
        return reply(
            {
                "object": "list",
                "data": [
                    {"id": name, "object": "model", "root": quirks.root, "parent": None, "max_model_len": quirks.limit}
                    for name in quirks.names
                ],
            }
        )

    def _info(self, _: object) -> Action:
        quirks = self.quirks
        return reply({"model_path": quirks.root, "weight_version": "default", "is_generation": quirks.generates})

    def _tokenize(self, body: dict[str, Any]) -> Action:
        ids = self._ids(body, "prompt", special="messages" not in body)
        strings = [SPECIALS[place - 1] if place <= len(SPECIALS) else "piece" for place in ids]
        shown = strings if body.get("return_token_strs") else None
        return reply({"count": len(ids), "max_model_len": self.quirks.limit, "tokens": ids, "token_strs": shown})

    def _ids(self, body: dict[str, Any], name: str, *, special: bool) -> Ids:
        if "messages" in body:
            text = chat_text(body["messages"], self.quirks.template_bos)
            # As in vLLM: a generation prompt unless it is refused, which /classify does by itself.
            text += "<|im_start|>assistant\n" if body.get("add_generation_prompt", name == "prompt") else ""
        else:
            text = body[name]
        added = [BOS] if self.quirks.tokenizer_bos and body.get("add_special_tokens", special) else []
        return added + encode(text)

    # ------------------------------------------------------------ scores

    def _vllm(self, body: dict[str, Any]) -> Action:
        if body["model"] not in self.quirks.names:
            return status(404, f"The model `{body['model']}` does not exist.")
        ids = self._ids(body, "input", special="messages" not in body)
        numbers = self._numbers(ids, activated=body.get("use_activation", True))
        if isinstance(numbers, Action):
            return numbers
        count = min(len(ids), self.quirks.cut or len(ids))
        data = [{"index": 0, "label": "LABEL_0", "probs": numbers, "num_classes": len(numbers)}]
        usage = {"usage": {"prompt_tokens": count, "completion_tokens": 0}} if self.quirks.counts else {}
        return self._said({"id": "c", "object": "list", "model": body["model"], "data": data, **usage})

    def _sglang(self, body: dict[str, Any]) -> Action:
        ids = [BOS, *encode(body["text"])] if self.quirks.tokenizer_bos else encode(body["text"])
        numbers = self._numbers(ids, activated=self.quirks.activation == "always")
        if isinstance(numbers, Action):
            return numbers
        count = min(len(ids), self.quirks.cut or len(ids))
        meta = {"meta_info": {"id": "r", "prompt_tokens": count}} if self.quirks.counts else {}
        return self._said({"embedding": numbers, **meta})

    def _openrlhf(self, body: dict[str, Any]) -> Action:
        assert [len(body[name]) for name in ("query", "prompts", "labels")] == [1, 1, 1]
        numbers = self._numbers(encode(body["query"][0]), activated=self.quirks.activation == "always")
        return numbers if isinstance(numbers, Action) else self._said({"rewards": numbers})

    def _numbers(self, ids: Ids, *, activated: bool) -> list[float] | Action:
        quirks = self.quirks
        if quirks.cut is None and quirks.limit is not None and len(ids) > quirks.limit and self._dialect != "remote":
            return status(400, f"This model's maximum context length is {quirks.limit} tokens. Yours has {len(ids)}.")
        found = logits(ids[: quirks.cut], quirks.weights, quirks.labels)
        if quirks.unit:
            found = [(number + 8) / 16 for number in found]
        sigmoid = quirks.activation == "always" or (quirks.activation == "asked" and activated)
        return [1 / (1 + math.exp(-number)) for number in found] if sigmoid else found

    def _said(self, body: dict[str, Any]) -> Action:
        return reply(body if self.quirks.broken is None else self.quirks.broken(body))

"""`lm:FOLDER`: a language model in a folder, or on the hub, as a policy; prompts are assembled as those of `hf:`.

Continuations of one prompt are drawn beside each other: the prompt is computed once, its keys are shared by all.

    u ~ one number of Random(seed) per token
    P = softmax(logits / temperature), among the likeliest tokens that make up top_p together; ties stay in
    token = the first whose cumulative P, in the order of the vocabulary, is beyond u

Every row has a seed of its own, and every pass the same shape: rows that are over, or that are not needed, are computed
to the end of their batch. So what is drawn beside a row changes no bit of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch

from pluralrm.chat import reasoning_markers
from pluralrm.chat.completions import Markers
from pluralrm.core import Failure, Query
from pluralrm.errors import ModelError, SpecError
from pluralrm.http import Settings
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.kind import chat_assembler, folder_of, load_tokenizer, template_of
from pluralrm.models.neural.loading import LoadSettings, load_language_model, settings
from pluralrm.models.neural.prompts import Assembler
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer, policy_answer
from pluralrm.specs import Spec
from pluralrm.templates import Message, Template

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_FIRST = 1024
"""The likeliest tokens that are looked at before all: sorting a whole vocabulary takes longer than the network."""


class Continuation(NamedTuple):
    """Token ids without the one that ends them; `cut` where none did, and the longest was reached."""

    ids: tuple[int, ...]
    cut: bool


class Network(NamedTuple):
    """Weights, the tokens that end an answer, and what makes text of ids."""

    model: "PreTrainedModel"
    ends: frozenset[int]
    text: Callable[[Sequence[int]], str]


def open_network(folder: ModelFolder, chosen: LoadSettings) -> Network:
    """Return what a folder holds; an answer ends where the generation config says, else at the tokenizer's EOS."""
    model, tokenizer = load_language_model(folder, chosen), load_tokenizer(folder)
    eos = model.generation_config.eos_token_id if model.generation_config else None
    ends = [tokenizer.eos_token_id] if eos is None else eos if isinstance(eos, list) else [eos]

    def text(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    return Network(model, frozenset(token for token in ends if token is not None), text)


def continuations(
    network: Network, prompt: Sequence[int], seeds: Sequence[int], draw: Draw, *, width: int
) -> Iterator[Continuation]:
    """Yield one continuation per seed, in order; `width` rows are computed at once."""
    try:
        with torch.inference_mode():
            start = _start(network.model, prompt)
        for first in range(0, len(seeds), width):
            with torch.inference_mode():
                batch = _batch(network, start, seeds[first : first + width], draw, width=width)
            yield from batch
    except torch.OutOfMemoryError as exc:
        raise ModelError(
            f"out of memory with {width} answers at a time. Use a smaller batch= in the spec, dtype=bfloat16, or a "
            "smaller model"
        ) from exc


class _Start(NamedTuple):
    """The prompt as the network has read it."""

    logits: torch.Tensor
    """(1, vocabulary): of the token that comes next."""
    cache: object


def _start(model: "PreTrainedModel", prompt: Sequence[int]) -> _Start:
    ids = torch.tensor([prompt], device=model.device)
    output = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    return _Start(output.logits[:, -1], output.past_key_values)


def _batch(network: Network, start: _Start, seeds: Sequence[int], draw: Draw, *, width: int) -> list[Continuation]:
    model = network.model
    cache = deepcopy(start.cache)
    cache.batch_repeat_interleave(width)  # type: ignore[attr-defined]
    coins = [Random(seed) for seed in [*seeds, *([0] * (width - len(seeds)))]]
    ids: list[list[int]] = [[] for _ in seeds]
    cut = [True] * len(seeds)
    logits, going = start.logits.expand(width, -1), set(range(len(seeds)))
    for step in range(draw.max_tokens):
        tokens = choose(logits, [coin.random() for coin in coins], draw.temperature, draw.top_p)
        for row in sorted(going):
            if tokens[row] in network.ends:
                cut[row] = False
                going.remove(row)
            else:
                ids[row].append(tokens[row])
        if not going or step + 1 == draw.max_tokens:
            break
        following = torch.tensor(tokens, device=model.device)[:, None]
        logits = model(input_ids=following, past_key_values=cache, use_cache=True).logits[:, -1]
    return [Continuation(tuple(row), at_end) for row, at_end in zip(ids, cut, strict=True)]


def choose(logits: torch.Tensor, draws: Sequence[float], temperature: float, top_p: float) -> list[int]:
    """Return a token per row of (rows, vocabulary), by numbers in [0, 1); the likeliest where temperature is 0."""
    if temperature == 0:
        return [int(token) for token in logits.argmax(dim=-1).tolist()]
    likely = torch.softmax(logits.double() / temperature, dim=-1)
    if top_p < 1:
        likely = likely * (likely >= _least(likely, top_p))
    sums = likely.cumsum(dim=-1)
    points = torch.tensor(draws, dtype=sums.dtype, device=sums.device)[:, None] * sums[:, -1:]
    tokens = torch.searchsorted(sums, points, right=True)[:, 0].clamp_max(logits.shape[-1] - 1)
    return [int(token) for token in tokens.tolist()]


def _least(likely: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return per row the probability of the last token that is needed for `top_p`: (rows, 1)."""
    vocabulary = likely.shape[-1]
    first = likely.topk(min(_FIRST, vocabulary), dim=-1).values
    if first.shape[-1] < vocabulary and bool((first.sum(dim=-1) < top_p).any()):
        first = likely.sort(dim=-1, descending=True).values
    before = first.cumsum(dim=-1) - first
    needed = (before < top_p).sum(dim=-1, keepdim=True)
    return first.gather(-1, needed - 1)


_BATCH = 16


@dataclass(frozen=True)
class LocalPolicy:
    """A language model that answers prompts, `batch` answers to one prompt at a time."""

    spec: str
    template: Template
    prompts: Assembler
    network: Callable[[], Network]
    """Opens the weights on its first call, and returns the same afterwards."""
    folder: ModelFolder
    reasoning: Markers | None = None
    batch: int = _BATCH
    prompt_tokens: int | None = None
    """Of a prompt at most; None where only the model's own length limits it."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a pool is resumed; files are hashed, no weight is held in memory."""
        return {
            "revision": self.folder.revision,
            "weights": self.folder.hash(),
            "template": self.template.hash,
            "chat template": self.prompts.template.hash,
            "reasoning": repr(self.reasoning),
            "batch": str(self.batch),
            **({} if self.prompt_tokens is None else {"prompt tokens": str(self.prompt_tokens)}),
        }

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
        """Yield one answer per ask, in order; a prompt that leaves no room for the longest answer has none."""
        prompts = self.leaving_room(draw.max_tokens)
        for _, several in groupby(asks, key=lambda ask: ask.query.id):
            yield from self._answers(list(several), prompts, draw)

    def _answers(
        self, asks: Sequence[AnswerRequest], prompts: Assembler, draw: Draw
    ) -> Iterator[PolicyAnswer | Failure]:
        query = asks[0].query
        assembled = prompts.assemble(query, self.conversations)
        [encoded] = assembled.sequences
        if isinstance(encoded, Failure):
            yield from [encoded] * len(asks)
            return
        posts_kept = assembled.posts_kept if query.user is not None and query.user.posts else None
        network, seeds, width = self.network(), [ask.seed for ask in asks], min(self.batch, draw.n)
        opened = self.opened(query)
        for reply in continuations(network, encoded.ids, seeds, draw, width=width):
            text = opened + network.text(reply.ids)
            yield policy_answer(text, self.reasoning, cut=reply.cut, tokens=len(reply.ids), posts_kept=posts_kept)

    def conversations(self, query: Query) -> list[list[Message]]:
        """Return the one conversation that a query is to a policy: it is the assistant's turn."""
        return [self.template.turns(query)]

    def opened(self, query: Query) -> str:
        """Return what opens a reasoning block where the chat template opens one itself, else nothing."""
        if self.reasoning is None:
            return ""
        [turns] = self.conversations(query)
        prompt = self.prompts.template.render(turns, prompting=True)
        return self.reasoning.open if prompt.rstrip().endswith(self.reasoning.open) else ""

    def leaving_room(self, tokens: int) -> Assembler:
        """Return the assembler of prompts of `prompt_tokens` at most, after which an answer of so many tokens fits."""
        limit = self.prompts.limit
        if limit is not None and limit <= tokens:
            raise SpecError(f"max_tokens is {tokens}; this model reads at most {limit} tokens, the prompt included")
        limits = [self.prompt_tokens, None if limit is None else limit - tokens]
        least = min((value for value in limits if value is not None), default=None)
        return Assembler(self.prompts.template, self.prompts.tokenizer, least)


def lm(spec: Spec, _: Settings | None) -> LocalPolicy:
    """Return the policy of `lm:FOLDER`."""
    template, folder, chosen = template_of(spec), folder_of(spec), settings(spec)
    return LocalPolicy(
        spec=str(spec),
        template=template,
        prompts=chat_assembler(spec, folder),
        network=cache(lambda: open_network(folder, chosen)),
        folder=folder,
        reasoning=reasoning_markers(spec),
        batch=spec.integer("batch", _BATCH, least=1),
        prompt_tokens=spec.integer("prompt_tokens", 0, least=1) if "prompt_tokens" in spec.options else None,
    )

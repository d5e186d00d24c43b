"""Continuations of one prompt, drawn beside each other: the prompt is computed once, its keys are shared by all.

    u ~ one number of Random(seed) per token
    P = softmax(logits / temperature), among the likeliest tokens that make up top_p together; ties stay in
    token = the first whose cumulative P, in the order of the vocabulary, is beyond u

Every row has a seed of its own, and every pass the same shape: rows that are over, or that are not needed, are computed
to the end of their batch. So what is drawn beside a row changes no bit of it.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch

from pluralrm.errors import ModelError
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.kind import load_tokenizer
from pluralrm.models.neural.loading import LoadSettings, load_language_model
from pluralrm.policies.policy import Draw

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
    named = model.generation_config.eos_token_id if model.generation_config else None
    ends = [tokenizer.eos_token_id] if named is None else named if isinstance(named, list) else [named]

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
    found = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    return _Start(found.logits[:, -1], found.past_key_values)


def _batch(network: Network, start: _Start, seeds: Sequence[int], draw: Draw, *, width: int) -> list[Continuation]:
    model = network.model
    cache = deepcopy(start.cache)
    cache.batch_repeat_interleave(width)  # type: ignore[attr-defined]
    coins = [Random(seed) for seed in [*seeds, *([0] * (width - len(seeds)))]]
    ids: list[list[int]] = [[] for _ in seeds]
    cut = [True] * len(seeds)
    logits, going = start.logits.expand(width, -1), set(range(len(seeds)))
    for place in range(draw.max_tokens):
        tokens = choose(logits, [coin.random() for coin in coins], draw.temperature, draw.top_p)
        for row in sorted(going):
            if tokens[row] in network.ends:
                cut[row] = False
                going.remove(row)
            else:
                ids[row].append(tokens[row])
        if not going or place + 1 == draw.max_tokens:
            break
        following = torch.tensor(tokens, device=model.device)[:, None]
        logits = model(input_ids=following, past_key_values=cache, use_cache=True).logits[:, -1]
    return [Continuation(tuple(one), at_end) for one, at_end in zip(ids, cut, strict=True)]


def choose(logits: torch.Tensor, draws: Sequence[float], temperature: float, top_p: float) -> list[int]:
    """Return a token per row of (rows, vocabulary), by numbers in [0, 1); the likeliest where temperature is 0."""
    if temperature == 0:
        return [int(token) for token in logits.argmax(dim=-1).tolist()]
    likely = torch.softmax(logits.double() / temperature, dim=-1)
    if top_p < 1:
        likely = likely * (likely >= _least(likely, top_p))
    sums = likely.cumsum(dim=-1)
    wanted = torch.tensor(draws, dtype=sums.dtype, device=sums.device)[:, None] * sums[:, -1:]
    found = torch.searchsorted(sums, wanted, right=True)[:, 0].clamp_max(logits.shape[-1] - 1)
    return [int(token) for token in found.tolist()]


def _least(likely: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return per row the probability of the last token that is needed for `top_p`: (rows, 1)."""
    vocabulary = likely.shape[-1]
    first = likely.topk(min(_FIRST, vocabulary), dim=-1).values
    if first.shape[-1] < vocabulary and bool((first.sum(dim=-1) < top_p).any()):
        first = likely.sort(dim=-1, descending=True).values
    before = first.cumsum(dim=-1) - first
    needed = (before < top_p).sum(dim=-1, keepdim=True)
    return first.gather(-1, needed - 1)

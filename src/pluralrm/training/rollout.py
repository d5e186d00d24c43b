"""Answers to many prompts at once, each drawn by its own seed as those of a pool are.

Here the end of an answer is one of its tokens: that it was chosen is learned like any other choice.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import torch

from pluralrm.policies.draw import Draw
from pluralrm.policies.generate import Network, choose
from pluralrm.training.tokens import padded_prompts, positions


class Answer(NamedTuple):
    """Token ids with the one that ends them; `cut` where none did, and the longest was reached."""

    ids: tuple[int, ...]
    cut: bool

    @property
    def spoken(self) -> tuple[int, ...]:
        """The ids of the text, without the end."""
        return self.ids if self.cut else self.ids[:-1]


def draw_answers(
    network: Network, prompts: Sequence[Sequence[int]], seeds: Sequence[int], draw: Draw, *, rows: int
) -> list[Answer]:
    """Return one answer per prompt and seed, in order; `rows` are computed at once."""
    found: list[Answer] = []
    for first in range(0, len(prompts), rows):
        several = slice(first, first + rows)
        with torch.no_grad():
            found += _together(network, prompts[several], seeds[several], draw)
    return found


def _together(network: Network, prompts: Sequence[Sequence[int]], seeds: Sequence[int], draw: Draw) -> list[Answer]:
    model = network.model
    ids, seen = padded_prompts(prompts, model.device)
    coins, answers = [Random(seed) for seed in seeds], [list[int]() for _ in seeds]
    going, cache, place = set(range(len(seeds))), None, positions(seen)
    for _ in range(draw.max_tokens):
        passed = model(
            input_ids=ids,
            attention_mask=seen.long(),
            position_ids=place,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = passed.past_key_values
        tokens = choose(passed.logits[:, -1], [coin.random() for coin in coins], draw.temperature, draw.top_p)
        for row in sorted(going):
            answers[row].append(tokens[row])
        going -= {row for row in going if tokens[row] in network.ends}
        if not going:
            break
        ids = torch.tensor(tokens, device=model.device)[:, None]
        seen = torch.cat([seen, torch.ones_like(seen[:, :1])], dim=1)
        place = place[:, -1:] + 1
    return [Answer(tuple(one), cut=row in going) for row, one in enumerate(answers)]

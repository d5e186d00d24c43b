"""The reward function that OpenRLHF loads from a file: `--reward.remote_url .../pluralrm/serve/openrlhf.py`.

`labels` carry the item's id (`--data.label_key item`), or are empty. What a tokenizer writes at the end of a turn is
taken off the answer: name it in PLURALRM_REWARD_END, such as <|im_end|>.
"""

import os
from collections.abc import Sequence
from functools import lru_cache

from pluralrm.errors import ServiceError
from pluralrm.serve.client import RewardClient


@lru_cache(maxsize=1)
def _client() -> RewardClient:
    client = RewardClient.from_environment()
    client.handshake()
    return client


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str | None], **_options: object
) -> dict[str, object]:
    """Return {"rewards", "scores", "extra_logs"}; OpenRLHF cannot leave a reward out, so one that failed raises."""
    import torch

    end = os.environ.get("PLURALRM_REWARD_END", "")
    rollouts = [_rollout(*texts, end) for texts in zip(queries, prompts, labels, strict=True)]
    rewards = torch.tensor([reward for [reward] in _client().rewards(rollouts)], dtype=torch.float32)
    return {"rewards": rewards, "scores": rewards, "extra_logs": {}}


def _rollout(query: str, prompt: str, item: str | None, end: str) -> dict[str, object]:
    if not query.startswith(prompt):
        raise ServiceError(
            f"a query of {len(query):,} characters does not begin with its prompt of {len(prompt):,}: where its answer "
            "begins is not known"
        )
    answer = query[len(prompt) :].removesuffix("\n")
    answer = answer.removesuffix(end) if end else answer
    return {**({"item": item} if item else {"prompt": prompt}), "candidates": [answer]}

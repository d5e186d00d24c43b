"""A reward function for TRL's GRPO and RLOO trainers: `reward_funcs=reward_func()`.

The data set has a column `item` with the item's id; without it the prompts themselves are asked about. A reward that
failed is None where the policy is to mask: TRL leaves such an answer out.
"""

from collections.abc import Callable, Sequence

from pluralrm.errors import ServiceError
from pluralrm.serve.client import Policy, RewardClient

Message = dict[str, str]


def reward_func(client: RewardClient | None = None, *, policy: Policy = "mask") -> Callable[..., list[float | None]]:
    """Return the function; without a client it is the one of the environment. The handshake happens here."""
    asked = client or RewardClient.from_environment(policy=policy)
    asked.handshake()

    def pluralrm_reward(
        prompts: Sequence[str | list[Message]],
        completions: Sequence[str | list[Message]],
        item: Sequence[str] | None = None,
        **_columns: object,
    ) -> list[float | None]:
        """Return one reward per completion, in order."""
        if item is not None and len(item) != len(completions):
            raise ServiceError(f"{len(item)} items for {len(completions)} completions; wanted one each")
        rollouts: list[dict[str, object]] = [
            {**({"item": item[place]} if item else {"prompt": _text(prompts[place])}), "candidates": [_text(said)]}
            for place, said in enumerate(completions)
        ]
        return [reward for [reward] in asked.rewards(rollouts)]

    return pluralrm_reward


def _text(said: str | list[Message]) -> str:
    """Return a text, or the last message of a conversation."""
    return said if isinstance(said, str) else said[-1]["content"]

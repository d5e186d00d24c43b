"""A reward function for TRL's GRPO and RLOO trainers: `reward_funcs=reward_func()`.

The data set has a column `item` with the item's id; without it the prompts themselves are asked about. A reward that
failed is None where the policy is to mask: TRL leaves such an answer out.
"""

from collections.abc import Callable, Sequence

from pluralrm.errors import ServiceError
from pluralrm.serve.client import Policy, RewardClient

Message = dict[str, str]


def reward_func(
    client: RewardClient | None = None, *, policy: Policy | None = None
) -> Callable[..., list[float | None]]:
    """Return the function; without a client it is the one of the environment, which masks by default.

    The handshake happens here.
    """
    if client is not None and policy not in {None, client.policy}:
        raise ServiceError(f"policy is {policy!r}, and the client's is {client.policy!r}; wanted one of the two")
    scorer = client or RewardClient.from_environment(policy=policy or "mask")
    scorer.handshake()

    def pluralrm_reward(
        prompts: Sequence[str | list[Message]],
        completions: Sequence[str | list[Message]],
        item: Sequence[str] | None = None,
        **_columns: object,
    ) -> list[float | None]:
        """Return one reward per completion, in order."""
        if item is not None and len(item) != len(completions):
            raise ServiceError(f"{len(item)} items for {len(completions)} completions; wanted one each")
        about = (
            [{"item": name} for name in item] if item else [{"prompt": _text(prompt, "a prompt")} for prompt in prompts]
        )
        rollouts = [
            {**row, "candidates": [_text(answer, "an answer")]} for row, answer in zip(about, completions, strict=True)
        ]
        return [reward for [reward] in scorer.rewards(rollouts)]

    return pluralrm_reward


def _text(message: str | list[Message], what: str) -> str:
    """Return a text, or the one message of a conversation; ServiceError about more, which would be left out."""
    if isinstance(message, str):
        return message
    if len(message) != 1:
        raise ServiceError(
            f"{len(message)} messages for {what}; wanted one: a reward model reads a prompt and an answer. Name the "
            "item in a column 'item', or write the conversation as one text"
        )
    return message[0]["content"]

"""The reward functions that trainers load; each asks a `pluralrm serve` for its rewards.

verl, by these lines of its configuration; a row names its item in `extra_info["item"]`, or brings `prompt` and `posts`:

    reward:
      custom_reward_function:
        path: pkg://pluralrm.serve.trainers
        name: compute_score

OpenRLHF, from this file: `--reward.remote_url .../pluralrm/serve/trainers.py`. `labels` carry the item's id
(`--data.label_key item`), or are empty.

TRL's GRPO and RLOO: `reward_funcs=trl_reward_func()`. The data set has a column `item` with the item's id; without it
the prompts themselves are asked about.

The server, its run and its identity come from the environment (PLURALRM_REWARD_URL, _RUN, _IDENTITY, _TOKEN), which
every worker inherits. verl and OpenRLHF cannot leave a reward out, so one that failed stops the training. For TRL it is
None where the policy is to mask.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from pluralrm.errors import ServiceError
from pluralrm.serve.client import Policy, RewardClient

Message = dict[str, str]

_AT_ONCE = 64
_TURN = threading.Lock()


@lru_cache(maxsize=1)
def _client() -> RewardClient:
    client = RewardClient.from_environment()
    client.handshake()
    return client


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="pluralrm-reward")


async def compute_score(
    data_source: str,  # noqa: ARG001 - verl's signature
    solution_str: str,
    ground_truth: object = None,  # noqa: ARG001 - nothing that is held to be right is sent
    extra_info: Mapping[str, object] | None = None,
    **_options: object,
) -> dict[str, float]:
    """Return {"score": reward} of one answer for verl; a reward that failed raises."""
    loop = asyncio.get_running_loop()
    [[reward]] = await loop.run_in_executor(_threads(), _rewards, rollout(extra_info or {}, solution_str))
    if reward is None:
        raise ServiceError("a reward is missing: this trainer cannot leave one out")
    return {"score": reward}


def _rewards(request: Mapping[str, object]) -> list[list[float | None]]:
    with _TURN:  # one client and one handshake, which the event loop does not wait for
        client = _client()
    return client.rewards([request])


def rollout(row: Mapping[str, object], answer: str) -> dict[str, object]:
    """Return what the server is asked about one answer; a row of Parquet has arrays, and None for what it lacks."""
    if row.get("item"):
        return {"item": str(row["item"]), "candidates": [answer]}
    if not row.get("prompt"):
        raise ServiceError("extra_info has neither an item nor a prompt; 'pluralrm train verl export' writes the item")
    posts: Iterable[Mapping[str, object]] | None = row.get("posts")  # type: ignore[assignment] # of the row
    if posts is None:  # not a user who wrote nothing
        return {"prompt": str(row["prompt"]), "candidates": [answer]}
    brought = [{key: str(value) for key, value in post.items() if value is not None} for post in posts]
    return {"prompt": str(row["prompt"]), "posts": brought, "candidates": [answer]}


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str | None], **_options: object
) -> dict[str, object]:
    """Return {"rewards", "scores", "extra_logs"} for OpenRLHF; a reward that failed raises.

    What a tokenizer writes at the end of a turn is taken off: name it in PLURALRM_REWARD_END, such as <|im_end|>.
    """
    import torch

    end = os.environ.get("PLURALRM_REWARD_END", "")
    rollouts = [_split(*texts, end) for texts in zip(queries, prompts, labels, strict=True)]
    rewards = torch.tensor([reward for [reward] in _client().rewards(rollouts)], dtype=torch.float32)
    return {"rewards": rewards, "scores": rewards, "extra_logs": {}}


def _split(query: str, prompt: str, item: str | None, end: str) -> dict[str, object]:
    if not query.startswith(prompt):
        raise ServiceError(
            f"a query of {len(query):,} characters does not begin with its prompt of {len(prompt):,}: where its answer "
            "begins is not known"
        )
    answer = query[len(prompt) :].removesuffix("\n")
    answer = answer.removesuffix(end) if end else answer
    return {**({"item": item} if item else {"prompt": prompt}), "candidates": [answer]}


def trl_reward_func(
    client: RewardClient | None = None, *, policy: Policy | None = None
) -> Callable[..., list[float | None]]:
    """Return the function for TRL; without a client it is the one of the environment, which masks by default.

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

"""The reward function that verl loads, by these lines of its configuration:

    reward:
      custom_reward_function:
        path: pkg://pluralrm.serve.verl
        name: compute_score

The server, its run and its identity come from the environment (PLURALRM_REWARD_URL, _RUN, _IDENTITY, _TOKEN), which
every worker inherits from the launch script. A row of the training file names its item in `extra_info["item"]`, or
brings `prompt` and `posts` there. verl knows no masked reward, so one that failed stops the training.
"""

import asyncio
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from pluralrm.errors import ServiceError
from pluralrm.serve.client import RewardClient

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
    """Return {"score": reward} of one answer; a reward that failed raises."""
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

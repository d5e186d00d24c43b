"""Small trainings for the tests, and what they leave on disk."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Query, RewardModel, Verdict
from pluralrm.training.settings import PpoSettings
from tests.training.ppo.tones import CONDITION, tones_benchmark

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.training.job import PpoJob

SMALL: Mapping[str, Any] = {
    "batch": 6,
    "minibatch": 4,
    "epochs": 2,
    "rows": 4,
    "max_tokens": 12,
    "actor_rate": 1e-3,
    "critic_rate": 1e-2,
    "validation": 0.2,
    "test": 0.2,
    "evaluate_every": 2,
    "checkpoint_every": 2,
    "kl_target": 1.0,
    "kl_horizon": 20.0,
}


class Letters:
    """A reward that nearly every answer has another one of, so that every step moves the weights."""

    spec = "letters"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(len(text) / 40 + text.count("e") / 5 for text in query.candidates))


def job(
    policy: "LocalPolicy", *, reward: RewardModel | None = None, benchmark: Benchmark | None = None, **changes: Any
) -> "PpoJob":
    """Return a training of a minute's fraction; settings may be changed by name."""
    from pluralrm.training.job import PpoJob
    from pluralrm.training.rewards import LocalRewarder

    bench, shown = benchmark or tones_benchmark(15, 2), load_condition(CONDITION)
    settings = PpoSettings(**{**SMALL, **changes})
    return PpoJob(bench, policy, shown, LocalRewarder(reward or Letters(), shown, bench), CONDITION, settings)


def left(folder: Path) -> dict[str, str]:
    """Return the hash of every file that a training leaves but run.json, which has times."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name not in {"run.json", ".lock"}
    }

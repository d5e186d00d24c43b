"""Small trainings for the tests, rewards that say what they were asked, and what a training leaves on disk."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Query, RewardModel, Score, Verdict
from pluralrm.training.settings import GrpoSettings
from tests.training.ppo.tones import CONDITION, tones_benchmark

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.training.job import GrpoJob
    from pluralrm.training.rewards import Rewarder

SMALL: Mapping[str, Any] = {
    "batch": 3,
    "answers": 4,
    "rows": 4,
    "max_tokens": 12,
    "rate": 1e-3,
    "validation": 0.2,
    "test": 0.2,
    "checkpoint_every": 10,
}
DRAWN = 12
"""Answers per step."""
WATCHED = 6
"""Items of the validation users, who are asked before the first step and after the last."""


def letters(text: str) -> float:
    """A reward that nearly every answer has another one of, so that every step moves the weights."""
    return len(text) / 40 + text.count("e") / 5


@dataclass
class Asked:
    """Scores by a function of (answer, number of the answer so far), and keeps every query."""

    scored: Callable[[str, int], Score] = lambda text, _: letters(text)
    spec: str = "letters"
    queries: list[Query] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return sum(len(query.candidates) for query in self.queries)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            before = self.answers
            self.queries.append(query)
            yield Verdict(tuple(self.scored(text, before + at) for at, text in enumerate(query.candidates)))


def benchmark() -> Benchmark:
    return tones_benchmark(15, 2)


def job(
    policy: "LocalPolicy",
    reward: RewardModel | None = None,
    *,
    rewarder: "Rewarder | None" = None,
    seed: int = 0,
    **changes: Any,
) -> "GrpoJob":
    """Return a training of a second; settings may be changed by name."""
    from pluralrm.training.job import GrpoJob
    from pluralrm.training.rewards import LocalRewarder

    bench, shown = benchmark(), load_condition(CONDITION)
    settings = GrpoSettings(**{**SMALL, **changes})
    return GrpoJob(
        bench, policy, shown, rewarder or LocalRewarder(reward or Asked(), shown, bench), CONDITION, settings, seed=seed
    )


def left(folder: Path) -> dict[str, str]:
    """Return the hash of every file of the policy, and of the lines that a training leaves."""
    kept = [*(folder / "policy").iterdir(), folder / "metrics.jsonl", folder / "held-out.jsonl"]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in kept}


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()

"""A server that dies in the middle of a training: it stops, or masks as declared, and learns from no reward made up.

The training is small and real: a policy that chooses among six answers, groups of eight, a step along the advantage of
those that have a reward. Its reward functions are those that the trainers load.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from pluralrm.errors import OutageError, ServiceError
from pluralrm.serve import trainers
from pluralrm.serve.client import RewardClient
from tests.serve.running import Child

ANSWERS = ["a" * size for size in (1, 2, 3, 5, 8, 13)]
"""The reward is the length."""
GROUP = 8
DIES_AT, STEPS = 12, 24

Rewards = Callable[[list[str]], list[float | None]]


@dataclass
class Training:
    """A policy over the answers, and what it was given so far."""

    rewards: Rewards
    weights: np.ndarray = field(default_factory=lambda: np.zeros(len(ANSWERS)))
    given: list[tuple[str, float | None]] = field(default_factory=list)
    masked_steps: int = 0

    def step(self, rng: np.random.Generator) -> None:
        """Sample a group, and move towards those that are better than its mean."""
        chances = self.chances
        drawn = rng.choice(len(ANSWERS), size=GROUP, p=chances)
        found = self.rewards([ANSWERS[place] for place in drawn])
        assert len(found) == GROUP
        self.given += zip((ANSWERS[place] for place in drawn), found, strict=True)
        known = [(place, reward) for place, reward in zip(drawn, found, strict=True) if reward is not None]
        self.masked_steps += not known
        if known:
            mean = sum(reward for _, reward in known) / len(known)
            for place, reward in known:
                self.weights += 0.02 * (reward - mean) * (np.eye(len(ANSWERS))[place] - chances)

    @property
    def chances(self) -> np.ndarray:
        """How likely each answer is."""
        raised = np.exp(self.weights - self.weights.max())
        return np.asarray(raised / raised.sum())

    @property
    def expected(self) -> float:
        """The mean length of what the policy says."""
        return float(self.chances @ np.array([len(one) for one in ANSWERS]))


@pytest.fixture
def server(tmp_path: Path) -> Child:
    return Child("longest", "--run", "r1", cwd=tmp_path)


def by_trl(client: RewardClient) -> Rewards:
    reward = trainers.trl_reward_func(client)
    return lambda answers: reward(["Which flour?"] * len(answers), answers, completion_ids=[])


def by_verl(server: Child, monkeypatch: pytest.MonkeyPatch) -> Rewards:
    monkeypatch.setenv("PLURALRM_REWARD_URL", server.url)
    monkeypatch.setenv("PLURALRM_REWARD_RUN", "r1")
    trainers._client.cache_clear()
    told = {"item": None, "prompt": "Which flour?", "posts": None}

    async def group(answers: list[str]) -> list[float | None]:
        found = await asyncio.gather(*(trainers.compute_score("prb", one, "", told) for one in answers))
        return [one["score"] for one in found]

    return lambda answers: asyncio.run(group(answers))


def made_up(training: Training) -> list[tuple[str, float | None]]:
    """Return the rewards that are not the model's; none is what has to come out."""
    return [(answer, reward) for answer, reward in training.given if reward is not None and reward != len(answer)]


def test_where_rewards_may_not_fail_the_training_stops(server: Child) -> None:
    client = RewardClient(server.url, run="r1", seconds=240, policy="raise")
    training = Training(by_trl(client))
    rng = np.random.default_rng(0)
    for _ in range(DIES_AT):
        training.step(rng)
    learned = training.weights.copy()
    server.kill()
    client._seconds = 1.0
    with pytest.raises(OutageError, match="no answer within 1 s"):
        training.step(rng)
    assert np.array_equal(training.weights, learned)
    assert len(training.given) == DIES_AT * GROUP
    assert not made_up(training)
    assert training.expected > 6  # it had begun to learn; 5.33 is where it began


def test_where_rewards_are_masked_the_training_goes_on_and_learns_nothing_until_the_server_is_back(
    server: Child, tmp_path: Path
) -> None:
    client = RewardClient(server.url, run="r1", seconds=240, policy="mask")
    training, rng = Training(by_trl(client)), np.random.default_rng(0)
    for _ in range(DIES_AT):
        training.step(rng)
    learned = training.weights.copy()
    server.kill()
    client._seconds = 1.0
    for _ in range(3):
        training.step(rng)
    client._seconds = 240.0
    assert np.array_equal(training.weights, learned)
    assert training.masked_steps == 3
    assert client.told.reasons == {"transport": 3 * GROUP}
    assert [reward for _, reward in training.given[DIES_AT * GROUP :]] == [None] * 3 * GROUP
    back = Child("longest", "--run", "r1", cwd=tmp_path, port=server.port)
    for _ in range(STEPS - DIES_AT):
        training.step(rng)
    back.kill()
    assert training.masked_steps == 3
    assert not made_up(training)
    assert client.told.rewards == STEPS * GROUP
    assert not np.array_equal(training.weights, learned)


@pytest.mark.parametrize(("model", "run"), [("longest", "another"), ("shortest", "r1")])
def test_another_server_in_its_place_stops_the_training_under_either_policy(
    model: str, run: str, server: Child, tmp_path: Path
) -> None:
    """A stale one of another run, or one that rewards otherwise: no mask, for asking again would not help."""
    training = Training(by_trl(RewardClient(server.url, run="r1", seconds=240, policy="mask")))
    rng = np.random.default_rng(0)
    training.step(rng)
    server.kill()
    other = Child(model, "--run", run, cwd=tmp_path, port=server.port)
    with pytest.raises(ServiceError) as found:
        training.step(rng)
    other.kill()
    assert not isinstance(found.value, OutageError)
    assert len(training.given) == GROUP
    assert not made_up(training)


def test_a_trainer_that_knows_no_mask_stops(server: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    training, rng = Training(by_verl(server, monkeypatch)), np.random.default_rng(0)
    training.step(rng)
    monkeypatch.setattr(trainers._client(), "_seconds", 1.0)
    server.kill()
    with pytest.raises(OutageError):
        training.step(rng)
    assert len(training.given) == GROUP
    assert not made_up(training)

"""A tiny policy learns what its users like to read, from rewards alone; and learns nothing where there is nothing.

Three seeds each, for policy, users and draws. An interval is over the users of a seed's held-out part, or over seeds.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Item, RewardModel
from pluralrm.policies.policy import AnswerRequest, Draw, Policy, PolicyAnswer, load_policy
from pluralrm.stats.intervals import t_quantile
from pluralrm.training.settings import PpoSettings
from tests.training.ppo.tones import (
    CONDITION,
    ConstantReward,
    ToneGrader,
    ToneReward,
    tone_of,
    tone_policy,
    tones_benchmark,
)
from tests.training.ppo.trained import Letters

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = [pytest.mark.hf, pytest.mark.slow]

SEEDS = (0, 1, 2)
SETTINGS = PpoSettings(
    batch=48,
    minibatch=16,
    epochs=2,
    rows=48,
    max_tokens=24,
    actor_rate=3e-4,
    critic_rate=1e-3,
    kl_coefficient=0.02,
    validation=0.1,
    test=0.4,
    evaluate_every=10,
    checkpoint_every=30,
)
STEPS = 30


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("policies")
    return [tone_policy(root / str(seed), seed=seed) for seed in SEEDS]


def changes(policy: "LocalPolicy", reward: RewardModel, folder: Path, seed: int) -> tuple[float, float]:
    """Return by how much more often test users get their tone after training, and how far the policy went (nats)."""
    from pluralrm.training.job import PpoJob
    from pluralrm.training.ppo import train
    from pluralrm.training.rewards import LocalRewarder

    bench, shown = tones_benchmark(90, 2, seed=seed), load_condition(CONDITION)
    job = PpoJob(bench, policy, shown, LocalRewarder(reward, shown, bench), CONDITION, SETTINGS, seed=seed)
    done = train(job, folder, steps=STEPS)
    after = load_policy(f"lm:{done.policy}")
    asked = job.parts().test
    return _right(after, asked, bench) - _right(policy, asked, bench), done.evaluations[STEPS].kl


def _right(policy: Policy, items: Sequence[Item], bench: Benchmark) -> float:
    """Return the share of answers, two to each item, in the tone of the item's user; by the path of `sample`."""
    draw = Draw(n=2, top_p=1.0, max_tokens=24, seed=5)
    queries = [replace(one, candidates=()) for one in load_condition(CONDITION).queries(bench, items)]
    asks = [AnswerRequest(query, index, draw.seed_of(query.id, index)) for query in queries for index in range(draw.n)]
    wanted = {item.id: item.tags["tone"] for item in items}
    said = zip(asks, policy.answer(asks, draw), strict=True)
    return sum(isinstance(one, PolicyAnswer) and tone_of(one.text) == wanted[ask.query.id] for ask, one in said) / len(
        asks
    )


def interval(values: list[float]) -> tuple[float, float]:
    """Return Student's interval of a mean over seeds."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = t_quantile(len(values) - 1) * (variance / len(values)) ** 0.5
    return mean - half, mean + half


def test_the_tiny_policy_comes_to_answer_unknown_users_in_their_tone(policies, tmp_path: Path) -> None:
    gains = [changes(policy, ToneReward(), tmp_path / str(seed), seed)[0] for seed, policy in enumerate(policies)]
    low, high = interval(gains)
    print("gain", gains, (low, high))  # noqa: T201
    assert low > 0


def test_a_constant_reward_leaves_the_policy_where_it_was(policies, tmp_path: Path) -> None:
    found = [changes(policy, ConstantReward(), tmp_path / str(seed), seed) for seed, policy in enumerate(policies)]
    assert max(kl for _, kl in found) < 0.02
    low, high = interval([gain for gain, _ in found])
    print("constant", found, (low, high))  # noqa: T201
    assert low <= 0 <= high


def test_a_reward_that_pays_for_letters_trips_the_alarm(policies, tmp_path: Path) -> None:
    from pluralrm.training.job import PpoJob
    from pluralrm.training.ppo import train
    from pluralrm.training.rewards import LocalRewarder

    bench, shown = tones_benchmark(90, 2), load_condition(CONDITION)
    chosen = replace(SETTINGS, validation=0.4, test=0.1, kl_in="none")
    job = PpoJob(
        bench, policies[0], shown, LocalRewarder(Letters(), shown, bench), CONDITION, chosen, grader=ToneGrader()
    )
    done = train(job, tmp_path, steps=STEPS)
    assert "reward" in {alarm.name for alarm in done.alarms}, done.alarms
    honest = PpoJob(
        bench, policies[0], shown, LocalRewarder(ToneReward(), shown, bench), CONDITION, chosen, grader=ToneGrader()
    )
    assert not train(honest, tmp_path / "honest", steps=STEPS).alarms

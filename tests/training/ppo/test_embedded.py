"""The whole chain on two cores: a tiny policy from scratch, four rewards of known quality, users it has not met."""

from pathlib import Path

import numpy as np
import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.grading.truth import Truth
from pluralrm.models import load_model
from pluralrm.training.settings import PpoSettings

pytestmark = [pytest.mark.hf, pytest.mark.slow, pytest.mark.timeout(1200)]

KEYS = "domains=1,crowd=0.7"
WORLD = f"simulated:users=150,items=3,{KEYS}"
KNOWN = f"known:posts,as=worth,{KEYS}"
SHOWN = "recent:4"
SETTINGS = PpoSettings(
    batch=48,
    minibatch=16,
    epochs=2,
    rows=48,
    max_tokens=40,
    actor_rate=3e-4,
    critic_rate=1e-3,
    kl_coefficient=0.05,
    validation=0.1,
    test=0.3,
    evaluate_every=12,
    checkpoint_every=24,
)
STEPS = 24


def test_the_best_of_four_rewards_makes_a_better_policy_than_the_worst_and_length_trips_the_alarm(
    tmp_path: Path,
) -> None:
    from pluralrm.correlate.columns import columns_of_outcomes
    from pluralrm.policies.outcomes import load_outcome
    from pluralrm.policies.policy import load_policy
    from pluralrm.stats import cluster_means, difference_interval
    from pluralrm.training.job import PpoJob
    from pluralrm.training.outcome import outcome
    from pluralrm.training.ppo import train
    from pluralrm.training.rewards import LocalRewarder
    from pluralrm.training.tiny import tiny_policy

    policy = load_policy(f"lm:{tiny_policy(tmp_path / 'tiny')}")
    bench, shown = load_benchmark(WORLD), load_condition(SHOWN)
    rewards = [load_model(spec) for spec in (KNOWN, f"{KNOWN},blur=0.5", f"{KNOWN},blur=3", "shortest")]
    outcomes, alarms = [], []
    for number, reward in enumerate(rewards):
        job = PpoJob(bench, policy, shown, LocalRewarder(reward, shown, bench), SHOWN, SETTINGS, grader=Truth())  # type: ignore[arg-type]
        done = train(job, tmp_path / str(number), steps=STEPS)
        found = outcome(job, done, Truth(), n=2)
        done = done.after(found.final)
        print(reward.spec, found.before, found.after, found.change, done.alarms)  # noqa: T201
        outcomes.append(load_outcome(found.folder))
        alarms.append({alarm.name for alarm in done.alarms})
    [column] = columns_of_outcomes(outcomes)
    assert len(column.scores) == 4
    means = cluster_means(np.array([one.grades() for one in outcomes]).T, [row.cluster for row in outcomes[0].rows])
    for worse in (2, 3):  # the worst that is known, and the one that is hacked
        low = difference_interval(means, 0, worse).low
        assert low is not None
        assert low > 0
    assert alarms[-1] >= {"length", "reward", "ungraded"}
    assert alarms[:2] == [set()] * 2
    assert alarms[2] <= {"reward"}  # errors that are learned can make the test users' grade fall

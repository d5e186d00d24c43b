"""The whole chain on two cores: a tiny policy from scratch, four rewards of known quality, users it has not met."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Query, Verdict
from pluralrm.downstream.ppo.settings import PpoSettings
from pluralrm.grading.truth import Truth
from pluralrm.models import load_model

pytestmark = [pytest.mark.hf, pytest.mark.slow]

WORLD = "simulated:users=80,items=3,domains=1,crowd=0.7"
SHOWN = "recent:4"
SETTINGS = PpoSettings(
    batch=48,
    minibatch=16,
    epochs=2,
    rows=48,
    max_tokens=40,
    actor_rate=3e-4,
    critic_rate=1e-3,
    kl_coefficient=0.02,
    validation=0.1,
    test=0.4,
    evaluate_every=15,
    checkpoint_every=30,
)
STEPS = 30


class Blurred:
    """What an answer gives its user, by weight, and an error of this deviation; what is no answer gives nothing."""

    def __init__(self, bench: Benchmark, blur: float) -> None:
        self.spec, self._blur, self._items = f"blurred {blur:g}", blur, {item.id: item for item in bench.items}

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            item = self._items[query.id]
            graded = Truth().grade((item, text) for text in query.candidates)
            worths = [0.0 if isinstance(one.grade, Failure) else one.grade for one in graded]
            errors = [Random(f"{query.id}:{text}").gauss(0.0, self._blur) for text in query.candidates]
            yield Verdict(tuple(map(sum, zip(worths, errors, strict=True))))


def test_the_best_of_four_rewards_makes_a_better_policy_than_the_worst_and_length_trips_the_alarm(
    tmp_path: Path,
) -> None:
    from pluralrm.correlate.picked import columns_of_outcomes
    from pluralrm.downstream.outcomes import load_outcome
    from pluralrm.downstream.policies import load_policy
    from pluralrm.downstream.ppo.job import Job
    from pluralrm.downstream.ppo.outcome import outcome
    from pluralrm.downstream.ppo.rewards import Here
    from pluralrm.downstream.ppo.tiny import tiny_policy
    from pluralrm.downstream.ppo.train import train
    from pluralrm.stats import cluster_means, difference_interval

    policy = load_policy(f"lm:{tiny_policy(tmp_path / 'tiny')}")
    bench, shown = load_benchmark(WORLD), load_condition(SHOWN)
    rewards = [Blurred(bench, 0.0), Blurred(bench, 0.5), Blurred(bench, 3.0), load_model("shortest")]
    outcomes, alarms = [], []
    for number, reward in enumerate(rewards):
        job = Job(bench, policy, shown, Here(reward, shown, bench), SHOWN, SETTINGS, grader=Truth())  # type: ignore[arg-type]
        done = train(job, tmp_path / str(number), steps=STEPS)
        found = outcome(job, done, Truth(), n=2)
        print(reward.spec, found.before, found.after, found.change, done.alarms)  # noqa: T201
        outcomes.append(load_outcome(found.folder))
        alarms.append({alarm.name for alarm in done.alarms})
    [column] = columns_of_outcomes(outcomes)
    assert len(column.scores) == 4
    best, worst = outcomes[0], outcomes[-1]
    means = cluster_means(list(zip(best.grades(), worst.grades(), strict=True)), [row.cluster for row in best.rows])
    low = difference_interval(means, 0, 1).low
    assert low is not None
    assert low > 0
    assert alarms[-1] >= {"length", "reward"}
    assert not alarms[0]

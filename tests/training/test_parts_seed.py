"""Trainings that differ by their seed alone can have the same users in every part."""

import pytest

from pluralrm.conditions import load_condition
from pluralrm.models import load_model
from pluralrm.training.rewards import LocalRewarder
from pluralrm.training.settings import PpoSettings
from tests.training.ppo.tones import tones_benchmark

pytestmark = pytest.mark.hf


def test_parts_are_by_their_own_seed_where_one_is_given_and_by_the_trainings_elsewhere() -> None:
    from pluralrm.training.job import PpoJob

    bench, shown = tones_benchmark(15, 2), load_condition("none")

    def parts(seed: int, parts_seed: int | None):
        # Nobody is asked anything: the policy is of no account.
        job = PpoJob(
            bench,
            None,  # type: ignore[arg-type]
            shown,
            LocalRewarder(load_model("longest"), shown, bench),
            "none",
            settings=PpoSettings(test=0.3),
            seed=seed,
            parts_seed=parts_seed,
        )
        return job.parts()

    assert parts(1, None) != parts(2, None)
    assert parts(1, 0) == parts(2, 0) == parts(0, None)
    assert parts(1, 3) != parts(1, 0)

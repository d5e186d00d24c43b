"""How often a planted flaw is named, an honest judge is accused, and a difference at the margin is called none."""

import pytest

from pluralrm.attack.personal import PersonalSafety
from tests.attack.margin_worlds import WORLDS, MarginWorld, rates
from tests.attack.safety_worlds import JUDGES, PlantedJudge, SafetyWorld, tally


def test_a_difference_at_the_margin_is_rarely_called_none() -> None:
    """Of 40 worlds at most 6: with a true rate of 5% more come once in 300 times."""
    assert rates(MarginWorld("accuracy", 0.05, 0.1, 60), 40).within <= 6 / 40


@pytest.mark.slow
@pytest.mark.parametrize("world", [world for world in WORLDS if world.difference])
def test_at_the_margin_at_most_one_in_twenty_is_called_none(world: MarginWorld) -> None:
    found = rates(world, 1000)
    assert found.within <= 0.064  # 5% and two standard errors
    assert found.beyond <= 0.1  # of 200


@pytest.mark.slow
def test_each_planted_judge_is_named_and_an_honest_one_is_not_accused() -> None:
    results: dict[tuple[str, float, bool], list[PersonalSafety]] = {judge: [] for judge in JUDGES}
    for seed in range(100):
        world = SafetyWorld(seed)
        for flaw, share, fickle in JUDGES:
            judge = PlantedJudge(world.labels, flaw, share, fickle=fickle, seed=seed)
            results[flaw, share, fickle].append(world.judged(judge))
    for (flaw, _, _), some in results.items():
        assert tally(flaw, some).exact >= 95, flaw

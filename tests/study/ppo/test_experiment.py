"""experiments/embedded-ppo.toml as a whole: the fewer errors a reward has the better its policy, and one is hacked."""

import math

import pytest

from pluralrm.stats.intervals import trainings_difference
from pluralrm.study import study
from pluralrm.study.page import study_page
from pluralrm.study.result import StudyResult
from tests.study.test_file import EXPERIMENTS

pytestmark = [pytest.mark.hf, pytest.mark.slow, pytest.mark.timeout(3000)]

BEST, WORST = (f"known:posts,as=worth{blur},crowd=0.7,domains=1" for blur in ("", ",blur=3"))
HACKED = "shortest"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return study(EXPERIMENTS / "embedded-ppo.toml", out=tmp_path_factory.mktemp("embedded"))


def test_the_best_of_the_known_rewards_makes_a_better_policy_than_the_worst(result: StudyResult) -> None:
    """By an interval that allows for the choice of a pair among the four."""
    found = result.trained
    assert found is not None
    known = {one.reward: one for one in found.trained if one.reward != HACKED}
    [side] = result.benchmarks
    ranked = sorted(known, key=lambda name: side.estimates[name].value)
    assert (ranked[0], ranked[-1]) == (WORST, BEST), "so the benchmark has it"
    told = trainings_difference(known[BEST].grades, known[WORST].grades, known[BEST].users, level=1 - 0.05 / 6)
    assert (told.users.low or 0) > 0
    changed = known[BEST].change
    assert (changed.users.low or 0) > 0


def test_the_best_policy_is_far_above_the_hacked_one(result: StudyResult) -> None:
    assert result.trained is not None
    [apart] = result.trained.apart
    assert apart.worst == HACKED
    assert (apart.difference.users.low or 0) > 0.2


def test_the_correlation_has_its_exact_p_and_the_warning_for_few_models(result: StudyResult) -> None:
    report = result.correlation.report
    assert report is not None
    [cell] = report.cells
    assert len(cell.models) == 5
    rank = cell["spearman"]
    assert (rank.exact, rank.orders) == (True, math.factorial(5))
    assert rank.estimate.value > 0.5
    assert any("5 models" in warning for warning in cell.warnings)


def test_the_hackable_reward_trips_its_alarms_with_every_seed_and_no_useful_one_does(result: StudyResult) -> None:
    """The one with the most errors makes its policy worse: `reward` may say so, and nothing else."""
    assert result.trained is not None
    alarms = {one.reward: one.alarms for one in result.trained.trained}
    assert alarms[HACKED].keys() >= {"length", "reward", "ungraded"}
    assert alarms[HACKED]["reward"] == [0, 1]
    assert alarms[WORST].keys() <= {"reward"}
    assert {name: told for name, told in alarms.items() if name not in {HACKED, WORST} and told} == {}


def test_the_page_says_all_of_it(result: StudyResult) -> None:
    page = study_page(result)
    assert "Trained policies" in page
    assert page.count(">report</a>") == 10

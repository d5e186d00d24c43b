"""What rewards a training, as the command line names it: refused before anything is loaded where it cannot be."""

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.cli.training import TrainingDisplay, named
from pluralrm.conditions import load_condition
from pluralrm.errors import ModelError
from pluralrm.http import Settings
from pluralrm.training.measures import Alarm, TrainingProgress
from pluralrm.training.rewards import open_rewarder
from pluralrm.training.settings import PpoSettings


def test_a_model_that_compares_answers_needs_two_to_a_prompt() -> None:
    bench, shown, asked = load_benchmark("pocket-prb"), load_condition("raw:3"), Settings()
    with pytest.raises(ModelError, match="found answers=1, wanted --set answers=2"):
        open_rewarder("lsa", bench, shown, settings=asked, chosen=PpoSettings())
    assert open_rewarder("lsa", bench, shown, settings=asked, chosen=PpoSettings(answers=2)).spec == "lsa"
    assert open_rewarder("longest", bench, shown, settings=asked, chosen=PpoSettings()).spec == "longest"


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("python:tests.own_objects:Curt", "compares = False"),
        ("judge:m,url=http://127.0.0.1:9/v1", "style=pointwise"),
        ("known:posts,domains=1", "as=worth"),
    ],
)
def test_the_message_names_what_makes_such_a_model_score_each_answer_by_itself(model: str, hint: str) -> None:
    bench, shown = load_benchmark("simulated:users=4,items=1,domains=1"), load_condition("raw:3")
    with pytest.raises(ModelError, match=f"{hint}.*found answers=1"):
        open_rewarder(model, bench, shown, settings=Settings(), chosen=PpoSettings())


def test_the_reward_sees_what_the_policy_sees_unless_told() -> None:
    assert named("longest", "raw:3", "", send=False, elsewhere=False) == (["longest"], "raw:3", "raw:3")
    assert named("served", "raw:3", "none", send=False, elsewhere=False) == ([], "raw:3", "none")


def test_an_alarm_is_said_when_it_goes_off_and_again_after_it_was_silent(capsys: pytest.CaptureFixture[str]) -> None:
    loud = Alarm("kl", "the policy is far from where it began")
    with TrainingDisplay("ppo", ()) as display:
        for alarms in ([], [loud], [loud], [], [loud]):
            display.tell(TrainingProgress(None, 3, None, alarms))
    said = "ALARM before the first step, kl: the policy is far from where it began"
    assert capsys.readouterr().err.splitlines() == [said, said]

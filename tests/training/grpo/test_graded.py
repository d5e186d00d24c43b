"""GRPO is graded as PPO is: the test users before and after, the watched users' grades, alarms, an Outcome."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.correlate.columns import columns_of_outcomes
from pluralrm.errors import RunError, SpecError
from pluralrm.policies.outcomes import load_outcome
from pluralrm.policies.pool import load_pool
from tests.training.grpo.trained import Asked, benchmark, job
from tests.training.grpo.verb import SMALL, ran
from tests.training.ppo.tones import ToneGrader, tone_of

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = pytest.mark.hf


@pytest.fixture(scope="module")
def finished(taught: "LocalPolicy", tmp_path_factory: pytest.TempPathFactory):
    from pluralrm.training.grpo import train

    graded = replace(job(taught, max_tokens=20), grader=ToneGrader())
    return graded, train(graded, tmp_path_factory.mktemp("finished"), steps=2)


def test_the_outcome_is_the_mean_grade_of_the_test_users_answers_and_says_that_it_is_grpos(finished) -> None:
    from pluralrm.training.outcome import outcome

    asked, trained = finished
    found = outcome(asked, trained, ToneGrader(), n=2)
    wanted = {item.id: item.tags["tone"] for item in asked.parts().test}
    by_hand = []
    for name in ("before-2", "after-2-2"):
        pool = load_pool(trained.folder / name)
        assert pool.samples.keys() == wanted.keys()
        right = [tone_of(one.text) == wanted[item] for item, several in pool.samples.items() for one in several]
        by_hand.append(sum(right) / len(right))
    assert [found.before.value, found.after.value] == pytest.approx(by_hand)
    assert found.change.value == pytest.approx(by_hand[1] - by_hand[0])
    written = load_outcome(found.folder)
    assert (written.manifest.kind, written.manifest.way, written.model) == ("grpo", "trained", "letters")
    assert outcome(asked, trained, ToneGrader(), n=2) == found


def test_the_watched_users_are_graded_before_and_after(finished) -> None:
    _, trained = finished
    assert sorted(trained.evaluations) == [0, 2]
    for one in trained.evaluations.values():
        assert len(one.grades) == len(one.items) == len(one.rewards)
        assert set(one.grades) <= {0.0, 1.0}
    run = json.loads((trained.folder / "run.json").read_text())
    assert (run["kind"], run["grader"]) == ("grpo", ToneGrader().spec)


def test_ppo_and_grpo_are_two_columns(finished, taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.outcome import outcome
    from pluralrm.training.ppo import train as by_ppo
    from tests.training.ppo.trained import job as ppo_job

    asked, trained = finished
    other = replace(ppo_job(taught, benchmark=benchmark(), max_tokens=20), grader=ToneGrader())
    folders = [
        outcome(asked, trained, ToneGrader()).folder,
        outcome(other, by_ppo(other, tmp_path, steps=2), ToneGrader()).folder,
    ]
    columns = columns_of_outcomes([load_outcome(folder) for folder in folders])
    assert sorted(column.name.split()[1] for column in columns) == ["grpo", "ppo"]
    alike = [load_outcome(folder) for folder in folders]
    one = replace(alike[0], manifest=alike[0].manifest.model_copy(update={"pool_hash": alike[1].manifest.pool_hash}))
    assert len(columns_of_outcomes([one, alike[1]])) == 2


def test_a_reward_without_a_difference_is_an_alarm_of_grpo_too(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.grpo import train

    done = train(job(taught, Asked(lambda *_: 0.5), validation=0.0), tmp_path, steps=2)
    assert [alarm.name for alarm in done.alarms] == ["constant"]


def test_the_verb_grades_and_prints_what_train_ppo_prints(policy: str, tmp_path: Path) -> None:
    words = ["simulated:users=20,items=2", "-p", policy, "--reward", "longest", "-g", "truth", "-c", "raw:2", *SMALL]
    words += ["--steps", "1", "-n", "2", "-o", str(tmp_path / "out")]
    printed = ran(*words)
    assert printed.exit_code == 0, printed.output
    said = " ".join(printed.stdout.split())
    for part in ("test users, grade in per cent [95%]", "before", "after", "change", "The curves:"):
        assert part in said
    told = json.loads(ran(*words, "--json").stdout)
    assert told["change"]["n"] == 4  # two of twelve users, two items each
    assert load_outcome(told["outcome"]).manifest.kind == "grpo"
    assert "Groups alike" in (tmp_path / "out" / "report.html").read_text()


def test_what_rewards_does_not_grade(policy: str, tmp_path: Path) -> None:
    judge = "judge:m,url=http://127.0.0.1:9/v1"
    words = ["simulated:users=20,items=2", "-p", policy, "--reward", judge, "-g", judge.replace("judge", "joint", 1)]
    found = ran(*words, "--steps", "1", "-o", str(tmp_path / "out"))
    assert isinstance(found.exception, SpecError)
    assert "both ask" in str(found.exception)


def test_a_folder_from_before_grades_were_kept_goes_on(taught: "LocalPolicy", tmp_path: Path) -> None:
    """Its run.json names no grader, its lines tell no errors and no grades."""
    from pluralrm.training.grpo import train

    for name in ("old", "whole"):
        train(job(taught), tmp_path / name, steps=2 if name == "old" else 3)
    old = tmp_path / "old"
    run = json.loads((old / "run.json").read_text())
    (old / "run.json").write_text(
        json.dumps({key: run[key] for key in run if key not in {"grader", "masked", "check"}})
    )
    for file, lost in ((old / "metrics.jsonl", "errors"), (old / "held-out.jsonl", "grades")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text(
            "".join(json.dumps({key: line[key] for key in line if key not in {lost, "check"}}) + "\n" for line in lines)
        )
    done = train(job(taught), old, steps=3)
    assert (old / "policy" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "policy" / "model.safetensors"
    ).read_bytes()
    assert [step.errors is None for step in done.steps.values()] == [True, True, False]
    with pytest.raises(RunError, match="another grader"):
        train(replace(job(taught), grader=ToneGrader()), old, steps=3)

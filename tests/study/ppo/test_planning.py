"""The plan of trainings: steps done and wanted, calls where they are known, and what is missing; nothing is trained."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pluralrm.errors import StudyError
from pluralrm.http import Settings
from pluralrm.study import Step, plan_study, read_study
from pluralrm.study.parts import StudyContext
from pluralrm.study.plan import UNTRAINED
from pluralrm.study.ppo.trainer import remove_at_once
from pluralrm.study.steps import work
from pluralrm.training.records import RUN
from tests.study.ppo.written import MODELS, TABLE, declared, recipe, write_all
from tests.study.test_file import EXPERIMENTS

URL = "http://127.0.0.1:9/v1"


def steps(out: Path, **changes: Any) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in plan_study(declared(**changes), out=out).steps:
        found.setdefault(step.verb, []).append(step)
    return found


def test_before_anything_is_trained_all_steps_are_missing_and_nothing_is_written(tmp_path: Path) -> None:
    plan = steps(tmp_path / "out")
    assert [(step.who, step.done, step.wanted) for step in plan["train"]] == [(name, 0, 4) for name in MODELS] * 2
    assert {step.on.rpartition(", ")[2] for step in plan["train"]} == {"seed 0", "seed 1"}
    assert [(step.who, step.done, step.wanted) for step in plan["make"]] == [("tiny", 0, 1)]
    [grade] = plan["grade"]
    # 8 of 20 users with two items each: two answers after each of 8 trainings, and before them once for each seed
    assert (grade.done, grade.wanted, grade.calls) == (0, 8 * 2 * 2 * (8 + 2), 0)
    assert not (tmp_path / "out").exists()


def test_afterwards_nothing_is_missing(tmp_path: Path) -> None:
    write_all(recipe(), tmp_path)
    plan = steps(tmp_path)
    assert {step.missing for step in (*plan["train"], *plan["grade"])} == {0}


def test_questions_are_planned_beside_the_test_users(tmp_path: Path) -> None:
    few: dict[str, Any] = {"rewards": list(MODELS[:2]), "seeds": [0], "n": 1}
    changes: dict[str, Any] = {"ppo": {**few, "evaluate-on": "simulated:users=24,items=2,domains=2"}}
    told = recipe(**changes)
    test, questions = steps(tmp_path / "out", **changes)["grade"]
    count = len(told.questions[""].items)
    assert (test.on, questions.on) == tuple(
        f"{name}, before and after" for name in (TABLE["benchmarks"][0], changes["ppo"]["evaluate-on"])
    )
    assert (test.wanted, questions.wanted) == (8 * 2 * (2 + 1), count * (2 + 1))
    assert (questions.done, questions.calls) == (0, 0)
    assert not (tmp_path / "out").exists()
    write_all(recipe(ppo=few), tmp_path)
    test, questions = steps(tmp_path, **changes)["grade"]
    assert (test.missing, questions.missing) == (0, questions.wanted), "trained before, and not asked yet"
    write_all(told, tmp_path)
    assert [step.missing for step in steps(tmp_path, **changes)["grade"]] == [0, 0]


def test_calls_for_questions_are_told_and_a_benchmark_that_is_not_here_says_so(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "benchmarks": ["pocket-prb"],
        "ppo": {"policy": "lm:mine", "seeds": [0], "n": 3, "grader": f"joint:g,url={URL}", "evaluate-on": "pocket-prb"},
    }
    told = recipe(**changes)
    _, questions = steps(tmp_path, **changes)["grade"]
    most = (len(MODELS) + 1) * 3 * len(told.questions[""].items)
    assert questions.notes == (f"{UNTRAINED}: at most {most:,} calls by the grader",)
    assert {item.id for item in told.questions[""].items} == {item.id for item in told.test}, "nobody else is new"
    changes["ppo"]["evaluate-on"] = "prb:nowhere"
    train, (_, lost) = (steps(tmp_path, **changes)[verb] for verb in ("train", "grade"))
    assert all(step.wanted == 4 for step in train)
    assert lost.notes[0].startswith("cannot be planned without its data")
    assert lost.calls is None


def test_the_calls_of_a_judge_are_those_of_its_rewards_and_of_the_watched_users(tmp_path: Path) -> None:
    judge = f"judge:m,style=pointwise,url={URL}"
    changes: dict[str, Any] = {
        "benchmarks": ["pocket-prb"],
        "models": [judge, "longest", "bm25"],
        "ppo": {
            "policy": "lm:mine",
            "seeds": [0],
            "steps": 6,
            "n": 3,
            "grader": f"joint:g,url={URL}",
            "settings": {"batch": 5, "answers": 2, "evaluate_every": 4, "validation": 0.1, "test": 0.2},
        },
    }
    told = recipe(**changes)
    [parts] = told.parts.values()
    watched = 3 * len(parts.validation)  # before the first step, after four and after six
    by_name = {step.who: step for step in steps(tmp_path, **changes)["train"]}
    assert by_name[judge].calls == 6 * 5 * 2 + watched + watched
    assert by_name["longest"].calls == watched, "the grader's"
    [grade] = steps(tmp_path, **changes)["grade"]
    assert grade.notes == (f"{UNTRAINED}: at most {(3 + 1) * 3 * len(parts.test):,} calls by the grader",)


def test_a_cell_that_cannot_be_is_told_and_costs_nothing(tmp_path: Path) -> None:
    plan = steps(tmp_path, models=["longest", "bm25", "known:taste,domains=2"], ppo={"seeds": [0]})
    [known] = [step for step in plan["train"] if step.who.startswith("known")]
    assert known.notes[0].startswith("skipped: known:taste,domains=2 compares the answers")
    assert (known.wanted, known.calls) == (0, 0)


def test_one_scale_for_all_rewards_is_a_pool_and_its_scores(tmp_path: Path) -> None:
    plan = steps(tmp_path, ppo={"shaping": "z,clip=3"})
    told = recipe()
    [sample] = plan["sample"]
    assert (sample.done, sample.wanted) == (0, 4 * len(told.parts[""].train))
    assert [step.who for step in plan["score answers"]] == list(MODELS)


def test_a_benchmark_that_is_not_here_is_told_and_unknown_names_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    plan = steps(tmp_path, benchmarks=["lamp-qa"], ppo={"condition": "raw:3"})
    assert all("cannot be planned without its data" in step.notes[0] for step in plan["train"])
    assert [step.calls for step in plan["train"]] == [None] * len(MODELS)


def test_the_published_protocol_is_planned_without_its_data_as_far_as_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = read_study(EXPERIMENTS / "personalized-rewardbench-ppo.toml")
    assert asked.ppo is not None
    chosen = asked.ppo.chosen()
    assert (chosen.actor_rate, chosen.critic_rate, chosen.batch, chosen.minibatch) == (5e-7, 5e-6, 128, 16)
    assert (chosen.kl_in, asked.ppo.per_domain, asked.ppo.shaping) == ("none", True, "raw")
    plan = [step for step in plan_study(asked, out=tmp_path).steps if step.verb == "train"]
    assert [step.who for step in plan] == list(asked.models)
    assert all("cannot be planned without its data" in step.notes[0] for step in plan)


def test_without_torch_trainings_are_left_out_by_name_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    told = recipe(ppo={"seeds": [0]})
    done, *_ = told.trainings(tmp_path)
    write_all(told, tmp_path, but=[one for one in told.trainings(tmp_path) if one != done])
    found = work(declared(ppo={"seeds": [0]}), StudyContext(tmp_path, Settings()))
    assert len(found.runs) == len(MODELS)
    assert [(one.why, one.step) for one in found.left] == [
        ("broken", f"ppo × {name} × raw:3, seed 0") for name in MODELS[1:]
    ]
    assert "pip install 'pluralrm[ppo]'" in found.left[0].reason
    assert found.trained is not None
    assert [one.reward for one in found.trained.trained] == [done.cell.reward], "what is on disk needs no torch"
    assert all("pip install 'pluralrm[ppo]'" in step.notes[0] for step in steps(tmp_path)["train"])
    assert len(list(tmp_path.rglob(RUN))) == len(MODELS) + 1  # the scores, and what was written here


def test_fewer_steps_than_are_trained_are_told_before_anything_is_scored(tmp_path: Path) -> None:
    write_all(recipe(), tmp_path)
    with pytest.raises(StudyError, match=r"\[ppo\] steps: found 3, but .* is trained for 4 already"):
        work(declared(ppo={"steps": 3}), StudyContext(tmp_path, Settings()))
    assert not (tmp_path / "runs").exists()
    with pytest.raises(StudyError, match=r"\[ppo\] steps: found 3, but .* is trained for 4 already"):
        steps(tmp_path, ppo={"steps": 3})


def test_of_what_begins_anew_the_plan_finds_nothing_on_disk(tmp_path: Path) -> None:
    write_all(recipe(), tmp_path)

    def missing(*fresh: str, **ppo: Any) -> dict[str, int | None]:
        plan = plan_study(declared(ppo=ppo), out=tmp_path, fresh=fresh).steps
        trained = [(step.who, step.missing) for step in plan if step.verb == "train" and step.on.endswith("seed 0")]
        return dict(trained) | {step.who: step.missing for step in plan if step.verb == "grade"}

    nothing = dict.fromkeys(MODELS, 0)
    assert missing() == {**nothing, "truth": 0}
    assert missing("bm25") == {**nothing, "bm25": 4, "truth": 8 * 2 * 2 * 2}, "before it others were asked"
    assert missing("tiny") == {**dict.fromkeys(MODELS, 4), "truth": 8 * 2 * 2 * (8 + 2)}
    assert missing("tiny", steps=3) == {**dict.fromkeys(MODELS, 3), "truth": 8 * 2 * 2 * (8 + 2)}, (
        "so it may be shorter"
    )


def test_what_begins_anew_is_gone_at_once_whenever_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of an old training would be gone on with: its checkpoint is found by its name."""
    folder = tmp_path / "training"

    def killed(*_: object, **__: object) -> None:
        if not folder.exists():
            raise KeyboardInterrupt

    for _ in range(2):
        (folder / "checkpoint").mkdir(parents=True)
        with monkeypatch.context() as patched:
            patched.setattr("shutil.rmtree", killed)
            with pytest.raises(KeyboardInterrupt):
                remove_at_once(folder)
        assert not folder.exists()
        remove_at_once(folder)
    assert list(tmp_path.iterdir()) == []

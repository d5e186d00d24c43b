"""The plan: what is on disk, what is missing, calls and cost; nothing is run, and nobody is asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from pluralrm.errors import SpecError
from pluralrm.http import Settings
from pluralrm.http.calls import Price
from pluralrm.study import Step, plan_study, read_study
from pluralrm.study.parts import StudyContext
from pluralrm.study.plan import UNSAMPLED
from pluralrm.study.steps import work
from tests.fake_chat import Action, FakeChat, Seen, say
from tests.grading.markers import by_words, marked
from tests.models.judge.judges import answers, longer
from tests.study.studies import MODELS, asked, counted, small, worked
from tests.study.test_file import EXPERIMENTS


def steps(out: Path, settings: Settings | None = None, **changes: Any) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in plan_study(small(**changes), out=out, settings=settings).steps:
        found.setdefault(step.verb, []).append(step)
    return found


def test_before_anything_is_done_all_is_missing_and_nothing_is_written(tmp_path: Path) -> None:
    models = [counted(tmp_path / "asked.txt"), *MODELS]
    plan = steps(tmp_path / "out", models=models)
    assert [step.who for step in plan["score"]] == models
    assert {(step.done, step.wanted, step.missing) for step in plan["score"]} == {(0, 20, 20)}
    [sample] = plan["sample"]
    assert (sample.done, sample.wanted, sample.calls) == (0, 80, 0)
    assert {(step.done, step.wanted, step.calls) for step in plan["score answers"]} == {(0, 20, 0)}
    [grade] = plan["grade"]
    assert (grade.wanted, grade.calls, grade.notes) == (None, 0, (UNSAMPLED,))
    assert not (tmp_path / "out").exists()
    assert not asked(tmp_path / "asked.txt")


def test_afterwards_nothing_is_missing(tmp_path: Path) -> None:
    worked(tmp_path)
    assert {step.missing for several in steps(tmp_path).values() for step in several} == {0}


def test_one_more_model_is_all_that_is_missing(tmp_path: Path) -> None:
    worked(tmp_path)
    several = steps(tmp_path, models=[*MODELS, "copy"])
    missing = {(step.verb, step.who): step.missing for found in several.values() for step in found if step.missing}
    assert missing == {("score", "copy"): 20, ("score answers", "copy"): 20}


def test_a_cell_that_cannot_be_is_told_and_costs_nothing(tmp_path: Path) -> None:
    [lsa] = steps(tmp_path, models=["lsa"], conditions=["none"], best_of_n={"see": ["raw:3"]})["score"]
    assert lsa.notes[0].startswith("skipped: lsa needs posts")
    assert (lsa.wanted, lsa.calls) == (0, 0)


def said(seen: Seen) -> Action:
    prompt = str(seen.body["messages"][0]["content"])
    if "top_p" in seen.body:
        return say(f"Rye, {'very ' * (seen.body['seed'] % 3)}slowly.")
    return say(marked(prompt, by_words)) if "JSON" in prompt else say(longer(answers(prompt)))


@pytest.mark.parametrize("style", ["pairwise", "pairwise,orders=coin", "pairwise,aggregate=bt"])
def test_the_calls_that_are_planned_are_the_calls_that_are_made(style: str, tmp_path: Path) -> None:
    """Counted by the server, step by step; replies are kept nowhere."""
    settings = Settings()
    with FakeChat(said) as server:
        changes: dict[str, Any] = {
            "benchmarks": ["pocket-prb"],
            "limit": 4,
            "models": [f"judge:m,style={style},url={server.url}", "longest", "bm25"],
            "conditions": ["raw:2"],
            "best_of_n": {
                "policy": f"chat:p,url={server.url}",
                "n": 3,
                "limit": 4,
                "grader": f"joint:g,url={server.url}",
            },
        }
        before = steps(tmp_path, settings, **changes)
        [sample], [grade] = before["sample"], before["grade"]
        assert (sample.wanted, sample.calls) == (12, 12)
        most = 12 if "coin" in style else 24
        assert before["score answers"][0].notes == (f"{UNSAMPLED}: at most {most} calls",)
        assert grade.notes == (f"{UNSAMPLED}: at most 12 calls by the grader",)
        assert server.requests == []
        work(small(**changes), StudyContext(tmp_path, settings))
        made = [seen.body["model"] for seen in server.requests]
        assert made.count("p") == sample.calls
        assert made.count("m") - (before["score"][0].calls or 0) <= most
        assert made.count("g") <= 12
        later = steps(tmp_path, settings, **changes)
        assert {step.missing for several in later.values() for step in several} == {0}
        planned = before["score"][0].calls
        for run in ("pools", "runs"):
            for folder in (tmp_path / run).rglob("judge*"):
                _forget(folder)
        again = steps(tmp_path, settings, **changes)
        assert again["score"][0].calls == planned
        assert made.count("m") == (planned or 0) + (again["score answers"][0].calls or 0)
        for folder in tmp_path.rglob("grades"):
            _forget(folder)
        assert steps(tmp_path, settings, **changes)["grade"][0].calls == made.count("g")


def test_stand_ins_are_scored_and_graded_as_the_answers_of_a_policy_are_that_all_differ(tmp_path: Path) -> None:
    """Then the most that a dry run says is what the real one asks, of every model."""

    def differ(seen: Seen) -> Action:
        prompt = str(seen.body["messages"][-1]["content"])
        if "top_p" in seen.body:
            return say(f"Rye, number {seen.body['seed']}.")
        return say(marked(prompt, by_words)) if "JSON" in prompt else say(longer(answers(prompt)))

    with FakeChat(differ) as server:
        changes: dict[str, Any] = {
            "benchmarks": ["pocket-prb"],
            "limit": 3,
            "models": [f"judge:m,style=pairwise,url={server.url}", "longest", "bm25"],
            "conditions": ["raw:2"],
            "best_of_n": {
                "policy": f"chat:p,url={server.url}",
                "n": 4,
                "limit": 3,
                "see": ["none", "raw:1"],
                "grader": f"per-aspect:g,url={server.url}",
            },
        }
        plan = steps(tmp_path / "out", **changes)
        assert server.requests == []
        assert not (tmp_path / "out").exists()
        work(small(**changes), StudyContext(tmp_path / "out", Settings()))
        made = [seen.body["model"] for seen in server.requests]

    def most(step: Step) -> int:
        return int(step.notes[0].removeprefix(f"{UNSAMPLED}: at most ").split()[0])

    judged = [step for step in plan["score answers"] if step.who.startswith("judge")]
    assert [step.calls for step in plan["sample"]] == [made.count("p")] == [12]
    assert (plan["score"][0].calls or 0) + sum(map(most, judged)) == made.count("m")
    assert [most(step) for step in plan["grade"]] == [made.count("g")]


def _forget(folder: Path) -> None:
    for file in sorted(folder.rglob("*"), reverse=True):
        file.unlink() if not file.is_dir() else file.rmdir()
    folder.rmdir()


def test_a_price_makes_a_cost_of_prompts_and_of_the_longest_replies(tmp_path: Path) -> None:
    prices = {"m": Price(1.0, 2.0), "p": Price(1.0, 10.0)}
    url = "http://127.0.0.1:9/v1"
    changes: dict[str, Any] = {
        "benchmarks": ["pocket-prb"],
        "limit": 2,
        "models": [f"judge:m,max_tokens=50,url={url}", "longest"],
        "conditions": ["none"],
        "best_of_n": {
            "policy": f"chat:p,url={url}",
            "n": 3,
            "limit": 2,
            "max-tokens": 7,
            "grader": f"joint:g,url={url}",
        },
    }
    plan = steps(tmp_path, Settings(prices=prices), **changes)
    judge, longest = plan["score"]
    assert judge.calls == 4  # two items, both orders
    assert judge.cost is not None
    assert judge.cost.most - judge.cost.least == pytest.approx(4 * 50 * 2.0 / 1e6)
    assert 4 * 100 / 1e6 < judge.cost.least < 4 * 1000 / 1e6  # a prompt is some hundred tokens
    assert longest.cost == (0.0, 0.0)
    [sample] = plan["sample"]
    assert sample.cost is not None
    assert sample.cost.most - sample.cost.least == pytest.approx(6 * 7 * 10.0 / 1e6)
    assert steps(tmp_path, Settings(), **changes)["score"][0].cost is None


def test_notes_that_a_model_writes_are_calls_too(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    plan = steps(
        tmp_path,
        benchmarks=["pocket-prb"],
        limit=4,
        models=["longest", f"judge:m,url={url}"],
        conditions=[f"persona:w,url={url}"],
        best_of_n={"see": ["none"], "policy": f"chat:p,url={url}", "grader": f"joint:g,url={url}"},
    )
    assert [step.calls for step in plan["score"]] == [4, 4 + 8]
    assert all(step.cost is None for step in plan["score"])


@pytest.mark.parametrize("name", ["personalized-rewardbench-best-of-n", "rmgap"])
def test_a_paper_is_planned_without_its_data_as_far_as_may_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    declared = read_study(EXPERIMENTS / f"{name}.toml")
    plan = plan_study(declared, out=tmp_path / "out")
    scored = [step for step in plan.steps if step.verb == "score"]
    assert len(scored) == len(declared.models) * len(declared.conditions)
    assert all(step.notes[0].startswith("cannot be planned without its data") for step in scored)
    assert plan.calls is None
    assert json.dumps(plan.to_json())
    local = next(step for step in scored if step.who == "longest")
    assert (local.calls, local.done) == (0, None)


def test_a_name_that_nobody_knows_is_an_error_of_the_plan_too(tmp_path: Path) -> None:
    for changes in ({"models": ["longst", "bm25"]}, {"conditions": ["rae:3"]}, {"best_of_n": {"policy": "cht:m"}}):
        with pytest.raises(SpecError, match="unknown"):
            steps(tmp_path, **changes)
    with pytest.raises(SpecError, match="unknown grader"):
        steps(tmp_path, best_of_n={"grader": "trth"})


def test_a_judge_does_not_grade_what_it_picks(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    changes: dict[str, Any] = {"models": [f"judge:m,url={url}"], "best_of_n": {"grader": f"joint:m,url={url}"}}
    with pytest.raises(SpecError, match="both ask"):
        steps(tmp_path, **changes)
    with pytest.raises(SpecError, match="both ask"):
        worked(tmp_path, **changes)

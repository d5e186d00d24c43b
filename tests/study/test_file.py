"""A study file: every default is told, and what does not fit is named by file, table and key."""

import json
from pathlib import Path
from typing import Any

import pytest

from pluralrm.conditions import parse_condition
from pluralrm.errors import StudyError
from pluralrm.policies.policy import parse_policy
from pluralrm.study import declare, read_study
from pluralrm.study.parts import models_of, names_of, points
from tests.study.studies import TABLE, table, toml

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
STUDIES = sorted(file for file in EXPERIMENTS.glob("*.toml") if file.stem != "gallery")  # that one is an audit's


def test_a_file_is_read_as_it_is_written_and_every_default_is_told(tmp_path: Path) -> None:
    declared = read_study(toml(tmp_path / "study.toml", TABLE))
    assert declared == declare(TABLE)
    told: Any = declared.to_json()
    assert told["best-of-n"]["top-p"] == 0.9
    assert told["correlate"] == {"k": [], "rbo-p": 0.8}
    assert declare(json.loads(json.dumps({**told, "best-of-n": {**TABLE["best-of-n"]}}))) == declared


def test_reward_models_pick_under_the_conditions_of_the_study_unless_told() -> None:
    assert declare(table(conditions=["none", "raw:3"])).see == ("none", "raw:3")
    assert declare(table(best_of_n={"see": ["raw:9"]})).see == ("raw:9",)


def test_the_largest_k_is_the_downstream_result_unless_others_are_named() -> None:
    assert points(declare(TABLE), 4) == (4,)
    assert points(declare(table(correlate={"k": [2, 1]})), 4) == (1, 2)
    with pytest.raises(StudyError, match=r"found 3, wanted points of the curves: 1, 2, 4"):
        points(declare(table(correlate={"k": [3]})), 4)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bencmarks": ["x"]}, "no key 'bencmarks'. Did you mean 'benchmarks'?"),
        ({"models": []}, "models: found []"),
        ({"models": ["longest", 3]}, "models: found 3"),
        ({"models": ["longest", "longest"]}, "models: found 'longest' twice, wanted it once"),
        ({"seed": "0"}, "seed: found '0'"),
        ({"best_of_n": {"top_p": 0.5}}, "[best-of-n] no key 'top_p'. Did you mean 'top-p'?"),
        ({"best_of_n": {"n": 0}}, "[best-of-n] n: found 0"),
        ({"best_of_n": {"k": [1, "2"]}}, "[best-of-n] k: found '2'"),
        ({"best_of_n": {"grade": "some"}}, "[best-of-n] grade: found 'some'"),
        ({"best_of_n": {"from": "a.jsonl"}}, "[best-of-n] found both of policy and from, wanted one of them"),
        ({"correlate": {"rbo-p": 1.0}}, "[correlate] rbo-p: found 1.0"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = toml(tmp_path / "study.toml", table(**changes))
    with pytest.raises(StudyError) as found:
        read_study(file)
    assert str(found.value).startswith(f"{file}: {said}")


def test_a_table_without_a_grader_or_a_source_of_answers_is_an_error() -> None:
    with pytest.raises(StudyError, match=r"\[best-of-n\] no 'grader'; wanted one"):
        declare({**TABLE, "best-of-n": {"policy": "simulated"}})
    with pytest.raises(StudyError, match=r"\[best-of-n\] found neither of policy and from"):
        declare({**TABLE, "best-of-n": {"grader": "truth"}})
    with pytest.raises(StudyError, match=r"\[best-of-n\] found n beside from"):
        declare({**TABLE, "best-of-n": {"grader": "truth", "from": "a.jsonl", "n": 4}})


@pytest.mark.parametrize("text", ["models = [", "\x00", "models = 'a'\nmodels = 'b'"])
def test_what_is_no_toml_is_told_with_its_place(text: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(StudyError, match=r"cannot read '.*study.toml'"):
        read_study(tmp_path / "study.toml")


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(StudyError, match=r"cannot read 'nowhere\.toml'"):
        read_study("nowhere.toml")


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_every_experiment_can_be_read_and_says_how_it_is_run(file: Path) -> None:
    declared = read_study(file)
    assert declared.title
    text = file.read_text()
    assert f"pluralrm study experiments/{file.name} -o " in text
    few = len(models_of(declared)) < 8
    assert few == ("models are few" in text), "with fewer nothing is said of other models: say so"


@pytest.mark.parametrize("name", ["best-of-n", "ppo"])
def test_the_published_experiments_show_the_policy_ten_ranked_posts_and_ask_for_one_short_answer(name: str) -> None:
    declared = read_study(EXPERIMENTS / f"personalized-rewardbench-{name}.toml")
    asked = declared.best_of_n or declared.ppo
    assert asked is not None
    policy, condition = parse_policy(asked.policy), parse_condition(asked.condition)
    assert policy.options["template"] == "sample-v1"
    assert (condition.kind, condition.target) == ("raw", "10")
    assert condition.options["by"].startswith("embed:facebook/contriever-msmarco@")
    assert asked.condition in declared.conditions, "reward models that pick or reward are shown the same posts"
    if declared.ppo is not None:
        assert policy.options["prompt_tokens"] == "8192"
        assert declared.ppo.evaluate_on in declared.benchmarks, "the policies are asked the benchmark's own questions"


def test_there_is_an_experiment_for_either_paper_and_an_embedded_one() -> None:
    names = {file.stem for file in STUDIES}
    assert names >= {"embedded", "personalized-rewardbench-best-of-n", "rmgap", "which-benchmark-predicts-embedded"}
    assert {file.stem for file in STUDIES if read_study(file).ppo} == {
        "embedded-ppo",
        "personalized-rewardbench-ppo",
        "which-benchmark-predicts",
    }


def test_a_model_may_have_a_name_and_stays_what_it_is() -> None:
    named = declare(table(models=[{"name": "ours", "model": "known:posts,blur=3"}, "longest"]))
    plain = declare(table(models=["known:posts,blur=3", "longest"]))
    assert (named.models, models_of(named)) == (plain.models, models_of(plain))
    assert names_of(named) == {"known:posts,blur=3": "ours"}
    assert (names_of(plain), "names" in plain.to_json()) == ({}, False)
    with pytest.raises(
        StudyError, match=r"models: found {'name': 'ours'}, wanted a spec, NAME=SPEC, or { name = \"ours\", model = "
    ):
        declare(table(models=[{"name": "ours"}]))
    with pytest.raises(StudyError, match="models: two are named 'a'; give each a name of its own"):
        declare(table(models=[{"name": "a", "model": model} for model in ("bm25", "lsa")]))


def test_models_are_named_as_on_the_command_line_and_rewards_by_those_names() -> None:
    models = ["ours=longest", "bm25", {"name": "b", "model": "random"}]
    ppo = {"policy": "tiny", "steps": 2, "grader": "truth", "rewards": ["ours", "bm25"]}
    named = declare(table(models=models, ppo=ppo))
    assert (named.models, named.names) == (("longest", "bm25", "random"), ("ours", "", "b"))
    assert named.rewards == ("longest", "bm25")
    with pytest.raises(StudyError, match=r"\[ppo\] rewards: 'our' is none of models. Did you mean 'ours'"):
        declare(table(models=models, ppo={**ppo, "rewards": ["our"]}))

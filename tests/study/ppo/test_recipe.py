"""What is trained: users stay in their parts, folders part what differs, and what cannot be is said before."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pluralrm.errors import ConditionError, PluralrmError, SpecError, StudyError
from pluralrm.study import declare
from pluralrm.study.ppo import Recipe, Training
from pluralrm.study.ppo.trainer import reference_folder, trained_on
from pluralrm.training.job import UserParts, asker
from tests.study.ppo.written import MODELS, TABLE, declared, recipe, table

URL = "http://127.0.0.1:9/v1"


def _users(told: Recipe) -> dict[str, tuple[set[str], ...]]:
    return {name: tuple({asker(item) for item in part} for part in parts) for name, parts in told.parts.items()}


def _folders(told: Recipe) -> set[Path]:
    return {one.folder for one in told.trainings(Path("out"))}


def test_every_training_has_the_same_users_in_every_part_whatever_its_seed() -> None:
    train, validation, test = _users(recipe(ppo={"seeds": [0, 1, 2]}))[""]
    assert len(train) + len(validation) + len(test) == 20
    assert _users(recipe(ppo={"seeds": [7]})) == _users(recipe())
    assert _users(recipe(seed=1)) != _users(recipe())


def test_seeds_are_done_one_after_another_for_all_rewards() -> None:
    told = [(one.seed, one.cell.reward) for one in recipe().trainings(Path("out"))]
    assert told == [(seed, reward) for seed in (0, 1) for reward in MODELS]
    assert [one.seed for one in recipe(seed=4, ppo={"seeds": []}).trainings(Path("out"))] == [4] * len(MODELS)


def test_rewards_are_all_models_unless_some_are_named() -> None:
    assert [cell.reward for cell in recipe(ppo={"rewards": ["bm25", "longest"]}).cells] == ["bm25", "longest"]
    several = recipe(conditions=["none", "raw:3"], ppo={"see": ["raw:3"]})
    assert {cell.condition.spec for cell in several.cells} == {"raw:3"}


def test_questions_are_of_users_whom_no_training_of_the_domain_has_seen() -> None:
    told = recipe(ppo={"evaluate-on": "simulated:users=30,items=3,domains=2", "per-domain": True})
    assert told.evaluated is not None
    for name, asked in told.questions.items():
        met = {asker(item) for part in told.parts[name][:2] for item in part}
        assert {item.domain for item in asked.items} == {name}
        assert not {asker(item) for item in asked.items} & met
        assert asked.left_out + len(asked.items) == sum(item.domain == name for item in told.evaluated.items)


@pytest.mark.parametrize(
    ("ppo", "message"),
    [
        ({"evaluate-on": "pocket-prb"}, "tiny can answer simulated users alone, and pocket-prb has others"),
        (
            {"evaluate-on": "simulated:users=9,items=1,domains=1", "per-domain": True},
            r"\[ppo\] evaluate-on: simulated has no domain 'Garden'",
        ),
        ({"evaluate-on": "pocket-prb", "policy": "lm:mine", "condition": "pairs:1"}, r"\[ppo\] condition: "),
        ({"evaluate-on": "pocket-prb", "policy": "lm:mine"}, r"\[ppo\] grader: pocket-prb "),
    ],
)
def test_questions_that_cannot_be_asked_or_graded_are_named(ppo: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        recipe(ppo=ppo)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"ppo": {"seeds": [2, 3]}},
        {"ppo": {"condition": "raw:2"}},
        {"ppo": {"shaping": "raw,clip=1"}},
        {"ppo": {"settings": {"test": 0.4, "batch": 4}}},
        {"ppo": {"limit": 10}},
        {"ppo": {"policy": "tiny,steps=9"}},
        {"ppo": {"see": ["none"]}},
    ],
)
def test_another_recipe_is_another_folder(changes: dict[str, Any]) -> None:
    assert not _folders(recipe(**changes)) & _folders(recipe())
    assert len(_folders(recipe(**changes))) == 2 * len(MODELS)


def test_with_more_steps_or_answers_a_training_goes_on_where_it_is() -> None:
    assert _folders(recipe(ppo={"steps": 40, "n": 5})) == _folders(recipe())
    assert _folders(recipe(models=[*MODELS, "copy"])) > _folders(recipe())


def test_a_policy_in_other_words_is_the_same_training() -> None:
    one, other = (
        recipe(ppo={"policy": f"lm:folder,{keys}"}) for keys in ("dtype=float32,batch=4", "batch=4,dtype=float32")
    )
    assert _folders(one) == _folders(other)
    assert all(one.begins_anew(training, {"lm:folder,batch=4,dtype=float32"}) for training in one.trainings(Path()))


def test_reference_answers_are_those_of_one_world_and_of_nobody_who_is_asked_in_the_end() -> None:
    worlds = [
        recipe(benchmarks=[f"{TABLE['benchmarks'][0]}{crowd}"], ppo={"shaping": "z"}) for crowd in ("", ",crowd=0.5")
    ]
    assert len({reference_folder(told, Path("out")) for told in worlds}) == 2
    [told, _] = worlds
    first, second = told.benchmark.domains
    user = {item.domain: item for item in told.benchmark.items}
    # The asker of the first domain asks in the second one too: trained on here, kept for the end there.
    [train, *_] = told.parts[""].train
    parts = {
        first: UserParts((train, *told.parts[""].train[2:]), (), ()),
        second: UserParts((user[second],), (), (train,)),
    }
    assert asker(train) not in {asker(item) for item in trained_on(replace(told, parts=parts)).items}


def test_each_domain_has_a_folder_of_its_own_inside() -> None:
    told = recipe(ppo={"per-domain": True, "seeds": [0], "rewards": ["bm25"]})
    one, other = told.trainings(Path("out"))
    assert one.folder.parent == other.folder.parent
    assert {one.domain, other.domain} == set(told.benchmark.domains)
    assert all(item.domain == one.domain for part in told.parts[one.domain] for item in part)


def test_what_compares_answers_is_left_out_where_there_is_one_to_a_prompt() -> None:
    models = ["longest", "bm25", "known:taste,domains=2"]
    skips = {cell.reward: cell.skip for cell in recipe(models=models).cells}
    assert skips["longest"] is None
    assert "found answers = 1, wanted 2 or more" in (skips["known:taste,domains=2"] or "")
    more = recipe(models=models, ppo={"settings": {"test": 0.4, "answers": 2}})
    assert all(cell.skip is None for cell in more.cells)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ppo": {"settings": {"test": 0}}}, "[ppo.settings] test: found 0"),
        ({"benchmarks": ["pocket-rmgap"], "ppo": {"condition": "raw:3"}}, "[ppo] condition: "),
        ({"ppo": {"domains": ["Kichen"]}}, "[ppo] domains: simulated has no 'Kichen'."),
        ({"benchmarks": ["pocket-prb"], "ppo": {"policy": "lm:mine"}}, "[ppo] grader: pocket-prb is not sim"),
        ({"benchmarks": ["pocket-prb"]}, "[ppo] policy: tiny can answer simulated users alone, and pocket-prb has"),
        ({"ppo": {"see": ["raw:3", "raw:3,by=bm25"]}}, "[ppo] see: longest under raw:3 comes 2 times"),
        ({"ppo": {"limit": 2}}, "[ppo] found 2 users, wanted more"),
        (
            {"models": [f"judge:m,style=pointwise,url={URL}"], "ppo": {"grader": f"joint:m,url={URL}"}},
            f"judge:m,style=pointwise,url={URL} rewards, and joint:m",
        ),
    ],
)
def test_what_cannot_be_trained_is_told(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((StudyError, SpecError)) as found:
        recipe(**changes)
    assert str(found.value).startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"bacth": 4}}, "[ppo] ppo has no setting 'bacth'. Did you mean 'batch'?"),
        ({"settings": {"batch": 0}}, "[ppo] ppo: batch is 0; wanted at least 1"),
        ({"settings": {"batch": 1.5}}, "[ppo] ppo: batch is '1.5'; wanted a whole number"),
        ({"policy": "chat:m,url=http://127.0.0.1:9/v1"}, "[ppo] policy: found 'chat:m"),
        ({"policy": "tiny,stps=3"}, "[ppo] policy 'tiny' has no key 'stps'"),
        ({"shaping": "zz"}, "[ppo] unknown shaping 'zz'"),
        ({"shaping": "z,clip=0"}, "[ppo] shaping: clip is '0'"),
        ({"seeds": [1, 1]}, "[ppo] seeds: found 1 twice, wanted it once"),
        ({"rewards": ["bm26"]}, "[ppo] rewards: 'bm26' is none of models. Did you mean 'bm25'?"),
        ({"per_domain": True}, "[ppo] no key 'per_domain'. Did you mean 'per-domain'?"),
        ({"steps": 0}, "[ppo] steps: found 0"),
    ],
)
def test_a_key_that_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError) as found:
        declared(ppo=changes)
    assert str(found.value).startswith(f"the study: {said}")


def test_settings_are_those_of_train_ppo() -> None:
    asked = declared(ppo={"settings": {"batch": 4, "whiten": False, "kl_in": "none", "actor_rate": 5e-7}}).ppo
    assert asked is not None
    chosen = asked.chosen()
    assert (chosen.batch, chosen.whiten, chosen.kl_in, chosen.actor_rate) == (4, False, "none", 5e-7)


def test_a_table_without_steps_or_a_grader_is_an_error() -> None:
    for key in ("steps", "grader", "policy"):
        lacking = table()
        lacking["ppo"] = {name: value for name, value in lacking["ppo"].items() if name != key}
        with pytest.raises(StudyError, match=rf"\[ppo\] no '{key}'; wanted one"):
            declare(lacking)


def test_a_training_says_what_it_is() -> None:
    told: list[Training] = list(recipe(ppo={"per-domain": True, "seeds": [3], "rewards": ["bm25"]}).trainings(Path()))
    assert told[0].title == f"ppo × bm25 × raw:3, seed 3, {told[0].domain}"


def test_a_name_that_nobody_knows_is_an_error() -> None:
    assert issubclass(SpecError, PluralrmError)
    for changes in ({"grader": "trth"}, {"condition": "rae:3"}):
        with pytest.raises((SpecError, ConditionError), match="unknown"):
            recipe(ppo=changes)

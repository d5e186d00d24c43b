"""What came of trainings, from folders as `train ppo` leaves them, computed again by other means."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from pluralrm.correlate import columns_of_outcomes
from pluralrm.policies.outcomes import find_outcomes, load_outcome
from pluralrm.policies.pool import load_pool
from pluralrm.study.ppo import Recipe
from pluralrm.study.ppo.results import PolicyResult, columns_of, found_of, places
from pluralrm.study.result import trained_json, trained_sides, trainings_json
from pluralrm.training.records import RUN
from tests.study.ppo.written import MODELS, recipe, worths, write, write_all


@pytest.fixture(scope="module")
def told() -> Recipe:
    return recipe()


@pytest.fixture(scope="module")
def out(told: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    write_all(told, folder)
    return folder


def _graded(told: Recipe, out: Path, reward: str, seed: int, *, when: str = "after") -> list[float]:
    """Return the mean grade of each item, asked of the grader again."""
    [cell] = [one for one in told.cells if one.reward == reward]
    found = []
    for training in told.of(cell, seed, out):
        where = places(training.folder, steps=told.declared.steps, n=told.declared.n)
        found += worths(told, load_pool(getattr(where, when)))
    return found


def _by_reward(told: Recipe, out: Path) -> dict[str, PolicyResult]:
    return {one.reward: one for one in found_of(told, out).trained}


def test_a_policy_is_worth_the_mean_over_items_and_seeds(told: Recipe, out: Path) -> None:
    for reward, one in _by_reward(told, out).items():
        after = [_graded(told, out, reward, seed) for seed in (0, 1)]
        before = [_graded(told, out, reward, seed, when="before") for seed in (0, 1)]
        assert one.after.users.value == pytest.approx(fmean(map(fmean, after)))
        assert one.before.value == pytest.approx(fmean(map(fmean, before)))
        assert one.change.users.value == pytest.approx(fmean(map(fmean, after)) - fmean(map(fmean, before)))
        assert [seeded.after for seeded in one.seeds] == pytest.approx([fmean(values) for values in after])
        assert after[0] != after[1], "a seed that changes nothing could be left out unseen"


def test_rewards_are_told_apart_and_none_has_the_answers_of_another(told: Recipe, out: Path) -> None:
    values = [one.after.users.value for one in found_of(told, out).trained]
    assert len(set(values)) == len(MODELS)


def test_the_column_has_for_each_item_its_mean_over_seeds_and_the_users_of_the_benchmark(
    told: Recipe, out: Path
) -> None:
    [(column, estimates)] = columns_of(found_of(told, out))
    assert column.items is not None
    users = {item.cluster for item in told.test}
    assert sorted(column.items.clusters) == sorted(f"{told.benchmark.content_hash}\x00{user}" for user in users)
    for reward, score in column.scores.items():
        grades = np.array([_graded(told, out, reward, seed) for seed in (0, 1)])
        assert score == pytest.approx(grades.mean())
        by_user = [grades[:, [item.cluster == user for item in told.test]].mean() for user in sorted(users)]
        order = np.argsort(column.items.clusters)
        parts = column.items.means.parts[order, column.items.models.index(reward)]
        assert parts * len(users) == pytest.approx(by_user)  # two items of each user
        assert estimates[reward].value == pytest.approx(score)


def test_with_several_seeds_an_interval_is_about_other_trainings_too(told: Recipe, out: Path) -> None:
    for one in found_of(told, out).trained:
        users, both = one.change
        assert None not in (users.low, users.high, both.low, both.high)
        assert (both.low or 0) <= (users.low or 0) < (users.high or 0) <= (both.high or 0)


def test_with_one_seed_nothing_is_said_of_other_trainings(tmp_path: Path) -> None:
    told = recipe(ppo={"seeds": [0]})
    write_all(told, tmp_path)
    [one, *_] = found_of(told, tmp_path).trained
    assert one.change.both.low is None
    assert one.change.users.low is not None


def test_the_best_stands_against_the_worst_by_an_interval_for_all_pairs(told: Recipe, out: Path) -> None:
    found = found_of(told, out)
    [apart] = found.apart
    values = {one.reward: one.after.users.value for one in found.trained}
    assert values[apart.best] == max(values.values())
    assert values[apart.worst] == min(values.values())
    users = apart.difference.users
    assert users.value == pytest.approx(values[apart.best] - values[apart.worst])
    two = found_of(
        replace(told, cells=tuple(one for one in told.cells if one.reward in (apart.best, apart.worst))), out
    )
    alone = two.apart[0].difference.users
    assert alone.value == pytest.approx(users.value)
    assert (users.low or 0) < (alone.low or 0), "chosen among four, it is less sure than of two"


def test_one_seed_that_is_open_keeps_its_reward_out_of_the_column_and_out_of_no_other(tmp_path: Path) -> None:
    """Were what is missing worth 0, or its seed left out of the mean, models would be ranked by who had an outage."""
    told = recipe()
    open_ = next(one for one in told.trainings(tmp_path) if (one.cell.reward, one.seed) == ("bm25", 1))
    write_all(told, tmp_path, but=[open_])
    write(told, open_, status="incomplete")
    found = found_of(told, tmp_path)
    one = _by_reward(told, tmp_path)["bm25"]
    assert (one.whole, [seeded.seed for seeded in one.seeds]) == (False, [0])
    assert one.after.users.value == pytest.approx(fmean(_graded(told, tmp_path, "bm25", 0)))
    [(column, _)] = columns_of(found)
    assert set(column.scores) == {*MODELS} - {"bm25"}
    assert all("bm25" not in (apart.best, apart.worst) for apart in found.apart)


def test_a_grade_that_is_missing_leaves_the_training_open(told: Recipe, tmp_path: Path) -> None:
    write_all(told, tmp_path)
    first = next(iter(told.trainings(tmp_path)))
    where = places(first.folder, steps=told.declared.steps, n=told.declared.n)
    [grades] = where.before.rglob("grades.jsonl")
    lines = grades.read_text().splitlines(keepends=True)
    grades.write_text("".join(lines[:-1]))
    assert [seeded.seed for seeded in _by_reward(told, tmp_path)[first.cell.reward].seeds] == [1]


def test_fewer_steps_than_wanted_are_no_result(told: Recipe, out: Path) -> None:
    longer = replace(told, declared=told.declared.model_copy(update={"steps": 5}))
    assert found_of(longer, out).trained == ()


def test_an_alarm_names_its_seeds(tmp_path: Path) -> None:
    told = recipe()
    for training in told.trainings(tmp_path):
        write(told, training, constant=training.cell.reward == "longest" and training.seed == 1)
    assert {one.reward: one.alarms for one in found_of(told, tmp_path).trained} == {
        "longest": {"constant": [1]},
        **{name: {} for name in MODELS[1:]},
    }


def test_the_column_says_who_was_shown_the_rubric_or_pairs_that_a_chat_model_wrote(tmp_path: Path) -> None:
    """In the words of `correlate --outcome`, which reads the same folders."""
    told = recipe(ppo={"seeds": [0], "condition": "raw:2"})
    write_all(told, tmp_path)
    for file in tmp_path.rglob("outcome.json"):
        manifest = {name: fact for name, fact in json.loads(file.read_text()).items() if name != "check"}
        more = {"pairs": "pairs by m", "policy_pairs": "other pairs", "shown_rubric": manifest["model"] == "bm25"}
        file.write_text(json.dumps(manifest | more))
    found = found_of(told, tmp_path)
    [(column, _)] = columns_of(found)
    [same] = columns_of_outcomes([load_outcome(one) for one in find_outcomes([tmp_path])])
    assert list(column.notes) == [note.replace(same.name, column.name) for note in same.notes]
    assert [note.split(":")[0] for note in column.notes] == ["ORACLE", "SYNTHESISED", "SYNTHESISED"]
    assert column.notes[0].endswith("the rubric was shown to bm25")


def test_a_policy_that_was_shown_the_rubric_is_marked(tmp_path: Path) -> None:
    told = recipe(ppo={"seeds": [0], "condition": "oracle"})
    write_all(told, tmp_path)
    [side] = trained_sides(found_of(told, tmp_path))
    assert side.column.notes == ("ORACLE: under simulated ppo raw:3 the policy saw the rubric",)


def test_a_policy_for_each_domain_is_one_result_over_all_domains(tmp_path: Path) -> None:
    told = recipe(ppo={"per-domain": True})
    assert list(told.parts) == list(told.benchmark.domains)
    write_all(told, tmp_path)
    found = found_of(told, tmp_path)
    for one in found.trained:
        assert set(one.items) == {item.id for item in told.test}
        after = [_graded(told, tmp_path, one.reward, seed) for seed in (0, 1)]
        assert one.after.users.value == pytest.approx(fmean(map(fmean, after)))
        assert [len(seeded.reports) for seeded in one.seeds] == [2, 2]


WIDE = "simulated:users=24,items=2,domains=2"
"""The users of the benchmark that is trained on, and four more."""
ASKED: Mapping[str, Any] = {"evaluate-on": WIDE, "rewards": list(MODELS[:2]), "n": 1}


def _on(told: Recipe, out: Path, reward: str, seed: int, *, when: str) -> list[float]:
    """Return the mean grade of each question of evaluate-on, asked of the grader again."""
    [cell] = [one for one in told.cells if one.reward == reward]
    found = []
    for training in told.of(cell, seed, out):
        place = told.questions[training.domain].place
        where = places(training.folder, steps=told.declared.steps, n=told.declared.n, sub=place)
        found += worths(told, load_pool(getattr(where, when)), told.evaluated)
    return found


@pytest.mark.parametrize("per_domain", [False, True])
def test_the_questions_of_another_benchmark_are_a_result_beside_the_test_users(
    tmp_path: Path, *, per_domain: bool
) -> None:
    told = recipe(ppo={**ASKED, "per-domain": per_domain})
    write_all(told, tmp_path)
    found = found_of(told, tmp_path)
    met = {item.user.id for parts in told.parts.values() for part in parts[:2] for item in part if item.user}
    assert told.evaluated is not None
    for one in found.trained:
        assert one.on is not None
        if not per_domain:
            asked = [item.id for item in told.evaluated.items if item.user and item.user.id not in met]
            assert list(one.on.items) == asked
        before, after = (
            [_on(told, tmp_path, one.reward, seed, when=when) for seed in (0, 1)] for when in ("before", "after")
        )
        assert len(one.on.items) == len(after[0]) > len(one.items)
        assert one.on.after.users.value == pytest.approx(fmean(map(fmean, after)))
        assert one.on.before.value == pytest.approx(fmean(map(fmean, before)))
        assert one.on.change.users.value == pytest.approx(fmean(map(fmean, after)) - fmean(map(fmean, before)))
        assert [seeded.on for seeded in one.seeds] == [
            pytest.approx((fmean(early), fmean(late))) for early, late in zip(before, after, strict=True)
        ]
    apart = {one.on: one for one in found.apart}
    assert set(apart) == {"", "simulated"}
    values = {one.reward: one.on.after.users.value for one in found.trained if one.on}
    assert values[apart["simulated"].best] == max(values.values())


def test_both_results_are_columns_and_one_that_is_on_the_benchmark_s_items_has_its_users(tmp_path: Path) -> None:
    told = recipe(ppo={**ASKED, "seeds": [0]})
    write_all(told, tmp_path)
    found = found_of(told, tmp_path)
    (test, _), (column, estimates) = columns_of(found)
    assert (test.name, column.name) == ("simulated ppo raw:3", "simulated ppo on simulated raw:3")
    assert told.evaluated is not None
    assert (test.source, column.source) == (told.benchmark.content_hash, told.evaluated.content_hash)
    assert column.items is not None
    users = {item.cluster for item in told.questions[""].items}
    assert set(column.items.clusters) == {f"{told.evaluated.content_hash}\x00{user}" for user in users}
    for reward, score in column.scores.items():
        assert score == pytest.approx(estimates[reward].value)
    told_json = json.loads(json.dumps(trained_json(found)))
    assert told_json["evaluated_on"]["left_out"] == len(told.evaluated.items) - len(told.questions[""].items)
    assert {one["on"] for one in told_json["best_against_worst"] if "on" in one} == {"simulated"}


def test_a_question_without_a_grade_leaves_its_training_open_and_nothing_else_is_another(tmp_path: Path) -> None:
    """With questions a training is whole once both are graded; without them the same folders are whole as they are."""
    with_, without = (recipe(ppo={**ASKED, "evaluate-on": on}) for on in (WIDE, ""))
    assert _folders(with_) == _folders(without), "questions shape no weight"
    write_all(with_, tmp_path)
    plain = trained_json(found_of(without, tmp_path))
    first = next(iter(with_.trainings(tmp_path)))
    place = with_.questions[""].place
    where = places(first.folder, steps=with_.declared.steps, n=with_.declared.n, sub=place)
    [grades] = where.after.rglob("grades.jsonl")
    grades.write_text("".join(grades.read_text().splitlines(keepends=True)[:-1]))
    open_ = _by_reward(with_, tmp_path)[first.cell.reward]
    assert (open_.whole, [seeded.seed for seeded in open_.seeds]) == (False, [1])
    assert trained_json(found_of(without, tmp_path)) == plain


def _folders(told: Recipe) -> set[Path]:
    return {one.folder for one in told.trainings(Path("out"))}


def test_a_domain_that_is_missing_leaves_its_seed_open(tmp_path: Path) -> None:
    told = recipe(ppo={"per-domain": True})
    lost = next(one for one in told.trainings(tmp_path) if one.seed == 1)
    write_all(told, tmp_path, but=[lost])
    one = _by_reward(told, tmp_path)[lost.cell.reward]
    assert (one.whole, [seeded.seed for seeded in one.seeds]) == (False, [0])


def test_what_is_told_holds_no_time_and_no_place_on_this_machine(told: Recipe, out: Path) -> None:
    found = found_of(told, out)
    text = json.dumps([trained_json(found), trainings_json(found, out)])
    assert str(out) not in text
    for word in ("started", "finished", "seconds", "git"):
        assert f'"{word}"' not in text
    reports = [out / report for one in found.trained for seeded in one.seeds for report in seeded.reports]
    assert len(reports) == 8
    assert all(report.is_file() for report in reports)
    assert len(trainings_json(found, out)) == len(list(out.rglob(RUN)))

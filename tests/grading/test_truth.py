"""The grader `truth`: the weight of the wants that an answer meets, by the taste that made the user."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated import named_person, settings_of
from pluralrm.benchmarks.simulated.texts import attributes, read_answer, topic_of, write_answer
from pluralrm.core import Failure, Item
from pluralrm.errors import BenchmarkError, SpecError
from pluralrm.grading import Grade, open_grader
from pluralrm.policies.grades import GradingCost, find_graders, grade_folder, grade_pool, grading_cost, read_grades
from pluralrm.policies.policy import Draw
from pluralrm.policies.sample import sample
from tests.policies.pools import BENCH, babbled

SIMULATED = load_benchmark("simulated:users=30,items=2,candidates=4,cares=4,seed=3")


def grade(item: Item, text: str) -> Grade:
    [found] = open_grader("truth").grade([(item, text)])
    return found.grade


def written(item: Item, *, met: bool) -> str:
    """Return an answer that meets every want of the item's user, or none."""
    wanted = {want.attribute: want.level for want in named_person(item.cluster, settings_of(SIMULATED)).taste}
    levels = {}
    for each in attributes():
        names = list(each.levels)
        want = wanted.get(each.name, names[0])
        levels[each.name] = want if met else next(name for name in names if name != want)
    topic = topic_of(item.prompt)
    assert topic is not None
    return write_answer(topic, levels, random.Random(0))


@pytest.mark.parametrize("keys", ["", ",cares=1,crowd=0.5", ",cares=4,seed=9,domains=1"])
def test_the_grade_is_the_share_of_the_wants_by_weight(keys: str) -> None:
    bench = load_benchmark(f"simulated:users=40,items=2,candidates=3{keys}")
    for item in bench.items:
        taste = named_person(item.cluster, settings_of(bench)).taste  # not the rubric: what the rubric is made of
        for text in item.candidates:
            levels = read_answer(text) or {}
            met = [want.weight for want in taste if levels[want.attribute] == want.level]
            assert grade(item, text) == pytest.approx(sum(met) / sum(want.weight for want in taste), abs=1e-12)


def test_who_gets_all_they_want_gives_one_and_who_gets_nothing_zero() -> None:
    for item in SIMULATED.items:
        assert (grade(item, written(item, met=True)), grade(item, written(item, met=False))) == (1.0, 0.0)


def test_points_are_weights_so_that_a_grade_can_be_computed_again() -> None:
    item = SIMULATED.items[0]
    for graded in open_grader("truth").grade((item, text) for text in item.candidates):
        taste = named_person(item.cluster, settings_of(SIMULATED)).taste
        assert len(graded.points) == len(taste)
        assert graded.grade == sum(graded.points) / sum(want.weight for want in taste)


def test_what_is_no_answer_to_the_question_has_no_grade() -> None:
    first, *others = SIMULATED.items
    elsewhere = next(item for item in others if topic_of(item.prompt) != topic_of(first.prompt))
    for text in ("Rye.", "", elsewhere.candidates[0]):
        found = grade(first, text)
        assert isinstance(found, Failure)
        assert found.kind == "unsupported"
    assert isinstance(grade(replace(first, oracle=BENCH.items[0].oracle), first.candidates[0]), Failure)


def test_other_benchmarks_are_refused_with_what_to_use(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"pocket-prb is not simulated.*per-aspect:MODEL,url=URL"):
        grade_pool(babbled(tmp_path), BENCH, open_grader("truth"))
    assert not (tmp_path / "pool" / "grades").exists()


def test_a_pool_is_graded_without_a_call_and_once(tmp_path: Path) -> None:
    pool, grader = sample(SIMULATED, "simulated", out=tmp_path / "pool", draw=Draw(n=4)), open_grader("truth")
    asked = grading_cost(pool, SIMULATED, grader)
    assert asked == GradingCost(answers=240, calls=0, prompt_tokens=0)
    assert asked.cost(None) == 0.0
    done = grade_pool(pool, SIMULATED, grader)
    assert (done.done, done.failed, done.open) == (240, 0, 0)
    assert grading_cost(pool, SIMULATED, grader).answers == 0
    assert len(read_grades(grade_folder(pool, grader))) == 240
    [record] = find_graders(pool).values()
    assert (record.spec, record.model) == ("truth", "simulated")


def test_a_bill_with_calls_costs_what_is_not_known_until_a_price_is() -> None:
    assert GradingCost(1, 2, 1_000_000).cost(None) is None
    assert GradingCost(1, 2, 1_000_000).cost(0.5) == 0.5


def test_it_takes_no_keys_and_no_server() -> None:
    with pytest.raises(SpecError, match="grader 'truth' has no key 'url'"):
        open_grader("truth,url=http://127.0.0.1:9/v1")

"""What is said of a personalized model: swaps that must not matter, truth, flattery, and what replies repeat."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pluralrm.attack.personal import MeasureTerms, SafetyMeasure, SharePair, measured, safe_personalization
from pluralrm.attack.swaps import (
    CONTROL,
    LEAST_TRAIT,
    LENT,
    WORDS,
    ContextLine,
    SafetyTerms,
    WithLine,
    context_texts,
    repeats,
    safety_plan,
    trait_swap,
    word_swap,
)
from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Item, Post, Query, User, UserView, Verdict
from pluralrm.errors import ConditionError
from pluralrm.metrics.comparison import RunItems
from tests.attack.safety_worlds import PlantedJudge, SafetyWorld, general, world
from tests.builders import bakery, card
from tests.metrics.rows import row


@cache
def small() -> SafetyWorld:
    """Return one world for all tests."""
    return SafetyWorld(3, people=60)


def judged(flaw: str, share: float = 0.0, *, fickle: bool = False) -> dict[str, str]:
    result = small().judged(PlantedJudge(small().labels, flaw, share, fickle))
    return {question.name: question.colour for question in result.questions}


# ---------------------------------------------------------------- planted judges


@pytest.mark.parametrize("flaw", ["name", "gender", LEAST_TRAIT, "truth", "flattery"])
def test_a_planted_flaw_is_the_one_red_question(flaw: str) -> None:
    colours = judged(flaw, 0.6)
    assert [name for name, colour in colours.items() if colour == "red"] == [flaw]


def test_a_judge_that_quotes_the_user_leaks_lent_posts_too() -> None:
    colours = judged("privacy", 0.4)
    assert [name for name, colour in colours.items() if colour == "red"] == ["privacy", LENT]


@pytest.mark.parametrize("fickle", [False, True])
def test_an_honest_judge_is_not_accused_even_where_any_change_draws_anew(fickle: bool) -> None:
    assert "red" not in judged("", fickle=fickle).values()


def test_a_judge_that_ignores_the_context_is_green_without_an_interval() -> None:
    result = small().judged(PlantedJudge(small().labels))
    question = next(each for each in result.questions if each.name == "gender")
    assert question.colour == "green"
    assert question.sentence == "gender: no score moved"
    assert question.measures[0].difference.low is None


@dataclass
class FailingJudge(PlantedJudge):
    """A judge that gives no verdict where it would show its flaw, or (`always`) wherever a gender is shown."""

    always: bool = False

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        listed = list(queries)
        for query, verdict in zip(listed, super().score(listed), strict=True):
            gender = (query.user.traits if query.user else {}).get("gender", "")
            failing = gender == "man" or (self.always and gender)
            yield replace(verdict, scores=(Failure("parse", "no verdict"),) * 2) if failing else verdict


@pytest.mark.parametrize("always", [False, True])
def test_failing_never_pays(always: bool) -> None:
    result = small().judged(FailingJudge(small().labels, always=always))
    colours = {question.name: question.colour for question in result.questions}
    assert colours["gender"] == ("grey" if always else "red")
    assert colours["name"] == "green"
    if always:
        assert "failed" in next(each.sentence for each in result.questions if each.name == "gender")


# ---------------------------------------------------------------- swaps


def test_both_sides_of_a_swap_differ_in_one_line_and_in_nothing_else() -> None:
    bench, condition = world(1, 20), load_condition("recent:3")
    for name in WORDS:
        swap = word_swap(bench, name)
        assert not isinstance(swap, str)
        first, second = (list(side.queries(bench, bench.items)) for side in swap.sides(condition, 0))
        for item, one, other in zip(bench.items, first, second, strict=True):
            assert one.user is not None
            assert other.user is not None
            assert one.user.traits[name] in WORDS[name][0]
            assert other.user.traits[name] in WORDS[name][1]
            plain = next(condition.queries(bench, [item]))
            assert replace(one, user=replace(one.user, traits={})) == plain
            assert replace(other, user=replace(other.user, traits={})) == plain


def test_one_person_has_one_name_on_each_side() -> None:
    bench = world(2, 30)
    swap = word_swap(bench, "name", seed=4)
    assert not isinstance(swap, str)
    names: dict[str, set[str]] = {}
    for item in bench.items:
        assert item.user is not None
        names.setdefault(item.user.id, set()).add(swap.first[item.id].value)
    assert {len(some) for some in names.values()} == {1}
    assert len(set.union(*names.values())) > 4


def test_a_declared_name_is_replaced_in_posts_as_a_whole_word() -> None:
    line = ContextLine("name", "Mei", "Anne")
    view = UserView("u", (Post("p", "Anne says: ANNE's bread, not Annette's."),), traits={"name": "Anne"})
    shown = line.shown_in(Query("i", "Which?", ("a", "b"), view)).user
    assert shown is not None
    assert shown.posts[0].text == "Mei says: Mei's bread, not Annette's."
    assert shown.traits == {"name": "Mei"}
    short = (
        ContextLine("age", "60s", "no").shown_in(Query("i", "?", ("a", "b"), UserView("u", (Post("p", "no"),)))).user
    )
    assert short is not None
    assert short.posts[0].text == "no"


def test_the_least_important_trait_is_swapped_for_another_persons() -> None:
    bench = world(5, 30)
    swap = trait_swap(bench)
    assert not isinstance(swap, str)
    for item in bench.items:
        assert item.user is not None
        assert swap.first[item.id].value == item.user.traits["oven"]
        assert swap.second[item.id].value != item.user.traits["oven"]
    assert "no declared traits" in str(trait_swap(load_benchmark("pocket-prb")))
    named = trait_swap(bench, "age")
    assert not isinstance(named, str)
    assert {line.name for line in named.first.values()} == {"age"}


def test_a_side_has_a_spec_of_its_own_and_is_no_result() -> None:
    base = load_condition("raw:3")
    side = WithLine(base, "gender=2", {}, 7)
    assert side.spec == "raw:3+gender=2,seed=7"
    assert side.reveals == {"posts", "other_traits"}
    assert side.role.role is None
    assert CONTROL in WORDS


@pytest.mark.parametrize("condition", ["none", "swapped:3", "oracle", "noise:2"])
def test_a_condition_that_does_not_show_the_user_is_refused(condition: str) -> None:
    with pytest.raises(ConditionError, match="wanted a condition that shows the user's own"):
        safety_plan(load_benchmark("pocket-prb"), load_condition(condition))


def test_truth_needs_a_benchmark_without_users() -> None:
    plan = safety_plan(bakery(12), load_condition("raw:2"))
    assert "--general" in plan.skipped["truth"]
    assert "truth" in safety_plan(bakery(12), load_condition("raw:2"), general=general(0, 8)).steps


# ---------------------------------------------------------------- agreement, and what is repeated


def test_agreement_with_another_is_as_long_to_the_character() -> None:
    bench = bakery(6)
    queries = list(load_condition("raw:2").queries(bench, bench.items))
    plan = safety_plan(bench, load_condition("raw:2"))
    own, other = (plan.steps[name].benchmark for name in ("agree", "agree-other"))
    for before, one, two, query in zip(bench.items, own.items, other.items, queries, strict=True):
        place = int(one.tags["attacked"])
        assert place != before.preferred
        assert one.candidates[place].endswith(f"\n\n{before.candidates[place]}")
        assert len(one.candidates[place]) == len(two.candidates[place])
        assert context_texts(query)[0] in one.candidates[place]
        assert context_texts(query)[0] not in two.candidates[place]


def test_what_the_question_says_itself_is_not_repeated_from_a_post() -> None:
    post = "I bake rye bread on stone every single morning before work"
    query = Query("i", f"Why do people say: {post}?", ("yes", "no"))
    assert not repeats(f"They wrote: {post}.", [post], query, 8)
    plain = replace(query, prompt="Why?")
    assert repeats(f"They wrote: {post.upper()}!", [post], plain, 8)
    assert not repeats("They bake rye bread on stone every day.", [post], plain, 8)
    assert not repeats("", [post], plain, 8)


def test_two_posts_do_not_make_one_quotation() -> None:
    query = Query("i", "Why?", ("yes", "no"))
    assert not repeats("one two three four", ["one two", "three four"], query, 4)


# ---------------------------------------------------------------- measures

TERMS = MeasureTerms("right", "before", "accuracy by {}", 0.05, "both")


def measure(first: list[float], second: list[float], failed: int = 0, terms: MeasureTerms = TERMS) -> SafetyMeasure:
    side = RunItems(tuple(row(f"i{place}", (1.0, 0.0)) for place in range(len(first))))
    unknown = np.arange(len(first)) < failed
    return measured(SharePair(np.array(first), np.array(second), unknown), side, terms)


def test_the_p_values_are_near_those_of_two_t_tests() -> None:
    rng = np.random.default_rng(0)
    second = (rng.random(900) < 0.8).astype(float)
    first = np.where(rng.random(900) < 0.2, rng.random(900) < 0.8, second).astype(float)
    found = measure(first.tolist(), second.tolist())
    gaps = first - second
    error = gaps.std(ddof=1) / 30
    p = max(scipy_stats.t.cdf((sign * gaps.mean() - 0.05) / error, 899) for sign in (1, -1))
    assert found.p_within == pytest.approx(p, abs=0.01)
    assert found.difference.low == pytest.approx(gaps.mean() - 1.6466 * error, abs=0.002)


@pytest.mark.parametrize("seed", range(12))
def test_green_is_never_an_interval_that_reaches_the_margin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    second = (rng.random(500) < 0.8).astype(float)
    first = np.where(rng.random(500) < 0.05 * seed, rng.random(500) < 0.8, second).astype(float)
    found = measure(first.tolist(), second.tolist())
    low, high = found.difference.low, found.difference.high
    assert low is not None
    assert high is not None
    assert low > -0.05 or not found.within
    assert high < 0.05 or not found.within
    if low > -0.047 and high < 0.047:
        assert found.within


def test_failed_items_can_only_turn_green_to_grey() -> None:
    same = [1.0] * 400
    p = [measure(same, same, failed).p_within or 0.0 for failed in (0, 5, 40)]
    assert p == sorted(p)
    assert p[0] < 0.05 < p[2]
    assert not measure(same, same, 400).beyond


def test_the_items_that_would_do_would_do() -> None:
    rng = np.random.default_rng(1)
    second = (rng.random(200) < 0.8).astype(float)
    first = rng.permutation(second)
    few = measure(first.tolist(), second.tolist())
    assert not few.within
    assert few.items_needed is not None
    copies = few.items_needed // 200 + 1
    assert measure(first.tolist() * copies, second.tolist() * copies).within


def test_where_nothing_differs_a_few_more_would_do() -> None:
    terms = MeasureTerms("posts repeated", "others", "{}", 0.02)
    few = measure([0.0] * 40, [0.0] * 40, terms=terms)
    assert not few.within
    assert few.items_needed is not None
    assert 100 < few.items_needed < 150
    more = [0.0] * round(1.1 * few.items_needed)
    assert measure(more, more, terms=terms).within


# ---------------------------------------------------------------- on disk


def test_runs_are_resumed_and_scalar_models_have_nothing_to_repeat(tmp_path: Path) -> None:
    bench = load_benchmark("pocket-prb")
    once, again = (safe_personalization(bench, "bm25", "raw:3", out=tmp_path) for _ in range(2))
    assert once == again
    assert once.skipped["privacy"] == "the model writes no reasons"
    assert {question.name: question.colour for question in once.questions}["gender"] == "green"
    assert once.to_json()["model"] == "bm25"
    assert {record["question"] for record in once.records()} == {"name", "gender", "flattery"}


def test_other_traits_must_not_matter_either() -> None:
    plan = safety_plan(world(1, 20), load_condition("traits"), terms=SafetyTerms(traits=("age",)))
    assert [swap.name for swap in plan.swaps] == ["name", "gender", CONTROL, "age", LEAST_TRAIT]
    assert "shows no posts" in plan.skipped["privacy"]


def test_a_person_without_words_has_no_agreement() -> None:
    user = User("u", ())
    item = Item("i", "Which?", ("a", "b"), 0, "u", "Bread", user=user)
    plan = safety_plan(Benchmark(card(), (*bakery(4).items, item)), load_condition("raw:2"))
    assert len(plan.steps["agree"].benchmark.items) == 4

"""Other words and other orders: what changes, what never does, and that it is the same each time."""

import random
from collections import Counter

import pytest

from pluralrm import load_benchmark
from pluralrm.attack.attacks import derived
from pluralrm.attack.judge import answers, plain, question, turned
from pluralrm.core import Benchmark

PRB, RMGAP = load_benchmark("pocket-prb"), load_benchmark("pocket-rmgap")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Don't go, e.g. now.", "Do not go, for example, now."),
        ("I am late and I cannot stay.", "I'm late and I can't stay."),
        ("We’re here.", "We are here."),
        ("It's hers; he'd say so.", "It's hers; he'd say so."),
        ("One.\nTwo.", "One.\n\nTwo."),
        ("One.\n\nTwo.", "One.\nTwo."),
        ("Rise now. Then bake.", "Rise now.\n\nThen bake."),
        ("- don't\n- stop", "- do not\n- stop"),
        ("```\nif x:\n    y\n```", "```\nif x:\n    y\n```"),
        ("", ""),
    ],
)
def test_the_rules_by_hand(text: str, other: str) -> None:
    assert plain(text, random.Random(0)) == other


def test_an_answer_in_other_words_is_about_as_long_and_has_its_words() -> None:
    changed = derived(PRB, "answers", "all answers are put in other words", answers)
    assert len(changed.items) >= 50
    before = {item.id: item for item in PRB.items}
    for item in changed.items:
        for text, other in zip(before[item.id].candidates, item.candidates, strict=True):
            assert abs(len(other) - len(text)) <= 0.05 * len(text) + 2
        assert (item.preferred, item.prompt) == (before[item.id].preferred, before[item.id].prompt)


def test_a_question_in_other_words_stays_the_same_prompt() -> None:
    changed = derived(PRB, "question", "the question is put in other words", question)
    assert [item.crossed for item in changed.items] == [item.crossed for item in PRB.items]
    assert not {item.prompt for item in changed.items} & {item.prompt for item in PRB.items}
    assert changed.content_hash == derived(PRB, "question", "", question).content_hash != PRB.content_hash
    assert changed.content_hash != derived(PRB, "question", "", question, seed=1).content_hash


@pytest.mark.parametrize("benchmark", [PRB, RMGAP], ids=["two", "four"])
def test_in_all_turns_every_candidate_stands_in_every_place_once(benchmark: Benchmark) -> None:
    width = len(benchmark.items[0].candidates)
    turns = [benchmark, *(derived(benchmark, "t", "turned", turned(shift)) for shift in range(1, width))]
    for items in zip(*(each.items for each in turns), strict=True):
        seats = Counter((text, place) for item in items for place, text in enumerate(item.candidates))
        assert set(seats.values()) == {1}
        assert len(seats) == width**2
        assert len({item.candidates[item.best[0]] for item in items}) == 1
        assert len({item.candidate_ids[item.best[0]] for item in items}) == 1
    assert not derived(benchmark, "t", "turned", turned(width)).items

"""What is measured by words alone."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.rmgap import STYLES
from pluralrm.construct.rmgap.prompts import named_response, named_style, numbers, shared_run, words


@pytest.mark.parametrize("level", [level for levels in STYLES.values() for level in levels])
def test_every_level_names_a_style(level: str) -> None:
    assert named_style(f"Please keep it {level.replace('_', '-')}, will you?")


@pytest.mark.parametrize("dimension", STYLES)
def test_every_dimension_names_a_style(dimension: str) -> None:
    assert named_style(f"Mind the {dimension.replace('_', ' ').upper()}.")


@pytest.mark.parametrize(
    "text", ["I bring it to the board on Monday.", "The informant is a strict objector.", "briefcase"]
)
def test_a_situation_names_none(text: str) -> None:
    assert not named_style(text)


def test_no_measure_refuses_a_prompt_that_people_wrote_for_the_shipped_records() -> None:
    """Written by people who knew the rule, but not these measures: what is refused here would be refused in vain."""
    prompts: dict[str, list[str]] = {}
    for item in load_benchmark("pocket-rmgap").items:
        assert not named_style(item.prompt)
        assert not named_response(item.prompt)
        assert item.preferred is not None
        assert not shared_run(item.prompt, item.candidates[item.preferred])
        prompts.setdefault(f"{item.cluster}/{item.tags['group']}", []).append(item.prompt)
    assert len(prompts) == 48
    for base, one, other in prompts.values():
        assert numbers(base) == numbers(one) == numbers(other)
        assert not any(shared_run(*pair) for pair in combinations((base, one, other), 2))


def test_a_word_of_the_original_gives_nothing_away() -> None:
    assert named_style("I need the formal notice by noon.", "Write a FORMAL notice.") == ""
    assert named_style("I need the formal, terse notice.", "Write a formal notice.") == "terse"


_WORDS = st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join)


@given(_WORDS, _WORDS, _WORDS, st.integers(1, 4))
def test_a_shared_run_is_found_as_in_padded_text(one: str, other: str, besides: str, count: int) -> None:
    """Words of one letter each: a run is then a substring that begins and ends at a word."""
    runs = [" ".join(one.split()[start : start + count]) for start in range(len(one.split()) - count + 1)]
    expected = next((run for run in runs if f" {run} " in f" {other} " and f" {run} " not in f" {besides} "), "")
    assert shared_run(one, other, count, besides=besides) == expected


def test_case_and_punctuation_hide_no_copy() -> None:
    assert (
        shared_run("At the end, THE jar -- is cold.", "At the end the jar is cold", 7) == "at the end the jar is cold"
    )


@pytest.mark.parametrize("text", ["As in response 2, please.", "I want r4!", "Answer C would do."])
def test_a_response_is_named(text: str) -> None:
    assert named_response(text)


@pytest.mark.parametrize("text", ["A response: 2 days ago.", "Route R66", "an answer a child gives", "Answer Bob."])
def test_no_response_is_named(text: str) -> None:
    assert not named_response(text)


def test_words_and_numbers() -> None:
    assert words("Don't re-heat 2,5 kg.") == ["don", "t", "re", "heat", "2", "5", "kg"]
    assert numbers("From 3 to 2.5, or 1,000.") == ["1,000", "2.5", "3"]

"""Rules on one text, equal texts, and ratings."""

import random
import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.construct.filters import (
    GATES,
    HIGHEST,
    LEAST,
    RATED,
    duplicate_key,
    duplicates,
    foreign_character,
    refused_ratings,
    refused_text,
    role_phrase,
)
from pluralrm.errors import BenchmarkError
from tests.construct.tricky_prompts import PROMPTS, Tricky


def test_there_are_enough_tricky_prompts_and_none_twice() -> None:
    assert len(PROMPTS) >= 80
    assert len({prompt.text for prompt in PROMPTS}) == len(PROMPTS)


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: ascii(prompt.text)[:40])
def test_a_tricky_prompt_is_decided_as_documented(prompt: Tricky) -> None:
    refusal = refused_text(prompt.text)
    assert (refusal and refusal.rule) == prompt.rule, prompt.why
    assert prompt.names in str(refusal), prompt.why


def test_a_character_stays_exactly_where_the_paper_lists_it() -> None:
    # The list of the paper, once more and by its hexadecimal digits.
    listed = "0000-007F 00B0-00B0 0370-03FF 2070-209F 2100-214F 2150-218F 2200-22FF 2A00-2AFF"
    ranges = [[int(end, 16) for end in pair.split("-")] for pair in listed.split()]
    allowed = {code for first, last in ranges for code in range(first, last + 1)}
    assert {code for code in range(0x110000) if foreign_character(chr(code)) is None} == allowed


def test_the_first_foreign_character_is_named_with_its_place() -> None:
    assert str(foreign_character("ab\u2019c\u00e9")) == "characters: U+2019 RIGHT SINGLE QUOTATION MARK at character 3"


WORDS = ["take", "on", "the", "role", "roles", "you", "are", "area", "Imagine", "aunt's", "Take", "ROLE", "bayou"]


def by_words(text: str) -> bool:
    """Decide on words with single spaces between, without a regular expression."""
    words = text.lower().split(" ")
    taken = [
        start
        for start, word in enumerate(words)
        if word == "take"
        and "role" in words[start + 2 :]
        and "take" not in words[start + 1 :][: words[start + 1 :].index("role")]
    ]
    return "imagine" in words or ("you", "are") in pairwise(words) or bool(taken)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
def test_a_role_is_found_as_word_by_word(words: list[str]) -> None:
    text = " ".join(words)
    if text.lower().startswith("take role") or " take role" in text.lower():
        return  # "take role ... role": whether the first role is a word between is nobody's question
    assert (role_phrase(text) is not None) == by_words(text)


@pytest.mark.parametrize(
    "text", ["take " * 200_000, "take a " * 200_000, "you " + " " * 400_000, "take" + " a" * 400_000]
)
def test_a_hostile_text_is_read_in_one_pass(text: str) -> None:
    assert role_phrase(text) is None  # quadratic work on a million characters would meet the time limit


# ---------------------------------------------------------------- equal texts


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("What is DNA?", "what is dna", True),
        ("What is DNA?", "Whatis, D.N.A!", True),
        ("Is 2 + 2 four?", "Is 2 - 2 four?", True),  # as published: symbols do not count
        ("Is \u03b1 real?", "Is \u03b2 real?", False),
        ("\u0391\u03a9?", "\u03b1\u03c9", True),
        ("H\u2082O", "H2O", False),  # another character, and a digit of its own
        ("x_1", "x1", True),
        ("What is DNA?", "What is RNA?", False),
        ("???", "!!!", False),
        ("? ? ?", "???", True),
        ("\u2200\u2203", "\u2203\u2200", False),
        ("", " \n", True),
        ("!", "", False),
    ],
)
def test_equal_texts_are_those_of_equal_letters_and_digits(one: str, other: str, same: bool) -> None:
    assert (duplicate_key(one) == duplicate_key(other)) == same
    assert set(duplicates({"a": one, "b": other})) == ({"b"} if same else set())


def test_symbols_alone_do_not_make_one_prompt() -> None:
    symbols = {f"s{place:02}": symbol for place, symbol in enumerate(string.punctuation + "\u2200\u2208\u2264")}
    assert duplicates(symbols) == {}


def test_the_smallest_id_is_kept_whatever_the_order() -> None:
    prompts = {"c": "Why?", "a": "why", "b": "WHY!", "d": "How?"}
    for seed in range(10):
        names = sorted(prompts)
        random.Random(seed).shuffle(names)
        dropped = duplicates({name: prompts[name] for name in names})
        assert {name: refusal.other for name, refusal in dropped.items()} == {"b": "a", "c": "a"}
    assert str(dropped["b"]) == "duplicate: the letters and digits of 'a'"


@given(st.dictionaries(st.text("abc", min_size=1), st.text("aB1 ?!\u03b1"), max_size=12))
def test_what_is_kept_is_different_and_what_is_dropped_is_not(prompts: dict[str, str]) -> None:
    dropped = duplicates(prompts)
    kept = {name for name in prompts if name not in dropped}
    assert len({duplicate_key(prompts[name]) for name in kept}) == len(kept)
    for name, refusal in dropped.items():
        assert refusal.other in kept
        assert refusal.other < name
        assert duplicate_key(prompts[refusal.other]) == duplicate_key(prompts[name])


# ---------------------------------------------------------------- ratings

FINE = dict.fromkeys(RATED, 4.0)


@pytest.mark.parametrize("domain", GATES)
@pytest.mark.parametrize("dimension", RATED)
def test_a_low_rating_stops_a_prompt_where_its_domain_asks_for_it(domain: str, dimension: str) -> None:
    refusal = refused_ratings(domain, FINE | {dimension: 3.5})
    exempt = {("Reasoning", "openness"), ("Safety", "safety")}
    assert (refusal is None) == ((domain, dimension) in exempt)
    if refusal is not None:
        assert str(refusal) == f"rating: {dimension} 3.5; wanted at least 4"


def test_every_low_rating_is_named() -> None:
    assert refused_ratings("Chat", FINE) is None
    found = refused_ratings("Safety", {**dict.fromkeys(RATED, 5), "clarity": 0, "safety": 0, "overall": 3})
    assert found is not None
    assert found.found == "clarity 0, overall 3; wanted at least 4"


@pytest.mark.parametrize("rating", [-0.1, HIGHEST + 0.1, float("nan"), float("inf"), None])
def test_what_is_no_rating_is_an_error_and_not_a_low_one(rating: float | None) -> None:
    ratings = {name: value for name, value in {**FINE, "openness": rating}.items() if value is not None}
    with pytest.raises(BenchmarkError, match=r"rating 'openness': found .*, wanted a number from 0 to 5"):
        refused_ratings("Reasoning", ratings)
    assert LEAST <= HIGHEST


def test_a_domain_without_a_gate_is_named() -> None:
    with pytest.raises(BenchmarkError, match=r"unknown domain 'Reasonin'\. Did you mean 'Reasoning'\?"):
        refused_ratings("Reasonin", FINE)

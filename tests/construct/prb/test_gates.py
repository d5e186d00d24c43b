"""The gates that ask nobody, decided by hand; and on 120 answers of pocket-prb, which are sound, none of them shuts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.lamp_qa import AspectRow
from pluralrm.construct.prb import gates
from pluralrm.construct.prb.gates import leaked
from pluralrm.grading.grader import aspects_of

POCKET = load_benchmark("pocket-prb")


def rubric(*titles: str) -> list[AspectRow]:
    return [AspectRow(aspect=title, evidence="", reason="") for title in titles]


@pytest.mark.parametrize("item", POCKET.items, ids=lambda item: item.id)
def test_sound_answers_pass_every_gate(item) -> None:
    one, other = item.candidates
    wanted = rubric(*(aspect.aspect for aspect in aspects_of(item)))
    found = [refusal for text in item.candidates for refusal in gates.form(text, 100)]
    found += [*gates.length(one, other, band=1.25), *gates.length(other, one, band=1.25), *gates.likeness(one, other)]
    found += [refusal for text in item.candidates for refusal in gates.wording(text, wanted, question=item.prompt)]
    assert found == []


def test_every_aspect_leaks_where_an_answer_quotes_it() -> None:
    quoted = [
        leaked(aspect.aspect, f"{item.candidates[0]} {aspect.aspect}", item.prompt)
        for item in POCKET.items
        for aspect in aspects_of(item)
    ]
    assert sum(map(bool, quoted)) >= 0.95 * len(quoted)  # a title with one word of content, 'By ear', is anybody's


@pytest.mark.parametrize(
    ("text", "stopped"),
    [
        ("Bake it dark. " * 33 + "Once.", ""),
        ("Bake it dark. " * 33 + "Once more.", "101 words"),
        ("", "says nothing"),
        (" \n ...", "says nothing"),
        ("Answer: bake it dark.", "label"),
        ("**Answer B:** bake it dark.", "label"),
        ("Bake it dark.\n\nExplanation: she likes crust.", "label"),
        ("My final answer: bake it dark.", "label"),
        ("Option 1: rye.\nOption 2: spelt.", "label"),
        ("Note: bake it dark.", "label"),
        ("Sure! Here is an answer for you:\nBake it dark.", "opening"),
        ("Here's what I would say:\n\nBake it dark.", "opening"),
        ("Bake it dark. (4 words)", "talk"),
        ("Since the user's posts mention rye, bake it dark.", "talk"),
        ("This person prefers rye. As an AI, I would bake it dark.", "talk"),
        ('{"answer": "Bake it dark."}', "JSON"),
        ("```\nBake it dark.\n```", "code fence"),
        ("# Bread\nBake it dark.", "heading"),
        ("Of course you can bake it dark: the crust says when.", ""),
        ("Note the hour, and bake it dark. The answer is in the crust: brown, not tan.", ""),
        ("Here are three ways: rye, spelt, oats. 1. Rye keeps. 2. Spelt rises.", ""),
        ("Ask the user of the flat below; she has an oven.", ""),
        ("焼き色が濃くなるまで焼く。", ""),
        ("B" * 2000, ""),
        ("B" * 2001, "2,001 characters, wanted at most 2,000"),
        ("焼" * 3_000_000, "3,000,000 characters"),
        ("\n" * 2001, "2,001 characters"),
        ("Bake it \x1b[31mdark.", "U+001B (a control character) at character 9"),
        ("Bake it \x00dark.", "U+0000 (a control character)"),
        ("Bake it \u202edark.", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
        ("Bake it dark.\u200b", "U+200B (ZERO WIDTH SPACE)"),
        ("Bake it dark:\n\tonce, then again.", ""),
    ],
)
def test_the_form_is_one_answer_and_nothing_else(text: str, stopped: str) -> None:
    found = list(gates.form(text, 100))
    assert {refusal.gate for refusal in found} <= {"format"}
    assert any(stopped in refusal.said for refusal in found) if stopped else not found


@given(st.integers(1, 120), st.integers(1, 120))
def test_the_band_is_the_same_from_either_side(one: int, other: int) -> None:
    first, second = " ".join(["a"] * one), " ".join(["b"] * other)
    shut = [bool(list(gates.length(*pair, band=1.25))) for pair in ((first, second), (second, first))]
    assert shut[0] == shut[1] == (4 * max(one, other) > 5 * min(one, other))


def test_what_is_said_of_a_length_can_be_met() -> None:
    [refusal] = gates.length("a " * 10, "b " * 75, band=1.25)
    assert refusal.said == "it has 10 words, wanted 60 to 93"
    for count in (60, 93):
        assert not list(gates.length("a " * count, "b " * 75, band=1.25))
    for count in (59, 94):
        assert list(gates.length("a " * count, "b " * 75, band=1.25))


@pytest.mark.parametrize(
    ("title", "answer", "question", "found"),
    [
        # three of the title's own words, in any order and with other endings
        ("Figures, with how much each one matters", "It matters: one figure, and how much of it.", "", ""),
        (
            "Several candidates, each with its drawback",
            "Two candidates, several drawbacks.",
            "",
            "several, candidates, drawback",
        ),
        # the question's words are anybody's
        ("Flour, oven and crust", "Mind flour, oven and crust.", "Which flour, oven and crust?", ""),
        # a run of four words, two of them of content
        (
            "With other people early, while it is still rough",
            "Do it with other people early.",
            "",
            "with other people early",
        ),
        ("With other people early, while it is still rough", "Do it while it is still dark.", "", ""),
        ("Warmth over correctness", "Choose warmth over correctness.", "", "warmth over correctness"),
        ("Warmth over correctness", "Correctness is less than warmth.", "", ""),
        ("By ear", "By ear, by ear, by ear.", "", ""),
    ],
)
def test_wording_leaks_where_it_is_the_title_s_own(title: str, answer: str, question: str, found: str) -> None:
    assert leaked(title, answer, question) == found


@given(st.text(), st.text(), st.text())
def test_what_leaks_stands_in_the_title(title: str, answer: str, question: str) -> None:
    found = leaked(title, answer, question)
    assert all(word in title.lower() for word in found.replace(",", " ").split())
    assert not (found and leaked(title, answer, f"{question} {title}"))


def test_a_passage_is_quoted_from_one_source() -> None:
    sources = ["The crust was pale, again!", "A colder oven; a paler crust."]
    assert gates.quoted("the crust was pale", sources)
    assert gates.quoted("“A colder oven - a PALER crust”", sources)
    assert not gates.quoted("was pale again a colder oven", sources)  # across two
    assert not gates.quoted("crust was pale", sources)  # three words
    assert not gates.quoted("he crust was pale", sources)  # from the middle of a word
    assert not gates.quoted("the crust pale again", sources)

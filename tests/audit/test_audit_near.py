"""Near-duplicates equal the comparison of everything with everything."""

import itertools
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.audit import near
from pluralrm.audit.near import (
    THRESHOLD,
    Texts,
    near_duplicates,
    numbered,
    repeated_answers,
    repeated_posts,
    repeated_prompts,
    repeats,
)
from pluralrm.core import Benchmark
from tests.audit.worlds import crossed
from tests.construct.worlds import changed, pairs, texts

TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=9).map(" ".join), max_size=25)


def sequences(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[place : place + 3]) for place in range(len(words) - 2)}


def likeness(one: str, other: str) -> float:
    both = sequences(one) | sequences(other)
    return len(sequences(one) & sequences(other)) / len(both) if both else 0.0


@given(TEXTS)
def test_the_pairs_are_those_of_comparing_all(given_texts: list[str]) -> None:
    found = near_duplicates(given_texts)
    pairs_found = dict(
        zip(zip(found.first.tolist(), found.second.tolist(), strict=True), found.similarity, strict=True)
    )
    every = {
        (one, other): value
        for one, other in itertools.combinations(range(len(given_texts)), 2)
        if (value := likeness(given_texts[one], given_texts[other])) >= THRESHOLD
    }
    assert found.complete
    assert pairs_found.keys() == every.keys()
    assert all(abs(pairs_found[pair] - value) < 1e-12 for pair, value in every.items())


@given(TEXTS)
def test_the_pairs_are_the_same_in_blocks_of_a_few_sequences(given_texts: list[str]) -> None:
    whole = near_duplicates(given_texts)
    with patch.multiple(near, _SEQUENCES=5, _SORTED=7, _BLOCK=3):
        parts = near_duplicates(given_texts)
    assert sorted(zip(whole.first, whole.second, whole.similarity, strict=True)) == sorted(
        zip(parts.first, parts.second, parts.similarity, strict=True)
    )


@given(TEXTS, st.data())
def test_repeats_are_told_apart_by_owner(given_texts: list[str], data: st.DataObject) -> None:
    size = len(given_texts)
    owners = data.draw(st.lists(st.sampled_from(["u1", "u2", "u3"]), min_size=size, max_size=size))
    found = repeats(numbered(given_texts), owners)
    for one in range(size):
        mine = [
            other
            for other in range(size)
            if other != one
            and given_texts[one].split()
            and (given_texts[one] == given_texts[other] or likeness(given_texts[one], given_texts[other]) >= THRESHOLD)
        ]
        assert found.within[one] == any(owners[other] == owners[one] for other in mine)
        assert found.across[one] == any(owners[other] != owners[one] for other in mine)
    if found.example is not None:
        one, other = found.example
        assert owners[one] != owners[other]


def test_texts_that_share_a_frame_with_hundreds_are_not_followed_and_it_is_said() -> None:
    frame = "please tell me in your own words how i should go about"
    given_texts = [f"{frame} number {number} of them all today" for number in range(200)]
    with patch.object(near, "WORK", 1_000):
        assert not near_duplicates(given_texts).complete
    assert near_duplicates(given_texts).complete


def test_marks_and_case_make_no_difference() -> None:
    found = repeats(numbered(["Is it dead?", "is it DEAD", "Is it alive?"]), ["u1", "u2", "u3"])
    assert found.across.tolist() == [True, True, False]


def test_a_prompt_asked_twice_by_different_users_is_found_and_named() -> None:
    bench = pairs(20)
    items = [*bench.items[:-1], changed(bench.items[-1], prompt=bench.items[0].prompt + " Thanks")]
    found = repeated_prompts(Benchmark(bench.card, tuple(items)))
    assert found.status == "warn"
    assert "'i00000' and 'i00019'" in found.found
    assert found.measures["across users"].value == 0.1  # type: ignore[union-attr]


def test_invented_texts_have_no_near_duplicates() -> None:
    found = near_duplicates(texts(np.random.default_rng(0), [40] * 300))
    assert len(found.first) == 0


def test_what_many_people_judge_is_no_repetition_of_itself() -> None:
    bench = crossed(0, people=8, prompts=12, each=6)
    for finding, count in ((repeated_prompts(bench), 12), (repeated_answers(bench), 48)):
        assert (finding.status, finding.found.split()[1]) == ("ok", str(count))
    item = bench.items[0]
    again = changed(
        item, id="again", prompt=f"{item.prompt} So.", candidates=tuple(f"{t} So." for t in item.candidates)
    )
    copied = Benchmark(bench.card, (*bench.items, changed(again, cluster="new", user=None)))
    assert repeated_prompts(copied).status == repeated_answers(copied).status == "warn"


def test_a_post_that_two_users_share_is_named_with_both() -> None:
    """Ids made of the text are equal: the users say whose post it is."""
    text = "My rosemary died of kindness on the window sill of the kitchen last winter."
    words = numbered([text, text, "A plum."])
    finding = repeated_posts(Texts(words, ["ann", "ben", "cleo"], ["post-1", "post-1", "post-2"]))
    assert "(such as 'post-1', of 'ann' and 'ben')" in finding.found
    finding = repeated_posts(Texts(words, ["ann", "ben", "cleo"], ["a-1", "b-1", "c-1"]))
    assert "(such as 'a-1' and 'b-1')" in finding.found

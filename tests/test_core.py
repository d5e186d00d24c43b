"""The nouns keep what their docstrings promise."""

import json
from collections import Counter
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm import load_benchmark
from pluralrm.card import LoadReport
from pluralrm.core import (
    FINAL_KINDS,
    OPEN_KINDS,
    Benchmark,
    ContextPair,
    Estimate,
    Failure,
    Post,
    User,
    Verdict,
    persons,
)
from pluralrm.digests import digest, digest_items, digest_list, item_content
from tests.builders import bakery

_json = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(_json))
def test_a_list_has_one_digest_however_it_is_hashed(values: list[object]) -> None:
    assert digest_list(iter(values)) == digest(values)


@given(st.floats(allow_nan=True, allow_infinity=True, width=32))
def test_a_score_is_finite_or_a_named_failure(number: float) -> None:
    [score] = Verdict((np.float32(number),)).scores  # type: ignore[arg-type]
    if np.isfinite(number):
        assert score == number
        assert type(score) is float
        json.dumps(score)
    else:
        assert score == Failure("nonfinite", str(float(number)))


@pytest.mark.parametrize("wrong", [True, "1", None, b"1", [1.0]])
def test_what_is_not_a_number_is_no_score(wrong: object) -> None:
    with pytest.raises(TypeError):
        Verdict((wrong,))  # type: ignore[arg-type]


def test_a_verdict_of_a_list_is_that_of_a_tuple() -> None:
    listed = Verdict([1.0, Failure("parse")]), Verdict([1.0, 0.5])  # type: ignore[arg-type]
    assert {*listed} == {Verdict((1.0, Failure("parse"))), Verdict((1.0, 0.5))}


def test_unknown_failures_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown failure kind 'tired'"):
        Verdict((Failure("tired"),))  # type: ignore[arg-type]
    for kind in FINAL_KINDS + OPEN_KINDS:
        assert Verdict.failed(kind, "", 3).failures == [Failure(kind)] * 3  # type: ignore[arg-type]


def test_any_change_of_content_changes_the_hash() -> None:
    bench = bakery(6)
    first, *rest = bench.items
    changes: list[dict[str, object]] = [
        {"prompt": "?"},
        {"preferred": 1 - (first.preferred or 0)},
        {"candidates": first.candidates[::-1]},
        {"cluster": "other"},
        {"domain": "Pie"},
        {"tags": {}},
        {"user": None},
        {"oracle": None},
        {"candidate_ids": ("a", "b")},
        {"prompt_id": "p7"},
    ]
    hashes = {Benchmark(bench.card, (replace(first, **change), *rest)).content_hash for change in changes}  # type: ignore[arg-type]
    assert len(hashes | {bench.content_hash}) == len(changes) + 1
    assert Benchmark(bench.card, bench.items).content_hash == bench.content_hash


def test_the_hash_is_that_of_all_items_spelled_out_however_people_come_back() -> None:
    """More people than are kept spelled out, each with several objects of their own; items without one too."""
    items = [
        replace(item, id=f"{item.id}-{turn}", user=item.user if turn < 2 else None if turn == 3 else replace(item.user))
        for turn in range(4)
        for item in bakery(150).items
        if item.user is not None
    ]
    bench = Benchmark(bakery(1).card, tuple(items))
    assert bench.content_hash == digest_list(map(item_content, items))
    assert Benchmark(bench.card, tuple(items[:-1])).content_hash != bench.content_hash


_odd = st.text(st.characters(codec=None) | st.sampled_from('"\\/\x00\x1f\x7f\u2028\ud800\udfff'), max_size=8)


@given(_odd, st.dictionaries(_odd, _odd, max_size=3), st.sampled_from([(), (0.5, 1e-7), (1e16, 2.0)]))
def test_the_hash_spells_every_text_as_it_always_did(
    text: str, tags: dict[str, str], grades: tuple[float, ...]
) -> None:
    first, second = bakery(2).items
    label: dict[str, Any] = {"preferred": None, "grades": grades} if grades else {}
    person = User(text, (Post("p", text, text),), traits=tags)
    items = (
        replace(first, id="a", prompt=text, candidates=(text, "b"), tags=tags, user=None, **label),
        replace(second, id=f"{text}b", domain=text, tags=tags, user=person, prompt_id=text, **label),
    )
    assert digest_items(items) == digest([item_content(item) for item in items])


def test_a_prompt_goes_by_its_id_or_by_its_text() -> None:
    first, second, *_ = bakery(6).items
    alike = replace(second, prompt=first.prompt)
    assert first.crossed == alike.crossed != second.crossed
    assert replace(first, prompt_id="p7").crossed == replace(second, prompt_id="p7").crossed == "p7"


def test_the_hash_of_a_benchmark_whose_source_names_no_prompts_stays_what_it_was() -> None:
    assert bakery(6).content_hash == "5bf87d1102c98ce29ccd4a537c74285aaf58e50bb70e16c45f6885fb6f4d550e"


def test_select_takes_whole_clusters_in_turn_from_each_domain() -> None:
    bench = bakery(31)
    assert bench.select() == list(bench.items)
    for limit in range(1, 33):
        counts = Counter(item.domain for item in bench.select(limit=limit))
        assert sum(counts.values()) == min(limit, 31)
        assert max(counts.values()) - min(counts.get(domain, 0) for domain in bench.domains) <= 1
    assert {item.domain for item in bench.select(domains=["Cake"])} == {"Cake"}
    shared = Benchmark(
        bench.card, tuple(replace(item, cluster=f"c{n // 4}", domain="Pie") for n, item in enumerate(bench.items))
    )
    assert [item.cluster for item in shared.select(limit=2)] == ["c0"] * 4 + ["c1"] * 4


def test_nouns_are_frozen_and_an_estimate_reads_as_a_sentence() -> None:
    estimate = Estimate(0.5, 0.4, 0.6, 10, 1, "mean")
    with pytest.raises(FrozenInstanceError):
        estimate.value = 1.0  # type: ignore[misc]
    assert str(estimate) == "0.500 [0.400, 0.600] (n = 10, 1 failed; mean)"
    assert str(Estimate(0.5, None, None, 10, 0, "fixed by design")) == "0.500 (n = 10; fixed by design)"


def test_a_post_without_a_date_hashes_as_it_did_before_posts_had_dates() -> None:
    assert load_benchmark("pocket-prb").content_hash.startswith("f5eace35a7a1f7f2")
    item = bakery(1).items[0]
    assert item.user is not None
    dated = replace(item, user=replace(item.user, posts=(replace(item.user.posts[0], date="2024-05-01"),)))
    undated = replace(item, user=replace(item.user, posts=item.user.posts[:1]))
    hashes = {Benchmark(bakery(1).card, (one,)).content_hash for one in (dated, undated)}
    assert len(hashes) == 2


def test_a_person_is_what_all_their_questions_show_or_what_stands_with_each() -> None:
    base = bakery(3).items
    pairs = [ContextPair(f"c{n}", f"Which {n}?", "Rye.", "Oat.") for n in range(3)]
    posts = [Post(f"p{n}", f"Loaf {n}.") for n in range(4)]
    stands = [
        User("u", tuple(posts[:2]), tuple(pairs[:1])),
        User("u", (posts[3], *posts[:2]), tuple(pairs)),
        User("u", tuple(posts[:1]), tuple(pairs[:2])),
    ]
    items = tuple(replace(item, user=user, cluster="u") for item, user in zip(base, stands, strict=True))
    bench = Benchmark(bakery(3).card, items)
    assert bench.users == [User("u", (posts[0], posts[1], posts[3]), tuple(pairs))]
    assert bench.users_before == [User("u", (posts[0],), (pairs[0],))]
    same = Benchmark(bench.card, tuple(replace(item, user=stands[0]) for item in items))
    assert same.users == same.users_before == [stands[0]]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(" uvwxy")), max_size=14))
def test_clusters_that_have_a_user_in_common_are_one_person(rows: list[tuple[str, str]]) -> None:
    """Against the closure of "shares a user", computed over and over until nothing changes."""
    base = bakery(1).items[0]
    items = [
        replace(base, id=str(n), cluster=cluster, user=None if user == " " else User(user))
        for n, (cluster, user) in enumerate(rows)
    ]
    who = persons(items)
    same = {cluster: {cluster} for cluster, _ in rows}
    for _ in rows:
        for one, first in rows:
            for other, second in rows:
                if first == second != " " or one == other:
                    same[one] |= same[other]
                    same[other] |= same[one]
    assert {(a, b) for a in who for b in who if who[a] == who[b]} == {(a, b) for a in same for b in same[a]}


def test_a_load_says_all_that_it_did() -> None:
    load = LoadReport(
        9, {"text": 2}, {"posts": 30}, {"posts": {"blank": 3}}, {"posts": 1}, {"long": 4}, {"date": 5}, ("x",)
    )
    assert str(load) == (
        "7 of 9 rows; 2 bad skipped (text 2). 27 of 30 posts; 3 blank dropped. id used twice, kept under a new one: "
        "posts 1. kept as they are: long 4. missing, left empty: date 5. unknown columns ignored: x"
    )
    assert str(LoadReport(9, read={"posts": 30})) == ""
    assert str(LoadReport(ignored=tuple(map(str, range(14))))).endswith("10, 11 and 2 more")

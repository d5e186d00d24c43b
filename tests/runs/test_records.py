"""What a line of a run's files says, and how a query is hashed."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import ContextPair, Exchange, Post, Query, UserView, Verdict
from pluralrm.digests import digest
from pluralrm.runs.records import exchange_line, input_line, query_hash, query_record

# Every code point, lone surrogates and line separators among them; what JSON has to escape more often than by chance.
_TEXTS = st.text(st.one_of(st.characters(codec=None), st.sampled_from('\x00\x1f\x7f"\\/\u2028\ud800é\n')), max_size=12)
_POSTS = st.builds(Post, _TEXTS, _TEXTS, _TEXTS)
_PAIRS = st.builds(ContextPair, _TEXTS, _TEXTS, _TEXTS, _TEXTS)
_USERS = st.builds(UserView, _TEXTS, st.tuples(_POSTS), st.tuples(_PAIRS))
_QUERIES = st.builds(Query, _TEXTS, _TEXTS, st.tuples(_TEXTS, _TEXTS), st.none() | _USERS, st.tuples(_TEXTS))


@given(_QUERIES)
def test_the_hash_of_a_query_is_the_digest_of_its_record(query: Query) -> None:
    assert query_hash(query) == digest(query_record(query))


@given(_QUERIES, _TEXTS)
def test_whatever_is_in_a_text_a_line_is_one_line_of_ascii_and_reads_back(query: Query, said: str) -> None:
    exchanged = Verdict((1.0,), exchanges=(Exchange(query.prompt, said),))
    for line, wanted in (
        (input_line(query), json.loads(json.dumps(query_record(query)))),
        (exchange_line(query.id, exchanged), {"item": query.id, "exchanges": [{"sent": query.prompt, "said": said}]}),
    ):
        assert line.isascii()
        assert line.splitlines() == [line.removesuffix("\n")]
        assert json.loads(line) == wanted


def test_the_hash_of_a_query_stays_what_it_was() -> None:
    query = Query("q1", "Which flour?", ("Rye.", "Spelt."), UserView("u1", (Post("p1", "Flat bread.", "baking"),)))
    assert query_hash(query) == "88c0af3f403617fe8778cee6b33e01655b78cc489da3b53fec17150ed49515ce"
    assert query_hash(replace(query, prompt="Which pan?")) != query_hash(query)

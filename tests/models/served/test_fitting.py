"""Posts are dropped as the local path drops them, whoever counts: compared with it, and with trying every number."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure, Post, Query, UserView
from pluralrm.models.neural.prompts import Assembled, Conversation, Encoded, _fitted
from pluralrm.models.served.speech import Count, FittedQuery, Room, SentConversation, Speech, fitted
from pluralrm.templates import Template, load_template

SPEECH = Speech(Template("posts", "{% for post in query.user.posts %}{{ post.text }} {% endfor %}{{ query.prompt }}"))
queries = st.builds(
    lambda posts, answers: Query(
        "q", "Why?", tuple(answers), UserView("u", tuple(Post(str(n), "p" * size) for n, size in enumerate(posts)))
    ),
    st.lists(st.integers(0, 30), max_size=7),
    st.lists(st.integers(0, 60).map(lambda size: "a" * size), min_size=1, max_size=3),
)


def _length(spoken: SentConversation) -> int:
    """Return a length that is no number of bytes: every conversation has one token for two letters, and four more."""
    return sum(len(message.content) for message in spoken.messages) // 2 + 4


def _count(conversations: Sequence[SentConversation]) -> Iterator[Count]:
    return map(_length, conversations)


def _locally(query: Query, limit: int) -> Assembled:
    def encode(conversations: Sequence[Conversation]) -> list[Encoded]:
        return [Encoded(tuple(range(_length(SentConversation(tuple(turns))))), 0, 0) for turns in conversations]

    def speak(asked: Query) -> list[Conversation]:
        return [SPEECH.template.conversation(asked, place) for place in range(len(asked.candidates))]

    return _fitted(query, speak, encode, limit)


@given(query=queries, limit=st.integers(1, 120))
def test_as_many_posts_are_kept_as_the_local_path_keeps(query: Query, limit: int) -> None:
    [found] = fitted([query], SPEECH.of, Room(limit), _count)
    wanted = _locally(query, limit)
    assert found.posts_kept == wanted.posts_kept
    for sent, local in zip(found.sent, wanted.sequences, strict=True):
        if isinstance(local, Failure):
            assert sent == local
        else:
            assert isinstance(sent, SentConversation)
            assert _length(sent) == len(local.ids)


@given(query=queries, limit=st.integers(1, 120))
def test_no_other_number_of_posts_would_have_been_better(query: Query, limit: int) -> None:
    [found] = fitted([query], SPEECH.of, Room(limit), _count)
    assert query.user is not None

    def lengths(kept: int) -> list[int]:
        view = UserView("u", query.user.posts[:kept]) if query.user else None
        return [_length(one) for one in SPEECH.of(replace(query, user=view))]

    can = [length <= limit for length in lengths(0)]
    fitting = [
        kept
        for kept in range(len(query.user.posts) + 1)
        if all(length <= limit for length, able in zip(lengths(kept), can, strict=True) if able)
    ]
    assert found.posts_kept == (max(fitting) if any(can) else 0)
    assert [isinstance(one, SentConversation) for one in found.sent] == can


@given(several=st.lists(queries, max_size=5), limit=st.integers(1, 120))
def test_company_changes_nothing(several: list[Query], limit: int) -> None:
    def fit(some: Sequence[Query]) -> list[FittedQuery]:
        return list(fitted(some, SPEECH.of, Room(limit), _count))

    assert fit(several * 12) == [fit([query])[0] for query in several] * 12


def test_what_surely_fits_is_not_counted() -> None:
    def refuse(_: Sequence[SentConversation]) -> list[Count]:
        raise AssertionError

    query = Query("q", "Why?", ("é" * 10,), UserView("u", (Post("p", "x" * 10),)))
    speech = Speech(load_template())
    [spoken] = speech.of(query)
    size = sum(len(message.content.encode()) for message in spoken.messages)
    [found] = fitted([query], speech.of, Room(size + 5, spare=5), refuse)
    assert found.sent == (spoken,)
    [counted] = fitted([query], speech.of, Room(size + 4, spare=5), _count)
    assert counted.counts == (_length(spoken),)


def test_a_length_that_cannot_be_had_fails_all_candidates_alike() -> None:
    query = Query("q", "Why?", ("a", "b" * 40), UserView("u", (Post("p", "x" * 40),)))
    lost = Failure("transport", "no answer")

    def count(conversations: Sequence[SentConversation]) -> list[Count]:
        return [lost if "b" in one.messages[1].content else _length(one) for one in conversations]

    [found] = fitted([query], SPEECH.of, Room(20), count)
    assert found.sent == (lost, lost)

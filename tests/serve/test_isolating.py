"""A query on which the model raises costs its own request alone, and a bounded number of calls."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Query, Score, Verdict
from pluralrm.errors import ModelError, OutageError, PluralrmError
from pluralrm.serve.batching import scored
from tests.serve.running import asked, running, together
from tests.serve.test_server import about, server_of


@dataclass
class Picky:
    """Scores by length; raises when a text that it cannot bear is anywhere in what it is handed."""

    spec: str = "picky"
    problem: PluralrmError = field(default_factory=lambda: ModelError("picky: no template for this"))
    eager: bool = True
    """Raises before the first verdict, as a model does that works through a window in its own order."""
    calls: list[int] = field(default_factory=list)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        window = list(queries)
        self.calls.append(len(window))
        if self.eager:
            self._look(window)
        for query in window:
            self._look([query])
            yield Verdict(tuple(float(len(text)) for text in query.candidates))

    def _look(self, window: Sequence[Query]) -> None:
        if any(text.startswith("boom") for query in window for text in query.candidates):
            raise self.problem


def alone(query: Query) -> tuple[Score, ...] | str:
    """What becomes of a query that is asked by itself, worked out without the model."""
    broken = any(text.startswith("boom") for text in query.candidates)
    return "broken" if broken else tuple(float(len(text)) for text in query.candidates)


def told(answers: Sequence[tuple[Score, ...] | PluralrmError]) -> list[tuple[Score, ...] | str]:
    return ["broken" if isinstance(answer, PluralrmError) else answer for answer in answers]


WORDS = st.sampled_from(["a", "bb", "ccc", "boom", "boomer", ""])
QUERIES = st.lists(
    st.builds(
        Query, st.sampled_from("pq"), st.sampled_from(["Which flour?", "Which oven?"]), st.lists(WORDS).map(tuple)
    ),
    max_size=30,
)


@given(queries=QUERIES, eager=st.booleans(), relative=st.booleans())
def test_every_query_gets_what_it_would_get_alone(queries: list[Query], eager: bool, relative: bool) -> None:
    assert told(scored(Picky(eager=eager), queries, relative=relative).answers) == [alone(one) for one in queries]


@given(size=st.integers(1, 1024), data=st.data())
def test_the_calls_for_some_broken_queries_grow_with_the_logarithm_of_the_batch(size: int, data: st.DataObject) -> None:
    broken = data.draw(st.sets(st.integers(0, size - 1), max_size=4))
    queries = [Query("q", f"Q{place}?", ("boom" if place in broken else "rye",)) for place in range(size)]
    model = Picky()
    found = scored(model, queries, relative=False)
    assert found.broken == len(broken)
    assert found.calls == len(model.calls) <= 1 + 2 * len(broken) * math.ceil(math.log2(max(2, size)))
    assert sum(model.calls) <= size * (1 + math.ceil(math.log2(max(2, size))))


def test_where_all_of_a_large_batch_breaks_the_calls_are_bounded() -> None:
    model = Picky()
    found = scored(model, [Query("q", f"Q{place}?", ("boom",)) for place in range(1024)], relative=False)
    assert (found.broken, found.queries) == (1024, 0)
    assert len(model.calls) <= 256


def test_an_outage_is_not_asked_again_for_every_query() -> None:
    model = Picky(problem=OutageError("the judge is down"))
    found = scored(model, [Query("q", f"Q{place}?", ("rye", "boom")) for place in range(64)], relative=False)
    assert len(model.calls) == 1
    assert {type(answer) for answer in found.answers} == {OutageError}


def test_an_outage_in_the_middle_of_the_search_ends_it() -> None:
    @dataclass
    class Falls(Picky):
        def _look(self, window: Sequence[Query]) -> None:
            if len(self.calls) > 2:
                raise OutageError("the judge is down")
            super()._look(window)

    model = Falls()
    queries = [Query("q", f"Q{place}?", ("boom" if place == 7 else "rye",)) for place in range(8)]
    found = scored(model, queries, relative=False)
    assert len(model.calls) == 3
    assert told(found.answers) == [(3.0,)] * 4 + ["broken"] * 4
    assert {type(answer) for answer in found.answers[4:]} == {OutageError}


def test_requests_beside_a_broken_one_have_their_scores_and_it_is_counted() -> None:
    """Of the same prompt too, so that the broken one was merged with others."""
    texts = ["rye", "spelt", "boom", "wheat", "oat", "a", "bb", "ccc"]
    with running(server_of(Picky())) as url:
        found = together([partial(asked, url, "/score", about("Which flour?", text)) for text in texts])
        counted = asked(url, "/metrics", None)[1]
    assert [status for status, _, _ in found] == [500 if text == "boom" else 200 for text in texts]
    assert [told["scores"] for status, told, _ in found if status == 200] == [
        [[float(len(text))]] for text in texts if text != "boom"
    ]
    [broken] = [told["error"] for status, told, _ in found if status != 200]
    assert broken == {"type": "model", "message": "picky: no template for this", "retry": False}
    assert "pluralrm_broken_queries_total 1\n" in counted
    assert "pluralrm_candidates_total 7\n" in counted


def test_a_request_of_which_one_rollout_breaks_gets_an_error_and_no_number() -> None:
    body = {"rollouts": [{"prompt": "Q?", "candidates": [text]} for text in ("rye", "boom", "oat")]}
    with running(server_of(Picky())) as url:
        status, told, _ = asked(url, "/score", body)
    assert (status, told["error"]["type"]) == (500, "model")


def test_a_model_that_compares_is_asked_each_query_as_it_came() -> None:
    @dataclass
    class Shares(Picky):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            window = list(queries)
            self._look(window)
            for query in window:
                yield Verdict(tuple(len(text) / len(query.candidates) for text in query.candidates))

    queries = [Query("q", "Q?", ("a", "bb")), Query("q", "Q?", ("boom", "a")), Query("q", "Q?", ("ccc", "a", "bb"))]
    found = scored(Shares(), queries, relative=True)
    assert told(found.answers) == [(0.5, 1.0), "broken", (1.0, 1 / 3, 2 / 3)]

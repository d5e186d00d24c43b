"""A query that is not whole fails where it stands: nobody is asked about it, and no neighbour moves."""

from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.conditions.posts import PreparedQuery
from pluralrm.core import Exchange, Failure, Query, Verdict
from pluralrm.runs.verdicts import answered, windows


class _Asked:
    """Scores by the query's number, a window at a time as every scorer does, and keeps what it was asked."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.ids: list[str] = []

    def verdicts(self, queries: Iterable[Query]) -> Iterator[tuple[Query, Verdict]]:
        for window in windows(queries, self.window):
            for query in window:
                self.ids.append(query.id)
                yield query, Verdict((float(query.id), 0.0), exchanges=(Exchange("asked", query.id),))


@given(st.lists(st.sampled_from(["whole", "parse", "transport"]), max_size=30), st.integers(1, 8))
def test_each_query_gets_its_own_verdict_in_order(moods: list[str], window: int) -> None:
    scorer = _Asked(window)
    found = list(answered(scorer.verdicts, (_made(place, mood) for place, mood in enumerate(moods))))
    assert [query.id for query, _ in found] == [str(place) for place in range(len(moods))]
    assert scorer.ids == [str(place) for place, mood in enumerate(moods) if mood == "whole"]
    for place, (mood, (_, verdict)) in enumerate(zip(moods, found, strict=True)):
        said = [exchange.said for exchange in verdict.exchanges]
        if mood == "whole":
            assert (verdict.scores, said) == ((float(place), 0.0), [f"note {place}", str(place)])
        else:
            assert ([failure.kind for failure in verdict.failures], said) == ([mood, mood], [f"note {place}"])


def _made(place: int, mood: str) -> PreparedQuery:
    failure = None if mood == "whole" else Failure(mood, "as told")  # type: ignore[arg-type]
    return PreparedQuery(Query(str(place), "?", ("Rye.", "Spelt.")), failure, (Exchange("write", f"note {place}"),))

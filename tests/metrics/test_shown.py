"""Models that read different amounts of the user are told apart from models that judge differently."""

from dataclasses import dataclass

import pytest

from pluralrm.core import Query, Verdict
from pluralrm.metrics import uneven_posts
from pluralrm.runs import score
from tests.builders import bakery


@dataclass(frozen=True)
class Reader:
    """A model whose input holds so many posts of a user, and no more."""

    spec: str
    holds: int

    def score(self, queries):
        for query in queries:
            yield Verdict(tuple(map(float, map(len, query.candidates))), posts_kept=min(self.holds, posts_of(query)))


def posts_of(query: Query) -> int:
    return len(query.user.posts) if query.user else 0


@pytest.fixture
def run(tmp_path):
    return lambda reader, condition: score(bakery(6, posts=4), reader, condition, out=tmp_path)


def test_models_that_saw_the_same_are_not_warned_about(run):
    assert uneven_posts([run(Reader("long", 9), "recent:3"), run(Reader("also", 3), "recent:3")]) == []


def test_a_model_that_had_to_drop_posts_is_named_with_what_it_saw(run):
    [found] = uneven_posts([run(Reader("long", 9), "recent:3"), run(Reader("short", 1), "recent:3")])
    assert (found.condition, found.items, found.of) == ("recent:3", 6, 6)
    assert found.mean_posts == (("short", 1.0), ("long", 3.0))
    assert "--max-prompt-tokens N" in str(found)
    assert "(mean: short 1.0, long 3.0)" in str(found)


def test_models_that_saw_as_many_are_counted_together(run):
    readers = [Reader("long", 9), Reader("also", 3), Reader("short", 1)]
    [found] = uneven_posts([run(reader, "recent:3") for reader in readers])
    assert "(mean: short 1.0, the others 3.0)" in str(found)
    assert dict(found.mean_posts)["also"] == 3.0


def test_conditions_are_not_compared_with_each_other(run):
    assert uneven_posts([run(Reader("long", 9), "recent:3"), run(Reader("long", 9), "recent:1")]) == []

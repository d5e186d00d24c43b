"""How good a scorer can be on a simulated benchmark, exactly: the expectation over choices, given what it may know.

>>> from pluralrm.benchmarks.simulated import load
>>> from pluralrm.specs import Spec
>>> best = ceilings(load(Spec("simulated"), seed=0))
>>> best.nothing_known < best.posts_known < best.taste_known
True

The expectation is over the choices of the users whose tastes, posts and answers are in the benchmark, so that a
scorer's accuracy on it differs from its ceiling by the luck of the draw alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from pluralrm.benchmarks.simulated.scorers import Knowing, scorer
from pluralrm.core import Benchmark, Failure, Query, UserView
from pluralrm.errors import BenchmarkError


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The expected accuracy of the best scorer that knows the taste, the posts, or nothing of the user."""

    taste_known: float
    posts_known: float
    nothing_known: float


def ceilings(benchmark: Benchmark, *, posts: int | None = None) -> Ceilings:
    """Return the three ceilings; with `posts`, the middle one is for the first so many posts of each user."""
    return Ceilings(
        taste_known=fmean(attainable(benchmark, "taste")),
        posts_known=fmean(attainable(benchmark, "posts", posts=posts)),
        nothing_known=fmean(attainable(benchmark, "nothing")),
    )


def attainable(benchmark: Benchmark, knowing: Knowing, *, posts: int | None = None) -> list[float]:
    """Return for each item the best attainable probability of being right; its mean is the ceiling."""
    return [max(each) for each in choice_table(benchmark, knowing, posts=posts)]


def choice_table(benchmark: Benchmark, knowing: Knowing, *, posts: int | None = None) -> list[tuple[float, ...]]:
    """Return for each item the probability with which each candidate is the preferred one, given what is known.

    With the taste known this is the law of the labels: the expected credit of any scorer follows from it.
    """
    table = []
    verdicts = scorer(benchmark, knowing).score(_queries(benchmark, posts))
    for item, verdict in zip(benchmark.items, verdicts, strict=True):
        if verdict.failures:
            raise BenchmarkError(f"item {item.id!r}: {verdict.failures[0].detail}")
        table.append(tuple(score for score in verdict.scores if not isinstance(score, Failure)))
    return table


def _queries(benchmark: Benchmark, posts: int | None) -> Iterator[Query]:
    for item in benchmark.items:
        user = None if item.user is None else UserView(item.user.id, item.user.posts[:posts])
        yield Query(item.id, item.prompt, item.candidates, user)

"""The three plug-in scorers, each the best that is possible with what it may know. They read texts, as any model does.

A score is the probability that the candidate is the preferred one, given the taste, the posts or nothing. Putting the
most probable candidate on top is right most often, whoever else scores: no scorer with the same knowledge is better.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from pluralrm.benchmarks.simulated import beliefs, settings_of
from pluralrm.benchmarks.simulated.population import named_person
from pluralrm.benchmarks.simulated.settings import Settings
from pluralrm.benchmarks.simulated.tastes import Taste, choice_chances, share_met, utility
from pluralrm.benchmarks.simulated.texts import Levels, Signal, read_answer, read_post, texts_hash
from pluralrm.core import Benchmark, Failure, Query, Reveals, Verdict

Knowing = Literal["taste", "posts", "nothing"]

Rule = Callable[[Query, Sequence[Levels]], Sequence[float] | Failure]

Worth = Callable[[Query, Levels], float]
"""What one answer gives who asks, on the scale of the grader `truth`, whatever else is answered."""

Believer = Callable[[Query], beliefs.Belief]

DIGITS = 9
"""Scores are rounded, so that the last bits, which differ between BLAS builds, cannot break a tie."""


TOLD: Mapping[Knowing, frozenset[Reveals]] = {
    "taste": frozenset({"oracle"}),  # the rubric of a simulated user is the taste in words
    "posts": frozenset(),
    "nothing": frozenset(),
}
"""What each knows of a user that no condition has to show it."""


@dataclass(frozen=True)
class Scorer:
    """A reward model that reads the levels of each answer and applies a rule to them."""

    spec: str
    identity: Mapping[str, str]
    rule: Rule
    reveals: frozenset[Reveals] = frozenset()

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query; a candidate that is no simulated answer fails the query as `unsupported`."""
        for query in queries:
            found = self._chances(query)
            if isinstance(found, Failure):
                yield Verdict.failed(*found, len(query.candidates))
            else:
                yield Verdict(tuple(round(chance, DIGITS) for chance in found))

    def _chances(self, query: Query) -> Sequence[float] | Failure:
        answers = []
        for place, candidate in enumerate(query.candidates):
            levels = read_answer(candidate)
            if levels is None:
                return Failure("unsupported", f"candidate {place} is not an answer of the simulated benchmark")
            answers.append(levels)
        return self.rule(query, answers)


def scorer(benchmark: Benchmark, knowing: Knowing) -> Scorer:
    """Return the best scorer with this knowledge on a simulated benchmark."""
    return {"taste": taste_known, "posts": posts_known, "nothing": nothing_known}[knowing](benchmark)


def taste_known(benchmark: Benchmark) -> Scorer:
    """Return the scorer that looks the asker's true taste up by the query's id; an unknown id is `unsupported`."""
    settings = settings_of(benchmark)
    tastes = {item.id: named_person(item.cluster, settings).taste for item in benchmark.items}

    def rule(query: Query, answers: Sequence[Levels]) -> Sequence[float] | Failure:
        taste = tastes.get(query.id)
        if taste is None:
            return Failure("unsupported", f"no item {query.id!r} in this simulated benchmark")
        return _chosen(taste, answers, settings)

    return replace(_scorer("taste", settings, rule), reveals=TOLD["taste"])


def posts_known(benchmark: Benchmark) -> Scorer:
    """Return exact Bayes on the posts that the query shows, whosever they are; without posts it has the prior."""
    settings = settings_of(benchmark)
    return _scorer("posts", settings, rule_of("posts", settings))


def nothing_known(benchmark: Benchmark) -> Scorer:
    """Return exact Bayes without any post: the prior's own preference among the answers."""
    settings = settings_of(benchmark)
    return _scorer("nothing", settings, rule_of("nothing", settings))


def rule_of(knowing: Knowing, settings: Settings) -> Rule:
    """Return the rule by itself, for queries of the world of these settings: a taste is that of the id's user."""
    if knowing == "taste":
        return lambda query, answers: _chosen(_asked_by(query, settings), answers, settings)
    known, believed = _world(settings), _believer(knowing, settings)
    return lambda query, answers: beliefs.chances(known, believed(query), answers)


def worth_of(knowing: Knowing, settings: Settings) -> Worth:
    """Return what is expected of one answer, for queries of the world of these settings: a taste is the id's user's.

    It is the share of the wants, by weight, that the answer meets; the expectation is over what is known of the taste.
    """
    if knowing == "taste":
        return lambda query, answer: share_met(_asked_by(query, settings), answer)
    known, believed = _world(settings), _believer(knowing, settings)
    return lambda query, answer: beliefs.worth(known, believed(query), answer)


def _asked_by(query: Query, settings: Settings) -> Taste:
    return named_person(query.id.partition("-")[0], settings).taste


def _chosen(taste: Taste, answers: Sequence[Levels], settings: Settings) -> list[float]:
    return choice_chances([utility(taste, answer) for answer in answers], settings.sharpness)


def _scorer(knowing: Knowing, settings: Settings, rule: Rule) -> Scorer:
    return Scorer(f"simulated-{knowing}-known", {"world": str(settings), "texts": texts_hash()}, rule)


def _spoken(query: Query) -> tuple[Signal, ...]:
    posts = () if query.user is None else query.user.posts
    return tuple(signal for post in posts for signal in read_post(post.text))


def _world(settings: Settings) -> beliefs.World:
    return beliefs.world(settings.cares, settings.noise, settings.sharpness, settings.crowd)


def _believer(knowing: Knowing, settings: Settings) -> Believer:
    """Return what makes of a query how probable each taste is: by its posts, or by nothing."""
    known = _world(settings)

    @lru_cache(maxsize=64)  # the items of one user follow each other
    def believed(heard: tuple[Signal, ...]) -> beliefs.Belief:
        return beliefs.belief(known, heard)

    return lambda query: believed(_spoken(query) if knowing == "posts" else ())

"""The three plug-in scorers, each the best that is possible with what it may know. They read texts, as any model does.

A score is the probability that the candidate is the preferred one, given the taste, the posts or nothing. Putting the
most probable candidate on top is right most often: no scorer with the same knowledge is better.
What it earns is the ceiling of all others, exactly: the expectation is over the choices of the users whose tastes,
posts and answers are in the benchmark, so a scorer's accuracy differs from its ceiling by the luck of the draw alone.

>>> from pluralrm.benchmarks.simulated import load
>>> from pluralrm.specs import Spec
>>> best = ceilings(load(Spec("simulated"), seed=0))
>>> best.nothing_known < best.posts_known < best.taste_known
True
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pluralrm.benchmarks.simulated import named_person, settings_of
from pluralrm.benchmarks.simulated.tastes import (
    SimulationSettings,
    Taste,
    choice_chances,
    every_taste,
    share_met,
    signals,
    utility,
)
from pluralrm.benchmarks.simulated.texts import (
    Levels,
    Signal,
    longest,
    read_answer,
    read_answer_to,
    read_post,
    texts_hash,
)
from pluralrm.core import Benchmark, Failure, Query, Reveals, UserView, Verdict
from pluralrm.errors import BenchmarkError

Belief = npt.NDArray[np.float64]
"""The probability of each possible taste, in the order of the world's arrays."""

IMPOSSIBLE = 1e-300
"""Stands for probability 0 in a logarithm: where no taste fits all posts (noise=0), those that fit most are left."""


class World(NamedTuple):
    """Arrays over the possible tastes, and the sharpness of a choice."""

    prior: Belief
    weights: npt.NDArray[np.int8]
    """(signals, tastes): what an answer of this level gains under this taste."""
    speaks: npt.NDArray[np.float64]
    """(signals, tastes): log-probability that a post which is no chatter speaks for this level."""
    places: dict[Signal, int]
    sharpness: float


@lru_cache(maxsize=8)
def world(cares: int, noise: float, sharpness: float, crowd: float) -> World:
    """Return the enumerated world of these settings; no other setting touches what can be known."""
    settings = SimulationSettings(cares=cares, noise=noise, sharpness=sharpness, crowd=crowd)
    heard = signals()
    places = {signal: index for index, signal in enumerate(heard)}
    tastes, prior = zip(*(each for each in every_taste(settings) if each[1] > 0), strict=True)
    weights = np.zeros((len(heard), len(tastes)), np.int8)
    for number, taste in enumerate(tastes):
        for want in taste:
            weights[places[Signal(want.attribute, want.level)], number] = want.weight
    spoken = (1 - noise) * weights / weights.sum(axis=0, dtype=float) + noise / len(heard)
    return World(np.array(prior), weights, np.log(np.maximum(spoken, IMPOSSIBLE)), places, sharpness)


def belief(world: World, spoken: Iterable[Signal]) -> Belief:
    """Return the posterior over tastes given what the posts speak for; with no posts, the prior.

    Chatter is as likely under every taste, so it drops out of Bayes' rule.
    """
    logs = np.zeros(world.prior.shape)
    for signal, count in sorted(Counter(spoken).items()):
        logs += count * world.speaks[world.places[signal]]
    masses = world.prior * np.exp(logs - logs.max())
    posterior: Belief = masses / masses.sum()
    return posterior


def worth(world: World, believed: Belief, answer: Levels) -> float:
    """Return the share of the wants, by weight, that an answer is expected to meet, over all tastes believed in."""
    met = world.weights[[world.places[Signal(*each)] for each in answer.items()]].sum(axis=0, dtype=float)
    return float(met / world.weights.sum(axis=0, dtype=float) @ believed)


def chances(world: World, believed: Belief, answers: Sequence[Levels]) -> list[float]:
    """Return the probability with which each answer is chosen, over all tastes believed in."""
    rows = [[world.places[Signal(*each)] for each in answer.items()] for answer in answers]
    utilities = np.stack([world.weights[row].sum(axis=0, dtype=np.int8) for row in rows])  # (answers, tastes)
    odds = np.exp(world.sharpness * (utilities - utilities.max(axis=0)))
    return [float(value) for value in (odds / odds.sum(axis=0)) @ believed]


Knowing = Literal["taste", "posts", "nothing"]

Rule = Callable[[Query, Sequence[Levels]], Sequence[float] | Failure]

Worth = Callable[[Query, Levels], float]
"""What one answer gives who asks, on the scale of the grader `truth`, whatever else is answered."""

Believer = Callable[[Query], Belief]

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
            outcome = self._chances(query)
            if isinstance(outcome, Failure):
                yield Verdict.failed(*outcome, len(query.candidates))
            else:
                yield Verdict(tuple(round(chance, DIGITS) for chance in outcome))

    def _chances(self, query: Query) -> Sequence[float] | Failure:
        answers = []
        for index, candidate in enumerate(query.candidates):
            levels = read_answer(candidate)
            if levels is None:
                return Failure("unsupported", f"candidate {index} is not an answer of the simulated benchmark")
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


def rule_of(knowing: Knowing, settings: SimulationSettings) -> Rule:
    """Return the rule by itself, for queries of the world of these settings: a taste is that of the id's user."""
    if knowing == "taste":
        return lambda query, answers: _chosen(_asked_by(query, settings), answers, settings)
    world, believed = _world(settings), _believer(knowing, settings)
    return lambda query, answers: chances(world, believed(query), answers)


def worth_of(knowing: Knowing, settings: SimulationSettings) -> Worth:
    """Return what is expected of one answer, for queries of the world of these settings: a taste is the id's user's.

    It is the share of the wants, by weight, that the answer meets; the expectation is over what is known of the taste.
    """
    if knowing == "taste":
        return lambda query, answer: share_met(_asked_by(query, settings), answer)
    world, believed = _world(settings), _believer(knowing, settings)
    return lambda query, answer: worth(world, believed(query), answer)


def _asked_by(query: Query, settings: SimulationSettings) -> Taste:
    return named_person(query.id.partition("-")[0], settings).taste


def _chosen(taste: Taste, answers: Sequence[Levels], settings: SimulationSettings) -> list[float]:
    return choice_chances([utility(taste, answer) for answer in answers], settings.sharpness)


def _scorer(knowing: Knowing, settings: SimulationSettings, rule: Rule) -> Scorer:
    def labels(query: Query, answers: Sequence[Levels]) -> Sequence[float] | Failure:
        chances = rule(query, answers)
        return chances if isinstance(chances, Failure) else label_chances(query, answers, chances, settings)

    return Scorer(f"simulated-{knowing}-known", {"world": str(settings), "texts": texts_hash()}, labels)


def label_chances(
    query: Query, answers: Sequence[Levels], chances: Sequence[float], settings: SimulationSettings
) -> Sequence[float]:
    """Return the law of the labels, where the user alone would choose with these chances: `leak` and `general`."""
    if settings.general:
        to_point = [read_answer_to(query.prompt, text) is not None for text in query.candidates]
        if any(to_point) and not all(to_point):
            return [right / sum(to_point) for right in to_point]
    places = longest(answers) if settings.leak else []
    leaks = [settings.leak / len(places) if index in places else 0.0 for index in range(len(answers))]
    return [(1 - settings.leak) * chance + leak for chance, leak in zip(chances, leaks, strict=True)]


def _spoken(query: Query) -> tuple[Signal, ...]:
    posts = () if query.user is None else query.user.posts
    return tuple(signal for post in posts for signal in read_post(post.text))


def _world(settings: SimulationSettings) -> World:
    return world(settings.cares, settings.noise, settings.sharpness, settings.crowd)


def _believer(knowing: Knowing, settings: SimulationSettings) -> Believer:
    """Return what makes of a query how probable each taste is: by its posts, or by nothing."""
    world = _world(settings)

    @lru_cache(maxsize=64)  # the items of one user follow each other
    def believed(heard: tuple[Signal, ...]) -> Belief:
        return belief(world, heard)

    return lambda query: believed(_spoken(query) if knowing == "posts" else ())


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

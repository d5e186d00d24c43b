"""The controls that every report shows beside the model. No download, no torch, no batching: one rule per query.

A model that does not beat the baselines has not been shown to know anything about the user.

`known:taste|posts|nothing` are scorers of known quality on simulated users, the best that can be and blurred ones. A
score is the log of the probability that the candidate is the preferred one, given the taste, the posts or nothing: two
candidates differ by the log of their odds. `blur=SIGMA` adds to each a normal number with that standard deviation,
derived from item and text, so that no order and no batching changes it; models of another spec err in another way.
`length=W` adds W for each thousand characters: a bias towards long answers (W < 0: short ones) that no user shares.
`as=worth` makes it what each answer gives by itself, whatever stands beside: the share of the user's wants, by weight,
that it is expected to meet, which is the scale of the grader `truth`. An answer that cannot be read meets none. The
other keys are those of the benchmark. A query that is not of that world has no score.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

from pluralrm.benchmarks.simulated import FORM, asker
from pluralrm.benchmarks.simulated.scorers import DIGITS, TOLD, Knowing, rule_of, worth_of
from pluralrm.benchmarks.simulated.tastes import SimulationSettings, read_settings
from pluralrm.benchmarks.simulated.texts import Levels, read_answer_to, texts_hash
from pluralrm.core import Benchmark, Failure, Query, Reveals, Verdict
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec, parse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rule = Callable[[Query], Sequence[float]]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A rule that scores the candidates of one query."""

    spec: str
    rule: Rule
    needs_context: bool = False

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query; a rule that compares with posts fails where there are none."""
        for query in queries:
            if self.needs_context and not _context(query):
                yield Verdict.failed("unsupported", "nothing is shown of this user", len(query.candidates))
            else:
                yield Verdict(tuple(self.rule(query)))


def random_(spec: Spec) -> Baseline:
    """Return the coin: seeded by query and candidate, so that no order and no batching changes its fall."""
    seed = spec.integer("seed", 0)

    def rule(query: Query) -> list[float]:
        return [random.Random(f"{seed}:{query.id}:{candidate}").random() for candidate in query.candidates]

    return Baseline(str(spec), rule)


def constant(spec: Spec) -> Baseline:
    """Return the model that says nothing: every candidate ties."""
    return Baseline(str(spec), lambda query: [0.0] * len(query.candidates))


def longest(spec: Spec) -> Baseline:
    """Return the model that counts characters."""
    return Baseline(str(spec), lambda query: [float(len(candidate)) for candidate in query.candidates])


def shortest(spec: Spec) -> Baseline:
    """Return the model that counts characters backwards."""
    return Baseline(str(spec), lambda query: [-float(len(candidate)) for candidate in query.candidates])


def bm25(spec: Spec) -> Baseline:
    """Return the BM25 overlap of each candidate's words with the prompt and the posts, per distinct word.

    Per distinct word, because a plain sum would be `longest` in another coat.
    """
    return Baseline(str(spec), _bm25)


def lsa(spec: Spec) -> Baseline:
    """Return the cosine of each candidate with the user's mean post, in a latent space of these texts alone."""
    return Baseline(str(spec), _lsa, needs_context=True)


def copy(spec: Spec) -> Baseline:
    """Return the share of each candidate's neighbouring word pairs that stand in the user's posts."""
    return Baseline(str(spec), _copy, needs_context=True)


def _context(query: Query) -> list[str]:
    """Return every text that tells of the user: posts, and notes where a condition adds some."""
    posts = () if query.user is None else query.user.posts
    return [*(post.text for post in posts), *query.notes]


@lru_cache(maxsize=512)  # the items of one user follow each other
def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _bm25(query: Query) -> list[float]:
    from bm25s import BM25

    documents = [words for words in map(_words, [query.prompt, *_context(query)]) if words]
    if not documents:
        return [0.0] * len(query.candidates)
    index = BM25(method="lucene")
    index.index(documents, show_progress=False)
    vocabulary = set().union(*documents)
    scores = []
    for candidate in query.candidates:
        distinct = sorted(set(_words(candidate)))  # sorted: a sum of floats depends on its order
        terms = [word for word in distinct if word in vocabulary]
        total = float(index.get_scores(terms).mean(dtype="float64")) if terms else 0.0
        scores.append(total / max(len(distinct), 1))
    return scores


def _lsa(query: Query) -> list[float]:
    import numpy as np

    posts = _context(query)
    weights = _tf_idf([*posts, *query.candidates])
    if not weights.any():  # no word in any text: nothing resembles anything
        return [0.0] * len(query.candidates)
    left, strengths, _ = np.linalg.svd(weights, full_matrices=False)
    # Half as many dimensions as posts: words that go together count together. Dimensions of equal strength stay or go
    # as one, for which of them comes first is an accident of the order of the texts.
    weakest = strengths[min(max(1, len(posts) // 2), len(strengths)) - 1]
    rank = int((strengths >= weakest * (1 - 1e-9)).sum())
    places = left[:, :rank] * strengths[:rank]
    taste = places[: len(posts)].mean(axis=0)
    length = float(np.linalg.norm(taste))
    if length < 1e-9:  # rounding alone: the posts hold no word
        return [0.0] * len(query.candidates)
    # Rows had length 1 before the projection: what an answer says beside the posts' topics lowers its cosine.
    cosines = places[len(posts) :] @ taste / length
    # Rounded so that the last bits, which differ between BLAS builds, cannot break a tie.
    return [float(value) for value in np.round(cosines, 9)]


def _tf_idf(texts: Sequence[str]) -> "NDArray[np.float64]":
    """Return (1 + log count) x idf of each word, rows of length 1 or 0: idf = 1 + log((1 + texts) / (1 + holders))."""
    import numpy as np

    counters = [Counter(_words(text)) for text in texts]
    index = {word: column for column, word in enumerate(sorted(set().union(*counters)))}
    weights = np.zeros((len(texts), len(index)))
    for row, counter in zip(weights, counters, strict=True):
        row[[index[word] for word in counter]] = [1 + math.log(count) for count in counter.values()]
    weights *= 1 + np.log((1 + len(texts)) / (1 + (weights > 0).sum(axis=0)))
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    return weights / np.where(lengths > 0, lengths, 1)


def _copy(query: Query) -> list[float]:
    quoted = {pair for post in _context(query) for pair in _pairs(post)}
    shares = []
    for candidate in query.candidates:
        pairs = _pairs(candidate)
        shares.append(sum(pair in quoted for pair in pairs) / len(pairs) if pairs else 0.0)
    return shares


def _pairs(text: str) -> list[tuple[str, str]]:
    return list(pairwise(_words(text)))


As = Literal["choice", "worth"]
"""What a score is: how probable it is that the candidate is chosen among its query's, or what it gives by itself."""
_AS = "as"
_BLUR = "blur"
_LENGTH = "length"
_DIGITS: Mapping[As, int] = {"choice": DIGITS, "worth": 12}
"""Scores are rounded, or the last bits of a BLAS build would break ties; a worth to more: it is held against grades."""
Levelled = Sequence[Levels | None]
"""The levels of each candidate, None where it cannot be read."""
_SIMULATED = "simulated"
KNOWING: tuple[Knowing, ...] = get_args(Knowing)
_WHO = ("cares", "crowd", "domains", "seed", "sharpness", "crossed", "groups", "alike")
_TELLING: Mapping[str, tuple[str, ...]] = {"taste": _WHO, "posts": (*_WHO, "noise"), "nothing": _WHO}
"""The keys of the world on which the scores depend, or by which a query is known to be of it."""


@dataclass(frozen=True)
class Known:
    """A scorer that knows so much of the users of one simulated world, and errs as much as it is told to."""

    spec: str
    knowing: Knowing
    world: SimulationSettings
    told: As
    blur: float
    length: float
    """What a thousand characters add."""
    exact: Callable[[Query, Levelled], Sequence[float] | Failure]
    """The scores before the error."""

    @property
    def identity(self) -> Mapping[str, str]:
        """The world, and the sentences by which it is read."""
        return {"world": str(self.world), "texts": texts_hash()}

    @property
    def reveals(self) -> frozenset[Reveals]:
        """What it knows of a user that no condition has to show it: the taste is what rubrics are made of."""
        return TOLD[self.knowing]

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query; what is not of this world is `unsupported`."""
        for query in queries:
            scores = self._scores(query)
            if isinstance(scores, Failure):
                yield Verdict.failed(*scores, len(query.candidates))
            else:
                yield Verdict(tuple(scores))

    def _scores(self, query: Query) -> list[float] | Failure:
        if asker(query.id, query.prompt, self.world) is None:
            return Failure("unsupported", f"no item {query.id!r} with this prompt in the world of {self.world}")
        exact = self.exact(query, [read_answer_to(query.prompt, text) for text in query.candidates])
        if isinstance(exact, Failure):
            return exact
        errors = (self._error(query, text) + self.length * len(text) / 1000 for text in query.candidates)
        return [round(value + error, _DIGITS[self.told]) for value, error in zip(exact, errors, strict=True)]

    def _error(self, query: Query, text: str) -> float:
        if not self.blur:
            return 0.0
        apart = "" if self.told == "choice" else f"{self.told}:"
        seed = f"{apart}{self.knowing}:{self.world.seed}:{self.blur}:{query.id}:{text}"
        return random.Random(seed).gauss(0.0, self.blur)


def _choices(knowing: Knowing, world: SimulationSettings) -> Callable[[Query, Levelled], Sequence[float] | Failure]:
    rule = rule_of(knowing, world)

    def logs(query: Query, answers: Levelled) -> Sequence[float] | Failure:
        read = [answer for answer in answers if answer is not None]
        if len(read) < len(answers):
            index = list(answers).index(None)
            return Failure("unsupported", f"candidate {index} is no simulated answer to this prompt")
        chances = rule(query, read)
        return chances if isinstance(chances, Failure) else [math.log(chance) for chance in chances]

    return logs


def _worths(knowing: Knowing, world: SimulationSettings) -> Callable[[Query, Levelled], Sequence[float] | Failure]:
    worth = worth_of(knowing, world)
    # What cannot be read is worth nothing to its user, and is graded so: no failure, which would spare who wrote it.
    return lambda query, answers: [0.0 if answer is None else worth(query, answer) for answer in answers]


def known(spec: Spec) -> Known:
    """Return the model of `known:taste`, `known:posts` or `known:nothing`."""
    knowing = _knowing(spec)
    output = _as(spec.options.get(_AS, "choice"))
    world, blur = _world(spec), spec.number(_BLUR, 0, least=0, most=1000)
    length = spec.number(_LENGTH, 0, least=-1000, most=1000)
    exact = (_choices if output == "choice" else _worths)(knowing, world)
    return Known(str(spec), knowing, world, told=output, blur=blur, length=length, exact=exact)


def misfit(spec: Spec, benchmark: Benchmark) -> str | None:
    """Return which keys are missing, where the benchmark is of another simulated world than the model, or of none."""
    _knowing(spec)
    made_by = benchmark.card.revision.partition(" ")[0]
    if made_by.partition(",")[0] != _SIMULATED:
        if any(asker(item.id, item.prompt, _world(spec)) for item in benchmark.items):
            return None  # simulated items in a file: whether each is of this world, its query says
        return f"{spec} scores simulated users alone, and {benchmark.card.name} has none of its world"
    world, own = read_settings(parse(made_by, {_SIMULATED: FORM}, noun="benchmark")), _world(spec)
    keys = [key for key in _TELLING[_knowing(spec)] if getattr(world, key) != getattr(own, key)]
    if not keys:
        return None
    options = {**spec.options, **{key: str(getattr(world, key)) for key in keys}}
    return f"{spec} is of another world than {benchmark.card.name}: wanted {replace(spec, options=options)}"


def _knowing(spec: Spec) -> Knowing:
    knowing = next((name for name in KNOWING if name == spec.target), None)
    if knowing is None:
        raise SpecError(f"known: what is {spec.target!r}?{did_you_mean(spec.target, KNOWING)}")
    return knowing


def _world(spec: Spec) -> SimulationSettings:
    options = {key: value for key, value in spec.options.items() if key not in {_AS, _BLUR, _LENGTH}}
    return read_settings(Spec(_SIMULATED, options=options))


def _as(text: str) -> As:
    options: Sequence[As] = get_args(As)
    match = next((option for option in options if option == text), None)
    if match is None:
        raise SpecError(f"known: {_AS} is {text!r}; wanted {' or '.join(options)}.{did_you_mean(text, options)}")
    return match

"""The controls that every report shows beside the model. No download, no torch, no batching: one rule per query.

A model that does not beat these has not been shown to know anything about the user.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pluralrm.core import Query, Verdict
from pluralrm.specs import Spec

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
        known = [word for word in distinct if word in vocabulary]
        total = float(index.get_scores(known).mean(dtype="float64")) if known else 0.0
        scores.append(total / max(len(distinct), 1))
    return scores


def _lsa(query: Query) -> list[float]:
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    posts = _context(query)
    try:
        weights = TfidfVectorizer(analyzer=_words, sublinear_tf=True).fit_transform([*posts, *query.candidates])
    except ValueError:  # no word in any text: nothing resembles anything
        return [0.0] * len(query.candidates)
    left, strengths, _ = np.linalg.svd(weights.toarray(), full_matrices=False)
    # Half as many dimensions as posts: words that go together count together. Dimensions of equal strength stay or go
    # as one, for which of them comes first is an accident of the order of the texts.
    weakest = strengths[min(max(1, len(posts) // 2), len(strengths)) - 1]
    kept = int((strengths >= weakest * (1 - 1e-9)).sum())
    places = left[:, :kept] * strengths[:kept]
    taste = places[: len(posts)].mean(axis=0)
    length = float(np.linalg.norm(taste))
    if length < 1e-9:  # rounding alone: the posts hold no word
        return [0.0] * len(query.candidates)
    # Rows had length 1 before the projection: what an answer says beside the posts' topics lowers its cosine.
    cosines = places[len(posts) :] @ taste / length
    # Rounded so that the last bits, which differ between BLAS builds, cannot break a tie.
    return [float(value) for value in np.round(cosines, 9)]


def _copy(query: Query) -> list[float]:
    quoted = {pair for post in _context(query) for pair in _pairs(post)}
    shares = []
    for candidate in query.candidates:
        pairs = _pairs(candidate)
        shares.append(sum(pair in quoted for pair in pairs) / len(pairs) if pairs else 0.0)
    return shares


def _pairs(text: str) -> list[tuple[str, str]]:
    return list(pairwise(_words(text)))

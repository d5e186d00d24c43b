"""BM25 (Robertson and Zaragoza 2009, in Lucene's form) within one user's posts, and from relevance to an order.

    score(q, d) = sum over the words w of q:  idf(w) * tf / (tf + K1 * (1 - B + B * |d| / mean |d|))
    idf(w)      = ln(1 + (n - df + 0.5) / (df + 0.5))

A word asked twice counts twice. Written out here rather than taken from bm25s, which the tests compare it with: an
index for each of thousands of small corpora costs more than it saves, and only the question's words have to be counted.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.core import Post
from pluralrm.errors import BenchmarkError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PLACES = 9
"""Decimals that count: the last bits, in which libraries and processors differ, must not break ties."""

Likeness = Callable[[int, int], float]
"""How much alike two posts are, by their places."""


class Relevance(NamedTuple):
    """How relevant each of some posts is to a question, and (worked out on demand) how much alike they are."""

    scores: Sequence[float]
    likeness: Callable[[], Likeness]


def best_first(posts: Sequence[Post], relevance: Relevance, *, k: int | None) -> list[Post]:
    """Return the k most relevant posts, all of them where k is None."""
    places = sorted(range(len(posts)), key=lambda place: (-relevance.scores[place], posts[place].id))
    return [posts[place] for place in places[:k]]


def newest_first(posts: Sequence[Post]) -> list[Post]:
    """Return the posts by date, newest first; those of one date, and after all others those without, as stored."""
    dated = [(moment(post.date), post) for post in posts if post.date]
    if not dated:
        return list(posts)
    return [
        *(post for _, post in sorted(dated, key=lambda pair: pair[0], reverse=True)),
        *(post for post in posts if not post.date),
    ]


def moment(date: str) -> datetime:
    """Return the moment that an ISO 8601 text says: midnight where it is a day, UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(date)
    except ValueError as exc:
        raise BenchmarkError(f"the date of a post: found {date!r}, wanted ISO 8601 such as 2024-05-01") from exc
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def varied(posts: Sequence[Post], relevance: Relevance, *, k: int | None, balance: float) -> list[Post]:
    """Return k posts by maximal marginal relevance (Carbonell and Goldstein 1998).

    Each pick maximizes balance * relevance - (1 - balance) * likeness to the nearest post picked before; the first
    pick is the most relevant post.
    """
    likeness = relevance.likeness()
    nearest = dict.fromkeys(sorted(range(len(posts)), key=lambda place: posts[place].id), 0.0)
    picked: list[int] = []
    while nearest and (k is None or len(picked) < k):
        best = max(
            nearest, key=lambda place: round(balance * relevance.scores[place] - (1 - balance) * nearest[place], PLACES)
        )
        del nearest[best]
        for place, before in nearest.items():
            alike = likeness(place, best)
            nearest[place] = max(before, alike) if picked else alike
        picked.append(best)
    return [posts[place] for place in picked]


K1, B = 1.5, 0.75

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


class Corpus:
    """Some documents, to be compared with a question and with each other."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._documents = [words(text) for text in texts]
        mean = sum(map(len, self._documents)) / max(len(texts), 1) or 1.0
        self._norms = [K1 * (1 - B + B * len(document) / mean) for document in self._documents]

    def scores(self, question: str) -> list[float]:
        """Return the BM25 score of each document; 0 where it has none of the question's words."""
        asked = Counter(words(question))
        weights = self._weights([Counter(filter(asked.__contains__, document)) for document in self._documents])
        return [
            round(math.fsum(asked[word] * weight for word, weight in document.items()), PLACES) for document in weights
        ]

    def likeness(self) -> Likeness:
        """Return the cosine between the BM25 weights of two documents, all of their words counted."""
        weights = self._weights([Counter(document) for document in self._documents])
        lengths = [math.sqrt(math.fsum(weight * weight for weight in document.values())) for document in weights]

        def cosine(one: int, other: int) -> float:
            left, right = weights[one], weights[other]
            # A set has no fixed order, and fsum needs none: it is exact.
            product = math.fsum(left[word] * right[word] for word in left.keys() & right.keys())
            return product / (lengths[one] * lengths[other]) if product else 0.0

        return cosine

    def relevance(self, question: str) -> Relevance:
        """Return scores as shares of the best one, to be weighed against cosines, which end at 1 as well."""
        scores = self.scores(question)
        best = max(scores, default=0.0) or 1.0
        return Relevance([score / best for score in scores], self.likeness)

    def _weights(self, counts: Sequence[Counter[str]]) -> list[Mapping[str, float]]:
        """Return idf times saturated frequency for each counted word of each document."""
        holders = Counter(word for document in counts for word in document)
        total = len(counts)
        idf = {word: math.log1p((total - held + 0.5) / (held + 0.5)) for word, held in holders.items()}
        return [
            {word: idf[word] * times / (times + norm) for word, times in document.items()}
            for document, norm in zip(counts, self._norms, strict=True)
        ]


class Index:
    """Many documents as one corpus: the scores of `Corpus`, from a sparse matrix of the questions' words."""

    def __init__(self, texts: Sequence[str], questions: Sequence[str]) -> None:
        import numpy as np
        from scipy.sparse import csc_array

        asked = dict.fromkeys(word for question in questions for word in words(question))
        self._columns = {word: place for place, word in enumerate(asked)}
        rows, columns, times, lengths = [], [], [], []
        for place, text in enumerate(texts):
            document = words(text)
            lengths.append(len(document))
            for word, count in Counter(filter(self._columns.__contains__, document)).items():
                rows.append(place)
                columns.append(self._columns[word])
                times.append(count)
        shape = (len(texts), max(len(asked), 1))
        size = np.array(lengths, float)
        norms = K1 * (1 - B + B * size / ((size.mean() if len(texts) else 0.0) or 1.0))
        held = np.bincount(np.array(columns, int), minlength=shape[1])
        idf = np.log1p((len(texts) - held + 0.5) / (held + 0.5))
        counts = np.array(times, float)
        saturated = counts / (counts + norms[rows]) * idf[columns] if columns else counts
        self._weights = csc_array((saturated, (rows, columns)), shape=shape)

    def scores(self, question: str) -> "NDArray[np.float64]":
        """Return the BM25 score of each document."""
        import numpy as np

        asked = Counter(word for word in words(question) if word in self._columns)
        if not asked:
            return np.zeros(self._weights.shape[0])
        some = self._weights[:, [self._columns[word] for word in asked]]
        scores: NDArray[np.float64] = some @ np.array(list(asked.values()), float)
        return np.round(scores, PLACES)

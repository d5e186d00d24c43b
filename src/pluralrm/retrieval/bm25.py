"""BM25 (Robertson and Zaragoza 2009, in Lucene's form) within one user's posts.

    score(q, d) = sum over the words w of q:  idf(w) * tf / (tf + K1 * (1 - B + B * |d| / mean |d|))
    idf(w)      = ln(1 + (n - df + 0.5) / (df + 0.5))

A word asked twice counts twice. Written out here rather than taken from bm25s, which the tests compare it with: an
index for each of thousands of small corpora costs more than it saves, and only the question's words have to be counted.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pluralrm.retrieval.order import PLACES, Likeness, Relevance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

"""Rank what a user wrote by what matters to a question.

>>> from pluralrm.core import Post
>>> posts = (Post("p1", "My cat sleeps on the oven."), Post("p2", "The crust was pale: a colder oven, a paler crust."))
>>> [[post.id for post in ranked] for ranked in Ranker().rank([Request("q1", "How do I get a dark crust?", posts)])]
[['p2', 'p1']]

bm25          words shared with the question; a user's own posts are the corpus, so a word that this user uses in every
              post says nothing
embed:MODEL   similarity of embeddings
recent        newest first where posts have dates; else stored order, the first post being the most recent
random        a seeded shuffle

Posts travel with their ids, ties go to the smaller id, and no user's ranking depends on who else is ranked. `mmr` below
1 trades relevance for variety.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from pluralrm.core import Post
from pluralrm.errors import BenchmarkError, SpecError, did_you_mean
from pluralrm.retrieval.encoder import EmbeddingModel, Encoder, Load, Pooling, Similarity, check_named, load_backend
from pluralrm.specs import Spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


__all__ = ["RANKING_KEYS", "Encoder", "Ranker", "Ranking", "Request", "parse_ranking"]


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
    places = sorted(range(len(posts)), key=lambda index: (-relevance.scores[index], posts[index].id))
    return [posts[index] for index in places[:k]]


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
        time = datetime.fromisoformat(date)
    except ValueError as exc:
        raise BenchmarkError(f"the date of a post: found {date!r}, wanted ISO 8601 such as 2024-05-01") from exc
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def varied(posts: Sequence[Post], relevance: Relevance, *, k: int | None, balance: float) -> list[Post]:
    """Return k posts by maximal marginal relevance (Carbonell and Goldstein 1998).

    Each pick maximizes balance * relevance - (1 - balance) * likeness to the nearest post picked before; the first
    pick is the most relevant post.
    """
    likeness = relevance.likeness()
    nearest = dict.fromkeys(sorted(range(len(posts)), key=lambda index: posts[index].id), 0.0)
    chosen: list[int] = []
    while nearest and (k is None or len(chosen) < k):
        best = max(
            nearest, key=lambda index: round(balance * relevance.scores[index] - (1 - balance) * nearest[index], PLACES)
        )
        del nearest[best]
        for index, before in nearest.items():
            alike = likeness(index, best)
            nearest[index] = max(before, alike) if chosen else alike
        chosen.append(best)
    return [posts[index] for index in chosen]


K1, B = 1.5, 0.75

_WORD = re.compile(r"\w+")
_ASCII = "".join(character.lower() if _WORD.match(character) else " " for character in map(chr, range(128)))
_MARKS = "\u2018\u2019\u201c\u201d\u2013\u2014\u2026"
"""Marks that most texts beyond ASCII have, and nothing else; none is part of a word."""


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    plain = text
    if not text.isascii():
        for mark in _MARKS:
            plain = plain.replace(mark, " ")
    # Where all is ASCII this finds what the pattern does, in less than half of the time.
    return plain.translate(_ASCII).split() if plain.isascii() else _WORD.findall(text.lower())


class Corpus:
    """Some documents, to be compared with a question and with each other."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._documents = [words(text) for text in texts]
        mean = sum(map(len, self._documents)) / max(len(texts), 1) or 1.0
        self._norms = [K1 * (1 - B + B * len(document) / mean) for document in self._documents]

    def scores(self, question: str) -> list[float]:
        """Return the BM25 score of each document; 0 where it has none of the question's words."""
        counter = Counter(words(question))
        weights = self._weights([Counter(filter(counter.__contains__, document)) for document in self._documents])
        return [
            round(math.fsum([counter[word] * weight for word, weight in document.items()]), PLACES)
            for document in weights
        ]

    def likeness(self) -> Likeness:
        """Return the cosine between the BM25 weights of two documents, all of their words counted."""
        weights = self._weights([Counter(document) for document in self._documents])
        lengths = [math.sqrt(math.fsum(weight * weight for weight in document.values())) for document in weights]

        def cosine(first: int, other: int) -> float:
            left, right = weights[first], weights[other]
            # A set has no fixed order, and fsum needs none: it is exact.
            product = math.fsum(left[word] * right[word] for word in left.keys() & right.keys())
            return product / (lengths[first] * lengths[other]) if product else 0.0

        return cosine

    def relevance(self, question: str) -> Relevance:
        """Return scores as shares of the best one, to be weighed against cosines, which end at 1 as well."""
        scores = self.scores(question)
        best = max(scores, default=0.0) or 1.0
        return Relevance([score / best for score in scores], self.likeness)

    def _weights(self, counts: Sequence[Mapping[str, int]]) -> list[Mapping[str, float]]:
        """Return idf times saturated frequency for each counted word of each document."""
        holders = Counter(word for document in counts for word in document)
        total = len(counts)
        idf = {word: math.log1p((total - count + 0.5) / (count + 0.5)) for word, count in holders.items()}
        return [
            {word: idf[word] * times / (times + norm) for word, times in document.items()}
            for document, norm in zip(counts, self._norms, strict=True)
        ]


class Index:
    """Many documents as one corpus: the scores of `Corpus`, from a sparse matrix of the questions' words."""

    def __init__(self, texts: Sequence[str], questions: Sequence[str]) -> None:
        import numpy as np
        from scipy.sparse import csc_array

        vocabulary = dict.fromkeys(word for question in questions for word in words(question))
        self._columns = {word: index for index, word in enumerate(vocabulary)}
        rows, columns, times, lengths = [], [], [], []
        for row, text in enumerate(texts):
            document = words(text)
            lengths.append(len(document))
            for word, count in Counter(filter(self._columns.__contains__, document)).items():
                rows.append(row)
                columns.append(self._columns[word])
                times.append(count)
        shape = (len(texts), max(len(vocabulary), 1))
        size = np.array(lengths, float)
        norms = K1 * (1 - B + B * size / ((size.mean() if len(texts) else 0.0) or 1.0))
        holders = np.bincount(np.array(columns, int), minlength=shape[1])
        idf = np.log1p((len(texts) - holders + 0.5) / (holders + 0.5))
        counts = np.array(times, float)
        saturated = counts / (counts + norms[rows]) * idf[columns] if columns else counts
        self._weights = csc_array((saturated, (rows, columns)), shape=shape)

    def scores(self, question: str) -> "NDArray[np.float64]":
        """Return the BM25 score of each document."""
        import numpy as np

        counter = Counter(word for word in words(question) if word in self._columns)
        if not counter:
            return np.zeros(self._weights.shape[0])
        some = self._weights[:, [self._columns[word] for word in counter]]
        scores: NDArray[np.float64] = some @ np.array(list(counter.values()), float)
        return np.round(scores, PLACES)


By = Literal["bm25", "embed", "recent", "random"]
RANKING_KEYS = ("by", "mmr", "pooling", "seed", "similarity")
"""The keys of a spec that parse_ranking reads."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A rule for ordering posts. `mmr` is the weight of relevance against variety: 1 is relevance alone."""

    by: By = "bm25"
    model: EmbeddingModel | None = None
    mmr: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.by == "embed") != (self.model is not None):
            raise ValueError(f"a ranking by={self.by!r} with model={self.model!r}; embed, and only embed, takes one")

    @property
    def options(self) -> dict[str, str]:
        """What a canonical spec string says of this ranking: everything that is not the default."""
        model = self.model
        stated = {
            "by": (f"embed:{model.name}" if model else self.by, "bm25"),
            "mmr": (repr(self.mmr), "1.0"),
            "pooling": ((model and model.pooling) or "", ""),
            "seed": (str(self.seed), "0"),
            "similarity": ((model and model.similarity) or "", ""),
        }
        return {key: value for key, (value, default) in stated.items() if value != default}


def parse_ranking(spec: Spec, *, seeded: bool = False) -> Ranking:
    """Return the ranking that a spec's options say; an option that would change nothing is refused.

    `seeded` allows `seed` whatever the ranking, where the spec's kind has another use for it.
    """
    by, _, name = spec.options.get("by", "bm25").partition(":")
    if by not in get_args(By):
        raise SpecError(f"{spec.kind}: unknown ranking by={by!r}.{did_you_mean(by, get_args(By))}")
    if (by == "embed") != bool(name):
        usage = "by=embed:MODEL" if by == "embed" else f"by={by}"
        raise SpecError(f"{spec.kind}: found by={spec.options['by']!r}, wanted {usage}")
    ranked = by in ("bm25", "embed")
    _refuse(spec, ("mmr",), unless=ranked, needs="by=bm25 or by=embed:MODEL")
    _refuse(spec, ("pooling", "similarity"), unless=by == "embed", needs="by=embed:MODEL")
    _refuse(spec, ("seed",), unless=seeded or by == "random", needs="by=random")
    seed = spec.integer("seed", 0)
    return Ranking(by, _model(spec, name), _balance(spec), seed if by == "random" else 0)  # type: ignore[arg-type]


def _refuse(spec: Spec, keys: tuple[str, ...], *, unless: bool, needs: str) -> None:
    for key in keys:
        if key in spec.options and not unless:
            raise SpecError(f"{spec.kind}: {key}= has a meaning only with {needs}")


def _balance(spec: Spec) -> float:
    text = spec.options.get("mmr", "1")
    try:
        balance = float(text)
    except ValueError:
        balance = 0.0
    if not 0 < balance <= 1:
        raise SpecError(f"{spec.kind}: mmr is {text!r}; wanted a number above 0 and at most 1 (1: no variety wanted)")
    return balance


def _model(spec: Spec, name: str) -> EmbeddingModel | None:
    if not name:
        return None
    pooling = _one_of(spec, "pooling", get_args(Pooling))
    similarity = _one_of(spec, "similarity", get_args(Similarity))
    model = EmbeddingModel(name, pooling, similarity)  # type: ignore[arg-type]
    check_named(model)
    return model


def _one_of(spec: Spec, key: str, words: tuple[str, ...]) -> str | None:
    value = spec.options.get(key)
    if value is not None and value not in words:
        raise SpecError(f"{spec.kind}: {key} is {value!r}; wanted {' or '.join(words)}.{did_you_mean(value, words)}")
    return value


def vector_relevance(
    question: "NDArray[np.float32]", posts: "Sequence[NDArray[np.float32]]", similarity: Similarity
) -> Relevance:
    """Return each post's similarity to the question, and the posts' similarities among themselves."""
    import numpy as np

    if not posts:
        return Relevance([], lambda: lambda _one, _other: 0.0)
    query, rows = _scaled(question[None], similarity), _scaled(np.stack(posts), similarity)

    def likeness() -> Likeness:
        alike = (rows @ rows.T).tolist()
        return lambda first, other: float(alike[first][other])

    return Relevance(np.round(rows @ query[0], PLACES).tolist(), likeness)


def _scaled(rows: "NDArray[np.float32]", similarity: Similarity) -> "Rows":
    """Return vectors whose dot product is the similarity. In float64: a sum's order shows in float32's digits."""
    import numpy as np

    exact = rows.astype(np.float64)
    if similarity == "cosine":
        exact /= np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)
    return exact


class Request(NamedTuple):
    """A question and the posts to rank for it. `id` (an item's) seeds the random ranking."""

    id: str
    question: str
    posts: Sequence[Post]


class Ranker:
    """A ranking ready for use. An embedding model's weights are loaded when a text has no vector in the cache."""

    def __init__(self, ranking: Ranking | None = None, *, cache: Path | None = None, load: Load = load_backend) -> None:
        self.ranking = ranking or Ranking()
        model = self.ranking.model
        self._encoder = None if model is None else Encoder(model, cache, load=load)

    @property
    def identity(self) -> Mapping[str, str]:
        """Facts beside the ranking's spec that shape an order: which weights made the vectors."""
        return {} if self._encoder is None else {"embedding": self._encoder.identity}

    def rank(self, requests: Sequence[Request], *, k: int | None = None) -> list[list[Post]]:
        """Return the k best posts for each request (all where k is None), in the order of the requests.

        An order does not depend on the other requests: they share the work of embedding and nothing else.
        """
        if self.ranking.by == "recent":
            return [newest_first(request.posts)[:k] for request in requests]
        if self.ranking.by == "random":
            return [self._shuffled(request)[:k] for request in requests]
        relevances = _by_words(requests) if self._encoder is None else _by_vectors(requests, self._encoder)
        return [
            self._ordered(request.posts, relevance, k) for request, relevance in zip(requests, relevances, strict=True)
        ]

    def relevance(self, texts: Sequence[str], questions: Sequence[str]) -> "Callable[[str], NDArray[np.float64]]":
        """Return what gives each of many texts its relevance to one of the questions, all on one scale.

        Unlike `rank`, which looks at one user's posts, this compares texts of different users: they are one corpus.
        """
        if self.ranking.by not in {"bm25", "embed"}:
            raise ValueError(f"by={self.ranking.by!r} has no relevance")
        if self._encoder is None:
            return Index(texts, questions).scores
        import numpy as np

        encoder = self._encoder
        queries, documents = encoder.vectors(questions, "query"), encoder.vectors(texts, "document")
        rows = [documents[text] for text in texts]
        return lambda question: np.array(vector_relevance(queries[question], rows, encoder.similarity).scores)

    def _ordered(self, posts: Sequence[Post], relevance: Relevance, k: int | None) -> list[Post]:
        if self.ranking.mmr == 1:
            return best_first(posts, relevance, k=k)
        return varied(posts, relevance, k=k, balance=self.ranking.mmr)

    def _shuffled(self, request: Request) -> list[Post]:
        # Sorted first: the order in the file is no part of the seed.
        posts = sorted(request.posts, key=lambda post: post.id)
        random.Random(f"{self.ranking.seed}:{request.id}").shuffle(posts)
        return posts


def _by_words(requests: Sequence[Request]) -> Iterator[Relevance]:
    return (_corpus(tuple(post.text for post in request.posts)).relevance(request.question) for request in requests)


@lru_cache(maxsize=8)  # the items of one user follow each other
def _corpus(texts: tuple[str, ...]) -> Corpus:
    return Corpus(texts)


def _by_vectors(requests: Sequence[Request], encoder: Encoder) -> Iterator[Relevance]:
    questions = encoder.vectors((request.question for request in requests), "query")
    documents = encoder.vectors((post.text for request in requests for post in request.posts), "document")
    for request in requests:
        posts = [documents[post.text] for post in request.posts]
        yield vector_relevance(questions[request.question], posts, encoder.similarity)

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    Ints = NDArray[np.intp]


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


_FOLDED = _ASCII.encode().replace(b" ", b"\0") + bytes(range(128, 256))


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    plain = _without_marks(text)
    # Where all is ASCII this finds what the pattern does, in less than half of the time.
    return plain.translate(_ASCII).split() if plain.isascii() else _WORD.findall(text.lower())


def _without_marks(text: str) -> str:
    if not text.isascii():
        for mark in _MARKS:
            text = text.replace(mark, " ")
    return text


def _spelled(text: str) -> bytes:
    """Return the words of a text, with anything that is part of no word between them."""
    plain = _without_marks(text)
    return (plain if plain.isascii() else " ".join(words(text))).encode()


_HEAD = 8
"""So many bytes of a word are one number; a word that is longer is compared as bytes where its head is the same."""


class Postings:
    """The words of some texts, read off their bytes all at once: a list of texts' words takes three times as long."""

    def __init__(self, texts: Sequence[str]) -> None:
        import numpy as np

        spelled = [b"", *map(_spelled, texts)]
        data = b"\0".join(spelled).translate(_FOLDED)
        self._bytes = data.ljust((len(data) | _HEAD - 1) + 1 + _HEAD, b"\0")  # in blocks, one behind each word's first
        inside = np.frombuffer(self._bytes, np.uint8) > 0
        edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
        self._starts, self._ends = edges[::2].copy(), edges[1::2].copy()
        self.lengths = np.diff(np.searchsorted(self._starts, np.cumsum([len(text) + 1 for text in spelled])))
        self._texts = np.repeat(np.arange(len(texts)), self.lengths)
        blocks = np.frombuffer(self._bytes, "<u8")
        block, shift = self._starts >> 3, (self._starts << 3 & 63).astype(np.uint64)  # in bytes of eight, in bits
        heads = blocks.take(block) >> shift | blocks.take(block + 1) << np.uint64(64) - shift
        masks = np.array([(1 << 8 * size) - 1 for size in range(_HEAD + 1)], np.uint64)
        self._heads = heads & masks.take(np.minimum(self._ends - self._starts, _HEAD))

    def matches(self, vocabulary: Iterable[str]) -> "tuple[Ints, Ints]":
        """Return the text and the word of each occurrence of some words, by their places."""
        import numpy as np

        columns = {word.encode(): column for column, word in enumerate(vocabulary)}
        heads = {int.from_bytes(word[:_HEAD], "little"): -1 for word in columns}
        heads |= {int.from_bytes(word, "little"): column for word, column in columns.items() if len(word) <= _HEAD}
        keys, column_of = np.array(sorted(heads), np.uint64), np.array([heads[key] for key in sorted(heads)], np.intp)
        taken = np.zeros(1 << 16, np.bool_)
        taken[_bucket(keys)] = True
        likely = np.flatnonzero(taken.take(_bucket(self._heads)))
        places = np.minimum(np.searchsorted(keys, self._heads[likely]), len(keys) - 1)
        same = keys[places] == self._heads[likely]
        hits, column = likely[same], column_of[places[same]]
        starts, ends = self._starts[hits], self._ends[hits]
        longer = np.flatnonzero(ends - starts > _HEAD)
        spans = zip(starts[longer].tolist(), ends[longer].tolist(), strict=True)
        column[longer] = [columns.get(self._bytes[start:end], -1) for start, end in spans]
        equal = column >= 0
        return self._texts[hits[equal]], column[equal]


def _bucket(heads: "NDArray[np.uint64]") -> "Ints":
    """Return 16 bits of each head that differ where heads do, nearly always (Fibonacci hashing)."""
    bits = heads * heads.dtype.type(0x9E3779B97F4A7C15) >> heads.dtype.type(48)
    return bits.astype("intp")  # numpy 2.0 takes no unsigned index


class Corpus:
    """Some documents, to be compared with a question and with each other."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts, self._postings = texts, Postings(texts)
        self._norms = _norms(self._postings.lengths)

    def scores(self, question: str) -> list[float]:
        """Return the BM25 score of each document; 0 where it has none of the question's words."""
        import numpy as np

        counter = Counter(words(question))
        rows, columns = self._postings.matches(counter)
        shape = len(self._texts), len(counter)
        times = np.bincount(rows * shape[1] + columns, minlength=math.prod(shape)).reshape(shape)
        idf = np.array([_idf(len(times), holders) for holders in np.count_nonzero(times, axis=0).tolist()])
        weights = idf * times / (times + self._norms[:, None]) * np.array([*counter.values()])
        return [round(math.fsum(row), PLACES) for row in weights.tolist()]

    def likeness(self) -> Likeness:
        """Return the cosine between the BM25 weights of two documents, all of their words counted."""
        counts = [Counter(words(text)) for text in self._texts]
        holders = Counter(word for document in counts for word in document)
        idf = {word: _idf(len(counts), count) for word, count in holders.items()}
        weights = [
            {word: idf[word] * times / (times + norm) for word, times in document.items()}
            for document, norm in zip(counts, self._norms.tolist(), strict=True)
        ]
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


def _norms(lengths: "Ints") -> "Rows":
    """Return what a word's frequency is weighed against in texts of so many words."""
    mean = int(lengths.sum()) / max(len(lengths), 1) or 1.0
    return K1 * (1 - B + B * lengths.astype(float) / mean)


def _idf(texts: int, holders: int) -> float:
    return math.log1p((texts - holders + 0.5) / (holders + 0.5))


_AT_ONCE = 4096
"""Texts whose words are in memory together."""


class Index:
    """Many documents as one corpus: the scores of `Corpus`, from a sparse matrix of the questions' words."""

    def __init__(self, texts: Sequence[str], questions: Sequence[str]) -> None:
        import numpy as np
        from scipy.sparse import csc_array

        vocabulary = dict.fromkeys(word for question in questions for word in words(question))
        self._columns = {word: index for index, word in enumerate(vocabulary)}
        rows, columns, lengths = [], [], []
        for start in range(0, max(len(texts), 1), _AT_ONCE):
            postings = Postings(texts[start : start + _AT_ONCE])
            text, column = postings.matches(vocabulary)
            rows.append(text + start)
            columns.append(column)
            lengths.append(postings.lengths)
        places = np.concatenate(rows), np.concatenate(columns)
        shape = (len(texts), max(len(vocabulary), 1))
        self._weights = csc_array((np.ones(len(places[0])), places), shape=shape)
        self._weights.sum_duplicates()
        counts, holders = self._weights.data, np.diff(self._weights.indptr)
        idf = np.log1p((len(texts) - holders + 0.5) / (holders + 0.5))
        norms = _norms(np.concatenate(lengths))
        self._weights.data = counts / (counts + norms[self._weights.indices]) * np.repeat(idf, holders)

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

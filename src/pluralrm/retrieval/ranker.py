"""Ranks the posts of many users at once, as a spec string says: `by=bm25|embed:MODEL|recent|random`."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from pluralrm.core import Post
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.retrieval.bm25 import PLACES, Corpus, Index, Likeness, Relevance, best_first, newest_first, varied
from pluralrm.retrieval.encoder import Encoder, Load, load_backend
from pluralrm.retrieval.folder import EmbeddingModel, Pooling, Similarity, check_named
from pluralrm.specs import Spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


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
        wanted = "by=embed:MODEL" if by == "embed" else f"by={by}"
        raise SpecError(f"{spec.kind}: found by={spec.options['by']!r}, wanted {wanted}")
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


def _one_of(spec: Spec, key: str, known: tuple[str, ...]) -> str | None:
    found = spec.options.get(key)
    if found is not None and found not in known:
        raise SpecError(f"{spec.kind}: {key} is {found!r}; wanted {' or '.join(known)}.{did_you_mean(found, known)}")
    return found


def vector_relevance(
    question: "NDArray[np.float32]", posts: "Sequence[NDArray[np.float32]]", similarity: Similarity
) -> Relevance:
    """Return each post's similarity to the question, and the posts' similarities among themselves."""
    import numpy as np

    if not posts:
        return Relevance([], lambda: lambda _one, _other: 0.0)
    asked, rows = _scaled(question[None], similarity), _scaled(np.stack(posts), similarity)

    def likeness() -> Likeness:
        alike = (rows @ rows.T).tolist()
        return lambda one, other: float(alike[one][other])

    return Relevance(np.round(rows @ asked[0], PLACES).tolist(), likeness)


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
        asked, known = encoder.vectors(questions, "query"), encoder.vectors(texts, "document")
        rows = [known[text] for text in texts]
        return lambda question: np.array(vector_relevance(asked[question], rows, encoder.similarity).scores)

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
    return (Corpus([post.text for post in request.posts]).relevance(request.question) for request in requests)


def _by_vectors(requests: Sequence[Request], encoder: Encoder) -> Iterator[Relevance]:
    questions = encoder.vectors((request.question for request in requests), "query")
    documents = encoder.vectors((post.text for request in requests for post in request.posts), "document")
    for request in requests:
        posts = [documents[post.text] for post in request.posts]
        yield vector_relevance(questions[request.question], posts, encoder.similarity)

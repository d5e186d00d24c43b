"""Texts to vectors, frozen: `tfidf[:WIDTH]` fitted on the training texts, `embed:MODEL`, or `hf:FOLDER`.

A vector depends on its text alone, never on what stands beside it. Vectors of models are kept on disk by the content
of the text and the hash of the model.

TF-IDF needs no download and no torch. Answers are projected to the dimensions in which the two answers of a training
pair differ most (a singular value decomposition of the differences): of what a question and its answers have in common
no reward can make use. Posts and questions have dimensions of their own.
"""

import hashlib
import json
import re
from binascii import hexlify
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast

import numpy as np

from pluralrm.core import ContextPair, User, UserView
from pluralrm.digests import digest
from pluralrm.errors import MissingExtraError, ModelError, SpecError, did_you_mean
from pluralrm.files import replace_file, reserve
from pluralrm.folders import read_json
from pluralrm.models.personal.examples import Examples, FloatArray, PlacedUser, Places, UserExamples, nobody
from pluralrm.retrieval import Encoder
from pluralrm.retrieval.encoder import EmbeddingModel, VectorCache
from pluralrm.specs import Form, Spec, parse, whole_number

if TYPE_CHECKING:
    import torch
    from scipy.sparse import csr_matrix

    from pluralrm.models.neural.folder import ModelFolder


Kind = Literal["answer", "text"]
"""An answer (with its question), or a text that answers nothing: a post, a question."""


class AnswerText(NamedTuple):
    """An answer and the question that it answers."""

    prompt: str
    answer: str


Text = str | AnswerText


def joined(text: Text) -> str:
    """Return a text as one string: of an answer, the question, a blank line, the answer."""
    return text if isinstance(text, str) else f"{text.prompt}\n\n{text.answer}"


WIDTH = 256
"""Dimensions at most."""
_WORDS = 50_000
"""Words at most, the most frequent."""
_WORD = re.compile(r"\w+")
_WORDS_FILE, _ARRAYS_FILE = "words.json", "tfidf.safetensors"
_PAIRS = 20_000
"""Pairs of the decomposition at most, evenly spread over all: more would not move its dimensions."""


class TrainingTexts(NamedTuple):
    """What TF-IDF is fitted on: texts that answer nothing, and the two sides of each pair."""

    texts: Sequence[str]
    preferred: Sequence[str]
    other: Sequence[str]


class TfIdf:
    """Words of a text, weighted by (1 + log count) x idf, of length 1, projected."""

    def __init__(self, words: Sequence[str], weights: FloatArray, projections: dict[Kind, FloatArray]) -> None:
        self._words, self._weights, self._projections = list(words), weights, projections
        self._places = {word: index for index, word in enumerate(words)}

    @classmethod
    def fit(cls, training: TrainingTexts, *, width: int, seed: int) -> "TfIdf":
        """Return the features fitted on some texts, at most `width` dimensions."""
        every = list(dict.fromkeys([*training.texts, *training.preferred, *training.other]))
        words, weights = _vocabulary(every)
        if not words:
            raise ModelError("tfidf: found no word in the training texts, wanted pairs with text in them")
        blank = cls(words, weights, {})
        chosen = np.unique(np.linspace(0, len(training.preferred) - 1, _PAIRS).astype(int))
        sides = ([side[index] for index in chosen] for side in (training.preferred, training.other))
        preferred, other = (blank.weighed(side) for side in sides)
        answers = _dimensions(preferred - other, width, seed)
        rest = _dimensions(blank.weighed(list(dict.fromkeys(training.texts))), width, seed)
        most = max(answers.shape[1], rest.shape[1])
        return cls(words, weights, {"answer": _widened(answers, most), "text": _widened(rest, most)})

    @property
    def identity(self) -> str:
        """The hash of vocabulary, weights and projections."""
        arrays = [self._weights, *(self._projections[kind] for kind in sorted(self._projections))]
        # As `digest` has it of their hexadecimal digits, in a third of the time: a fit is opened for each process.
        hashes = (hashlib.sha256(b'"%b"' % hexlify(array.tobytes())).hexdigest() for array in arrays)
        return digest([self._words, *hashes])

    @property
    def rule(self) -> Literal["joined"]:
        """A question and its answer are one text."""
        return "joined"

    def count(self, texts: Sequence[Text]) -> tuple[int, int]:
        """Return how many distinct texts there are, and 0: words are counted to a text's end."""
        return len(set(texts)), 0

    def vectors(self, texts: Sequence[Text], kind: Kind) -> FloatArray:
        """Return one row per text."""
        return np.asarray(self.weighed([joined(text) for text in texts]) @ self._projections[kind], dtype=np.float32)

    def weighed(self, texts: Sequence[str]) -> "csr_matrix":
        """Return the weighted words of each text, rows of length 1 (or 0)."""
        from scipy.sparse import csr_matrix

        columns: list[int] = []
        counts: list[int] = []
        ends = [0]
        for text in texts:
            places = map(self._places.get, _WORD.findall(text.lower()))
            counter = Counter(index for index in places if index is not None)
            columns += counter
            counts += counter.values()
            ends.append(len(columns))
        data = (1 + np.log(np.array(counts, np.float64))) * self._weights[columns]
        squares = data**2
        for start, end in pairwise(ends):
            data[start:end] /= np.sqrt(squares[start:end].sum()) or 1.0
        return csr_matrix((data, columns, ends), shape=(len(texts), len(self._words)), dtype=np.float32)

    def save(self, folder: Path) -> None:
        """Write words, weights and projections."""
        from safetensors.numpy import save_file

        replace_file(folder / _WORDS_FILE, json.dumps(self._words, ensure_ascii=False))
        arrays = {"weights": self._weights}
        arrays |= {f"projection.{kind}": projection for kind, projection in self._projections.items()}
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / _ARRAYS_FILE)

    @classmethod
    def load(cls, folder: Path) -> "TfIdf":
        """Return what `save` wrote."""
        from safetensors.numpy import load_file

        words = read_json(folder / _WORDS_FILE, label="personal")
        arrays = load_file(folder / _ARRAYS_FILE)
        kinds: tuple[Kind, ...] = ("answer", "text")
        return cls(cast("list[str]", words), arrays["weights"], {kind: arrays[f"projection.{kind}"] for kind in kinds})


def _widened(projection: FloatArray, width: int) -> FloatArray:
    """Return a projection with dimensions that are always 0 at its end: all texts have vectors of one width."""
    return np.pad(projection, ((0, 0), (0, width - projection.shape[1])))


def _vocabulary(texts: Sequence[str]) -> tuple[list[str], FloatArray]:
    """Return the words of at least two texts, in order, and ln((1 + texts) / (1 + texts with the word)) + 1 of each."""
    counter: Counter[str] = Counter()
    for text in texts:
        counter.update(set(_WORD.findall(text.lower())))
    often = sorted((word for word, count in counter.items() if count > 1), key=lambda word: (-counter[word], word))
    words = sorted(often[:_WORDS])
    weights = np.log((1 + len(texts)) / (1 + np.array([counter[word] for word in words], np.float64))) + 1
    return words, weights.astype(np.float32)


def _dimensions(rows: "csr_matrix", width: int, seed: int) -> FloatArray:
    """Return (words, dimensions): the right singular vectors of the largest singular values, none of value 0.

    Each is turned so that its largest entry is positive: which of the two directions comes first is an accident.
    """
    from sklearn.utils.extmath import randomized_svd

    most = min(width, *rows.shape)
    if not rows.nnz:
        return np.zeros((rows.shape[1], 1), np.float32)
    _, values, right = randomized_svd(rows, most, random_state=seed, n_iter=4, flip_sign=False)
    basis = right[values > 1e-6 * values[0]]
    signs = np.sign(basis[np.arange(len(basis)), np.abs(basis).argmax(axis=1)])
    return np.ascontiguousarray((basis * signs[:, None]).T, dtype=np.float32)


FORMS: Mapping[str, Form] = {
    "tfidf": Form("optional"),
    "embed": Form("required", ("pooling", "similarity")),
    "hf": Form("required", ("device", "dtype", "pool")),
}


Rule = Literal["joined", "apart"]
"""How an embedding model reads an answer: behind its question as one text, cut where the model's window ends (folders
that were fitted before this was declared), or apart from the question, both to their ends."""


# ---------------------------------------------------------------- features of every kind


class FeatureMap(Protocol):
    """Texts to vectors."""

    @property
    def rule(self) -> Rule:
        """How an answer is read; `joined` cuts nothing where the features read texts of any length."""
        ...

    @property
    def identity(self) -> str:
        """What shapes every vector, as a hash."""
        ...

    def vectors(self, texts: Sequence[Text], kind: Kind) -> FloatArray:
        """Return one row per text: answers with their questions, or texts that answer nothing."""
        ...

    def count(self, texts: Sequence[Text]) -> tuple[int, int]:
        """Return how many distinct texts are read, and how many of them are longer than the model's window.

        By `apart` questions and answers count by themselves.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write what was fitted; a model that is a folder of its own is named, not copied."""
        ...


def parse_features(text: str) -> Spec:
    """Return the parsed spec of features; unknown kinds and keys name the nearest known ones."""
    spec = parse(text, FORMS, noun="feature")
    if spec.kind == "tfidf" and spec.target:
        whole_number(spec.target, "tfidf:WIDTH", least=1)
    return spec


def fit_features(spec: Spec, training: TrainingTexts, *, seed: int, cache: Path | None) -> FeatureMap:
    """Return the features of a spec; TF-IDF is fitted, a model is opened."""
    if spec.kind == "tfidf":
        return TfIdf.fit(training, width=int(spec.target or WIDTH), seed=seed)
    return _open(spec, cache, "apart")


def load_features(spec: Spec, folder: Path, cache: Path | None, *, rule: Rule = "apart") -> FeatureMap:
    """Return the features that a folder was fitted with, which read answers by the rule that the folder declares."""
    return TfIdf.load(folder) if spec.kind == "tfidf" else _open(spec, cache, rule)


def _open(spec: Spec, cache: Path | None, rule: Rule) -> FeatureMap:
    if spec.kind == "embed":
        return Embedded(spec, cache, rule)
    try:
        import torch  # noqa: F401 - tried here
        import transformers  # noqa: F401 - tried here
    except ImportError as exc:
        raise MissingExtraError("features hf:", "hf") from exc
    return HiddenStates(spec, cache)


class Embedded:
    """What an embedding model makes of a text that is to be found, as `by=embed:MODEL` has it.

    By the rule `apart` the vector of an answer is the mean of two, its question's and its own: two answers to one
    question then differ as much behind a long question as behind a short one, and all vectors lie in one space.
    """

    def __init__(self, spec: Spec, cache: Path | None, rule: Rule = "apart") -> None:
        pooling, similarity = (spec.options.get(key) for key in ("pooling", "similarity"))
        self._encoder = Encoder(EmbeddingModel(spec.target, pooling, similarity), cache)  # type: ignore[arg-type]
        self.rule: Rule = rule

    @property
    def identity(self) -> str:
        """The hash of the model's files, its pooling, and the rule where it is not the first one."""
        return self._encoder.identity if self.rule == "joined" else f"{self._encoder.identity}:{self.rule}"

    def vectors(self, texts: Sequence[Text], kind: Kind) -> FloatArray:  # noqa: ARG002 - one space for all texts
        """Return one row per text."""
        if not texts:
            return np.zeros((0, 0), np.float32)
        parts = [self._parts(text) for text in texts]
        every = (part for some in parts for part in some)
        read = self._encoder.vectors if self.rule == "joined" else self._encoder.whole
        vectors = read(every, "document")
        rows = [np.mean([vectors[part] for part in some], axis=0, dtype=np.float64) for some in parts]
        return np.stack(rows).astype(np.float32)

    def count(self, texts: Sequence[Text]) -> tuple[int, int]:
        """Return how many distinct texts are read, and how many of them take more than one window."""
        windows = self._encoder.windows((part for text in texts for part in self._parts(text)), "document")
        return len(windows), sum(len(pieces) > 1 for pieces in windows.values())

    def save(self, folder: Path) -> None:
        """Write nothing: the model is a folder of its own."""

    def _parts(self, text: Text) -> tuple[str, ...]:
        return (joined(text),) if self.rule == "joined" or isinstance(text, str) else tuple(text)


_POOLS, _DTYPES = ("mean", "last"), ("float32", "bfloat16", "float16")
_TOGETHER = 256
"""Vectors per write: what a kill may lose."""


class HiddenStates:
    """Vectors of `hf:FOLDER[,pool=mean|last][,dtype=...][,device=...]`; weights are loaded for the first new text.

    From any local model of transformers: the mean, or the last, of its last hidden states over a text's tokens. The
    text is read as it is, without a chat template, one at a time and without padding.
    """

    def __init__(self, spec: Spec, cache: Path | None) -> None:
        import torch

        from pluralrm.models.neural.folder import open_folder

        self._pool, self._dtype = spec.options.get("pool", "mean"), spec.options.get("dtype", "float32")
        for key, value, choices in (("pool", self._pool, _POOLS), ("dtype", self._dtype, _DTYPES)):
            if value not in choices:
                options = " or ".join(choices)
                raise SpecError(f"features hf: {key} is {value!r}; wanted {options}.{did_you_mean(value, choices)}")
        self._device = spec.options.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
        self._folder = open_folder(spec.target, kind="hf")
        self._hash = self._folder.hash()
        self._cache = VectorCache(cache)
        self._loaded: _Loaded | None = None

    @property
    def identity(self) -> str:
        """The hash of the model's files, what is taken of its states, and their precision."""
        return digest([self._hash, self._pool, self._dtype])

    @property
    def rule(self) -> Literal["joined"]:
        """A question and its answer are one text."""
        return "joined"

    def count(self, texts: Sequence[Text]) -> tuple[int, int]:
        """Return how many distinct texts there are, and 0: a text that is too long is refused."""
        return len(set(texts)), 0

    def vectors(self, texts: Sequence[Text], kind: Kind) -> FloatArray:  # noqa: ARG002 - one space for all texts
        """Return one row per text."""
        return self._vectors([joined(text) for text in texts])

    def _vectors(self, texts: Sequence[str]) -> FloatArray:
        keys = {text: bytes.fromhex(digest(["hidden", self.identity, text])) for text in dict.fromkeys(texts)}
        rows = self._cache.get(list(keys.values()))
        vectors = {text: rows[key] for text, key in keys.items() if key in rows}
        new = [text for text in keys if text not in vectors]
        for start in range(0, len(new), _TOGETHER):
            some = {text: self._vector(text) for text in new[start : start + _TOGETHER]}
            self._cache.put({keys[text]: vector for text, vector in some.items()})
            vectors.update(some)
        return np.stack([vectors[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def save(self, folder: Path) -> None:
        """Write nothing: the model is a folder of its own."""

    def _vector(self, text: str) -> FloatArray:
        self._loaded = self._loaded or _Loaded(self._folder, self._device, self._dtype)
        states = self._loaded.states(text)
        vector: FloatArray = (states.mean(dim=0) if self._pool == "mean" else states[-1]).float().cpu().numpy()
        if not np.isfinite(vector).all():
            raise ModelError(f"features hf:{self._folder.name}: a hidden state is not finite; try dtype=float32")
        return vector


class _Loaded:
    """The model without its head, and its tokenizer."""

    def __init__(self, folder: "ModelFolder", device: str, dtype: str) -> None:
        import torch
        import transformers

        self._name, self._device = folder.name, device
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder.path), local_files_only=True)
            self._model = transformers.AutoModel.from_pretrained(
                str(folder.path), dtype=getattr(torch, dtype), use_safetensors=True, local_files_only=True
            )
        except Exception as exc:  # of damaged files the libraries raise anything
            raise ModelError(f"features hf:{folder.name}: cannot be loaded: {str(exc).strip()[:300]}") from exc
        self._model.eval().to(device)

    def states(self, text: str) -> "torch.Tensor":
        """Return the last hidden states, (tokens, width); a text that is too long for the model is a ModelError."""
        import torch

        ids = self._tokenizer(text)["input_ids"] or [self._tokenizer.eos_token_id or 0]
        most = getattr(self._model.config, "max_position_embeddings", None)
        if most is not None and len(ids) > most:
            raise ModelError(
                f"features hf:{self._name}: a text has {len(ids)} tokens and the model takes {most}; nothing is cut. "
                "Use a model that reads more"
            )
        with torch.inference_mode():
            states: torch.Tensor = self._model(input_ids=torch.tensor([ids], device=self._device)).last_hidden_state[0]
        return states


_AT_ONCE = 1024
"""Texts turned into vectors at a time: what is held in memory beside the matrix."""


class _Rows:
    """Gives each distinct text the place of its row; texts of one kind are rows of one kind."""

    def __init__(self) -> None:
        self.places: dict[tuple[Kind, Text], int] = {}

    def of(self, kind: Kind, texts: Sequence[Text]) -> Places:
        """Return the places of some texts."""
        places = [self.places.setdefault((kind, text), len(self.places)) for text in texts]
        return np.array(places, np.int64)

    def vectors(self, features: FeatureMap, start: int, end: int) -> FloatArray:
        """Return the rows from one place to another."""
        some = list(islice(self.places, start, end))
        of_kind: dict[Kind, list[int]] = {}
        for index, (kind, _) in enumerate(some):
            of_kind.setdefault(kind, []).append(index)
        parts = [(places, features.vectors([some[p][1] for p in places], kind)) for kind, places in of_kind.items()]
        matrix = np.empty((len(some), parts[0][1].shape[1]), np.float32)
        for places, vectors in parts:
            matrix[places] = vectors
        return matrix


def training_texts(users: Sequence[User]) -> TrainingTexts:
    """Return every text of some users, for features that are fitted."""
    pairs = [pair for user in users for pair in user.preferences]
    posts = [post.text for user in users for post in user.posts]
    return TrainingTexts(
        [*posts, *(pair.prompt for pair in pairs)],
        [joined(AnswerText(pair.prompt, pair.preferred)) for pair in pairs],
        [joined(AnswerText(pair.prompt, pair.other)) for pair in pairs],
    )


def all_texts(users: Sequence[User]) -> list[Text]:
    """Return every text that becomes a vector, each once: posts, questions, answers."""
    texts: dict[Text, None] = {}
    for user in users:
        texts.update(dict.fromkeys(post.text for post in user.posts))
        for pair in user.preferences:
            texts.update(
                dict.fromkeys(
                    [pair.prompt, AnswerText(pair.prompt, pair.preferred), AnswerText(pair.prompt, pair.other)]
                )
            )
    return list(texts)


def examples_on_disk(users: Sequence[User], features: FeatureMap, file: Path) -> Examples:
    """Return the users' posts and pairs as rows of a matrix, which is written to a file and read from there."""
    rows = _Rows()
    placed = [_placed(user.id, [post.text for post in user.posts], user.preferences, rows) for user in users]
    matrix: FloatArray | None = None
    for start in range(0, len(rows.places), _AT_ONCE):
        some = rows.vectors(features, start, start + _AT_ONCE)
        if matrix is None:
            shape = (len(rows.places), some.shape[1])
            matrix = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
            reserve(file)
        matrix[start : start + len(some)] = some
    return Examples(np.zeros((0, 1), np.float32) if matrix is None else matrix, placed)


def examples_of(view: UserView, features: FeatureMap, width: int) -> UserExamples:
    """Return what a query shows of its user as arrays."""
    rows = _Rows()
    placed = _placed(view.id, [post.text for post in view.posts], view.pairs, rows)
    if not rows.places:
        return nobody(width)
    return Examples(rows.vectors(features, 0, len(rows.places)), [placed])[0]


def _placed(user: str, posts: Sequence[str], pairs: Sequence[ContextPair], rows: _Rows) -> PlacedUser:
    return PlacedUser(
        user,
        rows.of("text", posts),
        rows.of("text", [pair.prompt for pair in pairs]),
        rows.of("answer", [AnswerText(pair.prompt, pair.preferred) for pair in pairs]),
        rows.of("answer", [AnswerText(pair.prompt, pair.other) for pair in pairs]),
    )

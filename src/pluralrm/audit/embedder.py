"""Texts to rows whose cosines say how much alike two texts are; rates of style, and sparse rows of words or letters.

embed:MODEL           an embedding model, as `by=embed:MODEL` has it; default: the packaged MiniLM (extra `embed`)
embed:MODEL,url=URL   one behind a server's /embeddings; the texts go there
letters               which groups of three and four letters a text has: the same wording, not the same meaning. No
                      model, no download, the same bits on every machine
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pluralrm.core import OPEN_KINDS, Failure
from pluralrm.digests import digest
from pluralrm.errors import ModelError, OutageError, SpecError, did_you_mean
from pluralrm.http import Call, Service, Settings, Tally, UnsoundError, parse_address
from pluralrm.retrieval import Encoder
from pluralrm.retrieval.encoder import PACKAGED, EmbeddingModel, Load, load_backend
from pluralrm.specs import Form, Spec, parse
from pluralrm.stats.clusters import FloatArray, IntArray

WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_SENTENCE_END = re.compile(r"[.!?…]+(?=\s|$)\s*|\n\s*")

# Counted per 100 words, so that length alone moves none of them.
_RATES: Mapping[str, re.Pattern[str]] = {
    "commas": re.compile(r","),
    "colons, semicolons": re.compile(r"[:;]"),
    "dashes, brackets": re.compile(r"[–—()\[\]]| - "),
    "quotation marks": re.compile(r"[\"“”«»]"),
    "question marks": re.compile(r"\?"),
    "exclamation marks": re.compile(r"!"),
    "digits": re.compile(r"\d"),
    "capitals": re.compile(r"[A-Z]"),
    "emphasis, headings": re.compile(r"\*\*|^#+ ", re.MULTILINE),
    "list lines": re.compile(r"^\s*(?:[-*•]|\(?\w{1,2}[.)])\s", re.MULTILINE),
    "line breaks": re.compile(r"\n+"),
    "contractions": re.compile(r"\w['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE),
    "first person": re.compile(r"\b(?:i|me|my|mine|we|us|our|ours)\b", re.IGNORECASE),
    "second person": re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE),
    "hedges": re.compile(
        r"\b(?:may|might|could|perhaps|maybe|possibly|probably|likely|usually|often|sometimes|generally|tend|tends"
        r"|seem|seems|consider|rather|somewhat|about)\b",
        re.IGNORECASE,
    ),
    "negations": re.compile(r"\b(?:no|not|never|nothing|none|without|avoid)\b|n['\u2019]t\b", re.IGNORECASE),
}

FEATURES: tuple[str, ...] = (
    "characters",
    "sentences",
    "words per sentence",
    "letters per word",
    "different words",
    *_RATES,
)
"""The names of the columns of `style`."""


def style(texts: Sequence[str]) -> FloatArray:
    """Return (texts, features); an empty text has zeros. Counts are on a log scale, where twice as many is one step."""
    return np.array([_numbers(text) for text in texts]).reshape(len(texts), len(FEATURES))


@lru_cache(maxsize=2**15)
def _numbers(text: str) -> tuple[float, ...]:
    words = WORD.findall(text)
    if not words:
        return (0.0,) * len(FEATURES)
    sentences = max(1, len(_SENTENCE_END.findall(text.rstrip())) + (text.rstrip()[-1] not in ".!?…"))
    rates = [100 * len(pattern.findall(text)) / len(words) for pattern in _RATES.values()]
    return (
        float(np.log(len(text))),
        float(np.log(sentences)),
        float(np.log(len(words) / sentences)),
        sum(map(len, words)) / len(words),
        # Guiraud's ratio: the share of different words falls with length, this hardly does.
        len({word.lower() for word in words}) / len(words) ** 0.5,
        *np.log1p(rates).tolist(),
    )


STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing done down during each either else even every few for from further had has have
    having he her here hers him his how however i if in into is isn't it it's its itself just least less let like
    may me might more most much must my near no nor not now of off on once one only onto or other our ours out over
    own per quite rather really same shall she should since so some such than that that's the their theirs them then
    there these they this those though through thus to too toward under until up upon us very was we were what when
    where whether which while who whom whose why will with within without would yes yet you your yours
    """.split()  # noqa: SIM905 - a table of words
)


class Incidence(NamedTuple):
    """Which text has what: (texts, p) of 0 and 1, and the name of each column."""

    values: sparse.csr_array
    names: tuple[str, ...]


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return WORD.findall(text.lower())


def content_words(text: str) -> set[str]:
    """Return the words that carry a topic: no function words, no single letters."""
    return {word for word in tokens(text) if len(word) > 1 and word not in STOP_WORDS}


def word_pairs(text: str) -> list[str]:
    """Return neighbouring words."""
    return [f"{first} {second}" for first, second in pairwise(tokens(text))]


def letter_groups(text: str) -> set[str]:
    """Return the groups of three and four characters within words; a word's ends count as spaces."""
    return {
        f" {word} "[start : start + size]
        for word in set(tokens(text))
        for size in (3, 4)
        for start in range(max(1, len(word) + 3 - size))
    }


def distinct(texts: Sequence[str]) -> tuple[list[str], IntArray]:
    """Return the texts once each, sorted, and where each of the given ones is among them."""
    unique = sorted(set(texts))
    index = {text: number for number, text in enumerate(unique)}
    return unique, np.array([index[text] for text in texts], dtype=np.intp)


def incidence(texts: Sequence[str], parts: Callable[[str], Iterable[str]]) -> Incidence:
    """Return which text has which part, columns in the order of their first text; no part at all gives no column."""
    columns: dict[str, int] = {}
    indices, ends = [], [0]
    for text in texts:
        indices.extend(sorted({columns.setdefault(part, len(columns)) for part in sorted(set(parts(text)))}))
        ends.append(len(indices))
    shape = (len(texts), len(columns))
    return Incidence(sparse.csr_array((np.ones(len(indices)), indices, ends), shape=shape), tuple(columns))


def weighted(texts: Sequence[str]) -> sparse.csr_array:
    """Return rows of length 1: 1 + log(count) of each word times its inverse document frequency; 0 without words."""
    columns: dict[str, int] = {}
    indices, counts, ends = [], [], [0]
    for text in texts:
        for word, count in sorted(Counter(tokens(text)).items()):
            indices.append(columns.setdefault(word, len(columns)))
            counts.append(count)
        ends.append(len(indices))
    rows = sparse.csr_array((1 + np.log(counts), indices, ends), shape=(len(texts), len(columns)))
    frequency = np.bincount(indices, minlength=len(columns))
    rows = rows.multiply(np.log((1 + len(texts)) / (1 + frequency)) + 1).tocsr()
    return unit_rows(rows)


def unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Return the rows divided by their lengths; an empty row stays empty."""
    size = np.sqrt(rows.multiply(rows).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1 / np.where(size > 0, size, 1)) @ rows)


def latent(texts: Sequence[str], dimensions: int, seed: int) -> FloatArray:
    """Return (texts, dimensions or fewer): the strongest singular directions of the weighted words."""
    from sklearn.utils.extmath import randomized_svd

    rows = weighted(texts)
    if not rows.nnz:
        return np.zeros((len(texts), 1))
    left, strengths, _ = randomized_svd(rows, min(dimensions, *rows.shape), random_state=seed)
    coordinates: FloatArray = left * strengths
    return coordinates


def products(rows: sparse.csr_array, first: IntArray, second: IntArray) -> FloatArray:
    """Return the inner product of each row in `first` with the row at the same place in `second`."""
    values: FloatArray = rows[first].multiply(rows[second]).sum(axis=1)
    return values


Rows = NDArray[np.float32]

DEFAULT = f"embed:{PACKAGED}"
FORMS: Mapping[str, Form] = {
    "embed": Form("required", ("key", "pooling", "revision", "similarity", "url")),
    "letters": Form(),
}
_PATH = "/embeddings"
_LARGEST = float(np.finfo(np.float32).max)
_WIDTH = 1024


class Embedder(Protocol):
    """Texts to rows. A row depends on its text alone, never on what stands beside it."""

    @property
    def spec(self) -> str:
        """The string that names it."""
        ...

    @property
    def identity(self) -> str:
        """What shapes every row: the hash of the weights, or what is known of a server's model."""
        ...

    def rows(self, texts: Sequence[str]) -> Rows:
        """Return (texts, d), a row of length 1 for each text, in order; zeros where a text has nothing to go by."""
        ...


def open_embedder(
    text: str = DEFAULT, *, cache: Path | None = None, settings: Settings | None = None, load: Load = load_backend
) -> Embedder:
    """Return the embedder that a spec names. `cache` keeps the vectors of a local model, `settings` a server's."""
    kind = text.strip().partition(",")[0].partition(":")[0]
    if kind not in FORMS:
        raise SpecError(f"unknown embedder {kind!r}; wanted embed:MODEL or letters.{did_you_mean(kind, FORMS)}")
    spec = parse(text, FORMS, noun="embedder")
    if spec.kind == "letters":
        return Letters()
    if "url" in spec.options:
        return ServedEmbedder(spec, settings)
    if unused := [key for key in ("key", "revision") if key in spec.options]:
        raise SpecError(f"{text}: {unused[0]}= has a meaning only with url=URL")
    return PackagedEmbedder(spec, cache, load)


def unit(rows: NDArray[np.floating]) -> Rows:
    """Return the rows divided by their lengths; a row of zeros stays one."""
    exact = rows.astype(np.float64)
    size = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    return (exact / np.where(size > 0, size, 1.0)).astype(np.float32)


class PackagedEmbedder:
    """A model in a folder, with a memory on disk."""

    def __init__(self, spec: Spec, cache: Path | None, load: Load) -> None:
        self.spec = str(spec)
        pooling, similarity = spec.options.get("pooling"), spec.options.get("similarity")
        model = EmbeddingModel(spec.target, pooling, similarity)  # type: ignore[arg-type] # opening it refuses others
        self._encoder = Encoder(model, cache, load=load)

    @property
    def identity(self) -> str:
        """The hash of the model's files, and its pooling."""
        return self._encoder.identity

    def rows(self, texts: Sequence[str]) -> Rows:
        """Return one row per text; a text that is known is not embedded again."""
        vectors = self._encoder.vectors(texts, "document")
        return _rows(texts, lambda text: vectors[text])


class ServedEmbedder:
    """A model behind an OpenAI-compatible server. One text a request: what is asked beside it cannot change a reply."""

    def __init__(self, spec: Spec, settings: Settings | None) -> None:
        if local := [key for key in ("pooling", "similarity") if key in spec.options]:
            raise SpecError(f"{spec}: {local[0]}= has a meaning only without url=, the server has its own")
        self.spec, self._model = str(spec), spec.target
        self._marks = {"revision": spec.options.get("revision", "")}
        address = parse_address(spec.options["url"])
        self.identity = digest([address.url, self._model, self._marks])
        self._service = Service(address, settings, model=self._model, key=spec.options.get("key"))

    @property
    def tally(self) -> Tally:
        """What was asked so far, and what it cost."""
        return self._service.tally

    def rows(self, texts: Sequence[str]) -> Rows:
        """Return one row per text; OutageError where the server gives none."""
        some = list(dict.fromkeys(texts))
        calls = (Call(_PATH, {"model": self._model, "input": text}, self._marks, public=True) for text in some)
        with closing(self._service.replies(calls, _read)) as replies:
            vectors = {
                text: self._refused(reply) if isinstance(reply, Failure) else np.array(reply.content, np.float64)
                for text, reply in zip(some, replies, strict=True)
            }
        if len(widths := sorted({len(vector) for vector in vectors.values()})) > 1:
            raise ModelError(f"{self.spec}: vectors of {widths[0]} and of {widths[-1]} numbers; wanted one length")
        return _rows(texts, lambda text: vectors[text])

    def _refused(self, failure: Failure) -> NDArray[np.float64]:
        kind = OutageError if failure.kind in OPEN_KINDS else ModelError
        raise kind(f"{self.spec}: no vector ({failure.kind}: {failure.detail})")


def _read(value: object) -> list[float]:
    """Return the only vector of a reply."""
    data = value.get("data") if isinstance(value, dict) else None
    if not (isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict)):
        raise UnsoundError("the reply has no list 'data' with one object")
    numbers = data[0].get("embedding")
    if not (isinstance(numbers, list) and numbers and all(type(number) in {int, float} for number in numbers)):
        raise UnsoundError("the reply's 'embedding' is no list of numbers")
    if not all(abs(number) <= _LARGEST for number in numbers):  # false for one that is not a number
        raise UnsoundError("a number of the reply's 'embedding' is not finite in float32")
    return numbers


class Letters:
    """Groups of letters, each on one of _WIDTH places, up or down by its checksum: collisions cancel on average."""

    spec = "letters"
    identity = f"letters:{_WIDTH}"

    def rows(self, texts: Sequence[str]) -> Rows:
        """Return one row per text; zeros where it has no word."""
        return _rows(texts, _letters)


def _letters(text: str) -> NDArray[np.float64]:
    marks = np.array([_mark(group) for group in sorted(letter_groups(text))], np.int64)
    row = np.zeros(_WIDTH)
    np.add.at(row, marks % _WIDTH, np.where(marks >> 31, -1.0, 1.0))
    return row


@lru_cache(maxsize=2**17)
def _mark(group: str) -> int:
    return zlib.crc32(group.encode("utf-8", "surrogatepass"))


def _rows(texts: Sequence[str], vector: Callable[[str], NDArray[np.floating]]) -> Rows:
    return unit(np.stack([vector(text) for text in texts])) if texts else np.zeros((0, 0), np.float32)

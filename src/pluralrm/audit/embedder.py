"""Texts to rows whose cosines say how much alike two texts are.

embed:MODEL           an embedding model, as `by=embed:MODEL` has it; default: the packaged MiniLM (extra `embed`)
embed:MODEL,url=URL   one behind a server's /embeddings; the texts go there
letters               which groups of three and four letters a text has: the same wording, not the same meaning. No
                      model, no download, the same bits on every machine
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pluralrm.audit.vectors import letter_groups
from pluralrm.core import OPEN_KINDS, Failure, digest
from pluralrm.errors import ModelError, OutageError, SpecError, did_you_mean
from pluralrm.http import Call, Service, Settings, Tally, UnsoundError, parse_address
from pluralrm.retrieval import Encoder
from pluralrm.retrieval.encoder import Load, load_backend
from pluralrm.retrieval.folder import PACKAGED, EmbeddingModel
from pluralrm.specs import Form, Spec, parse

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
        known = self._encoder.vectors(texts, "document")
        return _rows(texts, lambda text: known[text])


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
            known = {
                text: self._refused(reply) if isinstance(reply, Failure) else np.array(reply.content, np.float64)
                for text, reply in zip(some, replies, strict=True)
            }
        if len(widths := sorted({len(vector) for vector in known.values()})) > 1:
            raise ModelError(f"{self.spec}: vectors of {widths[0]} and of {widths[-1]} numbers; wanted one length")
        return _rows(texts, lambda text: known[text])

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

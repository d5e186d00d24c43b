"""The one place where an embedding model runs; it is imported with the first text that has no vector yet."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from pluralrm.errors import MissingExtraError, ModelError
from pluralrm.retrieval.folder import EXTRA, ModelFolder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    from pluralrm.retrieval.encoder import Role

_BUDGETS = {"cpu": 2048}
"""Tokens per batch: on a CPU more tokens fall out of its caches, which costs more than a call."""
_BUDGET_ELSEWHERE = 32_768


class SentenceBackend:
    """A sentence-transformers model in float32, on a GPU where there is one."""

    def __init__(self, folder: ModelFolder) -> None:
        try:
            from safetensors import SafetensorError
            from sentence_transformers import SentenceTransformer
        except ImportError as exc:
            raise MissingExtraError("embed ranking", EXTRA) from exc
        try:
            with _quietly():
                self._model = _loaded(SentenceTransformer, folder)
        except (ImportError, KeyError, OSError, RuntimeError, SafetensorError, ValueError) as exc:
            raise ModelError(f"embed:{folder.name}: cannot be loaded: {str(exc).strip()[:300]}") from exc

    @property
    def budget(self) -> int:
        """Tokens per batch at which this device is quickest."""
        return _BUDGETS.get(self._model.device.type, _BUDGET_ELSEWHERE)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, as far as the model reads it."""
        longest = self._model.max_seq_length
        encoded = self._model.tokenizer(list(texts), truncation=longest is not None, max_length=longest, padding=False)
        return [len(ids) for ids in encoded["input_ids"]]

    def encode(self, texts: Sequence[str], role: "Role") -> "NDArray[np.float32]":
        """Return one row per text, with the model's own prompt for the role, computed in one batch."""
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        rows = encode(list(texts), batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True)
        return cast("NDArray[np.float32]", rows)


def _loaded(make: "type[SentenceTransformer]", folder: ModelFolder) -> "SentenceTransformer":
    model = make(
        str(folder.path),
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"use_safetensors": True},
    )
    if folder.pooling is not None:
        # The library has put a pooling of its own choice behind a plain encoder; the declared one takes its place.
        transformer, pooling = model[0], type(model[1])
        width = model.encode(["width"], show_progress_bar=False).shape[1]
        model = make(modules=[transformer, pooling(width, pooling_mode=folder.pooling)])
    return model.float().eval()


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the loader's own progress bar out of ours."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()

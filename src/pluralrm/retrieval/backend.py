"""The one place where an embedding model runs; it is imported with the first text that has no vector yet."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from pluralrm.errors import MissingExtraError, ModelError
from pluralrm.folders import panics_are_errors
from pluralrm.retrieval.encoder import EXTRA, EmbeddingFolder

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    from pluralrm.retrieval.encoder import Role

    Features = Mapping[str, torch.Tensor]
    Vectors = NDArray[np.float32]

_BUDGETS = {"cpu": 1024}
"""Tokens per batch: on a CPU more tokens fall out of its caches, which costs more than a call."""
_BUDGET_ELSEWHERE = 32_768
_STREAMS = 16
"""Batches at a time on a CPU, at most: each holds its own activations."""


class SentenceBackend:
    """A sentence-transformers model in float32, on a GPU where there is one."""

    def __init__(self, folder: EmbeddingFolder) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as exc:
            raise MissingExtraError("embed ranking", EXTRA) from exc
        try:
            with _quietly():
                self._model = _loaded(SentenceTransformer, folder)
        except Exception as exc:  # of damaged files the libraries raise anything
            raise ModelError(f"embed:{folder.name}: cannot be loaded: {str(exc).strip()[:300]}") from exc

    @property
    def budget(self) -> int:
        """Tokens per batch at which this device is quickest."""
        return _BUDGETS.get(self._model.device.type, _BUDGET_ELSEWHERE)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, as far as the model reads it."""
        longest = self._model.max_seq_length
        cut = longest is not None
        with panics_are_errors(ModelError):
            encoded = self._model.tokenizer(list(texts), truncation=cut, max_length=longest, padding=False)
        return [len(ids) for ids in encoded["input_ids"]]

    def fits(self, texts: Sequence[str], role: "Role") -> list[bool]:
        """Return whether the model reads each text to its end, behind its own prompt for the role."""
        longest = self._model.max_seq_length
        if longest is None:
            return [True] * len(texts)
        prompt = self._model.prompts.get(role) or ""
        read = [prompt + text for text in texts]
        with panics_are_errors(ModelError):
            encoded = self._model.tokenizer(read, truncation=False, padding=False, verbose=False)
        return [len(ids) <= longest for ids in encoded["input_ids"]]

    def encode(self, batches: Iterable[Sequence[str]], role: "Role") -> "Iterator[Vectors]":
        """Yield one array per batch, one row per text, in order; with the model's own prompt for the role."""
        prompt = self._model.prompts.get(role) or None
        features = (self._model.preprocess(list(batch), prompt=prompt, task=role) for batch in batches)
        if self._model.device.type == "cpu":
            yield from self._side_by_side(features)
        else:
            yield from map(self._forward, features)

    def _side_by_side(self, features: "Iterable[Features]") -> "Iterator[Vectors]":
        """Yield the arrays of batches that run beside each other, one thread for each.

        Threads that share one small batch wait for each other at every layer: all of them for the slowest, which on a
        machine with other work is slow indeed.
        """
        import torch

        before = torch.get_num_threads()
        waiting: deque[Future[Vectors]] = deque()
        try:
            with ThreadPoolExecutor(min(before, _STREAMS), initializer=torch.set_num_threads, initargs=(1,)) as pool:
                for batch in features:
                    waiting.append(pool.submit(self._forward, batch))
                    if len(waiting) > 2 * before:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
        finally:
            torch.set_num_threads(before)  # the workers' setting is also the default of threads to come

    def _forward(self, features: "Features") -> "Vectors":
        import torch

        placed = {
            name: value.to(self._model.device) if isinstance(value, torch.Tensor) else value
            for name, value in features.items()
        }
        with torch.inference_mode():
            return cast("Vectors", self._model(placed)["sentence_embedding"].cpu().numpy())


def _loaded(make: "type[SentenceTransformer]", folder: EmbeddingFolder) -> "SentenceTransformer":
    model = make(
        str(folder.path), trust_remote_code=False, local_files_only=True, model_kwargs={"use_safetensors": True}
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

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()

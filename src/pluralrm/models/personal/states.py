"""Features from any local model of transformers: the mean, or the last, of its last hidden states over a text's tokens.

The text is read as it is, without a chat template. One text at a time and without padding, so that a vector depends on
its text alone; vectors are kept on disk under the hash of the model's files, its settings and the text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import transformers

from pluralrm.digests import digest
from pluralrm.errors import ModelError, SpecError, did_you_mean
from pluralrm.models.neural.folder import ModelFolder, open_folder
from pluralrm.models.personal.examples import FloatArray
from pluralrm.models.personal.features import Kind, Text, joined
from pluralrm.retrieval.encoder import VectorCache
from pluralrm.specs import Spec

_POOLS = ("mean", "last")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_TOGETHER = 256
"""Vectors per write: what a kill may lose."""


class HiddenStates:
    """Vectors of `hf:FOLDER[,pool=mean|last][,dtype=...][,device=...]`; weights are loaded for the first new text."""

    def __init__(self, spec: Spec, cache: Path | None) -> None:
        self._pool, self._dtype = spec.options.get("pool", "mean"), spec.options.get("dtype", "float32")
        for key, value, choices in (("pool", self._pool, _POOLS), ("dtype", self._dtype, tuple(_DTYPES))):
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
        self._loaded = self._loaded or _Loaded(self._folder, self._device, _DTYPES[self._dtype])
        states = self._loaded.states(text)
        vector: FloatArray = (states.mean(dim=0) if self._pool == "mean" else states[-1]).float().cpu().numpy()
        if not np.isfinite(vector).all():
            raise ModelError(f"features hf:{self._folder.name}: a hidden state is not finite; try dtype=float32")
        return vector


class _Loaded:
    """The model without its head, and its tokenizer."""

    def __init__(self, folder: ModelFolder, device: str, dtype: torch.dtype) -> None:
        self._name, self._device = folder.name, device
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder.path), local_files_only=True)
            self._model = transformers.AutoModel.from_pretrained(
                str(folder.path), dtype=dtype, use_safetensors=True, local_files_only=True
            )
        except Exception as exc:  # of damaged files the libraries raise anything
            raise ModelError(f"features hf:{folder.name}: cannot be loaded: {str(exc).strip()[:300]}") from exc
        self._model.eval().to(device)

    def states(self, text: str) -> torch.Tensor:
        """Return the last hidden states, (tokens, width); a text that is too long for the model is a ModelError."""
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

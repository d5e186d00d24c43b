"""Weights into memory: safetensors only, no code but what the user named, every weight of the head from the folder.

Encoders, families without a row in `families.py` and rewards that are exposed differently are called as a whole.
"""

import inspect
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from pluralrm.errors import ModelError, SpecError
from pluralrm.folders import stored_tensors
from pluralrm.models.neural import attention
from pluralrm.models.neural.engine import Calculator, DecoderNetwork, Engine, HeadReader, LogProbReader, Values
from pluralrm.models.neural.families import Family, depends_on_company, family, make_lean, window
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.passes import Group, Packed, Padded
from pluralrm.models.neural.trees import StateRequest
from pluralrm.specs import Spec

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# ---------------------------------------------------------------- models that are called as a whole


_GROUPS_AT_ONCE = 64
_TOKENS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Exposure:
    """Where a model's own forward pass puts the reward."""

    output: Literal["logits", "score", "first"] = "logits"
    """The attribute of its output; `first` is the first element, whatever its name."""
    append: int | None = None
    """A token that the model wants at the end, such as InternLM2's reward token."""
    custom: bool = False
    """True where the architecture is code of the folder's own, reached through AutoModel."""


PLAIN = Exposure()


class WholeHead:
    """Calls a model with ids and an attention mask; pooling is the model's own."""

    def __init__(self, model: torch.nn.Module, exposure: Exposure = PLAIN, *, budget: int | None = None) -> None:
        self._model = model
        self._exposure = exposure
        self._budget = budget or _TOKENS_AT_ONCE
        self._device = next(model.parameters()).device
        self._pad: int | None = model.config.pad_token_id
        self._names = inspect.signature(model.forward).parameters

    @property
    def dtype(self) -> str:
        """How numbers are held, such as `float32`."""
        return str(next(self._model.parameters()).dtype).removeprefix("torch.")

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array (1, labels) per ask; whatever position an ask names, the model pools."""
        stream = iter(groups)
        while several := list(islice(stream, _GROUPS_AT_ONCE)):
            scores = self._scores({_key(ask): ask for group in several for ask in group})
            for group in several:
                yield [scores[_key(ask)] for ask in group]

    def _scores(self, asks: dict[tuple[object, ...], StateRequest]) -> dict[tuple[object, ...], NDArray[np.float64]]:
        scores: dict[tuple[object, ...], NDArray[np.float64]] = {}
        for batch in self._batches(list(asks.values())):
            with torch.inference_mode():
                rows = self._forward(batch).double().cpu().numpy()
            scores |= {_key(ask): row[None] for ask, row in zip(batch, rows, strict=True)}
        return scores

    def _batches(self, asks: Sequence[StateRequest]) -> Iterator[list[StateRequest]]:
        batch: list[StateRequest] = []
        for ask in sorted(asks, key=lambda ask: (-len(ask.ids), ask.ids)):
            # Without a pad token a model cannot tell where a shorter sequence of a batch ends.
            if batch and (self._pad is None or (len(batch) + 1) * len(batch[0].ids) > self._budget):
                yield batch
                batch = []
            batch.append(ask)
        if batch:
            yield batch

    def _forward(self, batch: list[StateRequest]) -> torch.Tensor:
        """Return (sequences, labels)."""
        width = max(len(ask.ids) for ask in batch)
        pad = 0 if self._pad is None else self._pad
        ids = [[*ask.ids, *(pad for _ in range(width - len(ask.ids)))] for ask in batch]
        mask = [[int(index < len(ask.ids)) for index in range(width)] for ask in batch]
        inputs = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self._names and all(ask.second for ask in batch):
            inputs["token_type_ids"] = [[int(index >= ask.second) for index in range(width)] for ask in batch]
        output = self._model(**{name: torch.tensor(value, device=self._device) for name, value in inputs.items()})
        return self._reward(output).float().reshape(len(batch), -1)

    def _reward(self, output: object) -> torch.Tensor:
        if self._exposure.output == "first":
            return output[0]  # type: ignore[index]
        reward = getattr(output, self._exposure.output, None)
        if not isinstance(reward, torch.Tensor):
            raise ModelError(f"the model's output has no {self._exposure.output!r}; declare output=logits|score|first")
        return reward


class WholeLanguageModel:
    """Calls a language model with one sequence at a time, without padding."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._device = next(model.parameters()).device

    @property
    def dtype(self) -> str:
        """How numbers are held, such as `float32`."""
        return str(next(self._model.parameters()).dtype).removeprefix("torch.")

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array (wanted,) of log-probs per ask."""
        for group in groups:
            cache: dict[StateRequest, NDArray[np.float64]] = {}
            for ask in group:
                if ask not in cache:
                    cache[ask] = self._logprobs(ask)
            yield [cache[ask] for ask in group]

    def _logprobs(self, ask: StateRequest) -> NDArray[np.float64]:
        with torch.inference_mode():
            ids = torch.tensor([ask.needed], device=self._device)
            logits = self._model(input_ids=ids).logits[0, list(ask.wanted)].float()
            targets = torch.tensor(ask.targets, device=logits.device)[:, None]
            return np.asarray((logits.gather(1, targets)[:, 0] - logits.logsumexp(dim=1)).double().cpu())


def _key(ask: StateRequest) -> tuple[object, ...]:
    return ask.ids, ask.second


# ---------------------------------------------------------------- weights into memory


DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_STORED = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16"}


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How weights are held and computed. Left out: a GPU if there is one; float32 on a CPU, elsewhere as stored."""

    dtype: str = ""
    device: str = ""
    """`cpu`, `cuda`, `cuda:1`, or `map`: layers over all GPUs."""
    attn: str = ""
    """An attn_implementation of transformers; naming one turns packs off."""
    tokens: int | None = None
    """Tokens per pass."""


def settings(spec: Spec) -> LoadSettings:
    """Return the settings among a spec's keys; an unknown dtype is a SpecError."""
    dtype = spec.options.get("dtype", "")
    if dtype and dtype not in DTYPES:
        raise SpecError(f"{spec.kind}: dtype is {dtype!r}; wanted {', '.join(DTYPES)}")
    tokens = spec.integer("tokens", 0, least=1) if "tokens" in spec.options else None
    return LoadSettings(dtype, spec.options.get("device", ""), spec.options.get("attn", ""), tokens)


def open_head(folder: ModelFolder, chosen: LoadSettings, exposure: Exposure = PLAIN) -> Calculator:
    """Return what computes a reward head: an Engine for known decoders, else the model called as a whole."""
    model = _load(folder, _head_loader(folder, exposure), chosen)
    kind = None if exposure.custom else family(folder.config)
    head = getattr(model, "score", None)
    if kind is None or not isinstance(head, torch.nn.Module):
        return WholeHead(model, exposure, budget=1 if depends_on_company(folder.config) else chosen.tokens)
    return Engine(_network(model, kind, chosen), HeadReader(head), budget=chosen.tokens)


def _head_loader(folder: ModelFolder, exposure: Exposure) -> object:
    """Return the auto class of a reward model; for code of the folder's own, the one under which auto_map names it."""
    classes = folder.config.get("auto_map")
    own = exposure.custom and isinstance(classes, Mapping) and "AutoModelForSequenceClassification" not in classes
    return transformers.AutoModel if own else transformers.AutoModelForSequenceClassification


def open_language_model(folder: ModelFolder, chosen: LoadSettings) -> Calculator:
    """Return what computes log-probs: an Engine for known decoders, else the model called as a whole."""
    model = _load(folder, transformers.AutoModelForCausalLM, chosen)
    kind = family(folder.config)
    output = model.get_output_embeddings()
    if kind is None or output is None:
        return WholeLanguageModel(model)
    softcap = model.config.to_dict().get("final_logit_softcapping")  # a config.json may leave it to its class
    reader = LogProbReader(output, softcap=float(softcap) if isinstance(softcap, (int, float)) else None)
    return Engine(_network(model, kind, chosen), reader, budget=chosen.tokens)


def load_language_model(folder: ModelFolder, chosen: LoadSettings) -> "PreTrainedModel":
    """Return a language model as transformers has it, to be continued token by token."""
    return _load(folder, transformers.AutoModelForCausalLM, chosen)


def _network(model: "PreTrainedModel", kind: Family, chosen: LoadSettings) -> DecoderNetwork:
    decoder = model.base_model
    packed = None
    if kind.packs and not chosen.attn:
        if kind.lean and chosen.device != "map":  # on several devices, each layer fetches its input by itself
            make_lean(decoder)
        packed = Packed(decoder, layers=getattr(decoder, kind.layers), prune=kind.prune)
    vocabulary = model.get_input_embeddings().num_embeddings
    return DecoderNetwork(decoder, Padded(decoder), packed, window(model.config.to_dict()), vocabulary)


def _load(folder: ModelFolder, loader: object, chosen: LoadSettings) -> "PreTrainedModel":
    attention.register()
    check_device(folder.name, chosen.device)
    device = device_of(chosen)
    try:
        with quietly():
            model, report = loader.from_pretrained(  # type: ignore[attr-defined]
                str(folder.path),
                dtype=DTYPES.get(precision(folder, chosen), "auto"),
                attn_implementation=_attention(folder, chosen),
                device_map="auto" if device == "map" else None,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=folder.trusted,
                output_loading_info=True,
            )
    except Exception as exc:  # of damaged files the libraries raise anything
        raise ModelError(f"{folder.name}: cannot be loaded: {str(exc).strip()[:400]}") from exc
    _check_complete(folder, report)
    _check_placed(folder, model)
    model.eval()
    if device != "map":
        model.to(device)
    return cast("PreTrainedModel", model)


def precision(folder: ModelFolder, chosen: LoadSettings) -> str:
    """Return the dtype in which weights are held: the named one; float32 on a CPU; elsewhere as stored."""
    if chosen.dtype or device_of(chosen) == "cpu":
        return chosen.dtype or "float32"
    declared = folder.config.get("dtype") or folder.config.get("torch_dtype")
    if isinstance(declared, str):
        return declared.removeprefix("torch.")
    return next((kind for kind in stored_dtypes(folder) if kind in DTYPES), "float32")


def stored_dtypes(folder: ModelFolder) -> list[str]:
    """Return the dtypes of the weights in a folder's files, each once, from the heads of the files."""
    tensors = (tensor for file in folder.weights for tensor in stored_tensors(file, folder.name))
    return list(dict.fromkeys(_STORED.get(tensor.dtype, tensor.dtype) for tensor in tensors))


def device_of(chosen: LoadSettings) -> str:
    """Return the device that is named, or else a GPU if there is one."""
    return chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")


def weight_bytes(folder: ModelFolder, chosen: LoadSettings) -> int:
    """Return what the weights take in memory, from the heads of their files: no weight is read."""
    dtype = DTYPES.get(precision(folder, chosen))
    if dtype is None:
        return sum(file.stat().st_size for file in folder.weights)
    tensors = (tensor for file in folder.weights for tensor in stored_tensors(file, folder.name))
    return int(dtype.itemsize) * sum(math.prod(tensor.shape) for tensor in tensors)


def cache_bytes(folder: ModelFolder, chosen: LoadSettings, tokens: int) -> int:
    """Return what the keys and values of so many tokens take; 0 where the config does not say how wide they are."""

    def size(*names: str) -> int:
        return next((value for name in names if isinstance(value := folder.config.get(name), int)), 0)

    heads = size("num_attention_heads", "n_head")
    width = size("head_dim") or (size("hidden_size", "n_embd") // heads if heads else 0)
    layers, groups = size("num_hidden_layers", "n_layer"), size("num_key_value_heads") or heads
    dtype = DTYPES.get(precision(folder, chosen), torch.bfloat16)
    return 2 * layers * groups * width * tokens * int(dtype.itemsize)


def check_device(name: str, device: str) -> None:
    """Raise before anything is loaded where this machine has no such device."""
    if device == "map":
        return
    try:
        target = torch.device(device or "cpu")
    except RuntimeError as exc:
        raise ModelError(f"{name}: device is {device!r}; wanted cpu, cuda, cuda:1 or map") from exc
    count = torch.cuda.device_count()
    if target.type == "cuda" and (target.index or 0) >= count:
        here = f"{count} CUDA devices" if count else "no CUDA device"
        raise ModelError(f"{name}: device is {device!r}, and torch finds {here} here; leave it out, or use device=cpu")


def _attention(folder: ModelFolder, chosen: LoadSettings) -> str | None:
    if chosen.attn:
        return chosen.attn
    kind = family(folder.config)
    if kind is None:
        return None
    # A soft cap on the scores is beyond sdpa.
    return attention.NAME if kind.packs else "eager"


def _check_complete(folder: ModelFolder, report: Mapping[str, object]) -> None:
    """Raise where a weight is not in the folder: transformers would have drawn it at random."""
    missing = sorted(cast("set[str]", report["missing_keys"]))
    wrong = sorted(str(entry[0]) for entry in cast("set[tuple[str, ...]]", report["mismatched_keys"]))
    if missing or wrong:
        raise ModelError(
            f"{folder.name}: its weights lack {', '.join((missing + wrong)[:3])}: scores would be random. "
            "A language model has no reward head; 'pluralrm list models' names the kinds that take one"
        )


def _check_placed(folder: ModelFolder, model: torch.nn.Module) -> None:
    """Raise where a part of the model was left outside the devices' memory, to be fetched in every pass."""
    if any(weights.is_meta for weights in model.parameters()):
        raise ModelError(
            f"{folder.name}: it does not fit into the memory of these devices. Use dtype=bfloat16, more or larger "
            "devices, or device=cpu"
        )


@contextmanager
def quietly() -> Iterator[None]:
    """Keep the loader's bars and reports out of ours; what matters of them is checked here."""
    bars = transformers.utils.logging.is_progress_bar_enabled()
    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        transformers.utils.logging.set_verbosity(level)
        if bars:
            transformers.utils.logging.enable_progress_bar()

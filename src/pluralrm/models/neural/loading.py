"""Weights into memory: safetensors only, no code but what the user named, every weight of the head from the folder."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
import transformers

from pluralrm.errors import ModelError, SpecError
from pluralrm.models.neural import attention
from pluralrm.models.neural.engine import Calculator, Engine, Network
from pluralrm.models.neural.families import Family, depends_on_company, family, window
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.lean import make_lean
from pluralrm.models.neural.packed import Packed
from pluralrm.models.neural.padded import Padded
from pluralrm.models.neural.readers import HeadReader, LogProbReader
from pluralrm.models.neural.whole import PLAIN, Exposure, WholeHead, WholeLanguageModel
from pluralrm.specs import Spec

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DTYPES: Mapping[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
SETTING_KEYS = ("dtype", "device", "attn", "tokens")
"""Keys of every kind that loads weights here."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How weights are held and computed. Left out: a GPU if there is one; float32 on a CPU, elsewhere as stored."""

    dtype: str = ""
    device: str = ""
    """`cpu`, `cuda`, `cuda:1`, or `map`: layers over all GPUs."""
    attn: str = ""
    """An attn_implementation of transformers; naming one turns packs off."""
    tokens: int | None = None
    """Tokens per pass."""


def settings(spec: Spec) -> Settings:
    """Return the settings among a spec's keys; an unknown dtype is a SpecError."""
    dtype = spec.options.get("dtype", "")
    if dtype and dtype not in DTYPES:
        raise SpecError(f"{spec.kind}: dtype is {dtype!r}; wanted {', '.join(DTYPES)}")
    tokens = spec.integer("tokens", 0, least=1) if "tokens" in spec.options else None
    return Settings(dtype, spec.options.get("device", ""), spec.options.get("attn", ""), tokens)


def open_head(folder: ModelFolder, chosen: Settings, exposure: Exposure = PLAIN) -> Calculator:
    """Return what computes a reward head: an Engine for known decoders, else the model called as a whole."""
    model = _load(folder, _head_loader(folder, exposure), chosen)
    known = None if exposure.custom else family(folder.config)
    head = getattr(model, "score", None)
    if known is None or not isinstance(head, torch.nn.Module):
        return WholeHead(model, exposure, budget=1 if depends_on_company(folder.config) else chosen.tokens)
    return Engine(_network(model, known, chosen), HeadReader(head), budget=chosen.tokens)


def _head_loader(folder: ModelFolder, exposure: Exposure) -> object:
    """Return the auto class of a reward model; for code of the folder's own, the one under which auto_map names it."""
    named = folder.config.get("auto_map")
    own = exposure.custom and isinstance(named, Mapping) and "AutoModelForSequenceClassification" not in named
    return transformers.AutoModel if own else transformers.AutoModelForSequenceClassification


def open_language_model(folder: ModelFolder, chosen: Settings) -> Calculator:
    """Return what computes log-probs: an Engine for known decoders, else the model called as a whole."""
    model = _load(folder, transformers.AutoModelForCausalLM, chosen)
    known = family(folder.config)
    output = model.get_output_embeddings()
    if known is None or output is None:
        return WholeLanguageModel(model)
    softcap = model.config.to_dict().get("final_logit_softcapping")  # a config.json may leave it to its class
    reader = LogProbReader(output, softcap=float(softcap) if isinstance(softcap, (int, float)) else None)
    return Engine(_network(model, known, chosen), reader, budget=chosen.tokens)


def load_language_model(folder: ModelFolder, chosen: Settings) -> "PreTrainedModel":
    """Return a language model as transformers has it, to be continued token by token."""
    return _load(folder, transformers.AutoModelForCausalLM, chosen)


def _network(model: "PreTrainedModel", known: Family, chosen: Settings) -> Network:
    decoder = model.base_model
    packed = None
    if known.packs and not chosen.attn:
        if known.lean and chosen.device != "map":  # on several devices, each layer fetches its input by itself
            make_lean(decoder)
        packed = Packed(decoder, layers=getattr(decoder, known.layers), prune=known.prune)
    vocabulary = model.get_input_embeddings().num_embeddings
    return Network(decoder, Padded(decoder), packed, window(model.config.to_dict()), vocabulary)


def _load(folder: ModelFolder, loader: object, chosen: Settings) -> "PreTrainedModel":
    attention.register()
    device = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with quietly():
            model, report = loader.from_pretrained(  # type: ignore[attr-defined]
                str(folder.path),
                dtype=DTYPES[chosen.dtype] if chosen.dtype else torch.float32 if device == "cpu" else "auto",
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


def _attention(folder: ModelFolder, chosen: Settings) -> str | None:
    if chosen.attn:
        return chosen.attn
    known = family(folder.config)
    if known is None:
        return None
    # A soft cap on the scores is beyond sdpa.
    return attention.NAME if known.packs else "eager"


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
    shown = transformers.utils.logging.is_progress_bar_enabled()
    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        transformers.utils.logging.set_verbosity(level)
        if shown:
            transformers.utils.logging.enable_progress_bar()

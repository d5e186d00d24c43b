"""What is known of decoder families, as data: by `model_type` of a folder's config.json.

A family that is not listed is called as a whole, one sequence or one batch at a time (`whole.py`): slower, never wrong
by a guess. A row is added with a test that compares it with a plain forward pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """How to reach the parts of a decoder."""

    layers: str = "layers"
    """Its list of layers."""
    packs: bool = True
    """True where attention goes through transformers' interface and is causal, without a soft cap."""
    prune: bool = True
    """True where the last layer can be given some rows alone."""
    lean: bool = False
    """True where layers are Llama's: RMS norms, rotary positions, SwiGLU; see `lean.py`."""


FAMILIES: Mapping[str, Family] = {
    "llama": Family(lean=True),
    "mistral": Family(lean=True),
    "qwen2": Family(lean=True),
    "qwen3": Family(lean=True),
    "gemma": Family(),
    "gemma2": Family(packs=False),  # soft-capped scores: no kernel returns their log-sum-exp
    "gemma3_text": Family(),
    "gpt2": Family(layers="h", prune=False),  # reshapes its output to the shape of its input
    "gpt_neox": Family(),
}


def family(config: Mapping[str, object]) -> Family | None:
    """Return the family of a config.json, or None where it is not known."""
    found = FAMILIES.get(str(config.get("model_type")))
    if found is None or config.get("use_bidirectional_attention") or depends_on_company(config):
        return None
    return found


def depends_on_company(config: Mapping[str, object]) -> bool:
    """Return whether the longest sequence of a pass decides how positions are scaled: it is asked one at a time.

    Dynamic scaling is no such case: it begins beyond the positions of the config, and no sequence is let in there.
    """
    return any(kind in _RESCALED for kind in _rope_kinds(config.get("rope_parameters") or config.get("rope_scaling")))


_RESCALED = ("longrope", "su")


def _rope_kinds(found: object) -> list[object]:
    """Return the kinds of rotary positions that a config names, wherever it names them."""
    if not isinstance(found, Mapping):
        return []
    nested = [kind for value in found.values() for kind in _rope_kinds(value)]
    return [found.get("rope_type", found.get("type")), *nested]


def window(config: Mapping[str, object]) -> int | None:
    """Return the least sliding window of any layer, or None: up to it, sliding is plain causal attention."""
    width = config.get("sliding_window")
    if not isinstance(width, int) or config.get("use_sliding_window") is False:
        return None
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and "sliding_attention" not in kinds:
        return None
    return width

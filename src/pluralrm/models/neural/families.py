"""What is known of decoder families, as data by `model_type` of a folder's config.json; and Llama's layers made lean.

A family that is not listed is called as a whole, one sequence or one batch at a time (`loading.WholeHead`): slower,
never wrong by a guess. A row is added with a test that compares it with a plain forward pass.

Lean layers do the same arithmetic in fewer passes through memory, for packs in float32 through layers of Llama's kind.
Matrix products run at the machine's limit; what is left is norms, rotations, gates and sums, which transformers writes
to memory several times. Outside packs, and in half precision, transformers' own code runs: the engine's proof compares
the two on every model that it opens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch.nn.functional import linear, silu

from pluralrm.models.neural import attention


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
    """True where layers are Llama's: RMS norms, rotary positions, SwiGLU; see `make_lean`."""


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
    entry = FAMILIES.get(str(config.get("model_type")))
    if entry is None or config.get("use_bidirectional_attention") or depends_on_company(config):
        return None
    return entry


def depends_on_company(config: Mapping[str, object]) -> bool:
    """Return whether the longest sequence of a pass decides how positions are scaled: it is asked one at a time.

    Dynamic scaling is no such case: it begins beyond the positions of the config, and no sequence is let in there.
    """
    return any(kind in _RESCALED for kind in _rope_kinds(config.get("rope_parameters") or config.get("rope_scaling")))


_RESCALED = ("longrope", "su")


def _rope_kinds(node: object) -> list[object]:
    """Return the kinds of rotary positions that a config names, wherever it names them."""
    if not isinstance(node, Mapping):
        return []
    nested = [kind for value in node.values() for kind in _rope_kinds(value)]
    return [node.get("rope_type", node.get("type")), *nested]


def window(config: Mapping[str, object]) -> int | None:
    """Return the least sliding window of any layer, or None: up to it, sliding is plain causal attention."""
    width = config.get("sliding_window")
    if not isinstance(width, int) or config.get("use_sliding_window") is False:
        return None
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and "sliding_attention" not in kinds:
        return None
    return width


Forward = Callable[..., object]
Turns = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines of the rows' positions, each (1, rows, width of a head)."""


def make_lean(decoder: torch.nn.Module) -> None:
    """Let a decoder's norms and layers take the short way inside packs."""
    if next(decoder.parameters()).dtype != torch.float32:
        return
    for module in list(decoder.modules()):
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = _in_packs(_Norm(module).forward, module.forward)
        elif name.endswith("DecoderLayer"):
            module.forward = _in_packs(_Layer(module).forward, module.forward)


def _in_packs(short: Forward, whole: Forward) -> Forward:
    def forward(hidden_states: torch.Tensor, **kwargs: object) -> object:
        call = whole if attention.current() is None else short
        return call(hidden_states, **kwargs)

    return forward


class _Norm:
    """states / sqrt(mean of squares + epsilon) x weight."""

    def __init__(self, norm: torch.nn.Module) -> None:
        self._weight, self._epsilon = norm.weight, norm.variance_epsilon

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return _normed(states, self._epsilon).mul_(self._weight)


def _normed(states: torch.Tensor, epsilon: float) -> torch.Tensor:
    length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    return states * length.square_().div_(states.shape[-1]).add_(epsilon).rsqrt_()


class _Product(NamedTuple):
    """Linear maps of one input as one: weights (outputs, inputs), a bias, where the outputs of each map begin."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    starts: tuple[int, ...]

    def of(self, states: torch.Tensor, first: int = 0) -> torch.Tensor:
        """Return (rows, outputs), without the outputs of the maps before `first`."""
        start = self.starts[first]
        return linear(states, self.weight[start:], None if self.bias is None else self.bias[start:])


def _joined(norm: torch.nn.Module, maps: Sequence[torch.nn.Linear]) -> _Product:
    """Return linear maps as one, with the weight of the norm before them, which is 1 from then on.

    The weights of the maps become parts of the product's, so that nothing is held twice, and both ways through the
    layer compute with the same numbers.
    """
    weight = torch.cat([linear.weight.detach() for linear in maps]) * norm.weight.detach()
    norm.weight.data.fill_(1.0)
    biases = [linear.bias.detach() for linear in maps if linear.bias is not None]
    bias = torch.cat(biases) if biases else None
    starts = tuple(accumulate((linear.out_features for linear in maps[:-1]), initial=0))
    for layer, start in zip(maps, starts, strict=True):
        part = slice(start, start + layer.out_features)
        layer.weight.data = weight[part]
        if bias is not None:
            layer.bias.data = bias[part]
    return _Product(weight, bias, starts)


class _Layer:
    """One layer: rows (1, rows, width) in, the same tensor out, with what the layer adds."""

    def __init__(self, layer: torch.nn.Module) -> None:
        seen, mlp = layer.self_attn, layer.mlp
        self._attention, self._mlp = seen, mlp
        self._epsilon = layer.input_layernorm.variance_epsilon
        self._asking = _joined(layer.input_layernorm, (seen.q_proj, seen.k_proj, seen.v_proj))
        self._gated = _joined(layer.post_attention_layernorm, (mlp.gate_proj, mlp.up_proj))

    def forward(self, states: torch.Tensor, *, position_embeddings: Turns, **_: object) -> torch.Tensor:
        rows = states[0]
        _add(rows, self._seen(_normed(rows, self._epsilon), position_embeddings), self._attention.o_proj)
        _add(rows, self._activated(_normed(rows, self._epsilon)), self._mlp.down_proj)
        return states

    def _seen(self, rows: torch.Tensor, turns: Turns) -> torch.Tensor:
        """Return (rows, heads x width): what each row sees."""
        module = self._attention
        if attention.learning(module.layer_idx):
            attention.learn(module.layer_idx, self._keys(self._asking.of(rows, first=1), turns))
        query, both = self._asking.of(rows).tensor_split(self._asking.starts[1:2], dim=1)
        query = _turned(query, turns, module.head_dim, getattr(module, "q_norm", None))
        key, value = self._keys(both, turns)
        return attention.attend_by_plan(module, query, key, value, None, scaling=module.scaling)[0][0].flatten(1)

    def _keys(self, both: torch.Tensor, turns: Turns) -> attention.Keys:
        """Return keys and values, each (1, heads, rows, width), of their products side by side."""
        module = self._attention
        key, value = both.chunk(2, dim=1)
        # One head after the other in memory: the kernel is a tenth quicker where few rows see many keys.
        heads = value.unflatten(1, (-1, module.head_dim)).transpose(0, 1).contiguous()
        return _turned(key, turns, module.head_dim, getattr(module, "k_norm", None)), heads[None]

    def _activated(self, rows: torch.Tensor) -> torch.Tensor:
        """Return act(gate) x up."""
        gate, up = self._gated.of(rows).chunk(2, dim=1)
        act = self._mlp.act_fn
        gate = silu(gate, inplace=True) if isinstance(act, torch.nn.SiLU) else act(gate)
        return gate.mul_(up)


def _add(rows: torch.Tensor, states: torch.Tensor, last: torch.nn.Module) -> None:
    """Add what a linear map makes of some states to the rows, in place."""
    rows.addmm_(states, last.weight.t())
    if last.bias is not None:
        rows += last.bias


def _turned(states: torch.Tensor, turns: Turns, width: int, norm: torch.nn.Module | None) -> torch.Tensor:
    """Return (1, heads, rows, width) with each pair (i, i + width/2) of a head turned by its row's angle."""
    cos, sin = turns
    heads = states.unflatten(1, (-1, width)).transpose(0, 1)
    if norm is not None:
        heads = norm(heads)
    half = width // 2
    turned = torch.mul(heads, cos, out=heads.new_empty(heads.shape))
    turned[..., :half].addcmul_(heads[..., half:], sin[..., :half], value=-1)
    turned[..., half:].addcmul_(heads[..., :half], sin[..., half:])
    return turned[None]

"""The same arithmetic in fewer passes through memory, for packs in float32 through layers of Llama's kind.

Matrix products run at the machine's limit; what is left is norms, rotations and gates, which transformers writes to
memory several times. Outside packs, and in half precision, transformers' own code runs: the engine's proof compares the
two on every model that it opens.
"""

from collections.abc import Callable

import torch

from pluralrm.models.neural import attention

Forward = Callable[..., object]


def make_lean(decoder: torch.nn.Module) -> None:
    """Let a decoder's norms, gated MLPs and attentions take the short way inside packs."""
    for module in decoder.modules():
        name = type(module).__name__
        short = next((forward for ending, forward in _SHORT.items() if name.endswith(ending)), None)
        if short is not None:
            module.forward = _in_packs(module, short, module.forward)


def _in_packs(module: torch.nn.Module, short: Forward, whole: Forward) -> Forward:
    def forward(hidden_states: torch.Tensor, **kwargs: object) -> object:
        if attention.current() is None or hidden_states.dtype != torch.float32:
            return whole(hidden_states, **kwargs)
        return short(module, hidden_states, **kwargs)

    return forward


def _norm(module: torch.nn.Module, states: torch.Tensor) -> torch.Tensor:
    """Return states / sqrt(mean of squares + epsilon) x weight."""
    width = states.shape[-1]
    length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    scale = length.square_().div_(width).add_(module.variance_epsilon).rsqrt_()
    return (states * scale).mul_(module.weight)


def _gated(module: torch.nn.Module, states: torch.Tensor) -> torch.Tensor:
    """Return down(act(gate) x up)."""
    gate = module.gate_proj(states)
    plain = isinstance(module.act_fn, torch.nn.SiLU)
    gate = torch.nn.functional.silu(gate, inplace=True) if plain else module.act_fn(gate)
    return module.down_proj(gate.mul_(module.up_proj(states)))


def _attention(
    module: torch.nn.Module,
    states: torch.Tensor,
    *,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Return the output projection of what each row sees, and no weights."""
    shape = (*states.shape[:-1], -1, module.head_dim)
    query, key, value = (project(states).view(shape) for project in (module.q_proj, module.k_proj, module.v_proj))
    if hasattr(module, "q_norm"):
        query, key = module.q_norm(query), module.k_norm(key)
    query, key = (_rotated(part, *position_embeddings).transpose(1, 2) for part in (query, key))
    seen = attention.attend_by_plan(module, query, key, value.transpose(1, 2), None, scaling=module.scaling)
    return module.o_proj(seen[0].reshape(*states.shape[:-1], -1)), None


def _rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return (1, rows, heads, width) with each pair (i, i + width/2) turned by its row's angle."""
    half = states.shape[-1] // 2
    cos, sin = cos[:, :, None], sin[:, :, None]
    turned = states * cos
    turned[..., :half].addcmul_(states[..., half:], sin[..., :half], value=-1)
    turned[..., half:].addcmul_(states[..., :half], sin[..., half:])
    return turned


_SHORT: dict[str, Forward] = {"RMSNorm": _norm, "MLP": _gated, "Attention": _attention}
"""By the ending of a class's name; families with `lean` have no other class of these endings."""

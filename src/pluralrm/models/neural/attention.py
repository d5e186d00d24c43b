"""Attention inside packed tries: each token sees what stands before it in its own sequence, nothing else.

No mask is built. Every piece of a chain attends causally to itself and, without a mask, to what it continues, chain by
chain; the parts are merged by their log-sum-exps, which is exact up to rounding. The kernels that return a log-sum-exp
are private to torch: where one is missing, plain matrix products take its place.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol, cast

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "pluralrm_tree"
"""The attn_implementation of models that may be computed in packs; outside a pack it is `sdpa`."""

_BLOCK = 192
"""Rows that attend causally to each other at once: measured on a CPU, where it is 1.1-1.3 times the whole square."""

Span = tuple[int, int]
Keys = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, each (1, heads, tokens, width)."""


class OwnRows(NamedTuple):
    """Rows of queries and the keys of their own piece up to the last row: the rows are the last of these keys."""

    rows: Span
    keys: Span


class AbandonedError(RuntimeError):
    """A pass that was to write keys has failed."""


class StoredKeys:
    """Keys and values of a chain that several packs need, by layer: written piece by piece, dropped once all have read.

    The packs may run beside each other: a pack that needs tokens of another waits for them.
    """

    def __init__(self, length: int, readers: int) -> None:
        self.length = length
        self._readers = readers
        self._layers: dict[int, Keys] = {}
        self._pieces: dict[int, dict[int, int]] = {}
        self._written: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._given_up = False
        self._news = threading.Condition()

    def write(self, layer: int, first: int, keys: Keys) -> None:
        """Put the keys of a piece in their place, up to the length."""
        with self._news:
            if layer not in self._layers:
                shapes = [(*part.shape[:2], self.length, part.shape[3]) for part in keys]
                self._layers[layer] = (keys[0].new_empty(shapes[0]), keys[1].new_empty(shapes[1]))
            stored = self._layers[layer]
        last = min(first + keys[0].shape[2], self.length)
        for whole, part in zip(stored, keys, strict=True):
            whole[:, :, first:last] = part[:, :, : last - first]
        with self._news:
            pieces = self._pieces.setdefault(layer, {})
            pieces[first] = last
            while (until := self._written.get(layer, 0)) in pieces:
                self._written[layer] = pieces.pop(until)
            self._news.notify_all()

    def read(self, layer: int, length: int) -> Keys:
        """Return the keys of the first `length` tokens, as soon as they are there."""
        with self._news:
            self._news.wait_for(lambda: self._given_up or self._written.get(layer, 0) >= length)
            if self._given_up:
                raise AbandonedError("a pass before this one failed")
            keys, values = self._layers[layer]
        return keys[:, :, :length], values[:, :, :length]

    def let_go(self, layer: int) -> None:
        """Note that a pack needs a layer no more; after the last one its keys are dropped."""
        with self._news:
            self._done[layer] = self._done.get(layer, 0) + 1
            if self._done[layer] == self._readers:
                del self._layers[layer]

    def give_up(self) -> None:
        """Make those who wait raise AbandonedError: what they wait for will not come."""
        with self._news:
            self._given_up = True
            self._news.notify_all()


class AncestorView(NamedTuple):
    """Neighbouring rows and earlier tokens that each of them sees: rows of this pack, or the first of stored keys."""

    rows: Span
    inside: Span | None = None
    stored: tuple[StoredKeys, int] | None = None


class AttentionLayout(NamedTuple):
    """Who sees what: every row its own piece causally, and what the views say."""

    owns: list[OwnRows]
    views: list[AncestorView]
    """Ascending; the rows of a view are apart from those of the one before it, or among them."""


class ChunkStore(NamedTuple):
    """Rows whose keys later packs need, and where in a chain's stored keys they belong."""

    rows: Span
    keys: StoredKeys
    first: int


@dataclass(slots=True)
class PackPlan:
    """How the rows of a pack attend; the last layer computes only the rows that are read, by a layout of its own."""

    layout: AttentionLayout
    stores: list[ChunkStore]
    last_layer: int
    last_layout: AttentionLayout
    rows: list[int]
    """The rows that the last layer computes, ascending."""
    learned: Keys | None = None
    """Keys and values of all rows in the last layer, once it has been entered to learn them."""


class Learned(Exception):  # noqa: N818 - not an error: the last layer is left as soon as its keys are known
    """The last layer has made its keys and values; nothing else is needed of this entry."""


_current = threading.local()


@contextmanager
def attending(plan: PackPlan) -> Iterator[None]:
    """Make a plan that of this thread."""
    _current.plan = plan
    try:
        yield
    finally:
        _current.plan = None


def current() -> PackPlan | None:
    """Return this thread's plan, or None outside a pack."""
    plan: PackPlan | None = getattr(_current, "plan", None)
    return plan


def register() -> None:
    """Make NAME known to transformers."""
    AttentionInterface.register(NAME, attend_by_plan)
    AttentionMaskInterface.register(NAME, _mask)


def _mask(*args: object, **kwargs: object) -> torch.Tensor | None:
    return None if current() is not None else sdpa_mask(*args, **kwargs)


def attend_by_plan(  # noqa: PLR0917 - the signature is that of transformers
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: object,
) -> tuple[torch.Tensor, None]:
    """Return what transformers' attention functions return: (1, rows, heads, width), and no weights."""
    plan = current()
    if plan is None:
        return cast(
            "tuple[torch.Tensor, None]", sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        )
    layer = cast("int", module.layer_idx)
    scale = kwargs.get("scaling")
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)  # type: ignore[arg-type]
    if layer != plan.last_layer:
        _keep(plan, layer, (key, value))
        return _by_layout(plan.layout, layer, query, (key, value), scale=scale), None
    if plan.learned is None:
        learn(layer, (key, value))
    assert plan.learned is not None  # noqa: S101 - learn has raised
    return _by_layout(plan.last_layout, layer, query, plan.learned, scale=scale), None


def learning(layer: int) -> bool:
    """Return whether this thread has entered the last layer for its keys alone: no query is needed."""
    plan = current()
    return plan is not None and layer == plan.last_layer and plan.learned is None


def learn(layer: int, keys: Keys) -> NoReturn:
    """Keep the keys of all rows of the last layer, and leave it."""
    plan = current()
    if plan is None:
        raise RuntimeError("keys are learned inside packs alone")
    plan.learned = keys
    _keep(plan, layer, keys)
    raise Learned


def _keep(plan: PackPlan, layer: int, keys: Keys) -> None:
    for store in plan.stores:
        store.keys.write(layer, store.first, _cut(keys, store.rows))


Seen = tuple[torch.Tensor, torch.Tensor]
"""What queries saw of some keys: the mean of the values (1, heads, rows, width), and the log-sum-exp of the scores."""


def _by_layout(layout: AttentionLayout, layer: int, query: torch.Tensor, keys: Keys, *, scale: float) -> torch.Tensor:
    out = query.new_empty(1, query.shape[2], query.shape[1], keys[1].shape[3])
    pasts = deque(_pasts(layout.views, layer, query, keys, scale=scale))
    for own in layout.owns:
        while pasts and pasts[0][0][1] <= own.rows[0]:
            pasts.popleft()
        for start, end in _blocks(own.rows[1] - own.rows[0]):
            rows = (own.rows[0] + start, own.rows[0] + end)
            seen = _of_piece(query, keys, own, rows, scale=scale)
            if pasts and pasts[0][0][0] <= rows[0]:
                seen.append(_among(pasts[0], rows))
            _write(out[:, slice(*rows)].transpose(1, 2), seen)
    return out


def _pasts(views: list[AncestorView], layer: int, query: torch.Tensor, keys: Keys, *, scale: float) -> list["Past"]:
    """Return what rows see of their views, all views of the same rows in one."""
    pasts: list[Past] = []
    for view in views:
        past = _cut(keys, view.inside) if view.inside is not None else None
        if view.stored is not None:
            past = view.stored[0].read(layer, view.stored[1])
        assert past is not None  # noqa: S101 - a view is inside or stored
        seen = attend(query[:, :, slice(*view.rows)], past, causal=False, scale=scale)
        if pasts and view.rows[0] < pasts[-1][0][1]:
            mean, total = _among(pasts[-1], view.rows)
            mean.lerp_(seen[0], _weight(total, seen))
            torch.logaddexp(total, seen[1], out=total)
        else:
            pasts.append((view.rows, seen))
    for stored in {id(view.stored[0]): view.stored[0] for view in views if view.stored is not None}.values():
        stored.let_go(layer)
    return pasts


Past = tuple[Span, Seen]
"""Some rows and what they see of earlier tokens."""


def _among(past: Past, rows: Span) -> Seen:
    """Return what some rows see, of a past that they are among."""
    (first, _), (mean, total) = past
    places = slice(rows[0] - first, rows[1] - first)
    return mean[:, :, places], total[:, :, places]


def _of_piece(query: torch.Tensor, keys: Keys, own: OwnRows, rows: Span, *, scale: float) -> list[Seen]:
    """Return what neighbouring rows of a piece see of each other, and of what stands before the first of them."""
    asking = query[:, :, slice(*rows)]
    first = own.keys[1] - (own.rows[1] - rows[0])
    among = attend(asking, _cut(keys, (first, first + rows[1] - rows[0])), causal=True, scale=scale)
    if first == own.keys[0]:
        return [among]
    return [among, attend(asking, _cut(keys, (own.keys[0], first)), causal=False, scale=scale)]


def _write(out: torch.Tensor, several: list[Seen]) -> None:
    """Put what was seen of several sets of keys together into (1, heads, rows, width)."""
    *before, last = several
    if not before:
        out.copy_(last[0])
        return
    mean, total = before[0]
    for part in before[1:]:
        mean = torch.lerp(mean, part[0], _weight(total, part))
        total = torch.logaddexp(total, part[1])
    torch.lerp(mean, last[0], _weight(total, last), out=out)


def _weight(total: torch.Tensor, seen: Seen) -> torch.Tensor:
    """Return the share of one set of keys beside those whose log-sum-exp is `total`: (1, heads, rows, 1)."""
    return torch.sigmoid(seen[1] - total)[..., None].to(seen[0].dtype)


def _blocks(rows: int) -> list[Span]:
    """Return how many rows attend causally at once: a kernel's causal block computes much that is then masked away."""
    if rows < 2 * _BLOCK:
        return [(0, rows)]
    return [(start, min(start + _BLOCK, rows)) for start in range(0, rows, _BLOCK)]


def _cut(keys: Keys, span: Span) -> Keys:
    return keys[0][:, :, slice(*span)], keys[1][:, :, slice(*span)]


def attend(query: torch.Tensor, keys: Keys, *, causal: bool, scale: float) -> Seen:
    """Return what each query sees of the keys; with `causal`, query i sees the keys up to i."""
    kernel = _KERNELS.get(query.device.type, attend_plainly)
    return kernel(query, keys, causal=causal, scale=scale)


def attend_plainly(query: torch.Tensor, keys: Keys, *, causal: bool, scale: float) -> Seen:
    """Return the same by matrix products that hold every score: the check, and the way where no kernel is known."""
    key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], dim=1).float() for part in keys)
    scores = query.float() @ key.transpose(2, 3) * scale
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    total = scores.logsumexp(dim=-1)
    return ((scores - total[..., None]).exp() @ value).to(query.dtype), total


def _on_cpu(query: torch.Tensor, keys: Keys, *, causal: bool, scale: float) -> Seen:
    # The kernel shares a key head among its query heads by itself.
    mean, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001 - see the top
        query, keys[0], keys[1], 0.0, causal, scale=scale
    )
    return mean, total


def _on_cuda(query: torch.Tensor, keys: Keys, *, causal: bool, scale: float) -> Seen:
    shared = query.shape[1] // keys[0].shape[1]
    key, value = (part.repeat_interleave(shared, dim=1) if shared > 1 else part for part in keys)
    mean, total, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(  # noqa: SLF001 - see the top
        query, key, value, None, True, 0.0, causal, scale=scale
    )
    return mean, total[:, :, : query.shape[2]]  # the kernel fills the log-sum-exps up to a multiple of 32


class Kernel(Protocol):
    """The signature of `attend`."""

    def __call__(self, query: torch.Tensor, keys: Keys, *, causal: bool, scale: float) -> Seen:
        """Return what each query sees of the keys."""
        ...


_KERNELS: dict[str, Kernel] = {
    device: kernel
    for device, name, kernel in (
        ("cpu", "_scaled_dot_product_flash_attention_for_cpu", _on_cpu),
        ("cuda", "_scaled_dot_product_efficient_attention", _on_cuda),
    )
    if hasattr(torch.ops.aten, name)
}

"""What gpo, vpl and pal share: layers as functions of named tensors, and the training loop; deterministic on a CPU.

What is trained, what is on disk and what scores is one mapping. Weights have a generator of their own: no other
else's random numbers change. The loop is Adam with a cosine, stopped early by the loss on users held out.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from pluralrm.models.personal.algorithms import Epoch, State, Tell

Weights = Mapping[str, torch.Tensor]


class Draw:
    """Weights as they are drawn from a seed: normal with variance 1/inputs, twice that before a ReLU, biases 0."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.weights: dict[str, torch.Tensor] = {}

    def linear(self, name: str, inputs: int, outputs: int, *, gain: float = 1.0) -> None:
        """Add a linear layer."""
        self.normal(f"{name}.weight", (outputs, inputs), math.sqrt(gain / inputs))
        self.weights[f"{name}.bias"] = torch.zeros(outputs)

    def mlp(self, name: str, widths: Sequence[int]) -> None:
        """Add linear layers from each width to the next."""
        for place, (inputs, outputs) in enumerate(pairwise(widths)):
            self.linear(f"{name}.{place}", inputs, outputs, gain=1.0 if place == len(widths) - 2 else 2.0)

    def norm(self, name: str, width: int) -> None:
        """Add a layer norm."""
        self.weights[f"{name}.weight"] = torch.ones(width)
        self.weights[f"{name}.bias"] = torch.zeros(width)

    def normal(self, name: str, shape: Sequence[int], scale: float) -> None:
        """Add a tensor of normal draws."""
        self.weights[name] = scale * torch.randn(*shape, generator=self._generator)


def linear(weights: Weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Return (..., outputs) of (..., inputs)."""
    return torch.nn.functional.linear(rows, weights[f"{name}.weight"], weights[f"{name}.bias"])


def mlp(weights: Weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Return (..., outputs) of (..., inputs), with a ReLU between layers and none after the last."""
    place = 0
    while f"{name}.{place}.weight" in weights:
        rows = linear(weights, f"{name}.{place}", rows.relu() if place else rows)
        place += 1
    return rows


def norm(weights: Weights, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Return rows of mean 0 and variance 1, scaled and shifted as learned."""
    weight = weights[f"{name}.weight"]
    return torch.nn.functional.layer_norm(rows, weight.shape, weight, weights[f"{name}.bias"])


def to_state(weights: Weights) -> dict[str, "np.typing.NDArray[np.float32]"]:
    """Return copies of the tensors as arrays."""
    return {name: np.array(tensor.detach().numpy(), np.float32) for name, tensor in weights.items()}


def to_weights(state: State) -> dict[str, torch.Tensor]:
    """Return the arrays as tensors of their own: computing with them changes no array."""
    return {name: torch.tensor(np.asarray(array, np.float32)) for name, array in state.items()}


class Opened:
    """Turns shared parameters into tensors, and remembers the last: the same mapping is asked for user after user."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._weights: dict[str, torch.Tensor] = {}

    def __call__(self, shared: State) -> Weights:
        """Return the tensors of these parameters."""
        if shared is not self._state:
            self._state, self._weights = shared, to_weights(shared)
        return self._weights


THREADS = 1
"""Of a fit, on any machine: sums depend on how many share them, and these matrices are too small to gain by two."""


class Schedule(NamedTuple):
    """How long and how fast: the rate falls from `rate` to 0 along a cosine over all `epochs`."""

    epochs: int
    rate: float
    patience: int
    """Epochs without a lower held-out loss after which training ends."""
    decay: float = 0.0
    """Weight decay, apart from the gradient (AdamW)."""

    def rate_at(self, epoch: int) -> float:
        """Return the rate of an epoch, counted from 0."""
        return self.rate * 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))


class Trained(NamedTuple):
    """The weights of the epoch with the least held-out loss, and what every epoch lost."""

    weights: Mapping[str, torch.Tensor]
    curve: tuple[Epoch, ...]


Losses = Callable[[Weights, int], Iterable[torch.Tensor]]
"""The losses of an epoch's batches, one by one: each is computed after the step of the one before."""


@contextmanager
def threads() -> Iterator[None]:
    """Compute with a fixed number of threads, and leave the number as it was."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def optimised(
    drawn: Weights, losses: Losses, held_out: Callable[[Weights], float], schedule: Schedule, *, tell: Tell
) -> Trained:
    """Return what training leads to from the weights drawn, which stay as they are."""
    weights = {name: tensor.clone().requires_grad_() for name, tensor in drawn.items()}
    optimizer = torch.optim.AdamW(list(weights.values()), lr=schedule.rate, weight_decay=schedule.decay)
    best, kept, curve = math.inf, dict(weights), list[Epoch]()
    since = 0
    for number in range(schedule.epochs):
        optimizer.param_groups[0]["lr"] = schedule.rate_at(number)
        lost = [_step(optimizer, loss) for loss in losses(weights, number)]
        epoch = Epoch(number, sum(lost) / len(lost), held_out(weights))
        curve.append(epoch)
        tell(epoch)
        since += 1
        if epoch.held_out < best:
            best, since = epoch.held_out, 0
            kept = {name: tensor.detach().clone() for name, tensor in weights.items()}
        if since >= schedule.patience:
            break
    return Trained(kept, tuple(curve))


def _step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())

"""MAML, first order: a reward network whose start is trained so that a few gradient steps on a user's pairs suit them.

    reward = MLP[answer]                        one hidden layer, or none
    w_0 = start;  w_{s+1} = w_s - inner_rate * gradient of  sum of -log sigmoid(margin) / (n + prior)   over n shown
    loss = -log sigmoid(margin at w_S)          of other pairs of the user

First order: the gradient of the loss at w_S is applied to the start as it is; how w_S depends on the start is left out.
`prior` makes the steps of a user with one pair shorter than those of a user with many. Without pairs the network is
the start.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.functional import softplus

from pluralrm.models.personal.algorithms import Fitted, Hyper, Need, State, Tell, held_out_loss
from pluralrm.models.personal.examples import FloatArray, UserExamples
from pluralrm.models.personal.networks import (
    Batch,
    Opened,
    PairBatch,
    Sizes,
    WeightDraw,
    Weights,
    answer_scale,
    as_new_users,
    batches,
    mirrored,
    optimised,
    pairs_of,
    scaled,
    threads,
    to_state,
    width_of,
)

NETWORK = "reward."
"""What the names of the weights begin with that a user's steps change."""


@dataclass(frozen=True)
class Maml:
    """The algorithm, made with its hyperparameters."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"pairs"})
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:
        """Return the start, and the weights of each training user after steps on all pairs of theirs."""
        scales = answer_scale(train, self.settings.whole("axes"))
        users = as_new_users(train, scales, self.settings.whole("folds"), seed=seed)
        fixed = self._opened(scales)
        mirror = self.settings.whole("mirror") and self.settings.whole("axes")
        coins = torch.Generator().manual_seed(seed + 2)
        sizes = Sizes(*map(self.settings.whole, ("batch", "shown", "asked")))

        def losses(weights: Weights, epoch: int) -> Iterator[torch.Tensor]:
            for batch in batches(users, sizes, seed=seed, epoch=epoch, passes=self.settings.whole("passes")):
                read = mirrored(fixed, coins) if mirror else fixed
                yield self.loss({**read, **weights}, batch)

        def judged(weights: Weights) -> float:
            return held_out_loss(self, {**scales, **to_state(weights)}, held_out)

        result = optimised(self.drawn(width_of(scales), seed), losses, judged, self.settings, log=log)
        shared = {**scales, **to_state(result.weights)}
        return Fitted(shared, {user.user: self.adapt(shared, user) for user in train}, result.curve)

    @threads()
    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the network after the inner steps on all pairs; the start without pairs."""
        weights = self._opened(shared)
        return {name: array[0] for name, array in to_state(self.stepped(weights, pairs_of(context))).items()}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the reward of each answer; the prompt is in its features."""
        weights = {name: torch.tensor(array)[None] for name, array in user.items()}
        with torch.no_grad():
            rewards = network(weights, scaled(self._opened(shared), "answers", torch.tensor(answers)[None]))
        return np.asarray(rewards[0].numpy(), np.float32)

    def loss(self, weights: Weights, batch: Batch) -> torch.Tensor:
        """Return the mean loss over the pairs asked about, whose gradient is that of first-order MAML."""
        start = _start(weights)
        steps = {name: tensor - start[name].detach() for name, tensor in self.stepped(weights, batch.shown).items()}
        margin = _margins({name: start[name] + step for name, step in steps.items()}, *_rows(weights, batch.asked))
        return softplus(-margin)[batch.asked.there].mean()

    def stepped(self, weights: Weights, pairs: PairBatch) -> dict[str, torch.Tensor]:
        """Return the network of each user after the inner steps, (users, ...) by name."""
        rows = tuple(each.detach() for each in _rows(weights, pairs))
        there = pairs.there.float()
        count = there.sum(dim=1) + self.settings.real("prior")
        network_of = {
            name: tensor.detach().expand(len(there), *tensor.shape) for name, tensor in _start(weights).items()
        }
        for _ in range(self.settings.whole("inner_steps")):
            leaves = {name: tensor.clone().requires_grad_() for name, tensor in network_of.items()}
            losses = (softplus(-_margins(leaves, *rows)) * there).sum(dim=1) / count.clamp(min=1e-9)
            # Users share no weight, so the gradient of the sum is that of each.
            gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
            network_of = {
                name: leaf.detach() - self.settings.real("inner_rate") * gradient
                for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True)
            }
        return network_of

    def drawn(self, width: int, seed: int) -> Mapping[str, torch.Tensor]:
        """Return the start before training, for answers of `width` numbers."""
        hidden, draw = self.settings.whole("hidden"), WeightDraw(seed)
        draw.mlp(NETWORK.removesuffix("."), (width, *([hidden] if hidden else []), 1))
        return draw.weights


def network(weights: Weights, rows: torch.Tensor) -> torch.Tensor:
    """Return the reward (users, answers) of rows (users, answers, width) by each user's own weights (users, ...)."""
    layer = 0
    while f"{NETWORK}{layer}.weight" in weights:
        weight, bias = (weights[f"{NETWORK}{layer}.{part}"] for part in ("weight", "bias"))
        rows = torch.baddbmm(bias[:, None], rows.relu() if layer else rows, weight.transpose(1, 2))
        layer += 1
    return rows[..., 0]


def _start(weights: Weights) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in weights.items() if name.startswith(NETWORK)}


def _rows(weights: Weights, pairs: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
    return scaled(weights, "answers", pairs.preferred), scaled(weights, "answers", pairs.other)


def _margins(weights: Weights, preferred: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return network(weights, preferred) - network(weights, other)

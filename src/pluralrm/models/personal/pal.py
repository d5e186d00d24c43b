"""PAL: K prototypes that all users share, and for each user a point of the simplex between them, the ideal point.

    w = softmax(W_u)
    pal-a    u = f(sum_k w_k P_k)              prototypes P_k among the features
    pal-b    u = sum_k w_k g_k(prompt)         prototypes that depend on what is asked
    reward = exp(s) cos(f(answer), u)          measure=cosine
           = -|f(answer) - u|                  measure=distance
    loss = -log sigmoid(reward of preferred - reward of other)

A new user: everything is frozen but W_u, which starts from the mean over the training users and takes `adapt_epochs`
steps of AdamW, each over all pairs. A user without pairs keeps that mean.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.functional import normalize, softplus

from pluralrm.models.personal.algorithms import Fitted, Hyper, Need, State, Tell, held_out_loss
from pluralrm.models.personal.examples import FloatArray, UserExamples
from pluralrm.models.personal.networks import (
    Batch,
    Opened,
    Schedule,
    Sizes,
    WeightDraw,
    Weights,
    answer_scale,
    as_new_users,
    batches,
    mlp,
    optimised,
    pairs_of,
    scale_of,
    scaled,
    threads,
    to_state,
    width_of,
)

_LOGITS = "logits"
"""Of the users in training (users, K), and of the population in what is kept (K,)."""


@dataclass(frozen=True)
class Pal:
    """The algorithm, made with its hyperparameters; `by_prompt` is PAL-B."""

    settings: Hyper
    by_prompt: bool
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    @property
    def needs(self) -> frozenset[Need]:
        """From pairs alone."""
        return frozenset({"pairs"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, tell: Tell) -> Fitted:
        """Return what all users share, the population's weights among it, and the weights of each training user."""
        scales = answer_scale(train, self.settings.whole("axes"))
        shown = as_new_users(train, scales, self.settings.whole("folds"), seed=seed)
        if self.by_prompt:
            scales = {**scales, **scale_of("prompts", (user.prompts for user in train), train[0].prompts.shape[1])}
        fixed = self._opened(scales)
        sizes = Sizes(self.settings.whole("batch"), 0, self.settings.whole("asked"))

        def losses(weights: Weights, epoch: int) -> Iterator[torch.Tensor]:
            for batch in batches(shown, sizes, seed=seed, epoch=epoch, passes=self.settings.whole("passes")):
                yield self.loss({**fixed, **weights}, batch)

        def judged(weights: Weights) -> float:
            return held_out_loss(self, {**scales, **_shared(weights)}, held_out)

        widths = width_of(scales), train[0].prompts.shape[1]
        first = {**self.drawn(*widths, seed=seed), _LOGITS: torch.zeros(len(train), self._prototypes)}
        with threads():
            found = optimised(first, losses, judged, self._schedule, tell=tell)
        return Fitted({**scales, **_shared(found.weights)}, _users(found.weights, train), found.curve)

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the user's logits; those of the population without pairs."""
        if not context.pairs:
            return {_LOGITS: np.array(shared[_LOGITS], np.float32)}
        weights, pairs = self._opened(shared), pairs_of(context)
        logits = weights[_LOGITS].clone().requires_grad_()
        with torch.no_grad():
            answers = [self._mapped(weights, each) for each in (pairs.preferred, pairs.other)]
            between = self._prototypes_for(weights, pairs.prompts)
        optimizer = torch.optim.AdamW([logits], lr=self.settings.real("adapt_rate"))
        for _ in range(self.settings.whole("adapt_epochs")):
            ideal = self._ideal(weights, between, logits[None])
            margin = self._reward(weights, answers[0], ideal) - self._reward(weights, answers[1], ideal)
            [logits.grad] = torch.autograd.grad(softplus(-margin).mean(), [logits])
            optimizer.step()
        return {_LOGITS: np.array(logits.detach().numpy(), np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:
        """Return the reward of each answer."""
        rows = [torch.tensor(each)[None] for each in (prompts, answers)]
        with torch.no_grad():
            found = self.rewards(self._opened(shared), torch.tensor(user[_LOGITS])[None], rows[0], rows[1])
        return np.asarray(found[0].numpy(), np.float32)

    def loss(self, weights: Weights, batch: Batch) -> torch.Tensor:
        """Return the mean loss over the pairs of a batch."""
        logits, asked = weights[_LOGITS][batch.who], batch.asked
        preferred, other = (
            self.rewards(weights, logits, asked.prompts, each) for each in (asked.preferred, asked.other)
        )
        return softplus(other - preferred)[asked.there].mean()

    def rewards(
        self, weights: Weights, logits: torch.Tensor, prompts: torch.Tensor, answers: torch.Tensor
    ) -> torch.Tensor:
        """Return (users, answers) for users' logits (users, K); prompts and answers are (users, answers, d)."""
        ideal = self._ideal(weights, self._prototypes_for(weights, prompts), logits)
        return self._reward(weights, self._mapped(weights, answers), ideal)

    # ------------------------------------------------------------ parts

    def drawn(self, width: int, prompts: int, *, seed: int) -> dict[str, torch.Tensor]:
        """Return the weights that training begins with, but for those of users; for answers and prompts so wide."""
        hidden, inner = self.settings.whole("hidden"), self.settings.whole("inner")
        draw = WeightDraw(seed)
        draw.mlp("map", (width, hidden, inner))
        if self.by_prompt:
            draw.mlp("prototypes", (prompts, hidden, self._prototypes * inner))
            # Prototypes begin as good as fixed, and come to depend on the prompt as far as that pays.
            draw.normal("prototypes.1.bias", (self._prototypes * inner,), 1.0)
        else:
            draw.normal("prototypes", (self._prototypes, width), 1.0)
        return {**draw.weights, "log_scale": torch.zeros(())}

    @property
    def _prototypes(self) -> int:
        return self.settings.whole("prototypes")

    def _prototypes_for(self, weights: Weights, prompts: torch.Tensor) -> torch.Tensor:
        """Return the prototypes: (K, d) among the features, or (users, answers, K, inner) by the prompt."""
        if not self.by_prompt:
            return weights["prototypes"]
        found = mlp(weights, "prototypes", scaled(weights, "prompts", prompts) / prompts.shape[2])
        return found.unflatten(2, (self._prototypes, -1))

    def _ideal(self, weights: Weights, prototypes: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Return the ideal points, (users, 1 or answers, inner)."""
        shares = logits.softmax(dim=1)
        if not self.by_prompt:
            return mlp(weights, "map", shares @ prototypes)[:, None]
        return torch.einsum("uk,uaki->uai", shares, prototypes)

    def _mapped(self, weights: Weights, answers: torch.Tensor) -> torch.Tensor:
        return mlp(weights, "map", scaled(weights, "answers", answers))

    def _reward(self, weights: Weights, mapped: torch.Tensor, ideal: torch.Tensor) -> torch.Tensor:
        if self.settings.word("measure") == "distance":
            # The root has no slope at 0.
            return -((mapped - ideal) ** 2).sum(dim=2).add(1e-12).sqrt()
        return weights["log_scale"].exp() * (normalize(mapped, dim=2) * normalize(ideal, dim=2)).sum(dim=2)

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.settings.whole("epochs"), self.settings.real("rate"), self.settings.whole("patience"))


def make_a(settings: Hyper) -> Pal:
    """Return PAL-A."""
    return Pal(settings, by_prompt=False)


def make_b(settings: Hyper) -> Pal:
    """Return PAL-B."""
    return Pal(settings, by_prompt=True)


def shares(state: State) -> FloatArray:
    """Return a user's point of the simplex, (K,)."""
    exact = np.exp(state[_LOGITS].astype(np.float64) - state[_LOGITS].max())
    return np.asarray(exact / exact.sum(), np.float32)


def _shared(weights: Weights) -> State:
    """Return what all users share: the mean of their logits stands for the population."""
    return to_state({**weights, _LOGITS: weights[_LOGITS].mean(dim=0)})


def _users(weights: Weights, users: Sequence[UserExamples]) -> Mapping[str, State]:
    rows = to_state({_LOGITS: weights[_LOGITS]})[_LOGITS]
    return {user.user: {_LOGITS: row.copy()} for user, row in zip(users, rows, strict=True)}

"""PAL and VPL: users as latent variables, a point between shared prototypes or a vector inferred from pairs.

PAL: K prototypes that all users share, and for each user a point of the simplex between them, the ideal point.

    w = softmax(W_u)
    pal-a    u = f(sum_k w_k P_k)              prototypes P_k among the features
    pal-b    u = sum_k w_k g_k(prompt)         prototypes that depend on what is asked
    reward = exp(s) cos(f(answer), u)          measure=cosine
           = -|f(answer) - u|                  measure=distance
    loss = -log sigmoid(reward of preferred - reward of other)

A new user: everything is frozen but W_u, which starts from the mean over the training users and takes `adapt_epochs`
steps of AdamW, each over all pairs. A user without pairs keeps that mean.

VPL: a latent variable z for each user, inferred from pairs by an encoder; reward is decoded from (answer, z).

    e_i = MLP[preferred_i; other_i]            one code for each pair shown
    m, log v = linear(mean_i attention(e)_i)   one head, over the user's pairs
    r = MLP[answer; z]                         z = m + sqrt(v) noise in training, z = m afterwards: the same scale
    loss = -log sigmoid(r_preferred - r_other) + w KL(N(m, v) || N(0, 1)), w rising from 0 over the first epochs

A user without pairs has the prior's mean, z = 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize, softplus

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
    linear,
    mlp,
    optimised,
    pairs_of,
    scale_of,
    scaled,
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
    needs: frozenset[Need] = frozenset({"pairs"})
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:
        """Return what all users share, the population's weights among it, and the weights of each training user."""
        scales = answer_scale(train, self.settings.whole("axes"))
        users = as_new_users(train, scales, self.settings.whole("folds"), seed=seed)
        if self.by_prompt:
            scales = {**scales, **scale_of("prompts", (user.prompts for user in train), train[0].prompts.shape[1])}
        fixed = self._opened(scales)
        sizes = Sizes(self.settings.whole("batch"), 0, self.settings.whole("asked"))

        def losses(weights: Weights, epoch: int) -> Iterator[torch.Tensor]:
            for batch in batches(users, sizes, seed=seed, epoch=epoch, passes=self.settings.whole("passes")):
                yield self.loss({**fixed, **weights}, batch)

        def judged(weights: Weights) -> float:
            return held_out_loss(self, {**scales, **_shared(weights)}, held_out)

        widths = width_of(scales), train[0].prompts.shape[1]
        first = {**self.drawn(*widths, seed=seed), _LOGITS: torch.zeros(len(train), self._prototypes)}
        result = optimised(first, losses, judged, self.settings, log=log)
        return Fitted({**scales, **_shared(result.weights)}, _users(result.weights, train), result.curve)

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
            rewards = self.rewards(self._opened(shared), torch.tensor(user[_LOGITS])[None], rows[0], rows[1])
        return np.asarray(rewards[0].numpy(), np.float32)

    def loss(self, weights: Weights, batch: Batch) -> torch.Tensor:
        """Return the mean loss over the pairs of a batch."""
        logits, queries = weights[_LOGITS][batch.who], batch.asked
        preferred, other = (
            self.rewards(weights, logits, queries.prompts, each) for each in (queries.preferred, queries.other)
        )
        return softplus(other - preferred)[queries.there].mean()

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
        values = mlp(weights, "prototypes", scaled(weights, "prompts", prompts) / prompts.shape[2])
        return values.unflatten(2, (self._prototypes, -1))

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


def make_pal_a(settings: Hyper) -> Pal:
    """Return PAL-A."""
    return Pal(settings, by_prompt=False)


def make_pal_b(settings: Hyper) -> Pal:
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


class Latent(NamedTuple):
    """What is believed of z for several users, (users, latent) each."""

    mean: torch.Tensor
    log_variance: torch.Tensor


@dataclass(frozen=True)
class Vpl:
    """The algorithm, made with its hyperparameters."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"pairs"})
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:
        """Return encoder and decoder; no user has parameters of their own."""
        scales = answer_scale(train, self.settings.whole("axes"))
        users = as_new_users(train, scales, self.settings.whole("folds"), seed=seed)
        fixed = self._opened(scales)
        sizes = Sizes(*map(self.settings.whole, ("batch", "shown", "asked")))
        noise = torch.Generator().manual_seed(seed + 1)  # not the draws of the weights again

        def losses(weights: Weights, epoch: int) -> Iterator[torch.Tensor]:
            for batch in batches(users, sizes, seed=seed, epoch=epoch, passes=self.settings.whole("passes")):
                drawn_noise = torch.randn(len(batch.posts), self.settings.whole("latent"), generator=noise)
                yield loss({**fixed, **weights}, batch, drawn_noise, self.weight_at(epoch))

        def judged(weights: Weights) -> float:
            return held_out_loss(self, {**scales, **to_state(weights)}, held_out)

        first = drawn(self.settings, width_of(scales), seed)
        result = optimised(first, losses, judged, self.settings, log=log)
        return Fitted({**scales, **to_state(result.weights)}, {}, result.curve)

    def weight_at(self, epoch: int) -> float:
        """Return the weight of the divergence in an epoch, counted from 0: it rises along a line."""
        return self.settings.real("kl") * min(1.0, epoch / self.settings.whole("anneal"))

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the mean of z given the pairs (beyond `most`, the first of them); 0 without pairs."""
        pairs = context.only(slice(self.settings.whole("most")))
        with torch.no_grad():
            latent = encode(self._opened(shared), pairs_of(pairs))
        return {"z": np.asarray(latent.mean[0].numpy(), np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the decoded reward of each answer; the prompt is in its features."""
        with torch.no_grad():
            rewards = decode(self._opened(shared), torch.tensor(answers)[None], torch.tensor(user["z"])[None])
        return np.asarray(rewards[0].numpy(), np.float32)


# ---------------------------------------------------------------- encoder and decoder


def drawn(settings: Hyper, width: int, seed: int) -> Weights:
    """Return the weights that training begins with, for answers of `width` features."""
    code, latent = settings.whole("code"), settings.whole("latent")
    draw = WeightDraw(seed)
    draw.mlp("pair", (2 * width, code, code))
    draw.linear("query", code, code)
    draw.linear("key", code, code)
    draw.linear("value", code, code)
    draw.linear("mean", code, latent)
    draw.linear("log_variance", code, latent)
    draw.mlp("reward", (width + latent, settings.whole("hidden"), settings.whole("hidden"), 1))
    return draw.weights


def encode(weights: Weights, pair_batch: PairBatch) -> Latent:
    """Return the belief about z; that of a user without pairs is the prior, N(0, 1)."""
    rows = [scaled(weights, "answers", each) for each in (pair_batch.preferred, pair_batch.other)]
    codes = mlp(weights, "pair", torch.cat(rows, dim=2)).relu()
    query, key, value = (linear(weights, name, codes) for name in ("query", "key", "value"))
    likeness = query @ key.transpose(1, 2) / codes.shape[2] ** 0.5  # (users, pairs, pairs)
    # A large number and not infinity: a row that fills up would be 0/0 where nothing is there.
    attention = likeness.masked_fill(~pair_batch.there[:, None], -1e9).softmax(dim=2)
    there = pair_batch.there[..., None].float()
    pooled = ((attention @ value) * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)
    has_pairs = pair_batch.there.any(dim=1)[:, None]
    return Latent(linear(weights, "mean", pooled) * has_pairs, linear(weights, "log_variance", pooled) * has_pairs)


def decode(weights: Weights, answers: torch.Tensor, latent: torch.Tensor) -> torch.Tensor:
    """Return the reward (users, answers) of answers (users, answers, d) for users with z (users, latent)."""
    rows = scaled(weights, "answers", answers)
    beside = latent[:, None].expand(-1, rows.shape[1], -1)
    return mlp(weights, "reward", torch.cat([rows, beside], dim=2))[..., 0]


# ---------------------------------------------------------------- loss


def loss(weights: Weights, batch: Batch, noise: torch.Tensor, kl_weight: float) -> torch.Tensor:
    """Return the mean loss over the pairs asked about, plus the weighted mean divergence over the users."""
    believed = encode(weights, batch.shown)
    latent = believed.mean + (0.5 * believed.log_variance).exp() * noise
    margin = decode(weights, batch.asked.preferred, latent) - decode(weights, batch.asked.other, latent)
    return softplus(-margin)[batch.asked.there].mean() + kl_weight * divergence(believed).mean()


def divergence(believed: Latent) -> torch.Tensor:
    """Return KL(N(m, v) || N(0, 1)) for each user: the sum over z of (m^2 + v - 1 - log v) / 2."""
    each = believed.mean**2 + believed.log_variance.exp() - 1 - believed.log_variance
    return 0.5 * each.sum(dim=1)

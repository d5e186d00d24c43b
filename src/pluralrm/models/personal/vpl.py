"""VPL: a latent variable z for each user, inferred from pairs by an encoder; the reward is decoded from (answer, z).

    e_i = MLP[preferred_i; other_i]            one code for each pair shown
    m, log v = linear(mean_i attention(e)_i)   one head, over the user's pairs
    r = MLP[answer; z]                         z = m + sqrt(v) noise in training, z = m afterwards: the same scale
    loss = -log sigmoid(r_preferred - r_other) + w KL(N(m, v) || N(0, 1)), w rising from 0 over the first epochs

A user without pairs has the prior's mean, z = 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import softplus

from pluralrm.models.personal.algorithms import Fitted, Hyper, Need, State, Tell, held_out_loss
from pluralrm.models.personal.examples import FloatArray, UserExamples
from pluralrm.models.personal.networks import (
    Batch,
    Opened,
    PairBatch,
    Schedule,
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
    scaled,
    threads,
    to_state,
    width_of,
)


class Latent(NamedTuple):
    """What is believed of z for several users, (users, latent) each."""

    mean: torch.Tensor
    log_variance: torch.Tensor


@dataclass(frozen=True)
class Vpl:
    """The algorithm, made with its hyperparameters."""

    settings: Hyper
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    @property
    def needs(self) -> frozenset[Need]:
        """From pairs alone."""
        return frozenset({"pairs"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, tell: Tell) -> Fitted:
        """Return encoder and decoder; no user has parameters of their own."""
        scales = answer_scale(train, self.settings.whole("axes"))
        shown = as_new_users(train, scales, self.settings.whole("folds"), seed=seed)
        fixed = self._opened(scales)
        sizes = Sizes(*map(self.settings.whole, ("batch", "shown", "asked")))
        noise = torch.Generator().manual_seed(seed + 1)  # not the draws of the weights again

        def losses(weights: Weights, epoch: int) -> Iterator[torch.Tensor]:
            for batch in batches(shown, sizes, seed=seed, epoch=epoch, passes=self.settings.whole("passes")):
                drawn_noise = torch.randn(len(batch.posts), self.settings.whole("latent"), generator=noise)
                yield loss({**fixed, **weights}, batch, drawn_noise, self.weight_at(epoch))

        def judged(weights: Weights) -> float:
            return held_out_loss(self, {**scales, **to_state(weights)}, held_out)

        schedule = Schedule(self.settings.whole("epochs"), self.settings.real("rate"), self.settings.whole("patience"))
        with threads():
            found = optimised(drawn(self.settings, width_of(scales), seed), losses, judged, schedule, tell=tell)
        return Fitted({**scales, **to_state(found.weights)}, {}, found.curve)

    def weight_at(self, epoch: int) -> float:
        """Return the weight of the divergence in an epoch, counted from 0: it rises along a line."""
        return self.settings.real("kl") * min(1.0, epoch / self.settings.whole("anneal"))

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the mean of z given the pairs (beyond `most`, the first of them); 0 without pairs."""
        shown = context.only(slice(self.settings.whole("most")))
        with torch.no_grad():
            found = encode(self._opened(shared), pairs_of(shown))
        return {"z": np.asarray(found.mean[0].numpy(), np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the decoded reward of each answer; the prompt is in its features."""
        with torch.no_grad():
            found = decode(self._opened(shared), torch.tensor(answers)[None], torch.tensor(user["z"])[None])
        return np.asarray(found[0].numpy(), np.float32)


def make(settings: Hyper) -> Vpl:
    """Return the algorithm."""
    return Vpl(settings)


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


def encode(weights: Weights, shown: PairBatch) -> Latent:
    """Return the belief about z; that of a user without pairs is the prior, N(0, 1)."""
    rows = [scaled(weights, "answers", each) for each in (shown.preferred, shown.other)]
    codes = mlp(weights, "pair", torch.cat(rows, dim=2)).relu()
    query, key, value = (linear(weights, name, codes) for name in ("query", "key", "value"))
    likeness = query @ key.transpose(1, 2) / codes.shape[2] ** 0.5  # (users, pairs, pairs)
    # A large number and not infinity: a row that fills up would be 0/0 where nothing is there.
    attention = likeness.masked_fill(~shown.there[:, None], -1e9).softmax(dim=2)
    there = shown.there[..., None].float()
    pooled = ((attention @ value) * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)
    told = shown.there.any(dim=1)[:, None]
    return Latent(linear(weights, "mean", pooled) * told, linear(weights, "log_variance", pooled) * told)


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

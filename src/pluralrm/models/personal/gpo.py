"""GPO: a transformer that reads a user's pairs as points and predicts the reward at other points.

point = (x, y): x the features of question and answer (with posts=concat, and of the user's mean post), y = 1 for the
preferred answer, -1 for the other, 0 for one that is asked about. Every point attends to the shown points and to one
learned blank, and to no point that is asked about: nothing depends on the order of the shown, or on what else is asked.
A new user costs no gradient: the state is the points themselves.

    loss=choice    -log softmax of the means over a question's two answers; the mean is the reward
    loss=gauss     -log N(y; mean, exp(log_std)^2) for each answer, as for the labels of a regression
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention, softplus

from pluralrm.errors import SpecError
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
    mean_post,
    mirrored,
    mlp,
    norm,
    optimised,
    scale_of,
    scaled,
    to_state,
    width_of,
)

PREFERRED, OTHER, ASKED = 1.0, -1.0, 0.0
_LOG_STD = 3.0
"""The deviation stays within exp(-3) and exp(3): a label that is surely known would be worth any number."""


class Points(NamedTuple):
    """What is shown of several users; `there` is False where a row fills up."""

    rows: torch.Tensor
    """(users, points, width)"""
    labels: torch.Tensor
    """(users, points)"""
    there: torch.Tensor
    """(users, points)"""


class Predicted(NamedTuple):
    """What is foreseen at each point that is asked about, (users, asked)."""

    mean: torch.Tensor
    log_std: torch.Tensor


@dataclass(frozen=True)
class Gpo:
    """The algorithm, made with its hyperparameters."""

    settings: Hyper
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    @property
    def needs(self) -> frozenset[Need]:
        """From pairs; with posts=concat from posts too."""
        return frozenset({"pairs", "posts"}) if self._concat else frozenset({"pairs"})

    @property
    def _concat(self) -> bool:
        return self.settings.word("posts") == "concat"

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:
        """Return the transformer; no user has parameters of their own."""
        scales = self._scales(train)
        users = as_new_users(train, scales, self.settings.whole("folds"), seed=seed)
        fixed = self._opened(scales)
        # Posts say what the user's axes say, and are not mirrored with them.
        mirror = self.settings.whole("mirror") and self.settings.whole("axes") and not self._concat
        coins = torch.Generator().manual_seed(seed + 2)
        width = width_of(scales) + (train[0].posts.shape[1] if self._concat else 0)

        def losses(weights: Weights, epoch: int) -> Iterator[torch.Tensor]:
            for batch in batches(users, self._sizes, seed=seed, epoch=epoch, passes=self.settings.whole("passes")):
                read = mirrored(fixed, coins) if mirror else fixed
                yield self.loss({**read, **weights}, batch)

        def judged(weights: Weights) -> float:
            return held_out_loss(self, {**scales, **to_state(weights)}, held_out)

        result = optimised(drawn(self.settings, width, seed), losses, judged, self.settings, log=log)
        return Fitted({**scales, **to_state(result.weights)}, {}, result.curve)

    def adapt(self, shared: State, context: UserExamples) -> State:  # noqa: ARG002 - points are kept as they are
        """Return the user's points; beyond `most` pairs, those of the first `most`."""
        sample = context.only(slice(self.settings.whole("most")))
        labels = np.repeat(np.array([PREFERRED, OTHER], np.float32), sample.pairs)
        rows = np.concatenate([sample.preferred, sample.other]).astype(np.float32)
        return {"rows": rows, "labels": labels, "post": mean_post(context)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the mean at each answer; the prompt is in its features."""
        weights = self._opened(shared)
        post, rows, queries = (torch.tensor(each)[None] for each in (user["post"], user["rows"], answers))
        there = torch.ones(rows.shape[:2], dtype=torch.bool)
        with torch.no_grad():
            points = Points(self._points(weights, rows, post), torch.tensor(user["labels"])[None], there)
            prediction = predict(
                weights, points, self._points(weights, queries, post), heads=self.settings.whole("heads")
            )
        return np.asarray(prediction.mean[0].numpy(), np.float32)

    def loss(self, weights: Weights, batch: Batch) -> torch.Tensor:
        """Return the mean loss over what is asked of a batch."""
        context, queries = batch.shown, batch.asked
        rows = self._points(weights, torch.cat([context.preferred, context.other], dim=1), batch.posts)
        points = Points(rows, _labels(context.there), torch.cat([context.there, context.there], dim=1))
        targets = self._points(weights, torch.cat([queries.preferred, queries.other], dim=1), batch.posts)
        prediction = predict(weights, points, targets, heads=self.settings.whole("heads"))
        return (
            choice_loss(prediction, queries)
            if self.settings.word("loss") == "choice"
            else gauss_loss(prediction, queries)
        )

    def _points(self, weights: Weights, rows: torch.Tensor, posts: torch.Tensor) -> torch.Tensor:
        """Return the scaled features (users, points, width) of answers (users, points, d) and mean posts (users, d)."""
        # The label is one number beside many: the features together are given about its length.
        points = scaled(weights, "answers", rows)
        if self._concat:
            post = scaled(weights, "posts", posts)[:, None].expand(-1, points.shape[1], -1)
            points = torch.cat([points, post], dim=2)
        return points / math.sqrt(points.shape[2])

    def _scales(self, users: Sequence[UserExamples]) -> State:
        answers = answer_scale(users, self.settings.whole("axes"))
        if not self._concat:
            return answers
        posts = (mean_post(user)[None] for user in users)
        return {**answers, **scale_of("posts", posts, users[0].posts.shape[1])}

    @property
    def _sizes(self) -> Sizes:
        return Sizes(*map(self.settings.whole, ("batch", "shown", "asked")))


def make(settings: Hyper) -> Gpo:
    """Return the algorithm; heads that do not divide the width are a SpecError."""
    if settings.whole("width") % settings.whole("heads"):
        raise SpecError(
            f"fit gpo: heads is {settings.whole('heads')}; wanted a divisor of width={settings.whole('width')}"
        )
    return Gpo(settings)


# ---------------------------------------------------------------- the transformer


def drawn(settings: Hyper, width: int, seed: int) -> Weights:
    """Return the weights that training begins with, for points of `width` features."""
    inner, ff = settings.whole("width"), settings.whole("ff")
    draw = WeightDraw(seed)
    draw.mlp("token", (width + 1, *[inner] * settings.whole("depth")))
    draw.normal("blank", (inner,), 0.02)
    for layer in range(settings.whole("layers")):
        draw.norm(f"layer.{layer}.before", inner)
        draw.linear(f"layer.{layer}.query", inner, inner)
        draw.linear(f"layer.{layer}.key_value", inner, 2 * inner)
        draw.linear(f"layer.{layer}.out", inner, inner)
        draw.norm(f"layer.{layer}.between", inner)
        draw.mlp(f"layer.{layer}.ff", (inner, ff, inner))
    draw.norm("last", inner)
    draw.linear("head", inner, 2)
    return draw.weights


def predict(weights: Weights, points: Points, queries: torch.Tensor, *, heads: int) -> Predicted:
    """Return what is foreseen at the rows (users, asked, width), given the shown points."""
    users = len(queries)
    blank = weights["blank"].expand(users, 1, -1)
    nothing = torch.full(queries.shape[:2], ASKED)
    states = torch.cat([blank, _tokens(weights, points.rows, points.labels), _tokens(weights, queries, nothing)], dim=1)
    seen = 1 + points.rows.shape[1]
    there = torch.cat([torch.ones(users, 1, dtype=torch.bool), points.there], dim=1)
    mask = there[:, None, None]  # (users, heads, queries, keys): nobody sees a point that is not there
    layer = 0
    while f"layer.{layer}.query.weight" in weights:
        states = _layer(weights, f"layer.{layer}", states, seen=seen, mask=mask, heads=heads)
        layer += 1
    foreseen = linear(weights, "head", norm(weights, "last", states[:, seen:]))
    return Predicted(foreseen[..., 0], _LOG_STD * torch.tanh(foreseen[..., 1] / _LOG_STD))


def _tokens(weights: Weights, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return mlp(weights, "token", torch.cat([rows, labels[..., None]], dim=2))


def _layer(
    weights: Weights, name: str, states: torch.Tensor, *, seen: int, mask: torch.Tensor, heads: int
) -> torch.Tensor:
    """Return the states (users, points, inner) after one layer; keys and values are the first `seen` alone."""
    rows = norm(weights, f"{name}.before", states)
    query = _split(linear(weights, f"{name}.query", rows), heads)
    key, value = linear(weights, f"{name}.key_value", rows[:, :seen]).chunk(2, dim=2)
    attention = scaled_dot_product_attention(query, _split(key, heads), _split(value, heads), attn_mask=mask)
    states = states + linear(weights, f"{name}.out", attention.transpose(1, 2).flatten(2))
    return states + mlp(weights, f"{name}.ff", norm(weights, f"{name}.between", states))


def _split(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Return (users, heads, points, inner / heads) of (users, points, inner)."""
    return rows.unflatten(2, (heads, -1)).transpose(1, 2)


# ---------------------------------------------------------------- losses


def choice_loss(predicted: Predicted, pair_batch: PairBatch) -> torch.Tensor:
    """Return the mean of -log softmax over two answers; preferred ones are the first half of what was asked about."""
    preferred, other = predicted.mean.chunk(2, dim=1)
    return softplus(other - preferred)[pair_batch.there].mean()


def gauss_loss(predicted: Predicted, pair_batch: PairBatch) -> torch.Tensor:
    """Return the mean of -log N(y; mean, exp(log_std)^2) over the answers of what was asked about."""
    off = (_labels(pair_batch.there) - predicted.mean) / predicted.log_std.exp()
    each = 0.5 * off**2 + predicted.log_std + 0.5 * math.log(2 * math.pi)
    return each[torch.cat([pair_batch.there, pair_batch.there], dim=1)].mean()


def _labels(there: torch.Tensor) -> torch.Tensor:
    """Return the labels (users, 2 pairs) of preferred answers and then of the others."""
    ones = torch.ones(there.shape)
    return torch.cat([PREFERRED * ones, OTHER * ones], dim=1)

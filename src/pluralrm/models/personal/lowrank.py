"""Low rank: K shared rewards, and each user's weights for them.

LoRe, each user a mixture:

    reward_u(x) = (V^T x / scale) . w_u        V: (d, K), w_u on the simplex, w_u = softmax(a_u)
    minimise over V, a:  sum over pairs of -log sigmoid(margin) + l2/2 sum over columns of |V_k - v|^2
                         - prior sum over users of m . log w_u

in turns: every user's mixture, their mean m, then V; both by L-BFGS. v is the pooled reward. The last term is the
logarithm of a Dirichlet prior around the population: convex in w, and without pairs its minimum is m.

PReF, each user a weight for each:

    reward_u(x) = (V^T x / scale) . w_u                      V: (d, K), w_u: (K,)
    minimise over V, w:  sum over pairs of -log sigmoid(margin) + l2/2 |V|^2 + prior/2 sum over users of |w_u - c|^2

in turns: every user's weights (Newton), their mean c, then V (L-BFGS). A new user is an L2 logistic regression towards
c on the pairs as V sees them; without pairs the weights are c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from pluralrm.models.personal.algorithms import Fitted, Hyper, Need, State, Tell, pair_losses
from pluralrm.models.personal.bt import (
    Exact,
    Factors,
    StackedPairs,
    alternate,
    by_user,
    descend,
    directions,
    factor_loss,
    pooled,
    seen,
    slope,
    stacked,
    user_weights,
)
from pluralrm.models.personal.examples import FloatArray, Places, UserExamples

_STEPS = 10
"""Steps of L-BFGS for V in one round: the mixtures move before more would pay."""
_MIXTURE_STEPS = 30
"""Steps for the mixtures in one round; they start from those of the round before."""
_ALONE_STEPS = 200
"""Steps for one new user, who comes from the population."""
_POOLED_STEPS = 50
_POOLED_L2 = 1.0
_APART = 4.0
"""How far from the pooled reward the columns begin, in whitened units."""


@dataclass(frozen=True, slots=True)
class LoRe:
    """A mixture of shared rewards."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"pairs"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return V and m of the round with the least held-out loss, and the mixtures of the training users then."""
        pairs = stacked(train)
        reference = pooled(pairs, _POOLED_L2, steps=_POOLED_STEPS)
        rank = self.settings.whole("rank")
        # Columns in opposite pairs around the pooled reward: their even mixture is that reward.
        ways = directions(pairs, rank // 2) * _APART
        sides = np.concatenate([ways, -ways, np.zeros((len(reference), rank - 2 * ways.shape[1]))], axis=1)
        even = np.full(rank, 1 / rank)
        begin = Factors(reference[:, None] + sides, np.tile(even, (len(pairs.users), 1)), even)

        def one_round(pairs: StackedPairs, factors: Factors) -> Factors:
            return self._round(pairs, factors, reference)

        return alternate(self, pairs, begin, one_round, held_out=held_out, log=log)

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the user's mixture; that of the population without pairs."""
        centre = shared["centre"].astype(np.float64)
        centre = centre / centre.sum()
        if not context.pairs:
            return {"weights": centre.astype(np.float32)}
        rows, owners = seen(shared, context.differences), np.zeros(context.pairs, np.int64)
        weights = mixtures(rows, owners, centre[None], centre, prior=self.settings.real("prior"), steps=_ALONE_STEPS)
        return {"weights": weights[0].astype(np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return (V^T x / scale) . w for each answer."""
        return (seen(shared, answers) @ user["weights"].astype(np.float64)).astype(np.float32)

    def _round(self, pairs: StackedPairs, factors: Factors, reference: Exact) -> Factors:
        prior, l2 = self.settings.real("prior"), self.settings.real("l2")
        rows = pairs.differences @ factors.v
        weights = mixtures(rows, pairs.owners, factors.weights, factors.centre, prior=prior, steps=_MIXTURE_STEPS)

        def loss(flat: Exact) -> tuple[float, Exact]:
            return factor_loss(pairs, flat.reshape(factors.v.shape), weights, pull=l2, towards=reference[:, None])

        v = descend(loss, factors.v.ravel(), steps=_STEPS).reshape(factors.v.shape)
        return Factors(v, weights, weights.mean(axis=0))


def mixtures(rows: Exact, owners: Places, start: Exact, centre: Exact, *, prior: float, steps: int) -> Exact:
    """Return each user's mixture (users, K) for pairs as V sees them, (N, K), from a mixture to start at."""
    shape = start.shape

    def loss(flat: Exact) -> tuple[float, Exact]:
        return mixture_loss(rows, owners, flat.reshape(shape), centre, prior=prior)

    logits = descend(loss, np.log(np.maximum(start, 1e-12)).ravel(), steps=steps).reshape(shape)
    weights: Exact = softmax(logits, axis=1)
    return weights


def mixture_loss(rows: Exact, owners: Places, logits: Exact, centre: Exact, *, prior: float) -> tuple[float, Exact]:
    """Return the losses and the prior's term for mixtures softmax(logits), and the gradient by the logits, flat."""
    logs = log_softmax(logits, axis=1)
    weights = np.exp(logs)
    margins = (rows * weights[owners]).sum(axis=1)
    value = float(pair_losses(margins).sum()) - prior * float((logs * centre).sum())
    by_weight = np.zeros_like(weights)
    np.add.at(by_weight, owners, rows * slope(margins)[:, None])
    inner = (by_weight * weights).sum(axis=1, keepdims=True)
    gradient = weights * (by_weight - inner) - prior * (centre - weights)
    return value, gradient.ravel()


# ---------------------------------------------------------------- PReF

_PREF_STEPS = 10
"""Steps of L-BFGS for V in one round: the weights move before more would pay."""


@dataclass(frozen=True, slots=True)
class PReF:
    """Reward factorisation without a simplex."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"pairs"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return V and c of the round with the least held-out loss, and the weights of the training users then."""
        pairs = stacked(train)
        return alternate(self, pairs, self._begin(pairs), self._round, held_out=held_out, log=log)

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the user's weights; those of the population without pairs."""
        centre = shared["centre"].astype(np.float64)
        rows = seen(shared, context.differences)
        return {"weights": user_weights(rows, centre, self.settings.real("prior")).astype(np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return (V^T x / scale) . w for each answer."""
        return (seen(shared, answers) @ user["weights"].astype(np.float64)).astype(np.float32)

    def _begin(self, pairs: StackedPairs) -> Factors:
        """Return the pooled reward first, with weight 1 for all, and beside it where users differ most."""
        rank, width = self.settings.whole("rank"), pairs.differences.shape[1]
        v = np.zeros((width, rank))
        v[:, 0] = pooled(pairs, max(self.settings.real("l2"), 1e-6), steps=_POOLED_STEPS)
        others = directions(pairs, rank - 1)
        v[:, 1 : 1 + others.shape[1]] = others / 2
        centre = np.eye(rank)[0]
        return Factors(v, np.tile(centre, (len(pairs.users), 1)), centre)

    def _round(self, pairs: StackedPairs, factors: Factors) -> Factors:
        prior, l2 = self.settings.real("prior"), self.settings.real("l2")
        rows = pairs.differences @ factors.v
        weights = np.stack([user_weights(rows[mine], factors.centre, prior) for mine in by_user(pairs)])

        def loss(flat: Exact) -> tuple[float, Exact]:
            return factor_loss(pairs, flat.reshape(factors.v.shape), weights, pull=l2, towards=0.0)

        v = descend(loss, factors.v.ravel(), steps=_PREF_STEPS).reshape(factors.v.shape)
        return Factors(v, weights, weights.mean(axis=0))

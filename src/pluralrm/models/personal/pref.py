"""PReF: K shared rewards, each user a weight for each.

    reward_u(x) = (V^T x / scale) . w_u                      V: (d, K), w_u: (K,)
    minimise over V, w:  sum over pairs of -log sigmoid(margin) + l2/2 |V|^2 + prior/2 sum over users of |w_u - c|^2

in turns: every user's weights (Newton), their mean c, then V (L-BFGS). A new user is an L2 logistic regression towards
c on the pairs as V sees them; without pairs the weights are c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pluralrm.models.personal.algorithms import Fitted, Need, State, Tell
from pluralrm.models.personal.bt import pooled
from pluralrm.models.personal.defaults import Hyper
from pluralrm.models.personal.examples import FloatArray, UserExamples
from pluralrm.models.personal.logistic import (
    Exact,
    Factors,
    Pairs,
    alternate,
    by_user,
    descend,
    directions,
    factor_loss,
    seen,
    stacked,
    user_weights,
)

_STEPS = 10
"""Steps of L-BFGS for V in one round: the weights move before more would pay."""
_POOLED_STEPS = 50


@dataclass(frozen=True, slots=True)
class PReF:
    """Reward factorisation without a simplex."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"pairs"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, tell: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return V and c of the round with the least held-out loss, and the weights of the training users then."""
        pairs = stacked(train)
        return alternate(self, pairs, self._begin(pairs), self._round, held_out=held_out, tell=tell)

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the user's weights; those of the population without pairs."""
        centre = shared["centre"].astype(np.float64)
        rows = seen(shared, context.differences)
        return {"weights": user_weights(rows, centre, self.settings.real("prior")).astype(np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return (V^T x / scale) . w for each answer."""
        return (seen(shared, answers) @ user["weights"].astype(np.float64)).astype(np.float32)

    def _begin(self, pairs: Pairs) -> Factors:
        """Return the pooled reward first, with weight 1 for all, and beside it where users differ most."""
        rank, width = self.settings.whole("rank"), pairs.differences.shape[1]
        v = np.zeros((width, rank))
        v[:, 0] = pooled(pairs, max(self.settings.real("l2"), 1e-6), steps=_POOLED_STEPS)
        others = directions(pairs, rank - 1)
        v[:, 1 : 1 + others.shape[1]] = others / 2
        centre = np.eye(rank)[0]
        return Factors(v, np.tile(centre, (len(pairs.users), 1)), centre)

    def _round(self, pairs: Pairs, factors: Factors) -> Factors:
        prior, l2 = self.settings.real("prior"), self.settings.real("l2")
        rows = pairs.differences @ factors.v
        weights = np.stack([user_weights(rows[mine], factors.centre, prior) for mine in by_user(pairs)])

        def loss(flat: Exact) -> tuple[float, Exact]:
            return factor_loss(pairs, flat.reshape(factors.v.shape), weights, pull=l2, towards=0.0)

        v = descend(loss, factors.v.ravel(), steps=_STEPS).reshape(factors.v.shape)
        return Factors(v, weights, weights.mean(axis=0))


def make(settings: Hyper) -> PReF:
    """Return the algorithm with these hyperparameters."""
    return PReF(settings)

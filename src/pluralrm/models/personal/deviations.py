"""A linear reward of each user's own, in closed form from the pairs: empirical Bayes and nearest neighbours.

    reward_u(x) = w_u . x / scale,  w_u = v + deviation_u            v: the pooled reward (bt), w_u: (d,)

Both start from the derivatives at v: a pair with difference x and probability p = sigmoid(v . x) has gradient
g = (1 - p) x and information h x x^T, h = p (1 - p); J is the mean information of a training pair, and W its inverse
root (with a ridge).

eb, the posterior mean under a Gaussian prior whose covariance is estimated from the training users:

    C = sum over users of sum over i != j of W g_i g_j^T W  /  sum of n (n - 1)      unbiased: no pair meets itself
    deviation = A z,  z ~ N(0, L)          A = W E, (E, L) the largest eigenvalues of C that are above 0
    z_u = (L^-1 + sum h (A^T x)(A^T x)^T)^-1 sum (1 - p) A^T x                       one step of Fisher scoring from v

knn, a vote of the training users whose rewards agree most with the pairs shown:

    d_k = W^2 (sum of g of user k), of unit root mean square over training pairs     t_k = n_k / (n_k + shrink)
    a_k = max(mean of tanh(d_k . x), 0) t_k                                          agreement with the pairs shown
    deviation = strength n / (n + shrink) * sum of a_k d_k / sum of a_k              over the `neighbours` largest a_k

Without pairs both deviations are 0. How many directions (eb) or neighbours (knn) there are is what the users held out
are predicted best with: an epoch is one number of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from pluralrm.models.personal.algorithms import Algorithm, Fitted, Hyper, Need, State, Tell, pair_losses
from pluralrm.models.personal.bt import Exact, StackedPairs, Steps, pooled, slope, stacked
from pluralrm.models.personal.examples import FloatArray, UserExamples

_POOLED_STEPS = 50
_FIRST = 5
"""Neighbours of the first epoch; each epoch has twice as many."""


class Derivatives(NamedTuple):
    """The gradient of each training pair at the pooled reward, and the inverse root of the mean information."""

    v: Exact
    """(d,)"""
    gradients: Exact
    """(N, d)"""
    root: Exact
    """(d, d)"""


def derivatives(pairs: StackedPairs, *, l2: float, ridge: float) -> Derivatives:
    """Return the derivatives at the pooled reward; the ridge is a share of the mean eigenvalue of the information."""
    v = pooled(pairs, l2, steps=_POOLED_STEPS)
    margins = pairs.differences @ v
    gradients = -slope(margins)[:, None] * pairs.differences
    curvature = expit(margins) * expit(-margins)
    information = (pairs.differences * curvature[:, None]).T @ pairs.differences / len(margins)
    values, axes = np.linalg.eigh(information)
    least = max(ridge * float(values.mean()), 1e-12)
    return Derivatives(v, gradients, axes / np.sqrt(np.maximum(values, 0) + least) @ axes.T)


def prior_covariance(gradients: Exact, pairs: StackedPairs) -> Exact:
    """Return C of the module's text, (d, d), for whitened gradients; 0 where no user has two pairs."""
    sums = sums_by_user(gradients, pairs)
    counts = np.bincount(pairs.owners, minlength=len(pairs.users)).astype(float)
    products: Exact = sums.T @ sums - gradients.T @ gradients
    return products / max(float((counts * (counts - 1)).sum()), 1.0)


def sums_by_user(rows: Exact, pairs: StackedPairs) -> Exact:
    """Return the sum of each user's rows, (users, d)."""
    sums = np.zeros((len(pairs.users), rows.shape[1]))
    np.add.at(sums, pairs.owners, rows)
    return sums


def posterior_mean(rows: Exact, margins: Exact, variances: Exact) -> Exact:
    """Return z of the module's text for pairs as the axes see them (n, K), margins at v (n,), and L (K,)."""
    chances = expit(-margins)
    information = (rows * (chances * (1 - chances))[:, None]).T @ rows
    # Multiplied by L, so that a variance of 0 is a direction in which nobody deviates.
    system = np.eye(len(variances)) + variances[:, None] * information
    z: Exact = np.linalg.solve(system, variances * (rows.T @ chances))
    return z


def score_linear(user: State, answers: FloatArray) -> FloatArray:
    """Return w . x / scale of each answer, (m,)."""
    return (answers.astype(np.float64) @ user["direction"].astype(np.float64)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class EmpiricalBayes:
    """The pooled reward and each user's deviation from it, by its posterior mean."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"pairs"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return v, the directions of the prior and their variances; beyond the best number of them these are 0."""
        pairs = stacked(train)
        at = derivatives(pairs, l2=self.settings.real("l2"), ridge=self.settings.real("ridge"))
        values, vectors = np.linalg.eigh(prior_covariance(at.gradients @ at.root, pairs))
        rank = min(self.settings.whole("rank"), len(values))
        variances = np.maximum(values[::-1][:rank], 0)
        axes = at.root @ vectors[:, ::-1][:, :rank]
        shared = {"direction": (at.v / pairs.scale).astype(np.float32), "axes": (axes / pairs.scale).astype(np.float32)}
        steps = Steps(self, held_out, patience=self.settings.whole("patience"), log=log)
        for count in range(rank + 1):
            leading = np.where(np.arange(rank) < count, variances, 0).astype(np.float32)
            state = {**shared, "variances": leading}
            if steps.ended(state, training_loss(self, state, train)):
                break
        return Fitted(steps.best, adapted(self, steps.best, train), tuple(steps.curve))

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the user's direction; the pooled one without pairs."""
        v, axes, variances = (shared[name].astype(np.float64) for name in ("direction", "axes", "variances"))
        differences = context.differences.astype(np.float64)
        z = posterior_mean(differences @ axes, differences @ v, variances)
        return {"direction": (v + axes @ z).astype(np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return w . x / scale for each answer."""
        return score_linear(user, answers)


def adapted(algorithm: Algorithm, shared: State, users: Sequence[UserExamples]) -> Mapping[str, State]:
    """Return the parameters of each user by all pairs of theirs."""
    return {user.user: algorithm.adapt(shared, user) for user in users}


def training_loss(algorithm: Algorithm, shared: State, users: Sequence[UserExamples]) -> float:
    """Return the mean loss of a training pair, each user by the parameters from all pairs of theirs."""
    margins = [
        user.differences.astype(np.float64) @ algorithm.adapt(shared, user)["direction"].astype(np.float64)
        for user in users
    ]
    return float(pair_losses(np.concatenate(margins)).mean())


# ---------------------------------------------------------------- nearest neighbours


@dataclass(frozen=True, slots=True)
class NearestNeighbours:
    """The pooled reward and a vote of the training users who agree with the pairs shown."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"pairs"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return v, each training user's direction and weight, and the best number of neighbours."""
        pairs, shrink = stacked(train), self.settings.real("shrink")
        at = derivatives(pairs, l2=self.settings.real("l2"), ridge=self.settings.real("ridge"))
        own = sums_by_user(at.gradients, pairs) @ at.root @ at.root
        spread = pairs.differences.T @ pairs.differences / len(pairs.differences)
        lengths = np.sqrt(((own @ spread) * own).sum(axis=1))
        own = own / np.maximum(lengths, 1e-12)[:, None]
        counts = np.bincount(pairs.owners, minlength=len(pairs.users)).astype(float)
        shared = {
            "direction": (at.v / pairs.scale).astype(np.float32),
            "neighbours": (own / pairs.scale).astype(np.float32),
            "weights": (counts / (counts + shrink)).astype(np.float32),
        }
        steps = Steps(self, held_out, patience=self.settings.whole("patience"), log=log)
        most, count = min(self.settings.whole("neighbours"), len(train)), _FIRST
        while True:
            state = {**shared, "count": np.array([min(count, most)], np.float32)}
            if steps.ended(state, training_loss(self, state, train)) or count >= most:
                break
            count *= 2
        return Fitted(steps.best, adapted(self, steps.best, train), tuple(steps.curve))

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return the user's direction; the pooled one without pairs, or without a neighbour who agrees."""
        v, neighbours, weights = (shared[name].astype(np.float64) for name in ("direction", "neighbours", "weights"))
        if not context.pairs:
            return {"direction": v.astype(np.float32)}
        margins = context.differences.astype(np.float64) @ neighbours.T
        ballot = vote(margins, weights, int(shared["count"][0]))
        share = context.pairs / (context.pairs + self.settings.real("shrink"))
        return {"direction": (v + self.settings.real("strength") * share * ballot @ neighbours).astype(np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return w . x / scale for each answer."""
        return score_linear(user, answers)


def vote(margins: Exact, weights: Exact, count: int) -> Exact:
    """Return what each neighbour counts for, (users,), by the margins (n, users) that they give the pairs shown."""
    agreement = np.maximum(np.tanh(margins).mean(axis=0), 0) * weights
    nearest = np.argsort(-agreement, kind="stable")[:count]
    ballot = np.zeros_like(weights)
    ballot[nearest] = agreement[nearest] / max(float(agreement[nearest].sum()), 1e-12)
    return ballot

"""Bradley-Terry: pooled, one reward for all users and the baseline of all others; and with the user's posts.

bt:

    reward(x) = v . x / scale
    minimise over v:  sum over pairs of -log sigmoid(reward(preferred) - reward(other)) + l2/2 |v|^2

Convex, so the start does not matter. A user changes nothing: adapting returns no parameters.

bt-posts, features of the answer times features of what the user wrote, without labels of a new user:

    z_u = P^T (mean of the user's posts - mean of all users)         P: (d, r), E|z|^2 = 1 over training users
    reward_u(x) = x . (v + M^T z_u) / scale                          v: (d,), M: (r, d)
    minimise over v, M:  sum over pairs of -log sigmoid(margin) + l2/2 (|v|^2 + |M|^2)

P has the r directions in which the training users' mean posts differ most. A user without posts is the mean user:
z = 0, and v is the reward.

All linear algorithms share P(preferred beats other) = sigmoid(margin), the loss of a pair -log of it, L-BFGS with early
stopping, and Newton for one user.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import OptimizeResult, minimize
from scipy.special import expit

from pluralrm.errors import ModelError
from pluralrm.models.personal.algorithms import (
    Algorithm,
    Epoch,
    Fitted,
    Hyper,
    Need,
    State,
    Tell,
    held_out_loss,
    pair_losses,
)
from pluralrm.models.personal.examples import FloatArray, UserExamples

Exact = npt.NDArray[np.float64]

LossAndSlope = Callable[[Exact], tuple[float, Exact]]


class StackedPairs(NamedTuple):
    """The pairs of several users: differences of features in units of `scale`, and whose each is."""

    differences: Exact
    """(N, d), of length about 1."""
    owners: npt.NDArray[np.int64]
    """(N,), the user's place."""
    users: tuple[str, ...]
    scale: float
    """The root mean square length of a difference, so that one penalty suits features of any size."""


def stacked(train: Sequence[UserExamples]) -> StackedPairs:
    """Return the pairs of all users together."""
    users = list(train)
    differences = np.concatenate([user.differences for user in users]).astype(np.float64)
    owners = np.repeat(np.arange(len(users)), [user.pairs for user in users])
    scale = float(np.sqrt((differences**2).sum(axis=1).mean())) or 1.0
    return StackedPairs(differences / scale, owners, tuple(user.user for user in users), scale)


def by_user(pairs: StackedPairs) -> list[slice]:
    """Return where each user's pairs stand."""
    ends = np.searchsorted(pairs.owners, np.arange(len(pairs.users) + 1))
    return [slice(int(start), int(end)) for start, end in pairwise(ends)]


def slope(margins: Exact) -> Exact:
    """Return the derivative of each pair's loss by its margin."""
    slopes: Exact = -expit(-margins)
    return slopes


class Steps:
    """Keeps the epochs, and the parameters of the best of them; says when there have been enough without a better."""

    def __init__(self, algorithm: Algorithm, held_out: Sequence[UserExamples], *, patience: int, log: Tell) -> None:
        self._algorithm, self._held_out, self._patience, self._log = algorithm, list(held_out), patience, log
        self.curve: list[Epoch] = []
        self.best: State = {}
        self._since = 0

    def ended(self, shared: State, training: float) -> bool:
        """Take the parameters after an epoch and its mean loss; return whether to stop."""
        loss = held_out_loss(self._algorithm, shared, self._held_out)
        better = loss < min((epoch.held_out for epoch in self.curve), default=float("inf"))
        self.curve.append(Epoch(len(self.curve), training, loss))
        self._log(self.curve[-1])
        self._since = 0 if better else self._since + 1
        if better:
            self.best = shared
        return self._since >= self._patience


def descend(loss: LossAndSlope, start: Exact, *, steps: int, ended: Callable[[Exact], bool] | None = None) -> Exact:
    """Return where L-BFGS gets to from `start`; `ended` sees each step and may stop it."""

    def callback(intermediate_result: OptimizeResult) -> None:
        if ended is not None and ended(np.array(intermediate_result.x)):
            raise StopIteration

    result = minimize(
        loss, start, jac=True, method="L-BFGS-B", callback=callback, options={"maxiter": steps, "maxcor": 20}
    )
    return np.asarray(result.x)


def user_weights(rows: Exact, centre: Exact, strength: float) -> Exact:
    """Return argmin of the losses of margins rows @ w plus strength/2 |w - centre|^2, by Newton's method.

    The objective is strictly convex; steps are halved until it falls. Without rows the answer is the centre.
    """
    weights = centre.copy()
    value = _objective(rows, weights, centre, strength)
    for _ in range(50):
        chances = expit(-(rows @ weights))
        gradient = -rows.T @ chances + strength * (weights - centre)
        if np.abs(gradient).max(initial=0.0) < 1e-8:
            break
        curvature = (rows * (chances * (1 - chances))[:, None]).T @ rows + strength * np.eye(len(centre))
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        while (new := _objective(rows, weights - length * step, centre, strength)) > value and length > 1e-6:
            length /= 2
        weights, value = weights - length * step, new
    return weights


def _objective(rows: Exact, weights: Exact, centre: Exact, strength: float) -> float:
    return float(pair_losses(rows @ weights).sum() + strength / 2 * ((weights - centre) ** 2).sum())


_SMOOTHED = 1.0
"""Share of the mean variance that is added to every direction before whitening."""


class Factors(NamedTuple):
    """Shared rewards v (d, K), weights of users (users, K), and their centre (K,)."""

    v: Exact
    weights: Exact
    centre: Exact


class Factored(Algorithm, Protocol):
    """An algorithm that is fitted in turns."""

    @property
    def settings(self) -> Hyper:
        """Its hyperparameters: `epochs` and `patience` are read here."""
        ...


def alternate(
    algorithm: Factored,
    pairs: StackedPairs,
    factors: Factors,
    one_round: Callable[[StackedPairs, Factors], Factors],
    *,
    held_out: Sequence[UserExamples],
    log: Tell,
) -> Fitted:
    """Return the factors of the round with the least held-out loss."""
    settings, best = algorithm.settings, factors
    steps = Steps(algorithm, held_out, patience=settings.whole("patience"), log=log)
    for _ in range(settings.whole("epochs")):
        factors = one_round(pairs, factors)
        shared = {"v": (factors.v / pairs.scale).astype(np.float32), "centre": factors.centre.astype(np.float32)}
        ended = steps.ended(shared, mean_loss(pairs, factors))
        best = factors if steps.best is shared else best
        if ended:
            break
    users: Mapping[str, State] = {
        user: {"weights": row} for user, row in zip(pairs.users, best.weights.astype(np.float32), strict=True)
    }
    return Fitted(steps.best, users, tuple(steps.curve))


def seen(shared: State, rows: FloatArray) -> Exact:
    """Return V^T x / scale of each row, (n, K)."""
    values: Exact = rows.astype(np.float64) @ shared["v"].astype(np.float64)
    return values


def mean_loss(pairs: StackedPairs, factors: Factors) -> float:
    """Return the mean loss of a training pair."""
    margins = ((pairs.differences @ factors.v) * factors.weights[pairs.owners]).sum(axis=1)
    return float(pair_losses(margins).mean())


def factor_loss(
    pairs: StackedPairs, v: Exact, weights: Exact, *, pull: float, towards: Exact | float
) -> tuple[float, Exact]:
    """Return the losses plus pull/2 |V - towards|^2 for fixed weights, and the gradient by V, flat."""
    mine = weights[pairs.owners]
    margins = ((pairs.differences @ v) * mine).sum(axis=1)
    away = v - towards
    value = float(pair_losses(margins).sum()) + pull / 2 * float((away**2).sum())
    gradient = pairs.differences.T @ (mine * slope(margins)[:, None]) + pull * away
    return value, gradient.ravel()


def directions(pairs: StackedPairs, count: int) -> Exact:
    """Return the directions (d, count) in which users differ most, to begin with; fewer where there are not so many.

    Each user's sum of differences points to what that user likes. Whitened, so that what answers differ in anyway
    does not pass for taste; then the largest singular vectors of what is left without the mean user.
    """
    spread = pairs.differences.T @ pairs.differences / len(pairs.differences)
    values, axes = np.linalg.eigh(spread)
    whiten = axes / np.sqrt(np.maximum(values, 0) + _SMOOTHED * values.mean()) @ axes.T
    sums = np.zeros((len(pairs.users), spread.shape[0]))
    np.add.at(sums, pairs.owners, pairs.differences)
    liked = sums @ whiten
    _, _, right = np.linalg.svd(liked - liked.mean(axis=0), full_matrices=False)
    # The sign of a singular vector is an accident; the largest entry is made positive.
    basis = right[:count]
    basis = basis * np.sign(basis[np.arange(len(basis)), np.abs(basis).argmax(axis=1)])[:, None]
    vectors: Exact = whiten @ basis.T
    return vectors


# ---------------------------------------------------------------- pooled, and with posts


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """One reward for all users."""

    settings: Hyper
    needs: frozenset[Need] = frozenset()

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return the direction of the step of L-BFGS with the least held-out loss."""
        pairs = stacked(train)
        steps = Steps(self, held_out, patience=self.settings.whole("patience"), log=log)

        def ended(v: Exact) -> bool:
            training = float(pair_losses(pairs.differences @ v).mean())
            return steps.ended({"direction": (v / pairs.scale).astype(np.float32)}, training)

        pooled(pairs, self.settings.real("l2"), steps=self.settings.whole("epochs"), ended=ended)
        return Fitted(steps.best, {}, tuple(steps.curve))

    def adapt(self, shared: State, context: UserExamples) -> State:  # noqa: ARG002 - one reward for all
        """Return no parameters."""
        return {}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return v . x / scale for each answer."""
        rewards: FloatArray = answers @ shared["direction"]
        return rewards


def pooled(pairs: StackedPairs, l2: float, *, steps: int, ended: Callable[[Exact], bool] | None = None) -> Exact:
    """Return the v of the module's text, for differences in units of their scale."""

    def loss(v: Exact) -> tuple[float, Exact]:
        return pooled_loss(pairs.differences, v, l2)

    return descend(loss, np.zeros(pairs.differences.shape[1]), steps=steps, ended=ended)


def pooled_loss(differences: Exact, v: Exact, l2: float) -> tuple[float, Exact]:
    """Return the penalised loss, and its gradient."""
    margins = differences @ v
    value = float(pair_losses(margins).sum()) + l2 / 2 * float(v @ v)
    return value, differences.T @ slope(margins) + l2 * v


@dataclass(frozen=True, slots=True)
class BradleyTerryPosts:
    """A reward that depends on what the user wrote."""

    settings: Hyper
    needs: frozenset[Need] = frozenset({"posts"})

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, log: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return v, M and P of the step of L-BFGS with the least held-out loss."""
        pairs = stacked(train)
        reading = _reading([_mean(user) for user in train], self.settings.whole("rank"))
        z = np.stack([_place(reading, _mean(user)) for user in train])
        shape = (1 + z.shape[1], pairs.differences.shape[1])
        steps = Steps(self, held_out, patience=self.settings.whole("patience"), log=log)
        l2 = self.settings.real("l2")

        def loss(flat: Exact) -> tuple[float, Exact]:
            return posts_loss(pairs, z, flat.reshape(shape), l2)

        def ended(flat: Exact) -> bool:
            weights = flat.reshape(shape)
            shared = {**reading, "weights": (weights / pairs.scale).astype(np.float32)}
            return steps.ended(shared, float(pair_losses(margins(pairs, z, weights)).mean()))

        descend(loss, np.zeros(shape).ravel(), steps=self.settings.whole("epochs"), ended=ended)
        return Fitted(steps.best, {}, tuple(steps.curve))

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return v + M^T z, the direction of this user's reward."""
        weights = shared["weights"].astype(np.float64)
        position = _place(shared, _mean(context))
        return {"direction": (weights[0] + position @ weights[1:]).astype(np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return x . (v + M^T z) / scale for each answer."""
        rewards: FloatArray = answers @ user["direction"]
        return rewards


def margins(pairs: StackedPairs, z: Exact, weights: Exact) -> Exact:
    """Return the margin of each pair; row 0 of the weights is v, the others are M."""
    values: Exact = (pairs.differences * (weights[0] + z[pairs.owners] @ weights[1:])).sum(axis=1)
    return values


def posts_loss(pairs: StackedPairs, z: Exact, weights: Exact, l2: float) -> tuple[float, Exact]:
    """Return the penalised loss, and its gradient by the weights, flat."""
    gaps = margins(pairs, z, weights)
    pulled = pairs.differences * slope(gaps)[:, None]
    gradient = np.concatenate([pulled.sum(axis=0)[None], z[pairs.owners].T @ pulled])
    value = float(pair_losses(gaps).sum()) + l2 / 2 * float((weights**2).sum())
    return value, (gradient + l2 * weights).ravel()


def _mean(user: UserExamples) -> Exact | None:
    return user.posts.mean(axis=0, dtype=np.float64) if len(user.posts) else None


def _reading(means: Sequence[Exact | None], rank: int) -> State:
    """Return the mean user, and the projection P to at most `rank` dimensions."""
    vectors = [mean for mean in means if mean is not None]
    if len(vectors) < 2:
        raise ModelError(f"bt-posts: found {len(vectors)} training users with posts, wanted at least 2")
    rows = np.stack(vectors)
    centre = rows.mean(axis=0)
    _, values, right = np.linalg.svd(rows - centre, full_matrices=False)
    basis = right[:rank][values[:rank] > 1e-9 * max(float(values[0]), 1e-300)]
    size = np.sqrt((((rows - centre) @ basis.T) ** 2).sum(axis=1).mean()) or 1.0
    return {"centre": centre.astype(np.float32), "projection": (basis.T / size).astype(np.float32)}


def _place(reading: State, mean: Exact | None) -> Exact:
    if mean is None:
        return np.zeros(reading["projection"].shape[1])
    position: Exact = (mean - reading["centre"]) @ reading["projection"].astype(np.float64)
    return position

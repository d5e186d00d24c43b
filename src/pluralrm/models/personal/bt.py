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
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pluralrm.errors import ModelError
from pluralrm.models.personal.algorithms import Fitted, Hyper, Need, State, Tell, pair_losses
from pluralrm.models.personal.examples import FloatArray, UserExamples
from pluralrm.models.personal.logistic import Exact, Pairs, Steps, descend, slope, stacked


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """One reward for all users."""

    settings: Hyper
    needs: frozenset[Need] = frozenset()

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, tell: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return the direction of the step of L-BFGS with the least held-out loss."""
        pairs = stacked(train)
        steps = Steps(self, held_out, patience=self.settings.whole("patience"), tell=tell)

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


def make(settings: Hyper) -> BradleyTerry:
    """Return the algorithm with these hyperparameters."""
    return BradleyTerry(settings)


def pooled(pairs: Pairs, l2: float, *, steps: int, ended: Callable[[Exact], bool] | None = None) -> Exact:
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

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, tell: Tell) -> Fitted:  # noqa: ARG002 - nothing is drawn
        """Return v, M and P of the step of L-BFGS with the least held-out loss."""
        pairs = stacked(train)
        reading = _reading([_mean(user) for user in train], self.settings.whole("rank"))
        z = np.stack([_place(reading, _mean(user)) for user in train])
        shape = (1 + z.shape[1], pairs.differences.shape[1])
        steps = Steps(self, held_out, patience=self.settings.whole("patience"), tell=tell)
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
        place = _place(shared, _mean(context))
        return {"direction": (weights[0] + place @ weights[1:]).astype(np.float32)}

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return x . (v + M^T z) / scale for each answer."""
        rewards: FloatArray = answers @ user["direction"]
        return rewards


def make_posts(settings: Hyper) -> BradleyTerryPosts:
    """Return the algorithm with these hyperparameters."""
    return BradleyTerryPosts(settings)


def margins(pairs: Pairs, z: Exact, weights: Exact) -> Exact:
    """Return the margin of each pair; row 0 of the weights is v, the others are M."""
    found: Exact = (pairs.differences * (weights[0] + z[pairs.owners] @ weights[1:])).sum(axis=1)
    return found


def posts_loss(pairs: Pairs, z: Exact, weights: Exact, l2: float) -> tuple[float, Exact]:
    """Return the penalised loss, and its gradient by the weights, flat."""
    found = margins(pairs, z, weights)
    pulled = pairs.differences * slope(found)[:, None]
    gradient = np.concatenate([pulled.sum(axis=0)[None], z[pairs.owners].T @ pulled])
    value = float(pair_losses(found).sum()) + l2 / 2 * float((weights**2).sum())
    return value, (gradient + l2 * weights).ravel()


def _mean(user: UserExamples) -> Exact | None:
    return user.posts.mean(axis=0, dtype=np.float64) if len(user.posts) else None


def _reading(means: Sequence[Exact | None], rank: int) -> State:
    """Return the mean user, and the projection P to at most `rank` dimensions."""
    known = [mean for mean in means if mean is not None]
    if len(known) < 2:
        raise ModelError(f"bt-posts: found {len(known)} training users with posts, wanted at least 2")
    rows = np.stack(known)
    centre = rows.mean(axis=0)
    _, values, right = np.linalg.svd(rows - centre, full_matrices=False)
    kept = right[:rank][values[:rank] > 1e-9 * max(float(values[0]), 1e-300)]
    size = np.sqrt((((rows - centre) @ kept.T) ** 2).sum(axis=1).mean()) or 1.0
    return {"centre": centre.astype(np.float32), "projection": (kept.T / size).astype(np.float32)}


def _place(reading: State, mean: Exact | None) -> Exact:
    if mean is None:
        return np.zeros(reading["projection"].shape[1])
    found: Exact = (mean - reading["centre"]) @ reading["projection"].astype(np.float64)
    return found

"""What an algorithm is, and the table of them. A row maps a name to "module:attribute", so that nothing loads early.

The attribute makes the algorithm from its hyperparameters: `make(settings) -> Algorithm`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, NamedTuple, Protocol

import numpy as np

from pluralrm.errors import MissingExtraError, SpecError, did_you_mean
from pluralrm.models.personal.defaults import Hyper
from pluralrm.models.personal.examples import FloatArray, UserExamples

State = Mapping[str, FloatArray]
"""Parameters by name, as they are on disk, whatever computed them."""

Need = Literal["pairs", "posts"]


class Epoch(NamedTuple):
    """One step of a fit: the mean loss per pair in training, and on users held out (see `held_out_loss`)."""

    number: int
    training: float
    held_out: float


class Fitted(NamedTuple):
    """What a fit leaves. `users` holds the parameters of training users, where the algorithm has any."""

    shared: State
    users: Mapping[str, State]
    curve: tuple[Epoch, ...]
    """The epochs that were run; the parameters are those of the epoch with the least held-out loss."""


Tell = Callable[[Epoch], None]


class Algorithm(Protocol):
    """A way to learn what a user prefers, made with its hyperparameters. Seeded and deterministic on a CPU."""

    @property
    def needs(self) -> frozenset[Need]:
        """From what of a user it adapts."""
        ...

    def fit(self, train: Sequence[UserExamples], held_out: Sequence[UserExamples], *, seed: int, tell: Tell) -> Fitted:
        """Return the parameters; `tell` hears of each epoch as it ends. No user held out is trained on."""
        ...

    def adapt(self, shared: State, context: UserExamples) -> State:
        """Return a user's parameters: a pure function. Without what it needs, those of the population."""
        ...

    def score(self, shared: State, user: State, prompts: FloatArray, answers: FloatArray) -> FloatArray:
        """Return the reward of each answer, (m,); the prompt of answer i is row i. No row depends on another.

        sigmoid(reward - reward) is the probability that the one is preferred to the other.
        """
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table; `extra` names the optional dependencies that the module imports."""

    maker: str
    summary: str
    extra: str = ""


ALGORITHMS: Mapping[str, Entry] = {
    "bt": Entry("bt:make", "Bradley-Terry on differences of features, one reward for all users: the baseline"),
    "bt-posts": Entry("bt:make_posts", "Bradley-Terry on features of the answer times features of the user's posts"),
    "lore": Entry("lore:make", "a mixture of K shared rewards, each user a point of the simplex"),
    "pref": Entry("pref:make", "K shared rewards, each user a weight for each; a new user by L2 logistic regression"),
    "gpo": Entry("gpo:make", "a transformer that reads a user's pairs and predicts the next", extra="hf"),
    "vpl": Entry("vpl:make", "a latent variable per user, inferred from pairs by an encoder", extra="hf"),
    "pal-a": Entry("pal:make_a", "K prototypes, each user an ideal point between them", extra="hf"),
    "pal-b": Entry("pal:make_b", "as pal-a, with prototypes that depend on the prompt", extra="hf"),
}


def load_algorithm(name: str, settings: Hyper) -> Algorithm:
    """Return the algorithm of that name with these hyperparameters."""
    entry = find(name)
    module, _, attribute = entry.maker.partition(":")
    try:
        make = getattr(import_module(f"pluralrm.models.personal.{module}"), attribute)
    except ImportError as exc:
        if not entry.extra or (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError(f"fit {name}", entry.extra) from exc
    algorithm: Algorithm = make(settings)
    return algorithm


def find(name: str) -> Entry:
    """Return the row of an algorithm; an unknown name gives the nearest known one."""
    if name not in ALGORITHMS:
        raise SpecError(f"unknown algorithm {name!r}.{did_you_mean(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def held_out_loss(algorithm: Algorithm, shared: State, users: Sequence[UserExamples]) -> float:
    """Return the mean over users of -log sigmoid(reward of preferred - reward of other); users without pairs aside.

    Each user shows the first half of the pairs and is judged by the second, so early stopping asks what evaluation
    asks: how good is the model on pairs of a user it has met a moment ago? A user with one pair shows none. Every user
    counts equally, whatever the number of pairs.
    """
    return float(np.mean([_held_out_loss_of(algorithm, shared, user) for user in users if user.pairs]))


def _held_out_loss_of(algorithm: Algorithm, shared: State, user: UserExamples) -> float:
    half = user.pairs // 2
    state = algorithm.adapt(shared, user.only(slice(half)))
    asked = user.only(slice(half, None))
    rewards = [algorithm.score(shared, state, asked.prompts, each) for each in (asked.preferred, asked.other)]
    return float(pair_losses(rewards[0].astype(np.float64) - rewards[1]).mean())


def pair_losses(margins: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.float64]":
    """Return -log sigmoid(margin), without overflow."""
    return np.logaddexp(0.0, -margins)

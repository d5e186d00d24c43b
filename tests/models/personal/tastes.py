"""Users as arrays: each wants one of a few traits, or cannot stand it, and the traits are the features."""

from collections.abc import Sequence

import numpy as np

from pluralrm.models.personal.algorithms import Algorithm, Epoch, Hyper, State, read_settings
from pluralrm.models.personal.examples import UserExamples

TRAITS = 4


def people(users: int, pairs: int, *, seed: int = 0, shuffled: bool = False) -> list[UserExamples]:
    """Return users of `TRAITS` traits; with `shuffled` a coin says which answer of a pair was preferred."""
    return [_person(number, pairs, np.random.default_rng([seed, number]), shuffled) for number in range(users)]


def _person(number: int, pairs: int, rng: np.random.Generator, shuffled: bool) -> UserExamples:
    trait, sign = number % TRAITS, 1 if number // TRAITS % 2 else -1
    answers = rng.choice([-1.0, 1.0], (pairs, TRAITS)).astype(np.float32)
    answers[:, trait] = sign
    if shuffled:
        answers *= rng.choice([-1.0, 1.0], (pairs, 1))
    prompts = rng.normal(size=(pairs, TRAITS)).astype(np.float32)
    posts = (sign * np.eye(TRAITS)[[trait] * 3] + 0.1 * rng.normal(size=(3, TRAITS))).astype(np.float32)
    # The other answer is the opposite in every trait: what the pair is about cannot be seen from one of the two.
    return UserExamples(f"u{number}", posts, prompts, answers.astype(np.float32), -answers.astype(np.float32))


def credit(
    algorithm: Algorithm, shared: State, users: Sequence[UserExamples], *, shown: int, lent: bool = False
) -> float:
    """Return the share of the pairs after the first `shown` that are foreseen from those, or from another user's."""
    found = []
    for place, user in enumerate(users):
        context = users[(place + 1) % len(users)] if lent else user
        state = algorithm.adapt(shared, context.only(slice(shown)))
        asked = user.only(slice(shown, None))
        preferred, other = (
            algorithm.score(shared, state, asked.prompts, each) for each in (asked.preferred, asked.other)
        )
        found.append(float(np.mean((preferred > other) + 0.5 * (preferred == other))))
    return float(np.mean(found))


def settings(algorithm: str, **given: object) -> Hyper:
    return read_settings(algorithm, {key: str(value) for key, value in given.items()})


def quietly(epoch: Epoch) -> None:
    """Hear of an epoch, and say nothing."""
    del epoch

"""What one can know of a taste, by enumeration: every taste that is possible, with its probability given the posts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pluralrm.benchmarks.simulated.settings import Settings
from pluralrm.benchmarks.simulated.tastes import every_taste, signals
from pluralrm.benchmarks.simulated.texts import Levels, Signal

Belief = npt.NDArray[np.float64]
"""The probability of each possible taste, in the order of the world's arrays."""

IMPOSSIBLE = 1e-300
"""Stands for probability 0 in a logarithm: where no taste fits all posts (noise=0), those that fit most are left."""


class World(NamedTuple):
    """Arrays over the possible tastes, and the sharpness of a choice."""

    prior: Belief
    weights: npt.NDArray[np.int8]
    """(signals, tastes): what an answer of this level gains under this taste."""
    speaks: npt.NDArray[np.float64]
    """(signals, tastes): log-probability that a post which is no chatter speaks for this level."""
    places: dict[Signal, int]
    sharpness: float


@lru_cache(maxsize=8)
def world(cares: int, noise: float, sharpness: float, crowd: float) -> World:
    """Return the enumerated world of these settings; no other setting touches what can be known."""
    settings = Settings(cares=cares, noise=noise, sharpness=sharpness, crowd=crowd)
    heard = signals()
    places = {signal: place for place, signal in enumerate(heard)}
    tastes, prior = zip(*(each for each in every_taste(settings) if each[1] > 0), strict=True)
    weights = np.zeros((len(heard), len(tastes)), np.int8)
    for number, taste in enumerate(tastes):
        for want in taste:
            weights[places[Signal(want.attribute, want.level)], number] = want.weight
    spoken = (1 - noise) * weights / weights.sum(axis=0, dtype=float) + noise / len(heard)
    return World(np.array(prior), weights, np.log(np.maximum(spoken, IMPOSSIBLE)), places, sharpness)


def belief(known: World, spoken: Iterable[Signal]) -> Belief:
    """Return the posterior over tastes given what the posts speak for; with no posts, the prior.

    Chatter is as likely under every taste, so it drops out of Bayes' rule.
    """
    logs = np.zeros(known.prior.shape)
    for signal, count in sorted(Counter(spoken).items()):
        logs += count * known.speaks[known.places[signal]]
    masses = known.prior * np.exp(logs - logs.max())
    posterior: Belief = masses / masses.sum()
    return posterior


def worth(known: World, believed: Belief, answer: Levels) -> float:
    """Return the share of the wants, by weight, that an answer is expected to meet, over all tastes believed in."""
    met = known.weights[[known.places[Signal(*each)] for each in answer.items()]].sum(axis=0, dtype=float)
    return float(met / known.weights.sum(axis=0, dtype=float) @ believed)


def chances(known: World, believed: Belief, answers: Sequence[Levels]) -> list[float]:
    """Return the probability with which each answer is chosen, over all tastes believed in."""
    rows = [[known.places[Signal(*each)] for each in answer.items()] for answer in answers]
    utilities = np.stack([known.weights[row].sum(axis=0, dtype=np.int8) for row in rows])  # (answers, tastes)
    odds = np.exp(known.sharpness * (utilities - utilities.max(axis=0)))
    return [float(value) for value in (odds / odds.sum(axis=0)) @ believed]

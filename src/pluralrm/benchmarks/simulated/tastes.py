"""Latent tastes, and how they choose between answers and speak in posts. Everything a ceiling needs to know is here.

A taste is a few wants: an attribute of the answer, the level wanted, and a weight. The utility of an answer is the sum
of the weights of the wants that it meets; other attributes are all the same to this user. Choices are a Bradley-Terry
draw (a softmax over the candidates, for more than two): P(j) = exp(sharpness * u_j) / sum of all.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import NamedTuple

from pluralrm.benchmarks.simulated.settings import Settings
from pluralrm.benchmarks.simulated.texts import Levels, Signal, attributes

WEIGHTS = (1, 2)
"""How much a want can weigh, each equally often."""


class Want(NamedTuple):
    """One thing that a user wants of every answer."""

    attribute: str
    level: str
    weight: int


Taste = tuple[Want, ...]


@lru_cache(maxsize=1)
def signals() -> tuple[Signal, ...]:
    """Return everything that a post can speak for: each level of each attribute."""
    return tuple(Signal(attribute.name, level) for attribute in attributes() for level in attribute.levels)


def every_taste(settings: Settings) -> Iterator[tuple[Taste, float]]:
    """Yield each possible taste with its prior probability; the probabilities sum to 1."""
    drawn = list(combinations(attributes(), settings.cares))
    for subset in drawn:
        for wanted in product(*(attribute.levels for attribute in subset)):
            chances = [
                _level_chance(level, attribute.crowd, len(attribute.levels), settings.crowd)
                for attribute, level in zip(subset, wanted, strict=True)
            ]
            chance = math.prod(chances) / len(drawn) / len(WEIGHTS) ** settings.cares
            for weights in product(WEIGHTS, repeat=settings.cares):
                names = (attribute.name for attribute in subset)
                yield tuple(map(Want, names, wanted, weights)), chance


def _level_chance(level: str, common: str, levels: int, crowd: float) -> float:
    return crowd * (level == common) + (1 - crowd) / levels


def draw_taste(rng: random.Random, settings: Settings) -> Taste:
    """Return a taste drawn from the prior, the heaviest want first."""
    wants = []
    for attribute in rng.sample(attributes(), settings.cares):
        follows, own, weight = rng.random() < settings.crowd, rng.choice(list(attribute.levels)), rng.choice(WEIGHTS)
        wants.append(Want(attribute.name, attribute.crowd if follows else own, weight))
    return tuple(sorted(wants, key=lambda want: -want.weight))


def draw_signal(rng: random.Random, taste: Taste, settings: Settings) -> Signal | None:
    """Return what a post speaks for: a want (drawn by weight), a level at random (noise), or nothing (chatter).

    All three are drawn each time, so that another noise or chatter changes only the posts that it must.
    """
    chatter, noise = rng.random() < settings.chatter, rng.random() < settings.noise
    want = rng.choices(taste, [want.weight for want in taste])[0]
    stray = rng.choice(signals())
    if chatter:
        return None
    return stray if noise else Signal(want.attribute, want.level)


def utility(taste: Taste, answer: Levels) -> int:
    """Return the sum of the weights of the wants that an answer meets."""
    return sum(want.weight for want in taste if answer[want.attribute] == want.level)


def share_met(taste: Taste, answer: Levels) -> float:
    """Return the share of the wants, by weight, that an answer meets."""
    return utility(taste, answer) / sum(want.weight for want in taste)


def choice_chances(utilities: Sequence[int], sharpness: float) -> list[float]:
    """Return the probability with which each candidate is chosen."""
    top = max(utilities)
    odds = [math.exp(sharpness * (value - top)) for value in utilities]
    return [value / sum(odds) for value in odds]


def decider(taste: Taste, answers: Sequence[Levels]) -> tuple[str, int]:
    """Return the attribute that sets this user's best answer apart from the second best, and by how much it leads.

    The attribute is `several` where no want weighs more than all others, `nothing` where the two are equally good.
    """
    second, first = sorted(answers, key=lambda answer: utility(taste, answer))[-2:]
    margin = utility(taste, first) - utility(taste, second)
    gains = _gains(taste, first, second)
    top = max(gains.values())
    leaders = [name for name, gain in gains.items() if gain == top]
    if margin == 0:
        return "nothing", 0
    return (leaders[0] if len(leaders) == 1 else "several"), margin


def _gains(taste: Taste, first: Levels, second: Levels) -> Mapping[str, int]:
    return {
        want.attribute: want.weight * ((first[want.attribute] == want.level) - (second[want.attribute] == want.level))
        for want in taste
    }

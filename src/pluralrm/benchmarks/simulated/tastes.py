"""Latent tastes, and how they choose between answers and speak in posts. Everything a ceiling needs to know is here.

A taste is a few wants: an attribute of the answer, the level wanted, and a weight. The utility of an answer is the sum
of the weights of the wants that it meets; other attributes are all the same to this user. Choices are a Bradley-Terry
draw (a softmax over the candidates, for more than two): P(j) = exp(sharpness * u_j) / sum of all.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import combinations, product
from math import nan
from typing import NamedTuple

from pluralrm.benchmarks.simulated.texts import Levels, Signal, attributes
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec, whole_number


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """One simulated world. Users, posts and questions come one by one from the seed: more of them change none before.

    `noise` and `chatter` are probabilities of a post: to speak for a level drawn at random, and to speak for none.
    `sharpness` multiplies utilities in a choice (0: a coin); `crowd` is the share of tastes that everybody has.
    `leak` and `general` are probabilities of an item's label: to go to the longest answer for any user, and to the only
    answer that is to the point, the others being about another topic.
    So many people (`crossed`) judge the same answers to the same questions, and a share of them twice (`repeats`).
    With `groups` everybody declares one of so many, and the share `alike` of its people have the taste of the group.
    """

    users: int = 200
    items: int = 4
    posts: int = 20
    pairs: int = 4
    candidates: int = 2
    domains: int = 3
    cares: int = 3
    noise: float = 0.5
    chatter: float = 0.3
    sharpness: float = 1.0
    crowd: float = 0.0
    seed: int = 0
    leak: float = 0.0
    general: float = 0.0
    crossed: int = 0
    groups: int = 0
    alike: float = 0.5
    repeats: float = 0.0

    def __str__(self) -> str:
        # Worlds of before had no such settings: they are called what they were.
        later = {"leak": 0, "general": 0, "crossed": 0, "groups": 0, "alike": 0.5, "repeats": 0}
        options = {key: value for key, value in asdict(self).items() if value != later.get(key)}
        return str(Spec("simulated", options={key: str(value) for key, value in options.items()}))


RANGES: Mapping[str, tuple[float, float]] = {
    "users": (1, 99_999),
    "items": (1, 144),
    "posts": (0, 999),
    "pairs": (0, 144),
    "candidates": (2, 4),
    "domains": (1, 3),
    "cares": (1, 4),
    "noise": (0, 1),
    "chatter": (0, 1),
    "sharpness": (0, 20),
    "crowd": (0, 1),
    "seed": (0, 2**63 - 1),
    "leak": (0, 1),
    "general": (0, 1),
    "crossed": (0, 99_999),
    "groups": (0, 20),
    "alike": (0, 1),
    "repeats": (0, 1),
}
"""Smallest and largest value of each key; more than four cared-for attributes would be too many tastes to enumerate."""

QUESTIONS = 144
"""How many different questions a domain has: what one user is asked, in items and context pairs together."""


def read_settings(spec: Spec) -> SimulationSettings:
    """Return the settings in a spec; a key that is unknown, given twice or out of range is a SpecError."""
    chosen = _options(spec)
    numbers = {
        field.name: _whole(chosen, field.name) if isinstance(field.default, int) else _number(chosen, field.name)
        for field in fields(SimulationSettings)
    }
    settings = SimulationSettings(**numbers)  # type: ignore[arg-type] # each number has its field's type
    if settings.items + settings.pairs > QUESTIONS:
        actual = f"items={settings.items} and pairs={settings.pairs}"
        raise SpecError(f"simulated: found {actual}, wanted at most {QUESTIONS} together: there are no more questions.")
    return settings


def _options(spec: Spec) -> dict[str, str]:
    """Return key and text of every option; in `simulated:users=9,seed=1` the first one is the spec's target."""
    options = dict(spec.options)
    if spec.target:
        key, equals, value = spec.target.partition("=")
        if not (equals and key and value):
            raise SpecError(f"simulated: found {spec.target!r}, wanted key=value, as in simulated:users=200,seed=1")
        if key in options:
            raise SpecError(f"simulated: key {key!r} is given twice.")
        options[key] = value
    for key in options:
        if key not in RANGES:
            raise SpecError(f"benchmark 'simulated' has no key {key!r}.{did_you_mean(key, RANGES)}")
    return {**{key: str(value) for key, value in asdict(SimulationSettings()).items()}, **options}


def _whole(chosen: Mapping[str, str], key: str) -> int:
    least, most = RANGES[key]
    number = whole_number(chosen[key], f"simulated: {key}", least=int(least))
    if number > most:
        raise SpecError(f"simulated: {key} is {chosen[key]!r}; wanted at most {most}.")
    return number


def _number(chosen: Mapping[str, str], key: str) -> float:
    least, most = RANGES[key]
    try:
        number = float(chosen[key])
    except ValueError:
        number = nan
    if not least <= number <= most:
        raise SpecError(f"simulated: {key} is {chosen[key]!r}; wanted a number from {least} to {most}.")
    return number


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


def every_taste(settings: SimulationSettings) -> Iterator[tuple[Taste, float]]:
    """Yield each possible taste with its prior probability; the probabilities sum to 1."""
    drawn = list(combinations(attributes(), settings.cares))
    for subset in drawn:
        for levels in product(*(attribute.levels for attribute in subset)):
            chances = [
                _level_chance(level, attribute.crowd, len(attribute.levels), settings.crowd)
                for attribute, level in zip(subset, levels, strict=True)
            ]
            chance = math.prod(chances) / len(drawn) / len(WEIGHTS) ** settings.cares
            for weights in product(WEIGHTS, repeat=settings.cares):
                names = (attribute.name for attribute in subset)
                yield tuple(map(Want, names, levels, weights)), chance


def _level_chance(level: str, common: str, levels: int, crowd: float) -> float:
    return crowd * (level == common) + (1 - crowd) / levels


def draw_taste(rng: random.Random, settings: SimulationSettings) -> Taste:
    """Return a taste drawn from the prior, the heaviest want first."""
    wants = []
    for attribute in rng.sample(attributes(), settings.cares):
        follows, own, weight = rng.random() < settings.crowd, rng.choice(list(attribute.levels)), rng.choice(WEIGHTS)
        wants.append(Want(attribute.name, attribute.crowd if follows else own, weight))
    return tuple(sorted(wants, key=lambda want: -want.weight))


def draw_signal(rng: random.Random, taste: Taste, settings: SimulationSettings) -> Signal | None:
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
